"""Advisors: the arithmetic behind what operators tune, with the numbers it comes from."""
