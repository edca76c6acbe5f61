"""The right to be the only writer of a cluster: an ephemeral in the cluster's own ZooKeeper.

Whoever holds ``/trimtab/writer`` acts. It lives with a session of its own, so it goes when the
worker dies, and whether it is still ours is always read from ZooKeeper, never remembered.
"""

from __future__ import annotations

import os
import socket
from datetime import UTC, datetime
from typing import Final

import msgspec

from connectors.config.model import ClusterConfig
from connectors.zookeeper.session import Node, ZooKeeperSession
from core.errors import AuthError, RemoteError

PATH: Final = "/trimtab/writer"
_LASTS_S: Final = 5.0
"""Servers may grant a shorter session than requested."""


class Writer(msgspec.Struct, frozen=True, kw_only=True):
    """Holder of the lease, from the znode."""

    worker: str = "unknown"
    host: str = ""
    pid: int = 0
    since: str = ""

    def sentence(self) -> str:
        """Return it for people."""
        where = f" on {self.host} (process {self.pid})" if self.host else ""
        return f"{self.worker}{where}" + (f" since {self.since}" if self.since else "")


class ZooKeeperLease:
    """The lease of one cluster that has a ZooKeeper.

    Args:
        worker: Name of who wants it.
    Raises:
        ConfigError: The cluster has no ``zookeeper``, or its credential cannot be read.
    """

    def __init__(self, config: ClusterConfig, worker: str) -> None:
        self._session = ZooKeeperSession(config)
        self._worker = worker
        self._lasts_s = min(config.timeouts.session_s / 2, _LASTS_S)

    @property
    def place(self) -> str:
        """Location of the lease."""
        return f"{self._session.endpoint}{PATH}"

    @property
    def lasts_s(self) -> float:
        """Time after :meth:`is_held` in which it is certainly ours, s: sessions may be cut."""
        return self._lasts_s

    def acquire(self) -> bool:
        """Try to take it; ``False`` when another worker holds it.

        Raises:
            RemoteError: It cannot be requested.
        """
        value = Writer(
            worker=self._worker,
            host=socket.gethostname(),
            pid=os.getpid(),
            since=datetime.now(UTC).isoformat(timespec="seconds"),
        )
        try:
            made = self._session.create_ephemeral(PATH, msgspec.json.encode(value))
        except AuthError as exc:
            raise AuthError(
                f"{exc.endpoint} does not allow Trimtab to create {PATH}.",
                endpoint=exc.endpoint,
                operation=exc.operation,
                outcome="refused",
                hint="Create /trimtab with create, delete, read and write rights for Trimtab's "
                "user, or set that user under zookeeper_auth.",
            ) from exc
        # an answer that was lost: the node is there, and is ours
        return made or self.is_held()

    def is_held(self) -> bool:
        """Return whether it is certainly ours, according to ZooKeeper now."""
        try:
            node = self._node()
        except RemoteError:
            return False
        return node is not None and node.session_id == self._session.session_id

    def holder(self) -> str | None:
        """Return the holder, for people, or ``None`` if free or ZooKeeper does not answer."""
        try:
            node = self._node()
        except RemoteError:
            return None
        if node is None:
            return None
        try:
            return msgspec.json.decode(node.value, type=Writer).sentence()
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return f"a worker with an unreadable name in {PATH}"

    def release(self) -> None:
        """Give it back and end the session; harmless when it is not held."""
        try:
            node = self._node() if self._session.session_id is not None else None
            if node is not None and node.session_id == self._session.session_id:
                self._session.delete(PATH, node.version)
        except RemoteError:  # it goes with the session
            pass
        finally:
            self._session.close()

    def _node(self) -> Node | None:
        return self._session.read(PATH)[0]
