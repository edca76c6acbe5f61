"""A setting's value as servers write it; what plans and broker.conf lines share."""

from __future__ import annotations


def setting_text(value: object) -> str:
    """Return a JSON value as servers write it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | tuple):
        return ",".join(str(one) for one in value)
    return f"{value:g}" if isinstance(value, float) else str(value)
