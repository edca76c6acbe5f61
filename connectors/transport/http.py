"""HTTP that every client here speaks: bounded in time, size and number, and never link-local.

One deadline holds for a whole answer: connecting, handshake, status line, interim answers, headers
and body (:mod:`connectors.transport.deadline`). Redirects, cookies, proxies of the environment and
netrc files are left alone.
"""

from __future__ import annotations

import http.client
import socket
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from http.cookiejar import DefaultCookiePolicy
from typing import Any, Final

import requests
from requests.adapters import HTTPAdapter
from urllib3 import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.exceptions import (
    ConnectTimeoutError,
    HTTPError,
    LocationParseError,
    NameResolutionError,
    NewConnectionError,
)
from urllib3.util.ssl_ import create_urllib3_context, resolve_cert_reqs

from connectors.transport.addresses import host_fault
from connectors.transport.deadline import (
    GivenUpError,
    TooLongError,
    TooManyError,
    next_wait_s,
    until,
)
from connectors.transport.sockets import PlainSocket, TlsSocket, connect
from core.errors import UnreachableError

MAX_BYTES: Final = 256 * 1024 * 1024
"""Largest answer, unpacked: metrics and topics, which are read piece by piece."""
MAX_DOCUMENT: Final = 32 * 1024 * 1024
"""Largest answer that is decoded as a whole: its objects take up to 25 times the memory."""
_MAX_TOGETHER: Final = 2 * MAX_BYTES
"""Together of all answers that a process reads at the same time."""
_MAX_SMALL: Final = 1024 * 1024
"""Answers up to this size are always read, whatever others take."""
_MAX_HEAD_BYTES: Final = 1024 * 1024
"""What an answer may have besides its body: interim answers, headers, ends of chunks."""
_CHUNK: Final = 256 * 1024
_MAX_INTERIM: Final = 20


@dataclass(frozen=True, slots=True)
class HttpReply:
    """An answer, whole.

    Attributes:
        status: Never 1xx.
        headers: Of any case.
        body: Unpacked.
    """

    status: int
    headers: Mapping[str, str]
    body: bytes


class CutOffError(Exception):
    """A body ended before its announced length."""


FAILURES: Final = (
    GivenUpError,
    TooLongError,
    CutOffError,
    requests.RequestException,
    HTTPError,
    OSError,
    ValueError,  # what is named as an address and is none
)
"""All that :func:`send` raises."""


def session(*, servers: int = 10, connections: int = 10) -> requests.Session:
    """Return a session within the limits of whoever sends with it.

    Args:
        servers: How many of them have open connections at most.
        connections: Most open connections to each of them.
    """
    made = _Session()
    made.trust_env = False
    made.cookies.set_policy(DefaultCookiePolicy(allowed_domains=[]))
    made.headers["User-Agent"] = "trimtab"
    # it repeats nothing by itself
    adapter = _Adapter(pool_connections=servers, pool_maxsize=connections)
    made.mount("http://", adapter)
    made.mount("https://", adapter)
    return made


def send(
    session: requests.Session,
    method: str,
    url: str,
    *,
    ends_at: float,
    connect_s: float,
    read_s: float,
    headers: Mapping[str, str] | None = None,
    body: bytes | None = None,
    max_bytes: int = MAX_DOCUMENT,
) -> HttpReply:
    """Send one request and read the whole answer.

    Args:
        session: From :func:`session`.
        method: ``GET``, for example.
        url: Absolute.
        ends_at: When the answer has to be whole, on the monotonic clock, s.
        connect_s: For the lookup of the name, for each address and for the handshake.
        read_s: Longest silence.
        headers: In addition to the session's.
        body: Of the request.
        max_bytes: Largest body, packed and unpacked.
    Raises:
        requests.RequestException, urllib3.exceptions.HTTPError, OSError, ValueError: It failed,
            see :data:`FAILURES`.
        TooLongError: The answer is longer.
        TooManyError: Too many long ones are read at the same time.
        CutOffError: The answer is shorter than announced.
        GivenUpError: It is not waited for any more.
    """
    with (
        until(ends_at, max_bytes=max_bytes + _MAX_HEAD_BYTES),
        session.request(
            method,
            url,
            data=body,
            headers=dict(headers or {}),
            timeout=(connect_s, read_s),
            allow_redirects=False,
            stream=True,
        ) as response,
    ):
        return HttpReply(response.status_code, response.headers, _body(response, max_bytes))


