"""Parts of the History page for Pulsar clusters."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Final

import numpy as np
import pandas as pd
import pyarrow as pa

from core.errors import SnapshotError
from core.history.queries.query import Evenness
from core.pulsar.load import WEIGHED, resource_weights
from core.schemas.pulsar import RATES
from core.snapshot.store import CachedSnapshot, Storable
from core.units import (
    format_band,
    format_bytes_per_s,
    format_deviation,
    format_ratio,
    pluralize,
)
from dashboard import state
from dashboard.app_pages.history.system import HistoryMeasure, HistorySystem, SubjectSeries
from dashboard.components import words
from dashboard.components.frame import bundle_link
from dashboard.components.pulsar import leader_round
from dashboard.presenters.figures import KeyFigure, band_status
from dashboard.presenters.moments import span_words
from dashboard.queries.pulsar.snapshots import reading
from dashboard.services.pulsar import leader

if TYPE_CHECKING:
    from dashboard.queries.history import HistoryQuery, PeriodLoad, Weights
    from dashboard.services import Config


def _even_figures(evenness: Evenness, recorded: timedelta, bound: float) -> list[KeyFigure]:
    known = evenness.deviation[np.isfinite(evenness.deviation)]
    mean = float(known.mean()) if known.size else None
    share = evenness.share_over(bound)
    return [
        KeyFigure(
            label="Mean of max deviation",
            value=format_deviation(mean),
            note=f"target {format_band(bound)}",
            status=band_status(mean, bound),
            trend=known.tolist(),
            help="Traffic of the busiest broker vs. the mean, averaged over the snapshots.",
        ),
        KeyFigure(
            label="Time over target",
            value=format_ratio(share if known.size else None),
            note=f"{span_words(share * recorded)} of {span_words(recorded)}" if known.size else "",
            help="Share of snapshots with a max deviation above the target.",
            status="unknown" if not known.size else "warning" if share > 0 else "ok",
        ),
    ]


def _describe_moves(rows: pd.DataFrame) -> str:
    moved = rows[rows["kind"] == "move"]
    load = moved[["throughput", "clients"]].sum()
    return (
        f"{pluralize(len(moved), 'bundle')} moved "
        f"({format_bytes_per_s(float(load['throughput']) * 1e6)}, "
        f"{pluralize(round(load['clients']), 'client')})"
    )


def _with_load(rows: pd.DataFrame, after: Storable) -> pd.DataFrame:
    names = ["bundle", *RATES, "producer_count", "consumer_count"]
    loads = after.tables["bundles"].select(names).to_pandas().set_index("bundle").astype(float)
    mine = loads.reindex(rows["subject"])
    moved = (rows["kind"] == "move").to_numpy()

    def sums(*columns: str) -> np.ndarray:
        return np.where(moved, mine[list(columns)].sum(axis=1, min_count=1).to_numpy(), np.nan)

    return rows.assign(
        throughput=sums("msg_throughput_in", "msg_throughput_out") / 1e6,
        msg_rate=sums("msg_rate_in", "msg_rate_out"),
        clients=sums("producer_count", "consumer_count"),
    )


def _read_pair(first: CachedSnapshot, second: CachedSnapshot) -> tuple[Storable, Storable, str]:
    pair = reading(first), reading(second)
    then, now = (one.measures.throughput.max_deviation_ratio for one in pair)
    even = f"max traffic deviation {format_deviation(then)} before, {format_deviation(now)} after"
    return pair[0].snapshot, pair[1].snapshot, even


def _weights(stored: CachedSnapshot | None) -> Weights:
    """Return the active weights of the resources; all 1 without a snapshot."""
    plain = tuple((name, 1.0) for name in WEIGHED)
    if stored is None:
        return plain
    try:
        return tuple(resource_weights(reading(stored).settings).items())
    except SnapshotError:
        return plain


def _draw_accuracy(config: Config, cluster: str) -> bool:
    """Draw the accuracy of the rounds predicted from the leader's events."""
    forecast = leader.leader_forecast(config, cluster)
    if forecast is None or not forecast.accuracy:
        return False
    words.section("Accuracy by lead time", "Newest rounds, predicted from ZooKeeper events.")
    leader_round.accuracy(forecast)
    return True


def _bundle_series(query: HistoryQuery, period_load: PeriodLoad, bundle: str) -> pa.Table:
    return query.history.queries().bundle_series(
        bundle, period_load.minutes, query.period, period_load.step_ms
    )


PULSAR: Final = HistorySystem(
    server="broker",
    server_parameter=state.BROKER,
    subject="bundle",
    move="bundle move",
    move_kind="move",
    by_hand="manual unloads (pulsar-admin)",
    measures=(
        HistoryMeasure("usage", "Usage", "ratio"),
        HistoryMeasure("cpu", "CPU", "ratio"),
        HistoryMeasure("bandwidth_in", "NIC in", "ratio"),
        HistoryMeasure("bandwidth_out", "NIC out", "ratio"),
        HistoryMeasure("rate", "Message rate", "msgs/s"),
        HistoryMeasure("throughput", "Traffic", "bytes/s"),
        HistoryMeasure("bundles", "Bundles", "bundles"),
    ),
    evenness=lambda evenness: evenness.deviation,
    even_unit="ratio",
    even_label="Traffic deviation",
    even_caption="max deviation",
    bound=lambda target_ratio: target_ratio,
    even_figures=_even_figures,
    describe_moves=_describe_moves,
    with_load=_with_load,
    read_pair=_read_pair,
    weights=_weights,
    draw_accuracy=_draw_accuracy,
    pages=(
        ("fleet", "Fleet"),
        ("brokers", "Brokers"),
        ("bundles", "Bundles"),
        ("rebalance", "Rebalance"),
        ("splits", "Splits"),
        ("lookup", "Lookup"),
        ("settings", "Settings"),
    ),
    open_subject=bundle_link,
    subjects=SubjectSeries(
        label="or a bundle",
        parameter=state.BUNDLE,
        placeholder="tenant/namespace/0x00000000_0x40000000",
        names="tenant/namespace/range",
        measures=(
            HistoryMeasure("rate", "Message rate", "msgs/s"),
            HistoryMeasure("throughput", "Traffic", "bytes/s"),
        ),
        read=_bundle_series,
    ),
)
