"""Diagnoses of saved snapshots and of recorded time, each computed once, in the background."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

from core.diagnosis.model import Diagnosis
from core.diagnosis.request import DiagnoseRequest
from core.diagnosis.systems import diagnose
from core.errors import OpsError
from core.progress import NoProgress
from core.snapshot.store import CachedSnapshot
from dashboard import services
from dashboard.components.systems import system_of
from dashboard.queries.background import BackgroundResults
from dashboard.services import history

if TYPE_CHECKING:
    from core.history.analysis.diagnosis import OverTime
    from dashboard.services import Config

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


def span_end(config: Config, cluster: str) -> datetime | None:
    """Return the newest recorded minute of a cluster; ``None``: nothing is recorded.

    Raises:
        HistoryError: The history cannot be read.
    """
    span = history.history(config).span(cluster)
    return None if span is None else span[1]


def _over_time(key: tuple[str, int, str, datetime]) -> OverTime | str:
    from core.history.analysis import diagnosis  # noqa: PLC0415  # only when the tab is opened

    cluster, hours, name, _ = key
    config = services.page_config()
    try:
        return diagnosis.over_time(
            history.history(config),
            cluster,
            timedelta(hours=hours),
            DiagnoseRequest(seconds=SECONDS),
            NoProgress(),
            minute_s=config.history.minute_s,
            moved=name,
        )
    except OpsError as error:
        return f"{error.message} {error.hint}".strip()


over_time = BackgroundResults(_over_time, max_entries=16)
"""By cluster, hours back, what moved and newest minute: the answer, or why there is none."""
