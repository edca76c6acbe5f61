"""Recording what a leader works from, while ZooKeeper and sessions fail."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from time import monotonic
from typing import Self

import pytest
from kazoo.client import KazooClient
from recorded_cluster import BROKER, RecordedCluster

from connectors.config.model import ClusterConfig, Timeouts
from connectors.pulsar.leader.recording import LeaderRecording
from connectors.sandbox.zookeeper import ZooKeeperProcess
from core.errors import InputError, UnreachableError
from core.pulsar.leader.events import ZnodeEvent, read_recording

pytestmark = pytest.mark.zookeeper

REPORT = f"/loadbalance/brokers/{BROKER}"
WITHIN_S = 30.0


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperProcess]:
    with ZooKeeperProcess(tmp_path_factory.mktemp("zk") / "data") as running:
        yield running


@pytest.fixture
def cluster(server: ZooKeeperProcess, request: pytest.FixtureRequest) -> Iterator[RecordedCluster]:
    made = RecordedCluster(server, f"c{abs(hash(request.node.name)) % 10**9}")
    yield made
    made.close()


class Recorder:
    """A recording under way in a thread."""

    def __init__(self, config: ClusterConfig, out: Path) -> None:
        self.recording = LeaderRecording(config, out, lambda _: self._begun.set())
        self.out = out
        self._begun, self._stop = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self.recording.run, args=(self._stop,))

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._begun.wait(WITHIN_S)
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(WITHIN_S)
        assert not self._thread.is_alive()

    def wait_for(self, found: Callable[[list[ZnodeEvent]], bool]) -> list[ZnodeEvent]:
        """Read the growing file until something is in it."""
        ends_at = monotonic() + WITHIN_S
        events: list[ZnodeEvent] = []
        while monotonic() < ends_at:
            events = self.events()
            if found(events):
                return events
            self._stop.wait(0.1)
        pytest.fail(f"not recorded: {[(e.kind, e.path, e.version) for e in events[-10:]]}")

    def pause(self, seconds: float) -> None:
        """Wait while it records."""
        self._stop.wait(seconds)

    def events(self) -> list[ZnodeEvent]:
        """Read what is there; the file is one that can be read at any moment."""
        return list(read_recording(self.out))


def of(events: list[ZnodeEvent], path: str) -> list[tuple[str, int | None]]:
    return [(event.kind, event.version) for event in events if event.path == path]


def states(events: list[ZnodeEvent]) -> list[str]:
    return [event.state or event.kind for event in events if event.kind in ("session", "ready")]


def test_every_write_of_a_report_is_recorded_in_order(
    cluster: RecordedCluster, tmp_path: Path
) -> None:
    with Recorder(cluster.config(), tmp_path / "r.jsonl.gz") as recorder:
        first = cluster.client.get(REPORT)[1].version
        for number in range(20):
            cluster.put(REPORT, b'{"lastStats": {"%d": {}}}' % number)
            recorder.pause(0.02)
        events = recorder.wait_for(lambda seen: ("mod", first + 20) in of(seen, REPORT))
    versions = [version for _, version in of(events, REPORT) if version is not None]
    assert versions == sorted(versions)
    assert versions[0] == first
    znodes = [event for event in events if event.kind in ("new", "mod")]
    assert [event.mzxid for event in znodes] == sorted(event.mzxid or 0 for event in znodes)
    assert states(events) == ["SyncConnected", "ready"]


def test_a_broker_that_registers_again_is_deleted_and_new(
    cluster: RecordedCluster, tmp_path: Path
) -> None:
    with Recorder(cluster.config(), tmp_path / "r.jsonl") as recorder:
        for _ in range(5):
            cluster.client.delete(REPORT)
            cluster.client.create(REPORT, b"{}")
        cluster.put(REPORT, b'{"again": 1}')
        # the last znode and its write may be read at once: a new one of version 1
        events = recorder.wait_for(
            lambda seen: {version for _, version in of(seen, REPORT)[-1:]} == {1}
        )
    seen = [kind for kind, _ in of(events, REPORT)]
    assert seen[0] == "init"
    assert "del" in seen
    assert all(after == "new" for kind, after in pairwise(seen) if kind == "del")


def test_a_bundle_that_moved_is_deleted_and_new(cluster: RecordedCluster, tmp_path: Path) -> None:
    bundle = "/namespace/acme/orders/0x20000000_0x30000000"
    with Recorder(cluster.config(), tmp_path / "r.jsonl") as recorder:
        cluster.client.delete(bundle)
        cluster.client.create(bundle, b'{"nativeUrl": "pulsar://127.0.0.1:1"}', ephemeral=True)
        events = recorder.wait_for(lambda seen: of(seen, bundle)[-1:] == [("new", 0)])
    assert [kind for kind, _ in of(events, bundle)] == ["init", "del", "new"]


@pytest.mark.slow
def test_after_a_lost_connection_every_znode_is_compared(
    cluster: RecordedCluster, server: ZooKeeperProcess, tmp_path: Path
) -> None:
    config = cluster.config(timeouts=Timeouts(session_s=20))
    with Recorder(config, tmp_path / "r.jsonl.gz") as recorder:
        cluster.client.create("/loadbalance/brokers/b:1", b"{}")
        recorder.wait_for(lambda seen: ("new", 0) in of(seen, "/loadbalance/brokers/b:1"))
        cluster.client.stop()
        server.kill()
        recorder.wait_for(lambda seen: "Disconnected" in states(seen))
        server.start()
        again = KazooClient(f"{server.address}/{cluster.name}")
        again.start(WITHIN_S)
        again.set(REPORT, b'{"unseen": 1}')
        again.delete("/loadbalance/brokers/b:1")
        events = recorder.wait_for(lambda seen: of(seen, REPORT)[-1][0] == "mod")
        events = recorder.wait_for(lambda seen: states(seen)[-1] == "ready")
        again.stop()
        again.close()
    assert states(events)[:2] == ["SyncConnected", "ready"]
    assert "Disconnected" in states(events)[2:]
    assert of(events, "/loadbalance/brokers/b:1")[-1] == ("del", None)


def test_an_expired_session_is_recorded_and_watching_goes_on(
    cluster: RecordedCluster, server: ZooKeeperProcess, tmp_path: Path
) -> None:
    with Recorder(cluster.config(), tmp_path / "r.jsonl.gz") as recorder:
        watching = recorder.recording._watcher._client
        thief = KazooClient(server.address, client_id=watching.client_id)
        thief.start(WITHIN_S)
        thief.stop()  # ends the session of both
        thief.close()
        events = recorder.wait_for(
            lambda seen: "Expired" in states(seen) and states(seen)[-1] == "ready"
        )
        assert [kind for kind, _ in of(events, REPORT)] == ["init", "init"]
        cluster.put(REPORT, b'{"after": 1}')
        recorder.wait_for(lambda seen: of(seen, REPORT)[-1][0] == "mod")


def test_credentials_are_not_recorded(cluster: RecordedCluster, tmp_path: Path) -> None:
    cluster.put("/admin/configuration", b'{"loadBalancerSheddingEnabled": "true", "pw": "s3cret"}')
    cluster.put("/admin/clusters/test", b'{"brokerClientAuthenticationParameters": "s3cret"}')
    cluster.put("/admin/clusters/test/namespaceIsolationPolicies", b"{}")
    with Recorder(cluster.config(), tmp_path / "r.jsonl") as recorder:
        cluster.put("/admin/configuration", b"not JSON: s3cret")
        events = recorder.wait_for(lambda seen: ("mod", 2) in of(seen, "/admin/configuration"))
    text = (tmp_path / "r.jsonl").read_text()
    assert "s3cret" not in text
    assert "loadBalancerSheddingEnabled" in text
    assert of(events, "/admin/clusters/test/namespaceIsolationPolicies")


def test_no_file_is_left_behind_where_nothing_could_be_read(tmp_path: Path) -> None:
    config = ClusterConfig(name="none", zookeeper="127.0.0.1:1", timeouts=Timeouts(zookeeper_s=0.5))
    with pytest.raises(UnreachableError, match="cannot be reached"):
        LeaderRecording(config, tmp_path / "r.jsonl").run(threading.Event())
    assert not (tmp_path / "r.jsonl").exists()


def test_an_existing_file_is_refused_before_anything_is_read(tmp_path: Path) -> None:
    (tmp_path / "r.jsonl").write_text("mine")
    config = ClusterConfig(name="none", zookeeper="127.0.0.1:1")
    with pytest.raises(InputError, match="already exists"):
        LeaderRecording(config, tmp_path / "r.jsonl").run(threading.Event())
    assert (tmp_path / "r.jsonl").read_text() == "mine"
