"""Data of the page of one bundle."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from itertools import pairwise
from typing import TYPE_CHECKING, Final

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from core.ids import namespace_of, parse_range
from core.pulsar.rules.broker_metrics import BrokerMetrics
from core.pulsar.served import Service
from core.snapshot import PulsarSnapshot
from core.units import (
    format_age,
    format_bytes_per_s,
    format_count,
    format_msgs_per_s,
    format_ratio,
    pluralize,
)
from dashboard.charts.lines import LineSeries
from dashboard.presenters.figures import KeyFigure
from dashboard.presenters.moves import NO_OWNER, ObservedMove, returning
from dashboard.presenters.pulsar.metrics import METRICS_FROM

if TYPE_CHECKING:
    from dashboard.queries.pulsar.broker_load import RecordedBundle

Row = dict[str, object]
Floats = NDArray[np.float64]


def find_row(bundles: pa.Table, name: str) -> Row | None:
    """Return the bundle's row, ``None`` when the snapshot does not have it."""
    row = pc.index(bundles["bundle"], name).as_py()
    return None if row < 0 else dict(bundles.slice(row, 1).to_pylist()[0])


def hottest_table(bundles: pa.Table, names: Sequence[str]) -> pd.DataFrame:
    """Return a row for each of some bundles, in their order.

    Args:
        bundles: With the traffic of each.
        names: Of them.
    """
    rows = [find_row(bundles, name) or {} for name in names]
    found = pd.DataFrame(rows, columns=["bundle", "throughput", "msg_rate", "topic_count", "owner"])
    return found.assign(
        throughput=found["throughput"].astype(float) / 1e6,
        owner=found["owner"].fillna("unassigned"),
    )


def bundles_in(bundles: pa.Table, namespace: str) -> list[str]:
    """Return the names of the bundles of a namespace."""
    same = bundles.filter(pc.equal(bundles["namespace"], namespace))
    return same["bundle"].to_pylist()  # type: ignore[no-any-return]  # Arrow has no types


def children_of(bundles: pa.Table, name: str) -> list[str]:
    """Return the bundles that lie in the range of a bundle that is no longer there."""
    namespace = namespace_of(name)
    lower, upper = parse_range(name.rpartition("/")[2])
    inside = bundles.filter(
        pc.and_(
            pc.equal(bundles["namespace"], namespace),
            pc.and_(
                pc.greater_equal(bundles["lower"], lower), pc.less_equal(bundles["upper"], upper)
            ),
        )
    )
    return inside["bundle"].to_pylist()  # type: ignore[no-any-return]  # Arrow has no types


def subtitle(row: Row, service: Service | None = None) -> str:
    """Return the owner of the bundle and its share of the hash range."""
    owner = row["owner"]
    is_refused = service is not None and service.is_served is False
    where = (
        f"owner {owner}, not served"
        if owner and is_refused
        else f"on {owner}"
        if owner
        else "unassigned until the next lookup"
        if row["owner_source"]
        else "owner unknown"
    )
    lower, upper = (int(str(row[side])) for side in ("lower", "upper"))
    share = (upper - lower) / float(0xFFFFFFFF)
    parts = [where, f"{format_ratio(share)} of the hash range"]
    if row["is_broker_bound"]:
        parts.append("system bundle of its broker")
    return " · ".join(parts)


