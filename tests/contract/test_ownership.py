"""Sessions are read from a real ZooKeeper: a broker that dies leaves orphans, and then none."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta

import pytest
from pulsar_under_test import eventually, zookeeper_client

from connectors.pulsar import znodes
from connectors.pulsar.collect import PulsarCollector
from connectors.sandbox.pulsar.fleet import Sandbox, SandboxOptions
from core.pulsar.owners import CHANGING, HELD, ORPHANED, REFUSED, Ownership, ownership_of
from core.pulsar.served import service_of
from core.pulsar.settings import effective_settings
from core.snapshot import PulsarSnapshot

pytestmark = pytest.mark.zookeeper
_SESSION_S = 8.0


@pytest.mark.slow
def test_orphans_of_a_broken_session_are_seen_and_then_gone() -> None:
    options = SandboxOptions(brokers=3, bundles=40, is_steady=True, session_timeout_s=_SESSION_S)
    with Sandbox(options) as sandbox, zookeeper_client(sandbox.zookeeper) as zookeeper:
        collector = PulsarCollector(sandbox.cluster_config())

        def look() -> Ownership:
            snapshot = collector.collect()
            return ownership_of(snapshot, effective_settings(snapshot))

        before = look()
        assert not before.wrong.num_rows
        assert before.counts[HELD] >= 40
        bundle = next(row for row in before.bundles.to_pylist() if row["session_id"])
        _, stat = zookeeper.get(f"/namespace/{bundle['bundle']}")
        assert (bundle["session_id"], bundle["held_since"]) == (stat.ephemeralOwner, stat.ctime)
        sessions = {row["broker"]: row["session_id"] for row in before.sessions.to_pylist()}
        assert len(set(sessions.values())) == len(sessions) == 3

        dead = sandbox.state.brokers[1]
        sandbox.kill_broker(1)
        zookeeper.delete(f"/loadbalance/brokers/{dead.broker_id}")
        orphans = look().wrong.to_pylist()
        assert {row["state"] for row in orphans} == {ORPHANED}
        assert {row["owner"] for row in orphans} == {dead.broker_id}
        assert {row["session_id"] for row in orphans} == {sessions[dead.broker_id]}

        eventually(lambda: not look().wrong.num_rows, within_s=6 * _SESSION_S)
        assert dead.broker_id not in look().bundles["owner"].to_pylist()
        collector.close()


@pytest.mark.slow
def test_an_unload_that_stopped_half_way_is_read_with_the_time_of_its_znode(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(znodes, "REREAD_S", 0.0)
    options = SandboxOptions(brokers=2, bundles=8, is_steady=True)
    with Sandbox(options) as sandbox, zookeeper_client(sandbox.zookeeper) as zookeeper:
        collector = PulsarCollector(sandbox.cluster_config())
        before = collector.collect()
        movable = [row for row in before.bundles.to_pylist() if not row["is_broker_bound"]]
        bundle = next(row["bundle"] for row in movable if row["owner"])
        path = f"/namespace/{bundle}"
        value, _ = zookeeper.get(path)
        zookeeper.set(path, json.dumps({**json.loads(value), "disabled": True}).encode())
        _, stat = zookeeper.get(path)

        now = collector.collect()
        claim = next(row for row in now.claims.to_pylist() if row["subject"] == bundle)
        assert (claim["is_disabled"], claim["modified_at"]) == (True, stat.mtime)
        assert claim["session_id"] == stat.ephemeralOwner != 0
        others = [
            row["is_disabled"] for row in now.claims.to_pylist() if row["subject"] in _names(now)
        ]
        assert others.count(False) == len(others) - 1
        moment = now.manifest.taken_at + timedelta(minutes=2)
        later = PulsarSnapshot(replace(now.manifest, taken_at=moment), now.tables)
        for snapshot, state in ((now, CHANGING), (later, REFUSED)):
            found = service_of(snapshot, effective_settings(snapshot), bundle)
            assert found is not None
            assert (found.state, found.is_served, found.since) == (state, False, stat.mtime)
        collector.close()


def _names(snapshot: PulsarSnapshot) -> set[str]:
    owned = {row["bundle"] for row in snapshot.bundles.to_pylist() if row["owner"]}
    return owned & {row["subject"] for row in snapshot.claims.to_pylist()}
