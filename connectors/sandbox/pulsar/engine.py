"""The running cluster: sessions, clocks, reports, averages and the leader. Lives in one event loop.

Ownership changes (unload, split, the end of a broker) are in ``ownership``.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Coroutine
from dataclasses import fields
from time import time
from typing import Any, Final

import numpy as np

from connectors.sandbox.pulsar import documents
from connectors.sandbox.pulsar.bootstrap import (
    encode,
    persistent_nodes,
    remember_past,
    share_out,
    write_nodes,
)
from connectors.sandbox.pulsar.faults import UnloadRequest
from connectors.sandbox.pulsar.layout import plan_layout
from connectors.sandbox.pulsar.leader import SandboxLeader
from connectors.sandbox.pulsar.options import SandboxOptions
from connectors.sandbox.pulsar.policies import Policies, plan_policies
from connectors.sandbox.pulsar.state import NO_BROKER, Broker, FleetState, Rows
from connectors.sandbox.pulsar.workload import Floats, Workload, host_usage, noisy_broker
from connectors.sandbox.pulsar.zksession import NodeExistsError, ZkSession, wait_for_all
from core.errors import RemoteError
from core.pulsar.load import RATE_STEP_MSGS_S, TRAFFIC_STEP_BYTES_S, in_steps
from core.pulsar.reports import ReportedLoad, needs_report
from core.pulsar.settings import EffectiveSettings


class ReportLedger:
    """Last written report of every broker, in columns.

    Args:
        brokers: How many there are.
    """

    def __init__(self, brokers: int) -> None:
        self.written_ms: Floats = np.zeros(brokers)
        self._last: Floats = np.zeros((brokers, len(fields(ReportedLoad))))

    def due(
        self, state: FleetState, now_ms: float, settings: EffectiveSettings, pace: float = 1.0
    ) -> Rows:
        """Return the brokers whose report must be written now, by upstream's rule.

        Args:
            state: The cluster.
            now_ms: Since the epoch.
            settings: For the rule.
            pace: How many times as fast as the clock the sandbox's minutes go by.
        """
        last, current = _load(self._last), _load(_compared(state))
        age_ms = (now_ms - self.written_ms) * pace
        return np.flatnonzero(needs_report(last, current, age_ms, settings))

    def note(self, state: FleetState, brokers: Rows, now_ms: float) -> None:
        """Note that these brokers wrote their present state."""
        self.written_ms[brokers] = now_ms
        self._last[brokers] = _compared(state)[brokers]

    def forget(self, broker: int) -> None:
        """Forget a broker, as a new process does."""
        self.written_ms[broker] = 0.0
        self._last[broker] = 0.0


def _compared(state: FleetState) -> Floats:
    rates = state.broker_rates()
    return np.column_stack(
        [
            rates[:, 0] + rates[:, 2],
            rates[:, 1] + rates[:, 3],
            state.broker_counts()[:, 3],
            state.usage.max_ratio(),
        ]
    )


def _load(columns: Floats) -> ReportedLoad:
    return ReportedLoad(
        msg_rate=columns[:, 0],
        msg_throughput=columns[:, 1],
        bundle_count=columns[:, 2],
        usage=columns[:, 3],
    )


def rows_to_average(state: FleetState, limit: int) -> Rows:
    """Return the bundles whose averages the leader writes, largest first.

    Args:
        state: For the averages.
        limit: Bundles per broker; 0 or less means all.

    Source:
        Pulsar ``ModularLoadManagerImpl#writeBundleDataOnZooKeeper`` and ``BundleData#compareTo``.
    """
    known = np.flatnonzero((state.reported_by != NO_BROKER) & (state.short_samples > 0))
    most = limit * max(1, sum(broker.is_up for broker in state.brokers))
    if limit <= 0 or len(known) <= most:
        return known
    keys: list[Any] = []
    for average in (state.long[known], state.short[known]):
        keys.append(in_steps(average[:, 0] + average[:, 2], RATE_STEP_MSGS_S))
        keys.append(in_steps(average[:, 3], TRAFFIC_STEP_BYTES_S))
        keys.append(in_steps(average[:, 1], TRAFFIC_STEP_BYTES_S))
    return known[np.lexsort(keys)[::-1][:most]]


BROKERS_PATH: Final = "/loadbalance/brokers"
LEADER_PATH: Final = "/loadbalance/leader"
AVERAGES_PATH: Final = "/loadbalance/broker-time-average"
BUNDLES_PATH: Final = "/loadbalance/bundle-data"
_TICK_S: Final = 0.5
_AT_ONCE: Final = 2000
_STARTING_AT_ONCE: Final = 40
_CACHE_S: Final = 1.0
_ADMIN_SESSION_S: Final = 30.0
_NEW_BROKER_S: Final = 2400
_OLD_BROKER_S: Final = 9 * 86_400
_RESTARTED_S: Final = 15 * 3600
_BETWEEN_STARTS_S: Final = 420


class Engine:
    """Everything of a sandbox that happens by itself.

    Args:
        options: Size, pace and settings.
        brokers: The brokers with the addresses they will listen on.
        zookeeper: ``host:port`` of the running ZooKeeper.
    """

    def __init__(self, options: SandboxOptions, brokers: list[Broker], zookeeper: str) -> None:
        self.options = options
        for broker in brokers:
            broker.version = options.release
        layout = plan_layout(options)
        self.state = FleetState(layout, brokers)
        self.policies: Policies = plan_policies(options, self.state, zookeeper)
        self.workload = Workload(
            layout, seed=options.seed, day_s=options.day_s, is_steady=options.is_steady
        )
        self.leader: int = NO_BROKER
        self.elected_s = 0.0
        # between the write of a report and the sample that follows no round may begin
        self.sampling = asyncio.Lock()
        self.load_manager = SandboxLeader(self.state, self.policies, options.seed)
        self.faults = options.faults
        self.unloads: list[UnloadRequest] = []
        self.sessions: list[ZkSession | None] = [None] * len(brokers)
        self.averaged: set[int] = set()
        # bundles that each leader unloaded to shed, and in how many rounds of a broker
        self.shed_counts: Rows = np.zeros((len(brokers), 2), np.int64)
        self.noisy = noisy_broker(len(brokers))
        self._ledger = ReportLedger(len(brokers))
        self._zookeeper = zookeeper
        self._tasks: set[asyncio.Task[Any]] = set()
        self._is_founding = True
        self.began_s = time()
        self._next_refresh_s = self._next_averages_s = 0.0
        self._next_check_s = np.zeros(len(brokers))
        self.admin = self.new_session(_ADMIN_SESSION_S)

    # --- life -------------------------------------------------------------------------------

    def prepare(self) -> None:
        """Do all that needs no ZooKeeper; it takes long, and no session waits for it."""
        self.load_manager.settings()
        self._share_out_traffic()
        for broker in self.state.brokers:
            broker.is_up = True
        self.refresh()
        for broker in self.state.brokers:
            broker.gains.clear()
            broker.losses.clear()

    async def found(self) -> None:
        """Write the first state and bring every broker up; :meth:`prepare` comes before."""
        await self.admin.open()
        self.began_s = time()
        await write_nodes(self.admin, persistent_nodes(self.options, self.state, self.policies))
        await self._write_namespace_folders()
        for start in range(0, len(self.state.brokers), _STARTING_AT_ONCE):
            batch = self.state.brokers[start : start + _STARTING_AT_ONCE]
            await asyncio.gather(*(self.bring_up(broker) for broker in batch))
        await self.lead(0)
        self._pretend_to_be_old()
        await self.write_reports(np.arange(len(self.state.brokers)), with_samples=False)
        remember_past(self.state, self.workload, round(self.options.day_s))
        await self.write_averages()
        self._is_founding = False
        self.spawn(self._live())

    async def stop(self) -> None:
        """End all that runs and close every session."""
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        open_ones = [session for session in self.sessions if session is not None]
        await asyncio.gather(*(session.close() for session in (*open_ones, self.admin)))

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Start a background task; it ends with the engine at the latest.

        A ZooKeeper that is away ends it too; what must be done all the same tries again by itself.
        """
        task = asyncio.get_running_loop().create_task(_while_zookeeper_is_there(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def new_session(self, timeout_s: float) -> ZkSession:
        """Return a ZooKeeper session that is not open yet."""
        host, _, port = self._zookeeper.rpartition(":")
        return ZkSession(host, int(port), timeout_s=timeout_s)

    @property
    def workload_s(self) -> float:
        """Seconds since the sandbox began."""
        return time() - self.began_s

    @property
    def _averages_every_s(self) -> float:
        return self.options.minute_s * self.options.quota_write_minutes

    async def bring_up(self, broker: Broker) -> None:
        """Open a broker's session and write what a starting broker writes."""
        broker.started_ms = now_ms()
        broker.is_up, broker.trouble, broker.is_registered = True, None, True
        session = self.new_session(self.options.broker_session_s)
        await session.open()
        self.sessions[broker.row] = session
        self._ledger.forget(broker.row)
        self.shed_counts[broker.row] = 0
        self._next_check_s[broker.row] = time() + broker.row % 10 * 0.5
        await session.ensure(f"/namespace/{broker.heartbeat_bundle}".rpartition("/")[0])
        await self.register(broker)
        await self.admin.put(f"{AVERAGES_PATH}/{broker.broker_id}", encode(documents.no_averages()))

    async def register(self, broker: Broker) -> None:
        """Write all nodes that live with a broker's session; those that exist stay."""
        session = self.sessions[broker.row]
        if session is None:
            return
        report = encode(documents.load_report(self.state, broker, now_ms()))
        owner = encode(documents.ownership(broker))
        await wait_for_all(
            [
                session.create(f"/namespace/{broker.heartbeat_bundle}", owner, ephemeral=True),
                session.create(f"{BROKERS_PATH}/{broker.broker_id}", report, ephemeral=True),
            ]
        )
        if not self._is_founding:
            self.state.report(broker.row)
            await self.update_all(runs=2)
        await self.own(broker, self.state.owned_rows(broker.row))
        if self.leader == broker.row:
            with contextlib.suppress(NodeExistsError):
                await self.lead(broker.row)

    async def reconnect(self) -> None:
        """Open again the sessions of running brokers whose connection broke."""
        up = [self.sessions[broker.row] for broker in self.state.brokers if broker.is_up]
        closed = [session for session in (self.admin, *up) if session and not session.is_open]
        answers = await asyncio.gather(
            *(session.open() for session in closed), return_exceptions=True
        )
        for answer in answers:  # after all have tried: the next round must not meet this one
            if isinstance(answer, BaseException):
                raise answer

    async def lead(self, row: int) -> None:
        """Make a broker the leader."""
        session = self.sessions[row]
        if session is not None:
            value = encode(documents.leader(self.state.brokers[row]))
            await session.create(LEADER_PATH, value, ephemeral=True)
            self.leader, self.elected_s = row, time()
            self.state.new_leader()
            self._next_averages_s = self.elected_s + self._averages_every_s

    async def own(self, broker: Broker, rows: Rows) -> None:
        """Create ownership nodes for bundles that a broker already owns in our books."""
        session = self.sessions[broker.row]
        value = encode(documents.ownership(broker))
        for start in range(0, len(rows), _AT_ONCE):
            if session is not None:
                names = [self.state.names[row] for row in rows[start : start + _AT_ONCE].tolist()]
                await wait_for_all(
                    [session.create(f"/namespace/{name}", value, ephemeral=True) for name in names]
                )

    # --- clocks -----------------------------------------------------------------------------

    async def _live(self) -> None:
        self._next_refresh_s = time() + self.options.stats_every_s
        while True:
            await asyncio.sleep(_TICK_S)
            with contextlib.suppress(RemoteError):  # ZooKeeper is away: try at the next tick
                await self.tick()

    async def tick(self) -> None:
        """Do whatever is due now."""
        now_s = time()
        if now_s >= self._next_refresh_s:
            self._next_refresh_s = now_s + self.options.stats_every_s
            self.refresh()
        await self.write_averages_if_due(now_s)
        looking = np.flatnonzero(self._next_check_s <= now_s)
        if len(looking):
            self._next_check_s[looking] = now_s + self.options.report_check_ms / 1000
            pace = 60.0 / self.options.minute_s
            due = self._ledger.due(self.state, now_s * 1000, self.load_manager.settings(), pace)
            await self.write_reports(np.intersect1d(due, looking))

    async def write_averages_if_due(self, now_s: float) -> None:
        """Write the averages at a fixed rate from the election on, after one more sample.

        Source:
            Pulsar ``PulsarService#startLoadManagementService``,
            ``ModularLoadManagerImpl#writeBundleDataOnZooKeeper``.
        """
        if self.leader == NO_BROKER or now_s < self._next_averages_s:
            return
        while self._next_averages_s <= now_s:
            self._next_averages_s += self._averages_every_s
        async with self.sampling:
            await self.update_all(leader_only=True)
        await self.write_averages()

    def written_ms(self, broker: Broker) -> int:
        """Return the time of a broker's last report, ms since the epoch."""
        return int(self._ledger.written_ms[broker.row])

    def refresh(self) -> None:
        """Measure: topic statistics, sums per bundle, usage of every host."""
        state, seconds = self.state, self.workload_s
        rates = self.workload.rates_at(seconds)
        state.refresh(rates, (rates[:, 1] * _CACHE_S).astype(np.int64))
        noise = self.workload.cpu_noise_at(seconds, len(state.brokers), self.noisy)
        topics = state.broker_counts()[:, 0].astype(np.float64)
        state.usage = host_usage(state.broker_rates(), topics, noise)

    async def write_reports(self, brokers: Rows, *, with_samples: bool = True) -> None:
        """Write load reports; each adds a sample to every average, as upstream's do."""
        state, moment = self.state, now_ms()
        wanted = set(brokers.tolist())
        writing = [
            (broker, session)
            for broker, session in zip(state.brokers, self.sessions, strict=True)
            if broker.row in wanted and session is not None and broker.is_up
        ]
        for broker, session in writing:
            async with self.sampling:
                value = encode(documents.load_report(state, broker, moment))
                await session.set(f"{BROKERS_PATH}/{broker.broker_id}", value)
                broker.gains.clear()
                broker.losses.clear()
                state.report(broker.row)
                if with_samples:
                    await self.update_all()
        rows = np.array([broker.row for broker, _ in writing], np.int64)
        self._ledger.note(state, rows, moment)

    async def update_all(self, runs: int = 1, *, leader_only: bool = False) -> None:
        """Do what every broker does when a load report changed: one more sample a bundle.

        Args:
            runs: How often: 1 for a report that changed, 2 for one that came or went.
            leader_only: Only the leader does it, before it writes the averages.

        Source:
            Pulsar ``ModularLoadManagerImpl#updateAll``.
        """
        dropped = [self.state.sample(leader_only=leader_only) for _ in range(runs)]
        self.load_manager.update()
        await self.drop_averages(np.concatenate(dropped))

    async def publish(self) -> None:
        """Measure and write everything now, due or not."""
        await self.reconnect()
        self.refresh()
        await self.write_reports(np.arange(len(self.state.brokers)))
        await self.write_averages()

    async def write_averages(self) -> None:
        """Write what the leader writes: averages of the largest bundles and of every broker."""
        state = self.state
        limit = int(
            self.load_manager.settings().number("loadBalancerMaxNumberOfBundlesInBundleLoadReport")
        )
        rows = rows_to_average(state, limit).tolist()
        fresh = [row for row in rows if row not in self.averaged]
        nodes = {self.average_path(row): encode(documents.bundle_data(state, row)) for row in fresh}
        await write_nodes(self.admin, nodes)
        old = [row for row in rows if row in self.averaged]
        self.averaged.update(fresh)
        for start in range(0, len(old), _AT_ONCE):
            batch = old[start : start + _AT_ONCE]
            answers = await asyncio.gather(
                *(
                    self.admin.set(
                        self.average_path(row), encode(documents.bundle_data(state, row))
                    )
                    for row in batch
                ),
                return_exceptions=True,
            )
            lost = [row for row, answer in zip(batch, answers, strict=True) if not _is_ok(answer)]
            self.averaged.difference_update(lost)  # created again next time
        averages = zip(state.brokers, documents.broker_averages(state), strict=True)
        await wait_for_all(
            [
                self.admin.set(f"{AVERAGES_PATH}/{broker.broker_id}", encode(average))
                for broker, average in averages
                if broker.is_up
            ]
        )

    async def drop_averages(self, rows: Rows) -> None:
        """Delete the averages of bundles that no report names any more."""
        gone = [row for row in rows.tolist() if row in self.averaged]
        self.averaged.difference_update(gone)
        for row in gone:
            await self.admin.remove(self.average_path(row))

    def average_path(self, row: int) -> str:
        """Return the path of a bundle's averages."""
        return f"{BUNDLES_PATH}/{self.state.names[row]}"

    def _share_out_traffic(self) -> None:
        state = self.state
        mean = self.workload.rates_at(None)
        weight = np.bincount(
            state.topic_bundle, 2 * mean[:, 1] + mean[:, 3], minlength=len(state.names)
        )
        share_out(state, weight, self.policies)
        self.workload.calibrate(state.owner[state.topic_bundle], len(state.brokers))

    def _pretend_to_be_old(self) -> None:
        """Date the brokers back: half ran for days, half since last night, the idle one is new."""
        moment = now_ms()
        for broker in self.state.brokers:
            is_new = not len(self.state.owned_rows(broker.row))
            is_first_half = 2 * broker.row < len(self.state.brokers)
            age_s = _OLD_BROKER_S if is_first_half else _RESTARTED_S
            age_s = _NEW_BROKER_S if is_new else age_s + broker.row * _BETWEEN_STARTS_S
            broker.started_ms = moment - age_s * 1000

    async def _write_namespace_folders(self) -> None:
        await write_nodes(self.admin, {f"/namespace/{name}": b"" for name in self.state.namespaces})


async def _while_zookeeper_is_there(work: Coroutine[Any, Any, None]) -> None:
    with contextlib.suppress(RemoteError):
        await work


def _is_ok(answer: object) -> bool:
    return not isinstance(answer, BaseException)


def now_ms() -> int:
    """Return ms since the epoch."""
    return round(time() * 1000)
