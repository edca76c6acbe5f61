"""A damaged, forbidden, vanished or stopped ZooKeeper: named, and the rest still loads."""

from __future__ import annotations

import json
import os
import random
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from time import monotonic

import pytest
from kazoo.client import KazooClient
from kazoo.security import make_digest_acl
from mutations import mutate
from recorded_cluster import (
    BROKER,
    BUNDLE,
    RecordedCluster,
    StrictZooKeeper,
    by_place,
    rows,
)
from small_broker import SmallBroker, serve_cluster

from connectors.config.model import ClusterConfig
from connectors.pulsar.check import check_cluster
from connectors.pulsar.collect import PulsarCollector
from connectors.sandbox.zookeeper import ZooKeeperProcess
from connectors.zookeeper.client import BROKE_CONNECTION, ZooKeeperReader
from connectors.zookeeper.multi_read import GET_CHILDREN, GET_DATA, ReadOperation, request_of
from core.errors import RemoteError, UnreachableError

pytestmark = pytest.mark.zookeeper


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperProcess]:
    with StrictZooKeeper(tmp_path_factory.mktemp("zk") / "data") as running:
        yield running


@pytest.fixture
def cluster(server: ZooKeeperProcess, request: pytest.FixtureRequest) -> Iterator[RecordedCluster]:
    made = RecordedCluster(server, f"c{abs(hash(request.node.name)) % 10**9}")
    yield made
    made.close()


def test_recorded_cluster_is_captured_whole_and_without_a_problem(cluster: RecordedCluster) -> None:
    snapshot = cluster.capture()
    assert snapshot.manifest.problems == ()
    assert snapshot.manifest.load_manager == "modular"
    assert snapshot.manifest.leader == BROKER
    assert snapshot.manifest.pulsar_cluster == "test"
    bundle = rows(snapshot.bundles, "bundle")[BUNDLE]
    assert (bundle["owner"], bundle["owner_source"]) == (BROKER, "ownership")
    assert bundle["long_samples"] == 4
    assert snapshot.manifest.unavailable  # no admin URL: file settings are unknown


@pytest.mark.parametrize(
    ("raw", "code", "lost"),
    [
        (b"", "malformed", "cpu_usage"),
        (b"{", "malformed", "cpu_usage"),
        (b"\xff\xfe\x00", "malformed", "cpu_usage"),
        (b"[" * 50_000, "malformed", "cpu_usage"),
        (b"[]", "malformed", "cpu_usage"),
        (b"{}", "missing", "cpu_usage"),
    ],
)
def test_broker_whose_znode_is_damaged_keeps_its_row_and_is_named(
    cluster: RecordedCluster, raw: bytes, code: str, lost: str
) -> None:
    path = f"/loadbalance/brokers/{BROKER}"
    cluster.put(path, raw)
    snapshot = cluster.capture()
    brokers = rows(snapshot.brokers, "broker")
    assert len(brokers) == 3
    assert brokers[BROKER][lost] is None
    assert brokers["127.0.0.1:18081"][lost] is not None
    assert code in {problem.code for problem in by_place(snapshot)[path]}


def test_one_bad_field_costs_that_field_only(cluster: RecordedCluster) -> None:
    path = f"/loadbalance/brokers/{BROKER}"
    report = json.loads(cluster.client.get(path)[0])
    report["cpu"]["usage"] = "much"
    report["msgRateIn"] = -1.0
    report["lastStats"][BUNDLE]["topics"] = None
    cluster.put(path, json.dumps(report).encode())
    snapshot = cluster.capture()
    broker = rows(snapshot.brokers, "broker")[BROKER]
    assert broker["cpu_usage"] is None
    assert broker["cpu_limit"] == report["cpu"]["limit"]
    assert broker["msg_rate_in"] is None
    assert broker["msg_rate_out"] == report["msgRateOut"]
    bundle = rows(snapshot.bundles, "bundle")[BUNDLE]
    assert bundle["topic_count"] is None
    assert bundle["msg_rate_in"] == report["lastStats"][BUNDLE]["msgRateIn"]
    said = " ".join(problem.what for problem in by_place(snapshot)[path])
    for field in ("cpu.usage", "msgRateIn", f"lastStats[{BUNDLE}].topics"):
        assert field in said


def test_damaged_ownership_falls_back_to_the_report_and_says_so(cluster: RecordedCluster) -> None:
    cluster.put(f"/namespace/{BUNDLE}", b"{}")
    snapshot = cluster.capture()
    bundle = rows(snapshot.bundles, "bundle")[BUNDLE]
    assert (bundle["owner"], bundle["owner_source"]) == (BROKER, "report")
    assert by_place(snapshot)[f"/namespace/{BUNDLE}"]


