"""Trends of recorded clusters, day by day in this process."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from core.errors import UnknownNameError
from core.history.analysis.requests import RecordScope, TrendsRequest
from core.history.analysis.trends.answer import RecordedMinutes, Trends, answer
from core.history.analysis.trends.registry import TRENDS_OF, subjects_of
from core.history.analysis.trends.subject import TrendSubject
from core.history.analysis.trends.trends import DAY_MS
from core.history.store.layout import HistoryError
from core.progress import Progress
from core.units import ms_to_datetime

if TYPE_CHECKING:
    from core.history.store.store import HistoryStore


def requested_subjects(request: TrendsRequest, system: str) -> list[TrendSubject]:
    """Return the requested subjects of a cluster of a system."""
    return [one for one in subjects_of(system) if one.name in request.subjects]


def chosen_clusters(store: HistoryStore, names: Sequence[str]) -> list[str]:
    """Return the requested recorded clusters.

    Raises:
        UnknownNameError: One that was not recorded.
        HistoryError: Nothing was recorded at all.
    """
    known = store.clusters()
    for name in names:
        if name not in known:
            raise UnknownNameError.of("recorded cluster", name, known)
    if not known:
        raise HistoryError(
            f"No history is recorded at {store.location.uri}.",
            hint="Run `trimtab collect` for a few minutes, or specify another history.",
        )
    return [name for name in known if not names or name in names]


def recorded_of(store: HistoryStore, scope: RecordScope) -> dict[str, RecordedMinutes]:
    """Return the recorded minutes of each cluster of the scope whose system has trends.

    Raises:
        UnknownNameError: A cluster that was not recorded.
        HistoryError: Nothing was recorded in that time, or a named cluster is of a system without
            trends.
    """
    found = {}
    others = set()
    for name in chosen_clusters(store, scope.clusters):
        minutes = store.minutes(name, scope.start, scope.end)
        if not minutes.num_rows:
            continue
        system = str(minutes["system"][-1].as_py())
        if system not in TRENDS_OF:
            others.add(system)
            continue
        found[name] = RecordedMinutes(
            system=system,
            taken_at=np.asarray(minutes["taken_at"].to_numpy(), np.int64),
            names={
                one.kind: one.names(store, name)
                for one in subjects_of(system)
                if one.names is not None
            },
        )
    if others and (scope.clusters or not found):
        raise HistoryError(
            f"Trends are not available for {' and '.join(sorted(others))} clusters.",
            hint=f"Specify a cluster of {' or '.join(TRENDS_OF)}.",
        )
    if not found:
        raise HistoryError(
            "No minute was recorded in that period.", hint="See `trimtab history minutes CLUSTER`."
        )
    return found


def trends_here(
    store: HistoryStore, request: TrendsRequest, scope: RecordScope, progress: Progress
) -> Trends:
    """Return the trends of recorded clusters, a day at a time.

    Raises:
        UnknownNameError: A cluster that was not recorded.
        HistoryError: Nothing was recorded in that time, or it cannot be read.
        JobStoppedError: A stop was requested.
    """
    recorded = recorded_of(store, scope)
    work = [
        (cluster, day, subject)
        for cluster, one in sorted(recorded.items())
        for day in np.unique(one.taken_at // DAY_MS).tolist()
        for subject in requested_subjects(request, one.system)
    ]
    trends: list[pa.Table] = []
    lasts: list[pa.Table] = []
    for done, (cluster, day, subject) in enumerate(work):
        progress.step(done, len(work), f"{subject.name} of {cluster}")
        for name, table in _one_day(store, (cluster, day, subject), recorded[cluster], request):
            (lasts if name == "last" else trends).append(with_cluster(table, cluster))
    progress.step(len(work), len(work), "merging days")
    return answer(trends, lasts, recorded, request.period)


def _one_day(
    store: HistoryStore,
    part: tuple[str, int, TrendSubject],
    recorded: RecordedMinutes,
    request: TrendsRequest,
) -> Iterator[tuple[str, pa.Table]]:
    cluster, day, subject = part
    taken = recorded.taken_at[recorded.taken_at // DAY_MS == day]
    span = ms_to_datetime(int(taken[0])), ms_to_datetime(int(taken[-1]))
    rows = store.rows(subject.rows, cluster, *span, columns=subject.columns)
    yield from subject.day(rows, request.period, recorded.per_period(request.period))


def with_cluster(table: pa.Table, cluster: str) -> pa.Table:
    """Put the cluster's name in front."""
    names = pa.repeat(pa.scalar(cluster), table.num_rows)
    return table.add_column(0, pa.field("cluster", pa.string(), nullable=False), names)