def key_figures(
    row: Row,
    fleet_total: float | None,
    mean_broker: float | None,
    moves: Sequence[ObservedMove],
    trend: Sequence[float],
    likely: tuple[str, float] | None,
    drained: Collection[str] = (),
    *,
    span: timedelta,
) -> list[KeyFigure]:
    """Return the figures at the top; unknown is unknown.

    Args:
        row: The bundle.
        fleet_total: Traffic of every broker, bytes/s.
        mean_broker: Traffic of a broker on average, bytes/s.
        moves: Of it, in the last hours.
        trend: Its traffic, MB/s, oldest first.
        likely: Where it would go if unloaded now, and how probably.
        drained: Brokers that are empty on purpose; the cluster places bundles on them all the same.
        span: The range of the moves.
    """
    throughput, topics, clients = (
        _number(row["throughput"]),
        _number(row["topic_count"]),
        _clients(row),
    )
    is_too_hot = throughput is not None and mean_broker is not None and throughput > mean_broker
    back = len(returning(moves))
    share = throughput / fleet_total if throughput is not None and fleet_total else None
    return [
        KeyFigure(
            label="Traffic",
            value=format_bytes_per_s(throughput),
            note=f"{format_ratio(share)} of the cluster",
            status="warning" if is_too_hot else "",
            trend=trend,
            help="In plus out, from the last load report.",
        ),
        KeyFigure(
            label="Message rate",
            value=format_msgs_per_s(_number(row["msg_rate"])),
            note=f"long average {format_msgs_per_s(_number(row['long_msg_rate']))}",
        ),
        KeyFigure(label="Topics", value=format_count(topics)),
        KeyFigure(
            label="Clients",
            value="unknown" if clients is None else f"{clients:,}",
            note="would reconnect",
        ),
        KeyFigure(
            label=f"Moves, last {format_age(span.total_seconds())}",
            value=f"{len(moves)}",
            note=f"{back} returned" if back else "",
            status="warning" if back > 1 else "",  # one may be an undo
        ),
        KeyFigure(
            label="If unloaded",
            value="unknown" if likely is None else format_ratio(likely[1]),
            note=""
            if likely is None
            else f"to {likely[0]}{', drained' if likely[0] in drained else ''}",
            help="Most probable destination for an unload now.",
        ),
    ]


def _clients(row: Row) -> int | None:
    sides = [_number(row[f"{side}_count"]) for side in ("producer", "consumer")]
    return None if None in sides else int(sum(side for side in sides if side is not None))


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) else None


def averages_table(row: Row, exposed: Row | None = None) -> pd.DataFrame:
    """Return the last report against the short and the long average, each in its unit.

    Args:
        row: The bundle.
        exposed: What metrics tell of it (:func:`exposed_rates`); ``None``: nothing, no column.
    """
    lines = (
        ("Messages in", "msg_rate_in", format_msgs_per_s),
        ("Messages out", "msg_rate_out", format_msgs_per_s),
        ("Traffic in", "msg_throughput_in", format_bytes_per_s),
        ("Traffic out", "msg_throughput_out", format_bytes_per_s),
    )
    metrics = (
        {} if exposed is None else {"metrics": [text(_number(exposed[n])) for _, n, text in lines]}
    )
    return pd.DataFrame(
        {
            "": [label for label, _, _ in lines],
            "last report": [text(_number(row[name])) for _, name, text in lines],
            **metrics,
            "short average": [text(_number(row[f"short_{name}"])) for _, name, text in lines],
            "long average": [text(_number(row[f"long_{name}"])) for _, name, text in lines],
        }
    ).set_index("")


def exposed_rates(snapshot: PulsarSnapshot, row: Row) -> Row | None:
    """Return the row of ``bundle_metrics`` of a bundle: its owner's, else another broker's."""
    table = snapshot.bundle_metrics
    rows: list[Row] = table.filter(pc.equal(table["bundle"], str(row["bundle"]))).to_pylist()
    of_owner = [one for one in rows if one["broker"] == row["owner"]]
    return next(iter(of_owner or rows), None)


def exposed_note(snapshot: PulsarSnapshot, exposed: Row | None, owner: object) -> str:
    """Return the source of the metrics column; empty if there is none."""
    if exposed is None:
        return ""
    source = BrokerMetrics(snapshot).source
    text = f"Metrics from {exposed['broker']}"
    if source in METRICS_FROM:
        text += f", source: {METRICS_FROM[source]}"
    return f"{text}." if exposed["broker"] == owner else f"{text}, which is not the current owner."


def samples_note(row: Row) -> str:
    """Return the number of samples in the averages."""
    short, long = _number(row["short_samples"]), _number(row["long_samples"])
    if short is None or long is None:
        return "No stored averages: the leader stores the hottest bundles only."
    return (
        f"{pluralize(int(short), 'sample')} in the short-term average, {int(long):,} in the "
        "long-term average; placement uses the long-term average."
    )


