"""Spark outside the test process: a standalone master with workers, or a Spark Connect server.

Everything comes out of PySpark's own jars, listens on loopback only, and is ended by its process.
"""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeVar

import pyspark

from connectors.sandbox.java import find_java
from core.spark import session as spark_session

HOST: Final = "127.0.0.1"
_DEADLINE_S: Final = 300.0
_SPARK: Final = Path(pyspark.__file__).parent
_SCALA: Final = next(_SPARK.glob("jars/spark-core_*.jar")).name.split("_")[1].partition("-")[0]
_OPENED: Final = (
    *("java.base/java.lang", "java.base/java.lang.invoke", "java.base/java.lang.reflect"),
    *("java.base/java.io", "java.base/java.net", "java.base/java.nio", "java.base/java.util"),
    *("java.base/java.util.concurrent", "java.base/java.util.concurrent.atomic"),
    *("java.base/jdk.internal.ref", "java.base/sun.nio.ch", "java.base/sun.nio.cs"),
    *("java.base/sun.security.action", "java.base/sun.util.calendar"),
)
_MASTER: Final = "org.apache.spark.deploy.master.Master"
_WORKER: Final = "org.apache.spark.deploy.worker.Worker"
_SUBMIT: Final = "org.apache.spark.deploy.SparkSubmit"
_CONNECT: Final = "org.apache.spark.sql.connect.service.SparkConnectServer"
_Found = TypeVar("_Found")


@dataclass
class JavaProcess:
    """One Java process of ours, the leader of its own group.

    Attributes:
        process: It.
        log: What it says.
    """

    process: subprocess.Popen[bytes]
    log: Path

    @classmethod
    def started(cls, log: Path, *words: str) -> JavaProcess:
        """Start a main class of Spark's with its arguments."""
        with spark_session._java_at(find_java().home):  # the way that sessions find theirs
            around = dict(os.environ)
        env = {
            **around,
            "SPARK_HOME": str(_SPARK),
            "SPARK_LOCAL_IP": HOST,
            # what a worker asks a whole distribution's folders for; PySpark's has none
            "SPARK_SCALA_VERSION": _SCALA,
            "PYSPARK_PYTHON": sys.executable,
            "PYSPARK_DRIVER_PYTHON": sys.executable,
        }
        opened = [f"--add-opens={one}=ALL-UNNAMED" for one in _OPENED]
        command = [f"{env['JAVA_HOME']}/bin/java", "-Xmx512m", *opened]
        command += ["-Dspark.master.rest.enabled=false", "-cp", f"{_SPARK}/jars/*", *words]
        with log.open("wb") as sink:
            process = subprocess.Popen(
                command, stdout=sink, stderr=subprocess.STDOUT, env=env, start_new_session=True
            )
        return cls(process, log)

    def wait_for(self, pattern: str, count: int = 1) -> re.Match[str]:
        """Return the ``count``-th line of its log that matches, once it is there."""

        def found() -> re.Match[str] | None:
            text = self.log.read_text("utf-8", "replace")
            assert self.process.poll() is None, f"it has ended: {text[-2000:]}"
            matches = list(re.finditer(pattern, text))
            return matches[count - 1] if len(matches) >= count else None

        return wait_until(found, f"{pattern} in {self.log}")

    def kill(self) -> None:
        """End it, and whatever it started, at once and without a word (kill -9)."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(timeout=_DEADLINE_S)

    def end(self) -> None:
        """End it in good order; what does not end is killed."""
        if self.process.poll() is not None:
            return
        self.process.terminate()
        try:
            self.process.wait(timeout=20.0)
        except subprocess.TimeoutExpired:
            self.kill()


def wait_until(
    found: Callable[[], _Found | None], what: str, most_s: float = _DEADLINE_S
) -> _Found:
    """Return what is found, asking again and again for ``most_s`` seconds at most."""
    deadline = time.monotonic() + most_s
    while time.monotonic() < deadline:
        answer = found()
        if answer is not None:
            return answer
        threading.Event().wait(0.1)  # another process's doing: it has no event of ours
    raise AssertionError(f"not seen within {most_s:.0f} s: {what}")


@dataclass
class Standalone:
    """A standalone master and its workers.

    Attributes:
        url: ``spark://host:port``.
        master: Its process.
        workers: Theirs.
    """

    url: str
    master: JavaProcess
    workers: list[JavaProcess] = field(default_factory=list)


@contextmanager
def standalone(folder: Path, *, workers: int = 2, cores: int = 1) -> Iterator[Standalone]:
    """Run a master with workers of so many cores for as long as the block takes."""
    port = free_port()
    words = [_MASTER, "--host", HOST, "--port", str(port), "--webui-port", str(free_port())]
    master = JavaProcess.started(folder / "master.log", *words)
    cluster = Standalone(f"spark://{HOST}:{port}", master)
    try:
        master.wait_for(r"I have been elected leader")
        for number in range(workers):
            log, place = folder / f"worker{number}.log", folder / f"worker{number}"
            words = ["--cores", str(cores), "--memory", "1g", "--host", HOST]
            words += ["--webui-port", str(free_port()), "--work-dir", str(place), cluster.url]
            cluster.workers.append(JavaProcess.started(log, _WORKER, *words))
        master.wait_for(r"Registering worker", workers)
        yield cluster
    finally:
        for process in (*cluster.workers, master):
            process.end()


@contextmanager
def connect_server(folder: Path, *, master: str = "local[2]") -> Iterator[str]:
    """Run a Spark Connect server for as long as the block takes; gives ``sc://host:port``."""
    port = free_port()
    conf = {
        "spark.connect.grpc.binding.address": HOST,
        "spark.connect.grpc.binding.port": str(port),
        "spark.ui.enabled": "false",
        "spark.driver.host": HOST,
        "spark.driver.bindAddress": HOST,
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
    }
    options = [word for key, value in conf.items() for word in ("--conf", f"{key}={value}")]
    words = [_SUBMIT, "--master", master, *options, "--class", _CONNECT, "spark-internal"]
    server = JavaProcess.started(folder / "connect.log", *words)
    try:
        wait_until(lambda: _is_open(server, port), f"port {port} of {server.log}")
        yield f"sc://{HOST}:{port}"
    finally:
        server.end()


def _is_open(server: JavaProcess, port: int) -> bool | None:
    assert server.process.poll() is None, server.log.read_text("utf-8", "replace")[-2000:]
    with socket.socket() as probe:
        probe.settimeout(1.0)
        return True if probe.connect_ex((HOST, port)) == 0 else None


def free_port() -> int:
    """Return a port that nobody listens on right now."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port: int = probe.getsockname()[1]
        return port
