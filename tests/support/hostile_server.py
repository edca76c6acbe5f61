"""A server on loopback that behaves as badly as a script says."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Self

PEGASUS_HEADER = 48
HOSTS = "127.0.0.1", "127.0.0.2", "127.0.0.3"


class Line:
    """One connection, as a script sees it."""

    def __init__(self, connection: socket.socket, server: HostileServer) -> None:
        self._connection = connection
        self._server = server
        self.is_over = server.is_over
        self.send = connection.sendall

    def framed(self) -> bytes:
        """The next frame of a ZooKeeper client; ends the script when it hangs up."""
        (length,) = struct.unpack(">i", self._exactly(4))
        self._server.requests += 1
        return self._exactly(length)

    def called(self) -> bytes:
        """The next request of a Pegasus client, whole."""
        header = self._exactly(PEGASUS_HEADER)
        (length,) = struct.unpack_from(">I", header, 16)
        self._server.requests += 1
        return header + self._exactly(length)

    def head(self) -> bytes:
        """The head of the next HTTP request."""
        content = b""
        while b"\r\n\r\n" not in content:
            content += self._exactly(1)
        self._server.requests += 1
        return content

    def wait(self) -> None:
        """Do nothing until the client hangs up, or the test is over."""
        while self._connection.recv(65_536):
            pass

    def drip(self, content: bytes, every_s: float = 0.05) -> None:
        """Send byte by byte, then nothing."""
        for at in range(len(content)):
            self.send(content[at : at + 1])
            if self.is_over.wait(every_s):
                return
        self.wait()

    def forever(self, content: bytes) -> None:
        """Send the same again and again."""
        some = content * max(1, 65_536 // len(content))
        while not self.is_over.is_set():
            self.send(some)

    def _exactly(self, count: int) -> bytes:
        content = b""
        while len(content) < count:
            if not (chunk := self._connection.recv(min(count - len(content), 65_536))):
                raise ConnectionResetError
            content += chunk
        return content


class HostileServer:
    """Runs a script on every connection, and closes it when the script ends.

    Args:
        script: What it does on a connection.
        others: Further addresses, with the same port, for one that names other servers.

    Attributes:
        connections: How many there were.
        requests: How many came, over all of them.
    """

    def __init__(self, script: Callable[[Line], object], others: Sequence[str] = ()) -> None:
        self._script = script
        self._listeners = [socket.create_server((HOSTS[0], 0))]
        self.port = self._listeners[0].getsockname()[1]
        self._listeners += [socket.create_server((host, self.port)) for host in others]
        self.is_over = threading.Event()
        self._open: list[socket.socket] = []
        self.connections = self.requests = 0
        self.address = f"{HOSTS[0]}:{self.port}"
        self._threads = [
            threading.Thread(target=self._accept, args=(one,), daemon=True)
            for one in self._listeners
        ]
        for thread in self._threads:
            thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.is_over.set()
        for listener in self._listeners:
            with suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)
            listener.close()
        for one in list(self._open):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(5)

    def _accept(self, listener: socket.socket) -> None:
        with suppress(OSError):
            while True:
                connection, _ = listener.accept()
                self.connections += 1
                self._open.append(connection)
                thread = threading.Thread(target=self._serve, args=(connection,), daemon=True)
                thread.start()
                self._threads = [one for one in self._threads if one.is_alive()] + [thread]

    def _serve(self, connection: socket.socket) -> None:
        with suppress(OSError, struct.error), connection:
            self._script(Line(connection, self))
        if connection in self._open:
            self._open.remove(connection)
