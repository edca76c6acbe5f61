"""A small asyncio ZooKeeper client: one session a simulated broker, hundreds of them in one loop.

It speaks only what the sandbox needs, pipelined: a caller may send thousands of requests before it
awaits the first answer. Production reading goes through kazoo, not through this.
"""

from __future__ import annotations

import asyncio
import contextlib
import struct
from collections import deque
from typing import Final

from core.errors import NotFoundError, ProtocolError, RemoteError, UnreachableError

_CREATE: Final = 1
_DELETE: Final = 2
_SET: Final = 5
_CHILDREN: Final = 8
_PING: Final = 11
_CLOSE: Final = -11
_PING_XID: Final = -2
_NO_NODE: Final = -101
_NODE_EXISTS: Final = -110
_EPHEMERAL: Final = 1
_PASSWORD_BYTES: Final = 16
# one entry, world:anyone, all rights
_OPEN_ACL: Final = struct.pack(">iii5si6s", 1, 31, 5, b"world", 6, b"anyone")


def _text(value: str) -> bytes:
    raw = value.encode()
    return struct.pack(">i", len(raw)) + raw


def _buffer(value: bytes) -> bytes:
    return struct.pack(">i", len(value)) + value


class ZkSession:
    """One ZooKeeper session; its ephemeral nodes live as long as it does.

    Args:
        host: Server host.
        port: Server port.
        timeout_s: Session time-out; the server drops ephemeral nodes that long after it last heard
            from us.
    """

    def __init__(
        self,
        host: str,
        port: int,
        *,
        timeout_s: float,
    ) -> None:
        self._host, self._port = host, port
        self._timeout_s = timeout_s
        self._identity = (0, bytes(_PASSWORD_BYTES))
        self._xid = 0
        self._pending: deque[tuple[int, asyncio.Future[bytes]]] = deque()
        self._reader: asyncio.StreamReader
        self._writer: asyncio.StreamWriter | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._opening = asyncio.Lock()

    @property
    def is_open(self) -> bool:
        """Whether requests can be sent."""
        return self._writer is not None

    async def open(self) -> None:
        """Connect: begin a session, or go on with the one that was, while the server still has it.

        Concurrent callers wait for the same connection.

        Raises:
            UnreachableError: No server listens or answers, or the connection broke at once.
        """
        async with self._opening:
            while not self.is_open:
                try:
                    async with asyncio.timeout(self._timeout_s):
                        await self._connect()
                except TimeoutError as exc:
                    raise self._lost("connect") from exc

    async def _connect(self) -> None:
        """Greet the server; a session that ran out leaves it unopened, to begin another."""
        try:
            self._reader, writer = await asyncio.open_connection(self._host, self._port)
        except OSError as exc:
            raise self._lost("connect") from exc
        number, password = self._identity
        greeting = struct.pack(">iqiq", 0, 0, round(self._timeout_s * 1000), number)
        writer.write(_buffer(greeting + _buffer(password) + b"\x00"))
        answer = b""
        try:
            answer = await self._frame()
        finally:
            if not answer:  # it failed, or the waiting task was cancelled
                writer.transport.abort()
        timeout_ms, number = struct.unpack_from(">iq", answer, 4)
        self._identity = (number, answer[20 : 20 + _PASSWORD_BYTES])
        if timeout_ms <= 0:  # it ran out meanwhile: begin another
            writer.transport.abort()
            self._identity = (0, bytes(_PASSWORD_BYTES))
            return
        for task in self._tasks:
            task.cancel()
        self._writer = writer
        self._tasks = [
            asyncio.create_task(self._read()),
            asyncio.create_task(self._ping(timeout_ms / 3000)),
        ]

    def send(self, kind: int, body: bytes) -> asyncio.Future[bytes]:
        """Send one request; the future gets the answer's body, or the error."""
        answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        if self._writer is None:
            answer.set_exception(self._lost("send"))
            return answer
        self._xid += 1
        self._writer.write(struct.pack(">iii", len(body) + 8, self._xid, kind) + body)
        self._pending.append((self._xid, answer))
        return answer

    def create(
        self, path: str, value: bytes = b"", *, ephemeral: bool = False
    ) -> asyncio.Future[bytes]:
        """Create a node whose parent exists."""
        flags = struct.pack(">i", _EPHEMERAL if ephemeral else 0)
        return self.send(_CREATE, _text(path) + _buffer(value) + _OPEN_ACL + flags)

    def set(self, path: str, value: bytes, version: int = -1) -> asyncio.Future[bytes]:
        """Set the value of an existing node."""
        return self.send(_SET, _text(path) + _buffer(value) + struct.pack(">i", version))

    def delete(self, path: str) -> asyncio.Future[bytes]:
        """Delete a node that has no children."""
        return self.send(_DELETE, _text(path) + struct.pack(">i", -1))

    async def children(self, path: str) -> list[str]:
        """Return the names below a node."""
        body = await self.send(_CHILDREN, _text(path) + b"\x00")
        count, offset = struct.unpack_from(">i", body, 0)[0], 4
        names = []
        for _ in range(count):
            size = struct.unpack_from(">i", body, offset)[0]
            names.append(body[offset + 4 : offset + 4 + size].decode())
            offset += 4 + size
        return names

    async def ensure(self, path: str) -> None:
        """Create a node and its parents; existing nodes stay."""
        parts = path.strip("/").split("/")
        answers = [self.create("/" + "/".join(parts[: depth + 1])) for depth in range(len(parts))]
        await wait_for_all(answers)

    async def put(self, path: str, value: bytes) -> None:
        """Set a node's value, creating it and its parents when it is not there."""
        with contextlib.suppress(NotFoundError):
            await self.set(path, value)
            return
        await self.ensure(path.rpartition("/")[0])
        await self.create(path, value)

    async def remove(self, path: str) -> None:
        """Delete a node; one that is not there is all right."""
        with contextlib.suppress(NotFoundError):
            await self.delete(path)

    async def close(self) -> None:
        """End the session: the server drops its ephemeral nodes at once."""
        if self._writer is not None:
            with contextlib.suppress(RemoteError, TimeoutError):
                await asyncio.wait_for(self.send(_CLOSE, b""), timeout=1.0)
        await self.abandon()

    async def abandon(self) -> None:
        """Drop the connection without ending the session, as a crash does."""
        for task in self._tasks:
            task.cancel()
        self._tasks = []
        self._drop_connection()

    def _drop_connection(self) -> None:
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.transport.abort()
        self._fail_all()

    async def _frame(self) -> bytes:
        try:
            size = struct.unpack(">i", await self._reader.readexactly(4))[0]
            return await self._reader.readexactly(size)
        except (asyncio.IncompleteReadError, OSError) as exc:
            raise self._lost("read") from exc

    async def _read(self) -> None:
        try:
            while True:
                frame = await self._frame()
                xid, error = struct.unpack_from(">i8xi", frame, 0)
                if xid != _PING_XID:
                    self._answer(xid, error, frame[16:])
        except RemoteError:
            self._drop_connection()

    def _answer(self, xid: int, error: int, body: bytes) -> None:
        expected, answer = self._pending.popleft()
        if answer.done():
            return
        if xid != expected:
            answer.set_exception(self._refused(f"responded to request {xid}, not {expected}"))
        elif error == 0:
            answer.set_result(body)
        elif error == _NO_NODE:
            answer.set_exception(
                NotFoundError(
                    "The node does not exist.",
                    endpoint=self._endpoint,
                    operation="request",
                    outcome="refused",
                )
            )
        elif error == _NODE_EXISTS:
            answer.set_exception(NodeExistsError.at(self._endpoint))
        else:
            answer.set_exception(self._refused(f"refused a request with code {error}"))

    async def _ping(self, every_s: float) -> None:
        while self._writer is not None:
            self._writer.write(struct.pack(">iii", 8, _PING_XID, _PING))
            await asyncio.sleep(every_s)

    def _fail_all(self) -> None:
        while self._pending:
            _, answer = self._pending.popleft()
            if not answer.done():
                answer.set_exception(self._lost("wait for an answer"))
                answer.exception()  # retrieved: no task may be waiting any more

    @property
    def _endpoint(self) -> str:
        return f"zookeeper {self._host}:{self._port}"

    def _lost(self, operation: str) -> UnreachableError:
        return UnreachableError(
            f"The connection to ZooKeeper at {self._host}:{self._port} is lost.",
            endpoint=self._endpoint,
            operation=operation,
            outcome="unknown",
            hint="Start the sandbox again.",
        )

    def _refused(self, what: str) -> ProtocolError:
        return ProtocolError(
            f"ZooKeeper at {self._host}:{self._port} {what}.",
            endpoint=self._endpoint,
            operation="request",
            outcome="refused",
        )


class NodeExistsError(ProtocolError):
    """The node to create is there already."""

    code = "node_exists"

    @classmethod
    def at(cls, endpoint: str) -> NodeExistsError:
        """Build the error."""
        return cls(
            "The node already exists.", endpoint=endpoint, operation="create", outcome="refused"
        )


async def wait_for_all(answers: list[asyncio.Future[bytes]]) -> None:
    """Wait for many creations; nodes that existed already are all right.

    Raises:
        RemoteError: The first other failure.
    """
    results = await asyncio.gather(*answers, return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException) and not isinstance(result, NodeExistsError):
            raise result
