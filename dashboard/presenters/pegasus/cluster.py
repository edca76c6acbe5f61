"""What the page of a Pegasus cluster shows: its answer, key figures, nodes and information."""

from __future__ import annotations

from typing import Final

import numpy as np
import pandas as pd

from core.pegasus.columns import Floats, PegasusColumns
from core.pegasus.health import HealthState
from core.pegasus.levels import FunctionLevel
from core.pegasus.snapshot import PegasusFacts
from core.pegasus.summary import NODE_STATS, minimum_2pc
from core.pegasus.verdict import BalanceVerdict
from core.units import pluralize
from dashboard.charts.nodes import NodeBars
from dashboard.presenters.naming import UNKNOWN
from dashboard.presenters.pegasus.headline import (
    NODE_STATUS_WORDS,
    minus_one,
    node_status_words,
    waits,
)

BALANCE_WORDS: Final = {
    "balanced": "● balanced",
    "not_balanced": "▲ not balanced",
    "unknown": "? unknown",
}
STATE_WORDS: Final = {
    HealthState.HEALTHY: "● healthy",
    HealthState.WRITABLE_ILL: "▲ degraded",
    HealthState.UNWRITABLE: "✖ unwritable",
    HealthState.UNREADABLE: "✖ unreadable",
    HealthState.DEAD: "✖ dead",
}
NODE_MEASURES: Final = {
    "replicas": "Replicas",
    "size_mb": "Data",
    "read_rate": "Reads",
    "write_rate": "Writes",
}
"""What the bars of the nodes may show; all but replicas are sums over the replicas there."""

NODE_VIEWS: Final = {
    "overview": "What a node carries, and what it has room for.",
    "nodes -d": "Counts of `nodes -d`, by the meta server's configuration of the partitions.",
    "nodes -u": "Usage as `nodes -u` has it: memory of server and storage engine, room on disks.",
    "nodes -q": "Queries as `nodes -q` has them: over all replicas of a node, p99 by its profiler.",
    "server_stat": "What `server_stat` shows, and the servers' own counts of their replicas.",
}
"""Sets of columns, and which command of the shell they are of."""

Figure = tuple[str, str, str]
"""Label, value, help."""


# -- key figures --------------------------------------------------------------------------------


def key_figures(facts: PegasusFacts, verdict: BalanceVerdict) -> list[Figure]:
    """Return nodes, balance, forecast, level and leader; unknown is said."""
    columns = facts.columns
    stored, effective = facts.stored_level, facts.effective_level
    leader = facts.snapshot.settings.get("primary_meta_server")
    return [
        (
            "Nodes alive",
            _alive_figure(columns),
            ". ".join((*node_status_words(columns), "By the meta server's failure detector.")),
        ),
        ("Balance", BALANCE_WORDS[verdict.state], verdict.sentence),
        ("Changes counted", *forecast(facts)),
        (
            "Effective level",
            word_of(effective),
            f"Stored: {word_of(stored)}. They differ while too few nodes are alive."
            if stored is not effective
            else "The stored one.",
        ),
        (
            "Leading meta server",
            leader or facts.snapshot.manifest.leader or UNKNOWN,
            "Remote commands of meta.lb exist only there.",
        ),
    ]


def _alive_figure(columns: PegasusColumns) -> str:
    silent = int(columns.is_silent.sum())
    text = f"{int(columns.is_alive.sum())} of {columns.node_count}"
    return f"{text}, {silent} not answering" if silent else text