def test_boundaries_that_cannot_be_right_come_from_the_other_policies(
    cluster: RecordedCluster,
) -> None:
    path = "/admin/local-policies/acme/orders"
    cluster.put(path, b'{"bundles":{"boundaries":["0x00000000","0x9","0x8","0xffffffff"]}}')
    snapshot = cluster.capture()
    namespace = rows(snapshot.namespaces, "namespace")["acme/orders"]
    assert namespace["boundaries_source"] == "policies"
    assert len(namespace["boundaries"]) == 17
    assert by_place(snapshot)[path][0].code == "malformed"


def test_huge_broker_znode_is_read(cluster: RecordedCluster) -> None:
    path = f"/loadbalance/brokers/{BROKER}"
    report = json.loads(cluster.client.get(path)[0])
    report["bundles"] += [f"acme/orders/0x20000000_0x3000{n:04x}" for n in range(20_000)]
    cluster.put(path, json.dumps(report).encode())
    snapshot = cluster.capture()
    assert rows(snapshot.brokers, "broker")[BROKER]["cpu_usage"] == report["cpu"]["usage"]


def test_forbidden_folder_is_named_and_the_rest_loads(cluster: RecordedCluster) -> None:
    acl = [make_digest_acl("pulsar", "secret", all=True)]
    cluster.client.add_auth("digest", "pulsar:secret")
    cluster.client.set_acls("/admin/local-policies/acme/orders", acl)
    cluster.client.set_acls(f"/loadbalance/brokers/{BROKER}", acl)
    snapshot = cluster.capture()
    places = by_place(snapshot)
    assert places["/admin/local-policies/acme/orders"][0].code == "auth"
    assert places[f"/loadbalance/brokers/{BROKER}"][0].code == "auth"
    assert rows(snapshot.namespaces, "namespace")["acme/orders"]["boundaries_source"] == "policies"
    allowed = cluster.capture(zookeeper_auth={"digest": "pulsar:secret"})
    assert allowed.manifest.problems == ()


def test_broker_that_leaves_between_listing_and_reading_is_no_row(cluster: RecordedCluster) -> None:
    reader = ZooKeeperReader(cluster.config())
    reader.begin(1_000, 30)
    paths = [f"/loadbalance/brokers/{BROKER}", "/loadbalance/brokers/10.0.0.1:8080"]
    here, gone = reader.read([ReadOperation(GET_DATA, path) for path in paths])
    reader.close()
    assert here.error == 0
    assert gone.value is None
    cluster.client.delete(f"/loadbalance/brokers/{BROKER}")
    snapshot = cluster.capture()
    assert BROKER not in rows(snapshot.brokers, "broker")


def test_unchanged_owners_are_not_read_again_and_a_move_is_seen(cluster: RecordedCluster) -> None:
    collector = PulsarCollector(cluster.config())
    try:
        collector.collect()
        first = collector._reader.reads
        again = collector.collect()
        assert collector._reader.reads < first - 30
        assert rows(again.bundles, "bundle")[BUNDLE]["owner"] == BROKER
        moved = json.loads(cluster.client.get(f"/namespace/{BUNDLE}")[0])
        moved["httpUrl"] = "http://127.0.0.1:18082"
        cluster.client.delete(f"/namespace/{BUNDLE}")
        assert rows(collector.collect().bundles, "bundle")[BUNDLE]["owner"] is None
        cluster.client.create(f"/namespace/{BUNDLE}", json.dumps(moved).encode())
        assert rows(collector.collect().bundles, "bundle")[BUNDLE]["owner"] == "127.0.0.1:18082"
    finally:
        collector.close()


def test_broker_that_comes_or_goes_wakes_the_collector(cluster: RecordedCluster) -> None:
    collector = PulsarCollector(cluster.config())
    try:
        collector.collect()
        assert not collector.changed.is_set()
        cluster.client.delete("/loadbalance/brokers/127.0.0.1:18082")
        assert collector.changed.wait(10)
    finally:
        collector.close()


def test_read_budget_ends_the_capture_and_says_what_is_missing(cluster: RecordedCluster) -> None:
    snapshot = cluster.capture(read_budget=150)
    (problem,) = [each for each in snapshot.manifest.problems if each.code == "budget"]
    assert "150" in problem.what
    bundles = rows(snapshot.bundles, "bundle")
    assert bundles[BUNDLE]["msg_rate_in"] is not None  # last statistics ride in the reports
    assert snapshot.bundles.column("owner").null_count < snapshot.bundles.num_rows


