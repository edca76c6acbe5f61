"""Simulation of a cluster under other settings."""

from __future__ import annotations

from typing import Any, Final

from core.diagnosis.pulsar.advice import change_outcome
from core.snapshot.store import CachedSnapshot
from dashboard.queries.cache import cached
from dashboard.queries.pulsar.snapshots import reading

_SIMULATED_AT_ONCE: Final = 5_000
"""Bundles of a cluster on which a page simulates changes; larger ones are diagnosed instead."""


def _outcome(key: tuple[CachedSnapshot, tuple[tuple[str, Any], ...]]) -> tuple[str, bool | None]:
    stored, assumed = key
    one = reading(stored)
    if one.view.bundles.size > _SIMULATED_AT_ONCE:
        return "", None
    return change_outcome(one.snapshot, dict(assumed))


outcome = cached(_outcome, max_entries=64)
"""What becomes of the cluster under other settings, and whether that is no worse; see
:func:`core.diagnosis.pulsar.advice.change_outcome`. Empty: the cluster is too large."""
