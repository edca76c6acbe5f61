"""The Delta tables: their layout, writing, reading, retention and integrity."""