def test_old_server_without_multi_read_is_read_one_by_one(cluster: RecordedCluster) -> None:
    reader = ZooKeeperReader(cluster.config())
    reader.begin(10_000, 30)
    reads = [
        ReadOperation(GET_CHILDREN, "/loadbalance/brokers"),
        ReadOperation(GET_DATA, f"/loadbalance/brokers/{BROKER}"),
        ReadOperation(GET_DATA, "/nothing"),
    ]
    fast = reader.read(reads)
    reader.forget_multi_read()
    slow = reader.read(reads)
    reader.close()
    assert [each.error for each in fast] == [each.error for each in slow] == [0, 0, -101]
    assert sorted(fast[0].value) == sorted(slow[0].value)
    assert fast[1] == slow[1]


def test_brokers_behind_a_proxy_lend_their_settings_through_the_admin_url(
    cluster: RecordedCluster,
) -> None:
    with SmallBroker("127.0.0.4") as proxy:
        serve_cluster(proxy)
        snapshot = cluster.capture(admin_urls=[proxy.url])
    assert snapshot.settings.num_rows > 0
    codes = {problem.place: problem.code for problem in snapshot.manifest.problems}
    assert codes[proxy.url] == "inconsistent"
    assert codes["http://127.0.0.1:18080"] == "unreachable"
    assert snapshot.brokers.column("cpu_usage").null_count == 0


def test_wrong_chroot_is_named_with_its_remedy(server: ZooKeeperProcess) -> None:
    config = ClusterConfig(name="wrong", zookeeper=f"{server.address}/nowhere")
    collector = PulsarCollector(config)
    try:
        snapshot = collector.collect()
    finally:
        collector.close()
    assert snapshot.brokers.num_rows == 0
    (problem,) = by_place(snapshot)["/loadbalance/brokers"]
    assert "chroot" in problem.done
    bad = [each for each in check_cluster(config) if not each.ok]
    assert bad
    assert all(each.remedy for each in bad)


def test_nothing_listening_raises_one_clean_error() -> None:
    config = ClusterConfig(
        name="gone", zookeeper="127.0.0.1:1", timeouts={"zookeeper_s": 1.0, "session_s": 2.0}
    )
    collector = PulsarCollector(config)
    began = monotonic()
    try:
        with pytest.raises(RemoteError) as caught:
            collector.collect()
    finally:
        collector.close()
    assert monotonic() - began < 10
    assert "zookeeper 127.0.0.1:1" in caught.value.message
    assert caught.value.hint


def hang_up(connection: socket.socket) -> None:
    """End a connection at once: a mere close waits for the thread that is reading from it."""
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
    connection.close()


class CuttingProxy:
    """Passes bytes to a server; cuts the connection at a large answer, or for good after some."""

    def __init__(self, port: int, limit_bytes: int = 1 << 30, answers: int = 1 << 30) -> None:
        self._target = port
        self._limit = limit_bytes
        self._answers = answers
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self.cuts = 0
        self._open: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                inside, _ = self._listener.accept()
            except OSError:
                return
            outside = socket.create_connection(("127.0.0.1", self._target))
            self._open += [inside, outside]
            threading.Thread(target=self._up, args=(inside, outside), daemon=True).start()
            threading.Thread(target=self._down, args=(outside, inside), daemon=True).start()

    def _up(self, source: socket.socket, target: socket.socket) -> None:
        try:
            while part := source.recv(65_536):
                target.sendall(part)
        except OSError:
            pass
        finally:
            hang_up(target)

    def _down(self, source: socket.socket, target: socket.socket) -> None:
        stream = source.makefile("rb")
        try:
            while head := stream.read(4):
                size = int.from_bytes(head, "big")
                body = stream.read(size)
                self._answers -= 1
                if self._answers < 0:
                    self.cut()
                if size > self._limit:
                    self.cuts += 1
                    break
                target.sendall(head + body)
        except (OSError, ValueError):
            pass
        finally:
            hang_up(target)
            hang_up(source)

    def cut(self) -> None:
        """Cut every connection, and take no new one."""
        self._listener.close()
        for each in self._open:
            hang_up(each)


def test_znode_that_breaks_the_connection_is_found_and_the_others_are_read(
    cluster: RecordedCluster,
) -> None:
    for number in range(20):
        cluster.put(f"/big/n{number:02d}", b"x" * (300_000 if number == 13 else 5_000))
    proxy = CuttingProxy(cluster.server.port, limit_bytes=200_000)
    reader = ZooKeeperReader(cluster.config(zookeeper=f"{proxy.address}/{cluster.name}"))
    try:
        reader.begin(1_000, 60)
        answers = reader.read(
            [ReadOperation(GET_DATA, f"/big/n{number:02d}") for number in range(20)]
        )
    finally:
        reader.close()
        proxy.cut()
    assert proxy.cuts > 1
    assert [each.error for each in answers].count(0) == 19
    assert answers[13].error == BROKE_CONNECTION