def history_series(
    history: pa.Table, recorded: RecordedBundle | None = None
) -> tuple[list[datetime], list[LineSeries], list[ObservedMove]]:
    """Return times, traffic lines and the changes of owner of one bundle, oldest first.

    Args:
        history: Of the saved snapshots.
        recorded: What was recorded from an earlier time on; the saved snapshots follow its end.
    """
    saved = _saved_series(history)
    if recorded is None:
        return saved
    times, series, moves = saved
    later = [at for at, moment in enumerate(times) if moment > recorded.end]
    lines = {one.name: one.values[later] for one in series}
    return (
        [*recorded.times, *(times[at] for at in later)],
        [
            LineSeries(name, np.concatenate([recorded.rates[column], lines.get(name, ())]))
            for name, column in _LINES.items()
        ],
        [*recorded.moves, *(move for move in moves if move.seen_at > recorded.end)],
    )


_LINES: Final = {f"traffic {way}": f"msg_throughput_{way}" for way in ("in", "out")}


def _saved_series(
    history: pa.Table,
) -> tuple[list[datetime], list[LineSeries], list[ObservedMove]]:
    """Return times, traffic lines and the changes of owner in the saved snapshots."""
    if history.num_rows == 0:
        return [], [], []
    times: list[datetime] = history["taken_at"].to_pylist()
    series = [LineSeries(name, _column(history, column)) for name, column in _LINES.items()]
    names: list[str] = history["bundle"].to_pylist()
    owners: list[str | None] = history["owner"].to_pylist()
    sources = history["owner_source"].to_pylist()
    # an owner that could not be read is no move
    known = [at for at, owner in enumerate(owners) if owner or sources[at]]
    moves = [
        ObservedMove(
            seen_at=times[at], bundle=names[at], from_broker=owners[before], to_broker=owners[at]
        )
        for before, at in pairwise(known)
        if owners[at] != owners[before]
    ]
    return times, series, moves


def trend_of(series: Sequence[LineSeries]) -> list[float]:
    """Return the traffic in plus out, MB/s, for a sparkline; unknown is left out."""
    if not series:
        return []
    total = np.sum([one.values for one in series], axis=0) / 1e6
    found: list[float] = total[np.isfinite(total)].tolist()
    return found


def traffic_table(times: Sequence[datetime], series: Sequence[LineSeries]) -> pd.DataFrame:
    """Return the chart as a table, the newest first, MB/s."""
    columns = {one.name: one.values / 1e6 for one in series}
    return pd.DataFrame({"at": list(times), **columns}).iloc[::-1]


def events_of(moves: Sequence[ObservedMove]) -> list[tuple[datetime, str]]:
    """Return time and text of each change of owner, for the chart."""
    return [
        (move.seen_at, f"{move.from_broker or NO_OWNER} → {move.to_broker or NO_OWNER}")
        for move in moves
    ]


def topics_table(topics: pa.Table) -> pd.DataFrame:
    """Return the topics as a table, the one with most traffic first."""
    traffic = _column(topics, "msg_throughput_in") + _column(topics, "msg_throughput_out")
    frame = pd.DataFrame(
        {
            "topic": topics["topic"].to_pylist(),
            "hash": [f"0x{value:08x}" for value in topics["hash"].to_pylist()],
            "traffic": traffic / 1e6,
            "rate": _column(topics, "msg_rate_in") + _column(topics, "msg_rate_out"),
            "producers": _column(topics, "producer_count"),
            "consumers": _column(topics, "consumer_count"),
            "subscriptions": _column(topics, "subscription_count"),
            "backlog": _column(topics, "backlog"),
            "storage": _column(topics, "storage_bytes") / 1e6,
        }
    )
    return frame.sort_values("traffic", ascending=False, ignore_index=True)


def topics_note(topics: pa.Table) -> str:
    """Return whether one topic carries the bundle: then a split cannot help."""
    traffic = _column(topics, "msg_throughput_in") + _column(topics, "msg_throughput_out")
    total = float(np.nansum(traffic))
    if total <= 0 or topics.num_rows < 2:
        return f"{pluralize(topics.num_rows, 'topic')}."
    top = float(np.nanmax(traffic)) / total
    tail = " A single topic cannot be split." if top > 0.5 else ""
    return f"{pluralize(topics.num_rows, 'topic')}; hottest topic: {format_ratio(top)}.{tail}"


def _column(table: pa.Table, name: str) -> Floats:
    return np.array(table[name].cast(pa.float64()), dtype=np.float64)
