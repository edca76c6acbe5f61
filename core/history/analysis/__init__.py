"""Trends, flaps and prediction accuracy, computed from the recorded minutes."""
