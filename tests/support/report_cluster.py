"""Public operators' reports, rebuilt as snapshots from the TOML files of ``tests/reports``."""

from __future__ import annotations

import json
import tempfile
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from core.pulsar.settings import effective_settings
from core.pulsar.snapshot.zkdump import import_zk_dump
from core.simulation.records import top_bundles
from core.snapshot import Manifest, PulsarSnapshot
from core.snapshot.store import load_snapshot

ROOT = Path(__file__).parents[1]
REPORTS = ROOT / "reports"
DUMPS = ROOT / "fixtures" / "reports"
NOW = datetime(2026, 11, 23, 12, 0, tzinfo=UTC)
LATER = datetime(2027, 1, 1, tzinfo=UTC)
"""After every dump: a dump is judged at the moment that its own times show."""

FULL = 0x100000000
KBIT_PER_MB = 8_000.0
EXTENSIBLE = "org.apache.pulsar.broker.loadbalance.extensions.ExtensibleLoadManagerImpl"
MODULAR = "org.apache.pulsar.broker.loadbalance.impl.ModularLoadManagerImpl"


@dataclass(frozen=True)
class Report:
    """One report.

    Attributes:
        name: Of its file, without the ending.
        facts: Everything in the file.
    """

    name: str
    facts: dict[str, Any]

    @property
    def is_control(self) -> bool:
        """Whether it is a cluster without a problem."""
        return self.facts["expected"].get("causes") == 0

    @property
    def keys(self) -> frozenset[str]:
        """Settings any of which the first cause has to name; empty: its objects count."""
        return frozenset(self.facts["expected"].get("keys", ()))

    @property
    def objects(self) -> frozenset[str]:
        """Objects any of which the first cause has to name; empty: its settings count."""
        return frozenset(self.facts["expected"].get("objects", ()))

    def snapshot(self) -> PulsarSnapshot:
        """Rebuild the cluster, the way that a dump of its ZooKeeper is read."""
        if self.facts.get("cluster", {}).get("load_manager") == "extensible":
            made = _extensible(self.facts, self.name)
        elif "saved" in self.facts:
            made = load_snapshot(DUMPS / self.facts["saved"])
        elif "dump" in self.facts:
            made = import_zk_dump(DUMPS / self.facts["dump"], self.name, LATER)
        else:
            with tempfile.TemporaryDirectory() as folder:
                dump = Path(folder) / "dump.jsonl"
                dump.write_text("\n".join(map(json.dumps, _znodes(self.facts))), encoding="utf-8")
                made = import_zk_dump(dump, self.name, NOW)
        made = _unregistered(made, self.facts.get("cluster", {}).get("unregistered", ()))
        made = _with_ownership(made, self.facts.get("ownership", ()))
        return _with_file_settings(made, self.facts.get("broker_conf", {}))


def all_reports(system: str) -> list[Report]:
    """Return the reports and controls of a system, by name."""
    return [
        Report(path.stem, tomllib.loads(path.read_text(encoding="utf-8")))
        for path in sorted((REPORTS / system).glob("*.toml"))
    ]


def _with_ownership(snapshot: PulsarSnapshot, changes: Iterable[dict[str, Any]]) -> PulsarSnapshot:
    """Put bundles into a state of the ownership channel, or give them an owner that is gone."""
    bundles, states, claims = snapshot.bundles.to_pylist(), [], snapshot.claims.to_pylist()
    for one in changes:
        if one["state"] == "heartbeat":
            bundles.append(_heartbeat(one["of"], one["to"]))
            continue
        mine = [row for row in bundles if row["owner"] == one["from"]][: one["bundles"]]
        for row in mine:
            if one["state"] == "gone":
                row["owner"] = one["to"]
                continue
            if one["state"] == "disabled":
                claims.append(_disabled(row, one.get("age_s")))
                continue
            states.append(
                {
                    "bundle": row["bundle"],
                    "state": one["state"],
                    "broker": one.get("to"),
                    "source_broker": one["from"],
                    "changed_at": int(NOW.timestamp() * 1000) - one["age_s"] * 1000,
                }
            )
            row["owner"] = None if one["state"] == "Assigning" else row["owner"]
    tables = {
        **snapshot.tables,
        "bundles": pa.Table.from_pylist(bundles, schema=snapshot.bundles.schema),
        "unit_states": pa.Table.from_pylist(states, schema=snapshot.unit_states.schema),
        "claims": pa.Table.from_pylist(claims, schema=snapshot.claims.schema),
    }
    return PulsarSnapshot.build(snapshot.manifest, tables) if changes else snapshot


