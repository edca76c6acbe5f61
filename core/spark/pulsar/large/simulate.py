"""The balancer's rounds simulated on one very large cluster: each fetches the bundles it needs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Final, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession

from core.arrays import column_values
from core.errors import ComputeError, InputError
from core.facts import Assumed
from core.ids import namespace_of
from core.operations.operation import Rows
from core.operations.simulate import Simulated, simulated
from core.operations.simulate.seeds import simulated_seeds
from core.planning.what_if.compare import compared
from core.planning.what_if.request import WhatIfRequest
from core.progress import Progress
from core.pulsar.bundle_counts import Ints
from core.pulsar.facts import PulsarFacts
from core.pulsar.measures import Measures
from core.pulsar.plan.clients import ClientImpact, client_impact
from core.pulsar.plan.outcomes import Scenario
from core.pulsar.plan.project import project_scenario
from core.pulsar.recent import RecentBundles, recent_bundles
from core.pulsar.requests import SimulateRequest, SimulateSeedsRequest
from core.pulsar.settings import EffectiveSettings
from core.pulsar.shedding import Move, find_shedding_strategy
from core.pulsar.shedding.model import Decision
from core.pulsar.shedding.registry import AnyStrategy
from core.pulsar.shedding.unload_checks import UnloadOutcome
from core.pulsar.view import LoadView
from core.simulation import Run, Simulation
from core.simulation.cluster import touched_by
from core.simulation.engine import assumed_settings, run_rounds
from core.simulation.managers import (
    SAMPLES_OF_REST,
    ExtensibleManager,
    Manager,
    ModularManager,
    manager_of,
)
from core.simulation.model import SimulatedMove
from core.simulation.records import hottest, top_bundles
from core.simulation.scenario import joined, without_brokers
from core.snapshot import PulsarSnapshot
from core.spark.pulsar.large.bundle_state import SIMULATED
from core.spark.pulsar.large.cluster import LargeCluster
from core.spark.pulsar.large.evolved import EvolvedCluster
from core.spark.pulsar.large.map_order import BucketOrders
from core.spark.pulsar.large.reduced import ReducedCluster, missing_of
from core.spark.pulsar.large.scan import CODE, NAMED, OWN, ROW, Edits, Part
from core.spark.size import MAX_PLACED
from core.units import pluralize

_MAX_TURNS: Final = 40
_NOTHING: Final = frozenset[str]()
_Answer = TypeVar("_Answer")


def large_simulation(
    cluster: LargeCluster,
    run: Run,
    *,
    placement: str | None = None,
    overrides: Mapping[str, object] | None = None,
    release: str | None = None,
    start: EvolvedCluster | None = None,
) -> Simulation:
    """Simulate a cluster whose bundles no process holds.

    Args:
        cluster: The start.
        run: What is simulated.
        start: The same, of :func:`cached_start`; ``None`` to build it for this call only.
        placement: Class name of the placement strategy; ``None`` for the active one.
        overrides: Settings to assume, upstream key to value.
        release: Release line to assume.
    Returns:
        What :func:`core.simulation.simulate` returns; its ``final`` has brokers and no bundles.
    Raises:
        UnknownNameError: A strategy, setting, broker or failure domain that is not there.
        InputError: A broker that is there already, no broker would be left, brokers with too many
            bundles would go, or TransferShedder without what brokers publish.
        ComputeError: Spark failed.
        JobStoppedError: A person stopped it.
    """
    strategy = find_shedding_strategy(run.shedding)
    assumed = dict(overrides or {})
    settings = assumed_settings(cluster.skeleton, strategy, placement, assumed, release)
    manager = manager_of(cluster.skeleton, strategy, settings)
    with ExitStack() as scope:
        known = start if start is not None else scope.enter_context(cached_start(cluster))
        spread = PartitionedSimulation(known, settings, strategy, manager, scope)
        return run_rounds(spread, run, strategy, settings, assumed)


def spread_simulation(
    spark: SparkSession,
    directory: str,
    assumed: Assumed,
    request: SimulateRequest,
    progress: Progress,
) -> Simulated:
    """Simulate a snapshot directory; see :data:`core.operations.operation.Spread`.

    Raises:
        UnknownNameError, InputError, ComputeError, JobStoppedError: See :func:`large_simulation`.
    """
    cluster = LargeCluster.of(spark, Path(directory), progress)
    named = request.recently_unloaded
    recent = recent_bundles(cluster.named(named), named) if named else RecentBundles()
    facts = PulsarFacts(cluster.skeleton, assumed)
    return simulated(facts, request, recent, partial(large_simulation, cluster))


def spread_seeds(
    spark: SparkSession,
    directory: str,
    _: Assumed,
    request: SimulateSeedsRequest,
    progress: Progress,
) -> Rows:
    """Simulate a snapshot directory once a seed; see :data:`core.operations.operation.Spread`.

    Raises:
        UnknownNameError, InputError, ComputeError, JobStoppedError: See :func:`large_simulation`.
    """
    cluster = LargeCluster.of(spark, Path(directory), progress)
    with cached_start(cluster) as start:

        def simulate(run: Run) -> Simulation:
            return large_simulation(
                cluster,
                run,
                placement=request.placement,
                overrides=request.settings,
                start=start,
            )

        return simulated_seeds(cluster.skeleton, request, simulate)


def spread_pairs(
    spark: SparkSession,
    directory: str,
    _: Assumed,
    request: WhatIfRequest,
    progress: Progress,
) -> Rows:
    """Simulate every pair on a snapshot directory; see :data:`core.operations.operation.Spread`.

    Raises:
        InputError, ComputeError, JobStoppedError: See :func:`large_simulation`.
    """
    cluster = LargeCluster.of(spark, Path(directory), progress)
    with cached_start(cluster) as start:

        def simulate_pair(run: Run, placement: str) -> Simulation:
            return large_simulation(
                cluster, run, placement=placement, overrides=request.settings, start=start
            )

        now = start.measures(cluster.settings(request.settings))
        return Rows({"pairs": compared(cluster.skeleton, request, now, simulate_pair)})


@contextmanager
def cached_start(cluster: LargeCluster) -> Iterator[EvolvedCluster]:
    """Keep a cluster's bundles on the executors for several simulations."""
    start = EvolvedCluster.start(cluster)
    try:
        yield start
    finally:
        start.cached.drop()


