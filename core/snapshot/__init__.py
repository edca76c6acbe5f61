"""Snapshots: what they are, how they are stored, how two of them differ."""

from __future__ import annotations

from core.snapshot.model import (
    LoadManager,
    Manifest,
    Problem,
    PulsarSnapshot,
    TableManifest,
)
from core.snapshot.pegasus import PegasusSnapshot

__all__ = [
    "AnySnapshot",
    "LoadManager",
    "Manifest",
    "PegasusSnapshot",
    "Problem",
    "PulsarSnapshot",
    "TableManifest",
]

AnySnapshot = PulsarSnapshot | PegasusSnapshot
"""A snapshot of a cluster of either system."""
