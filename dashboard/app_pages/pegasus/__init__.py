"""The pages of Pegasus clusters."""
