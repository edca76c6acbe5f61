"""Random fleets of both systems, for property tests of decisions and of their reasons."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st
from shedding_world import MB, Broker, Bundle, World

from core.ids import namespace_of, range_text
from core.pegasus.view import NO_NODE, ClusterView
from core.pulsar.ring import initial_boundaries
from core.pulsar.settings import EffectiveSettings, effective_settings
from core.pulsar.view import LoadView
from core.snapshot import Manifest, PulsarSnapshot

BROKERS = [f"10.0.{net}.{host}:8080" for net in range(2) for host in range(6)]
PLACED_SPACES = ["acme/orders", "acme/audit", "globex/logs"]
SHED_SPACES = (
    "acme/orders",
    "acme/audit",
    "pulsar/system",
    "pulsar/{}:8080",
    "sla-monitor/{}:8080",
)
NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
NOON_MS = round(NOON.timestamp() * 1000)
_USAGE = st.sampled_from([0.0, 10.0, 30.0, 60.0, 85.0, 86.0, 99.0])
_RATE = st.sampled_from([0.0, 1.0, 100.0, 250.5])
_RATES = st.just(0.0) | st.floats(1e-6, 1e9)


@st.composite
def worlds(draw: st.DrawFn) -> World:
    """Brokers with nothing, one bundle or many; equal, zero and extreme values are common."""
    throughput = st.sampled_from((0.0, 0.0, 1.0, MB, MB, 40 * MB, 1e12)) | st.floats(0, 1e9)
    rate = st.sampled_from((0.0, 1.0, 500.0, 2_000.0, 1e9)) | st.floats(0, 1e6)
    brokers = {}
    for name in draw(st.lists(st.sampled_from("abcdefgh"), min_size=1, max_size=7, unique=True)):
        space = st.sampled_from(SHED_SPACES).map(lambda text, own=name: text.format(own))
        bundle = st.builds(Bundle, throughput, rate, space)
        cpu = draw(st.sampled_from((0.0, 10.0, 40.0, 40.0, 70.0, 85.0, 99.0)) | st.floats(0, 100))
        brokers[name] = Broker(cpu, draw(st.lists(bundle, max_size=7)))
    conf = {
        "loadBalancerBrokerThresholdShedderPercentage": draw(st.sampled_from((10, 0, 5))),
        "loadBalancerBundleUnloadMinThroughputThreshold": draw(st.sampled_from((10.0, 0.0))),
        "lowerBoundarySheddingEnabled": draw(st.booleans()),
        "minUnloadMessage": draw(st.sampled_from((1000, 0))),
        "minUnloadMessageThroughput": draw(st.sampled_from((1_048_576, 0))),
        "loadBalancerAvgShedderHitCountHighThreshold": draw(st.sampled_from((2, 1))),
        "maxUnloadPercentage": draw(st.sampled_from((0.2, 1.0))),
    }
    return World(brokers, conf)


@st.composite
def extensible_rows(draw: st.DrawFn) -> dict[str, list[dict[str, Any]]]:
    """Brokers of the extensible manager with published loads."""
    names = [f"b{number}:1" for number in range(draw(st.integers(2, 6)))]
    tops = [
        {
            "broker": name,
            "position": position,
            "bundle": f"t/{draw(st.sampled_from('abc'))}/0x{row:07x}{position:x}_0x{row:07x}f",
            "msg_throughput_in": size,
            "msg_throughput_out": 0.0,
        }
        for row, name in enumerate(names)
        for position, size in enumerate(sorted(draw(st.lists(_RATES, max_size=6))))
    ]
    flows = {
        name: sum(row["msg_throughput_in"] for row in tops if row["broker"] == name)
        for name in names
    }
    return {
        "brokers": [
            {
                "broker": name,
                "is_leader": False,
                "version": "4.2.4",
                "load_manager": "x.ExtensibleLoadManagerImpl",
                "msg_throughput_in": flows[name],
            }
            for name in names
        ],
        "bundles": [
            {
                "bundle": row["bundle"],
                "namespace": namespace_of(row["bundle"]),
                "lower": 0,
                "upper": 1,
                "owner": row["broker"],
                "owner_source": "rest",
                "is_broker_bound": False,
            }
            for row in tops
        ],
        "broker_loads": [
            {
                "broker": name,
                "weighted_max_ema": draw(st.sampled_from((0.0, 0.2, 0.9)) | st.floats(0, 1.5)),
                "msg_throughput_ema": flows[name],
                "updated_at": NOON_MS,
            }
            for name in names
        ],
        "top_bundles": tops,
    }


@st.composite
def pulsar_rows(draw: st.DrawFn) -> dict[str, list[dict[str, Any]]]:
    """Rows of a whole small cluster."""
    names = draw(st.lists(st.sampled_from(BROKERS), min_size=1, max_size=8, unique=True))
    brokers = [
        {
            "broker": name,
            "is_leader": False,
            "cpu_usage": draw(_USAGE),
            "cpu_limit": 100.0,
            "msg_rate_in": draw(_RATE),
            "msg_rate_out": 0.0,
            "bundle_count": draw(st.integers(0, 2)),
            "topic_count": draw(st.sampled_from([1, 50_000, 50_001])),
            "long_msg_rate_in": draw(_RATE),
            "long_msg_rate_out": draw(_RATE),
            "persistent_topics_enabled": draw(st.sampled_from([True, True, True, False])),
        }
        for name in names
    ]
    bundles = []
    for space in PLACED_SPACES:
        bounds = initial_boundaries(draw(st.integers(1, 4)))
        for lower, upper in itertools.pairwise(bounds):
            owner = draw(st.sampled_from([None, *names]))
            bundles.append(
                {
                    "bundle": f"{space}/{range_text(lower, upper)}",
                    "namespace": space,
                    "lower": lower,
                    "upper": upper,
                    "owner": owner,
                    "reported_by": owner,
                    "is_broker_bound": False,
                }
            )
    spaces = [
        {
            "namespace": space,
            "tenant": space.partition("/")[0],
            "anti_affinity_group": draw(st.sampled_from([None, "g"])),
            "is_broker_bound": False,
        }
        for space in PLACED_SPACES
    ]
    return {"brokers": brokers, "bundles": bundles, "namespaces": spaces}


@st.composite
def pegasus_clusters(draw: st.DrawFn) -> ClusterView:
    """Whole clusters: uneven tables of different sizes and replica counts, some nodes empty."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    nodes = draw(st.integers(3, 9))
    disk_count = draw(st.integers(1, 3))
    sizes = draw(st.lists(st.integers(1, 24), min_size=1, max_size=5))
    empty = draw(st.integers(0, nodes - 3))
    wanted = draw(st.integers(1, 3))
    members = np.full((sum(sizes), wanted), NO_NODE, dtype=np.int32)
    weights = rng.random(nodes - empty) ** draw(st.sampled_from([0, 2, 6])) + 1e-6
    for row in range(len(members)):
        members[row] = rng.choice(
            nodes - empty, size=wanted, replace=False, p=weights / weights.sum()
        )
    order = rng.permutation(nodes).astype(np.int32)
    members = order[members]
    return ClusterView(
        nodes=tuple(f"10.0.0.{node + 1}:34801" for node in range(nodes)),
        disks=tuple(f"d{disk}" for disk in range(disk_count)),
        app_ids=np.arange(1, len(sizes) + 1, dtype=np.int32),
        app_names=tuple(f"t{table}" for table in range(len(sizes))),
        max_replica_counts=np.full(len(sizes), wanted, dtype=np.int32),
        is_balanceable=np.ones(len(sizes), dtype=np.bool_),
        first_rows=np.cumsum([0, *sizes]).astype(np.int32),
        members=members,
        member_disks=rng.integers(0, disk_count, members.shape).astype(np.int32),
        node_disks=(tuple(range(disk_count)),) * nodes,
    )


