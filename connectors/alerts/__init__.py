"""Alerts: looking at clusters, remembering what was told, telling people."""
