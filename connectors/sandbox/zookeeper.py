"""A real ZooKeeper server as a child process, from the jars that PySpark brings along."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import secrets
import signal
import socket
import subprocess
import threading
from pathlib import Path
from time import monotonic
from typing import Final, Self

from connectors.sandbox.java import JavaRuntime, find_java
from core.errors import ConfigError, RemoteTimeoutError, UnreachableError

LOOPBACK: Final = "127.0.0.1"
_START_TIMEOUT_S: Final = 60.0
_STOP_TIMEOUT_S: Final = 1.5
_POLL_S: Final = 0.03
_LOWEST_PORT: Final = 10_240
_OUTGOING_PORTS: Final = 32_768  # the first of them by default on Linux
_SERVER_CLASS: Final = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
_JARS: Final = (
    "zookeeper-*.jar",
    "netty-*.jar",
    "slf4j-api-*.jar",
    "metrics-core-*.jar",
    "snappy-java-*.jar",
    "commons-io-*.jar",
    "commons-cli-*.jar",
)
# The shell holds the server's life: the write end of its standard input is ours alone, so it reads
# end-of-file when this process ends however, kill -9 included, and kills the server then.
_KEEPER: Final = """
exec 3<&0
"$@" 3<&- </dev/null >&2 &
child=$!
echo "$child"
exec 1>&-
{ read -r _ <&3; kill -9 "$child"; } 2>/dev/null &
watch=$!
wait "$child"
code=$?
kill "$watch" 2>/dev/null
exit "$code"
"""


def free_port(host: str = LOOPBACK) -> int:
    """Return a port of ``host`` that nothing listens on right now.

    It is below the ports that systems give to outgoing connections (from 32768 on Linux): one of
    those would take it while a server that is to listen there again is down.

    Raises:
        UnreachableError: None of a hundred ports picked at random is free.
    """
    for _ in range(100):
        port = _LOWEST_PORT + secrets.randbelow(_OUTGOING_PORTS - _LOWEST_PORT)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind((host, port))
            return port
    raise UnreachableError(
        f"No free port was found on {host} from {_LOWEST_PORT} to {_OUTGOING_PORTS}.",
        endpoint=host,
        operation="listen",
        outcome="refused",
        hint="Stop a process that listens there, or specify a port.",
    )


class ZooKeeperProcess:
    """One standalone ZooKeeper server on loopback.

    It forces nothing to disk (the data need not survive the machine) and dies with this process.

    Args:
        data_dir: Where it keeps its snapshot, log and configuration; made when absent.
        port: Client port; 0 picks a free one at the first start.
        java: Runtime to use; the machine's by default (:func:`find_java`).
        heap_mb: Largest Java heap in MiB. 100,000 bundles need about 300.
    """

    def __init__(
        self, data_dir: Path, port: int = 0, java: JavaRuntime | None = None, *, heap_mb: int = 512
    ) -> None:
        self.data_dir = data_dir
        self.port = port
        self._java = java
        self._heap_mb = heap_mb
        self._keeper: subprocess.Popen[bytes] | None = None
        self._pid: int | None = None

    @property
    def address(self) -> str:
        """``127.0.0.1:port``."""
        return f"{LOOPBACK}:{self.port}"

    @property
    def pid(self) -> int | None:
        """Process id of the server itself, ``None`` when it is not running."""
        return self._pid if self.is_running else None

    @property
    def is_running(self) -> bool:
        """Whether the process is alive."""
        return self._keeper is not None and self._keeper.poll() is None

    def start(self, timeout_s: float = _START_TIMEOUT_S) -> None:
        """Start the server and wait until it serves.

        Raises:
            ConfigError: No Java, no jars, or the port is taken.
            UnreachableError: The process ended before it served.
            RemoteTimeoutError: It did not serve in time; it is ended again.
        """
        if self.is_running:
            return
        java = self._java or find_java()
        self.data_dir.mkdir(parents=True, exist_ok=True)
        self.port = self.port or free_port()
        _require_free(self.port)
        config = self.data_dir / "zookeeper.cfg"
        config.write_text(self._config_text(), "utf-8")
        self._keeper, self._pid = _launch(
            [*self._java_command(java), _SERVER_CLASS, str(config)], self.data_dir / "server.log"
        )
        self._wait_until_it_serves(timeout_s)

    def stop(self) -> None:
        """End the server; within two seconds, by force when it must be. Twice is harmless."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """End the server at once, as a crash would."""
        self._end(signal.SIGKILL)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _java_command(self, java: JavaRuntime) -> list[str]:
        return [
            str(java.path),
            "-Xms32m",
            f"-Xmx{self._heap_mb}m",
            "-XX:+UseSerialGC",
            "-XX:TieredStopAtLevel=1",
            "-Djava.awt.headless=true",
            "-Djute.maxbuffer=67108864",  # 50,000 names in one listing
            "-Dzookeeper.preAllocSize=1024",  # KiB; the default writes 64 MiB at the first change
            "-Dzookeeper.skipACL=yes",
            "-cp",
            os.pathsep.join(map(str, _class_path())),
        ]

    def _config_text(self) -> str:
        return "\n".join(
            (
                "tickTime=1000",
                f"dataDir={self.data_dir.resolve()}",
                f"clientPort={self.port}",
                f"clientPortAddress={LOOPBACK}",
                "maxClientCnxns=0",
                "minSessionTimeout=1000",
                "maxSessionTimeout=60000",
                "admin.enableServer=false",
                "4lw.commands.whitelist=ruok,srvr,mntr,cons",
                "forceSync=no",
                "autopurge.purgeInterval=1",
                "",
            )
        )

    def _wait_until_it_serves(self, timeout_s: float) -> None:
        deadline = monotonic() + timeout_s
        pause = threading.Event()
        while not _answers(self.port):
            if not self.is_running:
                code = self._keeper.returncode if self._keeper else None
                self._forget()
                raise UnreachableError(
                    f"ZooKeeper exited with code {code} before it was ready on {self.address}.",
                    endpoint=f"zookeeper {self.address}",
                    operation="start",
                    outcome="refused",
                    hint=f"See {self.data_dir / 'server.log'}.",
                )
            if monotonic() > deadline:
                self.kill()
                raise RemoteTimeoutError(
                    f"ZooKeeper was not ready on {self.address} within {timeout_s:.0f} s.",
                    endpoint=f"zookeeper {self.address}",
                    operation="start",
                    outcome="unknown",
                    hint="Try again on a less busy machine.",
                )
            pause.wait(_POLL_S)

    def _end(self, how: signal.Signals) -> None:
        keeper = self._keeper
        if keeper is None:
            return
        if keeper.poll() is None and self._pid is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._pid, how)
            try:
                keeper.wait(_STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(self._pid, signal.SIGKILL)
                keeper.wait(_START_TIMEOUT_S)
        self._forget()

    def _forget(self) -> None:
        if self._keeper is not None:
            for stream in (self._keeper.stdin, self._keeper.stdout):
                if stream is not None:
                    stream.close()
            self._keeper.wait()
        self._keeper, self._pid = None, None


def _class_path() -> list[Path]:
    spec = importlib.util.find_spec("pyspark")
    folder = Path(spec.origin).parent / "jars" if spec and spec.origin else Path("pyspark/jars")
    jars = [jar for pattern in _JARS for jar in sorted(folder.glob(pattern))]
    if not any(jar.name.startswith("zookeeper-") for jar in jars):
        raise ConfigError(
            f"The PySpark jars in {folder} do not include ZooKeeper.",
            hint="Reinstall the pinned pyspark; the sandbox uses its jars.",
        )
    return jars


def _require_free(port: int) -> None:
    with socket.socket() as probe:
        # the server itself sets SO_REUSEADDR: a port in TIME_WAIT is free to it
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError as exc:
            raise ConfigError(
                f"Port {port} of {LOOPBACK} is taken; ZooKeeper cannot listen there.",
                hint="Use another port, or 0 for a free port.",
            ) from exc


def _launch(command: list[str], log: Path) -> tuple[subprocess.Popen[bytes], int]:
    with log.open("wb") as sink:
        keeper = subprocess.Popen(  # noqa: S603 - our own script and the runtime that was found
            ["/bin/sh", "-c", _KEEPER, "zookeeper-keeper", *command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=sink,
            start_new_session=True,  # a terminal's Ctrl-C must not race our own orderly stop
        )
    pid = keeper.stdout.readline() if keeper.stdout else b""
    return keeper, int(pid)


def _answers(port: int) -> bool:
    """Return whether the server serves clients: only then ``srvr`` has its mode."""
    try:
        with socket.create_connection((LOOPBACK, port), timeout=1.0) as connection:
            connection.sendall(b"srvr")
            connection.shutdown(socket.SHUT_WR)
            answer = b"".join(iter(lambda: connection.recv(4096), b""))
    except OSError:
        return False
    return b"Mode: " in answer
