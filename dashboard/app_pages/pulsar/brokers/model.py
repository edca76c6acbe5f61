"""Numbers of the Brokers page: measures by which brokers are compared, heatmap, table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from core.arrays import column_values
from core.errors import UnknownNameError
from core.findings.measures import Spread
from core.pulsar.load import usage_sources, weighted_max_usage
from core.pulsar.measures import DEFAULT_TARGET, Measures
from core.pulsar.rules.broker_metrics import BrokerMetrics
from core.pulsar.settings import EffectiveSettings
from core.snapshot import PulsarSnapshot
from core.units import format_percent
from dashboard.charts.heatmap import HeatmapData
from dashboard.charts.scale import Unit
from dashboard.presenters.naming import UNKNOWN

# -- measures --------------------------------------------------------------------------------------

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class BrokerMeasure:
    """One way to compare brokers.

    Attributes:
        key: Stable word, used in URLs.
        label: For people.
        unit: Unit of the values.
        values: Brokers table and settings to values, shape ``(n_brokers,)``, NaN where unknown.
    """

    key: str
    label: str
    unit: Unit
    values: Callable[[pa.Table, EffectiveSettings], Floats]


def _column(name: str) -> Callable[[pa.Table, EffectiveSettings], Floats]:
    return lambda table, _: column_values(table, name)


def _total(name: str) -> Callable[[pa.Table, EffectiveSettings], Floats]:
    return lambda table, _: column_values(table, f"{name}_in") + column_values(table, f"{name}_out")


def _bandwidth(table: pa.Table, _: EffectiveSettings) -> Floats:
    sides = [column_values(table, f"bandwidth_{side}_ratio") for side in ("in", "out")]
    return np.fmax(*sides)


BROKER_MEASURES: Final[tuple[BrokerMeasure, ...]] = (
    BrokerMeasure("usage", "Weighted maximum", "ratio", weighted_max_usage),
    BrokerMeasure("cpu", "CPU", "ratio", _column("cpu_ratio")),
    BrokerMeasure("bandwidth", "Bandwidth", "ratio", _bandwidth),
    BrokerMeasure("rate", "Message rate", "msgs/s", _total("msg_rate")),
    BrokerMeasure("throughput", "Throughput", "bytes/s", _total("msg_throughput")),
)
"""What the chooser offers; the first is what the load manager itself compares."""


def broker_measure(key: str) -> BrokerMeasure:
    """Return the measure with that key.

    Raises:
        UnknownNameError: There is none.
    """
    for measure in BROKER_MEASURES:
        if measure.key == key:
            return measure
    raise UnknownNameError.of("measure", key, [measure.key for measure in BROKER_MEASURES])


# -- heatmap and table -----------------------------------------------------------------------------

MAX_ROWS = 40


def heatmap_data(
    history: Sequence[tuple[datetime, pa.Table]],
    measure: BrokerMeasure,
    settings: EffectiveSettings,
    *,
    max_rows: int = MAX_ROWS,
) -> HeatmapData:
    """Return the brokers with the largest last value over time, and the whole fleet's spread.

    Args:
        history: Time and brokers table of each saved snapshot, oldest first.
        measure: What to compare.
        settings: Give the weights of the resources.
        max_rows: At most so many brokers are drawn; the fleet's mean is over all of them.
    """
    names = _union(table["broker"] for _, table in history)
    grid = np.full((len(names), len(history)), np.nan)
    for column, (_, table) in enumerate(history):
        rows = np.searchsorted(names, table["broker"].to_numpy(zero_copy_only=False).astype(str))
        grid[rows, column] = measure.values(table, settings)
    last = np.nan_to_num(grid[:, -1], nan=-1.0) if history else np.zeros(0)
    order = np.argsort(-last, kind="stable")[:max_rows]
    return HeatmapData(
        rows=[str(name) for name in names[order]],
        times=[moment for moment, _ in history],
        values=grid[order],
        fleet_mean=_over_known(grid, np.nanmean),
        fleet_low=_over_known(grid, np.nanmin),
        fleet_high=_over_known(grid, np.nanmax),
        unit=measure.unit,
        label=measure.label,
        tolerance_ratio=DEFAULT_TARGET.bound,
    )


def _union(columns: object) -> NDArray[np.str_]:
    names = [column.to_numpy(zero_copy_only=False).astype(str) for column in columns]  # type: ignore[attr-defined]  # an iterable of Arrow columns
    return np.unique(np.concatenate(names)) if names else np.zeros(0, dtype=str)


def _over_known(grid: Floats, reduce: object) -> Floats:
    """Reduce each column over its known values; NaN where a column has none."""
    result = np.full(grid.shape[1], np.nan)
    has_some = np.isfinite(grid).any(axis=0)
    if has_some.any():
        result[has_some] = reduce(grid[:, has_some], axis=0)  # type: ignore[operator]  # a NumPy nan-reduction
    return result


def brokers_table(
    snapshot: PulsarSnapshot,
    measures: Measures,
    settings: EffectiveSettings,
    spread: Spread,
    *,
    tolerance_ratio: float = DEFAULT_TARGET.bound,
) -> pd.DataFrame:
    """Return one row a broker, the hottest first; NaN and None are unknown.

    Args:
        snapshot: Its brokers.
        measures: Of the same snapshot.
        settings: Give the weights of the resources.
        spread: The measure that ``deviation`` is of.
        tolerance_ratio: Half width of the target band.
    """
    table = snapshot.brokers
    taken_ms = snapshot.manifest.taken_at.timestamp() * 1000
    frame = pd.DataFrame(
        {
            "broker": table["broker"].to_pylist(),
            "usage": measures.usage.values * 100,
            "limiting": [text or UNKNOWN for text in usage_sources(table, settings)],
            "deviation": spread.deviations * 100,
            "band": band_words(spread.deviations, tolerance_ratio),
            "cpu": column_values(table, "cpu_ratio") * 100,
            "bandwidth_in": column_values(table, "bandwidth_in_ratio") * 100,
            "bandwidth_out": column_values(table, "bandwidth_out_ratio") * 100,
            "throughput": measures.throughput.values / 1e6,
            "msg_rate": measures.msg_rate.values,
            "short_rate": _pair(table, "short_msg_rate"),
            "long_rate": _pair(table, "long_msg_rate"),
            "bundles": measures.bundle_count.values,
            "topics": column_values(table, "topic_count"),
            "clients": column_values(table, "producer_count")
            + column_values(table, "consumer_count"),
            "report_age_s": (taken_ms - column_values(table, "reported_at")) / 1000,
            "version": table["version"].to_pylist(),
            "role": ["leader" if leads else "" for leads in table["is_leader"].to_pylist()],
            **metric_columns(BrokerMetrics(snapshot)),
        }
    )
    return frame.sort_values("usage", ascending=False, na_position="first", ignore_index=True)


def metric_columns(metrics: BrokerMetrics) -> dict[str, Floats]:
    """Return the columns of the metrics, in the units of the table; none where none are read."""
    if not metrics.is_there:
        return {}
    return {
        "gc": metrics.column("gc_time_ratio") * 100,
        "heap": metrics.column("heap_used_ratio") * 100,
        "write_p99": metrics.column("write_p99_ms"),
        "publish_p99": metrics.column("publish_p99_ms"),
        "lookups_pending": metrics.column("lookups_pending"),
        "told_traffic": metrics.throughput / 1e6,
    }


def band_words(deviations: Floats, tolerance_ratio: float) -> list[str]:
    """Return for each broker where it stands to the target band, in a word with a shape."""
    return [
        "? unknown"
        if not np.isfinite(value)
        else "▲▲ far over"
        if value > 2 * tolerance_ratio
        else "▲ over"
        if value > tolerance_ratio
        else "▼▼ far under"
        if value < -2 * tolerance_ratio
        else "▼ under"
        if value < -tolerance_ratio
        else "● within"
        for value in deviations.tolist()
    ]


def _pair(table: pa.Table, name: str) -> Floats:
    return column_values(table, f"{name}_in") + column_values(table, f"{name}_out")


def heatmap_note(data: HeatmapData, measure: BrokerMeasure, *, total: int) -> str:
    """Return the line that explains the picture: what is drawn and what is left out."""
    shown = len(data.rows)
    part = "" if shown >= total else f" The {shown} hottest of {total:,} brokers are drawn."
    points = len(data.times)
    since = f"{points} snapshots" if points != 1 else "One snapshot so far"
    what = {
        "usage": "What the load manager compares: the largest weighted resource.",
        "bandwidth": "The busier direction of the network cards.",
    }.get(measure.key, "")
    pct = data.tolerance_ratio * 100
    band = (
        "Above: mean and range of all brokers. Right: the last one, coloured by distance from the "
        f"mean (teal within ± {format_percent(pct)}, amber within ± {2 * pct:.0f}%, orange beyond)."
    )
    return " ".join(text for text in (what, f"{since}, UTC.", band + part) if text)
