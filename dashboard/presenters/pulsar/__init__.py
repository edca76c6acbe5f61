"""Results about Pulsar clusters as tables and chart numbers."""
