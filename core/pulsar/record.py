"""How snapshots of a Pulsar cluster are recorded, and what happened between two of them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from core.ids import namespace_of, parse_range
from core.pulsar.load import WEIGHED
from core.pulsar.measures import uncounted_bundles
from core.schemas import PULSAR_TABLES
from core.schemas.pulsar import ADDED_LATER, RATES
from core.snapshot import PulsarSnapshot
from core.snapshot.diff import SnapshotDiff, diff_snapshots
from core.snapshot.record import Kind, ServerLoad, SystemRecord, changing, part_of
from core.snapshot.store import load_snapshot

_BROKERS = PULSAR_TABLES["brokers"]
_TEXTS = (
    *("web_url", "web_url_tls", "service_url", "service_url_tls", "version", "load_manager"),
    *("persistent_topics_enabled", "non_persistent_topics_enabled"),
    *("last_bundle_gains", "last_bundle_losses", "failure_domain"),
    *ADDED_LATER["brokers"],
)
_NUMBERS = tuple(name for name in _BROKERS.names if name not in _TEXTS)
_BUNDLES = PULSAR_TABLES["bundles"]
_LOADS = (*RATES, "topic_count", "producer_count", "consumer_count", "cache_size_bytes")
_AVERAGES = tuple(
    name for name in _BUNDLES.names if name.startswith(("short_", "long_", "averaged_"))
)
_FACTS = tuple(name for name in _BUNDLES.names if name not in {*_LOADS, *_AVERAGES})
_RING = ("namespace", "lower", "upper")

PULSAR_KINDS: Final = (
    Kind(
        "brokers",
        part_of(_BROKERS, _NUMBERS),
        table="brokers",
        key=("broker",),
        order=("broker",),
        is_spine=True,
    ),
    Kind("broker_facts", part_of(_BROKERS, ("broker", *_TEXTS)), "change", "brokers", ("broker",)),
    Kind(
        "bundle_facts",
        part_of(_BUNDLES, _FACTS),
        "change",
        table="bundles",
        key=("bundle",),
        order=_RING,
        is_spine=True,
    ),
    Kind(
        "bundle_loads",
        part_of(_BUNDLES, ("bundle", *_LOADS)),
        "busy",
        table="bundles",
        key=("bundle",),
        activity=RATES,
    ),
    Kind(
        "bundle_averages",
        part_of(_BUNDLES, ("bundle", *_AVERAGES)),
        "change",
        table="bundles",
        key=("bundle",),
    ),
    changing("namespaces", PULSAR_TABLES["namespaces"], ("namespace",)),
    changing("settings", PULSAR_TABLES["settings"], ("name", "broker")),
    changing("policies", PULSAR_TABLES["policies"], ("kind", "name")),
    changing("topics", PULSAR_TABLES["topics"], ("topic",), ("hash",)),
    changing("broker_loads", PULSAR_TABLES["broker_loads"], ("broker",)),
    changing("top_bundles", PULSAR_TABLES["top_bundles"], ("broker", "position")),
    changing("unit_states", PULSAR_TABLES["unit_states"], ("bundle",)),
    changing("claims", PULSAR_TABLES["claims"], ("subject_kind", "subject", "source", "broker")),
    changing("broker_metrics", PULSAR_TABLES["broker_metrics"], ("broker",)),
    changing("bundle_metrics", PULSAR_TABLES["bundle_metrics"], ("bundle", "broker")),
)
"""Kinds of a Pulsar cluster, in the order in which they are written."""

_DYNAMIC: Final = "dynamic"


def pulsar_events(before: PulsarSnapshot, after: PulsarSnapshot) -> list[dict[str, Any]]:
    """Return rows of ``events``, without who did it."""
    named = replace(before.manifest, cluster=after.manifest.cluster)
    diff = diff_snapshots(PulsarSnapshot(named, before.tables), after)
    found = _fleet(before, after, diff)
    found += [
        {
            "kind": "move",
            "subject": row["bundle"],
            "before": row["from_broker"],
            "after": row["to_broker"],
        }
        for row in diff.moved.to_pylist()
    ]
    found += _rings(diff)
    found += _settings(before, after, diff)
    return found + _policies(before, after)


def _fleet(
    before: PulsarSnapshot, after: PulsarSnapshot, diff: SnapshotDiff
) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    if diff.leader is not None:
        old, new = diff.leader
        found.append({"kind": "leader", "subject": "leader", "before": old, "after": new})
    if not before.brokers.num_rows or not after.brokers.num_rows:
        return found  # one of the two did not read them
    found += [{"kind": "broker_down", "subject": name} for name in diff.brokers_left]
    found += [{"kind": "broker_up", "subject": name} for name in diff.brokers_joined]
    found += [
        {"kind": "broker_up", "subject": name, "details": json.dumps({"restarted": True})}
        for name in diff.brokers_restarted
    ]
    return found


def _rings(diff: SnapshotDiff) -> list[dict[str, Any]]:
    """Bundles in parts, and parts in one."""
    found = [
        {
            "kind": "split",
            "subject": row["parent"],
            "before": row["parent"],
            "after": ",".join(name.rpartition("/")[2] for name in row["children"]),
            "details": json.dumps({"children": row["children"]}),
        }
        for row in diff.splits.to_pylist()
    ]
    gone: dict[str, list[str]] = {}
    for name in diff.gone:
        gone.setdefault(namespace_of(name), []).append(name)
    for name in diff.appeared:
        lower, upper = _range(name)
        parts = [
            part
            for part in gone.get(namespace_of(name), [])
            if lower <= _range(part)[0] and _range(part)[1] <= upper
        ]
        if len(parts) > 1:
            found.append(
                {
                    "kind": "merge",
                    "subject": name,
                    "before": ",".join(part.rpartition("/")[2] for part in parts),
                    "after": name,
                    "details": json.dumps({"parts": parts}),
                }
            )
    return found


def _range(bundle: str) -> tuple[int, int]:
    return parse_range(bundle.rpartition("/")[2])


def _settings(
    before: PulsarSnapshot, after: PulsarSnapshot, diff: SnapshotDiff
) -> list[dict[str, Any]]:
    if not diff.settings.num_rows or not _both_read("settings", before, after):
        return []
    origins = [
        {(row["name"], row["broker"]): row["origin"] for row in one.settings.to_pylist()}
        for one in (before, after)
    ]
    found = []
    for row in diff.settings.to_pylist():
        key = (row["name"], row["broker"])
        # a row that comes or goes is a change only where it was an override
        if (row["before"] is None or row["after"] is None) and _DYNAMIC not in (
            origins[0].get(key),
            origins[1].get(key),
        ):
            continue
        details = {} if row["broker"] is None else {"broker": row["broker"]}
        found.append(
            {
                "kind": "setting",
                "subject": row["name"],
                "before": row["before"],
                "after": row["after"],
                "details": json.dumps(details) if details else None,
            }
        )
    return found


def _policies(before: PulsarSnapshot, after: PulsarSnapshot) -> list[dict[str, Any]]:
    if before.policies.equals(after.policies) or not _both_read("policies", before, after):
        return []
    bodies = [
        {(row["kind"], row["name"]): row["body"] for row in one.policies.to_pylist()}
        for one in (before, after)
    ]
    return [
        {
            "kind": "policy",
            "subject": f"{key[0]} {key[1]}",
            "before": bodies[0].get(key),
            "after": bodies[1].get(key),
        }
        for key in sorted(bodies[0].keys() | bodies[1].keys())
        if bodies[0].get(key) != bodies[1].get(key)
    ]


def _both_read(table: str, before: PulsarSnapshot, after: PulsarSnapshot) -> bool:
    """Whether both snapshots have it from the same source."""
    sources = [one.manifest.tables[table].source for one in (before, after)]
    return sources[0] == sources[1] != "none"


_RATE = "msg_rate_in + msg_rate_out"
_THROUGHPUT = "msg_throughput_in + msg_throughput_out"


def _usage(weights: Mapping[str, float]) -> str:
    """Return SQL of the usage that the load manager compares, ratio; null where unknown."""
    weighed = ", ".join(
        f"{float(weights.get(name, 1.0))!r} * coalesce({name}_ratio, 0)" for name in WEIGHED
    )
    measured = ", ".join(f"{name}_usage" for name in WEIGHED)
    return f"CASE WHEN coalesce({measured}) IS NOT NULL THEN greatest({weighed}) END"


def _uncounted(snapshot: PulsarSnapshot) -> dict[str, dict[str, int]]:
    return {"bundles": uncounted_bundles(snapshot)}


BUNDLE_MEASURES: Final[Mapping[str, str]] = {"rate": _RATE, "throughput": _THROUGHPUT}
"""SQL over a row of ``bundle_loads``, msg/s and bytes/s."""

PULSAR_RECORD: Final[SystemRecord[PulsarSnapshot]] = SystemRecord(
    system="pulsar",
    tables=PULSAR_TABLES,
    counted=("brokers", "bundles"),
    uncounted=_uncounted,
    kinds=PULSAR_KINDS,
    build=PulsarSnapshot.build,
    load=load_snapshot,
    events=pulsar_events,
    servers=ServerLoad(
        rows="brokers",
        key="broker",
        measures={
            "usage": _usage,
            "cpu": "cpu_ratio",
            "bandwidth_in": "bandwidth_in_ratio",
            "bandwidth_out": "bandwidth_out_ratio",
            "rate": _RATE,
            "throughput": _THROUGHPUT,
            "bundles": "bundle_count",
        },
        evenness="throughput",
        drains="broker_facts",
    ),
)
