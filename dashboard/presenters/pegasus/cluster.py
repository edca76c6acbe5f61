"""Data of the page of a Pegasus cluster: its answer, key figures, nodes and information."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from core.pegasus.columns import Floats, NodeStatus, PegasusColumns
from core.pegasus.headline import (
    minus_one,
    node_status_words,
    set_aside_words,
    unhealthy_count,
    waits,
)
from core.pegasus.health import HealthState
from core.pegasus.levels import FunctionLevel
from core.pegasus.snapshot import PegasusFacts
from core.pegasus.summary import NODE_STATS, minimum_2pc, unwritable_partitions
from core.units import format_band, format_deviation, format_per_s, pluralize
from dashboard.charts.nodes import NodeBars
from dashboard.presenters.figures import KeyFigure, Status, band_status
from dashboard.presenters.naming import UNKNOWN
from dashboard.presenters.pegasus.headline import NODE_STATUS_WORDS

STATE_WORDS: Final = {
    HealthState.HEALTHY: "● healthy",
    HealthState.WRITABLE_ILL: "▲ degraded",
    HealthState.UNWRITABLE: "✖ unwritable",
    HealthState.UNREADABLE: "✖ unreadable",
    HealthState.DEAD: "✖ dead",
    HealthState.SPLITTING: "◌ splitting",
}
NODE_MEASURES: Final = {
    "replicas": "Replicas",
    "size_mb": "Data",
    "read_rate": "Reads",
    "write_rate": "Writes",
}
"""What the bars of the nodes may show; all but replicas are sums over the replicas there."""

NODE_VIEWS: Final = {
    "overview": "Replicas, load and disk space of each node.",
    "nodes -d": "Counts as in `nodes -d`, from the meta server's partition configuration.",
    "nodes -u": "Usage as in `nodes -u`: memory of server and storage engine, free disk space.",
    "nodes -q": "Queries as in `nodes -q`, summed over the replicas of a node.",
    "latency": "p99 as in `nodes -q`, from the server's profiler.",
    "server_stat": "Values of `server_stat`, and replica counts by the servers.",
}
"""Sets of columns, and which command of the shell they are of."""

_SET_ASIDE: Final[tuple[NodeStatus, ...]] = ("drained", "excluded")
MAX_BARS: Final = 24
"""Nodes in the chart; of more, those with the largest deviations."""

MAX_TRENDS: Final = 200
"""Nodes with a sparkline; more would be as many bytes as the rest of the page."""


@dataclass(frozen=True, eq=False)
class NodeTrends:
    """A cluster's nodes over time, oldest first; all of one length, without unknown values.

    Attributes:
        primaries: Max deviation of a node from the mean primaries, 0..1.
        replicas: The same of replicas.
        requests: Reads and writes/s of the nodes that reported.
        of_node: Reads and writes/s of each node by its name; unknown values are left out.
    """

    primaries: tuple[float, ...] = ()
    replicas: tuple[float, ...] = ()
    requests: tuple[float, ...] = ()
    of_node: Mapping[str, tuple[float, ...]] = field(default_factory=dict)


# -- title and key figures ----------------------------------------------------------------------


def subtitle(facts: PegasusFacts) -> str:
    """Return release, leading meta server and balancer, as far as they are known."""
    settings = facts.snapshot.settings
    versions = sorted({row["version"] for row in facts.rows("nodes") if row["version"]})
    leader = settings.get("primary_meta_server") or facts.snapshot.manifest.leader or UNKNOWN
    policy = {"true": "greedy, whole cluster", "false": "greedy, by table"}.get(
        settings.get("balance_cluster", ""), UNKNOWN
    )
    release = f"Pegasus {', '.join(versions[:2])}" if versions else "Pegasus"
    return f"{release} · leader meta {leader} · balancer: {policy}"


def key_figures(facts: PegasusFacts, trends: NodeTrends | None = None) -> list[KeyFigure]:
    """Return health, nodes, deviations, requests and balance operations; unknown is said.

    Args:
        facts: The snapshot.
        trends: The hours before it; ``None``: no lines are drawn.
    """
    trends = trends or NodeTrends()
    columns = facts.columns
    requests = np.sum(
        [columns.per_node(name, primaries_only=True) for name in ("read_rate", "write_rate")]
    )
    value, note, help_text = forecast(facts)
    return [
        _partitions_figure(facts),
        _alive_figure(columns),
        _deviation_figure(facts, "Primaries", trends.primaries, primaries_only=True),
        _deviation_figure(facts, "Replicas", trends.replicas, primaries_only=False),
        KeyFigure(
            label="Requests",
            value=format_per_s(float(requests), "op"),
            note="reads and writes",
            trend=trends.requests,
            help="Of the primaries.",
        ),
        KeyFigure(label="Balance operations", value=value, note=note, help=help_text),
    ]


def _partitions_figure(facts: PegasusFacts) -> KeyFigure:
    columns = facts.columns
    total = int(columns.partition_counts.sum())
    counts = columns.table_states(minimum_2pc(facts)).sum(axis=0)
    healthy = int((columns.is_guardian_healthy & ~columns.is_child).sum())
    unwritable = int(unwritable_partitions(facts).sum())
    parts = [f"{unwritable:,} unwritable"] if unwritable else []
    parts += [
        f"{int(counts[state]):,} {STATE_WORDS[state].partition(' ')[2]}"
        for state in sorted(HealthState)
        if state not in (HealthState.HEALTHY, HealthState.UNWRITABLE) and counts[state]
    ]
    unread = total - len(columns.part_table)
    if unread:
        parts.append(f"{unread:,} not read")
    status: Status = "ok"
    if unhealthy_count(columns) or unwritable:
        status = "bad"
    elif unread or not total:
        status = "unknown"
    elif columns.is_child.any():
        status = "warning"
    return KeyFigure(
        label="Partitions healthy",
        value=f"{healthy:,} / {total:,}",
        note=", ".join(parts) or "all replicas",
        status=status,
        help="Healthy as counted by the guardian. Unwritable partitions can have all replicas: "
        "writes may require more replicas than the table has, or be denied by its environment.",
    )


def _alive_figure(columns: PegasusColumns) -> KeyFigure:
    alive, total = int(columns.is_alive.sum()), columns.node_count
    named = node_status_words(columns)
    silent = int(columns.is_silent.sum())
    parts = [f"{total - alive:,} down"] if alive < total else []
    parts += [
        f"{len(names):,} {status}" for status in _SET_ASIDE if (names := columns.nodes_with(status))
    ]
    if silent:
        parts.append(f"{silent:,} not answering")
    return KeyFigure(
        label="Nodes alive",
        value=f"{alive:,} / {total:,}",
        note=", ".join(parts),
        status="bad" if alive < total else "warning" if silent else "",
        help=". ".join(
            (*named, *set_aside_words(columns), "Status from the meta server's failure detector.")
        ),
    )


def _deviation_figure(
    facts: PegasusFacts, label: str, trend: Sequence[float], *, primaries_only: bool
) -> KeyFigure:
    columns = facts.columns
    found = columns.max_deviation(primaries_only=primaries_only)
    node = ""
    if found:
        off = np.abs(np.nan_to_num(columns.deviations(primaries_only=primaries_only)))
        node = f" · {columns.nodes[int(off.argmax())]}"
    return KeyFigure(
        label=label,
        value=format_deviation(found),
        note=f"target {format_band(facts.target_ratio)}{node}",
        status=band_status(None if found is None else abs(found), facts.target_ratio),
        trend=trend,
        help=f"{label} on the node with the max deviation; drained, excluded and dead nodes are "
        "ignored.",
    )


def forecast(facts: PegasusFacts) -> tuple[str, str, str]:
    """Return the balance operations of one round, a short note, and their validity."""
    counts = facts.operations
    if counts is None:
        return UNKNOWN, "", "The meta server did not report its balance_operation_count."
    if counts.total < 0:
        return UNKNOWN, "", minus_one(facts)
    level = facts.effective_level
    by_kind = (
        f"move_pri {counts.move_primary}, copy_pri {counts.copy_primary}, "
        f"copy_sec {counts.copy_secondary}."
    )
    number = f"{counts.total:,}"
    if stale := waits(facts):
        return number, "stale", f"{by_kind} Stale: {stale}"
    if level is not None and level < FunctionLevel.STEADY:
        return (
            number,
            "old",
            (f"{by_kind} Level {level.word} does not count; this is an old value."),
        )
    if level is FunctionLevel.STEADY:
        return (
            number,
            "meta server, one check",
            (
                f"{by_kind} balance_operation_count of one check of the current state; at "
                "lively, each round recounts them."
            ),
        )
    return number, "meta server, this round", f"{by_kind} Operations of the current round."


def word_of(level: FunctionLevel | None) -> str:
    """Return a level's word, or that it is unknown."""
    return UNKNOWN if level is None else level.word


