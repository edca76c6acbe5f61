"""Sessions are read from a real ZooKeeper: a broker that dies leaves orphans, and then none."""

from __future__ import annotations

import pytest
from pulsar_under_test import eventually, zookeeper_client

from connectors.pulsar.collect import PulsarCollector
from connectors.sandbox.pulsar.fleet import Sandbox, SandboxOptions
from core.pulsar.owners import HELD, ORPHANED, Ownership, ownership_of
from core.pulsar.settings import effective_settings

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
