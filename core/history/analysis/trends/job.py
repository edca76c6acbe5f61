"""Trends of recorded clusters, day by day in this process."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from core.errors import UnknownNameError
from core.history.analysis.requests import Period, RecordScope, TrendsRequest
from core.history.analysis.trends.answer import RecordedMinutes, Trends, answer
from core.history.analysis.trends.registry import TRENDS_OF, subjects_of
from core.history.analysis.trends.subject import TrendSubject
from core.history.analysis.trends.trends import LAST, PERIOD_MS, TRENDS
from core.history.store.layout import DAY_MS, HistoryError
from core.history.store.reading import between
from core.history.tiers.model import CLUSTER_KIND
from core.history.tiers.reading import complete_periods, tier_clusters, tier_loads
from core.history.tiers.registry import DAYS, HOURS
from core.progress import Progress
from core.snapshot.record import Kind
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
    known = sorted({*store.clusters(), *tier_clusters(store)})
    for name in names:
        if name not in known:
            raise UnknownNameError.of("recorded cluster", name, known)
    if not known:
        raise HistoryError(
            f"No history is recorded at {store.location.uri}.",
            hint="Run `trimtab collect` for a few minutes, or specify another history.",
        )
    return [name for name in known if not names or name in names]


def recorded_of(
    store: HistoryStore, scope: RecordScope, period: Period = "minute"
) -> dict[str, RecordedMinutes]:
    """Return the recorded minutes of each cluster of the scope whose system has trends.

    Args:
        store: The history.
        scope: Clusters and time.
        period: Whose tier answers where it can.
    Raises:
        UnknownNameError: A cluster that was not recorded.
        HistoryError: Nothing was recorded in that time, or a named cluster is of a system without
            trends.
    """
    found = {}
    others = set()
    for name in chosen_clusters(store, scope.clusters):
        minutes = store.minutes(name, scope.start, scope.end)
        times = np.asarray(minutes["taken_at"].to_numpy(), np.int64)
        span = between(scope.start, scope.end)
        tier = _TIER_OF.get(period)
        complete = {} if tier is None else complete_periods(store, tier, name, span, times)
        if not times.size and not complete:
            continue
        last_of_tier = complete[max(complete)][0] if complete else ""
        system = str(minutes["system"][-1].as_py()) if times.size else last_of_tier
        if system not in TRENDS_OF:
            others.add(system)
            continue
        of_system = {start: one for start, one in complete.items() if one[0] == system}
        rolled_up = {start: minutes for start, (_, minutes, _) in of_system.items()}
        is_covered = np.isin(times // PERIOD_MS[period] * PERIOD_MS[period], list(rolled_up))
        found[name] = RecordedMinutes(
            system=system,
            taken_at=times[~is_covered],
            rolled_up=rolled_up,
            snapshots=int((~is_covered).sum()) + sum(one[2] for one in of_system.values()),
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
    recorded = recorded_of(store, scope, request.period)
    work = [
        (cluster, day, subject)
        for cluster, one in sorted(recorded.items())
        for day in np.unique(one.taken_at // DAY_MS).tolist()
        for subject in requested_subjects(request, one.system)
    ]
    trends, lasts = trends_of_tiers(store, request, recorded)
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
    counts = recorded.per_period(request.period)
    yield from subject.day(recorded.within(rows), request.period, counts)


_TIER_OF: Final = {"hour": HOURS, "day": DAYS}
"""Tier by the period that it has."""


def trends_of_tiers(
    store: HistoryStore, request: TrendsRequest, recorded: Mapping[str, RecordedMinutes]
) -> tuple[list[pa.Table], list[pa.Table]]:
    """Return the trends and the last rows of the periods that a tier answers.

    Returns:
        Tables of ``OF_CLUSTERS`` and of ``LAST_OF_CLUSTERS``.
    Raises:
        HistoryError: The tier cannot be read.
    """
    trends, lasts = [], []
    for cluster, one in sorted(recorded.items()):
        if not one.rolled_up:
            continue
        tier, starts = _TIER_OF[request.period], sorted(one.rolled_up)
        for subject in requested_subjects(request, one.system):
            rows = _tier_trends(store, tier, cluster, starts, subject.kind, subject.tier_measures)
            trends.append(with_cluster(rows, cluster))
            if subject.is_server:
                rows = _tier_trends(store, tier, cluster, starts, CLUSTER_KIND, _OF_CLUSTER)
                trends.append(with_cluster(rows, cluster))
                trends.append(with_cluster(_uneven(store, tier, cluster, starts), cluster))
            if subject.shared_by == "bundle":
                columns = ("topics_max", "msg_throughput_mean")
                last = tier_loads(store, tier, cluster, starts, subject.kind, columns)
                lasts.append(with_cluster(_last(last), cluster))
    return trends, lasts


_OF_CLUSTER: Final = {"deviation": "deviation"}


def _tier_trends(
    store: HistoryStore,
    tier: Kind,
    cluster: str,
    starts: Sequence[int],
    kind: str,
    measures: Mapping[str, str],
) -> pa.Table:
    columns = [
        f"{name}_{part}"
        for name in measures
        for part in ("mean", "max", "p95", "minutes")
        if f"{name}_{part}" in tier.columns.names
    ]
    rows = tier_loads(store, tier, cluster, starts, kind, columns)
    parts = [TRENDS.empty_table()]
    for name, measure in measures.items():
        of = rows.filter(pc.is_valid(rows[f"{name}_mean"]))
        size = of.num_rows
        p95 = f"{name}_p95"
        parts.append(
            pa.table(
                {
                    "kind": pa.repeat(pa.scalar(kind), size),
                    "subject": of["subject"],
                    "measure": pa.repeat(pa.scalar(measure), size),
                    "starts_at": of["taken_at"],
                    "mean": of[f"{name}_mean"],
                    "max": of[f"{name}_max"],
                    "p95": of[p95] if p95 in columns else pa.nulls(size, pa.float64()),
                    "minutes": of[f"{name}_minutes"].cast(pa.int64()),
                },
                schema=TRENDS,
            )
        )
    return pa.concat_tables(parts)


def _uneven(store: HistoryStore, tier: Kind, cluster: str, starts: Sequence[int]) -> pa.Table:
    """Return the share of the minutes that are outside the band, as ``uneven``."""
    columns = ("outside_minutes", "deviation_minutes")
    rows = tier_loads(store, tier, cluster, starts, CLUSTER_KIND, columns)
    rows = rows.filter(pc.greater(rows["deviation_minutes"], 0))
    minutes = np.asarray(rows["deviation_minutes"].to_numpy(), np.int64)
    outside = np.asarray(rows["outside_minutes"].to_numpy(), np.int64)
    return pa.table(
        {
            "kind": pa.repeat(pa.scalar(CLUSTER_KIND), minutes.size),
            "subject": rows["subject"],
            "measure": pa.repeat(pa.scalar("uneven"), minutes.size),
            "starts_at": rows["taken_at"],
            "mean": outside / minutes,
            "max": (outside > 0).astype(np.float64),
            "p95": pa.nulls(minutes.size, pa.float64()),
            "minutes": minutes,
        },
        schema=TRENDS,
    )


def _last(rows: pa.Table) -> pa.Table:
    """Return the last period of each bundle as its last row."""
    return pa.table(
        {
            "subject": rows["subject"],
            "taken_at": rows["taken_at"],
            "topic_count": pc.round(rows["topics_max"]).cast(pa.int64()),
            "msg_throughput": rows["msg_throughput_mean"],
        },
        schema=LAST,
    )


def with_cluster(table: pa.Table, cluster: str) -> pa.Table:
    """Put the cluster's name in front."""
    names = pa.repeat(pa.scalar(cluster), table.num_rows)
    return table.add_column(0, pa.field("cluster", pa.string(), nullable=False), names)
