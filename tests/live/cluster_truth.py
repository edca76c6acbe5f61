"""What the real cluster itself says: raw znodes and raw requests, read by nothing of Trimtab's."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError
from real_pulsar import RealPulsar

BUNDLE_DATA = "/loadbalance/bundle-data"
BROKER_AVERAGES = "/loadbalance/broker-time-average"
REPORTS = "/loadbalance/brokers"


@dataclass(frozen=True)
class Znodes:
    """Znodes at one instant: decoded values, and which change each one last saw."""

    values: dict[str, Any] = field(repr=False)
    changes: dict[str, int] = field(repr=False)

    def under(self, folder: str) -> dict[str, Any]:
        """Return ``{name below folder: value}``."""
        cut = len(folder) + 1
        return {p[cut:]: v for p, v in self.values.items() if p.startswith(f"{folder}/")}


@dataclass(frozen=True)
class Ownership:
    """Who owns a bundle, and the change that made it so: another one means it was handed on."""

    broker: str
    since_change: int


class ClusterTruth:
    """Reads the real cluster in the plainest way, one request at a time."""

    def __init__(self, cluster: RealPulsar) -> None:
        self._cluster = cluster
        self._client = KazooClient(hosts=cluster.zookeeper, timeout=20.0)

    def __enter__(self) -> Self:
        self._client.start(timeout=20.0)
        return self

    def __exit__(self, *_: object) -> None:
        self._client.stop()
        self._client.close()

    # -- ZooKeeper ----------------------------------------------------------------------------

    def read(self, *folders: str) -> Znodes:
        """Read every znode below the folders that holds JSON."""
        values: dict[str, Any] = {}
        changes: dict[str, int] = {}
        for folder in folders:
            for path in self._walk(folder):
                with contextlib.suppress(NoNodeError):
                    raw, stat = self._client.get(path)
                    if raw:
                        values[path] = json.loads(raw)
                        changes[path] = stat.mzxid
        return Znodes(values, changes)

    def _walk(self, folder: str) -> Iterator[str]:
        with contextlib.suppress(NoNodeError):
            for name in sorted(self._client.get_children(folder)):
                yield f"{folder}/{name}"
                yield from self._walk(f"{folder}/{name}")

    def dump(self, target: Path, *folders: str) -> Path:
        """Write the znodes as JSON lines, the form that ``import-zk`` takes."""
        znodes = self.read(*folders)
        lines = [json.dumps({"path": p, "value": v}) for p, v in znodes.values.items()]
        target.write_text("\n".join(lines) + "\n", "utf-8")
        return target

    def owners(self) -> dict[str, str]:
        """Return bundle -> broker from the ownership ephemerals (modular manager)."""
        znodes = self.read("/namespace").under("/namespace")
        return {b: v["httpUrl"].removeprefix("http://") for b, v in znodes.items()}

    def ownership(self, bundle: str) -> Ownership | None:
        """Return the ephemeral of one bundle, ``None`` while nobody owns it."""
        with contextlib.suppress(NoNodeError):
            raw, stat = self._client.get(f"/namespace/{bundle}")
            if raw:
                broker = json.loads(raw)["httpUrl"].removeprefix("http://")
                return Ownership(broker, stat.czxid)
        return None

    def leader(self) -> str | None:
        """Return the leader's broker id out of its ephemeral, ``None`` when there is none."""
        found = self.read("/loadbalance").values
        value = found.get("/loadbalance/leader") or found.get("/loadbalance/extension/leader")
        return str(value["brokerId"]) if value else None

    def registered(self) -> set[str]:
        """Return the ids under ``/loadbalance/brokers``."""
        with contextlib.suppress(NoNodeError):
            return set(self._client.get_children(REPORTS))
        return set()

    # -- REST ---------------------------------------------------------------------------------

    def load_reports(self) -> dict[str, dict[str, Any]]:
        """Return every running broker's own load report, as it answers it."""
        path = "/admin/v2/broker-stats/load-report"
        return {
            self._cluster.brokers[i]: self._cluster.get_json(path, broker=i)
            for i in self._cluster.running
        }

    def owned_by_rest(self) -> dict[str, str]:
        """Return bundle -> broker as each running broker says what it owns."""
        owned: dict[str, str] = {}
        for i in self._cluster.running:
            broker = self._cluster.brokers[i]
            path = f"/admin/v2/brokers/{self._cluster.cluster}/{broker}/ownedNamespaces"
            owned |= dict.fromkeys(self._cluster.get_json(path, broker=i), broker)
        return owned

    def lists_topics(self, topics: Iterable[str]) -> bool:
        """Return whether the running brokers together list all of these topics as loaded."""
        listed = {
            topic
            for index in self._cluster.running
            for names in self.topics_of_broker(index).values()
            for topic in names
        }
        return listed.issuperset(topics)

    def topics_of_broker(self, index: int) -> dict[str, dict[str, dict[str, Any]]]:
        """Return bundle -> topic -> statistics of one broker."""
        answer = self._cluster.get_json("/admin/v2/broker-stats/topics", broker=index)
        return {
            f"{namespace}/{span}": {
                topic: stats for domain in domains.values() for topic, stats in domain.items()
            }
            for namespace, spans in answer.items()
            for span, domains in spans.items()
        }
