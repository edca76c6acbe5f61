"""The lease in ZooKeeper when rights, connection or session are not as they should be."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from time import monotonic

import pytest
from kazoo.client import KazooClient
from kazoo.security import make_acl, make_digest_acl
from recorded_cluster import StrictZooKeeper

from connectors.config.credentials import ZooKeeperAuth
from connectors.config.model import ClusterConfig, Timeouts
from connectors.worker.lease import PATH, ZooKeeperLease
from core.errors import AuthError, ConfigError, RemoteError

pytestmark = pytest.mark.zookeeper

CHROOT = "/pulsar"
QUICK = Timeouts(zookeeper_s=2.0, session_s=2.0)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[StrictZooKeeper]:
    with StrictZooKeeper(tmp_path / "zookeeper") as running:
        yield running


@pytest.fixture
def admin(server: StrictZooKeeper) -> Iterator[KazooClient]:
    client = KazooClient(server.address, auth_data=[("digest", "pulsar:secret")])
    client.start(timeout=15)
    acl = [make_digest_acl("pulsar", "secret", all=True), make_acl("world", "anyone", read=True)]
    client.create(CHROOT, acl=acl)
    yield client
    client.stop()
    client.close()


def lease_of(server: StrictZooKeeper, name: str, **changes: object) -> ZooKeeperLease:
    known = {"name": "c", "zookeeper": f"{server.address}{CHROOT}", "timeouts": QUICK}
    return ZooKeeperLease(ClusterConfig(**{**known, **changes}), name)


@pytest.mark.usefixtures("admin")
def test_missing_right_to_create_is_named_with_its_remedy(server: StrictZooKeeper) -> None:
    lease = lease_of(server, "one")
    with pytest.raises(AuthError) as caught:
        lease.acquire()
    lease.release()
    assert f"does not allow Trimtab to create {PATH}" in caught.value.message
    assert "zookeeper_auth" in caught.value.hint
    assert caught.value.outcome == "refused"


@pytest.mark.usefixtures("admin")
def test_lease_of_who_may_is_seen_by_who_may_not(server: StrictZooKeeper) -> None:
    may = lease_of(server, "one", zookeeper_auth=ZooKeeperAuth(digest="pulsar:secret"))
    may_not = lease_of(server, "other")
    try:
        assert may.acquire()
        assert may.is_held()
        with pytest.raises(AuthError):
            may_not.acquire()
        assert (may_not.holder() or "").startswith("one on ")
    finally:
        may.release()
        may_not.release()


def test_lease_whose_node_was_taken_away_is_not_held_and_can_be_had_again(
    server: StrictZooKeeper, admin: KazooClient
) -> None:
    lease = lease_of(server, "one", zookeeper_auth=ZooKeeperAuth(digest="pulsar:secret"))
    assert lease.acquire()
    admin.delete(f"{CHROOT}{PATH}")
    assert not lease.is_held()
    assert lease.holder() is None
    assert lease.acquire()
    admin.delete(f"{CHROOT}{PATH}")
    admin.create(f"{CHROOT}{PATH}", b"not JSON", ephemeral=True)
    assert not lease.acquire()
    assert "an unreadable name" in (lease.holder() or "")
    lease.release()
    assert admin.exists(f"{CHROOT}{PATH}")  # it was not ours to give back


@pytest.mark.usefixtures("admin")
def test_lease_is_not_held_while_zookeeper_is_away(server: StrictZooKeeper) -> None:
    auth = ZooKeeperAuth(digest="pulsar:secret")
    lease = lease_of(server, "one", zookeeper_auth=auth)
    assert lease.acquire()
    server.kill()
    began = monotonic()
    assert not lease.is_held()
    with pytest.raises(RemoteError):
        lease.acquire()
    assert lease.holder() is None
    lease.release()
    assert monotonic() - began < 20
    server.start()
    other = lease_of(server, "other", zookeeper_auth=auth)
    try:
        pause = threading.Event()
        while not other.acquire():
            assert monotonic() - began < 60, "the old session never ended"
            pause.wait(0.1)
    finally:
        other.release()


def test_cluster_without_zookeeper_has_no_such_lease() -> None:
    with pytest.raises(ConfigError, match="has no zookeeper"):
        ZooKeeperLease(ClusterConfig(name="c", admin_urls=["http://127.0.0.1:1"]), "one")