def extensible_view(
    rows: dict[str, list[dict[str, Any]]], *, release: str = "4.2.4", **overrides: object
) -> tuple[LoadView, EffectiveSettings]:
    """Return the view of such rows, and the settings: bundles of ``t/c`` are not shed."""
    manifest = Manifest(
        cluster="c", taken_at=NOON, tables={}, load_manager="extensible", release=release
    )
    made = {name: pa.Table.from_pylist(part) for name, part in rows.items() if part}
    snapshot = PulsarSnapshot.build(manifest, made)
    kept = {"loadBalancerSheddingExcludedNamespaces": ["t/c"], **overrides}
    found = effective_settings(snapshot, overrides=kept)
    return LoadView.of(snapshot, found), found


def pulsar_view(
    rows: dict[str, list[dict[str, Any]]], **overrides: object
) -> tuple[LoadView, EffectiveSettings]:
    """Return the view of rows of a modular cluster, and the settings."""
    manifest = Manifest(cluster="c", taken_at=NOON, tables={}, load_manager="modular")
    tables = {name: pa.Table.from_pylist(part) for name, part in rows.items()}
    snapshot = PulsarSnapshot.build(manifest, tables)
    found = effective_settings(snapshot, overrides=overrides)
    return LoadView.of(snapshot, found), found
