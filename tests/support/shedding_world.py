"""Small clusters for tests of shedding: brokers by their usage, bundles by their traffic."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from core.ids import is_broker_bound, range_text
from core.pulsar.settings import EffectiveSettings, effective_settings
from core.pulsar.shedding import Decision, find_shedding_strategy
from core.pulsar.view import LoadView
from core.snapshot import Manifest, PulsarSnapshot

MODULAR = "org.apache.pulsar.broker.loadbalance.impl.ModularLoadManagerImpl"
MB = 1_000_000.0


@dataclass(frozen=True)
class Bundle:
    """One bundle; its rates are split evenly between in and out.

    Attributes:
        throughput: bytes/s.
        rate: msg/s.
        namespace: ``tenant/namespace``.
    """

    throughput: float = 0.0
    rate: float = 0.0
    namespace: str = "acme/orders"


@dataclass(frozen=True)
class Broker:
    """One broker; its traffic is that of its bundles.

    Attributes:
        cpu: Percent.
        bundles: What it reports.
    """

    cpu: float
    bundles: Sequence[Bundle] = ()


@dataclass(frozen=True)
class World:
    """A cluster, and what its settings are.

    Attributes:
        brokers: By name without port.
        conf: Upstream settings.
        groups: Anti-affinity group by namespace.
        isolation: Bodies of isolation policies by name.
        release: What the brokers run.
    """

    brokers: Mapping[str, Broker]
    conf: Mapping[str, object] = field(default_factory=dict)
    groups: Mapping[str, str] = field(default_factory=dict)
    isolation: Mapping[str, str] = field(default_factory=dict)
    release: str = "4.2.4"

    def named(self) -> dict[str, list[tuple[str, Bundle]]]:
        """Return the bundles of each broker with their names, numbered through the namespaces."""
        count: dict[str, int] = {}
        found: dict[str, list[tuple[str, Bundle]]] = {}
        for broker, facts in self.brokers.items():
            found[broker] = []
            for bundle in facts.bundles:
                at = count.get(bundle.namespace, 0)
                count[bundle.namespace] = at + 1
                text = range_text(at << 16, (at + 1) << 16)
                found[broker].append((f"{bundle.namespace}/{text}", bundle))
        return found

    def snapshot(self) -> PulsarSnapshot:
        """Return it as a snapshot."""
        named = self.named()
        rows = {
            "brokers": [_broker_row(name, facts) for name, facts in self.brokers.items()],
            "bundles": [
                _bundle_row(name, bundle, f"{broker}:8080")
                for broker, bundles in named.items()
                for name, bundle in bundles
            ],
        }
        spaces = {row["namespace"] for row in rows["bundles"]} | set(self.groups)
        rows["namespaces"] = [
            {
                "namespace": name,
                "tenant": name.partition("/")[0],
                "anti_affinity_group": self.groups.get(name),
                "is_broker_bound": is_broker_bound(name),
            }
            for name in sorted(spaces)
        ]
        rows["policies"] = [
            {"kind": "isolation", "name": name, "body": body}
            for name, body in self.isolation.items()
        ]
        rows["settings"] = [{"name": "loadManagerClassName", "value": MODULAR, "origin": "default"}]
        manifest = Manifest(
            cluster="test",
            taken_at=datetime(2026, 1, 1, tzinfo=UTC),
            tables={},
            load_manager="modular",
            release=self.release,
        )
        tables = {name: pa.Table.from_pylist(part) for name, part in rows.items() if part}
        return PulsarSnapshot.build(manifest, tables)

    def settings(self, snapshot: PulsarSnapshot | None = None) -> EffectiveSettings:
        """Return its settings."""
        return effective_settings(snapshot or self.snapshot(), overrides=self.conf)

    def view(self) -> LoadView:
        """Return it as the kernels see it."""
        snapshot = self.snapshot()
        return LoadView.of(snapshot, self.settings(snapshot))

    def having(self, **conf: object) -> World:
        """Return the same with other settings."""
        return replace(self, conf={**self.conf, **conf})

    def decide(self, strategy: str, *recent: str, rounds: int = 1) -> list[Decision]:
        """Return what a strategy decides, round after round on the same load."""
        return decide_through(strategy, [self] * rounds, *recent)


def decide_through(strategy: str, worlds: Sequence[World], *recent: str) -> list[Decision]:
    """Return what a strategy decides, one round a world, with its memory carried on."""
    chosen = find_shedding_strategy(strategy)
    state = chosen.initial_state()
    found = []
    unlike = {id(world): world for world in worlds}
    prepared = {at: (world.view(), world.settings()) for at, world in unlike.items()}
    for world in worlds:
        view, settings = prepared[id(world)]
        decision, state = chosen.decide(view, chosen.config(settings), state, frozenset(recent))
        found.append(decision)
    return found


def even(count: int, throughput: float, rate: float = 0.0) -> list[Bundle]:
    """Return some equal bundles that carry this much together."""
    return [Bundle(throughput / count, rate / count)] * count


def _broker_row(name: str, facts: Broker) -> dict[str, Any]:
    throughput = sum(bundle.throughput for bundle in facts.bundles)
    rate = sum(bundle.rate for bundle in facts.bundles)
    return {
        "broker": f"{name}:8080",
        "is_leader": False,
        "version": "4.2.4",
        "load_manager": MODULAR,
        "persistent_topics_enabled": True,
        "cpu_usage": facts.cpu,
        "cpu_limit": 100.0,
        "msg_rate_in": rate / 2,
        "msg_rate_out": rate / 2,
        "msg_throughput_in": throughput / 2,
        "msg_throughput_out": throughput / 2,
        "bundle_count": len(facts.bundles),
        "topic_count": len(facts.bundles),
        "long_msg_rate_in": rate / 2,
        "long_msg_rate_out": rate / 2,
    }


def _bundle_row(name: str, bundle: Bundle, broker: str) -> dict[str, Any]:
    lower, upper = (int(part, 16) for part in name.rpartition("/")[2].split("_"))
    halves = {
        f"{term}{kind}_{way}": value / 2
        for term in ("", "short_", "long_")
        for kind, value in (("msg_rate", bundle.rate), ("msg_throughput", bundle.throughput))
        for way in ("in", "out")
    }
    return {
        "bundle": name,
        "namespace": bundle.namespace,
        "lower": lower,
        "upper": upper,
        "owner": broker,
        "reported_by": broker,
        "is_broker_bound": is_broker_bound(bundle.namespace),
        "topic_count": 1,
        **halves,
    }
