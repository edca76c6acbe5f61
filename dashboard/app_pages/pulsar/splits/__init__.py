"""Splits: which bundles are near one, where they would be cut, and whether that helps."""
