"""A relay before a server on loopback: it passes on, swallows, resets or refuses."""

from __future__ import annotations

import select
import socket
import struct
import threading
from contextlib import suppress
from typing import Literal, Self

Mode = Literal["pass", "black_hole", "reset", "refuse"]


class Relay:
    """Listens on a free port and connects each client to the server.

    ``black_hole``: nothing comes through either way and no connection ends, as when packets are
    dropped; what was sent meanwhile is lost with its connection. ``reset``: every connection is
    cut at once, open ones too. ``refuse``: connections are refused.
    """

    def __init__(self, target: str) -> None:
        host, _, port = target.rpartition(":")
        self._target = (host, int(port))
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        self._mode: Mode = "pass"
        self._listener = self._listen(0)
        self.port = int(self._listener.getsockname()[1])
        self.address = f"127.0.0.1:{self.port}"

    def set_mode(self, mode: Mode) -> None:
        before, self._mode = self._mode, mode
        if mode == "refuse":
            self._close_listener()
        elif before == "refuse":
            self._listener = self._listen(self.port)
        if mode in ("reset", "refuse") or before == "black_hole":
            self._cut()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._mode = "refuse"
        self._close_listener()
        self._cut()

    def _listen(self, port: int) -> socket.socket:
        listener = socket.create_server(("127.0.0.1", port), reuse_port=False)
        threading.Thread(target=self._accept, args=(listener,), daemon=True).start()
        return listener

    def _close_listener(self) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self, listener: socket.socket) -> None:
        with suppress(OSError):
            while True:
                client, _ = listener.accept()
                if self._mode == "reset":
                    _reset(client)
                    continue
                try:
                    server = socket.create_connection(self._target, timeout=5)
                except OSError:
                    _reset(client)
                    continue
                server.settimeout(None)
                with self._lock:
                    self._open |= {client, server}
                threading.Thread(target=self._pass_on, args=(client, server), daemon=True).start()

    def _pass_on(self, client: socket.socket, server: socket.socket) -> None:
        other = {client: server, server: client}
        with client, server, suppress(OSError, ValueError):  # cut meanwhile
            while True:
                for source in select.select([client, server], [], [], 0.5)[0]:
                    chunk = source.recv(65_536)
                    if not chunk:
                        return
                    if self._mode == "pass":
                        other[source].sendall(chunk)

    def _cut(self) -> None:
        with self._lock:
            cut, self._open = self._open, set()
        for one in cut:
            if one.fileno() >= 0:
                _reset(one)


def _reset(one: socket.socket) -> None:
    with suppress(OSError):
        one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    with suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)
    one.close()
