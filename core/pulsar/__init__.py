"""Pulsar's own rules: settings, load, ring, lookup, isolation, placement."""
