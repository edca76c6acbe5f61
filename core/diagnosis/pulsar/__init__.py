"""The diagnosis of a Pulsar cluster."""
