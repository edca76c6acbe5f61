"""Parts of the fleet overview for Pegasus clusters."""