class _MemoryBudget:
    """Current memory of all answers being read, of all threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._taken = 0

    def take(self, count: int) -> None:
        """Take more of it, or give some back.

        Raises:
            TooManyError: There is no more.
        """
        with self._lock:
            if count > 0 and self._taken + count > _MAX_TOGETHER:
                raise TooManyError
            self._taken += count


_room: Final = _MemoryBudget()


def _body(response: requests.Response, max_bytes: int) -> bytes:
    content = bytearray()  # of one piece: a process keeps the memory of many small ones
    taken = 0
    try:
        while part := response.raw.read1(_CHUNK, decode_content=True):
            content += part
            if len(content) > max_bytes:
                raise TooLongError
            if len(content) > _MAX_SMALL:
                _room.take(len(content) - taken)
                taken = len(content)
            next_wait_s()  # bytes that are all there already take time, too
    finally:
        _room.take(-taken)
    expected = response.headers.get("Content-Length", "")
    encoded = "Content-Encoding" in response.headers
    if expected.isdigit() and not encoded and len(content) < int(expected):
        raise CutOffError
    return bytes(content)


# -- how ------------------------------------------------------------------------------------------


class _Session(requests.Session):
    def get_redirect_target(self, resp: requests.Response) -> None:
        """Return nothing: the library would read the whole body of a redirect, however long."""


class _BoundedResponse(http.client.HTTPResponse):
    """An answer of which interim ones (1xx) are bounded in number."""

    def _read_status(self) -> tuple[str, int, str]:
        for _ in range(_MAX_INTERIM + 1):
            version, status, reason = super()._read_status()  # type: ignore[misc]  # the stubs do not have it
            if not 100 <= status < 200:
                return version, status, reason
            if status == http.client.SWITCHING_PROTOCOLS:
                break
            http.client.parse_headers(self.fp)
        raise http.client.BadStatusLine("interim answers without an end")


def _refuse(host: str, address: str) -> None:
    """Raise when nothing is sent to an address.

    Raises:
        UnreachableError: It is link-local.
    """
    if fault := host_fault(address):
        raise UnreachableError(
            f"{host} is not contacted: {fault}.",
            endpoint=host,
            operation="connect",
            outcome="not_sent",
            hint="Check the DNS entry of that name.",
        )


class _BoundedConnection(HTTPConnection):
    """Connects within the limits, and to no address that nothing is sent to."""

    response_class = _BoundedResponse

    def connect(self) -> None:
        """Connect, and say of a connection that was given up that nothing was sent."""
        try:
            super().connect()
        except GivenUpError as exc:
            exc.was_connected = False
            raise

    def _new_conn(self) -> PlainSocket:
        host, port = self._dns_host, self.port
        try:
            return connect(
                host.strip("[]"),
                port,
                within_s=self.timeout if isinstance(self.timeout, int | float) else None,
                refuse=lambda address: _refuse(f"{host}:{port}", address),
                options=self.socket_options or (),
            )
        except UnicodeError as exc:
            raise LocationParseError(f"{host!r} is not a host name") from exc
        except socket.gaierror as exc:
            raise NameResolutionError(self.host, self, exc) from exc
        except TimeoutError as exc:
            raise ConnectTimeoutError(self, f"connecting to {host} timed out") from exc
        except OSError as exc:
            raise NewConnectionError(self, f"no connection to {host}: {exc}") from exc


class _BoundedTlsConnection(_BoundedConnection, HTTPSConnection):
    def connect(self) -> None:
        """Connect, with a handshake within the limits."""
        self.ssl_context = create_urllib3_context(cert_reqs=resolve_cert_reqs(self.cert_reqs))
        self.ssl_context.sslsocket_class = TlsSocket
        super().connect()  # of the one above, then of the library


class _HttpPool(HTTPConnectionPool):
    ConnectionCls = _BoundedConnection


class _HttpsPool(HTTPSConnectionPool):
    ConnectionCls = _BoundedTlsConnection


class _Adapter(HTTPAdapter):
    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
        """Make the pools of connections."""
        super().init_poolmanager(*args, **kwargs)
        self.poolmanager.pool_classes_by_scheme = {"http": _HttpPool, "https": _HttpsPool}
