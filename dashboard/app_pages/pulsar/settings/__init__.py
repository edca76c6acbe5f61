"""Settings: what is wrong with them, which are active, where each comes from, what it means."""
