"""The HTTP endpoints: recorded bodies are read, redirects lead to the leader, rates need two."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from places import FIXTURES

from connectors.pegasus.http.client import HttpClient
from connectors.pegasus.http.parse import parse_metrics
from core.errors import (
    ConflictError,
    GuardRefusedError,
    NotFoundError,
    ProtocolError,
    UnreachableError,
)
from core.pegasus.metrics import (
    CAPACITY_UNITS,
    READ_REQUESTS,
    WRITE_REQUESTS,
    increase,
    rate_per_s,
    table_rates_per_s,
)

RECORDED = FIXTURES / "pegasus" / "http"
ASKED = {
    "/version": "meta34601/version",
    "/configs": "meta34601/configs",
    "/config?name=lb_interval_ms": "meta34601/config__name-lb_interval_ms",
    "/config?name=nosuch": "meta34601/nosuch",
    "/meta/cluster": "meta34601/meta_cluster",
    "/meta/nodes?detail": "meta34601/meta_nodes__detail",
    "/meta/apps?detail": "meta34601/meta_apps__detail",
    "/meta/app?name=temp&detail": "meta34601/meta_app__name-temp_detail",
    "/meta/app_envs?name=temp": "meta34601/meta_app_envs__name-temp",
    "/metrics?types=server": "meta34601/metrics__types-server",
    "/metrics?types=disk": "replica34801/metrics__types-disk",
    "/metrics?types=replica&attributes=table_id,2": (
        "replica34801/metrics__types-replica_attributes-table_id,2"
    ),
    "/replica/data_version?app_id=2": "replica34801/replica_data_version__app_id-2",
    "/replica/manual_compaction?app_id=2": "replica34801/replica_manual_compaction__app_id-2",
    "/updateConfig?balance_op_count_per_round=3": "meta34601/updateConfig__lb_interval_ms-1",
}
REFUSED = {
    "/meta/app?name=nosuch&detail": (404, "meta34601/meta_app__name-nosuch"),
    "/meta/app?name=&detail": (400, "meta34601/meta_app"),
}


class Recorded(BaseHTTPRequestHandler):
    """Gives the recorded bodies, as text whatever they are."""

    protocol_version = "HTTP/1.1"
    leader = ""

    def do_GET(self):
        if self.leader:
            self.tell(307, b"", {"Location": f"http://{self.leader}{self.path}"})
        elif self.path in ASKED:
            self.tell(200, (RECORDED / f"{ASKED[self.path]}.json").read_bytes())
        else:
            status, name = REFUSED.get(self.path, (404, "replica34801/meta_nodes"))
            self.tell(status, (RECORDED / f"{name}.json").read_bytes())

    def tell(self, status, body, headers=()):
        self.send_response(status)
        for key, value in {**dict(headers), "Content-Type": "text/plain"}.items():
            self.send_header(key, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_args):
        """Say nothing."""


@contextmanager
def answering(leader: str = "") -> Iterator[str]:
    handler = type("Handler", (Recorded,), {"leader": leader})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield f"127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join(5)


@pytest.fixture
def client():
    with answering() as address:
        one = HttpClient(address, timeout_s=5)
        yield one
        one.close()


def test_what_a_meta_server_tells_is_read(client):
    assert client.fetch_version().version == "2.6.0-SNAPSHOT"
    info = client.fetch_cluster()
    assert (info.level_word, info.leader) == ("steady", "localhost:34601")
    assert info.operations is not None
    assert info.operations.total == 0
    assert (info.primary_stddev, info.replica_stddev) == (0.0, 1.41)
    nodes = client.fetch_nodes()
    first = nodes[0]
    assert (first.address, first.replica_count, first.primary_count) == ("localhost:34801", 73, 25)
    tables = client.fetch_tables()
    assert tables.general_info["5"].partition_count == 64
    assert tables.healthy_info["5"].fully_healthy == 64
    table = client.fetch_table("temp")
    assert table.general.max_replica_count == 3
    assert table.replicas["0"].primary_node == "localhost:34802"
    assert table.replicas["0"].secondary_nodes == ("localhost:34804", "localhost:34801")
    assert client.fetch_envs("temp") == {}


def test_flags_say_whether_they_can_be_changed(client):
    flags = client.fetch_flags()
    assert flags["balance_op_count_per_round"].is_mutable
    assert not flags["lb_interval_ms"].is_mutable
    assert client.fetch_flag("lb_interval_ms").value == "10000"


def test_what_a_replica_server_tells_is_read(client):
    assert client.fetch_data_versions(2)[0] == "1"
    assert client.fetch_compactions(2) == {"finished": 0, "idle": 6, "queuing": 0, "running": 0}
    disks = client.fetch_metrics(types=["disk"])
    assert disks.value(("disk", "disk@default"), "disk_capacity_avail_mb") == 65_755
    assert disks.attributes["disk", "disk@default"]["tag"] == "default"


def test_percentiles_are_metrics_of_their_own(client):
    server = client.fetch_metrics(types=["server"])
    assert server.role == "meta"
    assert server.value(("server", "server"), "dns_resolver_resolve_by_dns_duration_ns.p90") == (
        288_670
    )


def test_a_follower_sends_on_to_the_leader():
    with answering() as leading, answering(leading) as following:
        client = HttpClient(following, timeout_s=5)
        assert len(client.fetch_nodes()) == 4
        client.close()


@pytest.mark.parametrize("where", ["127.0.0.1:1", "itself"])
def test_a_leader_that_is_not_there_is_told(where):
    with answering() as address:
        pass  # nobody listens there any more
    with answering(address if where != "itself" else "/nowhere") as following:
        client = HttpClient(following, timeout_s=5)
        with pytest.raises(UnreachableError):
            client.fetch_nodes()
        client.close()


def test_what_is_not_there_is_told_in_the_servers_own_words(client):
    with pytest.raises(NotFoundError, match='table not found: "nosuch"'):
        client.fetch_table("nosuch")
    with pytest.raises(ConflictError, match="app name shouldn't be empty"):
        client.fetch_table("")
    with pytest.raises(NotFoundError, match="service not found"):
        client.fetch_data_versions(9)


def test_a_success_that_is_no_json_is_a_protocol_error(client):
    with pytest.raises(ProtocolError, match="an unexpected answer"):
        client.fetch_flag("nosuch")


def test_a_flag_is_changed_only_when_that_is_known_to_be_harmless(client):
    with pytest.raises(GuardRefusedError, match="lb_interval_ms"):
        client.apply_flag("lb_interval_ms", "1")
    with pytest.raises(ConflictError, match="is not mutable"):
        client.apply_flag("balance_op_count_per_round", "3")


REPLICAS = (
    RECORDED / "replica34801/metrics__types-replica_attributes-table_id,2.json"
).read_bytes()
ONE = ("replica", "replica@2.0")


def later(sample, *, by_s=2.0, grown=0.0, only=None):
    values = {
        entity: {
            name: value + (grown if only is None or name in only else 0)
            for name, value in metrics.items()
        }
        for entity, metrics in sample.values.items()
    }
    return replace(sample, timestamp_ns=sample.timestamp_ns + int(by_s * 1e9), values=values)


def test_a_rate_needs_two_samples_and_the_time_between_them():
    before = parse_metrics(REPLICAS)
    after = later(before, grown=10, only={"get_requests"})
    assert increase(before, after, ONE, "get_requests") == 10
    assert rate_per_s(before, after, ONE, READ_REQUESTS) == 5.0
    assert rate_per_s(before, after, ONE, WRITE_REQUESTS) == 0.0
    assert rate_per_s(before, after, ONE, CAPACITY_UNITS) == 0.0


def test_what_cannot_be_known_of_a_rate_is_none():
    before = parse_metrics(REPLICAS)
    assert rate_per_s(before, before, ONE, READ_REQUESTS) is None
    restarted = later(before, grown=-1)
    assert rate_per_s(later(before, grown=5), restarted, ONE, READ_REQUESTS) is None
    assert rate_per_s(before, later(before), ("replica", "replica@9.9"), READ_REQUESTS) is None
    assert rate_per_s(before, later(before), ONE, ["no_such_requests"]) is None


def test_a_tables_rate_is_that_of_its_primaries_or_unknown():
    before = parse_metrics(REPLICAS)
    after = later(before, grown=4, only={"get_requests"})
    held = sorted(before.gpids)
    primaries = dict.fromkeys(held, "a:1")
    samples = {"a:1": (before, after)}
    assert table_rates_per_s(samples, primaries, READ_REQUESTS) == {2: 2.0 * len(held)}
    assert table_rates_per_s(samples, {**primaries, (2, 99): "b:1"}, READ_REQUESTS) == {2: None}
