"""Policies & quotas: who is limited to what, who is at a limit, and changing it."""
