"""kazoo's client with bounds: of an answer's size and time, of reconnecting, and of its own end.

kazoo takes as many bytes as a server announces, waits again for each part of an answer, ends its
thread over an answer out of form, connects some twenty times a second to a server that hangs up,
blocks its callers when 300 requests wait for a thread that reads, and joins that thread at the end
for as long as it takes.
"""

from __future__ import annotations

import contextlib
import math
import os
import socket
import threading
from collections.abc import Iterable
from time import monotonic
from typing import Any, Final

from kazoo import exceptions as kazoo_errors
from kazoo.client import KazooClient
from kazoo.exceptions import ConnectionDropped
from kazoo.handlers.threading import AsyncResult, SequentialThreadingHandler
from kazoo.protocol.connection import ConnectionHandler
from kazoo.protocol.states import KeeperState
from kazoo.retry import KazooRetry

from connectors.config.model import DECODED, ClusterConfig
from connectors.transport.deadline import DeadlineError, awaited
from connectors.zookeeper.errors import Fault
from connectors.zookeeper.multi_read import NAME_BYTES

_CHUNK_BYTES: Final = 256 * 1024
_MAX_UNREQUESTED: Final = 1_000
"""Messages in a row that nothing asked for: more are no notifications of watches of ours."""
_PAUSE_S: Final = 0.05
_MAX_PAUSE_S: Final = 2.0
_GRACE_S: Final = 0.3
"""How long the server may take to confirm the end of a session."""
_CUT_S: Final = 0.4
"""How long our own thread may take to notice that its connection was cut."""


class BoundedClient(KazooClient):  # type: ignore[misc]  # the library has no types
    """A client of a cluster's ZooKeeper; it is started once, and ends within a second.

    Args:
        config: Its ``zookeeper``, ``timeouts``, ``read_limits``.
        options: Further arguments of kazoo's client.
    """

    def __init__(self, config: ClusterConfig, **options: Any) -> None:
        self._state_moved = threading.Condition()
        retry = KazooRetry(max_tries=-1, delay=0.05, backoff=2, max_delay=_MAX_PAUSE_S)
        super().__init__(
            hosts=config.zookeeper,
            timeout=config.timeouts.session_s,
            connection_retry=retry,
            handler=_Handler(config.read_limits.zookeeper_bytes),
            **options,
        )
        wait_s = config.timeouts.zookeeper_s
        # a server that is gone or frozen leaves time for the others
        self.handler.connect_s = wait_s / len(self.hosts)
        self._connection = _Connection(self, wait_s)

    @property
    def fault(self) -> Fault | None:
        """Server fault since the last good answer, or ``None``."""
        fault: Fault | None = self.handler.fault
        return fault

    @property
    def has_ended(self) -> bool:
        """Whether it was stopped, or never started."""
        return bool(self._stopped.is_set())

    def wait_connected(self, wait_s: float) -> bool:
        """Wait until it is connected; return whether it is. It may end meanwhile.

        Raises:
            GivenUpError: It is not waited for any more.
        """

        def is_decided() -> bool:
            return self.connected or self.has_ended or self._state == KeeperState.AUTH_FAILED

        if self.connected:
            return True
        with self._state_moved, contextlib.suppress(DeadlineError):
            awaited(lambda some_s: self._state_moved.wait_for(is_decided, some_s), wait_s)
        return bool(self.connected)

    def end(self) -> None:
        """End the session and every wait for it, from any thread; twice is harmless."""
        with contextlib.suppress(OSError, AttributeError):  # of a second thread that was faster
            self.stop()
        self.close()

    def close(self) -> None:
        """Give back the descriptors; a thread that still looks up a name does it at its end."""
        if self._connection.connection_stopped.is_set():
            super().close()

    def _session_callback(self, state: str) -> None:
        super()._session_callback(state)
        with self._state_moved:
            self._state_moved.notify_all()

    def _safe_close(self) -> None:
        with self._state_moved:
            self._state_moved.notify_all()
        stopped = self._connection.connection_stopped
        if not stopped.wait(_GRACE_S if self.connected else 0.0):
            self._connection.cut()
        self.handler.stop()
        if stopped.wait(_CUT_S):
            self._connection.stop()
        else:  # it looks up a name or connects, for which a bound holds as well
            self._connection.is_abandoned = True
            self._notify_pending(KeeperState.CLOSED)


