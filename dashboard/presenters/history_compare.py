"""Two minutes of one cluster compared: what moved, with its load; what was set; how even it was."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Final

import numpy as np
import pandas as pd

from core.health.measures import Measures
from core.history.events import events_between
from core.pegasus.summary import NodeSummary
from core.schemas.pulsar import RATES
from core.snapshot import AnySnapshot
from core.units import counted, format_bytes_per_s, format_ratio
from dashboard.presenters.history_events import what_words
from dashboard.presenters.moments import stamp

_TOLD_APART: Final = ("move", "primary")


@dataclass(frozen=True, eq=False)
class Compared:
    """What differs between two minutes.

    Attributes:
        rows: One a difference: ``what``, ``subject``, ``before``, ``after``, and for what moved
            its load at the later minute (``throughput`` MB/s, ``msg_rate``, ``clients``).
        sentence: All of it in one.
    """

    rows: pd.DataFrame
    sentence: str


def compare(before: AnySnapshot, after: AnySnapshot, even: str) -> Compared:
    """Compare two snapshots of one cluster, the earlier one first.

    Args:
        before: The earlier one.
        after: The later one.
        even: How evenness changed, in words.
    """
    found = events_between(before, after).to_pandas()
    rows = pd.DataFrame(
        {
            "kind": found["kind"],
            "what": [
                what_words(kind, details or "")
                for kind, details in zip(found["kind"], found["details"], strict=True)
            ],
            "subject": found["subject"],
            "before": found["before"].fillna(""),
            "after": found["after"].fillna(""),
        }
    )
    rows = _with_load(rows, after)
    ends = f"From {stamp(before.manifest.taken_at)} to {stamp(after.manifest.taken_at)} UTC"
    return Compared(rows, f"{ends}: {_happened(rows)}; {even}.")


def _with_load(rows: pd.DataFrame, after: AnySnapshot) -> pd.DataFrame:
    table = after.tables.get("bundles")
    if table is None:
        return rows
    names = ["bundle", *RATES, "producer_count", "consumer_count"]
    loads = table.select(names).to_pandas().set_index("bundle").astype(float)
    mine = loads.reindex(rows["subject"])
    moved = (rows["kind"] == "move").to_numpy()

    def sums(*columns: str) -> np.ndarray:
        return np.where(moved, mine[list(columns)].sum(axis=1, min_count=1).to_numpy(), np.nan)

    return rows.assign(
        throughput=sums("msg_throughput_in", "msg_throughput_out") / 1e6,
        msg_rate=sums("msg_rate_in", "msg_rate_out"),
        clients=sums("producer_count", "consumer_count"),
    )


def _happened(rows: pd.DataFrame) -> str:
    kinds = Counter(rows["kind"])
    others = Counter(rows.loc[~rows["kind"].isin(_TOLD_APART), "what"])
    if not kinds:
        return "nothing moved and nothing was changed"
    parts = []
    if kinds["move"]:
        load = rows.loc[rows["kind"] == "move", ["throughput", "clients"]].sum()
        parts.append(
            f"{counted(kinds['move'], 'bundle')} moved "
            f"({format_bytes_per_s(float(load['throughput']) * 1e6)}, "
            f"{counted(round(load['clients']), 'client')})"
        )
    if kinds["primary"]:
        parts.append(f"{counted(kinds['primary'], 'partition')} with another primary")
    parts += [f"{what}: {number:,}" for what, number in others.items()]
    return ", ".join(parts)


def even_words(before: Measures, after: Measures) -> str:
    """Return how the deviation of a Pulsar cluster's traffic changed."""
    then, now = (one.throughput.max_deviation_ratio for one in (before, after))
    return f"deviation of traffic {format_ratio(then)} then, {format_ratio(now)} after"


def even_words_pegasus(before: list[NodeSummary], after: list[NodeSummary]) -> str:
    """Return how far apart the primaries of nodes were, then and after."""
    then, now = (
        max(counts) - min(counts) if (counts := [one.primaries for one in nodes]) else None
        for nodes in (before, after)
    )
    words = ["unknown" if one is None else str(one) for one in (then, now)]
    return f"most minus fewest primaries {words[0]} then, {words[1]} after"
