"""Data of the page of one broker."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from core.arrays import column_values
from core.findings.finding import Finding
from core.findings.verdict import PROBLEMS
from core.pulsar.liveness import ALIVE, liveness_of, loads_of
from core.pulsar.load import limiting_resource, resource_weights, weighted_max_usage
from core.pulsar.measures import Measures, drained_rows
from core.pulsar.rules.broker_metrics import BrokerMetrics
from core.pulsar.settings import EffectiveSettings
from core.schemas.pulsar import RESOURCES
from core.snapshot import PulsarSnapshot
from core.units import (
    KBIT_BYTES,
    format_age,
    format_bits_per_s,
    format_bytes,
    format_bytes_per_s,
    format_deviation,
    format_ms,
    format_msgs_per_s,
    format_ratio,
    ms_to_datetime,
    pluralize,
)
from dashboard.charts.lines import LineSeries
from dashboard.presenters.figures import KeyFigure, band_status
from dashboard.presenters.moves import ObservedMove
from dashboard.presenters.naming import RESOURCE_NAMES, resource_name
from dashboard.presenters.pulsar.bundles import rows_of

Floats = NDArray[np.float64]

LEADER: Final = "Leader"
TABS: Final = (
    "Bundles",
    "Shedding decision",
    LEADER,
    "Latency & backlog",
    "Events",
    "Settings",
)
"""Labels of the tabs; without counts, since the label is what an address names."""

OVERLOADED: Final = "loadBalancerBrokerOverloadedThresholdPercentage"
_MIB: Final = 1024**2
_MAX_PROBLEMS: Final = 2


def row_number(snapshot: PulsarSnapshot, broker: str) -> int | None:
    """Return the broker's row, ``None`` when it is not in the snapshot."""
    row = pc.index(snapshot.brokers["broker"], broker).as_py()
    return None if row < 0 else int(row)


def subtitle(snapshot: PulsarSnapshot, row: int, settings: EffectiveSettings) -> str:
    """Return the facts under the broker's name."""
    one = snapshot.brokers.slice(row, 1).to_pylist()[0]
    now = snapshot.manifest.taken_at
    parts = [f"Pulsar {one['version']}" if one["version"] else "release unknown"]
    if one["is_leader"]:
        parts.append("leader")
    if one["started_at"] is not None:
        parts.append(f"up {format_age(_age_s(one['started_at'], now))}")
    if one["failure_domain"]:
        parts.append(f"failure domain {one['failure_domain']}")
    found = liveness_of(snapshot, settings).by_broker[one["broker"]]
    age = found.report_age_s
    report = "no load report" if age is None else f"report {format_age(age)} old"
    parts.append(report if found.state == ALIVE else found.reason)
    return " · ".join(parts)


def problems(findings: Iterable[Finding], broker: str) -> list[Finding]:
    """Return the problems of a broker that its load figures do not show, worst first."""
    found = [
        finding
        for finding in findings
        if finding.severity in PROBLEMS
        and finding.area not in ("load", "settings")
        and broker in (finding.subject, *finding.servers)
    ]
    return found[:_MAX_PROBLEMS]


def _age_s(epoch_ms: int, now: datetime) -> float:
    return (now - ms_to_datetime(epoch_ms)).total_seconds()


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerLoadHistory:
    """The load of one broker over time, next to the mean of all.

    Attributes:
        times: Of the saved snapshots, oldest first.
        usage: Weighted maximum, ratio, NaN where unknown.
        mean_usage: Of every broker.
        traffic: In plus out, bytes/s.
        rate: Messages/s.
        cpu: Ratio.
        limiting: Ratio of the resource that limits it now.
    """

    times: Sequence[datetime]
    usage: Floats
    mean_usage: Floats
    traffic: Floats
    rate: Floats
    cpu: Floats
    limiting: Floats


