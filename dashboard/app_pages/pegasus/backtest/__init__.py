"""What the back-test page shows of Pegasus clusters."""