def forecast(facts: PegasusFacts) -> tuple[str, str]:
    """Return what the meta server counts for one round, and what the count is worth."""
    counts = facts.operations
    if counts is None:
        return UNKNOWN, "The meta server did not tell its balance_operation_count."
    if counts.total < 0:
        return UNKNOWN, minus_one(facts)
    level = facts.effective_level
    by_kind = (
        f"move_pri {counts.move_primary}, copy_pri {counts.copy_primary}, "
        f"copy_sec {counts.copy_secondary}."
    )
    if stale := waits(facts):
        return f"{pluralize(counts.total, 'change')}, stale", f"{by_kind} Stale: {stale}"
    if level is not None and level < FunctionLevel.STEADY:
        return f"{pluralize(counts.total, 'change')}, old", (
            f"{by_kind} At level {level.word} nothing is counted: the number is old."
        )
    worth = (
        "A check counts primaries and secondaries of the unchanged state together. A round at "
        "lively touches secondaries only when no primary is left to move, so the Balance page has "
        "fewer for the next round and another number for all rounds."
        if level is FunctionLevel.STEADY
        else "Of one round; the next begins when all of it is carried out."
    )
    return pluralize(counts.total, "change"), f"{by_kind} {worth}"


def state_figures(facts: PegasusFacts) -> list[Figure]:
    """Return the partitions by the five states, best first, then those that were not read."""
    columns = facts.columns
    totals = columns.table_states(minimum_2pc(facts)).sum(axis=0)
    found = [
        (STATE_WORDS[state], f"{int(totals[state]):,}", state.sentence)
        for state in sorted(HealthState, reverse=True)
    ]
    unread = int(columns.partition_counts.sum()) - len(columns.part_table)
    if unread:
        found.append(("? not read", f"{unread:,}", "Their state is unknown: see the problems."))
    return found


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
            "status": [NODE_STATUS_WORDS[one] for one in columns.node_statuses],
            "replicas": held,
            "primaries": led,
            "secondaries": held - led,
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
    ranks = [list(NODE_STATUS_WORDS).index(one) for one in columns.node_statuses]
    order = np.argsort(ranks, kind="stable")
    return frame.iloc[order].reset_index(drop=True)


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
    """Return what the nodes' numbers are worth."""
    columns = facts.columns
    unread = int((~columns.is_read).sum())
    if unread:
        return (
            f"Counts are of the partitions that were read: {pluralize(unread, 'table')} "
            f"{'is' if unread == 1 else 'are'} missing."
        )
    return "Dead nodes first. Sums over all replicas of a node; unknown where one is unknown."


def node_bars(facts: PegasusFacts, measure: str) -> NodeBars:
    """Return one measure of every node, split by role where roles have it."""
    columns = facts.columns
    if measure == "replicas":
        led = columns.counts(primaries_only=True).sum(axis=0).astype(np.float64)
        rest = columns.counts(primaries_only=False).sum(axis=0) - led
    else:
        led = columns.per_node(measure, primaries_only=True)
        rest = columns.per_node(measure, primaries_only=False) - led
    return NodeBars(
        nodes=node_labels(columns),
        primaries=led,
        secondaries=rest if measure in ("replicas", "size_mb") else np.zeros(columns.node_count),
        mean=mean_of_living(columns, led + rest),
        label=NODE_MEASURES[measure],
        unit={"replicas": "", "size_mb": "MB"}.get(measure, "/s"),
    )


def node_labels(columns: PegasusColumns) -> list[str]:
    """Return the nodes' names, with the status of those that are down or do not answer."""
    return [
        name if status == "alive" else f"{name} ({status})"
        for name, status in zip(columns.nodes, columns.node_statuses, strict=True)
    ]


def mean_of_living(columns: PegasusColumns, values: Floats) -> float:
    """Return the mean over nodes that are alive; NaN where none is, or one is unknown."""
    living = values[columns.is_alive]
    return float(living.mean()) if living.size else float("nan")


def bars_sentence(bars: NodeBars) -> str:
    """Return the takeaway: who carries most, against the mean."""
    total = bars.primaries + bars.secondaries
    known = np.isfinite(total)
    if not known.any() or not np.isfinite(bars.mean) or bars.mean == 0:
        return f"{bars.label} by node; some are unknown."
    at = int(np.nanargmax(np.where(known, total, np.nan)))
    share = (total[at] - bars.mean) / bars.mean * 100
    return f"{bars.nodes[at]} has most: {share:+.0f}% from the mean of the living nodes."
