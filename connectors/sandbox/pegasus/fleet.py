"""The Pegasus sandbox as a whole: start it, point a client at it, break it, stop it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any, Final, Self, TypeVar

from connectors.sandbox.pegasus.cluster import Cluster, Ports, choose_ports
from connectors.sandbox.pegasus.control import Control
from connectors.sandbox.pegasus.http import HttpCalls
from connectors.sandbox.pegasus.options import PegasusOptions
from connectors.sandbox.pegasus.rpc import MetaCalls, ReplicaCalls
from connectors.sandbox.pegasus.server import Server
from connectors.sandbox.pegasus.state import ClusterState

__all__ = ["PegasusOptions", "PegasusSandbox"]

_T = TypeVar("_T")
_CALL_TIMEOUT_S: Final = 30.0


class PegasusSandbox:
    """Meta servers and replica servers on loopback, in one thread of this process.

    Start and stop it, or use it as a context manager. All methods may be called from any thread.

    Args:
        options: Size, pace and seed.
    """

    def __init__(self, options: PegasusOptions | None = None) -> None:
        self.options = options or PegasusOptions()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._cluster: Cluster | None = None

    # -- life -----------------------------------------------------------------------------------

    def start(self) -> None:
        """Start every server; returns when all of them listen.

        Raises:
            OSError: Another process has just taken a port.
        """
        if self._thread is not None:
            return
        options = self.options
        replicas = choose_ports(options.replica_port, options.nodes, options.former_replica_ports)
        metas = choose_ports(options.meta_port, options.metas, options.former_meta_ports)
        loop = self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=loop.run_forever, name="pegasus", daemon=True)
        self._thread.start()
        self._cluster = _compose(Cluster(self.options, Ports(metas, replicas)))
        try:
            self._await(self._cluster.start())
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Stop everything and leave nothing behind. Twice is harmless."""
        loop, thread = self._loop, self._thread
        if loop is None or thread is None:
            return
        try:
            if self._cluster is not None:
                self._await(self._cluster.stop())
            self._await(_end_the_rest())
        finally:
            loop.call_soon_threadsafe(loop.stop)
            thread.join(_CALL_TIMEOUT_S)
            loop.close()
            self._loop = self._thread = self._cluster = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    # -- where ----------------------------------------------------------------------------------

    @property
    def meta_servers(self) -> list[str]:
        """Addresses ``host:port`` of the meta servers."""
        return list(self._running().metas)

    @property
    def nodes(self) -> list[str]:
        """Registered names of the replica servers."""
        return list(self._running().state.nodes)

    def look(self, see: Callable[[ClusterState], _T]) -> _T:
        """Return a function's result on the state, while nothing changes."""

        async def seen() -> _T:
            return see(self._running().state)

        return self._await(seen())

    def change(self, change: Callable[[ClusterState], object]) -> None:
        """Change the books as a shell would; see ``connectors.sandbox.pegasus.tables``."""
        self.look(change)

    # -- faults ---------------------------------------------------------------------------------

    def lose_node(self, name: str) -> None:
        """End a replica server's process; a while later it counts as dead."""
        self._await(self._running().lose_node(name))

    def regain_node(self, name: str) -> None:
        """Start it again."""
        self._await(self._running().regain_node(name))

    def restart_node(self, name: str) -> None:
        """End a replica server's process and start it again a moment later."""
        self._await(self._running().restart_node(name))

    def freeze_node(self, name: str) -> None:
        """Let its port accept connections and answer nothing, as after SIGSTOP."""
        self._await(self._running().freeze_node(name))

    def thaw_node(self, name: str) -> None:
        """Let a frozen replica server go on."""
        self._await(self._running().thaw_node(name))

    def unanswered(self, name: str) -> int:
        """Return the number of requests waiting at a frozen node."""

        async def counted() -> int:
            return self._running().unanswered(name)

        return self._await(counted())

    def lose_leader(self) -> None:
        """End the leading meta server; another one takes over a while later."""
        self._await(self._running().lose_leader())

    def mute_node(self, name: str, *, is_mute: bool = True) -> None:
        """Let a node know no remote command any more."""
        self._await(self._running().mute_node(name, is_mute=is_mute))

    # -- how ------------------------------------------------------------------------------------

    def _running(self) -> Cluster:
        if self._cluster is None:
            raise RuntimeError("the sandbox is not running")
        return self._cluster

    def _await(self, work: Coroutine[Any, Any, _T]) -> _T:
        if self._loop is None:
            raise RuntimeError("the sandbox is not running")
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(_CALL_TIMEOUT_S)


def _compose(cluster: Cluster) -> Cluster:
    """Return the cluster with what each of its servers answers."""
    control = Control(cluster)
    for name in cluster.metas:
        http = HttpCalls(cluster, name, is_meta=True, control=control)
        cluster.servers[name] = Server(MetaCalls(cluster, name).answer, http.answer, control.answer)
    for name in cluster.state.nodes:
        http = HttpCalls(cluster, name, is_meta=False)
        cluster.servers[name] = Server(ReplicaCalls(cluster, name).answer, http.answer)
    return cluster


async def _end_the_rest() -> None:
    """Let every task that is left end before the loop does."""
    rest = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    for task in rest:
        task.cancel()
    await asyncio.gather(*rest, return_exceptions=True)
