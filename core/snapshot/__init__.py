"""Snapshots: what they are, how they are stored, how two of them differ."""

from __future__ import annotations

from core.snapshot.model import (
    LoadManager,
    Manifest,
    Problem,
    PulsarSnapshot,
    TableManifest,
)

__all__ = [
    "LoadManager",
    "Manifest",
    "Problem",
    "PulsarSnapshot",
    "TableManifest",
]
