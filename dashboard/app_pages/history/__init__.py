"""History: what happened, minute by minute; any past minute, and the difference between two."""
