"""The requests that many Pulsar clusters answer at once."""
