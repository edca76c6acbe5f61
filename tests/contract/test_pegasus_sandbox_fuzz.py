"""Damaged requests: the decoder refuses them in its words, and no sandbox server ends."""

from __future__ import annotations

import contextlib
import logging
import random
import socket
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from connectors.pegasus.rpc.client import MetaClient
from connectors.pegasus.rpc.frame import HEADER_BYTES, decode_request
from connectors.pegasus.rpc.wire import WireError
from connectors.sandbox.pegasus.fleet import PegasusOptions, PegasusSandbox
from core.errors import RemoteError
from core.pegasus.levels import FunctionLevel

RECORDED = Path(__file__).parents[1] / "fixtures" / "pegasus" / "thft"
LENGTH_AT = 16
WITHIN_S = 30.0


def recorded_requests() -> list[bytes]:
    """The first frame of every recorded connection."""
    found = []
    for file in sorted(RECORDED.rglob("*.req.bin")):
        content = file.read_bytes()
        if content.startswith(b"THFT"):
            (length,) = struct.unpack_from(">I", content, LENGTH_AT)
            found.append(content[: HEADER_BYTES + length])
    return found


def damaged(frame: bytes, rng: random.Random) -> bytes:
    """Return a frame with a few bytes changed, lost, doubled or added; mostly of sound length."""
    body = bytearray(frame[HEADER_BYTES:])
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(body) + 1)
        match rng.randrange(5):
            case 0:
                body[at : at + 1] = bytes([rng.randrange(256)])
            case 1:
                del body[at : at + rng.randint(1, 8)]
            case 2:
                body[at:at] = body[at : at + rng.randint(1, 16)]
            case 3:
                body[at:at] = rng.randbytes(rng.randint(1, 8))
            case _:
                body[at : at + 4] = rng.choice([b"\xff" * 4, b"\x7f\xff\xff\xff", b"\0" * 4])
    head = bytearray(frame[:HEADER_BYTES])
    struct.pack_into(">I", head, LENGTH_AT, len(body))
    if rng.random() < 0.1:
        head[rng.randrange(4, HEADER_BYTES)] = rng.randrange(256)
    return bytes(head + body)


def many(count: int) -> Iterator[bytes]:
    rng, frames = random.Random(6), recorded_requests()
    for place in range(count):
        yield damaged(frames[place % len(frames)], rng)


def test_a_damaged_request_is_refused_by_the_decoder_or_understood() -> None:
    refused = 0
    for frame in many(10_000):
        try:
            decode_request(frame)
        except WireError:
            refused += 1
    assert 1_000 < refused < 10_000


@pytest.fixture
def sandbox() -> Iterator[PegasusSandbox]:
    options = PegasusOptions(tick_s=0.1, learn_mb_per_s=20_000, grace_s=0.3, failover_s=0.3)
    with PegasusSandbox(options) as running:
        yield running


def send(address: str, frame: bytes) -> None:
    """Send it, say that nothing follows, and read until the server has closed."""
    host, _, port = address.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=WITHIN_S) as line:
        try:
            line.sendall(frame)
            line.shutdown(socket.SHUT_WR)
            while line.recv(65536):
                pass
        except ConnectionError:  # it has closed before all of it was read
            pass


@pytest.mark.slow
def test_servers_of_the_sandbox_live_through_ten_thousand_damaged_requests(
    sandbox: PegasusSandbox, caplog: pytest.LogCaptureFixture
) -> None:
    servers = [*sandbox.meta_servers, *sandbox.nodes]
    with caplog.at_level(logging.ERROR, logger="asyncio"):
        for place, frame in enumerate(many(10_000)):
            send(servers[place % len(servers)], frame)
    assert [record.getMessage() for record in caplog.records] == []
    client = MetaClient(sandbox.meta_servers)
    with contextlib.suppress(RemoteError):  # the level before was none of the five
        client.apply_level(FunctionLevel.STEADY)
    assert client.fetch_stored_level() is FunctionLevel.STEADY
    assert sorted(node.name for node in client.fetch_nodes()) == sorted(sandbox.nodes)
    assert client.fetch_tables()
    client.close()
