"""One ZooKeeper session for what must be true right now: reads past every cache, and a lease.

A read makes the server catch up with its leader first (``sync``), so that an owner that was
seen is the owner that is. Only what :mod:`connectors.worker.lease` needs can be written.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic
from typing import Any, Final, TypeVar

from kazoo import exceptions as kazoo_errors
from kazoo.security import make_acl

from connectors.config.model import ClusterConfig
from connectors.zookeeper.client import connect, new_client
from connectors.zookeeper.connection import BoundedClient
from connectors.zookeeper.errors import ENDED, translate
from core.errors import ConfigError, GivenUpError, RemoteError

T = TypeVar("T")
_TRIES: Final = 2
_PASSING: Final = (
    kazoo_errors.ConnectionLoss,
    kazoo_errors.ConnectionClosedError,
    kazoo_errors.SessionExpiredError,
    kazoo_errors.CancelledError,
)


@dataclass(frozen=True, slots=True)
class Node:
    """One current znode.

    Attributes:
        value: Its content.
        created_id: Transaction that created it: another one than before means deleted and created.
        session_id: Session that an ephemeral lives with; 0: it is no ephemeral.
        version: How often its value was changed.
    """

    value: bytes
    created_id: int
    session_id: int
    version: int


class ZooKeeperSession:
    """A session that is opened when it is first needed; usable from one thread at a time.

    Args:
        config: Its ``zookeeper``, ``zookeeper_auth``, ``timeouts``.
    Raises:
        ConfigError: There is no ``zookeeper``, or it or its credential cannot be used.
    """

    def __init__(self, config: ClusterConfig) -> None:
        if config.zookeeper is None:
            raise ConfigError(
                f"Cluster {config.name} has no zookeeper.", hint='Set zookeeper = "host:port".'
            )
        self.endpoint = f"zookeeper {config.zookeeper}"
        self._config = config
        # longer than its session lasts, nothing that it said before holds
        self._wait_s = min(config.timeouts.zookeeper_s, config.timeouts.session_s)
        self._client: BoundedClient | None = None

    # -- life ---------------------------------------------------------------------------------

    @property
    def session_id(self) -> int | None:
        """Number of the session; ``None`` if there is none."""
        identity = self._client.client_id if self._client is not None else None
        return int(identity[0]) if identity else None

    def close(self) -> None:
        """End the session: its ephemerals go at once. Within a second; twice is harmless."""
        client, self._client = self._client, None
        if client is not None:
            client.end()

    def _open(self, ends_at: float = math.inf) -> BoundedClient:
        """Return the connected client.

        Args:
            ends_at: When the time for it is up, on the monotonic clock, s.

        Raises:
            RemoteError: ZooKeeper cannot be reached, or refuses the session.
        """
        if self._client is None:
            auth = self._config.zookeeper_auth
            # our nodes: whoever has the same credential may take them away, everybody may read
            acl = [make_acl("auth", "", all=True), make_acl("world", "anyone", read=True)]
            self._client = new_client(self._config, default_acl=acl if auth else None)
        try:
            connect(self._client, min(self._wait_s, ends_at - monotonic()), self.endpoint)
        except GivenUpError:  # what lives with a session that is well stays
            raise
        except RemoteError:
            self.close()
            raise
        return self._client

    # -- reading ------------------------------------------------------------------------------

    def read(self, *paths: str) -> list[Node | None]:
        """Return these znodes as they are now, ``None`` for one that is not there.

        Raises:
            RemoteError: They cannot be read; a connection that broke is tried once more.
        """
        return self._tried("read", lambda client, ends_at: self._read(client, ends_at, paths))

    def children(self, path: str) -> list[str]:
        """Return the names below a znode, none when it is not there.

        Raises:
            RemoteError: They cannot be read.
        """

        def call(client: BoundedClient, ends_at: float) -> list[str]:
            synced, listed = client.sync_async("/"), client.get_children_async(path)
            synced.get(timeout=ends_at - monotonic())
            try:
                return sorted(listed.get(timeout=ends_at - monotonic()))
            except kazoo_errors.NoNodeError:
                return []

        return self._tried("list", call)

    def _read(
        self, client: BoundedClient, ends_at: float, paths: tuple[str, ...]
    ) -> list[Node | None]:
        synced = client.sync_async("/")
        pending = [client.get_async(path) for path in paths]  # in order, so after the sync
        synced.get(timeout=ends_at - monotonic())
        return [_node(each, ends_at - monotonic()) for each in pending]

    def _tried(self, operation: str, call: Callable[[BoundedClient, float], T]) -> T:
        """Connect where needed and read; once more after a loss, within the same time."""
        ends_at = monotonic() + 2 * self._wait_s
        for left in reversed(range(_TRIES)):
            client = self._open(ends_at)
            try:
                return call(client, min(monotonic() + self._wait_s, ends_at))
            except ENDED as exc:
                if not left or not isinstance(exc, _PASSING):
                    raise self._translated(exc, operation, client) from exc
        raise AssertionError  # pragma: no cover - the last try returns or raises

    def _translated(self, exc: BaseException, operation: str, client: BoundedClient) -> RemoteError:
        return translate(exc, endpoint=self.endpoint, operation=operation, fault=client.fault)

    # -- writing ------------------------------------------------------------------------------

    def create_ephemeral(self, path: str, value: bytes) -> bool:
        """Create a znode that lives with this session, and the folders above it.

        Returns:
            Whether it was created; ``False``: it was there already.
        Raises:
            RemoteError: It may not be created, or the outcome is unknown.
        """
        client = self._open()
        operation = f"create {path}"
        try:
            made = client.create_async(path, value, ephemeral=True, makepath=True)
            made.get(timeout=self._wait_s)
        except kazoo_errors.NodeExistsError:
            return False
        except ENDED as exc:
            raise self._translated(exc, operation, client) from exc
        return True

    def delete(self, path: str, version: int) -> None:
        """Delete a znode of that version; one that is not there is all right.

        Raises:
            RemoteError: It is another version, or may not be deleted.
        """
        client = self._open()
        try:
            client.delete_async(path, version).get(timeout=self._wait_s)
        except kazoo_errors.NoNodeError:
            return
        except ENDED as exc:
            raise self._translated(exc, f"delete {path}", client) from exc


def _node(result: Any, timeout_s: float) -> Node | None:
    try:
        value, stat = result.get(timeout=timeout_s)
    except kazoo_errors.NoNodeError:
        return None
    return Node(value or b"", stat.czxid, stat.ephemeralOwner, stat.version)
