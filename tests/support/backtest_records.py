"""Generated records: fleets over minutes, as snapshots or as series."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import numpy as np
import pyarrow as pa
from backtest_series import series_of
from fleet_builder import make_snapshot
from fleet_edit import with_policies, with_settings

from core.history.analysis.accuracy.accuracy import Agreement, agreement
from core.history.backtest.pulsar.engine import SimulatedRun
from core.history.backtest.pulsar.fleet import Bundles, fleet_at
from core.history.backtest.pulsar.moves import KINDS
from core.history.backtest.pulsar.replay import predicted
from core.history.backtest.pulsar.score import recorded_run
from core.history.backtest.pulsar.series import LoadSeries
from core.history.store.layout import EVENT_COLUMNS
from core.pulsar.cluster import FleetStart
from core.schemas import PULSAR_TABLES
from core.snapshot import PulsarSnapshot

_SWITCHED_ON = (
    (None, "loadBalancerEnabled", "true", "default"),
    (None, "loadBalancerSheddingEnabled", "true", "default"),
    (
        None,
        "loadBalancerLoadSheddingStrategy",
        "org.apache.pulsar.broker.loadbalance.impl.ThresholdShedder",
        "default",
    ),
    (
        None,
        "loadBalancerLoadPlacementStrategy",
        "org.apache.pulsar.broker.loadbalance.impl.LeastLongTermMessageRate",
        "default",
    ),
)


def fleet(**options: Any) -> PulsarSnapshot:
    """A fleet without isolation policies that sheds by itself, with averages of long standing."""
    made = with_policies(make_snapshot(**{"brokers": 5, "bundles": 150, **options}))
    return FleetStart(with_settings(made, *_SWITCHED_ON)).fleet().sampled(200_000).snapshot


def still(snapshot: PulsarSnapshot, minutes: int) -> Iterator[PulsarSnapshot]:
    """The same load minute after minute."""
    for minute in range(minutes):
        moment = snapshot.manifest.taken_at + timedelta(minutes=minute)
        yield PulsarSnapshot(replace(snapshot.manifest, taken_at=moment), snapshot.tables)


def straight(snapshot: PulsarSnapshot) -> PulsarSnapshot:
    """Usage in proportion to the traffic, the same proportion everywhere."""
    rows = snapshot.brokers.to_pylist()
    for row in rows:
        ways = {"in": row["msg_throughput_in"] / 125.0, "out": row["msg_throughput_out"] / 125.0}
        for way, used in ways.items():
            row[f"bandwidth_{way}_usage"] = used
        row["cpu_usage"] = sum(ways.values()) / 10_000.0
        row["direct_memory_usage"] = sum(ways.values()) / 1_000.0
    made = pa.Table.from_pylist(rows, schema=PULSAR_TABLES["brokers"])
    return PulsarSnapshot.build(snapshot.manifest, {**snapshot.tables, "brokers": made})


def waves(minutes: int, *, swing: float = 0.3, seed: int = 1, **options: Any) -> LoadSeries:
    """A fleet whose bundles' load goes up and down, each in its own time; nobody moves them."""
    base = series_of([fleet(**options)])
    count, brokers = base.shape[2], base.shape[1]
    phase = np.random.default_rng(seed).random(count) * 2 * np.pi
    factor = 1 + swing * np.sin(np.arange(minutes)[:, None] / 30 + phase)
    rates = tuple(rate * factor for rate in base.rates)
    owner = base.owner[0]
    owned = owner >= 0
    sums = np.stack(
        [
            [np.bincount(owner[owned], rate[row][owned], brokers) for rate in rates]
            for row in range(minutes)
        ]
    ).transpose(0, 2, 1)
    ratio = (sums[:, :, 2] + sums[:, :, 3]) / np.maximum(base.traffic, 1.0)
    return replace(
        base,
        taken_at=base.taken_at[0] + 60_000 * np.arange(minutes),
        rates=rates,
        broker_rates=sums,
        broker_usage=base.broker_usage * ratio[:, :, None],
        **{
            name: np.repeat(getattr(base, name), minutes, axis=0)
            for name in (
                *("broker_here", "broker_limit", "broker_topics", "broker_bundles"),
                *("has_reported", "bundle_here", "owner", "reporter", "is_known", "topics"),
                "clients",
            )
        },
    )


