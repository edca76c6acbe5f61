"""Numbers and texts of Pegasus clusters: a row a cluster, key figures."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final

import numpy as np
import pandas as pd

from core.pegasus.columns import PegasusColumns
from core.pegasus.snapshot import PegasusFacts
from core.pegasus.verdict import State as Balance
from core.units import format_ago
from dashboard.app_pages.fleet.model import NO_SNAPSHOT, STATE_WORDS
from dashboard.presenters.fleet import Acting
from dashboard.presenters.pegasus.fleet import PegasusSummary, healthy_count, level_words

BALANCE_WORDS: Final[dict[Balance, str]] = {
    "balanced": "● balanced",
    "not_balanced": "▲ not balanced",
    "unknown": "? unknown",
}


def clusters_table(
    rows: Sequence[tuple[str, str, PegasusSummary | None]],
    acting: Sequence[Acting],
    now: datetime,
) -> pd.DataFrame:
    """Return one row a cluster: name, environment, summary, what is done there.

    Args:
        rows: Name, environment and summary of each cluster.
        acting: The same clusters, in the same order.
        now: The present moment.
    """
    return pd.DataFrame(
        [
            {
                "cluster": name,
                "environment": environment,
                "state": NO_SNAPSHOT if one is None else STATE_WORDS[one.state],
                "balance": "" if one is None else BALANCE_WORDS[one.balance],
                "unhealthy": None if one is None else one.unhealthy,
                "partitions": None if one is None else one.partitions,
                "level": "" if one is None else one.level,
                "nodes": "" if one is None else f"{one.alive} of {one.nodes}",
                "tables": None if one is None else one.tables,
                "findings": "" if one is None else one.findings,
                "age": "never" if one is None else format_ago((now - one.taken_at).total_seconds()),
                "access": doing.access,
                "run": doing.run,
            }
            for (name, environment, one), doing in zip(rows, acting, strict=True)
        ]
    )


def key_figures(facts: PegasusFacts) -> list[tuple[str, str, str]]:
    """Return label, value and help of the figures of the chosen cluster."""
    columns = facts.columns
    partitions, healthy = int(columns.partition_counts.sum()), healthy_count(facts)
    alive = int(columns.is_alive.sum())
    level = level_words(facts.stored_level, facts.effective_level)
    return [
        (
            "Healthy partitions",
            "unknown" if healthy is None else f"{healthy:,} of {partitions:,}",
            "With a primary and all wanted replicas: counting states.",
        ),
        ("Nodes alive", f"{alive} of {len(columns.nodes)}", "The failure detector's word."),
        ("Level", level, "Effective level; the stored one too if it differs."),
        *(
            (label, _rate(columns, names, unit), note)
            for label, names, unit, note in (
                ("Reads", ("read_rate",), "/s", "Requests that the primaries serve."),
                ("Writes", ("write_rate",), "/s", "Requests that the primaries serve."),
                (
                    "Capacity units",
                    ("read_units", "write_units"),
                    "/s",
                    "Of the primaries: read plus write.",
                ),
            )
        ),
    ]


def _rate(columns: PegasusColumns, names: tuple[str, ...], unit: str) -> str:
    """Return the sum over the primaries; unknown where one is unknown or none is known at all."""
    led = columns.rep_is_primary
    total = sum(float(columns.measures[name][led].sum()) for name in names)
    return f"{total:,.0f} {unit}" if led.any() and np.isfinite(total) else "unknown"
