"""Slow, failing, lying and hostile admin endpoints: each is one clean error or one problem."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from time import monotonic

import pytest
from small_broker import BUNDLE, HungPort, SmallBroker, said, serve_cluster

from connectors.config.model import ClusterConfig
from connectors.pulsar.admin.client import AdminClient, quoted
from connectors.pulsar.check import check_cluster
from connectors.pulsar.collect import PulsarCollector, fetch_topic_names, fetch_topics
from core.errors import (
    AuthError,
    ConflictError,
    InputError,
    NotFoundError,
    ProtocolError,
    RemoteError,
    RemoteTimeoutError,
    ServerError,
    ThrottledError,
    UnreachableError,
)
from core.pulsar.rules.registry import assess
from core.snapshot import PulsarSnapshot

QUICK = {"connect_s": 2.0, "read_s": 1.5, "answer_s": 3.0}
PATH = "/admin/v2/brokers"
TRACE = (
    "\n --- An unexpected error occurred in the server ---\n\nMessage: null\n\nStacktrace:\n\n"
    "java.lang.UnsupportedOperationException\n\tat org.apache.pulsar.X.y(X.java:1)\n"
)


@pytest.fixture
def broker() -> Iterator[SmallBroker]:
    with SmallBroker() as running:
        yield running


def config_for(*urls: str, **changes) -> ClusterConfig:
    return ClusterConfig(**{"name": "c", "admin_urls": urls, "timeouts": QUICK, **changes})


@pytest.fixture
def client(broker: SmallBroker) -> Iterator[AdminClient]:
    made = AdminClient(config_for(broker.url))
    yield made
    made.close()


def capture(*urls: str, **changes) -> PulsarSnapshot:
    collector = PulsarCollector(config_for(*urls, **changes))
    try:
        return collector.collect()
    finally:
        collector.close()


@pytest.mark.parametrize(
    ("status", "body", "kind", "text"),
    [
        (401, b"<html><title>Error 401 Unauthorized</title></html>", AuthError, "Unauthorized"),
        (403, b'{"reason":"not allowed"}', AuthError, "not allowed"),
        (404, b'{"reason":"Namespace not found"}', NotFoundError, "Namespace not found"),
        (404, b"<html><head><title>Error 404 Not Found</title>", NotFoundError, "404 Not Found"),
        (405, b"<html>", ProtocolError, "web page"),
        (409, b'{"reason":"x does not support this operation"}', ConflictError, "support this"),
        (412, b'{"reason":"Invalid upper boundary"}', ConflictError, "upper boundary"),
        (429, b"", ThrottledError, "429"),
        (500, json.dumps({"reason": TRACE}).encode(), ServerError, "UnsupportedOperationException"),
        (503, b"<html><title>Error 503 Service Unavailable</title>", ServerError, "503"),
        (500, b"\xff\x00\xfe", ServerError, "500"),
    ],
)
def test_error_answer_becomes_one_sentence(
    broker: SmallBroker, client: AdminClient, status: int, body: bytes, kind: type, text: str
) -> None:
    broker.answers[PATH] = (status, {}, body)
    with pytest.raises(kind) as caught:
        client.get(broker.url, PATH, list[str])
    message = caught.value.message
    assert text in message
    assert broker.url in message
    assert "\n" not in message
    assert "\tat" not in message
    assert len(message) < 500


@pytest.mark.parametrize("body", [b"", b"{}", b"<html>", b"\xff", b"[1,", b"[" * 100_000, b"[1]"])
def test_garbage_with_status_200_is_a_protocol_error(
    broker: SmallBroker, client: AdminClient, body: bytes
) -> None:
    broker.answers[PATH] = (200, {}, body)
    with pytest.raises(ProtocolError):
        client.get(broker.url, PATH, list[str])


def _truncated(connection: socket.socket) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n[")


def _not_http(connection: socket.socket) -> None:
    connection.sendall(b"SSH-2.0-OpenSSH_9.6\r\n")


def _closed(connection: socket.socket) -> None:
    connection.shutdown(socket.SHUT_RDWR)


def _bad_chunks(connection: socket.socket) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n[\r\n")


def _bad_gzip(connection: socket.socket) -> None:
    connection.sendall(
        b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 4\r\n\r\nabcd"
    )


def _drip(connection: socket.socket) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n")
    pause = threading.Event()
    try:
        while True:  # until the client has had enough and hangs up
            connection.sendall(b" ")
            pause.wait(0.1)
    except OSError:
        pass


def _drip_error(connection: socket.socket) -> None:
    connection.sendall(b"HTTP/1.1 503 Service Unavailable\r\n\r\n")
    _drip(connection)


@pytest.mark.parametrize(
    ("behave", "kind"),
    [
        (_truncated, ProtocolError),
        (_not_http, ProtocolError),
        (_closed, RemoteError),
        (_bad_chunks, ProtocolError),
        (_bad_gzip, ProtocolError),
        (_drip, RemoteTimeoutError),
        (_drip_error, RemoteTimeoutError),
    ],
)
def test_broken_answer_is_one_clean_error_in_time(
    broker: SmallBroker, client: AdminClient, behave, kind: type
) -> None:
    broker.raw[PATH] = behave
    began = monotonic()
    with pytest.raises(kind) as caught:
        client.get(broker.url, PATH, list[str])
    assert monotonic() - began < 8
    assert broker.url in caught.value.message
    assert "HTTPConnectionPool" not in caught.value.message


def test_hung_port_is_a_timeout_and_a_closed_one_unreachable() -> None:
    with HungPort() as hung:
        client = AdminClient(config_for(hung.url))
        with pytest.raises(RemoteTimeoutError) as late:
            client.get(hung.url, PATH, list[str])
        client.close()
    assert late.value.outcome == "unknown"
    client = AdminClient(config_for(hung.url))
    with pytest.raises(UnreachableError) as gone:
        client.get(hung.url, PATH, list[str])
    client.close()
    assert gone.value.outcome == "not_sent"


def test_read_is_repeated_once_after_503_and_a_change_never(
    broker: SmallBroker, client: AdminClient
) -> None:
    answers = [said([], 503), said(["a:1"])]
    broker.answers[PATH] = lambda: answers.pop(0)
    assert client.get(broker.url, PATH, list[str]) == ["a:1"]
    broker.requests.clear()
    broker.answers[PATH] = said({"reason": "busy"}, 503)
    with pytest.raises(ServerError):
        client.request("PUT", broker.url, PATH, body=b"[]")
    assert len(broker.requests) == 1


def test_read_on_a_dropped_connection_is_repeated_once_and_a_change_never(
    broker: SmallBroker, client: AdminClient
) -> None:
    broker.answers[PATH] = said(["a:1"])

    def drop_one(connection: socket.socket) -> None:
        del broker.raw[PATH]
        _closed(connection)

    broker.raw[PATH] = drop_one
    assert client.get(broker.url, PATH, list[str]) == ["a:1"]
    assert len(broker.requests) == 2
    broker.requests.clear()
    broker.raw[PATH] = drop_one
    with pytest.raises(ProtocolError) as caught:
        client.request("PUT", broker.url, PATH, body=b"[]")
    assert caught.value.outcome == "unknown"
    assert len(broker.requests) == 1


def test_redirect_keeps_method_body_and_credentials(broker: SmallBroker) -> None:
    with SmallBroker("127.0.0.2") as owner:
        owner.answers[PATH] = (204, {}, b"")
        broker.answers[PATH] = (307, {"Location": f"{owner.url}{PATH}?authoritative=true"}, b"")
        named = {"auth": {"token": "s3cret"}, "credential_hosts": [owner.name]}
        client = AdminClient(config_for(broker.url, **named))
        client.trust([owner.url])
        answer = client.request("PUT", broker.url, PATH, body=b"[1,2]")
        client.close()
        method, path, headers, body = owner.requests[0]
    assert answer.status == 204
    assert (method, body) == ("PUT", b"[1,2]")
    assert path.endswith("authoritative=true")
    assert headers["Authorization"] == "Bearer s3cret"


def test_redirect_to_a_stranger_is_refused_and_nothing_is_sent_there(broker: SmallBroker) -> None:
    with SmallBroker("127.0.0.3") as stranger:
        for target in (f"{stranger.url}{PATH}", f"//{stranger.name}{PATH}", "ftp://x/", "http://["):
            broker.answers[PATH] = (307, {"Location": target}, b"")
            client = AdminClient(config_for(broker.url, auth={"token": "s3cret"}))
            with pytest.raises(ProtocolError) as caught:
                client.request("GET", broker.url, PATH)
            client.close()
            assert "s3cret" not in str(caught.value)
            assert "('" not in str(caught.value)
        assert stranger.requests == []


def test_redirect_in_circles_ends(broker: SmallBroker, client: AdminClient) -> None:
    broker.answers[PATH] = (307, {"Location": PATH}, b"")
    with pytest.raises(ProtocolError, match="circles"):
        client.request("GET", broker.url, PATH)
    assert len(broker.requests) < 10


def test_login_page_is_named(broker: SmallBroker, client: AdminClient) -> None:
    broker.answers[PATH] = (302, {"Location": "https://login.example/"}, b"")
    with pytest.raises(ProtocolError, match="login"):
        client.request("GET", broker.url, PATH)


def test_unknown_address_is_never_called(broker: SmallBroker, client: AdminClient) -> None:
    with SmallBroker("127.0.0.3") as stranger:
        with pytest.raises(InputError):
            client.request("GET", stranger.url, PATH)
        assert stranger.requests == []


def test_basic_credentials_and_quoting(broker: SmallBroker) -> None:
    client = AdminClient(config_for(broker.url, auth={"username": "u", "password": "p"}))
    broker.answers["/a%3Fb/t/n%20s"] = said({})
    client.request("GET", broker.url, quoted("a?b", "t", "n s"))
    client.close()
    assert broker.requests[0][2]["Authorization"] == "Basic dTpw"


def test_rotated_token_is_used_by_the_next_capture(broker: SmallBroker, tmp_path: Path) -> None:
    serve_cluster(broker)
    token = tmp_path / "token"
    token.write_text("one")
    collector = PulsarCollector(config_for(broker.url, auth={"token_file": token}))
    try:
        collector.collect()
        token.write_text("two")
        broker.requests.clear()
        assert collector.collect().manifest.problems == ()
        assert {headers["Authorization"] for _, _, headers, _ in broker.requests} == {"Bearer two"}
        token.unlink()
        (problem,) = collector.collect().manifest.problems
        assert "token" in problem.what
    finally:
        collector.close()


def test_cluster_without_zookeeper_is_read_from_rest_alone(broker: SmallBroker) -> None:
    serve_cluster(broker)
    snapshot = capture(broker.url)
    manifest = snapshot.manifest
    assert manifest.problems == ()
    assert (manifest.load_manager, manifest.leader) == ("modular", broker.name)
    assert (manifest.pulsar_cluster, manifest.release) == ("test", "4.2.4")
    (bundle,) = snapshot.bundles.to_pylist()
    assert (bundle["bundle"], bundle["owner"], bundle["owner_source"]) == (
        BUNDLE,
        broker.name,
        "rest",
    )
    assert bundle["long_msg_rate_in"] is None
    assert "averages" in " ".join(manifest.unavailable)
    asked = {path for _, path, _, _ in broker.requests}
    assert not [path for path in asked if path.startswith("/lookup")]  # a lookup assigns bundles
    assert "/admin/v2/brokers/test" not in asked  # it answers for any cluster's name
    assert {method for method, _, _, _ in broker.requests} == {"GET"}


def test_hung_dead_and_failing_brokers_do_not_stop_the_capture(broker: SmallBroker) -> None:
    with HungPort() as hung, SmallBroker("127.0.0.2") as failing:
        failing.answers["/admin/v2/brokers/configuration/runtime"] = said({"reason": TRACE}, 500)
        serve_cluster(broker, (hung.name, failing.name, "127.0.0.1:1"))
        began = monotonic()
        snapshot = capture(broker.url)
        took_s = monotonic() - began
    assert took_s < 8
    codes = {problem.place: problem.code for problem in snapshot.manifest.problems}
    assert codes[hung.url] == "timeout"
    assert codes[failing.url] == "server"
    assert codes["http://127.0.0.1:1"] == "unreachable"
    assert broker.url not in codes
    found = {(finding.code, finding.subject) for finding in assess(snapshot)}
    silent = {("broker_suspected_dead", name) for name in (hung.name, "127.0.0.1:1")}
    assert silent <= found
    assert "address_silent" not in {code for code, _ in found}  # nobody configured those
    loads = dict(
        zip(
            snapshot.brokers.column("broker").to_pylist(),
            snapshot.brokers.column("cpu_usage").to_pylist(),
            strict=True,
        )
    )
    assert loads[broker.name] == 10.0
    assert loads[hung.name] is None
    assert snapshot.bundles.column("owner").to_pylist() == [broker.name]


def test_capture_ends_in_its_time_and_the_next_one_begins_with_those_it_did_not_reach(
    broker: SmallBroker,
) -> None:
    with ExitStack() as stack:
        hung = [stack.enter_context(HungPort()).name for _ in range(4)]
        serve_cluster(broker)
        broker.answers["/admin/v2/brokers"] = said([*hung, broker.name])
        timeouts = {"read_s": 1.0, "answer_s": 2.0, "capture_s": 3.0}
        config = config_for(broker.url, timeouts=timeouts, rest_fan_out=1)
        collector = PulsarCollector(config)
        began = monotonic()
        first, second = collector.collect(), collector.collect()
        took_s = monotonic() - began
        collector.close()
    assert took_s < 10
    codes = {(problem.place, problem.code) for problem in first.manifest.problems}
    assert (f"http://{hung[0]}", "timeout") in codes
    assert (broker.url, "not_sent") in codes  # which tells nothing about that broker
    assert (broker.url, "timeout") not in codes
    assert first.settings.num_rows == 0
    assert second.settings.num_rows > 0


def test_dynamic_change_is_seen_by_the_next_capture_without_zookeeper(broker: SmallBroker) -> None:
    serve_cluster(broker)
    key = "loadBalancerSheddingIntervalMinutes"
    runtime = "/admin/v2/brokers/configuration/runtime"
    collector = PulsarCollector(config_for(broker.url))
    try:
        collector.collect()
        broker.answers["/admin/v2/brokers/configuration/values"] = said({key: "7"})
        broker.answers[runtime] = said({"clusterName": "test", key: "7"})
        (row,) = [row for row in collector.collect().settings.to_pylist() if row["name"] == key]
    finally:
        collector.close()
    assert (row["value"], row["origin"]) == ("7", "dynamic")


def test_extensible_cluster_gives_owners_and_says_what_it_lacks(broker: SmallBroker) -> None:
    serve_cluster(broker)
    broker.answers["/admin/v2/broker-stats/load-report"] = said({"reason": TRACE}, 500)
    broker.answers["/admin/v2/brokers/configuration/runtime"] = said(
        {
            "clusterName": "test",
            "brokerVersion": "4.2.4",
            "loadManagerClassName": "x.extensions.ExtensibleLoadManagerImpl",
        }
    )
    snapshot = capture(broker.url)
    assert snapshot.manifest.load_manager == "extensible"
    assert snapshot.brokers.column("cpu_usage").to_pylist() == [None]
    assert snapshot.bundles.column("owner").to_pylist() == [broker.name]
    assert snapshot.manifest.unavailable
    (problem,) = snapshot.manifest.problems
    assert "service address" in problem.what


def test_broker_whose_name_is_no_address_is_named(broker: SmallBroker) -> None:
    serve_cluster(broker, ("evil@example.org", "[", ""))
    snapshot = capture(broker.url)
    assert {problem.code for problem in snapshot.manifest.problems} <= {"protocol", "malformed"}
    assert snapshot.bundles.num_rows == 1


def test_nothing_answers_raises_and_the_check_names_each_address() -> None:
    config = config_for("http://127.0.0.1:1", "http://127.0.0.2:1")
    collector = PulsarCollector(config)
    with pytest.raises(UnreachableError):
        collector.collect()
    collector.close()
    results = check_cluster(config)
    bad = [each for each in results if not each.ok]
    assert {each.what for each in bad} == {
        "Admin REST http://127.0.0.1:1",
        "Admin REST http://127.0.0.2:1",
    }
    assert all(each.remedy for each in bad)


def test_zookeeper_that_is_down_is_named_and_rest_takes_over(broker: SmallBroker) -> None:
    serve_cluster(broker)
    quick = {**QUICK, "zookeeper_s": 0.5, "session_s": 2.0}
    snapshot = capture(broker.url, zookeeper="127.0.0.1:1", timeouts=quick)
    (problem,) = snapshot.manifest.problems
    assert problem.code == "unreachable"
    assert problem.severity == "error"
    assert "read instead" in problem.done
    assert snapshot.bundles.num_rows == 1


def test_topics_come_from_the_broker_and_garbage_is_an_error(broker: SmallBroker) -> None:
    path = "/admin/v2/broker-stats/topics"
    name = "persistent://acme/orders/created"
    stats = {
        "msgRateIn": 1.5,
        "producerCount": 1,
        "subscriptions": {"s": {"msgBacklog": 7, "consumers": [{}, {}]}},
        "storageSize": 9,
    }
    broker.answers[path] = said(
        {"acme/orders": {"0x00000000_0xffffffff": {"persistent": {name: stats}}}}
    )
    config = config_for(broker.url)
    (row,) = fetch_topics(config, broker.url, BUNDLE).to_pylist()
    assert (row["topic"], row["backlog"], row["consumer_count"]) == (name, 7, 2)
    assert row["msg_rate_out"] is None
    assert fetch_topics(config, broker.url, "acme/orders/0x0_0x1").num_rows == 0
    broker.answers[path] = said({"acme/orders": []})
    with pytest.raises(ProtocolError):
        fetch_topics(config, broker.url, None)


def test_names_of_topics_come_from_the_broker_and_tell_which_exist(broker: SmallBroker) -> None:
    path, stem = "/admin/v2/persistent/acme/orders", "persistent://acme/orders"
    broker.answers[path] = said([f"{stem}/created", f"{stem}/paid-partition-0"])
    broker.answers[f"{path}/partitioned"] = said([f"{stem}/paid"])
    config = config_for(broker.url)
    names = fetch_topic_names(config, broker.url, "acme/orders")
    found = [names.existence(f"{stem}/{one}") for one in ("created", "paid", "paid-partition-1")]
    assert found == ["topic", "partitioned", "missing"]
    assert names.existence("non-persistent://acme/orders/created") == "unknown"
    broker.answers[f"{path}/partitioned"] = said({"not": "a list"})
    with pytest.raises(ProtocolError):
        fetch_topic_names(config, broker.url, "acme/orders")