# -- nodes --------------------------------------------------------------------------------------


def nodes_frame(facts: PegasusFacts) -> pd.DataFrame:
    """Return one row a node, those down first, then silent ones; NaN or ``None`` is unknown.

    Replicas and capacity units are over all replicas of the node, as ``nodes -d -u -q`` has them.
    """
    columns, rows = facts.columns, facts.snapshot.tables["nodes"].to_pandas()
    held = columns.counts(primaries_only=False).sum(axis=0)
    led = columns.counts(primaries_only=True).sum(axis=0)
    frame = pd.DataFrame(
        {
            "node": rows["node"],
            "status": [NODE_STATUS_WORDS[status] for status in columns.node_statuses],
            "replicas": held,
            "primaries": led,
            "secondaries": held - led,
            "primaries_deviation": columns.deviations(primaries_only=True) * 100,
            "replicas_deviation": columns.deviations(primaries_only=False) * 100,
            "memory_mb": rows["resident_memory_mb"].astype(float),
            "disk_free_pct": np.full(columns.node_count, np.nan),
            "fullest_free_pct": np.full(columns.node_count, np.nan),
            "size_mb": columns.per_node("size_mb", primaries_only=False),
            "reads": columns.per_node("read_rate", primaries_only=False),
            "read_cu": columns.per_node("read_units", primaries_only=False),
            "writes": columns.per_node("write_rate", primaries_only=False),
            "write_cu": columns.per_node("write_units", primaries_only=False),
            "learning": rows["learning_replicas"].astype(float),
            "copy_limit": [_limit(value) for value in rows["copy_rate_mb_per_s"]],
            "send_limit": [_limit(value) for value in rows["send_rate_mb_per_s"]],
            "version": rows["version"],
            "address": rows["address"],
            "started": rows["started_at"],
            **{name: rows[name].astype(float) for name in NODE_STATS},
        }
    )
    _add_disks(frame, facts)
    frame.loc[~columns.is_alive, list(_TOLD_BY_NODE)] = np.nan
    ranks = [list(NODE_STATUS_WORDS).index(status) for status in columns.node_statuses]
    order = np.argsort(ranks, kind="stable")
    return frame.iloc[order].reset_index(drop=True)


