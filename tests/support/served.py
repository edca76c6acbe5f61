"""The HTTP interface on a loopback port, in a thread of this process."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import uvicorn
from starlette.applications import Starlette


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
