"""Cluster: whether it is whole and balanced; level, nodes and settings."""
