"""Findings, the rule engine and the spread of a load: knows no system."""
