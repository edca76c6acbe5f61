"""Cached reads that two pages share: each answer is computed once."""
