"""Figures of Pulsar clusters."""
