"""The sandbox's cluster in one event loop: its books, its mind, its servers, its faults."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import cos, pi
from time import monotonic, time
from typing import Final

import numpy as np

from connectors.sandbox.pegasus.balancing import active_level
from connectors.sandbox.pegasus.meta_server import MetaServer
from connectors.sandbox.pegasus.options import PegasusOptions
from connectors.sandbox.pegasus.server import Server
from connectors.sandbox.pegasus.state import Node, found_cluster
from core.errors import UnknownNameError
from core.pegasus.balance.score import stddev

_DEPTH: Final = (0.15, 0.45)
_WAVE_S: Final = 900.0
_BURST_FACTOR: Final = 1.5
_BURST_S: Final = 75.0
_BURST_EVERY_S: Final = (420.0, 900.0)


@dataclass(frozen=True, slots=True)
class TrafficPattern:
    """Traffic pattern of one table around its mean: a wave, and occasional bursts.

    Counters of real servers only grow, so the traffic since a moment is the integral of the rate,
    in closed form: nothing is stored between two reads.

    Attributes:
        depth: Of the wave, 0..1; 0: always the mean.
        phase: Of the wave, radians.
        burst: How much more there is during a burst, in means; 0: none.
        burst_every_s: Seconds from one burst to the next.
        burst_phase_s: Seconds from the sandbox's start to the end of a whole period.
    """

    depth: float = 0.0
    phase: float = 0.0
    burst: float = 0.0
    burst_every_s: float = 1.0
    burst_phase_s: float = 0.0

    def until(self, seconds: float) -> float:
        """Return the traffic from the sandbox's start on, in seconds of the mean.

        Args:
            seconds: Since the sandbox's start; negative before it, when there was the wave too.
        """
        angle = 2 * pi * seconds / _WAVE_S + self.phase
        wave = self.depth * _WAVE_S / (2 * pi) * (cos(self.phase) - cos(angle))
        return seconds + wave + self._bursts(seconds) - self._bursts(0.0)

    def _bursts(self, seconds: float) -> float:
        whole, part = divmod(seconds + self.burst_phase_s, self.burst_every_s)
        return self.burst * (whole * _BURST_S + min(part, _BURST_S))


STEADY: Final = TrafficPattern()


def rhythms(tables: int, seed: int) -> tuple[TrafficPattern, ...]:
    """Return one rhythm a table; every third one has bursts."""
    rng = np.random.default_rng([seed, 1])
    found = []
    for table in range(tables):
        every_s = float(rng.uniform(*_BURST_EVERY_S))
        found.append(
            TrafficPattern(
                depth=float(rng.uniform(*_DEPTH)),
                phase=float(rng.uniform(0, 2 * pi)),
                burst=_BURST_FACTOR if table % 3 == 0 else 0.0,
                burst_every_s=every_s,
                burst_phase_s=float(rng.uniform(_BURST_S, every_s)),
            )
        )
    return tuple(found)


_LOOPBACK: Final = "127.0.0.1"
_RESTART_S: Final = 1.0


@dataclass(frozen=True)
class Ports:
    """Ports of the servers, ascending."""

    metas: tuple[int, ...]
    replicas: tuple[int, ...]


class Cluster:
    """Everything that runs; used in its own event loop only.

    Args:
        options: Size and pace.
        ports: Where the servers listen.
    """

    def __init__(self, options: PegasusOptions, ports: Ports) -> None:
        self.options = options
        now_s = int(time())
        self.state = found_cluster(
            options, ports.replicas, now_s=now_s, now_mono_s=monotonic() - 60
        )
        self.meta = MetaServer(options, self.state)
        self._began_s = monotonic()
        living = rhythms(len(self.state.tables), options.seed) if options.is_living else ()
        self._rhythms = dict(zip(self.state.tables, living, strict=False))
        self.metas = tuple(f"localhost:{port}" for port in ports.metas)
        self.leader: str | None = self.metas[0]
        self.copy_rates: dict[str, dict[str, str]] = {}
        self.servers: dict[str, Server] = {}
        """By name; whoever composes the sandbox fills it before the start."""

    async def start(self) -> None:
        """Listen everywhere and begin to tick."""
        for name, server in self.servers.items():
            await server.listen(_LOOPBACK, _port(name))
        for work in (
            self.meta.run(),
            self.meta.keep_reporting(),
            self.meta.keep_counting_disks(),
        ):
            self.meta.spawn(work)

    async def stop(self) -> None:
        """End everything."""
        await self.meta.stop()
        for server in self.servers.values():
            await server.close()

    # -- reports ---------------------------------------------------------------------------

    def info(self, *, with_name: bool) -> dict[str, str]:
        """Return the leading meta server's report on the cluster."""
        counts = self.state.counts
        operations = {
            "copy_pri": counts.copy_primary,
            "copy_sec": counts.copy_secondary,
            "move_pri": counts.move_primary,
            "total": counts.total,
        }
        primaries, replicas = self.replica_counts()
        info = {
            "meta_servers": ",".join(self.metas),
            "primary_meta_server": self.leader or "",
            "zookeeper_hosts": "none:2181",
            "zookeeper_root": f"/pegasus/{self.options.cluster}",
            "meta_function_level": active_level(self.state).word,
            "balance_operation_count": json.dumps(operations, indent=2, sort_keys=True),
            "primary_replica_count_stddev": f"{self._stddev(primaries):.2f}",
            "total_replica_count_stddev": f"{self._stddev(replicas):.2f}",
        }
        return {**info, "cluster_name": self.options.cluster} if with_name else info

    def _stddev(self, counts: Mapping[str, int]) -> float:
        """Return the deviation over the living nodes that serve, as the meta server scores it."""
        _, replicas = self.replica_counts()
        nodes = self.state.nodes.items()
        serving = [name for name, node in nodes if node.is_alive and replicas.get(name, 0)]
        is_sample = any(counts.get(name, 0) for name, node in nodes if not node.is_alive)
        served = np.array([counts.get(name, 0) for name in serving], dtype=np.int64)
        return stddev(served, is_sample=is_sample)

    def replica_counts(self) -> tuple[Mapping[str, int], Mapping[str, int]]:
        """Return primaries and replicas of every node."""
        configs = [partition.config for partition in self.state.partitions.values()]
        primaries = Counter(config.primary for config in configs if config.primary)
        return primaries, Counter(name for config in configs for name in config.members)

    def traffic_s(self, node: Node, app_id: int) -> float:
        """Return a table's traffic since a node's start, in seconds of the table's mean."""
        rhythm = self._rhythms.get(app_id, STEADY)
        now_s, started_s = (one - self._began_s for one in (monotonic(), node.started_s))
        return rhythm.until(now_s) - rhythm.until(started_s)

    # -- faults ---------------------------------------------------------------------------------

    async def lose_node(self, name: str) -> None:
        """End a replica server's process; a while later it counts as dead.

        Raises:
            UnknownNameError: There is no such node.
        """
        node = self.state.nodes[self._known(name)]
        if not node.is_running:
            return
        node.is_running = node.is_frozen = False
        await self.servers[name].close()
        self._bury_unless_back(node)

    def _bury_unless_back(self, node: Node) -> None:
        node.outages += 1
        self.meta.spawn(self._bury_later(node, node.outages))

    async def _bury_later(self, node: Node, outages: int) -> None:
        await asyncio.sleep(self.options.grace_s)
        if not node.is_working and node.outages == outages:
            self.meta.bury(node.name)

    async def freeze_node(self, name: str) -> None:
        """Stop a replica server's process as SIGSTOP does; a while later it counts as dead.

        Its port accepts connections and answers nothing until :meth:`thaw_node`.

        Raises:
            UnknownNameError: There is no such node.
        """
        node = self.state.nodes[self._known(name)]
        if not node.is_working:
            return
        node.is_frozen = True
        self.servers[name].freeze()
        self._bury_unless_back(node)

    async def thaw_node(self, name: str) -> None:
        """Let a frozen replica server go on, as SIGCONT does.

        Raises:
            UnknownNameError: There is no such node.
        """
        node = self.state.nodes[self._known(name)]
        if not node.is_frozen:
            return
        node.is_frozen = False
        self.servers[name].thaw()
        self.meta.welcome(name)

    def unanswered(self, name: str) -> int:
        """Return the number of requests waiting at a frozen node.

        Raises:
            UnknownNameError: There is no such node.
        """
        return self.servers[self._known(name)].unanswered

    async def restart_node(self, name: str) -> None:
        """End a replica server's process and start it again a moment later.

        Raises:
            UnknownNameError: There is no such node.
        """
        await self.lose_node(name)
        await asyncio.sleep(_RESTART_S)
        await self.regain_node(name)

    async def regain_node(self, name: str) -> None:
        """Start a replica server again, with everything that it held.

        Raises:
            UnknownNameError: There is no such node.
        """
        node = self.state.nodes[self._known(name)]
        if node.is_running:
            return
        self.copy_rates.pop(name, None)  # set by command, so lost with the process
        await self.servers[name].listen(_LOOPBACK, _port(name))
        node.is_running, node.started_s = True, monotonic()
        self.meta.welcome(name)

    async def lose_leader(self) -> None:
        """End the leading meta server; later another one takes over, or itself after a restart."""
        lost, self.leader = self.leader, None
        if lost is None:
            return
        self.meta.has_leader = False
        await self.servers[lost].close()
        self.meta.spawn(self._elect_later(lost))

    async def _elect_later(self, lost: str) -> None:
        await asyncio.sleep(self.options.failover_s)
        others = [name for name in self.metas if name != lost]
        await self.servers[lost].listen(_LOOPBACK, _port(lost))
        self.meta.forget()
        self.leader, self.meta.has_leader = (others or [lost])[0], True
        for node in self.state.nodes.values():  # a node that connects again reports at once
            self.meta.sync(node)

    async def mute_node(self, name: str, *, is_mute: bool) -> None:
        """Let a node answer ``unknown command`` to everything.

        Raises:
            UnknownNameError: There is no such node.
        """
        self.state.nodes[self._known(name)].is_mute = is_mute

    def _known(self, name: str) -> str:
        if name not in self.state.nodes:
            raise UnknownNameError.of("node", name, list(self.state.nodes))
        return name


def choose_ports(first: int, count: int, former: Sequence[int] = ()) -> tuple[int, ...]:
    """Return the ports from ``first`` on where all are free, else any free ones, ascending.

    Args:
        first: Port of the first server.
        count: How many.
        former: Ports of an earlier run, taken instead where they are free and as many.
    """
    if len(former) == count and _are_free(former):
        return tuple(former)
    wanted = list(range(first, first + count))
    taken = [_listening(port) for port in wanted]
    with contextlib.ExitStack() as stack:
        for one in taken:
            if one is not None:
                stack.enter_context(one)
        if None not in taken:
            return tuple(wanted)
        some = [stack.enter_context(socket.create_server((_LOOPBACK, 0))) for _ in wanted]
        return tuple(sorted(one.getsockname()[1] for one in some))


def _are_free(ports: Sequence[int]) -> bool:
    with contextlib.ExitStack() as stack:
        taken = [_listening(port) for port in ports]
        for one in taken:
            if one is not None:
                stack.enter_context(one)
        return None not in taken


def _listening(port: int) -> socket.socket | None:
    try:
        return socket.create_server((_LOOPBACK, port))
    except OSError:
        return None


def _port(name: str) -> int:
    return int(name.rpartition(":")[2])
