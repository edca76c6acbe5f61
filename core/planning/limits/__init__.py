"""Limits of tenants, namespaces and resource groups, and their present use."""
