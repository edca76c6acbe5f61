"""HTTP of the sandbox's Pegasus servers on the wire: framing, and refusals of what is malformed."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from connectors.sandbox.pegasus.fleet import PegasusOptions, PegasusSandbox

WITHIN_S = 30.0
VERSION = b"GET /version HTTP/1.1\r\nHost: x\r\n"


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with PegasusSandbox(PegasusOptions(tick_s=0.4, grace_s=0.3, failover_s=0.3)) as running:
        yield running.meta_servers[0]


def exchange(server: str, *parts: bytes) -> bytes:
    """Send parts one after the other, then no more, and return all that comes back."""
    host, _, port = server.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=WITHIN_S) as line:
        for part in parts:
            line.sendall(part)
        line.shutdown(socket.SHUT_WR)
        found = b""
        while piece := line.recv(65536):
            found += piece
        return found


def statuses(answers: bytes) -> list[int]:
    found = answers.split(b"HTTP/1.1 ")
    return [int(one[:3]) for one in found[1:]]


def test_a_connection_stays_open_for_the_next_request(server):
    assert statuses(exchange(server, VERSION + b"\r\n", VERSION + b"\r\n")) == [200, 200]


def test_a_client_may_ask_to_close(server):
    first = VERSION + b"Connection: close\r\n\r\n"
    assert statuses(exchange(server, first + VERSION + b"\r\n")) == [200]


def test_a_request_may_come_in_pieces_and_a_body_in_chunks(server):
    post = b"POST /meta/nodes HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
    body = [b"5\r\nhe", b"llo\r\n", b"0\r\n\r\n"]
    assert statuses(exchange(server, post[:7], post[7:], *body, VERSION + b"\r\n")) == [404, 200]


def test_head_has_the_length_and_no_body(server):
    head = exchange(server, VERSION.replace(b"GET", b"HEAD") + b"\r\n")
    (content,) = exchange(server, VERSION + b"\r\n").split(b"\r\n\r\n")[1:]
    assert statuses(head) == [200]
    assert f"Content-Length: {len(content)}\r\n".encode() in head
    assert head.endswith(b"\r\n\r\n")


def test_other_methods_are_refused_and_nothing_is_allowed_to_other_sites(server):
    answer = exchange(server, VERSION.replace(b"GET", b"OPTIONS") + b"\r\n", VERSION + b"\r\n")
    assert statuses(answer) == [405, 200]
    assert b"Allow: GET, HEAD, POST\r\n" in answer
    assert b"access-control" not in answer.lower()


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (b"GET\r\n\r\n", 400),
        (b"GET /version\r\n\r\n", 400),
        (b"GET /version HTTP/1.1\r\n\r\n", 400),
        (VERSION + b"no colon\r\n\r\n", 400),
        (VERSION + b"Content-Length: many\r\n\r\n", 400),
        (VERSION + b"Content-Length: 5\r\n\r\nab", 400),
        (VERSION + b"Transfer-Encoding: gzip\r\n\r\n", 501),
        (VERSION + b"X: " + b"a" * 70_000, 431),
        (
            b"POST /version HTTP/1.1\r\nHost: x\r\nContent-Length: 70000\r\n\r\n" + b"a" * 70_000,
            413,
        ),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\r\n\r\n", 400),
    ],
)
def test_a_malformed_request_is_refused_and_the_connection_closed(server, request_, status):
    answer = exchange(server, request_)
    assert statuses(answer) == [status]
    assert b"Connection: close\r\n" in answer
