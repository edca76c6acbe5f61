"""Which clusters are too large for one task, and what answers for them."""