def _unregistered(snapshot: PulsarSnapshot, brokers: Iterable[str]) -> PulsarSnapshot:
    """Take brokers out of the registry; what they own and report stays."""
    if not brokers:
        return snapshot
    table = snapshot.brokers
    gone = pc.is_in(table["broker"], value_set=pa.array(list(brokers)))
    tables = {**snapshot.tables, "brokers": table.filter(pc.invert(gone))}
    return PulsarSnapshot.build(snapshot.manifest, tables)


def _heartbeat(broker: str, owner: str) -> dict[str, Any]:
    return {
        "bundle": f"pulsar/{broker}/0x00000000_0xffffffff",
        "namespace": f"pulsar/{broker}",
        "lower": 0,
        "upper": FULL - 1,
        "owner": owner,
        "owner_source": "channel",
        "is_broker_bound": True,
    }


def _disabled(bundle: dict[str, Any], age_s: int | None) -> dict[str, Any]:
    """Return the claim of a bundle whose owner unloads it since so long; ``None``: unknown."""
    bundle["topic_count"] = bundle["producer_count"] = bundle["consumer_count"] = 0
    for name in ("msg_rate_in", "msg_rate_out", "msg_throughput_in", "msg_throughput_out"):
        bundle[name] = 0.0
    return {
        "subject_kind": "bundle",
        "subject": bundle["bundle"],
        "source": "znode",
        "broker": bundle["owner"],
        "modified_at": None if age_s is None else int(NOW.timestamp() * 1000) - age_s * 1000,
        "is_disabled": True,
    }


def _with_file_settings(snapshot: PulsarSnapshot, values: dict[str, Any]) -> PulsarSnapshot:
    rows = [
        {"broker": None, "name": key, "value": _text(value), "origin": "file"}
        for key, value in values.items()
    ]
    added = pa.Table.from_pylist(rows, schema=snapshot.settings.schema)
    settings = pa.concat_tables([snapshot.settings, added])
    return PulsarSnapshot.build(snapshot.manifest, {**snapshot.tables, "settings": settings})


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _extensible(facts: dict[str, Any], name: str) -> PulsarSnapshot:
    """Rebuild a cluster of the extensible manager, the way that its topics are read."""
    brokers = [_named(one, at) for one in facts["brokers"] for at in range(one.get("count", 1))]
    rows: dict[str, list[dict[str, Any]]] = {"brokers": [], "bundles": [], "broker_loads": []}
    total = sum(group["bundles"] for one in brokers for group in one.get("groups", ()))
    width, now_ms = FULL // max(total, 1), int(NOW.timestamp() * 1000)
    for one in brokers:
        groups = [group for group in one.get("groups", ()) for _ in range(group["bundles"])]
        rates = [_rates(_stats(group)) for group in groups]
        for group, rate in zip(groups, rates, strict=True):
            lower, space = len(rows["bundles"]) * width, group.get("ns", "t/n")
            ends = {"lower": lower, "upper": lower + width}
            row = {"bundle": f"{space}/0x{lower:08x}_0x{lower + width:08x}", "namespace": space}
            owner = {"owner": one["name"], "owner_source": "rest", "is_broker_bound": False}
            rows["bundles"].append(row | ends | owner | rate)
        sums = {key: sum(rate[key] for rate in rates) for key in _rates(_stats({}))}
        rows["brokers"].append(
            {
                "broker": one["name"],
                "is_leader": one is brokers[0],
                "version": facts["cluster"]["release"],
                "load_manager": EXTENSIBLE,
                "cpu_usage": one["cpu"] * one.get("cores", 8),
                "cpu_limit": one.get("cores", 8) * 100.0,
                **_address_columns(one),
                **sums,
            }
        )
        rows["broker_loads"].append(
            {
                "broker": one["name"],
                "weighted_max_ema": one["cpu"] / 100,
                "msg_throughput_ema": sums["msg_throughput_in"] + sums["msg_throughput_out"],
                "updated_at": now_ms - round(one.get("age_s", 5) * 1000),
            }
        )
    rows["namespaces"] = [
        {"namespace": space, "tenant": "t", "anti_affinity_group": group, "is_broker_bound": False}
        for space, group in facts.get("anti_affinity", {}).items()
    ]
    rows["settings"] = [
        {"broker": None, "name": key, "value": _text(value), "origin": "dynamic"}
        for key, value in facts.get("settings", {}).items()
    ]
    manifest = Manifest(
        cluster=name,
        taken_at=NOW,
        tables={},
        load_manager="extensible",
        leader=brokers[0]["name"],
        release=facts["cluster"]["release"],
    )
    tables = {table: pa.Table.from_pylist(held) for table, held in rows.items() if held}
    made = PulsarSnapshot.build(manifest, tables)
    tops = top_bundles(made, effective_settings(made))
    return PulsarSnapshot.build(manifest, {**made.tables, "top_bundles": tops})


