"""What brokers of the extensible manager publish, brought into a snapshot's tables.

Three topics: each broker's own load, its hottest bundles, and the state of every bundle. Only the
last record of each key counts; an empty one withdraws the key.

Source:
    Pulsar ``BrokerLoadData``, ``TopBundlesLoadData``, ``ServiceUnitStateData``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from core.pulsar.snapshot.znodes.decode import UNREADABLE, decode_record
from core.pulsar.snapshot.znodes.records import BundleStats, Count, Rate, Record, ResourceUsage
from core.schemas.pulsar import (
    BROKER_LOADS,
    BROKERS,
    BUNDLES,
    RATES,
    RESOURCES,
    TOP_BUNDLES,
    UNIT_STATES,
)
from core.snapshot.problems import ProblemLog

BROKER_LOAD_TOPIC: Final = "non-persistent://pulsar/system/loadbalancer-broker-load-data"
TOP_BUNDLES_TOPIC: Final = "non-persistent://pulsar/system/loadbalancer-top-bundles-load-data"
UNIT_STATE_TOPIC: Final = "persistent://pulsar/system/loadbalancer-service-unit-state"

_OWNING: Final = {"Owned": "broker", "Splitting": "source_broker", "Releasing": "source_broker"}
_STATS: Final = {
    **{name: name for name in RATES},
    "topic_count": "topics",
    "producer_count": "producer_count",
    "consumer_count": "consumer_count",
    "cache_size_bytes": "cache_size",
}
_EMA: Final = {
    "weighted_max_ema": "weighted_max_ema",
    "msg_throughput_ema": "msg_throughput_ema",
    "max_resource_ratio": "max_resource_usage",
    "updated_at": "updated_at",
    "reported_before_at": "reported_at",
}


class BrokerLoad(Record):
    """One broker's load."""

    cpu: ResourceUsage | None = None
    memory: ResourceUsage | None = None
    direct_memory: ResourceUsage | None = None
    bandwidth_in: ResourceUsage | None = None
    bandwidth_out: ResourceUsage | None = None
    msg_throughput_in: Rate | None = None
    msg_throughput_out: Rate | None = None
    msg_rate_in: Rate | None = None
    msg_rate_out: Rate | None = None
    bundle_count: Count | None = None
    topics: Count | None = None
    max_resource_usage: float | None = None
    weighted_max_ema: float | None = msgspec.field(default=None, name="weightedMaxEMA")
    msg_throughput_ema: float | None = msgspec.field(default=None, name="msgThroughputEMA")
    updated_at: Count | None = None
    reported_at: Count | None = None


class TopBundle(Record):
    """One hot bundle."""

    bundle_name: str | None = None
    stats: BundleStats | None = None


class TopBundles(Record):
    """The hottest bundles of a broker, the coldest of them first."""

    top_bundles_load_data: list[TopBundle] | None = None


class UnitState(Record):
    """State of a bundle's ownership."""

    state: str | None = None
    dst_broker: str | None = None
    source_broker: str | None = None
    timestamp: Count | None = None
    version_id: int | None = None


@dataclass(slots=True, kw_only=True)
class LoadTopics:
    """The last record of each key, as raw JSON.

    Attributes:
        broker_loads: By broker id.
        top_bundles: By broker id.
        unit_states: By bundle.
        is_read: Whether the topics could be read at all.
    """

    broker_loads: dict[str, bytes] = field(default_factory=dict)
    top_bundles: dict[str, bytes] = field(default_factory=dict)
    unit_states: dict[str, bytes] = field(default_factory=dict)
    is_read: bool = False


def with_load_topics(
    tables: Mapping[str, pa.Table], topics: LoadTopics, problems: ProblemLog
) -> dict[str, pa.Table]:
    """Return the tables with everything that the topics hold; never raises for what is in them.

    Args:
        tables: ``brokers`` and ``bundles`` are completed, three more come on top.
        topics: What was read.
        problems: Where to note what is wrong.
    """
    loads = _decoded(BrokerLoad, topics.broker_loads, BROKER_LOAD_TOPIC, problems)
    tops = _decoded(TopBundles, topics.top_bundles, TOP_BUNDLES_TOPIC, problems)
    units = _decoded(UnitState, topics.unit_states, UNIT_STATE_TOPIC, problems)
    hot, states = _top_table(tops), _states_table(units)
    return {
        **tables,
        "brokers": _brokers(tables["brokers"], loads),
        "bundles": _bundles(tables["bundles"], hot, states),
        "broker_loads": _loads_table(loads),
        "top_bundles": hot,
        "unit_states": states,
    }


def _decoded(
    kind: type[Any], raws: Mapping[str, bytes], topic: str, problems: ProblemLog
) -> dict[str, Any]:
    found = {}
    for key in sorted(raws):
        if not raws[key] or raws[key] == b"null":
            continue
        place = f"{topic} key {key}"
        try:
            record = decode_record(kind, raws[key], place, problems)
        except UNREADABLE:
            record = None
        if record is not None:
            found[key] = record
    return found


