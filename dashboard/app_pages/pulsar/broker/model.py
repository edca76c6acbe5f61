"""What the page of one broker shows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from core.arrays import column_values
from core.pulsar.load import limiting_resource, resource_weights, usage_sources
from core.pulsar.measures import Measures
from core.pulsar.settings import EffectiveSettings
from core.schemas.pulsar import RESOURCES
from core.snapshot import PulsarSnapshot
from core.units import KBIT_BYTES, format_age, format_bytes_per_s, format_ratio, pluralize
from dashboard.presenters.moves import Move
from dashboard.presenters.naming import RESOURCE_NAMES, UNKNOWN, resource_name

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Resources:
    """How much of each resource a broker uses.

    Attributes:
        names: For people.
        ratios: Shape ``(5,)``, NaN where unknown.
        texts: Usage and limit in the unit of the report, with the weight where it counts less.
        limiting: Name of the one that gives the weighted maximum, or ``None``.
    """

    names: Sequence[str]
    ratios: Floats
    texts: Sequence[str]
    limiting: str | None


def row_number(snapshot: PulsarSnapshot, broker: str) -> int | None:
    """Return the broker's row, ``None`` when it is not in the snapshot."""
    row = pc.index(snapshot.brokers["broker"], broker).as_py()
    return None if row < 0 else int(row)


def answer(measures: Measures, broker: str, source: str) -> str:
    """Return the sentence that sums up a broker.

    Args:
        measures: Of the snapshot.
        broker: Its name.
        source: What makes its usage, of :func:`core.pulsar.load.usage_sources`.
    """
    usage, traffic = measures.usage, measures.throughput
    if usage.value_of(broker) is None:
        return f"{broker} reports no usage: its load is unknown."
    row = traffic.brokers.index(broker)
    rank = traffic.ranked.index(row) + 1 if row in traffic.ranked else None
    deviation = float(traffic.deviations[row])
    side = "above" if deviation >= 0 else "below"
    place = f", number {rank} of {len(traffic.brokers)}" if rank else ""
    where = (
        f"its traffic of {format_bytes_per_s(traffic.value_of(broker))} is "
        f"{format_ratio(abs(deviation))} {side} the mean{place}"
        if np.isfinite(deviation)
        else "its traffic is unknown"
    )
    bundles = measures.bundle_count.value_of(broker)
    owned = (
        "how many bundles it owns is unknown"
        if bundles is None
        else f"it owns {pluralize(int(bundles), 'bundle')} that can move"
    )
    return (
        f"{broker} runs at {format_ratio(usage.value_of(broker))} ({source or UNKNOWN}); {where}; "
        f"{owned}."
    )


def usage_source(snapshot: PulsarSnapshot, settings: EffectiveSettings, row: int) -> str:
    """Return what makes the broker's usage, with weight and value; empty where it is unknown."""
    return usage_sources(snapshot.brokers.slice(row, 1), settings)[0]


def limiting_of(snapshot: PulsarSnapshot, settings: EffectiveSettings, row: int) -> str | None:
    """Return the resource that gives the broker's weighted maximum."""
    return limiting_resource(snapshot.brokers.slice(row, 1), settings)[0]


def resources(snapshot: PulsarSnapshot, settings: EffectiveSettings, row: int) -> Resources:
    """Return every resource of the broker against its limit."""
    table = snapshot.brokers.slice(row, 1)
    weights = resource_weights(settings)
    limiting = limiting_of(snapshot, settings, row)
    ratios, texts = [], []
    for name in RESOURCES:
        usage = column_values(table, f"{name}_usage")[0]
        limit = column_values(table, f"{name}_limit")[0]
        ratios.append(column_values(table, f"{name}_ratio")[0])
        texts.append(_resource_text(name, float(usage), float(limit), weights.get(name, 0.0)))
    return Resources(
        names=[RESOURCE_NAMES[name] for name in RESOURCES],
        ratios=np.array(ratios, dtype=np.float64),
        texts=texts,
        limiting=None if limiting is None else resource_name(limiting),
    )


def _resource_text(name: str, usage: float, limit: float, weight: float) -> str:
    if not np.isfinite(usage):
        return "unknown"
    if not np.isfinite(limit) or limit <= 0:
        return "no limit reported"
    share = format_ratio(usage / limit)
    if name == "cpu":
        text = f"{share} · {usage / 100:.1f} of {limit / 100:.0f} cores"
    elif name.startswith("bandwidth"):
        used, most = (format_bytes_per_s(value * KBIT_BYTES) for value in (usage, limit))
        text = f"{share} · {used} of {most}"
    else:
        text = f"{share} · {usage / 1024:.1f} of {limit / 1024:.1f} GiB"
    if weight != 1.0:
        text += " · not counted" if weight == 0 else f" · weight {weight:g}"
    return text


def facts(snapshot: PulsarSnapshot, row: int) -> dict[str, str]:
    """Return what is known about the broker besides its load."""
    one = snapshot.brokers.slice(row, 1).to_pylist()[0]
    taken_ms = snapshot.manifest.taken_at.timestamp() * 1000
    ages = {
        name: format_age(None if one[name] is None else (taken_ms - one[name]) / 1000)
        for name in ("started_at", "reported_at")
    }
    manager = (one["load_manager"] or "unknown").rpartition(".")[2]
    return {
        "Role": "leader" if one["is_leader"] else "follower",
        "Version": one["version"] or "unknown",
        "Load manager": manager,
        "Failure domain": one["failure_domain"] or "none",
        "Running for": ages["started_at"],
        "Load report": "unknown" if one["reported_at"] is None else f"{ages['reported_at']} old",
        "Service": one["service_url"] or one["service_url_tls"] or "unknown",
        "Web": one["web_url"] or one["web_url_tls"] or "unknown",
    }


def reported_moves(snapshot: PulsarSnapshot, row: int) -> dict[str, list[str]]:
    """Return the gains and losses that the broker's last load report names."""
    one = snapshot.brokers.slice(row, 1)
    return {side: one[f"last_bundle_{side}"][0].as_py() or [] for side in ("gains", "losses")}


def of_broker(moves: Sequence[Move], broker: str) -> list[Move]:
    """Return the moves to or from the broker."""
    return [move for move in moves if broker in (move.from_broker, move.to_broker)]


def own_settings(settings: EffectiveSettings, broker: str) -> pd.DataFrame:
    """Return the settings whose value on this broker differs from another broker's."""
    rows = []
    for key, by_broker in sorted(settings.differing().items()):
        if broker not in by_broker:
            continue
        mine = by_broker[broker]
        others = sorted({str(value) for value in by_broker.values() if value != mine})
        rows.append({"setting": key, "here": str(mine), "elsewhere": ", ".join(others)})
    return pd.DataFrame(rows, columns=["setting", "here", "elsewhere"])


def bundles_of(bundles: pa.Table, broker: str) -> pa.Table:
    """Return the bundles that the broker owns, the one with most traffic first."""
    mine = bundles.filter(pc.fill_null(pc.equal(bundles["owner"], broker), False))  # noqa: FBT003  # Arrow's signature
    return mine.sort_by([("throughput", "descending")])