def past(
    history: Sequence[tuple[datetime, pa.Table]],
    broker: str,
    settings: EffectiveSettings,
    limiting: str | None,
) -> BrokerLoadHistory:
    """Return the broker's load in each table of its history.

    Args:
        history: Time and brokers table, oldest first.
        broker: Its id.
        settings: Give the weights of the resources.
        limiting: Column name of the resource that limits it now.
    """
    shape = (len(history), 6)
    values = np.full(shape, np.nan)
    for at, (_, table) in enumerate(history):
        usage = weighted_max_usage(table, settings)
        known = usage[np.isfinite(usage) & ~drained_rows(table)]
        values[at, 1] = known.mean() if known.size else np.nan
        row = pc.index(table["broker"], broker).as_py()
        if row < 0:
            continue
        one = table.slice(row, 1)
        values[at, 0] = usage[row]
        values[at, 2] = _sum(one, "msg_throughput")
        values[at, 3] = _sum(one, "msg_rate")
        values[at, 4] = column_values(one, "cpu_ratio")[0]
        if limiting is not None:
            values[at, 5] = column_values(one, f"{limiting}_ratio")[0]
    return BrokerLoadHistory(
        times=[moment for moment, _ in history],
        usage=values[:, 0],
        mean_usage=values[:, 1],
        traffic=values[:, 2],
        rate=values[:, 3],
        cpu=values[:, 4],
        limiting=values[:, 5],
    )


def _sum(table: pa.Table, name: str) -> float:
    return float(column_values(table, f"{name}_in")[0] + column_values(table, f"{name}_out")[0])


def usage_lines(history: BrokerLoadHistory, broker: str) -> list[LineSeries]:
    """Return the lines of the chart: this broker, and the mean of all."""
    return [LineSeries(broker, history.usage), LineSeries("cluster mean", history.mean_usage)]


def usage_table(history: BrokerLoadHistory) -> pd.DataFrame:
    """Return the chart as a table, the newest first."""
    return pd.DataFrame(
        {
            "at": history.times,
            "usage": history.usage * 100,
            "mean": history.mean_usage * 100,
            "traffic": history.traffic / 1e6,
        }
    ).iloc[::-1]


def known_points(values: Floats) -> list[float]:
    """Return the points of a sparkline; unknown ones are left out."""
    found: list[float] = values[np.isfinite(values)].tolist()
    return found


def events(
    moves: Sequence[ObservedMove], broker: str, started_at: int | None, since: datetime
) -> list[tuple[datetime, str]]:
    """Return time and text of the broker's events: restarts, bundles gained and lost.

    Args:
        moves: To and from it, oldest first.
        broker: Its id.
        started_at: When it started, milliseconds; ``None``: unknown.
        since: Begin of the chart.
    """
    counts: dict[datetime, list[int]] = {}
    for move in moves:
        gained = move.to_broker == broker
        counts.setdefault(move.seen_at, [0, 0])[0 if gained else 1] += 1
    found = [
        (
            at,
            ", ".join(
                part for part in (f"+{gained}" * bool(gained), f"-{lost}" * bool(lost)) if part
            )
            + " bundles",
        )
        for at, (gained, lost) in counts.items()
    ]
    if started_at is not None and ms_to_datetime(started_at) >= since:
        found.append((ms_to_datetime(started_at), "restart"))
    return sorted(found)


