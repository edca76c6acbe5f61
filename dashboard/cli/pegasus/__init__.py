"""Commands on Pegasus clusters."""
