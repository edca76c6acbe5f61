"""Three real ZooKeeper servers as one: any of them may be lost."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Self

from kazoo.client import KazooClient

from connectors.sandbox.java import JavaRuntime
from connectors.sandbox.zookeeper import ZooKeeperProcess, free_port

SERVERS = 3


class Member(ZooKeeperProcess):
    """One server of an ensemble."""

    def __init__(self, folder: Path, number: int, ports: Sequence[tuple[int, int]]) -> None:
        super().__init__(folder / str(number), heap_mb=128)
        self.port = free_port()
        self.number = number
        self._ports = ports

    def _config_text(self) -> str:
        (self.data_dir / "myid").write_text(f"{self.number}\n")
        servers = [
            f"server.{number}=127.0.0.1:{peer}:{election}"
            for number, (peer, election) in enumerate(self._ports, start=1)
        ]
        more = ["initLimit=10", "syncLimit=3", *servers, ""]
        return super()._config_text() + "\n".join(more)

    @property
    def is_leader(self) -> bool:
        client = KazooClient(self.address)
        client.start(20)
        try:
            return "Mode: leader" in client.command(b"srvr")
        finally:
            client.stop()
            client.close()


class Ensemble:
    """What a sandbox takes for its ZooKeeper; its brokers use the first server.

    Takes the arguments of :class:`ZooKeeperProcess`.
    """

    def __init__(self, data_dir: Path, port: int = 0, java: JavaRuntime | None = None) -> None:
        ports = [(free_port(), free_port()) for _ in range(SERVERS)]
        self.members = [Member(data_dir, number + 1, ports) for number in range(SERVERS)]

    @property
    def address(self) -> str:
        """Of the first server."""
        return self.members[0].address

    @property
    def addresses(self) -> str:
        """Of all servers, as a client takes them."""
        return ",".join(one.address for one in self.members)

    def start(self) -> None:
        """Start all at once: none serves before two are there."""
        with ThreadPoolExecutor(SERVERS) as pool:
            list(pool.map(lambda one: one.start(90.0), self.members))

    def stop(self) -> None:
        for one in self.members:
            one.stop()

    def kill(self) -> None:
        for one in self.members:
            one.kill()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
