"""Snapshots: what they are, how they are kept, how two of them differ."""

from core.snapshot.model import (
    LoadManager,
    Manifest,
    Problem,
    PulsarSnapshot,
    TableManifest,
)

__all__ = ["LoadManager", "Manifest", "Problem", "PulsarSnapshot", "TableManifest"]