def _address_columns(one: dict[str, Any]) -> dict[str, Any]:
    made = _addresses(one)
    entries = [f"{name}:{url}" for name, url in one.get("listeners", {}).items()]
    return {
        "web_url": made["webServiceUrl"],
        "web_url_tls": made["webServiceUrlTls"],
        "service_url": made["pulsarServiceUrl"],
        "service_url_tls": made["pulsarServiceUrlTls"],
        "advertised_listeners": entries or None,
        "protocols": [f"{name}:{url}" for name, url in one.get("protocols", {}).items()] or None,
    }


def _rates(stats: dict[str, float]) -> dict[str, float]:
    return {
        "msg_rate_in": float(stats["msgRateIn"]),
        "msg_rate_out": float(stats["msgRateOut"]),
        "msg_throughput_in": float(stats["msgThroughputIn"]),
        "msg_throughput_out": float(stats["msgThroughputOut"]),
    }


def _znodes(facts: dict[str, Any]) -> Iterator[dict[str, Any]]:
    brokers = [_named(one, at) for one in facts["brokers"] for at in range(one.get("count", 1))]
    total = sum(group.get("bundles", 0) for one in brokers for group in one.get("groups", ()))
    width, at = FULL // max(total, 1), 0
    for one in brokers:
        stats: dict[str, dict[str, float]] = {}
        for group in one.get("groups", ()):
            space = group.get("ns", "t/n")
            for bounds in group.get("ranges", ()):
                stats[f"{space}/{bounds}"] = _stats(group)
            for _ in range(group.get("bundles", 0)):
                upper = 0xFFFFFFFF if at == total - 1 else (at + 1) * width
                stats[f"{space}/0x{at * width:08x}_0x{upper:08x}"] = _stats(group)
                at += 1
        yield from _of_broker(one, stats, facts)
    leader = facts.get("leader", {})
    name = leader.get("name", brokers[0]["name"])
    (leading,) = (one for one in brokers if one["name"] == name)
    yield {
        "path": "/loadbalance/leader",
        "value": {
            "serviceUrl": facts["cluster"].get("leader_url", f"http://{name}"),
            "brokerId": None if "leader_url" in facts["cluster"] else name,
        },
        **_held(leading, *(2 * (leader.get("elected_s_ago", 80_000),))),
    }
    if facts.get("settings"):
        values = {key: _text(value) for key, value in facts["settings"].items()}
        yield {"path": "/admin/configuration", "value": values}
    if facts.get("policies"):
        yield {"path": "/admin/clusters/c", "value": {"serviceUrl": "http://c:8080"}}
        yield {
            "path": "/admin/clusters/c/namespaceIsolationPolicies",
            "value": {one["name"]: _policy(one) for one in facts["policies"]},
        }


def _of_broker(
    one: dict[str, Any], stats: dict[str, dict[str, float]], facts: dict[str, Any]
) -> Iterator[dict[str, Any]]:
    """Yield the znodes of a broker and of its bundles."""
    report = _report(one, stats, facts)
    if one.get("registered", True):
        held = _held(one, since_s=86_400, written_s=one.get("age_s", 5))
        yield {"path": f"/loadbalance/brokers/{one['name']}", "value": report, **held}
    yield {
        "path": f"/loadbalance/broker-time-average/{one['name']}",
        "value": _averages("shortTermM", stats) | _averages("longTermM", stats),
        **_written(facts),
    }
    for name, stat in stats.items():
        path = f"/loadbalance/bundle-data/{name}"
        yield {"path": path, "value": _bundle(stat), **_written(facts)}
    if "session" in one:
        value = {"nativeUrl": report["pulsarServiceUrl"], "httpUrl": report["webServiceUrl"]}
        took_s = one.get("took_s_ago", 7_200)
        held = _held(one, since_s=took_s, written_s=took_s)
        for name in stats:
            path = f"/namespace/{name}"
            yield {"path": path, "value": {**value, "disabled": False}, **held}


def _ago(seconds: float) -> int:
    return int((NOW.timestamp() - seconds) * 1000)


def _held(one: dict[str, Any], since_s: float, written_s: float) -> dict[str, Any]:
    """Return how a znode of a broker is held, where the report gives its session."""
    if "session" not in one:
        return {}
    times = {"ctime": _ago(since_s), "mtime": _ago(written_s)}
    return {"ephemeralOwner": one["session"], **times}


