"""Talking to Pulsar clusters."""
