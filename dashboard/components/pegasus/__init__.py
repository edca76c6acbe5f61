"""Widgets that several pages of Pegasus clusters share."""