def key_figures(
    snapshot: PulsarSnapshot,
    measures: Measures,
    settings: EffectiveSettings,
    row: int,
    history: BrokerLoadHistory,
) -> list[KeyFigure]:
    """Return the figures at the top: load against the mean, resources against their limits."""
    broker = measures.brokers[row]
    table = loads_of(snapshot).slice(row, 1)
    limit = settings.number(OVERLOADED) / 100
    limiting = limiting_resource(table, settings)[0]
    traffic, bundles = measures.throughput, measures.bundle_count
    deviation = float(traffic.deviations[row])
    is_aside = bool(traffic.is_set_aside[row])
    clients = column_values(table, "producer_count")[0] + column_values(table, "consumer_count")[0]
    figures = [
        KeyFigure(
            label="Traffic",
            value=format_bytes_per_s(traffic.value_of(broker)),
            note="drained" if is_aside else f"{format_deviation(deviation)} vs mean",
            status="" if is_aside else band_status(deviation, measures.target.bound),
            trend=known_points(history.traffic),
            help="In plus out, from the last load report.",
        ),
    ]
    names = [limiting] if limiting not in (None, "cpu") else []
    for name in [*names, "cpu"]:
        value = float(column_values(table, f"{name}_ratio")[0])
        figures.append(
            KeyFigure(
                label=RESOURCE_NAMES[name],
                value=format_ratio(value),
                note=f"limit {format_ratio(limit)}",
                status="unknown" if np.isnan(value) else "bad" if value > limit else "ok",
                trend=known_points(history.cpu if name == "cpu" else history.limiting),
                help="Highest weighted resource usage." if name == limiting else "",
            )
        )
    figures.append(
        KeyFigure(
            label="Message rate",
            value=format_msgs_per_s(measures.msg_rate.value_of(broker)),
            note=f"mean {format_msgs_per_s(measures.msg_rate.mean)}",
            trend=known_points(history.rate),
        )
    )
    figures += _latency(snapshot, row)
    mean = bundles.mean
    figures += [
        KeyFigure(
            label="Bundles",
            value=_whole(bundles.value_of(broker)),
            note="" if mean is None else f"mean {mean:,.0f}",
        ),
        KeyFigure(
            label="Clients",
            value=_whole(float(clients)),
            note="producers, consumers",
        ),
    ]
    return figures


def _latency(snapshot: PulsarSnapshot, row: int) -> list[KeyFigure]:
    """Return the figure of the publish latency; none where there are no metrics."""
    metrics = BrokerMetrics(snapshot)
    if not metrics.is_there:
        return []
    p99 = metrics.column("publish_p99_ms")
    known = p99[np.isfinite(p99)]
    if not known.size:
        return []
    median = float(np.median(known))
    return [
        KeyFigure(
            label="Publish p99",
            value=format_ms(float(p99[row])),
            note=f"median of brokers {format_ms(median)}",
            status="warning" if p99[row] > 3 * median and known.size > 2 else "",
            help="p99 of the publish latency here; below, its median over all brokers.",
        )
    ]


def _whole(value: float | None) -> str:
    return "unknown" if value is None or np.isnan(value) else f"{value:,.0f}"


def resources(snapshot: PulsarSnapshot, settings: EffectiveSettings, row: int) -> pd.DataFrame:
    """Return every resource of the broker: use, value, limit, weight; unknown is null."""
    table = loads_of(snapshot).slice(row, 1)
    weights = resource_weights(settings)
    limiting = limiting_resource(table, settings)[0]
    rows = []
    for name in RESOURCES:
        usage = float(column_values(table, f"{name}_usage")[0])
        limit = float(column_values(table, f"{name}_limit")[0])
        weight = weights.get(name, 0.0)
        ratio = float(column_values(table, f"{name}_ratio")[0])
        rows.append(
            {
                "resource": RESOURCE_NAMES[name] + (" *" if name == limiting else ""),
                "use": ratio * 100 if np.isfinite(ratio) else None,
                "value": _amount(name, usage),
                "limit": _amount(name, limit) if limit > 0 else "none",
                "weight": f"{weight:g}" if weight else "not counted",
            }
        )
    return pd.DataFrame(rows)


def _amount(name: str, value: float) -> str:
    if not np.isfinite(value):
        return "unknown"
    if name == "cpu":
        return f"{value / 100:.1f} cores"
    if name.startswith("bandwidth"):
        return format_bits_per_s(value * KBIT_BYTES * 8)
    return format_bytes(value * _MIB)


def facts(snapshot: PulsarSnapshot, row: int) -> dict[str, str]:
    """Return the facts about the broker other than its load."""
    one = snapshot.brokers.slice(row, 1).to_pylist()[0]
    return {
        "Load manager": (one["load_manager"] or "unknown").rpartition(".")[2],
        "Service": one["service_url"] or one["service_url_tls"] or "unknown",
        "Web": one["web_url"] or one["web_url_tls"] or "unknown",
    }


