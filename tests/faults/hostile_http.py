"""A web server that means harm: each behaviour answers every request so that it never ends well."""

from __future__ import annotations

import gzip
import itertools
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Final, Self

STEP_S: Final = 0.3
"""Between two bytes of a server that drips."""
_MIB: Final = 2**20
_OK: Final = b"HTTP/1.1 200 OK\r\n"
_JSON: Final = b"Content-Type: application/json\r\n"


def _drip(head: bytes, each: Iterable[bytes]) -> Callable[[socket.socket], None]:
    def run(one: socket.socket) -> None:
        one.sendall(head)
        for part in itertools.cycle(each):
            one.sendall(part)
            time.sleep(STEP_S)  # noqa: TID251  # a real server, in real time

    return run


def _flood(head: bytes, part: bytes) -> Callable[[socket.socket], None]:
    def run(one: socket.socket) -> None:
        one.sendall(head)
        while True:
            one.sendall(part)

    return run


def _say(*parts: bytes) -> Callable[[socket.socket], None]:
    def run(one: socket.socket) -> None:
        for part in parts:
            one.sendall(part)
        one.recv(1)  # the client hangs up, or the test ends

    return run


def _silent(one: socket.socket) -> None:
    one.recv(1)


@lru_cache(maxsize=1)
def _bomb() -> bytes:
    """Return 1 GiB of zeros, packed into a megabyte."""
    return gzip.compress(b"\0" * 16 * _MIB, 9) * 64


def _redirect_bomb(one: socket.socket) -> None:
    body = _bomb()
    one.sendall(
        b"HTTP/1.1 307 Temporary Redirect\r\nLocation: /admin/v2/brokers\r\n"
        b"Content-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(body) + body
    )
    one.recv(1)


def _gzip_bomb(one: socket.socket) -> None:
    body = _bomb()
    one.sendall(_OK + b"Content-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
    one.recv(1)


_CHUNKED: Final = _OK + _JSON + b"Transfer-Encoding: chunked\r\n\r\n"
_PLAIN: Final = _OK + _JSON + b"Content-Length: 1000000\r\n\r\n"

BEHAVIOURS: Final[dict[str, Callable[[socket.socket], None]]] = {
    "silent": _silent,
    "status line drips": _drip(b"HTTP/1.1 200 ", (b"O",)),
    "status line without an end": _flood(b"HTTP/1.1 200 ", b"O" * 65536),
    "100 Continue, fast": _flood(b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 100),
    "100 Continue, slowly": _drip(b"", (b"HTTP/1.1 100 Continue\r\n\r\n",)),
    "103 Early Hints, slowly": _drip(b"", (b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n",)),
    "100 Continue with headers that drip": _drip(b"HTTP/1.1 100 Continue\r\nX: ", (b"y",)),
    "header drips": _drip(_OK + b"X-Slow: ", (b"y",)),
    "headers drip": _drip(_OK, (b"X-Slow: y\r\n",)),
    "headers without an end": _flood(_OK, b"X-More: y\r\n" * 1000),
    "one header without an end": _flood(_OK + b"X-Long: ", b"y" * 65536),
    "body drips": _drip(_PLAIN, (b" ",)),
    "body without an end": _flood(_OK + b"Connection: close\r\n\r\n", b" " * 65536),
    "body of 1 TiB": _flood(_OK + b"Content-Length: 1099511627776\r\n\r\n", b" " * 65536),
    "body that never comes": _say(_PLAIN),
    "chunks drip": _drip(_CHUNKED, (b"1\r\n \r\n",)),
    "chunks without an end": _flood(_CHUNKED, b"1\r\n \r\n" * 1000),
    "chunk size drips": _drip(_CHUNKED, (b"0",)),
    "chunk size without an end": _flood(_CHUNKED, b"0" * 65536),
    "chunk extension without an end": _flood(_CHUNKED + b"1;", b"x" * 65536),
    "trailers without an end": _flood(_CHUNKED + b"2\r\n{}\r\n0\r\n", b"X: y\r\n" * 1000),
    "trailers drip": _drip(_CHUNKED + b"2\r\n{}\r\n0\r\n", (b"X: y\r\n",)),
    "gzip bomb": _gzip_bomb,
    "redirect with a bomb": _redirect_bomb,
    "redirect with a body without an end": _flood(
        b"HTTP/1.1 307 Temporary Redirect\r\nLocation: /admin/v2/brokers\r\n\r\n", b" " * 65536
    ),
    "redirect whose body drips": _drip(
        b"HTTP/1.1 307 Temporary Redirect\r\nLocation: /x\r\nContent-Length: 999999\r\n\r\n",
        (b" ",),
    ),
    "error whose body drips": _drip(
        b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 999999\r\n\r\n", (b" ",)
    ),
}
"""By name: what is done to the connection after a request was read."""


class HostileServer:
    """Answers every request with one behaviour; ``behave`` may be changed at any time.

    Args:
        behave: What it does after a request.
        certificate: PEM file with a key and a certificate; ``None``: no TLS.
        handshake_s: Seconds between two bytes of the handshake; ``None``: an ordinary one.
    """

    def __init__(
        self,
        behave: Callable[[socket.socket], None],
        certificate: Path | None = None,
        handshake_s: float | None = None,
    ) -> None:
        self.behave = behave
        self.requests = 0
        self._certificate = certificate
        self._handshake_s = handshake_s
        self._open: set[socket.socket] = set()
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.port = int(self._listener.getsockname()[1])
        self.name = f"127.0.0.1:{self.port}"
        self.url = f"http{'s' if certificate or handshake_s else ''}://{self.name}"
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for one in list(self._open):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    @property
    def connections(self) -> int:
        """How many connections are open, as far as the server has noticed."""
        return sum(one.fileno() >= 0 for one in self._open)

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                self._open = {one for one in self._open if one.fileno() >= 0} | {client}
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with suppress(OSError), client:
            if self._handshake_s is not None:
                # the beginning of a handshake record of 16 KiB, byte by byte
                for part in itertools.chain(
                    b"\x16\x03\x03\x40\x00\x02\x00\x3f\xfc", itertools.repeat(0)
                ):
                    client.sendall(bytes([part]))
                    time.sleep(self._handshake_s)  # noqa: TID251  # a real server, in real time
            if self._certificate is not None:
                context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
                context.load_cert_chain(self._certificate)
                self._open.discard(client)
                client = context.wrap_socket(client, server_side=True)
                self._open.add(client)
            with client:
                while _read_request(client):
                    self.requests += 1
                    self.behave(client)


def _read_request(client: socket.socket) -> bool:
    received = b""
    while b"\r\n\r\n" not in received:
        if not (part := client.recv(65536)):
            return False
        received += part
    return True