@dataclass(eq=False)
class PartitionedSimulation:
    """The cluster at one moment; see :class:`core.simulation.cluster.SimulatedCluster`.

    Attributes:
        cluster: As it is now.
        settings: The leader's active settings.
        strategy: Who decides.
        manager: Who checks and places.
        scope: Lets go what a what-if keeps on the executors.
        wanted: Rows of the brokers whose bundles are brought here.
        lost: Bundles that a what-if has just placed again; ``None`` if it was a round.
    """

    cluster: EvolvedCluster
    settings: EffectiveSettings
    strategy: AnyStrategy
    manager: ModularManager | ExtensibleManager
    scope: ExitStack
    wanted: frozenset[int] = frozenset()
    lost: pa.Table | None = None
    _reduced: ReducedCluster | None = None
    _views: dict[frozenset[str], LoadView] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._orders = BucketOrders(self.cluster)

    @property
    def identity(self) -> object:
        """Its brokers."""
        return self.snapshot

    @property
    def snapshot(self) -> PulsarSnapshot:
        """Its brokers, and no bundles."""
        return self.cluster.skeleton

    def decided(self, state: object, recent: frozenset[str]) -> tuple[Decision, object]:
        """Run the strategy, and bring the bundles that it needs."""
        config = self.strategy.config(self.settings)

        def ask(view: LoadView) -> tuple[Decision, object]:
            decided: tuple[Decision, object] = self.strategy.decide(view, config, state, recent)
            return decided

        decision, following = self._asked(ask)
        self.cluster.have_counted({namespace_of(move.bundle) for move in decision.moves})
        return decision, following

    def unload_outcomes(self, moves: Sequence[Move]) -> Sequence[UnloadOutcome]:
        """Delegate to the manager."""
        if not moves:
            return []
        spaces = frozenset(namespace_of(move.bundle) for move in moves)
        return self._asked(
            lambda view: list(self.manager.unload_outcomes(view, moves)), placed=spaces
        )

    def _asked(
        self, request: Callable[[LoadView], _Answer], placed: frozenset[str] = _NOTHING
    ) -> _Answer:
        """Repeat until nothing is missing, as :func:`core.spark.pulsar.large.shed.large_rounds`."""
        for _ in range(_MAX_TURNS):
            view = self._view(placed)
            answer = request(view)
            missing = missing_of(view)
            if missing:
                self._bring(self.wanted | missing)
            elif self._orders.needed:
                self._orders.find()
                self._views.clear()
            else:
                return answer
        raise ComputeError(
            f"{self.strategy.name} needs the bundles of too many brokers of "
            f"{self.cluster.manifest.cluster}.",
            hint="Run it in process, on a machine with the memory for the whole snapshot.",
        )

    def _view(self, placed: frozenset[str] = _NOTHING) -> LoadView:
        """Return the view; bundles of these namespaces can be placed on it."""
        if placed not in self._views:
            if self._reduced is None:
                self._bring(self.wanted)
            assert self._reduced is not None  # noqa: S101  # brought a line above
            self._views[placed] = self._reduced.view(
                self.settings, self._orders, is_placed=bool(placed), placed=placed
            )
        return self._views[placed]

    def _bring(self, wanted: Collection[int]) -> None:
        self.wanted = frozenset(wanted)
        self._reduced = ReducedCluster.of(self.cluster, self.wanted)
        self._views.clear()

    def remembered(self, state: object, moves: Sequence[Move]) -> object:
        """Delegate to the manager."""
        return self.manager.remembered(self._view(), state, moves)

    def after(self, moves: Sequence[SimulatedMove]) -> PartitionedSimulation:
        """Project the moves on the brokers, and note them."""
        cluster = self.cluster
        brokers, rows = cluster.skeleton.brokers, cluster.moved.slice(0, 0)
        at = np.zeros(0, np.int64)
        if moves:
            assert self._reduced is not None  # noqa: S101  # the moves were picked from it
            view = self._view()
            at = np.array([view.bundle_row(move.bundle) for move in moves], np.int64)
            ends = tuple(move.destination for move in moves)
            after = project_scenario(self._reduced.snapshot, at, Scenario(1.0, ends))
            brokers, rows = after.brokers, self._reduced.bundles.take(pa.array(at))
        touched = touched_by(moves)
        if isinstance(self.manager, ExtensibleManager):
            moved = cluster.after(brokers, rows, moves, None)
            return self._on(self._published(self.manager, moved, touched), at)
        samples = self.manager.samples(len(cluster.brokers), len(touched))
        return self._on(cluster.after(brokers, rows, moves, samples), at)

    def changed(
        self, grown: PulsarSnapshot, gone: Sequence[str], rng: np.random.Generator
    ) -> tuple[PartitionedSimulation, tuple[SimulatedMove, ...]]:
        """Look up what went, keep the changed cluster, and have it reported."""
        origin, settings = self.cluster.cached.origin, self.settings
        done = with_other_brokers(origin, grown.brokers, gone, settings, self.manager, rng)
        start = self.scope.enter_context(cached_start(done.cluster))
        touched = joined(self.snapshot, grown) | touched_by(done.moves)
        if isinstance(self.manager, ExtensibleManager):
            later = self._published(self.manager, start, touched)
        else:
            samples = self.manager.samples(len(start.brokers), len(touched))
            later = start.after(start.skeleton.brokers, start.moved, (), samples)
        spread = PartitionedSimulation(
            later, settings, self.strategy, self.manager, self.scope, lost=done.bundles
        )
        return spread, done.moves

    def _published(
        self, manager: ExtensibleManager, cluster: EvolvedCluster, touched: set[str]
    ) -> EvolvedCluster:
        """Return a cluster once its brokers have published their load and hottest bundles."""
        tops = large_top_bundles(cluster, self.settings)
        return cluster.after_reports(manager.reported(cluster.skeleton, touched, tops))

    def rested(self, state: object) -> tuple[PartitionedSimulation, object]:
        """Averages come to their values, or smoothed usage does."""
        cluster, nothing = self.cluster, np.zeros(0, np.int64)
        if isinstance(self.manager, ExtensibleManager):
            tops = cluster.published.get("top_bundles")
            if tops is None:
                tops = large_top_bundles(cluster, self.settings)
            later, state = self.manager.rested(cluster.skeleton, state, tops)
            return self._on(cluster.after_reports(later), nothing), state
        samples = len(cluster.brokers) * SAMPLES_OF_REST
        after = cluster.after(cluster.skeleton.brokers, cluster.moved, (), samples)
        return self._on(after, nothing), state

    def _on(self, cluster: EvolvedCluster, moved: Ints) -> PartitionedSimulation:
        """Return the cluster one round later; ``moved``: which of the bundles that are here."""
        reduced, here = None, self.wanted
        if self._reduced is not None:
            here = self._reduced.here
            rows = cluster.brought_after(self._reduced.bundles, moved)
            reduced = self._reduced.later(cluster, rows)
        return PartitionedSimulation(
            cluster,
            self.settings,
            self.strategy,
            self.manager,
            self.scope,
            here,
            _reduced=reduced,
        )

    def impact(self, moves: Sequence[SimulatedMove]) -> ClientImpact:
        """Add up what the moved bundles have; they were brought here."""
        moved = self.cluster.moved if self.lost is None else self.lost
        if not moves:
            return ClientImpact(
                bundles=0,
                producers=0,
                consumers=0,
                topics=0,
                cache_bytes=0,
                msg_rate_msgs_per_s=0.0,
                throughput_bytes_per_s=0.0,
            )
        index = {name: row for row, name in enumerate(moved["bundle"].to_pylist())}
        return client_impact(moved, [index[move.bundle] for move in moves])

    def measures(self) -> Measures:
        """Measure it."""
        return self.cluster.measures(self.settings)