def as_a_record(series: LoadSeries, played: SimulatedRun) -> LoadSeries:
    """What would have been recorded, had a run been real."""
    minutes = series.shape[0]
    owner = np.repeat(series.owner[:1], minutes, axis=0)
    moves = played.moves
    for row, bundle, end in zip(moves.row, moves.bundle, moves.destination, strict=True):
        owner[row + 1 :, bundle] = end
    fleets = [
        fleet_at(series, row, Bundles.recorded(series, row), owner[row]) for row in range(minutes)
    ]
    return replace(
        series,
        owner=owner,
        reporter=owner.copy(),
        broker_rates=np.stack([one.rates for one in fleets]),
        broker_usage=np.stack([one.usage for one in fleets]),
        broker_topics=np.stack([one.topics for one in fleets]),
        broker_bundles=np.stack([one.bundles for one in fleets]),
    )


def without_broker(snapshot: PulsarSnapshot, broker: str, heir: str) -> PulsarSnapshot:
    """The fleet after a broker went; another one has its bundles now."""
    tables = dict(snapshot.tables)
    brokers = snapshot.brokers.to_pylist()
    lost = next(row for row in brokers if row["broker"] == broker)
    for row in brokers:
        if row["broker"] == heir:
            for name, value in row.items():
                if name.startswith(("msg_", "bandwidth_")) and name.endswith(
                    ("_in", "_out", "_usage")
                ):
                    row[name] = value + lost[name]
    kept = [row for row in brokers if row["broker"] != broker]
    tables["brokers"] = pa.Table.from_pylist(kept, schema=PULSAR_TABLES["brokers"])
    bundles = [
        row | {"owner": heir, "reported_by": heir} if row["owner"] == broker else row
        for row in snapshot.bundles.to_pylist()
        if not (row["owner"] == broker and row["is_broker_bound"])
    ]
    tables["bundles"] = pa.Table.from_pylist(bundles, schema=PULSAR_TABLES["bundles"])
    return PulsarSnapshot.build(snapshot.manifest, tables)


def split_in_two(snapshot: PulsarSnapshot, bundle: str, owners: tuple[str, str]) -> PulsarSnapshot:
    """The fleet after a bundle was split in the middle; each half has half of its load."""
    rows = snapshot.bundles.to_pylist()
    whole = next(row for row in rows if row["bundle"] == bundle)
    middle = (whole["lower"] + whole["upper"]) // 2
    halves = []
    for (lower, upper), owner in zip(
        ((whole["lower"], middle), (middle, whole["upper"])), owners, strict=True
    ):
        half = {
            name: value / 2 if isinstance(value, float) else value for name, value in whole.items()
        }
        name = f"{whole['namespace']}/0x{lower:08x}_0x{upper:08x}"
        where = {"owner": owner, "reported_by": owner, "bundle": name}
        halves.append(half | {"lower": lower, "upper": upper} | where)
    made = [row for row in rows if row["bundle"] != bundle] + halves
    table = pa.Table.from_pylist(made, schema=PULSAR_TABLES["bundles"])
    order = [(name, "ascending") for name in ("namespace", "lower", "upper")]
    return PulsarSnapshot.build(
        snapshot.manifest, {**snapshot.tables, "bundles": table.sort_by(order)}
    )


def replay_agreement(series: LoadSeries) -> Agreement:
    """Compare rounds by the recorded strategy and settings with every recorded change of owner."""
    return agreement(predicted(series), recorded_moves(series), until=int(series.taken_at[-1]))


def recorded_moves(series: LoadSeries) -> pa.Table:
    """Return the recorded changes of owner, and brokers that went, as rows of ``events``."""
    moves = recorded_run(series).moves
    brokers = np.array([*series.brokers, None], object)
    seen = np.minimum(moves.row + 1, series.shape[0] - 1)
    moved = moves.kind == KINDS.index("unload")
    rows: list[dict[str, Any]] = [
        {"taken_at": at, "kind": "move", "subject": bundle, "before": source, "after": end}
        for at, bundle, source, end in zip(
            series.taken_at[seen][moved].tolist(),
            series.bundles[moves.bundle][moved].tolist(),
            brokers[moves.source][moved].tolist(),
            brokers[moves.destination][moved].tolist(),
            strict=True,
        )
    ]
    went = series.broker_here[:-1] & ~series.broker_here[1:]
    rows += [
        {"taken_at": int(series.taken_at[row + 1]), "kind": "broker_down", "subject": name}
        for row, column in np.argwhere(went).tolist()
        for name in (series.brokers[column],)
    ]
    blank = dict.fromkeys(EVENT_COLUMNS.names, "")
    schema = pa.schema([pa.field("taken_at", pa.int64()), *EVENT_COLUMNS])
    return pa.Table.from_pylist([blank | {"by": "cluster"} | row for row in rows], schema=schema)
