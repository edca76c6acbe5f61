"""The Pulsar admin REST interface."""
