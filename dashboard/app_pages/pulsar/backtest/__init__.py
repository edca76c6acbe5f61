"""What the back-test page shows of Pulsar clusters."""
