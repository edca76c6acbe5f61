"""The diagnosis of a Pegasus cluster."""
