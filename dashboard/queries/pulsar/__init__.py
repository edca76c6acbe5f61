"""Cached reads that two pages of Pulsar clusters share."""
