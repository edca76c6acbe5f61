"""Hours and days of a generated year, written as the pipeline leaves them; no minutes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from core.history.store.layout import DAY_MS, HOUR_MS
from core.history.store.store import HistoryStore
from core.history.store.tables import Tables
from core.history.tiers.local import ordered, tier_columns
from core.history.tiers.model import BIN_BITS, CLUSTER_KIND
from core.history.tiers.partitions import tier_booked
from core.history.tiers.registry import DAYS, HOURS, tier_tables
from core.snapshot.record import Kind
from core.units import datetime_to_ms

Floats = NDArray[np.float64]

CLUSTER: Final = "prod"
_DAYS_A_COMMIT: Final = 30
END: Final = datetime(2026, 11, 23, tzinfo=UTC)
"""A Monday: the first moment after the last day."""


@dataclass(frozen=True)
class Year:
    """What is generated.

    Attributes:
        brokers: Their number.
        bundles: Their number, dealt to brokers, namespaces and tenants in turn.
        namespaces: Their number; three of them a tenant.
        days: Before :data:`END`.
        days_of_hours: The last days that have hours, too.
        growth: Share of its first load that a bundle gains each day, by its number.
        noise: Standard deviation of an hour, share of its load.
        missing: Days before :data:`END` (1: the last one) that were not recorded.
    """

    brokers: int = 4
    bundles: int = 24
    namespaces: int = 6
    days: int = 365
    days_of_hours: int = 60
    growth: Mapping[int, float] = field(default_factory=dict)
    noise: float = 0.05
    missing: frozenset[int] = frozenset()
    cluster: str = CLUSTER
    seed: int = 0

    def broker(self, number: int) -> str:
        """Return the name of a broker."""
        return f"10.1.{number // 256}.{number % 256}:8080"

    def namespace(self, bundle: int) -> str:
        """Return the namespace of a bundle."""
        number = bundle % self.namespaces
        return f"tenant-{number // 3}/ns-{number}"

    def bundle(self, number: int) -> str:
        """Return the name of a bundle."""
        place = number // self.namespaces * 0x10000
        return f"{self.namespace(number)}/0x{place:08x}_0x{place + 0x10000:08x}"


def weekly(at_ms: NDArray[np.int64]) -> Floats:
    """Return the shape of the load: a wave by day, less at the weekend; 1 is a weekday's mean."""
    hour = at_ms // HOUR_MS % 24
    weekday = (at_ms // DAY_MS + 3) % 7
    return (1 + 0.5 * np.sin((hour - 8) / 24 * 2 * np.pi)) * np.where(weekday >= 5, 0.6, 1.0)


def write_year(store: HistoryStore, year: Year) -> None:
    """Write the tiers of a cluster, a commit every few days."""
    rng = np.random.default_rng(year.seed)
    base = rng.lognormal(13.0, 1.0, year.bundles).round()
    growth = np.zeros(year.bundles)
    growth[list(year.growth)] = list(year.growth.values())
    names = {
        "broker": np.array([year.broker(n % year.brokers) for n in range(year.bundles)]),
        "bundle": np.array([year.bundle(n) for n in range(year.bundles)]),
        "namespace": np.array([year.namespace(n) for n in range(year.bundles)]),
        "tenant": np.array([year.namespace(n).partition("/")[0] for n in range(year.bundles)]),
    }
    groups = {kind: np.unique(one, return_inverse=True) for kind, one in names.items()}
    end = datetime_to_ms(END)
    tiers = tier_tables(store)
    pending: dict[str, list[pa.Table]] = {HOURS.name: [], DAYS.name: []}
    for day in range(year.days):
        start = end - (year.days - day) * DAY_MS
        if year.days - day in year.missing and day + 1 < year.days:
            continue
        at = start + np.arange(24) * HOUR_MS
        noise = np.exp(rng.normal(0, year.noise, (24, year.bundles)))
        flow = base * (1 + growth * day) * weekly(at)[:, None] * noise
        for kind, times in ((HOURS, at), (DAYS, np.array([start]))):
            if kind is HOURS and day < year.days - year.days_of_hours:
                continue
            parts = [
                _rows(kind, times, one, subjects, _sums(flow, places, subjects.size))
                for one, (subjects, places) in groups.items()
            ]
            servers = _sums(flow, groups["broker"][1], year.brokers)
            parts.append(_cluster(kind, times, servers))
            pending[kind.name].append(ordered(pa.concat_tables(parts)))
        if day % _DAYS_A_COMMIT == 0 or day + 1 == year.days:
            _commit(tiers, year.cluster, pending)


def _commit(tiers: Tables, cluster: str, pending: dict[str, list[pa.Table]]) -> None:
    for kind in (HOURS, DAYS):
        if pending[kind.name]:
            rows = pa.concat_tables(pending[kind.name])
            tiers.append(kind, tier_booked(kind, cluster, rows))
            pending[kind.name] = []


def _sums(flow: Floats, places: NDArray[np.int64], size: int) -> Floats:
    return np.stack([np.bincount(places, weights=one, minlength=size) for one in flow])


def _bins(values: Floats, scale: int) -> NDArray[np.int64]:
    whole = np.floor(values * scale + 0.5).astype(np.int64)
    exponent = np.floor(np.log2(np.maximum(whole, 1 << BIN_BITS))).astype(np.int64)
    return (exponent - BIN_BITS) * (1 << BIN_BITS) + (whole >> (exponent - BIN_BITS))


def _rows(kind: Kind, times: NDArray, name: str, subjects: NDArray, flow: Floats) -> pa.Table:
    size, minutes = times.size * subjects.size, 60 if kind is HOURS else 24 * 60
    mean = (flow if kind is HOURS else flow.mean(axis=0, keepdims=True)).ravel()
    top = (flow if kind is HOURS else flow.max(axis=0, keepdims=True)).ravel()
    given = {
        "taken_at": np.repeat(times, subjects.size),
        "kind": pa.repeat(pa.scalar(name), size),
        "subject": np.tile(subjects, times.size),
        "minutes_seen": np.full(size, minutes),
        "minutes_missing": np.zeros(size, np.int64),
    }
    for measure, share in (("msg_throughput", 1.0), ("msg_rate", 1e-3)):
        given |= _measure(measure, mean * share, top * share, minutes)
    for measure, share in (("msg_throughput_in", 0.4), ("msg_rate_in", 4e-4), ("topics", 1e-5)):
        given |= {f"{measure}_mean": mean * share, f"{measure}_max": top * share}
        given[f"{measure}_minutes"] = np.full(size, minutes)
    if name == "broker":
        usage = np.minimum(mean / 4e8, 1.0), np.minimum(top / 4e8, 1.0)
        given |= _measure("usage", *usage, minutes, scale=1_000_000)
        given |= {one: np.zeros(size, np.int64) for one in ("moves_in", "moves_out")}
    else:
        given |= {one: np.zeros(size, np.int64) for one in ("moves", "moves_by_trimtab", "splits")}
    return _whole(kind, given)


def _measure(
    name: str, mean: Floats, top: Floats, minutes: int, scale: int = 1000
) -> dict[str, object]:
    bins = _bins(mean, scale)
    return {
        f"{name}_mean": mean,
        f"{name}_max": top,
        f"{name}_p50": mean,
        f"{name}_p95": top,
        f"{name}_p99": top,
        f"{name}_minutes": np.full(mean.size, minutes),
        f"{name}_bins": pa.FixedSizeListArray.from_arrays(pa.array(bins, pa.int16()), 1),
        f"{name}_counts": pa.FixedSizeListArray.from_arrays(
            pa.array(np.full(mean.size, minutes), pa.int32()), 1
        ),
    }


def _cluster(kind: Kind, times: NDArray, servers: Floats) -> pa.Table:
    minutes = 60 if kind is HOURS else 24 * 60
    total = servers.sum(axis=1)
    mean = servers.mean(axis=1)
    deviation = np.abs(servers - mean[:, None]).max(axis=1) / mean
    outside = (deviation > 0.2) * 60
    over = (lambda x, f: x) if kind is HOURS else (lambda x, f: f(x, keepdims=True))
    bins, counts = [], []
    for one in (
        [_bins(deviation[[h]], 1_000_000) for h in range(24)]
        if kind is HOURS
        else [_bins(deviation, 1_000_000)]
    ):
        found, times_found = np.unique(one, return_counts=True)
        bins.append(found.tolist())
        counts.append((times_found * 60).tolist())
    size = times.size
    given = {
        "taken_at": times,
        "kind": pa.repeat(pa.scalar(CLUSTER_KIND), size),
        "subject": pa.repeat(pa.scalar(""), size),
        "minutes_seen": np.full(size, minutes),
        "minutes_missing": np.zeros(size, np.int64),
        "system": pa.repeat(pa.scalar("pulsar"), size),
        "snapshots": np.full(size, minutes),
        "revision": times,
        **_measure("msg_throughput", over(total, np.mean), over(total, np.max), minutes),
        **_measure("deviation", over(deviation, np.mean), over(deviation, np.max), minutes),
        "deviation_bins": bins,
        "deviation_counts": counts,
        "servers_mean": np.full(size, float(servers.shape[1])),
        "servers_max": np.full(size, float(servers.shape[1])),
        "servers_minutes": np.full(size, minutes),
        "outside_minutes": over(outside, np.sum),
        "moves": times // HOUR_MS % 5,
        "moves_by_trimtab": np.zeros(size, np.int64),
        "server_losses": np.zeros(size, np.int64),
    }
    return _whole(kind, given)


def _whole(kind: Kind, given: Mapping[str, object]) -> pa.Table:
    size = len(given["taken_at"])
    columns = [
        pa.array(given[one.name]).cast(one.type) if one.name in given else pa.nulls(size, one.type)
        for one in tier_columns(kind)
    ]
    return pa.table(columns, schema=tier_columns(kind))
