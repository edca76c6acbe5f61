"""What the fleet overview shows of Pulsar clusters."""
