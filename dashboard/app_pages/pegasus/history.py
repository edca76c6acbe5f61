"""Parts of the History page for Pegasus clusters."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Final

import numpy as np
import pandas as pd

from core.history.queries.query import Evenness
from core.pegasus.summary import NodeSummary
from core.snapshot.store import CachedSnapshot, Storable
from core.units import pluralize
from dashboard import state
from dashboard.app_pages.history.system import HistoryMeasure, HistorySystem
from dashboard.presenters.figures import KeyFigure
from dashboard.queries.pegasus.snapshots import pegasus_reading

if TYPE_CHECKING:
    from dashboard.queries.history import Weights
    from dashboard.services import Config


def _even_figures(evenness: Evenness, recorded: timedelta, target_ratio: float) -> list[KeyFigure]:
    del recorded, target_ratio  # it counts primaries, and the target is a share of the mean
    spread = evenness.spread[np.isfinite(evenness.spread)]
    return [
        KeyFigure(
            label="Primaries gap, mean",
            value=f"{spread.mean():.1f}" if spread.size else "unknown",
            note=f"max {spread.max():.0f}" if spread.size else "",
            trend=spread.tolist(),
            help="Max minus min primaries per node, averaged over the snapshots.",
        )
    ]


def _describe_moves(rows: pd.DataFrame) -> str:
    moved = int((rows["kind"] == "primary").sum())
    return f"{pluralize(moved, 'partition')} with a changed primary"


def _as_they_are(rows: pd.DataFrame, after: Storable) -> pd.DataFrame:
    """Return the rows: of single partitions no load is recorded."""
    del after
    return rows


def _read_pair(first: CachedSnapshot, second: CachedSnapshot) -> tuple[Storable, Storable, str]:
    pair = pegasus_reading(first), pegasus_reading(second)
    then, now = (_primaries_apart(one.nodes) for one in pair)
    even = f"primaries gap {then} before, {now} after"
    return pair[0].snapshot, pair[1].snapshot, even


def _primaries_apart(nodes: list[NodeSummary]) -> str:
    counts = [node.primaries for node in nodes]
    return str(max(counts) - min(counts)) if counts else "unknown"


def _weights(stored: CachedSnapshot | None) -> Weights:
    """Return none: nodes have no resources with weights."""
    del stored
    return ()


def _draw_accuracy(config: Config, cluster: str) -> bool:
    """Return that there is nothing: the meta server's rounds are not predicted."""
    del config, cluster
    return False


PEGASUS: Final = HistorySystem(
    server="node",
    server_parameter=state.NODE,
    subject="partition",
    move="primary move",
    move_kind="primary",
    by_hand="manual balancing (Pegasus shell)",
    measures=(
        HistoryMeasure("primaries", "Primaries", "count"),
        HistoryMeasure("replicas", "Replicas", "count"),
        HistoryMeasure("requests", "Requests/s", "count"),
        HistoryMeasure("memory", "Memory", "MB"),
    ),
    evenness=lambda evenness: evenness.spread,
    even_unit="count",
    even_label="Primaries gap",
    even_caption="max minus min primaries",
    bound=lambda _: float("nan"),
    even_figures=_even_figures,
    describe_moves=_describe_moves,
    with_load=_as_they_are,
    read_pair=_read_pair,
    weights=_weights,
    draw_accuracy=_draw_accuracy,
    pages=(
        ("fleet", "Fleet"),
        ("pegasus", "Cluster"),
        ("pegasus_tables", "Tables"),
        ("pegasus_balance", "Balance"),
    ),
    open_subject=None,
    subjects=None,
)
