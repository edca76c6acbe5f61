"""Commands on what a cluster would decide, and what would be better."""
