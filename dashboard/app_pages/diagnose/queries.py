"""Diagnoses of saved snapshots and of recorded time, each computed once, in the background."""

from __future__ import annotations

import time
from collections.abc import Hashable
from contextlib import suppress
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Final

from core.diagnosis.request import DiagnoseRequest
from core.diagnosis.systems import first_about
from core.errors import OpsError
from core.facts import NOTHING_ASSUMED
from core.operations.diagnose import OPERATION, ClusterDiagnosis
from core.snapshot.store import CachedSnapshot, load_manifest
from core.spark.engine import answered
from core.spark.fleet import InDirectory
from dashboard import services
from dashboard.app_pages.diagnose.model import SearchProgress
from dashboard.components.systems import system_of
from dashboard.queries.answers import earlier_of
from dashboard.queries.background import BackgroundResults, in_own_process
from dashboard.queries.cache import cached
from dashboard.services import history

if TYPE_CHECKING:
    from core.history.analysis.diagnosis import PeriodDiagnosis
    from dashboard.services import Config

_LARGE_ROWS: Final = 5_000
"""Searches of smaller clusters take less time than a process needs to start."""


class _Search:
    """The progress of the one search that runs: a page reads it while it waits."""

    def __init__(self) -> None:
        self._key: Hashable = None
        self._began = 0.0
        self._step = (0, 0, "")

    def begin(self, key: Hashable) -> None:
        """Forget the search before."""
        self._key, self._began = key, time.monotonic()
        self.step(0, 0, "")

    def step(self, done: int, total: int, words: str) -> None:
        """Note the parts that are done; see :class:`core.progress.Progress`."""
        self._step = (done, total, words)

    def of(self, key: Hashable) -> SearchProgress | None:
        """Return the progress of the search with a key; ``None`` while another search runs."""
        if key != self._key:
            return None
        done, total, words = self._step
        return SearchProgress(done, time.monotonic() - self._began, total, words)


search: Final = _Search()
"""The search on a snapshot that runs: they run one after the other."""

search_over_time: Final = _Search()
"""The search on recorded time that runs."""


def _diagnosed(key: tuple[str, CachedSnapshot]) -> ClusterDiagnosis | str:
    kind, stored = key
    search.begin(key)
    # the earlier snapshots of the others decided on this one
    is_chosen = OPERATION.reads_earlier.get(kind) == "marks"
    earlier = () if is_chosen else earlier_of(stored, kind, OPERATION)
    source = InDirectory(str(stored.path), tuple(str(one.path) for one in earlier))
    diagnose = partial(answered, OPERATION, DiagnoseRequest(), NOTHING_ASSUMED)
    found = in_own_process(diagnose, source, search) if _is_large(key) else diagnose(source, search)
    return f"{found.message} {found.hint}".strip() if isinstance(found, OpsError) else found


def _is_large(key: tuple[str, CachedSnapshot]) -> bool:
    try:
        tables = system_of(key[0]).page.read(key[1]).snapshot.tables
    except OpsError:  # the search says so
        return False
    rows: int = max(table.num_rows for table in tables.values())
    return rows > _LARGE_ROWS


diagnosed = BackgroundResults(_diagnosed, max_entries=32)
"""By kind of the cluster and snapshot: the diagnosis, or the sentence why there is none."""


def _first_about(stored: CachedSnapshot) -> CachedSnapshot:
    kind = load_manifest(stored.path)[1].kind
    if OPERATION.reads_earlier.get(kind) != "marks":
        return stored
    earlier = earlier_of(stored, kind, OPERATION)
    read = system_of(kind).page.read
    snapshots = {}
    for one in (*earlier, stored):
        with suppress(OpsError):  # removed meanwhile
            snapshot = read(one).snapshot
            snapshots[snapshot.snapshot_id] = one, snapshot
    if stored.snapshot_id not in snapshots:
        return stored
    *before, (_, snapshot) = snapshots.values()
    return snapshots[first_about(snapshot, [one for _, one in before]).snapshot_id][0]


to_diagnose = cached(_first_about, max_entries=64)
"""The snapshot whose diagnosis is that of a saved one: for the command and HTTP it is the same."""


def span_end(config: Config, cluster: str) -> datetime | None:
    """Return the newest recorded minute of a cluster; ``None``: nothing is recorded.

    Raises:
        HistoryError: The history cannot be read.
    """
    span = history.history(config).span(cluster)
    return None if span is None else span[1]


def _over_time(key: tuple[str, int, str, datetime]) -> PeriodDiagnosis | str:
    from core.history.analysis import diagnosis  # noqa: PLC0415  # only when the tab is opened

    cluster, hours, name, _ = key
    search_over_time.begin(key)
    config = services.page_config()
    try:
        return diagnosis.over_time(
            history.history(config),
            cluster,
            timedelta(hours=hours),
            DiagnoseRequest(),
            search_over_time,
            minute_s=config.history.minute_s,
            moved=name,
        )
    except OpsError as error:
        return f"{error.message} {error.hint}".strip()


over_time = BackgroundResults(_over_time, max_entries=16)
"""By cluster, hours back, what moved and newest minute: the answer, or why there is none."""
