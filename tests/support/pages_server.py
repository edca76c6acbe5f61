"""The server of the pages as the command starts it, in a process of its own."""

from __future__ import annotations

import http.client
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic

ROOT = Path(__file__).parents[2]
START_S = 300.0


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def pages_served(
    folder: Path,
    *hosts: str,
    config: Path | None = None,
    port: int = 0,
    start_in: Path = ROOT,
) -> Iterator[int]:
    """Give the port of a server that answers.

    Args:
        folder: Where its log goes.
        hosts: Of a proxy.
        config: The configuration file; without it none is named.
        port: Of the server; 0: a free one.
        start_in: Working directory.
    """
    port, log = port or free_port(), folder / "log"
    environment = {name: text for name, text in os.environ.items() if "TRIMTAB" not in name}
    environment["PYTHONPATH"] = str(ROOT)
    if config is not None:
        environment["TRIMTAB_CONFIG"] = str(config)
    command = [sys.executable, "-m", "dashboard.serve", "127.0.0.1", str(port), *hosts]
    with log.open("wb") as sink:
        process = subprocess.Popen(
            command, cwd=start_in, env=environment, stdout=sink, stderr=subprocess.STDOUT
        )
    try:
        end, tick = monotonic() + START_S, threading.Event()
        while not _is_up(port):
            if process.poll() is not None or monotonic() > end:
                raise AssertionError(log.read_text())
            tick.wait(0.2)
        yield port
    finally:
        process.terminate()
        process.wait(20)


def _is_up(port: int) -> bool:
    try:
        return ask(port, "/_stcore/health", host=f"127.0.0.1:{port}").status == 200
    except OSError:
        return False


def ask(port: int, path: str, **headers: str | None) -> http.client.HTTPResponse:
    """Send a GET with exactly these headers; ``host=None``: none at all."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    connection.putrequest("GET", path, skip_host=True, skip_accept_encoding=True)
    for name, text in headers.items():
        if text is not None:
            connection.putheader(name.replace("_", "-"), text)
    connection.endheaders()
    answer = connection.getresponse()
    answer.body = answer.read()
    connection.close()
    return answer
