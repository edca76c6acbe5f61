"""What days of trends come to together: top movers, hot bundles, the gap between brokers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from core.history.analysis.requests import Period
from core.history.analysis.trends.registry import SUBJECT_OF_KIND, TRENDS_OF
from core.history.analysis.trends.tables import (
    GAPS,
    HOT,
    LAST_OF_CLUSTERS,
    MOVERS,
    NAMESPACES,
    OF_CLUSTERS,
)
from core.history.analysis.trends.trends import PERIOD_MS
from core.ids import namespace_of
from core.units import format_ratio, pluralize

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

MOST_MOVERS: Final = 50
MOST_HOT: Final = 100


@dataclass(frozen=True, eq=False)
class Trends:
    """The answer.

    Attributes:
        trends: Table of :data:`OF_CLUSTERS`.
        gaps: Table of :data:`GAPS`.
        movers: Table of :data:`MOVERS`.
        hot: Table of :data:`HOT`.
        namespaces: Table of :data:`NAMESPACES`.
        sentence: In words.
        source: The coarsest records that answer it: ``minutes``, ``hours``, ``days``, or two of
            them.
    """

    trends: pa.Table
    gaps: pa.Table
    movers: pa.Table
    hot: pa.Table
    namespaces: pa.Table
    sentence: str
    source: str = "minutes"

    def tables(self) -> dict[str, pa.Table]:
        """Return the tables by name."""
        names = ("trends", "gaps", "movers", "hot", "namespaces")
        return {name: getattr(self, name) for name in names}


@dataclass(frozen=True)
class RecordedMinutes:
    """The minutes of one cluster that were recorded.

    Attributes:
        system: Name of its system, one that has trends.
        taken_at: ms, ascending; without those of periods that a tier answers.
        names: Of subjects, by kind and by the identifier that rows have.
        rolled_up: Minutes of the periods that a tier answers, by their start, ms.
        snapshots: Recorded ones, in minutes and tiers.
    """

    system: str
    taken_at: Ints = field(compare=False)
    names: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    rolled_up: Mapping[int, int] = field(default_factory=dict)
    snapshots: int = 0

    def per_period(self, period: Period) -> dict[int, int]:
        """Return the count of each period, by its start."""
        size = PERIOD_MS[period]
        starts, counts = np.unique(self.taken_at // size * size, return_counts=True)
        return {**self.rolled_up, **dict(zip(starts.tolist(), counts.tolist(), strict=True))}

    def within(self, rows: pa.Table) -> pa.Table:
        """Leave out rows of other minutes: they came later, or a tier answers them."""
        return rows.filter(pc.is_in(rows["taken_at"], value_set=pa.array(self.taken_at)))


def answer(
    trends: Iterable[pa.Table],
    lasts: Iterable[pa.Table],
    recorded: Mapping[str, RecordedMinutes],
    period: Period,
) -> Trends:
    """Put days together.

    Args:
        trends: Tables of :data:`OF_CLUSTERS`, in any order.
        lasts: Tables of :data:`LAST_OF_CLUSTERS`, in any order.
        recorded: The minutes of each cluster.
        period: Of the trends.
    """
    whole = pa.concat_tables([OF_CLUSTERS.empty_table(), *trends])
    whole = _named(whole, recorded)
    order = ("cluster", "kind", "measure", "subject", "starts_at")
    whole = whole.sort_by([(name, "ascending") for name in order])
    last = pa.concat_tables([LAST_OF_CLUSTERS.empty_table(), *lasts])
    last = _newest(last)
    parts: dict[str, list[pa.Table]] = {"gaps": [], "movers": [], "hot": []}
    for cluster, minutes in sorted(recorded.items()):
        mine = whole.filter(pc.equal(whole["cluster"], cluster))
        parts["gaps"].append(_gaps(mine, cluster))
        counts = minutes.per_period(period)
        for kind, rows in _flows(mine):
            parts["movers"].append(_movers(rows, cluster, kind, counts))
        topics = last.filter(pc.equal(last["cluster"], cluster))
        parts["hot"].append(_hot(mine, cluster, counts, topics))
    gaps = pa.concat_tables([GAPS.empty_table(), *parts["gaps"]])
    hot = pa.concat_tables([HOT.empty_table(), *parts["hot"]])
    source = _source(recorded, period)
    return Trends(
        trends=whole,
        gaps=gaps,
        movers=pa.concat_tables([MOVERS.empty_table(), *parts["movers"]]),
        hot=hot,
        namespaces=_namespaces(last),
        sentence=_sentence(recorded, gaps, hot, source),
        source=source,
    )


def _source(recorded: Mapping[str, RecordedMinutes], period: Period) -> str:
    is_used = {
        f"{period}s": any(one.rolled_up for one in recorded.values()),
        "minutes": any(one.taken_at.size for one in recorded.values()),
    }
    return " and ".join(name for name, is_one in is_used.items() if is_one)


def _named(rows: pa.Table, recorded: Mapping[str, RecordedMinutes]) -> pa.Table:
    """Call subjects by their names where rows have an identifier and the name is known."""
    named = {name: one.names for name, one in recorded.items() if any(one.names.values())}
    if not named:
        return rows
    subjects = np.array(rows["subject"].to_pylist(), dtype=object)
    kinds = rows["kind"].to_numpy(zero_copy_only=False)
    clusters = rows["cluster"].to_numpy(zero_copy_only=False)
    for cluster, by_kind in named.items():
        for kind, names in by_kind.items():
            at = np.flatnonzero((kinds == kind) & (clusters == cluster))
            subjects[at] = [names.get(one, one) for one in subjects[at].tolist()]
    place = rows.schema.get_field_index("subject")
    return rows.set_column(place, rows.schema.field(place), pa.array(subjects, pa.string()))


def _newest(last: pa.Table) -> pa.Table:
    """Return the newest of several last rows of a bundle."""
    order = [("cluster", "ascending"), ("subject", "ascending"), ("taken_at", "ascending")]
    last = last.sort_by(order)
    if not last.num_rows:
        return last
    names = [last[name].combine_chunks().dictionary_encode().indices for name, _ in order[:-1]]
    keys = [np.asarray(one.to_numpy(zero_copy_only=False), np.int64) for one in names]
    changes = (np.diff(keys[0]) != 0) | (np.diff(keys[1]) != 0)
    return last.filter(pa.array(np.append(changes, [True])))


def _flows(rows: pa.Table) -> Iterator[tuple[str, pa.Table]]:
    for kind, subject in SUBJECT_OF_KIND.items():
        found = rows.filter(
            pc.and_(pc.equal(rows["kind"], kind), pc.equal(rows["measure"], subject.flow))
        )
        if found.num_rows:
            yield kind, found


def _gaps(rows: pa.Table, cluster: str) -> pa.Table:
    found = []
    whole = rows.filter(pc.equal(rows["kind"], "cluster"))
    by_measure = {
        name: _by_start(whole.filter(pc.equal(whole["measure"], name)))
        for name in ("deviation", "uneven")
    }
    for kind, part in _flows(rows):
        if not SUBJECT_OF_KIND[kind].is_server:
            continue
        starts = np.asarray(part["starts_at"].to_numpy(), np.int64)
        mean = np.asarray(part["mean"].to_numpy(), np.float64)
        names = part["subject"].to_pylist()
        order = np.lexsort((mean, starts))
        when, first = np.unique(starts[order], return_index=True)
        ends = np.append(first[1:], order.size) - 1
        for start, low, high in zip(when.tolist(), order[first], order[ends], strict=True):
            off = by_measure["deviation"].get(start, {})
            found.append(
                {
                    "cluster": cluster,
                    "kind": kind,
                    "starts_at": start,
                    "busiest": names[high],
                    "busiest_flow": float(mean[high]),
                    "idlest": names[low],
                    "idlest_flow": float(mean[low]),
                    "gap": float(mean[high] - mean[low]),
                    "deviation": off.get("mean"),
                    "deviation_p95": off.get("p95"),
                    "deviation_max": off.get("max"),
                    "uneven_share": by_measure["uneven"].get(start, {}).get("mean"),
                }
            )
    return pa.Table.from_pylist(found, schema=GAPS)


def _by_start(rows: pa.Table) -> dict[int, dict[str, float]]:
    return {row["starts_at"]: row for row in rows.to_pylist()}


def _weighted(rows: pa.Table, size: int, codes: Ints, included: NDArray[np.bool_]) -> Floats:
    """Return the load of subjects in some periods, times minutes."""
    minutes = rows["minutes"].to_numpy() * rows["mean"].to_numpy()
    sums = np.bincount(codes[included], weights=minutes[included], minlength=size)
    return np.asarray(sums, np.float64)


def _halves(
    rows: pa.Table, kind: str, counts: Mapping[int, int]
) -> tuple[pa.Array, Floats, Floats] | None:
    """Return subjects and their mean flow in either half; ``None`` if there is one period only.

    A server that was not seen in a half has no mean there (NaN).
    """
    starts = np.array(sorted(counts), np.int64)
    if starts.size < 2:
        return None
    middle = starts[starts.size // 2]
    coded = rows["subject"].combine_chunks().dictionary_encode()
    codes = np.asarray(coded.indices.to_numpy(), np.int64)
    at = rows["starts_at"].to_numpy()
    size = len(coded.dictionary)
    means = []
    for included, whole in (
        (at < middle, starts < middle),
        (at >= middle, starts >= middle),
    ):
        sums = _weighted(rows, size, codes, included)
        if not SUBJECT_OF_KIND[kind].is_server:  # a period without a row is one without traffic
            minutes = np.full(size, float(sum(counts[one] for one in starts[whole].tolist())))
        else:
            reported = rows["minutes"].to_numpy()[included]
            minutes = np.asarray(np.bincount(codes[included], weights=reported, minlength=size))
        means.append(np.divide(sums, minutes, out=np.full(size, np.nan), where=minutes > 0))
    return coded.dictionary, means[0], means[1]


def _movers(rows: pa.Table, cluster: str, kind: str, counts: Mapping[int, int]) -> pa.Table:
    halves = _halves(rows, kind, counts)
    if halves is None:
        return MOVERS.empty_table()
    names, before, after = halves
    change = after - before
    seen = np.flatnonzero(np.nan_to_num(change))
    order = seen[np.argsort(-np.abs(change[seen]), kind="stable")][:MOST_MOVERS]
    return pa.table(
        {
            "cluster": pa.repeat(pa.scalar(cluster), order.size),
            "kind": pa.repeat(pa.scalar(kind), order.size),
            "subject": names.take(pa.array(order)),
            "before": before[order],
            "after": after[order],
            "change": change[order],
            "change_ratio": pa.array(
                np.divide(change, before, out=np.zeros_like(change), where=before > 0)[order],
                mask=before[order] <= 0,
            ),
        },
        schema=MOVERS,
    )


def _hot(rows: pa.Table, cluster: str, counts: Mapping[int, int], last: pa.Table) -> pa.Table:
    parts = [HOT.empty_table()]
    minutes = max(sum(counts.values()), 1)
    for kind, part in _flows(rows):
        if SUBJECT_OF_KIND[kind].is_server:
            continue
        coded = part["subject"].combine_chunks().dictionary_encode()
        codes = np.asarray(coded.indices.to_numpy(), np.int64)
        size = len(coded.dictionary)
        mean = _weighted(part, size, codes, np.ones(codes.size, np.bool_)) / minutes
        most, p95 = np.zeros(size), np.zeros(size)
        np.maximum.at(most, codes, part["max"].to_numpy())
        np.maximum.at(p95, codes, part["p95"].to_numpy())
        order = np.lexsort((np.arange(size), -mean))[:MOST_HOT]
        names = coded.dictionary.take(pa.array(order))
        place = pc.index_in(names, value_set=last["subject"].combine_chunks())
        parts.append(
            pa.table(
                {
                    "cluster": pa.repeat(pa.scalar(cluster), order.size),
                    "kind": pa.repeat(pa.scalar(kind), order.size),
                    "subject": names,
                    "mean": mean[order],
                    "max": most[order],
                    "worst_p95": p95[order],
                    "share": mean[order] / max(float(mean.sum()), 1e-300),
                    "topic_count": last["topic_count"].combine_chunks().take(place),
                },
                schema=HOT,
            )
        )
    return pa.concat_tables(parts)


def _namespaces(last: pa.Table) -> pa.Table:
    """Sum up what the bundles of each namespace held when they were last seen."""
    keys: dict[tuple[str, str], int] = {}
    names = zip(last["cluster"].to_pylist(), last["subject"].to_pylist(), strict=True)
    places = [keys.setdefault((cluster, namespace_of(name)), len(keys)) for cluster, name in names]
    codes = np.array(places, np.int64)
    size = len(keys)
    topics = np.asarray(pc.fill_null(last["topic_count"], 0).to_numpy(), np.int64)
    flow = np.nan_to_num(last["msg_throughput"].to_numpy().astype(np.float64))
    bundles = np.bincount(codes, minlength=size)
    whole = np.bincount(codes, weights=topics, minlength=size)
    carried = np.bincount(codes, weights=flow, minlength=size)
    most_topics, most_flow = np.zeros(size, np.int64), np.zeros(size)
    np.maximum.at(most_topics, codes, topics)
    np.maximum.at(most_flow, codes, flow)
    share = np.divide(most_flow, carried, out=np.zeros(size), where=carried > 0)
    table = pa.table(
        {
            "cluster": [cluster for cluster, _ in keys],
            "namespace": [namespace for _, namespace in keys],
            "bundles": bundles,
            "topics": whole.astype(np.int64),
            "topics_mean": whole / np.maximum(bundles, 1),
            "topics_max": most_topics,
            "flow": carried.astype(np.float64),
            "flow_max": most_flow,
            "largest_share": pa.array(share, mask=carried <= 0),
        },
        schema=NAMESPACES,
    )
    return table.sort_by(
        [("cluster", "ascending"), ("flow", "descending"), ("namespace", "ascending")]
    )


def _sentence(
    recorded: Mapping[str, RecordedMinutes], gaps: pa.Table, hot: pa.Table, source: str
) -> str:
    snapshots = sum(one.snapshots for one in recorded.values())
    read = f"{pluralize(snapshots, 'recorded snapshot')}, from {source}"
    words = [f"{pluralize(len(recorded), 'cluster')}, {read}"]
    worst = gaps.sort_by([("deviation_max", "descending")]).slice(0, 1).to_pylist()
    if worst and worst[0]["deviation_max"] is not None:
        one = worst[0]
        server = TRENDS_OF[recorded[one["cluster"]].system].subjects[0]
        words.append(
            f"max deviation of a {server.kind} in {one['cluster']} "
            f"{format_ratio(one['deviation_max'])}"
        )
    for kind, subject in SUBJECT_OF_KIND.items():
        busy = hot.filter(pc.equal(hot["kind"], kind)).sort_by([("mean", "descending")])
        if subject.is_headline and busy.num_rows:
            one = busy.slice(0, 1).to_pylist()[0]
            words.append(
                f"the busiest {kind} is {one['subject']} of {one['cluster']} with "
                f"{subject.flow_words(one['mean'])}, {format_ratio(one['share'])} of the total"
            )
    return "; ".join(words) + "."
