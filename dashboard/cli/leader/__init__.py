"""Commands on the leader's record."""