def large_top_bundles(cluster: LargeCluster, settings: EffectiveSettings) -> pa.Table:
    """Return the distributed equivalent of :func:`core.simulation.records.top_bundles`.

    A part's hottest bundles of a broker are all that can be among the hottest it has: these are
    brought here, in the order of the snapshot's rows, which decides between equal ones.

    Raises:
        ComputeError: Spark failed.
        JobStoppedError: A person stopped it.
    """
    skeleton, declared = cluster.skeleton, cluster.namespaces
    grouped = declared.filter(pc.is_valid(declared["anti_affinity_group"]))
    names = skeleton.brokers.select(["broker", "is_leader"])
    tables = {"policies": skeleton.policies, "brokers": names, "namespaces": grouped}
    frame = PulsarSnapshot.build(cluster.manifest, tables)
    found = cluster.fetch(_HottestBundles(frame, settings), "searching for the hottest bundles")
    return top_bundles(_with(frame, found), settings)


@dataclass(frozen=True, eq=False)
class _HottestBundles:
    """Keeps the hottest bundles of each broker, of some of its bundles.

    Attributes:
        frame: Brokers, policies, and the namespaces that have a group.
        settings: What brokers publish by.
    """

    frame: PulsarSnapshot
    settings: EffectiveSettings

    def __call__(self, rows: pa.Table) -> pa.Table:
        directions = [
            column_values(rows, f"msg_throughput_{direction}") for direction in ("in", "out")
        ]
        view = LoadView.of(_with(self.frame, rows), self.settings)
        listed, _, _ = hottest(view, self.settings, directions)
        return rows.take(pa.array(np.sort(listed)))


