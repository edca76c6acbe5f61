"""What every connection shares: which addresses are allowed, and no secret in an answer."""