def _written(facts: dict[str, Any]) -> dict[str, Any]:
    """Return when the leader wrote its averages, where the report gives that."""
    leader = facts.get("leader", {})
    return {"mtime": _ago(leader["wrote_s_ago"])} if "wrote_s_ago" in leader else {}


def _named(broker: dict[str, Any], at: int) -> dict[str, Any]:
    return broker | {"name": broker["name"].replace("#", str(at))}


def _policy(one: dict[str, Any]) -> dict[str, Any]:
    return {
        "namespaces": one["namespaces"],
        "primary": one["primary"],
        "secondary": one.get("secondary", []),
        "auto_failover_policy": {
            "policy_type": "min_available",
            "parameters": {"min_limit": "1", "usage_threshold": "80"},
        },
    }


def _stats(group: dict[str, Any]) -> dict[str, float]:
    msgs, megabytes = group.get("in", 0.0), group.get("mb_in", 0.0)
    return {
        "msgRateIn": msgs,
        "msgThroughputIn": megabytes * 1e6,
        "msgRateOut": group.get("out", msgs),
        "msgThroughputOut": group.get("mb_out", megabytes) * 1e6,
        "consumerCount": group.get("consumers", 4),
        "producerCount": group.get("producers", 2),
        "topics": group.get("topics", 4),
        "cacheSize": 0,
    }


def _sum(stats: dict[str, dict[str, float]], name: str) -> float:
    return sum(stat[name] for stat in stats.values())


def _report(
    one: dict[str, Any], stats: dict[str, dict[str, float]], facts: dict[str, Any]
) -> dict[str, Any]:
    nic = one.get("nic_gbps", facts["cluster"].get("nic_gbps", 10)) * 1e6
    now_ms = _ago(one.get("age_s", 5))
    return {
        **_addresses(one),
        "persistentTopicsEnabled": True,
        "nonPersistentTopicsEnabled": True,
        "cpu": {"usage": one["cpu"] * one.get("cores", 8), "limit": one.get("cores", 8) * 100.0},
        "memory": {"usage": one.get("heap", 40) * 40.96, "limit": 4096.0},
        "directMemory": {"usage": one.get("direct_memory", 20) * 81.92, "limit": 8192.0},
        "bandwidthIn": {
            "usage": _sum(stats, "msgThroughputIn") / 1e6 * KBIT_PER_MB,
            "limit": nic,
        },
        "bandwidthOut": {
            "usage": _sum(stats, "msgThroughputOut") / 1e6 * KBIT_PER_MB,
            "limit": nic,
        },
        **{name: _sum(stats, name) for name in ("msgRateIn", "msgThroughputIn")},
        **{name: _sum(stats, name) for name in ("msgRateOut", "msgThroughputOut")},
        "lastUpdate": now_ms,
        "lastStats": stats,
        "numTopics": _sum(stats, "topics"),
        "numBundles": len(stats),
        "numConsumers": _sum(stats, "consumerCount"),
        "numProducers": _sum(stats, "producerCount"),
        "bundles": list(stats),
        "lastBundleGains": [],
        "lastBundleLosses": [],
        "brokerVersionString": one.get("version", facts["cluster"]["release"]),
        "loadManagerClassName": one.get("load_manager", MODULAR),
        "startTimestamp": now_ms - one.get("started_s_ago", 86_400) * 1000,
    }


def _addresses(one: dict[str, Any]) -> dict[str, Any]:
    host, _, port = one["name"].rpartition(":")
    urls = {
        "webServiceUrl": one.get("http", f"http://{one['name']}"),
        "webServiceUrlTls": one.get("https"),
        "pulsarServiceUrl": one.get("broker", f"pulsar://{host}:{int(port) - 8080 + 6650}"),
        "pulsarServiceUrlTls": one.get("broker_ssl"),
        "advertisedListeners": {
            name: {"brokerServiceUrl": url} for name, url in one.get("listeners", {}).items()
        },
        "protocols": one.get("protocols", {}),
    }
    return {name: url or None for name, url in urls.items()}


def _averages(prefix: str, stats: dict[str, dict[str, float]]) -> dict[str, float]:
    return {
        f"{prefix}{name[1:]}": _sum(stats, name)
        for name in ("msgRateIn", "msgThroughputIn", "msgRateOut", "msgThroughputOut")
    }


def _bundle(stat: dict[str, float]) -> dict[str, Any]:
    rates = {
        name: stat[name]
        for name in ("msgRateIn", "msgThroughputIn", "msgRateOut", "msgThroughputOut")
    }
    return {
        "shortTermData": {"maxSamples": 10, "numSamples": 10, **rates},
        "longTermData": {"maxSamples": 1000, "numSamples": 1000, **rates},
        "topics": stat["topics"],
    }
