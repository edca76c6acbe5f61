"""Names and number formats of every page."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

RESOURCE_NAMES: Final = {
    "cpu": "CPU",
    "memory": "Heap",
    "direct_memory": "Direct memory",
    "bandwidth_in": "NIC in",
    "bandwidth_out": "NIC out",
}
ORIGINS: Final = {
    "default": "default",
    "file": "broker.conf",
    "dynamic": "dynamic",
    "override": "what if",
    "assumed": "assumed",
}
"""Where the value of a setting comes from."""
UNKNOWN: Final = "unknown"


def resource_name(resource: str | None) -> str:
    """Return a resource for people; ``unknown`` for ``None``."""
    return UNKNOWN if resource is None else RESOURCE_NAMES.get(resource, resource)


def clock(moment: datetime | None) -> str:
    """Return ``14:03:05 UTC``, or ``unknown`` for ``None``."""
    return UNKNOWN if moment is None else moment.astimezone(UTC).strftime("%H:%M:%S UTC")


def file_name(cluster: str, what: str, moment: datetime, suffix: str) -> str:
    """Return ``<cluster>-<what>-20261121T140305Z.<suffix>``, safe for every file system."""
    stamp = moment.astimezone(UTC).strftime("%Y%m%dT%H%M%SZ")
    plain = "".join(
        sign if sign.isalnum() or sign in "-_." else "-" for sign in f"{cluster}-{what}"
    )
    return f"{plain}-{stamp}.{suffix}"
