"""Connections that keep the limits of :mod:`connectors.transport.deadline`.

A time-out of a socket counts from its last byte, so a server that sends one byte a second is never
late. These wait in slices: name lookup, connecting, TLS handshake, every read and every write end
with the limits of the block that they are in.
"""

from __future__ import annotations

import errno
import select
import socket
import ssl
import threading
from collections.abc import Callable, Iterable
from time import monotonic
from typing import Any, Final, TypeVar

from connectors.transport.deadline import awaited, next_wait_s, received

T = TypeVar("T")
Address = tuple[Any, ...]
_LOOKUP_TURN_S: Final = 0.01
_MAX_LOOKUPS: Final = 32
"""Names that are looked up at the same time: a resolver that hangs holds a thread for each."""


class _SlicedIo:
    """Reads and writes in slices; ``settimeout`` is the longest silence of one of them."""

    _quiet_s: float | None = None

    def settimeout(self, value: float | None, /) -> None:
        self._quiet_s = value

    def gettimeout(self) -> float | None:
        return self._quiet_s

    def recv_into(self, *args: Any) -> int:
        return _counted(self._waited(super().recv_into, *args))  # type: ignore[misc]  # the stubs do not have it

    def send(self, *args: Any) -> int:
        return self._waited(super().send, *args)  # type: ignore[misc,no-any-return]  # the stubs do not have it

    def sendall(self, data: Any, flags: int = 0, /) -> None:
        with memoryview(data) as view, view.cast("B") as content:
            sent = 0
            while sent < len(content):
                sent += self.send(content[sent:], flags)

    def _waited(self, call: Callable[..., T], *args: Any) -> T:
        """Call what waits for the other end until it returns.

        Raises:
            TimeoutError: Nothing came for too long, or the time is up.
            GivenUpError: It is not waited for any more.
        """
        began_s = monotonic()
        while True:
            wait_s = next_wait_s()
            if self._quiet_s is not None:
                wait_s = min(wait_s, self._quiet_s - (monotonic() - began_s))
                if wait_s <= 0:
                    raise TimeoutError("timed out")
            socket.socket.settimeout(self, wait_s)  # type: ignore[arg-type]
            try:
                return call(*args)
            except TimeoutError:
                continue


def _counted(count: int) -> int:
    received(count)
    return count


class PlainSocket(_SlicedIo, socket.socket):
    """A TCP connection within the limits."""


class TlsSocket(_SlicedIo, ssl.SSLSocket):
    """A TLS connection within the limits, its handshake too."""

    def do_handshake(self, block: bool = False) -> None:  # noqa: FBT001, FBT002  # of ssl
        """Perform the handshake."""
        self._waited(super().do_handshake, block)


def connect(
    host: str,
    port: int,
    *,
    within_s: float | None,
    refuse: Callable[[str], None],
    options: Iterable[tuple[Any, ...]] = (),
) -> PlainSocket:
    """Return a connection to a host; addresses are tried in the order of the lookup.

    Args:
        host: Name or IP address.
        port: TCP port.
        within_s: For the lookup, and for each address; ``None`` for the limits alone.
        refuse: Raises for an IP address that nothing is sent to.
        options: Of the socket.
    Raises:
        socket.gaierror: The name cannot be looked up.
        OSError: No address takes the connection.
        GivenUpError: It is not waited for any more.
    """
    addresses = resolve(host, port, within_s)
    for *_, address in addresses:
        refuse(str(address[0]))
    failure: OSError | None = None
    for family, kind, protocol, _, address in addresses:
        made = PlainSocket(family, kind, protocol)
        try:
            for option in options:
                made.setsockopt(*option)
            _connect(made, address, within_s)
        except OSError as exc:
            made.close()
            failure = failure or exc
        except BaseException:
            made.close()
            raise
        else:
            made.settimeout(within_s)
            return made
    raise failure or OSError(f"{host} has no address")


def _connect(made: PlainSocket, address: Address, within_s: float | None) -> None:
    made.setblocking(False)  # noqa: FBT003  # of socket
    code = made.connect_ex(address)
    if code == errno.EINPROGRESS:
        poll = select.poll()
        poll.register(made, select.POLLOUT)
        limit_s = 3600.0 if within_s is None else within_s
        if not awaited(lambda wait_s: poll.poll(wait_s * 1000), limit_s):
            raise TimeoutError("timed out")
        code = made.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
    if code:
        raise OSError(code, errno.errorcode.get(code, str(code)))


# -- names ----------------------------------------------------------------------------------------


class _Lookup:
    """One lookup of a name, in a thread of its own: the system's resolver cannot be interrupted."""

    def __init__(self, host: str, port: int) -> None:
        self.is_done = threading.Event()
        self._found: list[Any] = []
        self._failure: Exception | None = None
        self._host, self._port = host, port
        threading.Thread(target=self._run, name=f"lookup {host}", daemon=True).start()

    def _run(self) -> None:
        try:
            self._found = socket.getaddrinfo(self._host, self._port, type=socket.SOCK_STREAM)
        except Exception as exc:  # noqa: BLE001  # whoever waits for it raises it
            self._failure = exc
        with _lock:
            _lookups.pop((self._host, self._port), None)
        self.is_done.set()

    def result(self) -> list[Any]:
        if self._failure is not None:
            raise self._failure
        return self._found


_lock = threading.Lock()
_lookups: dict[tuple[str, int], _Lookup] = {}


def _lookup(host: str, port: int) -> _Lookup | None:
    """Return the lookup of a name, begun if need be; ``None`` if there are too many others."""
    with _lock:
        lookup = _lookups.get((host, port))
        if lookup is None and len(_lookups) < _MAX_LOOKUPS:
            lookup = _lookups[host, port] = _Lookup(host, port)
        return lookup


def resolve(host: str, port: int, within_s: float | None) -> list[Any]:
    """Return the ``getaddrinfo`` result; concurrent lookups of a name are shared.

    Raises:
        socket.gaierror: The name cannot be looked up, or too many lookups hang.
        TimeoutError: The resolver does not answer.
        GivenUpError: It is not waited for any more.
    """
    try:
        return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
    except socket.gaierror:
        pass  # a name
    ends_s = monotonic() + (3600.0 if within_s is None else within_s)
    while (lookup := _lookup(host, port)) is None:
        if monotonic() >= ends_s:
            raise socket.gaierror(socket.EAI_AGAIN, "too many name lookups hang")
        threading.Event().wait(min(next_wait_s(), _LOOKUP_TURN_S))
    if not awaited(lookup.is_done.wait, ends_s - monotonic()):
        raise TimeoutError(f"the lookup of {host} timed out")
    return lookup.result()