def node_trends(trends: NodeTrends, nodes: Sequence[str]) -> list[Sequence[float]]:
    """Return the sparkline of each node; empty: it has none.

    Args:
        trends: The hours before the snapshot.
        nodes: Rows of the answer; those beyond :data:`MAX_TRENDS` have none.
    Returns:
        One list a node; no list at all where nothing was recorded.
    """
    if not trends.of_node:
        return []
    return [trends.of_node.get(one, ()) if at < MAX_TRENDS else () for at, one in enumerate(nodes)]


_TOLD_BY_NODE: Final = ("size_mb", "reads", "read_cu", "writes", "write_cu")


def _limit(value: float | None) -> str:
    """Return a copy limit: 0 is none at all."""
    if value is None or np.isnan(value):
        return UNKNOWN
    return "unlimited" if value == 0 else f"{value:g} MB/s a disk"


def _add_disks(frame: pd.DataFrame, facts: PegasusFacts) -> None:
    disks = facts.snapshot.tables["disks"].to_pandas()
    if disks.empty:
        return
    by_node = disks.groupby("node")[["capacity_mb", "available_mb"]].sum()
    ratio = by_node["available_mb"] / by_node["capacity_mb"].where(by_node["capacity_mb"] > 0)
    each = disks["available_mb"] / disks["capacity_mb"].where(disks["capacity_mb"] > 0)
    least = each.groupby(disks["node"]).min()
    frame["disk_free_pct"] = frame["node"].map(ratio * 100)
    frame["fullest_free_pct"] = frame["node"].map(least * 100)