class _Handler(SequentialThreadingHandler):  # type: ignore[misc]  # the library has no types
    """Makes the connections, the queues and the results of one client."""

    def __init__(self, max_bytes: int) -> None:
        super().__init__()
        self.max_bytes = max_bytes
        self.connect_s = 1.0
        self.fault: Fault | None = None

    def create_connection(self, *args: Any, timeout: float | None = None, **options: Any) -> Any:
        """Connect; unlike kazoo's own, never without a bound."""
        bound_s = self.connect_s if timeout is None else min(timeout, self.connect_s)
        return super().create_connection(*args, timeout=bound_s, **options)

    def create_socket_pair(self) -> tuple[_End, _End]:
        """Return the wake-up pair, one byte per request: a pipe takes 65,536, sockets 300."""
        reading, writing = os.pipe()
        os.set_blocking(writing, False)
        return _End(reading), _End(writing)

    def async_result(self) -> AsyncResult:
        """Return a result that an answer out of form fails, instead of the thread."""
        return _Result(self)


class _End:
    """One end of a pipe, with the methods of a socket that kazoo uses."""

    def __init__(self, number: int) -> None:
        self._number = number

    def fileno(self) -> int:
        return self._number

    def recv(self, count: int) -> bytes:
        return os.read(self._number, count)

    def send(self, content: bytes) -> int:
        return os.write(self._number, content)

    def close(self) -> None:
        number, self._number = self._number, -1
        if number >= 0:
            os.close(number)


class _Result(AsyncResult):  # type: ignore[misc]  # the library has no types
    """A result whose failures are all kazoo's, and which is never larger than an answer may be."""

    def get(self, block: bool = True, timeout: float | None = None) -> Any:  # noqa: FBT001, FBT002  # of kazoo
        """Return the value or raise the exception; the wait keeps the limits of its block."""
        if block:
            with contextlib.suppress(DeadlineError):
                awaited(self.wait, math.inf if timeout is None else timeout)
        return super().get(block=False)

    def set(self, value: Any = None) -> None:
        if isinstance(value, list) and (fault := _fault_of_list(value, self._handler.max_bytes)):
            self.set_exception(ValueError(fault))
        else:
            super().set(value)

    def set_exception(self, exception: BaseException) -> None:
        if not isinstance(exception, kazoo_errors.KazooException):
            what = str(exception)[:150] or type(exception).__name__
            self._handler.fault = Fault(f"violated the ZooKeeper protocol: {what}")
            exception = kazoo_errors.MarshallingError(what)
        super().set_exception(exception)


def _fault_of_list(value: list[Any], max_bytes: int) -> str:
    """Return the fault of children names, or of answers that may contain such names."""
    named = [value] if value and isinstance(value[0], str | None) else _lists_in(value)
    weight = 0
    for names in named:
        if None in names:
            return "a name of no length"
        weight += NAME_BYTES * len(names)
    return "" if weight <= DECODED * max_bytes else f"{weight // NAME_BYTES:,} names of children"


def _lists_in(answers: Iterable[Any]) -> list[list[Any]]:
    return [one.value for one in answers if isinstance(one.value, list)]


