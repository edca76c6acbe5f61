"""A recorded Pulsar cluster in a real ZooKeeper, below a chroot of its own, ready to be damaged."""

from __future__ import annotations

import json
from pathlib import Path

from kazoo.client import KazooClient

from connectors.config.model import ClusterConfig
from connectors.pulsar.collect import PulsarCollector
from connectors.sandbox.zookeeper import ZooKeeperProcess
from core.snapshot import Problem, PulsarSnapshot

DUMP = Path(__file__).parents[1] / "fixtures" / "pulsar" / "zk-dump-idle.jsonl"
BROKER = "127.0.0.1:18080"
BUNDLE = "acme/orders/0x20000000_0x30000000"


class StrictZooKeeper(ZooKeeperProcess):
    """A server that checks access rights, as the sandbox's does not."""

    def _java_command(self, java):
        return [part for part in super()._java_command(java) if "skipACL" not in part]


class RecordedCluster:
    """The recorded znodes below ``/<name>``."""

    def __init__(self, server: ZooKeeperProcess, name: str) -> None:
        server.start()  # a test that failed after it killed the server left it down
        self.server = server
        self.client = KazooClient(server.address)
        self.client.start(10)
        self.client.ensure_path(f"/{name}")
        self.client.chroot = f"/{name}"
        self.name = name
        for line in DUMP.read_text().splitlines():
            entry = json.loads(line)
            self.put(entry["path"], json.dumps(entry["value"]).encode())

    def put(self, path: str, value: bytes) -> None:
        """Write a znode, made when it is not there."""
        if self.client.exists(path):
            self.client.set(path, value)
        else:
            self.client.create(path, value, makepath=True)

    def config(self, **changes) -> ClusterConfig:
        """Return a configuration that reads this cluster."""
        return ClusterConfig(
            **{"name": self.name, "zookeeper": f"{self.server.address}/{self.name}", **changes}
        )

    def capture(self, **changes) -> PulsarSnapshot:
        """Capture once."""
        collector = PulsarCollector(self.config(**changes))
        try:
            return collector.collect()
        finally:
            collector.close()

    def close(self) -> None:
        """End the session."""
        self.client.stop()
        self.client.close()


def by_place(snapshot: PulsarSnapshot) -> dict[str, list[Problem]]:
    """Return the problems by their place."""
    found: dict[str, list[Problem]] = {}
    for problem in snapshot.manifest.problems:
        found.setdefault(problem.place, []).append(problem)
    return found


def rows(table, key: str) -> dict:
    """Return rows by key."""
    return {row[key]: row for row in table.to_pylist()}
