"""Advisors: the arithmetic behind what operators tune, with the cluster's own numbers."""
