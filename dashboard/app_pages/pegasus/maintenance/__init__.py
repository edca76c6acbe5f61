"""Maintenance: taking nodes out of service and back."""