class _Connection(ConnectionHandler):  # type: ignore[misc]  # the library has no types
    """One connection after the other, each answer read within its bounds.

    Args:
        client: Whose it is.
        answer_s: How long one answer may take from its first byte to its last.
    """

    def __init__(self, client: BoundedClient, answer_s: float) -> None:
        super().__init__(client, client._conn_retry.copy(), logger=client.logger)  # noqa: SLF001  # as kazoo makes it
        self.is_abandoned = False
        self._answer_s = answer_s
        self._is_cut = False
        self._ends_at = 0.0
        self._pause_s = 0.0
        self._unrequested = 0

    # -- its end ------------------------------------------------------------------------------

    def cut(self) -> None:
        """Break the connection, and let no other be made."""
        self._is_cut = True
        with contextlib.suppress(OSError, AttributeError):  # there is none, or none any more
            self._socket.shutdown(socket.SHUT_RDWR)

    def zk_loop(self) -> None:
        """Run until the client stops; descriptors that it could not wait for are given back."""
        super().zk_loop()
        if self.is_abandoned:
            self.close()

    # -- connecting ---------------------------------------------------------------------------

    def _connect_attempt(self, host: str, hostip: str, port: int, retry: KazooRetry) -> Any:
        try:
            return super()._connect_attempt(host, hostip, port, retry)
        except Exception as exc:  # noqa: BLE001  # the thread must outlive any answer
            what = f"violated the ZooKeeper protocol: {type(exc).__name__}"
            self.handler.fault = Fault(what)
            self.client._session_callback(KeeperState.CONNECTING)  # noqa: SLF001  # as for a loss
            return None

    def _connect(self, host: str, hostip: str, port: int) -> Any:
        """Connect; longer and longer apart while connections come to nothing."""
        if self.client._stopped.wait(self._pause_s):  # noqa: SLF001  # it has no other name
            raise ConnectionDropped("the session ends")
        try:
            found = super()._connect(host, hostip, port)
        except kazoo_errors.SessionExpiredError:
            self._come_to_nothing("expires every session at once")
            raise
        self._come_to_nothing("closes the connection before the first answer")
        return found

    def _come_to_nothing(self, what: str) -> None:
        """Assume the worst of a connection until it has answered something."""
        if self._pause_s:  # once may be chance
            self.handler.fault = Fault(what)
        self._pause_s = min(max(2 * self._pause_s, _PAUSE_S), _MAX_PAUSE_S)
        self._unrequested = 0

    # -- answers ------------------------------------------------------------------------------

    def _refused(self, what: str, *hint: str) -> ConnectionDropped:
        self.handler.fault = Fault(what, *hint)
        return ConnectionDropped(what)

    def _invoke(self, timeout: float, request: Any, xid: int | None = None) -> Any:
        self._ends_at = monotonic() + min(timeout, self._answer_s)
        return super()._invoke(timeout, request, xid)

    def _read_header(self, timeout: float) -> Any:
        self._ends_at = monotonic() + min(timeout, self._answer_s)
        return super()._read_header(timeout)

    def _read(self, length: int, timeout: float) -> bytes:
        """Read a length or an answer, until the moment that its first byte has set."""
        del timeout  # it would begin again for each part of an answer
        limit = self.handler.max_bytes
        if length <= 0:
            raise self._refused(f"announced an answer of {length:,} bytes")
        if length > limit:
            raise self._refused(
                f"announced an answer of {length:,} bytes; read_limits.zookeeper_mib allows "
                f"{limit // 2**20} MiB",
                "If its jute.maxbuffer is larger, raise read_limits.zookeeper_mib of the "
                "cluster; otherwise check which server listens there.",
            )
        content = bytearray()
        with self._socket_error_handling():
            while (missing := length - len(content)) > 0:
                if self._is_cut:
                    raise ConnectionDropped("the session ends")
                try:
                    chunk = self._socket.recv(min(missing, _CHUNK_BYTES))
                except BlockingIOError:
                    self._await_bytes()
                    continue
                if not chunk:
                    raise ConnectionDropped("socket connection broken")
                content += chunk
                if monotonic() > self._ends_at:
                    raise self._too_late()
        return bytes(content)

    def _await_bytes(self) -> None:
        left_s = self._ends_at - monotonic()
        if left_s <= 0 or not self.handler.select([self._socket], [], [], left_s)[0]:
            raise self._too_late()

    def _too_late(self) -> ConnectionDropped:
        return self._refused(
            f"did not finish an answer within {self._answer_s:g} s",
            "Check its load and the network; raise timeouts.zookeeper_s of the cluster.",
        )

    def _read_socket(self, read_timeout: float) -> Any:
        before = self._awaited()
        result = super()._read_socket(read_timeout)
        self._unrequested = self._unrequested + 1 if self._awaited() == before else 0
        if self._unrequested > _MAX_UNREQUESTED:
            raise self._refused("sends unrequested messages without end")
        return result

    def _awaited(self) -> tuple[int, int, int, bool]:
        """Return the expected messages: answers, watch notifications, and of a ping."""
        client = self.client
        watches = len(client._data_watchers), len(client._child_watchers)  # noqa: SLF001  # its thread is ours
        return len(client._pending), *watches, self.ping_outstanding.is_set()  # noqa: SLF001  # as above

    def _read_response(self, header: Any, buffer: bytes, offset: int) -> Any:
        pending = self.client._pending  # noqa: SLF001  # a queue of this thread
        if not pending:
            raise self._refused("sent an unrequested answer")
        if header.xid != pending[0][2]:
            raise self._refused(f"responded to request {header.xid} instead of {pending[0][2]}")
        if header.err and header.err not in kazoo_errors.EXCEPTIONS:
            raise self._refused(f"returned the unknown error {header.err}")
        self._pause_s = 0.0
        self.handler.fault = None
        return super()._read_response(header, buffer, offset)
