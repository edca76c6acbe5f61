"""Placement of bundles, on snapshots."""
