"""What clients rely on: the same on the sandbox and on a real cluster that is only read."""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path

import pytest

from connectors.config.model import ClusterConfig
from connectors.pegasus.collect import PegasusCollector
from connectors.pegasus.http.client import HttpClient
from connectors.pegasus.rpc import idl
from connectors.pegasus.rpc.client import MetaClient, ServerClient
from connectors.pegasus.rpc.frame import decode_reply, decode_request, reply_length
from connectors.sandbox.pegasus.fleet import PegasusOptions, PegasusSandbox
from core.errors import NotFoundError
from core.pegasus.levels import FunctionLevel
from core.pegasus.snapshot import PegasusFacts
from core.pegasus.stats import (
    EVENT_RATES,
    LOOKUPS,
    NODE_COUNTS,
    NODE_GAUGES,
    NODE_LATENCIES,
    NODE_RATES,
    NODE_SUMS,
    OPERATION_RATES,
    STORAGE,
)
from core.snapshot.pegasus import PegasusSnapshot, load_pegasus_snapshot
from core.snapshot.store import save_snapshot

RECORDED = Path(__file__).parents[1] / "fixtures" / "pegasus" / "thft"
META_ENV = "TRIMTAB_PEGASUS_META"


@dataclass(frozen=True)
class PegasusUnderTest:
    """A cluster to read."""

    meta_servers: list[str]
    snapshot: PegasusSnapshot

    @property
    def facts(self) -> PegasusFacts:
        return PegasusFacts(self.snapshot)


def captured(meta_servers: list[str]) -> PegasusSnapshot:
    config = ClusterConfig(
        name="under-test", kind="pegasus", meta_servers=meta_servers, rate_sample_s=0.3
    )
    collector = PegasusCollector(config)
    try:
        return collector.collect()
    finally:
        collector.close()


@pytest.fixture(scope="module", params=["sandbox", *(["real"] if META_ENV in os.environ else [])])
def pegasus(request: pytest.FixtureRequest) -> Iterator[PegasusUnderTest]:
    if request.param == "real":
        servers = os.environ[META_ENV].split(",")
        yield PegasusUnderTest(servers, captured(servers))
        return
    with PegasusSandbox(PegasusOptions(tick_s=0.5)) as sandbox:
        yield PegasusUnderTest(sandbox.meta_servers, captured(sandbox.meta_servers))


@pytest.fixture
def meta(pegasus: PegasusUnderTest) -> Iterator[MetaClient]:
    client = MetaClient(pegasus.meta_servers)
    yield client
    client.close()


def test_the_contract_is_held_against_a_real_cluster():
    if META_ENV not in os.environ:
        pytest.skip(f"{META_ENV} names no real cluster: the sandbox alone was asked")
    assert os.environ[META_ENV]


def test_every_available_table_tells_all_of_its_partitions(meta):
    tables = meta.fetch_tables()
    read = meta.fetch_all_partitions([table.name for table in tables])
    assert tables
    for table in tables:
        configs = read[table.name]
        assert [config.index for config in configs] == list(range(table.partition_count))
        assert {config.app_id for config in configs} == {table.app_id}


def test_members_are_registered_nodes_and_never_named_twice(meta):
    names = {node.name for node in meta.fetch_nodes()}
    for table in meta.fetch_tables():
        for config in meta.fetch_partitions(table.name):
            assert set(config.members) <= names
            assert len(set(config.members)) == len(config.members)


def test_chosen_indices_are_told_and_one_out_of_range_gives_all(meta):
    table = meta.fetch_tables()[0]
    assert [one.index for one in meta.fetch_partitions(table.name, [1, 0])] == [1, 0]
    assert len(meta.fetch_partitions(table.name, [99_999])) == table.partition_count


def test_an_unknown_table_is_not_found(meta):
    with pytest.raises(NotFoundError):
        meta.fetch_partitions("no_such_table_of_ours")


def test_a_prefix_finds_the_tables_that_begin_so(meta):
    name = meta.fetch_tables()[0].name
    assert name in [table.name for table in meta.fetch_tables(prefix=name[:2])]


