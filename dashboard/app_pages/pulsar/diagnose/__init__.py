"""Pulsar clusters on the Diagnose page."""
