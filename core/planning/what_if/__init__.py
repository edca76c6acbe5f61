"""Strategies compared: every shedding strategy with every placement strategy on one cluster."""
