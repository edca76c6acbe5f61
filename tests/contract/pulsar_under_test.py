"""A Pulsar cluster that the contract is held against: the sandbox or a real one."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from time import monotonic
from typing import Any

import msgspec
import requests
from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

_REQUEST_TIMEOUT_S = 30.0


@dataclass(frozen=True, slots=True)
class Node:
    value: Any
    version: int
    created_zxid: int
    is_ephemeral: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class PulsarUnderTest:
    """Where a cluster is, and a namespace of it that has traffic.

    ``namespace`` has at least 16 bundles and at least 8 of ``topics``, which clients use.
    """

    kind: str
    cluster: str
    admin_urls: tuple[str, ...]
    zookeeper: KazooClient
    namespace: str
    topics: tuple[str, ...]

    @property
    def brokers(self) -> tuple[str, ...]:
        return tuple(url.partition("//")[2] for url in self.admin_urls)

    def url_of(self, broker: str) -> str:
        return f"http://{broker}"

    def send(self, method: str, path: str, *, at: str | None = None, **more: Any) -> Any:
        """Send one request; redirects are not followed."""
        url = (at or self.admin_urls[0]) + path
        return requests.request(
            method, url, allow_redirects=False, timeout=_REQUEST_TIMEOUT_S, **more
        )

    def follow(self, method: str, path: str, *, at: str | None = None, **more: Any) -> list[Any]:
        """Send a request and repeat it wherever it is redirected to; all answers."""
        answers = [self.send(method, path, at=at, **more)]
        while answers[-1].status_code == 307 and len(answers) < 5:
            location = answers[-1].headers["location"]
            answers.append(
                requests.request(
                    method, location, allow_redirects=False, timeout=_REQUEST_TIMEOUT_S, **more
                )
            )
        return answers

    def node(self, path: str) -> Node | None:
        try:
            value, stat = self.zookeeper.get(path)
        except NoNodeError:
            return None
        decoded = msgspec.json.decode(value) if value else None
        return Node(decoded, stat.version, stat.czxid, stat.ephemeralOwner != 0)

    def children(self, path: str) -> list[str]:
        try:
            return sorted(self.zookeeper.get_children(path))
        except NoNodeError:
            return []

    def bundles(self) -> list[str]:
        """Names of the namespace's bundles that somebody owns, heaviest in topics first."""
        names = [
            f"{self.namespace}/{text}" for text in self.children(f"/namespace/{self.namespace}")
        ]
        assert names, "clients use this namespace: some bundle is owned"
        return names

    def owner(self, bundle: str) -> str | None:
        node = self.node(f"/namespace/{bundle}")
        return None if node is None else node.value["httpUrl"].partition("//")[2]

    def leader(self) -> str:
        node = self.node("/loadbalance/leader")
        assert node is not None
        return str(node.value["brokerId"])


def eventually(statement: Callable[[], Any], *, within_s: float = 20.0) -> Any:
    """Return the first true answer of ``statement``; fail when there is none in time."""
    deadline = monotonic() + within_s
    pause = threading.Event()
    while True:
        answer = statement()
        if answer:
            return answer
        assert monotonic() < deadline, "it did not become true in time"
        pause.wait(0.02)


@contextmanager
def zookeeper_client(address: str) -> Iterator[KazooClient]:
    client = KazooClient(address)
    client.start(timeout=15)
    try:
        yield client
    finally:
        client.stop()
        client.close()
