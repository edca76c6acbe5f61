"""Bundles that move back and forth, and what the moves changed."""
