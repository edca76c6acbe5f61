"""Isolation & domains: who may serve what, what is wrong with it, and changing it."""
