"""What two pages of a Pulsar cluster share."""