def test_the_level_is_one_of_five_and_cluster_info_says_the_one_in_force(meta):
    stored, info = meta.fetch_stored_level(), meta.fetch_cluster_info()
    assert stored in FunctionLevel
    assert info.level_word in {level.word for level in FunctionLevel}
    assert info.leader
    assert info.operations is not None


def test_a_meta_server_that_does_not_lead_sends_to_the_one_that_does(pegasus):
    if len(pegasus.meta_servers) < 2:
        pytest.skip("the cluster has one meta server only")
    for first in pegasus.meta_servers:
        client, http = MetaClient([first]), HttpClient(first)
        try:
            assert {node.name for node in client.fetch_nodes()} == {
                node.address for node in http.fetch_nodes()
            }
        finally:
            client.close()
            http.close()


def test_http_and_calls_agree_on_every_table(pegasus, meta):
    http = HttpClient(pegasus.meta_servers[0])
    try:
        told = http.fetch_tables()
        for table in meta.fetch_tables():
            assert told.general_info[str(table.app_id)].partition_count == table.partition_count
            health = told.healthy_info[str(table.app_id)]
            assert health.fully_healthy + health.unhealthy == table.partition_count
            detail = http.fetch_table(table.name)
            assert len(detail.replicas) == table.partition_count
    finally:
        http.close()


def test_every_member_reports_its_replica_with_one_of_its_disks(pegasus, meta):
    members = {
        (name, (config.app_id, config.index))
        for table in meta.fetch_tables()
        for config in meta.fetch_partitions(table.name)
        for name in config.members
    }
    held = set()
    for node in meta.fetch_nodes():
        server = ServerClient(node.name)
        tags = {disk.tag for disk in server.fetch_disks(node)}
        for replica in server.fetch_replicas(node):
            assert replica.disk in tags
            held.add((node.name, (replica.app_id, replica.index)))
        server.close()
    assert members <= held


@pytest.mark.parametrize("target", ["/version", "//version", "/version/", "///version//"])
def test_empty_parts_of_a_path_do_not_count(pegasus, target):
    assert got(pegasus.meta_servers[0], target)[0] == 200


@pytest.mark.parametrize("target", ["//no/such/", "/no/such", "//no%2Fsuch?a=1"])
def test_a_path_that_begins_with_two_slashes_names_no_host(pegasus, target):
    status, body = got(pegasus.meta_servers[0], target)
    assert (status, body.strip()) == (404, 'service not found for "no/such"')


def got(server: str, target: str) -> tuple[int, str]:
    connection = HTTPConnection(server, timeout=20)
    try:
        connection.putrequest("GET", target)  # unlike `request`, it sends the target as it is
        connection.endheaders()
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def test_commands_that_a_server_does_not_know_are_not_found(pegasus, meta):
    with pytest.raises(NotFoundError):
        meta.send_command("no.such.command")
    server = ServerClient(meta.fetch_nodes()[0].name)
    with pytest.raises(NotFoundError):
        server.send_command("meta.lb.only_move_primary")
    server.close()


def test_a_server_tells_metrics_of_the_replicas_that_it_holds(pegasus):
    replica = pegasus.facts.rows("replicas")[0]
    http = HttpClient(replica["node"])
    try:
        sample = http.fetch_metrics(types=("replica",))
    finally:
        http.close()
    assert (replica["app_id"], replica["index"]) in sample.gpids


def test_every_living_node_tells_memory_counts_rates_and_latencies(pegasus):
    always = {*NODE_GAUGES, *NODE_COUNTS, *NODE_SUMS, *NODE_RATES}
    for row in pegasus.facts.rows("nodes"):
        if row["is_alive"]:
            wanted = always | latencies_of(row["node"])
            assert {name for name in wanted if row[name] is None} == set(), row["node"]


def latencies_of(node: str) -> set[str]:
    """Return the latencies that a server has: those of tasks that it is configured to profile."""
    http = HttpClient(node)
    try:
        sample = http.fetch_metrics(types=("profiler",))
    finally:
        http.close()
    tasks = {name.partition("@")[2] for kind, name in sample.values if kind == "profiler"}
    return {name for name, task in NODE_LATENCIES.items() if task in tasks}


