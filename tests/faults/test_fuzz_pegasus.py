"""Damaged answers of Pegasus servers, RPC and HTTP: a value or a documented error comes out."""

from __future__ import annotations

import random
import re
import struct
from collections.abc import Callable, Iterator
from contextlib import closing

import pytest
from bounded import bounded
from mutations import mutate
from pegasus_recorded import BY_CALL, RECORDED
from pegasus_server import serving
from small_broker import SmallBroker

from connectors.pegasus.http.client import HttpClient
from connectors.pegasus.rpc.client import MetaClient, ServerClient
from connectors.pegasus.rpc.frame import Reply, Request, decode_reply, encode_reply
from connectors.pegasus.rpc.idl import CALL_BY_NAME
from connectors.pegasus.rpc.wire import WireError
from core.errors import RemoteError
from core.pegasus.answers import NodeEntry
from core.units import visible

CI, ALL = 300, 10_000
COUNTS = pytest.mark.parametrize(
    "count", [CI, pytest.param(ALL, marks=[pytest.mark.slow, pytest.mark.timeout(3_600)])]
)
REPLY_LENGTH_AT = 0
LONGEST_MESSAGE = 10_000
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
READS: tuple[Callable[[MetaClient], object], ...] = (
    MetaClient.fetch_nodes,
    MetaClient.fetch_tables,
    lambda meta: meta.fetch_partitions("temp"),
    lambda meta: meta.fetch_all_partitions(["temp", "stat"]),
    MetaClient.fetch_cluster_info,
    MetaClient.fetch_stored_level,
    MetaClient.fetch_ddd,
    lambda meta: meta.send_command("meta.lb.get_balance_operation_count"),
)


def recorded(request: Request) -> bytes:
    """The recorded reply, or an empty one where none was recorded, to this very request."""
    name = BY_CALL.get(request.name)
    if name is None:
        response = CALL_BY_NAME[request.name].response
        return encode_reply_of(request, response() if response else "")
    reply = decode_reply((RECORDED / "own" / f"{name}.rsp.bin").read_bytes())
    return encode_reply_of(request, reply.result)


def encode_reply_of(request: Request, result: object) -> bytes:
    return encode_reply(Reply(f"{request.name}_ACK", request.seqid, "ERR_OK", result))


def damaged(frame: bytes, rng: random.Random) -> bytes:
    """A reply with bytes changed, lost, doubled or added, mostly with its own length first."""
    body = bytearray(frame)
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(4, len(body) + 1)
        match rng.randrange(6):
            case 0 | 1:
                body[at : at + 1] = bytes([rng.randrange(256)])
            case 2:
                del body[at : at + rng.randint(1, 8)]
            case 3:
                body[at:at] = body[at : at + rng.randint(1, 16)]
            case 4:
                body[at:at] = rng.randbytes(rng.randint(1, 8))
            case _:
                body[at : at + 4] = rng.choice([b"\xff" * 4, b"\x7f\xff\xff\xff", b"\0" * 4])
    if rng.random() < 0.95:
        struct.pack_into(">i", body, REPLY_LENGTH_AT, len(body))
    return bytes(body)


def is_refused(act: Callable[[], object]) -> bool:
    """Whether a documented error came out, with a message that can be shown."""
    try:
        act()
    except RemoteError as exc:
        message = exc.message
    else:
        return False
    assert CONTROL.search(visible(message)) is None, message  # as it is printed and shown
    assert len(message) < LONGEST_MESSAGE
    return True


