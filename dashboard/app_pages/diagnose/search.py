"""The search for causes on a saved snapshot: what a process of its own imports, and no page."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from core.diagnosis.model import Diagnosis
from core.diagnosis.request import DiagnoseRequest
from core.diagnosis.systems import diagnose, system_of
from core.errors import OpsError
from core.facts import facts_module
from core.progress import Progress
from core.snapshot.store import CachedSnapshot, SnapshotStore


class SearchInput(NamedTuple):
    """What a diagnosis is computed from.

    Attributes:
        kind: Of the cluster.
        stored: The snapshot in question.
        store: Folder of all saved snapshots; those before the one in question are read too.
    """

    kind: str
    stored: CachedSnapshot
    store: Path


class DiagnosisResult(NamedTuple):
    """A diagnosis with the values measured without it.

    Attributes:
        diagnosis: Causes, best first.
        deviation: Max deviation of the snapshot from the mean, share of it; ``None``: unknown.
    """

    diagnosis: Diagnosis
    deviation: float | None


def diagnosed_on_disk(question: SearchInput, progress: Progress) -> DiagnosisResult | str:
    """Return the diagnosis of a saved snapshot, or the sentence why there is none."""
    load = facts_module(question.kind).load
    try:
        snapshot = load(question.stored.path)
        before = SnapshotStore(question.store).before(
            snapshot.manifest.cluster, question.stored.taken_at
        )
        earlier = [load(stored.path) for stored in before]
        diagnosis = diagnose(snapshot, DiagnoseRequest(), progress, earlier=earlier)
        return DiagnosisResult(diagnosis, system_of(question.kind).unevenness(snapshot))
    except OpsError as error:
        return f"{error.message} {error.hint}".strip()
