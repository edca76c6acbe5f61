"""Cached reads of Pegasus clusters."""
