"""The sandbox as a whole: start it, point a client at it, break it, stop it."""

from __future__ import annotations

import asyncio
import resource
import shutil
import socket
import tempfile
import threading
from collections.abc import Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

from connectors.sandbox.pulsar.engine import Engine
from connectors.sandbox.pulsar.faults import Faults, UnloadRequest, changed
from connectors.sandbox.pulsar.options import SandboxOptions
from connectors.sandbox.pulsar.ownership import OwnershipChanges
from connectors.sandbox.pulsar.shedding import HeldRound, OwnBalancer
from connectors.sandbox.pulsar.state import NO_BROKER, Broker, FleetState, Trouble
from connectors.sandbox.pulsar.web import WebServers, brokers_at, listen
from connectors.sandbox.zookeeper import ZooKeeperProcess, free_port
from core.errors import ConfigError, InputError

if TYPE_CHECKING:
    from connectors.config.model import ClusterConfig

__all__ = ["Faults", "Sandbox", "SandboxOptions"]

_T = TypeVar("_T")
_START_TIMEOUT_S: Final = 180.0
_CALL_TIMEOUT_S: Final = 30.0
_LOOK_S: Final = 0.05
_FILES_PER_BROKER: Final = 6  # its listening socket, its session, a few clients
_OTHER_FILES: Final = 256


@dataclass(frozen=True, slots=True)
class _Cluster:
    """Running parts of a sandbox."""

    engine: Engine
    ownership: OwnershipChanges
    web: WebServers
    balancer: OwnBalancer


