"""The HTTP interface on a loopback port, in a thread of this process."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
import uvicorn
from starlette.applications import Starlette

from dashboard.api import resource


@contextlib.contextmanager
def served(routes: Sequence[Any], middleware: Sequence[Any] = ()) -> Iterator[str]:
    """Serve routes until the block ends; yield the address."""
    app = Starlette(routes=list(routes), middleware=list(middleware))
    with socket.create_server(("127.0.0.1", 0)) as own:
        port = own.getsockname()[1]
        server = uvicorn.Server(uvicorn.Config(app, log_level="warning", lifespan="off"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [own]})
        thread.start()
        try:
            yield f"http://127.0.0.1:{port}"
        finally:
            server.should_exit = True
            thread.join()


def counted_answers(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Make answers slow; return a list that gets the number of those at once with each answer."""
    active: list[int] = []
    most: list[int] = []
    lock, answered = threading.Lock(), resource._answered

    def slow(*args: Any) -> Any:
        with lock:
            active.append(1)
            most.append(len(active))
        threading.Event().wait(0.05)
        with lock:
            active.pop()
        return answered(*args)

    monkeypatch.setattr(resource, "_answered", slow)
    return most
