"""Alerts: what people are told of, silences, and a test of who is told."""
