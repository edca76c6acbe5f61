"""Parts of the fleet overview for Pulsar clusters."""