def test_the_sandbox_profiles_every_task_that_is_shown(pegasus):
    if META_ENV in os.environ and pegasus.meta_servers == os.environ[META_ENV].split(","):
        pytest.skip("which tasks a real server profiles is a matter of its configuration")
    node = pegasus.facts.rows("nodes")[0]["node"]
    assert latencies_of(node) == set(NODE_LATENCIES)


def test_every_primary_tells_the_operations_of_its_partition(pegasus):
    rows = pegasus.facts.rows("operations")
    led = {
        (row["app_id"], row["index"])
        for row in pegasus.facts.rows("partitions")
        if row["primary"] is not None
    }
    wanted = {*OPERATION_RATES, *EVENT_RATES, *STORAGE, *LOOKUPS}
    told = [row for row in rows if (row["app_id"], row["index"]) in led]
    assert len(told) == len(led)
    assert {name for row in told for name in wanted if row[name] is None} == set()


def test_a_capture_is_whole_and_comes_back_from_its_directory(pegasus, tmp_path):
    facts, snapshot = pegasus.facts, pegasus.snapshot
    assert snapshot.manifest.kind == "pegasus"
    assert facts.has_all_partitions
    assert facts.stored_level is not None
    assert facts.options()[1] == []
    assert not facts.view().has_unknown_disk
    save_snapshot(snapshot, tmp_path / "one")
    again = load_pegasus_snapshot(tmp_path / "one")
    assert again.snapshot_id == snapshot.snapshot_id
    assert all(again.tables[name].equals(table) for name, table in snapshot.tables.items())


def recorded_requests(folder: str) -> list[bytes]:
    frames = []
    for file in sorted((RECORDED / folder).glob("*.req.bin")):
        rest = file.read_bytes()
        while rest[:4] == b"THFT":
            (length,) = struct.unpack_from(">I", rest, 16)
            frames.append(rest[: 48 + length])
            rest = rest[48 + length :]
    return frames


def exactly(connection: socket.socket, count: int) -> bytes:
    content = b""
    while len(content) < count:
        chunk = connection.recv(count - len(content))
        assert chunk, "the server closed the connection"
        content += chunk
    return content


@pytest.mark.parametrize("folder", ["proxy34600", "own", "follower"])
def test_recorded_requests_of_other_clients_are_answered(folder):
    frames = recorded_requests(folder)
    assert frames
    with PegasusSandbox(PegasusOptions(tick_s=60)) as sandbox:
        host, _, port = sandbox.meta_servers[0].rpartition(":")
        with socket.create_connection((host, int(port)), timeout=20) as connection:
            for frame in frames:
                request = decode_request(frame)
                connection.sendall(frame)
                head = exactly(connection, 4)
                reply = head + exactly(connection, reply_length(head) - 4)
                answer = decode_reply(reply)
                assert (answer.name, answer.seqid) == (f"{request.name}_ACK", request.seqid)
                assert (answer.error == "ERR_OK") == (answer.result is not None)


def test_a_recorded_query_is_answered_with_every_field_of_the_recorded_answer():
    sent = (RECORDED / "own" / "query_cfg_temp.req.bin").read_bytes()
    told = (RECORDED / "own" / "query_cfg_temp.rsp.bin").read_bytes()
    with PegasusSandbox(PegasusOptions(tick_s=60)) as sandbox:
        host, _, port = sandbox.meta_servers[0].rpartition(":")
        with socket.create_connection((host, int(port)), timeout=20) as connection:
            connection.sendall(sent)
            head = exactly(connection, 4)
            ours = decode_reply(head + exactly(connection, reply_length(head) - 4)).result
    theirs = decode_reply(told).result
    assert isinstance(ours, idl.QueryCfgResponse)
    for one, other in ((ours, theirs), (ours.partitions[0], theirs.partitions[0])):
        assert {key for key, value in vars(one).items() if value is not None} == {
            key for key, value in vars(other).items() if value is not None
        }
