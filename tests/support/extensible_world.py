"""Small clusters of the extensible manager: usage of the brokers, and what they publish."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from core.pulsar.settings import EffectiveSettings, effective_settings
from core.pulsar.view import LoadView
from core.snapshot import Manifest, PulsarSnapshot

EXTENSIBLE = "org.apache.pulsar.broker.loadbalance.extensions.ExtensibleLoadManagerImpl"
NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
NOON_MS = round(NOON.timestamp() * 1000)
MB = 1e6


def cluster(
    loads: dict[str, tuple[float, list[float]]],
    *,
    ages_s: dict[str, float] | None = None,
    groups: tuple[str, ...] = (),
    missing: tuple[str, ...] = (),
    unregistered: tuple[str, ...] = (),
    **overrides: Any,
) -> tuple[LoadView, EffectiveSettings]:
    """Brokers with usage and the throughput of their published bundles, coldest first."""
    snapshot = extensible_snapshot(
        loads, ages_s=ages_s, groups=groups, missing=missing, unregistered=unregistered
    )
    settings = effective_settings(snapshot, overrides=overrides)
    return LoadView.of(snapshot, settings), settings


def extensible_snapshot(
    loads: dict[str, tuple[float, list[float]]],
    *,
    ages_s: dict[str, float] | None = None,
    groups: tuple[str, ...] = (),
    missing: tuple[str, ...] = (),
    unregistered: tuple[str, ...] = (),
) -> PulsarSnapshot:
    """Return the same as a snapshot."""
    names = [*loads, *missing]
    tops = [
        {
            "broker": name,
            "position": position,
            "bundle": f"t/{name[0]}/0x{position:08x}_0x{position + 1:08x}",
            "msg_throughput_in": size * MB,
            "msg_throughput_out": 0.0,
        }
        for name, (_, sizes) in loads.items()
        for position, size in enumerate(sizes)
    ]
    tables = {
        "brokers": [
            {
                "broker": name,
                "is_leader": name == names[0],
                "version": "4.2.4",
                "load_manager": EXTENSIBLE,
                "msg_throughput_in": sum(loads[name][1]) * MB if name in loads else None,
                "msg_throughput_out": 0.0,
            }
            for name in sorted(set(names) - set(unregistered))
        ],
        "bundles": [
            {
                "bundle": row["bundle"],
                "namespace": row["bundle"].rpartition("/")[0],
                "lower": row["position"],
                "upper": row["position"] + 1,
                "owner": row["broker"],
                "owner_source": "rest",
                "is_broker_bound": False,
            }
            for row in tops
        ],
        "namespaces": [
            {
                "namespace": name,
                "tenant": "t",
                "anti_affinity_group": "g",
                "is_broker_bound": False,
            }
            for name in groups
        ],
        "broker_loads": [
            {
                "broker": name,
                "weighted_max_ema": usage,
                "msg_throughput_ema": sum(sizes) * MB,
                "updated_at": NOON_MS - round((ages_s or {}).get(name, 5) * 1000),
            }
            for name, (usage, sizes) in loads.items()
        ],
        "top_bundles": tops,
    }
    manifest = Manifest(
        cluster="c",
        taken_at=NOON,
        tables={},
        load_manager="extensible",
        leader=names[0],
        release="4.2.4",
    )
    made = {name: pa.Table.from_pylist(rows) for name, rows in tables.items() if rows}
    return PulsarSnapshot.build(manifest, made)
