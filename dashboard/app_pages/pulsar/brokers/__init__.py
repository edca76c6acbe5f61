"""Brokers: who is hot, against what, since when."""
