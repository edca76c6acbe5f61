"""Placement & lookup: where a topic is and why; where a bundle would be placed."""
