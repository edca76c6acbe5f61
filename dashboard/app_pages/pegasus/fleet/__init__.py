"""What the fleet overview shows of Pegasus clusters."""
