"""Tiers: hours and days made of recorded minutes."""