def _with(frame: PulsarSnapshot, rows: pa.Table) -> PulsarSnapshot:
    bundles = rows.drop_columns([OWN, NAMED, CODE, ROW])
    return PulsarSnapshot.build(frame.manifest, {**frame.tables, "bundles": bundles})


@dataclass(frozen=True, eq=False)
class ClusterVariant(LargeCluster):
    """The cluster with other brokers.

    Attributes:
        origin: As it was.
        brokers_after: Brokers with the load that they have now.
        edited: What has become of the bundles of those that went; ``None`` if none did.
    """

    origin: LargeCluster
    brokers_after: pa.Table
    edited: Edits | None = None

    @cached_property
    def skeleton(self) -> PulsarSnapshot:
        """The small tables, with the brokers of now."""
        tables = {**self.origin.skeleton.tables, "brokers": self.brokers_after}
        return PulsarSnapshot.build(self.manifest, tables)

    @cached_property
    def namespaces(self) -> pa.Table:
        """The declared namespaces, which stay."""
        return self.origin.namespaces

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        """Columns of the bundles that one task reads; unchanged."""
        return self.origin.parts

    @property
    def edits(self) -> Edits | None:
        """Changes of bundles since they were written."""
        return self.edited

    @property
    def fetched(self) -> tuple[str, ...]:
        """Columns of bundles that are brought here."""
        return SIMULATED


