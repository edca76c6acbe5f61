"""A server on loopback that answers Pegasus' calls by a script, one frame at a time."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from connectors.pegasus.rpc.frame import HEADER_BYTES, Request, decode_request

Answer = Callable[[Request, bytes], bytes | None]


class ScriptedServer:
    """Answers each request with what the script gives; ``None`` closes the connection.

    Attributes:
        heard: Every frame that came in, in order.
    """

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._open: list[socket.socket] = []
        self.heard: list[bytes] = []
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    @property
    def names(self) -> list[str]:
        """The names of the calls heard."""
        return [decode_request(frame).name for frame in self.heard]

    def close(self) -> None:
        """Stop listening and drop every connection."""
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for one in self._open:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()
        self._thread.join(5)

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                self._open.append(connection)
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with suppress(OSError), connection:
            while (frame := _frame(connection)) is not None:
                self.heard.append(frame)
                answer = self._answer(decode_request(frame), frame)
                if answer is None:
                    return
                connection.sendall(answer)


def _frame(connection: socket.socket) -> bytes | None:
    header = _exactly(connection, HEADER_BYTES)
    if header is None:
        return None
    (length,) = struct.unpack_from(">I", header, 16)
    body = _exactly(connection, length)
    return None if body is None else header + body


def _exactly(connection: socket.socket, count: int) -> bytes | None:
    content = b""
    while len(content) < count:
        chunk = connection.recv(count - len(content))
        if not chunk:
            return None
        content += chunk
    return content


@contextmanager
def serving(*answers: Answer) -> Iterator[list[ScriptedServer]]:
    """Run one server for each script."""
    servers = [ScriptedServer(answer) for answer in answers]
    try:
        yield servers
    finally:
        for server in servers:
            server.close()
