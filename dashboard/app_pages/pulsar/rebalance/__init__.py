"""Rebalance: what the balancer would do, what would be better, and doing it."""
