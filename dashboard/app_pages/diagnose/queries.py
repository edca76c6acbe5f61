"""Diagnoses of saved snapshots, each computed once, in the background."""

from __future__ import annotations

from typing import Final

from core.diagnosis.model import Diagnosis
from core.diagnosis.request import DiagnoseRequest
from core.diagnosis.systems import diagnose
from core.errors import OpsError
from core.snapshot.store import CachedSnapshot
from dashboard.components.systems import system_of
from dashboard.queries.background import BackgroundResults

SECONDS: Final = 20.0
"""Time for the simulations of one diagnosis; the page stays usable meanwhile."""


def _diagnosed(key: tuple[str, CachedSnapshot]) -> Diagnosis | str:
    kind, stored = key
    try:
        reading = system_of(kind).page.read(stored)
        return diagnose(reading.snapshot, DiagnoseRequest(seconds=SECONDS))
    except OpsError as error:
        return f"{error.message} {error.hint}".strip()


diagnosed = BackgroundResults(_diagnosed, max_entries=32)
"""By kind of the cluster and snapshot: the diagnosis, or the sentence why there is none."""