class Sandbox:
    """A local Pulsar fleet: a real ZooKeeper, simulated brokers with real REST and real znodes.

    Start and stop it, or use it as a context manager. All methods may be called from any thread.

    Args:
        options: Size, pace and settings.
    """

    def __init__(self, options: SandboxOptions | None = None) -> None:
        self.options = options or SandboxOptions()
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._zookeeper: ZooKeeperProcess | None = None
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._cluster: _Cluster | None = None
        self._unserved: list[socket.socket] = []

    # --- life -------------------------------------------------------------------------------

    def start(self) -> None:
        """Start ZooKeeper and the brokers; returns when all of them serve.

        Raises:
            OpsError: No Java, a port that is taken, or ZooKeeper does not start.
        """
        if self._thread is not None:
            return
        folder = self.options.data_dir
        if folder is None:
            self._folder = tempfile.TemporaryDirectory(prefix="trimtab-sandbox-")
            folder = Path(self._folder.name)
        shutil.rmtree(folder / "zookeeper", ignore_errors=True)
        _allow_open_files(_FILES_PER_BROKER * self.options.brokers + _OTHER_FILES)
        port = self.options.zookeeper_port or free_port()
        self._zookeeper = ZooKeeperProcess(folder / "zookeeper", port)
        try:
            self._loop = asyncio.new_event_loop()
            self._thread = threading.Thread(
                target=self._run_loop, args=(self._loop,), name="sandbox", daemon=True
            )
            self._thread.start()
            self._call(self._found(self._zookeeper), _START_TIMEOUT_S)
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Stop everything and leave nothing behind. Twice is harmless."""
        try:
            if self._loop is not None and self._thread is not None:
                try:
                    self._call(self._close(), _CALL_TIMEOUT_S)
                finally:
                    self._call(_end_the_rest(), _CALL_TIMEOUT_S)
                    self._loop.call_soon_threadsafe(self._loop.stop)
                    self._thread.join(_CALL_TIMEOUT_S)
                    self._loop.close()
        finally:  # whatever the brokers do, the server and its files go
            self._loop = self._thread = self._cluster = None
            if self._zookeeper is not None:
                self._zookeeper.kill()  # its data go with it
                self._zookeeper = None
            if self._folder is not None:
                self._folder.cleanup()
                self._folder = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @staticmethod
    def _run_loop(loop: asyncio.AbstractEventLoop) -> None:
        asyncio.set_event_loop(loop)
        loop.run_forever()

    async def _found(self, zookeeper: ZooKeeperProcess) -> None:
        starting = asyncio.get_running_loop().run_in_executor(None, zookeeper.start)
        try:
            cluster = self._prepare(zookeeper.address)
        finally:
            await starting
        self._cluster = cluster
        await cluster.engine.found()
        for broker in cluster.engine.state.brokers:
            await cluster.web.serve(broker, self._unserved.pop(0))
        cluster.engine.spawn(cluster.ownership.guard())
        cluster.engine.spawn(cluster.balancer.run())

    def _prepare(self, zookeeper: str) -> _Cluster:
        self._unserved = listen(self.options.brokers, self.options.web_port, self.options.former)
        engine = Engine(self.options, brokers_at(self._unserved), zookeeper)
        ownership = OwnershipChanges(engine)
        ownership.kill = self._kill_broker
        engine.prepare()
        balancer = OwnBalancer(engine, ownership)
        return _Cluster(engine, ownership, WebServers(engine, ownership), balancer)

    async def _close(self) -> None:
        for sock in self._unserved:
            sock.close()
        if self._cluster is not None:
            self._cluster.web.close_all()
            await self._cluster.engine.stop()
        await asyncio.get_running_loop().shutdown_default_executor()

    def _call(self, work: Coroutine[Any, Any, _T], timeout_s: float = _CALL_TIMEOUT_S) -> _T:
        if self._loop is None:
            work.close()
            raise ConfigError("The sandbox is not running.", hint="Start it first.")
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(timeout_s)

    # --- where it is ------------------------------------------------------------------------

    @property
    def zookeeper(self) -> str:
        """``host:port`` of its ZooKeeper."""
        if self._zookeeper is None:
            raise ConfigError("The sandbox is not running.", hint="Start it first.")
        return self._zookeeper.address

    @property
    def zookeeper_process(self) -> ZooKeeperProcess:
        """The ZooKeeper itself."""
        if self._zookeeper is None:
            raise ConfigError("The sandbox is not running.", hint="Start it first.")
        return self._zookeeper

    @property
    def admin_urls(self) -> list[str]:
        """Web addresses of all its brokers, running or not."""
        return [broker.web_url for broker in self.state.brokers]

    @property
    def state(self) -> FleetState:
        """Its books; look, do not touch."""
        return self.engine.state

    @property
    def engine(self) -> Engine:
        """Its engine."""
        return self._running.engine

    @property
    def _running(self) -> _Cluster:
        if self._cluster is None:
            raise ConfigError("The sandbox is not running.", hint="Start it first.")
        return self._cluster

    def cluster_config(self, name: str = "sandbox") -> ClusterConfig:
        """Return the configuration that points Trimtab at it."""
        from connectors.config.model import ClusterConfig  # noqa: PLC0415 - configuration is optional here

        return ClusterConfig(
            name=name,
            kind="pulsar",
            zookeeper=self.zookeeper,
            admin_urls=self.admin_urls,
            environment="demo",
            read_only=False,
        )

    # --- breaking it ------------------------------------------------------------------------

    @property
    def leader(self) -> int | None:
        """Number of the leading broker, ``None`` while there is none."""
        leader = self.engine.leader
        return None if leader == NO_BROKER else leader

    def advance(self, seconds: float) -> None:
        """Move the workload's clock forward; :meth:`publish` shows it at once."""
        self.engine.began_s -= seconds

    def publish(self) -> None:
        """Let every broker measure and report, and the leader write its averages, at once."""
        self._call(self.engine.publish())

    def stop_broker(self, number: int) -> None:
        """Stop a broker in good order."""
        self._call(self._stop_broker(self._broker(number)))

    def kill_broker(self, number: int) -> None:
        """Kill a broker: its port closes at once, its nodes stay until its session runs out."""
        self._call(self._kill_broker(self._broker(number)))

    def start_broker(self, number: int) -> None:
        """Start a broker again; it owns nothing at first."""
        self._call(self._start_broker(self._broker(number)))

    def hang_broker(self, number: int) -> None:
        """Let a broker's web port accept and never answer, until it is stopped or started."""
        self.disturb_broker(number, "hung")

    def disturb_broker(self, number: int, trouble: Trouble) -> None:
        """Let a broker's web port be in trouble until it is started again.

        ``resetting``: it cuts every connection. ``endless``: its answers do not end.
        """
        self._broker(number).trouble = trouble

    @property
    def faults(self) -> Faults:
        """Current faults of unloads."""
        return self.engine.faults

    def set_faults(self, **changes: Any) -> None:
        """Switch some of the :class:`Faults` on or off; the others stay as they are.

        Raises:
            InputError: There is no such switch, or it does not take that value.
        """
        self.engine.faults = changed(self.engine.faults, changes)

    def unload_requests(self) -> list[UnloadRequest]:
        """Return every request to unload a bundle since the start, in order."""
        return list(self.engine.unloads)

    def held_rounds(self) -> list[HeldRound]:
        """Return the shedding rounds that leaders held, in order; the last 1,000."""
        return list(self._running.balancer.rounds)

    def change_leader(self) -> None:
        """Depose the leader: what it remembers is lost, another broker follows."""
        self._call(self._running.ownership.depose())

    def _broker(self, number: int) -> Broker:
        brokers = self.state.brokers
        if not 0 <= number < len(brokers):
            raise InputError(
                f"The sandbox has no broker number {number}.",
                hint=f"Use 0 to {len(brokers) - 1}.",
            )
        return brokers[number]

    async def _stop_broker(self, broker: Broker) -> None:
        self._running.web.close(broker)
        await self._running.ownership.retire(broker)

    async def _kill_broker(self, broker: Broker) -> None:
        self._running.web.close(broker)
        await self._running.ownership.crash(broker)

    async def _start_broker(self, broker: Broker) -> None:
        if broker.is_up:
            if broker.trouble is not None:
                broker.trouble = None
                self._running.web.cut(broker)
            return
        while broker.is_registered:  # noqa: ASYNC110 - its old session ends in ZooKeeper
            await asyncio.sleep(_LOOK_S)
        await self.engine.bring_up(broker)
        await self._running.web.serve(broker)


def _allow_open_files(count: int) -> None:
    """Raise this process's limit of open files as far as it may be raised."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < count:
        most = count if hard == resource.RLIM_INFINITY else min(count, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


async def _end_the_rest() -> None:
    """Cancel what still runs on this loop, and let its connections close before the loop does."""
    rest = asyncio.all_tasks() - {asyncio.current_task()}
    for task in rest:
        task.cancel()
    await asyncio.gather(*rest, return_exceptions=True)
    await asyncio.sleep(0)
