"""The requests that many Pegasus clusters answer at once."""