def nodes_note(facts: PegasusFacts) -> str:
    """Return the missing data of node figures and chart; empty: none."""
    columns = facts.columns
    parts = []
    unread = int((~columns.is_read).sum())
    if unread:
        parts.append(f"{pluralize(unread, 'table')} not counted")
    if columns.node_count > MAX_BARS:
        parts.append(f"{MAX_BARS} of {columns.node_count:,}, max deviation first")
    return "; ".join(parts)


def node_bars(facts: PegasusFacts, measure: str) -> NodeBars:
    """Return one measure of the nodes, split by role where roles have it.

    Of more than :data:`MAX_BARS` nodes those with the largest deviations, down ones first.
    """
    columns = facts.columns
    if measure == "replicas":
        led = columns.counts(primaries_only=True).sum(axis=0).astype(np.float64)
        rest = columns.counts(primaries_only=False).sum(axis=0) - led
    else:
        led = columns.per_node(measure, primaries_only=True)
        rest = columns.per_node(measure, primaries_only=False) - led
    if measure == "size_mb":
        led, rest = led / 1e3, rest / 1e3
    if measure not in ("replicas", "size_mb"):
        rest = np.zeros(columns.node_count)
    mean = mean_of_living(columns, led + rest)
    shown = _most_deviating(columns, led, led + rest)
    labels = node_labels(columns)
    return NodeBars(
        nodes=[labels[at] for at in shown.tolist()],
        primaries=led[shown],
        secondaries=rest[shown],
        mean=mean,
        label=NODE_MEASURES[measure],
        unit={"replicas": "", "size_mb": "GB"}.get(measure, "/s"),
    )


def _most_deviating(columns: PegasusColumns, led: Floats, total: Floats) -> NDArray[np.intp]:
    """Return the rows of the nodes to draw, in the order of their names."""
    if columns.node_count <= MAX_BARS:
        return np.arange(columns.node_count)
    off = np.abs(led - np.nanmean(led)) + np.abs(total - np.nanmean(total))
    order = np.lexsort((-np.nan_to_num(off), columns.is_alive))
    return np.sort(order[:MAX_BARS])


def node_labels(columns: PegasusColumns) -> list[str]:
    """Return the nodes' names, with the status of those that are down or do not answer."""
    return [
        name if status == "alive" else f"{name} ({status})"
        for name, status in zip(columns.nodes, columns.node_statuses, strict=True)
    ]


def mean_of_living(columns: PegasusColumns, values: Floats) -> float:
    """Return the mean over the nodes that are compared; NaN: there is none, or one is unknown."""
    living = values[columns.is_compared]
    return float(living.mean()) if living.size else float("nan")


def bars_sentence(bars: NodeBars) -> str:
    """Return the takeaway: the node with the highest value, against the mean."""
    total = bars.primaries + bars.secondaries
    known = np.isfinite(total)
    if not known.any() or not np.isfinite(bars.mean) or bars.mean == 0:
        return f"{bars.label} by node; some values are unknown."
    at = int(np.nanargmax(np.where(known, total, np.nan)))
    share = (total[at] - bars.mean) / bars.mean * 100
    return f"{bars.nodes[at]}: max, {share:+.0f}% vs. mean of the alive nodes."