@dataclass(frozen=True, eq=False)
class AfterWhatIf:
    """A large cluster after a what-if.

    Attributes:
        cluster: Afterwards.
        moves: Where the bundles went that had lost their broker, in the order of the lookups.
        bundles: Those bundles as they were before, in the same order.
    """

    cluster: ClusterVariant
    moves: tuple[SimulatedMove, ...]
    bundles: pa.Table


def with_other_brokers(
    origin: LargeCluster,
    grown: pa.Table,
    gone: Sequence[str],
    settings: EffectiveSettings,
    manager: Manager,
    rng: np.random.Generator,
) -> AfterWhatIf:
    """Return a cluster after brokers joined and went, as a process with all of it would have it.

    Only the bundles that lose their broker are brought here. They are looked up in random order,
    and as they come in the order of the snapshot's rows, that is the order of the process.

    Args:
        origin: The cluster.
        grown: Its brokers and those that join, sorted by name.
        gone: Names of those that go.
        settings: The leader's active settings.
        manager: Who picks.
        rng: For the draws, and the order of the lookups.
    Raises:
        InputError: The brokers that go have too many bundles.
        ComputeError: Spark failed.
        JobStoppedError: A person stopped it.
    """
    _refuse_too_many(origin, gone)
    whole = _changed(origin, grown)
    if not gone:
        return AfterWhatIf(whole, (), pa.table({}))
    lost = [whole.brokers.index(name) for name in gone]
    reduced = ReducedCluster.of(whole, (), owners=lost)
    view = reduced.view(settings, BucketOrders(whole), is_placed=True)
    done = without_brokers(reduced.snapshot, view, gone, manager, rng)
    bundles = reduced.bundles.take(pa.array(done.rows))
    rows = bundles[ROW].to_numpy()
    order = np.argsort(rows)
    ends = pa.array([move.destination for move in done.moves], pa.string())
    edits = Edits(rows[order], ends.take(pa.array(order)), tuple(gone))
    return AfterWhatIf(_changed(origin, done.snapshot.brokers, edits), done.moves, bundles)


def _changed(origin: LargeCluster, brokers: pa.Table, edits: Edits | None = None) -> ClusterVariant:
    opened = (origin.spark, origin.directory, origin.manifest, origin.progress)
    return ClusterVariant(*opened, origin, brokers, edits)


def _refuse_too_many(origin: LargeCluster, gone: Sequence[str]) -> None:
    """Refuse failures with too many bundles to place one after the other.

    Raises:
        InputError: It is.
    """
    counts = dict(zip(origin.brokers, origin.owned.counts.tolist(), strict=True))
    bundles = sum(counts.get(name, 0.0) for name in gone)
    if bundles > MAX_PLACED:
        raise InputError(
            f"A failure of {pluralize(len(gone), 'broker')} of {origin.manifest.cluster} makes "
            f"{bundles:,.0f} bundles unassigned. The leader places them one after the other; "
            f"Spark simulates at most {MAX_PLACED:,}.",
            hint="`trimtab simulate --engine local` simulates it if one process can "
            "hold the whole cluster.",
        )
