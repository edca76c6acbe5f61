"""One ZooKeeper session for what must be true right now: reads past every cache, and a lease.

A read makes the server catch up with its leader first (``sync``), so that an owner that was
seen is the owner that is. Only what :mod:`connectors.worker.lease` needs can be written.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic
from typing import Any, Final, TypeVar

from kazoo import exceptions as kazoo_errors
from kazoo.client import KazooClient, KazooState
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.retry import KazooRetry
from kazoo.security import make_acl

from connectors.config.model import ClusterConfig
from connectors.zookeeper.errors import translate
from core.errors import ConfigError, UnreachableError

T = TypeVar("T")
_TRIES: Final = 2
_PASSING: Final = (
    kazoo_errors.ConnectionLoss,
    kazoo_errors.ConnectionClosedError,
    kazoo_errors.SessionExpiredError,
    kazoo_errors.CancelledError,
)
_log = logging.getLogger("trimtab.kazoo")


@dataclass(frozen=True, slots=True)
class Node:
    """One znode as it is now.

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
                f"Cluster {config.name} names no zookeeper.", hint="Add zookeeper = host:port."
            )
        self.endpoint = f"zookeeper {config.zookeeper}"
        self._config = config
        # longer than its session lasts, nothing that it said before holds
        self._wait_s = min(config.timeouts.zookeeper_s, config.timeouts.session_s)
        self._connected = threading.Event()
        self._client: KazooClient | None = None

    # -- life ---------------------------------------------------------------------------------

    @property
    def session_id(self) -> int | None:
        """Number of the session; ``None``: there is none."""
        identity = self._client.client_id if self._client is not None else None
        return int(identity[0]) if identity and self._connected.is_set() else None

    def close(self) -> None:
        """End the session: its ephemerals go at once. Twice is harmless."""
        client, self._client = self._client, None
        self._connected.clear()
        if client is not None:
            client.remove_listener(self._state_changed)
            client.stop()
            client.close()

    def _open(self) -> KazooClient:
        """Return the connected client.

        Raises:
            RemoteError: ZooKeeper cannot be reached, or refuses the session.
        """
        if self._client is None:
            self._client = self._new_client()
            self._client.start_async()
        client = self._client
        if self._connected.wait(self._wait_s):
            return client
        was_refused = client.client_state == "AUTH_FAILED"
        self.close()
        if was_refused:
            cause = kazoo_errors.AuthFailedError()
            raise translate(cause, endpoint=self.endpoint, operation="connect")
        raise UnreachableError(
            f"{self.endpoint} cannot be reached within {self._wait_s:.0f} s.",
            endpoint=self.endpoint,
            operation="connect",
            outcome="not_sent",
            hint="Check that ZooKeeper runs and that this machine may reach it.",
        )

    def _new_client(self) -> KazooClient:
        auth = self._config.zookeeper_auth
        # our nodes: whoever has the same credential may take them away, everybody may read
        acl = [make_acl("auth", "", all=True), make_acl("world", "anyone", read=True)]
        try:
            client = KazooClient(
                hosts=self._config.zookeeper,
                timeout=self._config.timeouts.session_s,
                auth_data=[("digest", auth.credential())] if auth else None,
                default_acl=acl if auth else None,
                connection_retry=KazooRetry(max_tries=-1, delay=0.05, backoff=2, max_delay=1.0),
                logger=_log,
            )
        except ValueError as exc:
            raise ConfigError(
                f"zookeeper of cluster {self._config.name} cannot be used: {exc}.",
                hint="It reads host:port,host:port/chroot.",
            ) from exc
        client.add_listener(self._state_changed)
        return client

    def _state_changed(self, state: KazooState) -> None:
        if state == KazooState.CONNECTED:
            self._connected.set()
        else:
            self._connected.clear()

    # -- reading ------------------------------------------------------------------------------

    def read(self, *paths: str) -> list[Node | None]:
        """Return these znodes as they are now, ``None`` for one that is not there.

        Raises:
            RemoteError: They cannot be read; a connection that broke is tried once more.
        """
        return self._tried("read", lambda client: self._read(client, paths))

    def children(self, path: str) -> list[str]:
        """Return the names below a znode, none when it is not there.

        Raises:
            RemoteError: They cannot be read.
        """

        def call(client: KazooClient) -> list[str]:
            synced, listed = client.sync_async("/"), client.get_children_async(path)
            synced.get(timeout=self._wait_s)
            try:
                return sorted(listed.get(timeout=self._wait_s))
            except kazoo_errors.NoNodeError:
                return []

        return self._tried("list", call)

    def _read(self, client: KazooClient, paths: tuple[str, ...]) -> list[Node | None]:
        ends_at = monotonic() + self._wait_s
        synced = client.sync_async("/")
        pending = [client.get_async(path) for path in paths]  # in order, so after the sync
        synced.get(timeout=self._wait_s)
        return [_node(each, max(ends_at - monotonic(), 0.01)) for each in pending]

    def _tried(self, operation: str, call: Callable[[KazooClient], T]) -> T:
        for left in reversed(range(_TRIES)):
            try:
                return call(self._open())
            except (kazoo_errors.KazooException, KazooTimeoutError) as exc:
                if not left or not isinstance(exc, _PASSING):
                    raise translate(exc, endpoint=self.endpoint, operation=operation) from exc
        raise AssertionError  # pragma: no cover - the last try returns or raises

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
        except (kazoo_errors.KazooException, KazooTimeoutError) as exc:
            raise translate(exc, endpoint=self.endpoint, operation=operation) from exc
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
        except (kazoo_errors.KazooException, KazooTimeoutError) as exc:
            raise translate(exc, endpoint=self.endpoint, operation=f"delete {path}") from exc


def _node(result: Any, timeout_s: float) -> Node | None:
    try:
        value, stat = result.get(timeout=timeout_s)
    except kazoo_errors.NoNodeError:
        return None
    return Node(value or b"", stat.czxid, stat.ephemeralOwner, stat.version)
