"""Trends of recorded clusters, day by day in this process."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from core.errors import UnknownNameError
from core.history.analysis.requests import Period, RecordScope, TrendsRequest
from core.history.analysis.trends.answer import Recorded, Trends, answer
from core.history.analysis.trends.trends import (
    BROKER_COLUMNS,
    BUNDLE_COLUMNS,
    DAY_MS,
    NODE_COLUMNS,
    TABLE_COLUMNS,
    broker_day,
    bundle_day,
    last_of,
    node_day,
    table_day,
)
from core.history.store.layout import HistoryError
from core.progress import Progress
from core.units import ms_to_datetime

if TYPE_CHECKING:
    from core.history.store.store import HistoryStore

KIND_OF: Final = {
    "brokers": "brokers",
    "bundles": "bundle_loads",
    "nodes": "nodes",
    "tables": "partition_loads",
}
"""Which kind of history rows tells of what."""

COLUMNS: Final[dict[str, tuple[str, ...]]] = {
    "brokers": BROKER_COLUMNS,
    "bundles": BUNDLE_COLUMNS,
    "nodes": NODE_COLUMNS,
    "tables": TABLE_COLUMNS,
}
OF_SYSTEM: Final = {"pulsar": ("brokers", "bundles"), "pegasus": ("nodes", "tables")}


def subjects_of(request: TrendsRequest, system: str) -> list[str]:
    """Return the requested subjects of a cluster of a system."""
    return [name for name in OF_SYSTEM[system] if name in request.subjects]


def chosen_clusters(store: HistoryStore, names: Sequence[str]) -> list[str]:
    """Return the recorded clusters that are asked for.

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
            f"Nothing is recorded at {store.location.uri}.",
            hint="Let `trimtab collect` run for some minutes, or name another history.",
        )
    return [name for name in known if not names or name in names]


def recorded_of(store: HistoryStore, scope: RecordScope) -> dict[str, Recorded]:
    """Return the recorded minutes of each cluster of the scope.

    Raises:
        UnknownNameError: A cluster that was not recorded.
        HistoryError: Nothing was recorded in that time.
    """
    found = {}
    for name in chosen_clusters(store, scope.clusters):
        minutes = store.minutes(name, scope.start, scope.end)
        if not minutes.num_rows:
            continue
        system = str(minutes["system"][-1].as_py())
        found[name] = Recorded(
            system=system,
            taken_at=np.asarray(minutes["taken_at"].to_numpy(), np.int64),
            names=_table_names(store, name) if system == "pegasus" else {},
        )
    if not found:
        raise HistoryError(
            "No minute was recorded in that time.", hint="See `trimtab history minutes CLUSTER`."
        )
    return found


def _table_names(store: HistoryStore, cluster: str) -> Mapping[str, str]:
    rows = store.rows("tables", cluster, columns=["app_id", "name"])
    pairs = zip(rows["app_id"].to_pylist(), rows["name"].to_pylist(), strict=True)
    return {str(app_id): name for app_id, name in pairs if name}


def trends_here(
    store: HistoryStore, request: TrendsRequest, scope: RecordScope, progress: Progress
) -> Trends:
    """Return the trends of recorded clusters, a day at a time.

    Raises:
        UnknownNameError: A cluster that was not recorded.
        HistoryError: Nothing was recorded in that time, or it cannot be read.
        JobStoppedError: Somebody asked for it to stop.
    """
    recorded = recorded_of(store, scope)
    work = [
        (cluster, day, subject)
        for cluster, one in sorted(recorded.items())
        for day in np.unique(one.taken_at // DAY_MS).tolist()
        for subject in subjects_of(request, one.system)
    ]
    trends: list[pa.Table] = []
    lasts: list[pa.Table] = []
    for done, (cluster, day, subject) in enumerate(work):
        progress.step(done, len(work), f"{subject} of {cluster}")
        for name, table in _one_day(store, (cluster, day, subject), recorded[cluster], request):
            (lasts if name == "last" else trends).append(with_cluster(table, cluster))
    progress.step(len(work), len(work), "putting days together")
    return answer(trends, lasts, recorded, request.period)


def _one_day(
    store: HistoryStore, part: tuple[str, int, str], recorded: Recorded, request: TrendsRequest
) -> Iterator[tuple[str, pa.Table]]:
    cluster, day, subject = part
    taken = recorded.taken_at[recorded.taken_at // DAY_MS == day]
    span = ms_to_datetime(int(taken[0])), ms_to_datetime(int(taken[-1]))
    rows = store.rows(KIND_OF[subject], cluster, *span, columns=COLUMNS[subject])
    yield from day_tables(subject, rows, recorded, request.period)


def day_tables(
    subject: str, rows: pa.Table, recorded: Recorded, period: Period
) -> Iterator[tuple[str, pa.Table]]:
    """Yield ``trends``, and of bundles ``last``, of one day of one cluster.

    Args:
        subject: ``brokers``, ``bundles``, ``nodes`` or ``tables``.
        rows: Columns :data:`COLUMNS`.
        recorded: The cluster's minutes.
        period: Of the trends.
    """
    match subject:
        case "brokers":
            yield "trends", broker_day(rows, period)
        case "nodes":
            yield "trends", node_day(rows, period)
        case "tables":
            yield "trends", table_day(rows, period, recorded.per_period(period))
        case _:
            yield "trends", bundle_day(rows, period, recorded.per_period(period))
            yield "last", last_of(rows)


def with_cluster(table: pa.Table, cluster: str) -> pa.Table:
    """Put the cluster's name in front."""
    names = pa.repeat(pa.scalar(cluster), table.num_rows)
    return table.add_column(0, pa.field("cluster", pa.string(), nullable=False), names)
