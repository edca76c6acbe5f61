"""Rounds of the shedding strategies, on snapshots."""
