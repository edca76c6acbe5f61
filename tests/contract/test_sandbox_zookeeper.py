from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from time import monotonic

import psutil
import pytest
from kazoo.client import KazooClient
from pulsar_under_test import eventually

from connectors.sandbox.zookeeper import LOOPBACK, ZooKeeperProcess, free_port
from core.errors import ConfigError

pytestmark = pytest.mark.zookeeper


def _gone(pid: int) -> bool:
    return not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


def test_server_serves_clients_and_stops_quickly(tmp_path: Path) -> None:
    server = ZooKeeperProcess(tmp_path / "zk")
    with server:
        client = KazooClient(server.address)
        client.start(timeout=10)
        client.create("/a", b"1")
        assert client.get("/a")[0] == b"1"
        client.stop()
        client.close()
        pid = server.pid
        assert pid is not None
        begun = monotonic()
    assert monotonic() - begun < 2.0
    assert _gone(pid)
    assert server.pid is None
    server.stop()


def test_data_survive_a_crash_of_the_server(tmp_path: Path) -> None:
    server = ZooKeeperProcess(tmp_path / "zk", port=free_port())
    with server:
        client = KazooClient(server.address)
        client.start(timeout=10)
        client.create("/kept", b"x")
        server.kill()
        assert not server.is_running
        server.start()
        eventually(lambda: client.connected)
        assert client.exists("/kept")
        client.stop()
        client.close()


def test_taken_port_is_named(tmp_path: Path) -> None:
    with socket.socket() as squatter:
        squatter.bind((LOOPBACK, 0))
        squatter.listen()
        port = squatter.getsockname()[1]
        with pytest.raises(ConfigError, match=str(port)):
            ZooKeeperProcess(tmp_path / "zk", port=port).start()


def test_server_dies_with_a_parent_that_is_killed(tmp_path: Path) -> None:
    script = (
        "import sys, pathlib\n"
        "from connectors.sandbox.zookeeper import ZooKeeperProcess\n"
        "z = ZooKeeperProcess(pathlib.Path(sys.argv[1]))\n"
        "z.start()\n"
        "print(z.pid, flush=True)\n"
        "sys.stdin.read()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path / "zk")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        assert psutil.pid_exists(pid)
        os.kill(parent.pid, signal.SIGKILL)
    eventually(lambda: _gone(pid))
