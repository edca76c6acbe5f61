"""The REST interface of the simulated brokers."""