def reported_moves(snapshot: PulsarSnapshot, row: int) -> str:
    """Return the bundles gained and lost by its last load report; empty if none."""
    one = snapshot.brokers.slice(row, 1)
    gained, lost = (
        len(one[f"last_bundle_{side}"][0].as_py() or []) for side in ("gains", "losses")
    )
    return f"Last load report: {gained} gained, {lost} lost." if gained or lost else ""


def own_settings(settings: EffectiveSettings, broker: str) -> pd.DataFrame:
    """Return the settings with a value that differs from another broker's."""
    rows = []
    for key, by_broker in sorted(settings.differing().items()):
        if broker not in by_broker:
            continue
        mine = by_broker[broker]
        others = sorted({str(value) for value in by_broker.values() if value != mine})
        rows.append({"setting": key, "here": str(mine), "elsewhere": ", ".join(others)})
    return pd.DataFrame(rows, columns=["setting", "here", "elsewhere"])


def brokers_table(measures: Measures) -> pd.DataFrame:
    """Return a row per broker, the one with most traffic first."""
    traffic, usage, counts = measures.throughput, measures.usage, measures.bundle_count
    unknown = sorted(set(range(len(traffic.brokers))).difference(traffic.ranked))
    rows = [
        {
            "broker": traffic.brokers[row],
            "traffic": float(traffic.values[row]) / 1e6,
            "deviation": format_deviation(float(traffic.deviations[row])),
            "usage": float(usage.values[row]) * 100,
            "bundles": float(counts.values[row]),
        }
        for row in (*traffic.ranked, *unknown)
    ]
    return pd.DataFrame(rows)


def bundles_of(bundles: pa.Table, broker: str) -> pa.Table:
    """Return the bundles that the broker owns, the one with most traffic first."""
    mine = bundles.filter(pc.fill_null(pc.equal(bundles["owner"], broker), False))  # noqa: FBT003  # Arrow's signature
    return mine.sort_by([("throughput", "descending")])


UNKNOWN_DESTINATION: Final = "\u2013"


def bundle_rows(
    mine: pa.Table,
    total: float | None,
    trends: Mapping[str, list[float]],
    likely: Mapping[str, tuple[str, float]],
) -> pd.DataFrame:
    """Return the rows of the broker's bundles.

    Args:
        mine: Its bundles, hottest first.
        total: Traffic of the broker, bytes/s; ``None``: unknown.
        trends: By bundle, MB/s over the last hours.
        likely: By bundle, where it would go if unloaded now, and how probably.
    """
    rows = rows_of(mine)
    rows["part"] = rows["throughput"] * 1e8 / total if total else np.nan
    rows["clients"] = rows["producers"] + rows["consumers"]
    rows["trend"] = [trends.get(name, []) for name in rows["bundle"]]
    rows["likely"] = [
        f"{likely[name][0]} · {format_ratio(likely[name][1])}"
        if name in likely
        else UNKNOWN_DESTINATION
        for name in rows["bundle"]
    ]
    rows["action"] = "Unload…"
    return rows


def shared_destination(rows: pd.DataFrame) -> str:
    """Return the likely destination that all rows of :func:`bundle_rows` share, or ""."""
    known = set(rows["likely"]) - {UNKNOWN_DESTINATION}
    return str(known.pop()) if len(known) == 1 and len(rows) > 1 else ""


def limiting_column(snapshot: PulsarSnapshot, settings: EffectiveSettings, row: int) -> str | None:
    """Return the column name of the resource that limits the broker."""
    return limiting_resource(loads_of(snapshot).slice(row, 1), settings)[0]


def describe_chart(
    broker: str, measures: Measures, limiting: str | None, limit: float, span: str
) -> str:
    """Return the description of the chart, in one sentence."""
    return (
        f"Usage of {broker}, {span}: {format_ratio(measures.usage.value_of(broker))} now, "
        f"limited by {resource_name(limiting)}; the cluster's mean is "
        f"{format_ratio(measures.usage.mean)}, the overload limit {format_ratio(limit)}."
    )


def unload_label(count: int) -> str:
    """Return the label of the button that previews an unload."""
    return f"Unload {pluralize(count, 'bundle')}…" if count else "Unload bundles…"
