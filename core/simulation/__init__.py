"""Rounds of shedding and placement on a snapshot, until it settles or a horizon is reached."""