class DamagingServer:
    """Answers as recorded, damaged."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.is_damaging = True

    def answer(self, request: Request, _frame: bytes) -> bytes:
        found = recorded(request)
        return damaged(found, self.rng) if self.is_damaging else found


@COUNTS
def test_damaged_replies_of_meta_servers(count: int) -> None:
    server, failed = DamagingServer(seed=31), 0
    with serving(server.answer) as (running,), bounded() as bounds:
        for number in range(count):
            meta = MetaClient([running.address], timeout_s=0.1)
            read = READS[number % len(READS)]
            with bounds.call(), closing(meta):
                failed += is_refused(lambda meta=meta, read=read: read(meta))
            running.heard.clear()
        server.is_damaging = False
        meta = MetaClient([running.address])
        assert meta.fetch_nodes()
        meta.close()
    assert failed > count // 4


@COUNTS
def test_damaged_replies_are_refused_by_the_decoder_or_understood(count: int) -> None:
    rng = random.Random(32)
    frames = [path.read_bytes() for path in sorted(RECORDED.rglob("*.rsp.bin"))]
    sound = []
    for frame in frames:
        try:
            decode_reply(frame)
        except WireError:
            continue
        sound.append(frame)
    refused = 0
    with bounded(within_s=2.0) as bounds:
        for number in range(count):
            try:
                with bounds.call():
                    decode_reply(damaged(sound[number % len(sound)], rng))
            except WireError:
                refused += 1
    assert refused > count // 10


@COUNTS
def test_damaged_replies_of_replica_servers(count: int) -> None:
    server = DamagingServer(seed=33)
    with serving(server.answer) as (running,), bounded() as bounds:
        host, _, port = running.address.rpartition(":")
        node = NodeEntry(name=running.address, address=f"{host}:{port}", is_alive=True)
        for number in range(count):
            client = ServerClient(running.address, timeout_s=0.1)
            read = (client.fetch_disks, client.fetch_replicas)[number % 2]
            with bounds.call(), closing(client):
                is_refused(lambda read=read: read(node))
            running.heard.clear()


# -- HTTP ------------------------------------------------------------------------------------------

HTTP = {
    "/version": "meta34601/version",
    "/configs": "meta34601/configs",
    "/config": "meta34601/config__name-lb_interval_ms",
    "/meta/cluster": "meta34601/meta_cluster",
    "/meta/nodes": "meta34601/meta_nodes__detail",
    "/meta/apps": "meta34601/meta_apps__detail",
    "/meta/app": "meta34601/meta_app__name-temp_detail",
    "/meta/app_envs": "meta34601/meta_app_envs__name-temp",
    "/metrics": "meta34601/metrics__types-server",
    "/replica/data_version": "replica34801/replica_data_version__app_id-2",
    "/replica/manual_compaction": "replica34801/replica_manual_compaction__app_id-2",
}
REQUESTS: tuple[tuple[str, Callable[[HttpClient], object]], ...] = (
    ("/version", HttpClient.fetch_version),
    ("/configs", HttpClient.fetch_flags),
    ("/meta/cluster", HttpClient.fetch_cluster),
    ("/meta/nodes", HttpClient.fetch_nodes),
    ("/meta/apps", HttpClient.fetch_tables),
    ("/meta/app", lambda client: client.fetch_table("temp")),
    ("/meta/app_envs", lambda client: client.fetch_envs("temp")),
    ("/metrics", HttpClient.fetch_metrics),
    ("/replica/data_version", lambda client: client.fetch_data_versions(2)),
    ("/replica/manual_compaction", lambda client: client.fetch_compactions(2)),
)


@pytest.fixture
def server() -> Iterator[SmallBroker]:
    with SmallBroker() as running:
        yield running


@COUNTS
def test_damaged_http_answers(server: SmallBroker, count: int) -> None:
    rng, failed = random.Random(34), 0
    bodies = {
        path: (RECORDED.parent / "http" / f"{name}.json").read_bytes()
        for path, name in HTTP.items()
    }
    with bounded() as bounds, closing(HttpClient(server.name, timeout_s=5.0)) as client:
        for number in range(count):
            path, request = REQUESTS[number % len(REQUESTS)]
            status = rng.choice((200, 200, 200, 200, 400, 404, 500, 503))
            server.answers[path] = (status, {}, mutate(bodies[path], rng))
            with bounds.call():
                failed += is_refused(lambda request=request: request(client))
            server.requests.clear()
    assert failed > count // 4