def test_server_that_stops_in_the_middle_is_named_and_what_was_read_stays(
    cluster: RecordedCluster,
) -> None:
    proxy = CuttingProxy(cluster.server.port, answers=8)
    timeouts = {"zookeeper_s": 3.0, "session_s": 6.0, "capture_s": 20.0}
    try:
        snapshot = cluster.capture(zookeeper=f"{proxy.address}/{cluster.name}", timeouts=timeouts)
    finally:
        proxy.cut()
    (problem,) = [each for each in snapshot.manifest.problems if each.severity == "error"]
    assert problem.code == "unreachable"
    assert "znodes were not" in problem.done
    assert snapshot.brokers.num_rows == 3
    assert snapshot.brokers.column("cpu_usage").null_count == 0


@pytest.mark.slow
def test_server_that_came_back_is_read_with_a_fresh_session(
    tmp_path: Path,
) -> None:
    with StrictZooKeeper(tmp_path / "zk") as server:
        cluster = RecordedCluster(server, "stopping")
        collector = PulsarCollector(
            cluster.config(timeouts={"zookeeper_s": 4.0, "session_s": 6.0, "capture_s": 20.0})
        )
        try:
            assert collector.collect().manifest.problems == ()
            cluster.close()
            server.kill()
            with pytest.raises(UnreachableError):
                collector.collect()
            with pytest.raises(RemoteError):
                collector.collect()
            server._asked_port = server.port
            server.start()
            assert collector.collect().brokers.num_rows == 3
        finally:
            collector.close()


def test_expired_session_is_replaced(cluster: RecordedCluster) -> None:
    collector = PulsarCollector(cluster.config())
    try:
        collector.collect()
        client = collector._reader._client
        session = client.client_id
        thief = KazooClient(cluster.server.address, client_id=session)
        thief.start(10)
        thief.stop()  # closes the session that both hold
        thief.close()
        snapshot = collector.collect()
        assert snapshot.brokers.num_rows == 3
        assert collector._reader._client.client_id != session
    finally:
        collector.close()


def test_hung_server_is_named_in_time_and_read_again_when_it_goes_on(tmp_path: Path) -> None:
    with StrictZooKeeper(tmp_path / "zk") as server:
        cluster = RecordedCluster(server, "hung")
        timeouts = {"zookeeper_s": 3.0, "session_s": 6.0, "capture_s": 20.0}
        collector = PulsarCollector(cluster.config(timeouts=timeouts))
        try:
            assert collector.collect().brokers.num_rows == 3
            cluster.close()
            os.kill(server.pid, signal.SIGSTOP)
            began = monotonic()
            with pytest.raises(RemoteError) as caught:
                collector.collect()
            assert monotonic() - began < 30
            assert "zookeeper" in caught.value.message
            os.kill(server.pid, signal.SIGCONT)
            assert collector.collect().brokers.num_rows == 3
        finally:
            collector.close()


def test_answers_that_are_not_in_the_protocol_are_never_more_than_a_value_error() -> None:
    rng = random.Random(3)
    request = request_of([ReadOperation(GET_DATA, "/a")], "")
    good = bytes.fromhex("000000040000000000000000027b7d") + bytes(68)
    good += bytes.fromhex("ffffffff01ffffffff")
    assert request.deserialize(good, 0)[0].value == b"{}"
    for _ in range(2_000):
        with suppress(ValueError):
            assert len(request.deserialize(mutate(good, rng), 0)) == 1


def test_answer_of_fewer_reads_than_were_asked_is_refused_whole() -> None:
    nothing = bytes.fromhex("ffffffff01ffffffff")
    assert request_of([], "").deserialize(nothing, 0) == []
    with pytest.raises(ValueError, match="0 answers to 1 reads"):
        request_of([ReadOperation(GET_DATA, "/a")], "").deserialize(nothing, 0)


def test_owners_below_a_tenant_that_cannot_be_listed_are_unknown_not_nobody(
    cluster: RecordedCluster,
) -> None:
    name = BUNDLE.partition("/")[0]
    cluster.client.add_auth("digest", "pulsar:secret")
    cluster.client.set_acls(f"/namespace/{name}", [make_digest_acl("pulsar", "secret", all=True)])
    snapshot = cluster.capture()
    assert by_place(snapshot)[f"/namespace/{name}"][0].code == "auth"
    bundles = [row for row in snapshot.bundles.to_pylist() if row["namespace"].startswith(name)]
    assert {row["owner_source"] for row in bundles} <= {"report", None}
    assert rows(snapshot.bundles, "bundle")[BUNDLE]["owner"] == BROKER