def _loads_table(loads: Mapping[str, BrokerLoad]) -> pa.Table:
    columns: dict[str, Any] = {"broker": list(loads)}
    for ours, theirs in _EMA.items():
        columns[ours] = list(map(attrgetter(theirs), loads.values()))
    return pa.Table.from_pydict(columns, schema=BROKER_LOADS)


def _top_table(tops: Mapping[str, TopBundles]) -> pa.Table:
    rows = [
        {"broker": broker, "position": position, "bundle": entry.bundle_name}
        | {ours: getattr(entry.stats or BundleStats(), theirs) for ours, theirs in _STATS.items()}
        for broker, record in tops.items()
        for position, entry in enumerate(record.top_bundles_load_data or ())
        if entry.bundle_name
    ]
    return pa.Table.from_pylist(rows, schema=TOP_BUNDLES)


def _states_table(units: Mapping[str, UnitState]) -> pa.Table:
    known = {bundle: unit for bundle, unit in units.items() if unit.state}
    columns = {
        "bundle": list(known),
        "state": [unit.state for unit in known.values()],
        "broker": [unit.dst_broker for unit in known.values()],
        "source_broker": [unit.source_broker for unit in known.values()],
        "changed_at": [unit.timestamp for unit in known.values()],
        "version": [unit.version_id for unit in known.values()],
    }
    return pa.Table.from_pydict(columns, schema=UNIT_STATES)


def _brokers(brokers: pa.Table, loads: Mapping[str, BrokerLoad]) -> pa.Table:
    """Fill usage, traffic and counts of the brokers that published them."""
    if not loads:
        return brokers
    records = [loads.get(name) for name in brokers.column("broker").to_pylist()]
    filled: dict[str, list[Any]] = {
        "reported_at": [record and record.updated_at for record in records],
        "topic_count": [record and record.topics for record in records],
        "bundle_count": [record and record.bundle_count for record in records],
    }
    for rate in RATES:
        filled[rate] = [record and getattr(record, rate) for record in records]
    for resource in RESOURCES:
        entries: list[ResourceUsage] = [
            (getattr(record, resource) if record else None) or ResourceUsage() for record in records
        ]
        usage = [entry.usage for entry in entries]
        limit = [entry.limit for entry in entries]
        filled[f"{resource}_usage"], filled[f"{resource}_limit"] = usage, limit
        filled[f"{resource}_ratio"] = _ratios(usage, limit)
    return _replaced(brokers, filled, BROKERS)


def _ratios(usage: list[float | None], limit: list[float | None]) -> list[float | None]:
    used, whole = np.array(usage, np.float64), np.array(limit, np.float64)
    with np.errstate(all="ignore"):
        ratio = np.where(whole > 0, used / whole, np.nan)
    return [None if not np.isfinite(value) else value for value in ratio.tolist()]


def _replaced(table: pa.Table, filled: Mapping[str, list[Any]], schema: pa.Schema) -> pa.Table:
    """Put values into columns; what is ``None`` leaves what was there."""
    for name, values in filled.items():
        index = table.schema.get_field_index(name)
        new = pa.array(values, schema.field(name).type)
        old = table.column(index).combine_chunks()
        table = table.set_column(index, schema.field(name), pc.coalesce(new, old))
    return table


def _bundles(bundles: pa.Table, hot: pa.Table, states: pa.Table) -> pa.Table:
    """Fill statistics of the hottest bundles, and owners that no other source reports."""
    names = bundles.column("bundle")
    rows = pc.index_in(names, value_set=hot.column("bundle").combine_chunks())
    for column in _STATS:
        index = bundles.schema.get_field_index(column)
        new = hot.column(column).combine_chunks().take(rows)
        value = pc.coalesce(new, bundles.column(index))
        bundles = bundles.set_column(index, BUNDLES.field(column), value)
    return _with_owners(bundles, states)


def _with_owners(bundles: pa.Table, states: pa.Table) -> pa.Table:
    """The channel's word holds where no broker said that it owns the bundle."""
    owner_by_bundle = {
        row["bundle"]: row[_OWNING[row["state"]]]
        for row in states.to_pylist()
        if row["state"] in _OWNING
    }
    if not owner_by_bundle:
        return bundles
    owners = bundles.column("owner").to_pylist()
    sources = bundles.column("owner_source").to_pylist()
    for row, name in enumerate(bundles.column("bundle").to_pylist()):
        if owners[row] is None and owner_by_bundle.get(name):
            owners[row], sources[row] = owner_by_bundle[name], "channel"
    return _replaced(bundles, {"owner": owners, "owner_source": sources}, BUNDLES)
