"""Alerts: what fires, silences, thresholds, and a test message."""
