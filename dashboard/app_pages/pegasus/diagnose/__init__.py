"""Pegasus clusters on the Diagnose page."""
