"""One connection: requests out, replies in, matched by sequence id in whatever order they come."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from connectors.pegasus.rpc.errors import OK
from connectors.pegasus.rpc.frame import (
    MAX_BYTES,
    Reply,
    decode_reply,
    encode_request,
    reply_length,
)
from connectors.pegasus.rpc.idl import Call
from connectors.pegasus.rpc.wire import Struct, WireError
from connectors.transport import deadline
from connectors.transport.addresses import host_fault
from connectors.transport.sockets import connect
from core.errors import (
    GivenUpError,
    LateError,
    Outcome,
    ProtocolError,
    RemoteTimeoutError,
    UnreachableError,
)

_CHUNK_BYTES: Final = 1 << 16
_LENGTH_BYTES: Final = 4


@dataclass
class _Waiting:
    operation: str
    reply: Reply | None = None


class Connection:
    """A connection to one server, for any number of threads.

    Whoever waits first reads for all. After an error in the bytes, or a lost connection, it is of
    no more use: every waiting call fails, and the owner makes a new one.

    Args:
        address: ``host:port``; IPv4, IPv6 in brackets, or a name.
        timeout_s: For the connecting.
        max_bytes: Of the longest reply that is read.

    Raises:
        UnreachableError: No connection could be made; nothing was sent.
        GivenUpError: It is not waited for any more; nothing was sent.
    """

    def __init__(self, address: str, *, timeout_s: float, max_bytes: int = MAX_BYTES) -> None:
        self.address = address
        self.endpoint = f"pegasus {address}"
        self._max_bytes = max_bytes
        host, _, port = address.rpartition(":")
        try:
            with deadline.within(timeout_s):
                self._socket = connect(
                    host.strip("[]"), int(port), within_s=timeout_s, refuse=_refuse
                )
        except deadline.GivenUpError as exc:
            raise GivenUpError.at(self.endpoint, "connect", "not_sent") from exc
        except (OSError, ValueError, UnicodeError) as exc:
            raise UnreachableError(
                f"No connection to {address}: {getattr(exc, 'strerror', None) or exc}.",
                endpoint=self.endpoint,
                operation="connect",
                outcome="not_sent",
                hint="Check that the server runs and is reachable from this machine.",
            ) from exc
        self._turn = threading.Condition()
        self._sending = threading.Lock()
        self._waiting: dict[int, _Waiting] = {}
        self._is_being_read = False
        self._broken: str | None = None
        self._is_garbled = False
        self._left = bytearray()
        self._chunk = bytearray(_CHUNK_BYTES)
        self._last_seqid = 0
        self._late: set[int] = set()

    @property
    def is_open(self) -> bool:
        """Whether it is usable."""
        return self._broken is None

    def close(self) -> None:
        """Close it; calls that wait fail."""
        self._break("it was closed")

    def call(self, call: Call, body: Struct, *, timeout_s: float) -> Reply:
        """Send one request and return its reply; see :meth:`call_all`."""
        return self.call_all([(call, body)], timeout_s=timeout_s)[0]

    def call_all(self, wanted: Sequence[tuple[Call, Struct]], *, timeout_s: float) -> list[Reply]:
        """Send requests one behind the other and return their replies in that order.

        Raises:
            UnreachableError: The connection broke; the calls may have been heard.
            RemoteTimeoutError: No reply in time; the call may have been heard.
            ProtocolError: What came back is no reply to the request.
            GivenUpError: It is not waited for any more; the call may have been heard.
            LateError: The right to write may be lost; nothing was sent.
        """
        seqids: list[int] = []
        operation = wanted[0][0].name
        try:
            deadline.check_begin()
        except deadline.LateError as exc:
            raise LateError.at(self.endpoint, operation) from exc
        try:
            with deadline.within(timeout_s):
                for call, body in wanted:
                    seqids.append(
                        self._send(call, body, timeout_s)
                    )  # all that were sent, whatever fails
                return [self._receive(seqid) for seqid in seqids]
        except deadline.GivenUpError as exc:
            raise GivenUpError.at(self.endpoint, operation) from exc
        finally:
            with self._turn:  # after a failure no call waits for the others any more
                self._late.update(self._waiting.keys() & set(seqids))
                for seqid in seqids:
                    self._waiting.pop(seqid, None)

    def _send(self, call: Call, body: Struct, timeout_s: float) -> int:
        with self._sending:
            with self._turn:
                if self._broken is not None:
                    raise self._lost(call.name, "not_sent")
                self._last_seqid += 1
                seqid = self._last_seqid
                self._waiting[seqid] = _Waiting(call.name)
            frame = encode_request(
                call, body, seqid=seqid, timeout_ms=max(int(timeout_s * 1000), 1)
            )
            try:
                self._socket.settimeout(timeout_s)
                self._socket.sendall(frame)
            except deadline.GivenUpError:  # a part of it may have been sent
                self._break("the request was cancelled")
                raise
            except OSError as exc:
                self._break(f"sending failed: {exc}")
                raise self._lost(call.name, "unknown") from exc
        return seqid

    def _receive(self, seqid: int) -> Reply:
        with self._turn:
            waiting = self._waiting[seqid]
            while waiting.reply is None:
                if self._broken is not None:
                    raise self._failure(waiting.operation)
                try:
                    if self._is_being_read:
                        self._turn.wait(deadline.next_wait_s())
                    else:
                        self._read_one()
                except deadline.DeadlineError as exc:
                    raise self._timed_out(waiting.operation) from exc
            return waiting.reply

    def _read_one(self) -> None:
        """Read one reply for whoever waits for it; called and left with the turn held."""
        self._is_being_read = True
        self._turn.release()
        reply: Reply | None = None
        reason = ""
        is_garbled = False
        try:
            reply = self._next_reply()
        except TimeoutError:
            deadline.next_wait_s()
        except OSError as exc:
            reason = f"it failed: {exc}"
        except WireError as exc:
            reason, is_garbled = f"it returned {exc}", True
        finally:
            self._turn.acquire()
            self._is_being_read = False
            self._turn.notify_all()
        if reason:
            self._is_garbled = is_garbled
            self._break(reason)
        elif reply is not None:
            self._deliver(reply)

    def _deliver(self, reply: Reply) -> None:
        waiting = self._waiting.get(reply.seqid)
        if waiting is not None and reply.name == f"{waiting.operation}_ACK":
            waiting.reply = reply
        elif reply.seqid in self._late:
            self._late.discard(reply.seqid)
        else:
            self._is_garbled = True
            self._break(f"it returned {reply.name} {reply.seqid}, which was never requested")

    def _next_reply(self) -> Reply:
        self._fill(_LENGTH_BYTES)
        length = reply_length(bytes(self._left[:_LENGTH_BYTES]), self._max_bytes)
        self._fill(length)
        with memoryview(self._left) as content:
            frame = bytes(content[:length])
        del self._left[:length]
        ends_at = time.monotonic() + deadline.left_s()
        return decode_reply(frame, max_bytes=self._max_bytes, ends_at=ends_at)

    def _fill(self, count: int) -> None:
        """Read on until so many bytes are there; what was read stays for the next attempt."""
        while len(self._left) < count:
            size = self._socket.recv_into(self._chunk)
            if not size:
                raise ConnectionResetError("the server closed it")
            with memoryview(self._chunk) as content:
                self._left += content[:size]

    def _break(self, reason: str) -> None:
        with self._turn:
            if self._broken is None:
                self._broken = reason
            self._turn.notify_all()
        with contextlib.suppress(OSError):  # the other end was faster
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def _failure(self, operation: str) -> ProtocolError | UnreachableError:
        if not self._is_garbled:
            return self._lost(operation, "unknown")
        return ProtocolError(
            f"{self.endpoint} violated the Pegasus protocol: {self._broken}.",
            endpoint=self.endpoint,
            operation=operation,
            outcome="unknown",
            hint="Check that it is a Pegasus server of a supported version.",
        )

    def _lost(self, operation: str, outcome: Outcome) -> UnreachableError:
        return UnreachableError(
            f"The connection to {self.address} is lost: {self._broken}.",
            endpoint=self.endpoint,
            operation=operation,
            outcome=outcome,
            hint="Check that the server still runs.",
        )

    def _timed_out(self, operation: str) -> RemoteTimeoutError:
        return RemoteTimeoutError(
            f"{self.endpoint} did not respond to {operation} in time.",
            endpoint=self.endpoint,
            operation=operation,
            outcome="unknown",
            hint="Check whether it took effect before you repeat it.",
        )


def _refuse(address: str) -> None:
    """Raise for an address that nothing is sent to, whoever names it.

    Raises:
        OSError: It is link-local.
    """
    if fault := host_fault(address):
        raise OSError(fault)


def layer_error(reply: Reply) -> str | None:
    """Return the error of the layer of the calls, ``None`` when there is none."""
    return None if reply.error == OK else reply.error
