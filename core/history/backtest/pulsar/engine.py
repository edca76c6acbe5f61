"""One candidate simulated on one window: shed, place, unload, report, minute by minute.

Load follows its bundle. Brokers come and go as recorded; what a broker leaves behind is placed
again by the candidate. A bundle that gets its first owner gets the recorded one; the parts of one
that was split in the record begin where the whole was. Nothing that the record's own balancer moved
moves here: that is the candidate's business.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import pyarrow as pa

from core.errors import InputError
from core.history.backtest.model import OPTIMIZER, RECORDED, Candidate
from core.history.backtest.pulsar.dense import Floats, Ints
from core.history.backtest.pulsar.fleet import Bundles, fleet_at
from core.history.backtest.pulsar.leader import Leader
from core.history.backtest.pulsar.moves import Kind, Moves
from core.history.backtest.pulsar.series import LoadSeries
from core.optimize import OptimizeRequest, optimize_view
from core.pulsar.measures import DEFAULT_TARGET
from core.pulsar.placement import find_strategy
from core.pulsar.settings import SHEDDING_SWITCHES, EffectiveSettings, effective_settings
from core.pulsar.shedding import Move, find_shedding_strategy, strategies_run_by
from core.pulsar.shedding.registry import AnyStrategy, active_shedding_strategy
from core.pulsar.shedding.unload_checks import UnloadOutcome
from core.pulsar.split.algorithms import SplitLimits
from core.pulsar.view import LoadView
from core.simulation.managers import ExtensibleManager, Manager, manager_of

_PLACEMENT: Final = "loadBalancerLoadPlacementStrategy"
_SHEDDING: Final = "loadBalancerLoadSheddingStrategy"
_GRACE: Final = "loadBalancerSheddingGracePeriodMinutes"
_INTERVAL: Final = "loadBalancerSheddingIntervalMinutes"

SWITCH: Final = "loadBalancerAutoBundleSplitEnabled"
UNLOADS: Final = "loadBalancerAutoUnloadSplitBundlesEnabled"
SPLIT_SETTINGS: Final = frozenset(
    {
        SWITCH,
        UNLOADS,
        "loadBalancerNamespaceBundleMaxTopics",
        "loadBalancerNamespaceBundleMaxSessions",
        "loadBalancerNamespaceBundleMaxMsgRate",
        "loadBalancerNamespaceBundleMaxBandwidthMbytes",
        "loadBalancerNamespaceMaximumBundles",
    }
)
"""A candidate that sets one of these splits by itself."""

_FEWEST_TOPICS: Final = 2


@dataclass(frozen=True, eq=False)
class SimulatedRun:
    """Simulation of one window under one candidate.

    Attributes:
        traffic: Throughput of each broker, bytes/s, ``(T, b)``; NaN: not there, or unknown.
        moves: What went somewhere else.
        splits: Bundles split in each minute, ``(T,)``.
        shedding: Class name; ``None`` if nothing is shed.
        placement: Class name.
    """

    traffic: Floats
    moves: Moves
    splits: Ints
    shedding: str | None
    placement: str


@dataclass(frozen=True, kw_only=True)
class Rules:
    """By what a candidate is simulated.

    Attributes:
        strategy: Who sheds; ``None`` if none.
        settings: In force.
        is_optimized: Plans of the optimizer are applied instead of shedding.
    """

    strategy: AnyStrategy | None
    settings: EffectiveSettings
    is_optimized: bool = False

    @classmethod
    def of(cls, series: LoadSeries, candidate: Candidate) -> Rules:
        """Return the rules of a candidate on a record's settings.

        A strategy that is named sheds, whatever the switches say; the recorded one only
        if they are on.

        Raises:
            UnknownNameError: A strategy or a setting that does not exist.
        """
        template = series.template
        own: dict[str, object] = dict(candidate.settings)
        if candidate.placement is not None:
            own[_PLACEMENT] = find_strategy(candidate.placement).name
        recorded = effective_settings(template, overrides=own)
        if candidate.shedding == RECORDED:
            is_on = not recorded.shedding_off
            strategy = active_shedding_strategy(template.manifest.load_manager, recorded)
            return cls(strategy=strategy if is_on else None, settings=recorded)
        if candidate.shedding is None:
            return cls(strategy=None, settings=recorded)
        if candidate.shedding == OPTIMIZER:
            return cls(strategy=None, settings=recorded, is_optimized=True)
        strategy = find_shedding_strategy(candidate.shedding)
        assumed = dict.fromkeys(SHEDDING_SWITCHES, True) | own | {_SHEDDING: strategy.name}
        return cls(strategy=strategy, settings=effective_settings(template, overrides=assumed))

    def shedder(self) -> AnyStrategy:
        """Return the shedder.

        Raises:
            InputError: None does.
        """
        if self.strategy is None:
            raise InputError("This candidate does not shed.", hint="Specify a shedding strategy.")
        return self.strategy


def simulate_window(
    series: LoadSeries,
    candidate: Candidate,
    seed: int,
    *,
    tick: Callable[[int, int], None] | None = None,
    has_report_delays: bool = True,
) -> SimulatedRun:
    """Simulate a candidate on a window.

    Args:
        series: The window's record.
        candidate: Not the record itself.
        seed: Everything drawn at random follows from it.
        tick: Gets minutes done and minutes in all, every minute.
        has_report_delays: False: a broker writes its report as soon as a bundle came or went, as
            :func:`core.simulation.simulate` has it.
    Raises:
        UnknownNameError: A strategy or a setting that does not exist.
        InputError: A strategy that cannot be simulated on this record.
    """
    rules = Rules.of(series, candidate)
    run = _Run(series, rules, seed, has_report_delays=has_report_delays)
    run.splitter = Splitter.of(series, candidate, rules.settings)
    rows = series.shape[0]
    for row in range(rows):
        run.minute(row)
        if tick is not None:
            tick(row + 1, rows)
    run.moves.names = run.roster.names
    return SimulatedRun(
        traffic=run.traffic,
        moves=run.moves,
        splits=run.splits,
        shedding=rules.strategy.name
        if rules.strategy
        else OPTIMIZER
        if rules.is_optimized
        else None,
        placement=run.manager.placement,
    )


@dataclass(eq=False)
class _Timer:
    """The leader's clock, in minutes."""

    interval: float
    grace: float
    due: float = 0.0
    unloaded_at: dict[str, float] = field(default_factory=dict)

    def recent(self, now: float) -> frozenset[str]:
        """Return the bundles in their grace period; the others are forgotten."""
        # the leader's timer is set again after each round: at the boundary the time is just over
        recent = {name: at for name, at in self.unloaded_at.items() if now - at < self.grace}
        self.unloaded_at = recent
        return frozenset(recent)


class _Run:
    """The state of a run, and the steps of a minute."""

    def __init__(
        self, series: LoadSeries, rules: Rules, seed: int, *, has_report_delays: bool
    ) -> None:
        self._series = series
        self._settings = rules.settings
        self._strategy = rules.strategy
        self._is_optimized = rules.is_optimized
        self._config: Any = rules.strategy.config(rules.settings) if rules.strategy else None
        self._memory: Any = rules.strategy.initial_state() if rules.strategy else None
        self.manager = manager_for(series, rules)
        self._rng = np.random.default_rng(seed)
        self._leader = Leader(
            series,
            rules.settings,
            has_delays=has_report_delays,
            rng=np.random.default_rng([seed, 1]),
        )
        interval = max(rules.settings.number(_INTERVAL), 1.0)
        self._timer = _Timer(interval, rules.settings.number(_GRACE), due=interval)
        self._owner = series.owner[0].copy()
        rows, brokers, _ = series.shape
        self.traffic = np.full((rows, brokers), np.nan)
        self.splits = np.zeros(rows, np.int64)
        self.moves = Moves(series)
        self.roster = Roster(series)
        self.splitter: Splitter | None = None

    def minute(self, row: int) -> None:
        """Live through a minute of the record."""
        series = self._series
        bundles = self.roster.load(row)
        passed = int(series.minutes[row] - series.minutes[row - 1]) if row else 0
        if row:
            self._follow_record(row, bundles)
            self._place_again(row, bundles)
        fleet = fleet_at(series, row, bundles, self._owner)
        self.traffic[row] = np.where(series.broker_here[row], fleet.traffic, np.nan)
        self._leader.read(row, passed, fleet, bundles, self._owner)
        if self.splitter is not None and np.count_nonzero(series.broker_here[row]) > 1:
            bundles = self._split(row, bundles, self.splitter)
        now = float(series.minutes[row])
        if (self._strategy is not None or self._is_optimized) and self._timer.due < now + 1.0:
            self._round(row, max(self._timer.due, now), bundles)

    def _follow_record(self, row: int, bundles: Bundles) -> None:
        """Give bundles that come, or get their first owner, a place."""
        series, owner = self._series, self._owner
        before = owner.copy()
        owner[~bundles.here] = -1
        fresh = bundles.here & (owner < 0)
        is_part = ~series.bundle_here[row - 1] & (series.parent >= 0)
        came = np.flatnonzero(fresh[: is_part.size] & is_part)
        owner[fresh] = bundles.owner[fresh]
        bound = self.roster.is_bound
        owner[bound] = bundles.owner[bound]
        if came.size:
            parents = series.parent[came]
            whole = before[parents]
            owner[came] = np.where(whole >= 0, whole, owner[came])
            self.splits[row] += np.unique(parents).size

    def _place_again(self, row: int, bundles: Bundles) -> None:
        """Look up the bundles of brokers that went, one after the other, in any order."""
        here = np.append(self._series.broker_here[row], np.True_)  # code -1 has nowhere to leave
        lost = np.flatnonzero(~here[self._owner] & bundles.here)
        if not lost.size:
            return
        self._look_up(row, bundles, lost, "placed again")

    def _split(self, row: int, bundles: Bundles, splitter: Splitter) -> Bundles:
        """Split what is too large; where that is so, the parts are looked up again."""
        rows = splitter.chosen(bundles, self.roster, self._leader)
        if not rows.size:
            return bundles
        parents = self.roster.halve(rows)
        self._leader.grow(parents)
        first = self._owner.size
        self._owner = np.append(self._owner, self._owner[parents])
        self._owner[rows] = -1
        self.splits[row] += rows.size
        bundles = self.roster.load(row)
        if splitter.unloads:
            self._look_up(row, bundles, np.arange(first, self._owner.size), "split")
        return bundles

    def _look_up(self, row: int, bundles: Bundles, lost: Ints, kind: Kind) -> None:
        """Place bundles as clients look them up: one after the other, in any order."""
        sources = self._owner[lost].copy()
        self._owner[lost] = -1
        fleet = fleet_at(self._series, row, bundles, self._owner)
        self._leader.read(row, 0, fleet, bundles, self._owner)
        view = self._leader.view(row, bundles, self._owner, self.roster)
        columns = np.flatnonzero(self._series.broker_here[row])
        available = np.ones(columns.size, np.bool_)
        placed: dict[str, str] = {}
        for at in self._rng.permutation(lost.size).tolist():
            found = self.manager.lookup(view, int(lost[at]), placed, available)
            end = self._drawn(found)
            if end is None:
                continue
            placed[str(view.bundles[lost[at]])] = end
            self._owner[lost[at]] = columns[view.broker_index[end]]
        ends = self._owner[lost]
        self._leader.touch(ends[ends >= 0])
        went = np.flatnonzero(ends != sources)
        if went.size:
            self.moves.add(row, kind, lost[went], (sources[went], ends[went]), bundles)

    def _drawn(self, chances: Mapping[str, float]) -> str | None:
        names = sorted(chances)
        weights = np.array([chances[name] for name in names])
        if not names or weights.sum() <= 0:
            return None
        return names[int(self._rng.choice(len(names), p=weights / weights.sum()))]

    def _round(self, row: int, start: float, bundles: Bundles) -> None:
        """One round of the leader, or one plan of the optimizer."""
        view = self._leader.view(row, bundles, self._owner, self.roster)
        recent = self._timer.recent(start)
        if self._strategy is None:
            self._apply_plan(row, start, view, recent, bundles)
            return
        decision, self._memory = self._strategy.decide(view, self._config, self._memory, recent)
        clock = start
        size = int(min(self.manager.unloads_per_minute, max(len(decision.moves), 1)))
        for first in range(0, len(decision.moves), size):
            if first:  # brokers have reported what the unloads so far have changed
                fleet = fleet_at(self._series, row, bundles, self._owner)
                self._leader.report(row, fleet, bundles, self._owner)
                view = self._leader.view(row, bundles, self._owner, self.roster)
            portion = decision.moves[first : first + size]
            clock += self._unload(row, clock, view, portion, bundles)
        self._timer.due = clock + self._timer.interval

    def _apply_plan(
        self, row: int, start: float, view: LoadView, recent: frozenset[str], bundles: Bundles
    ) -> None:
        """Unload what the optimizer needs to, each bundle to the broker that it names."""
        request = OptimizeRequest(recently_moved=tuple(sorted(recent)))
        request = request.for_target(DEFAULT_TARGET.bound)  # a record has no target of its own
        proposal = optimize_view(view, request, self._settings)
        going = [
            (one.bundle, one.source, one.destination) for one in proposal.moves[: proposal.needed]
        ]
        self._timer.due = start + self._execute(row, start, view, going, bundles)
        self._timer.due += self._timer.interval

    def _unload(
        self, row: int, clock: float, view: LoadView, portion: Sequence[Move], bundles: Bundles
    ) -> float:
        """Unload what passes the checks; return how many minutes that took."""
        going = self._going(list(self.manager.unload_outcomes(view, portion)))
        minutes = self._execute(row, clock, view, going, bundles)
        if going:
            last = [Move(source, name, end) for name, source, end in going]
            self._memory = self.manager.remembered(view, self._memory, last)
        return minutes

    def _execute(
        self,
        row: int,
        clock: float,
        view: LoadView,
        going: Sequence[tuple[str, str, str]],
        bundles: Bundles,
    ) -> float:
        """Move bundles, each with its source and destination; return the minutes that takes."""
        if not going:
            return 0.0
        columns = np.flatnonzero(self._series.broker_here[row])
        rows = np.array([view.bundle_index[name] for name, _, _ in going], np.int64)
        sources = columns[[view.broker_index[source] for _, source, _ in going]].astype(np.int32)
        ends = columns[[view.broker_index[end] for _, _, end in going]].astype(np.int32)
        self._owner[rows] = ends
        self._leader.touch(np.append(sources, ends))
        self._timer.unloaded_at |= {name: clock for name, _, _ in going}
        self.moves.add(row, "unload", rows, (sources, ends), bundles)
        return len(going) / self.manager.unloads_per_minute

    def _going(self, unload_outcomes: Sequence[UnloadOutcome]) -> list[tuple[str, str, str]]:
        """Draw destinations: bundle, source, destination of what leaves its broker."""
        going = []
        for outcome in unload_outcomes:
            if outcome.skipped:
                continue
            end = self._drawn(outcome.distribution)
            if end is not None and end != outcome.move.broker:
                going.append((outcome.move.bundle, outcome.move.broker, end))
        return going


def manager_for(series: LoadSeries, rules: Rules) -> Manager:
    """Return the manager that checks and places.

    Raises:
        InputError: A strategy that cannot be simulated on this record.
    """
    template = series.template
    if rules.strategy is None and template.manifest.load_manager == "extensible":
        return ExtensibleManager(rules.settings)
    strategy = rules.strategy or strategies_run_by("modular")[0]
    return manager_of(template, strategy, rules.settings)


class Roster:
    """All bundles of a run: the recorded ones, and parts of them at the end."""

    def __init__(self, series: LoadSeries) -> None:
        self._series = series
        count = series.shape[2]
        bundles = series.template.bundles
        self.names: list[str] = []
        self.column = np.arange(count)
        self.share = np.ones(count)
        self.is_whole = np.ones(count, np.bool_)
        self.lower = np.asarray(bundles["lower"].to_numpy(), np.int64)
        self.upper = np.asarray(bundles["upper"].to_numpy(), np.int64)
        self.is_bound = series.is_bound
        spaces = bundles["namespace"].combine_chunks().dictionary_encode().indices
        self.namespace = np.asarray(spaces.to_numpy(), np.int64)
        self._fields: dict[str, Any] = {}

    @property
    def has_grown(self) -> bool:
        """Whether a bundle was split."""
        return bool(self.names)

    def load(self, row: int) -> Bundles:
        """Return the load of all bundles in a minute of the record."""
        whole = Bundles.recorded(self._series, row)
        if not self.has_grown:
            return whole
        at, brokers = self.column, self._series.shape[1]
        here = whole.here[at] & self.is_whole
        owner = whole.owner[at]
        sign = np.where(self.is_whole, 1.0, -1.0)  # one that was split is counted in the record
        sign[: whole.here.size][self.is_whole[: whole.here.size]] = 0.0
        counts = np.bincount(owner + 1, weights=sign * whole.here[at], minlength=brokers + 1)
        return Bundles(
            rates=tuple(rate[at] * self.share for rate in whole.rates),
            topics=whole.topics[at] * self.share,
            clients=whole.clients[at] * self.share,
            here=here,
            is_known=whole.is_known[at],
            owner=np.where(here, owner, -1).astype(np.int32),
            reporter=np.where(here, whole.reporter[at], -1).astype(np.int32),
            surplus=counts[1:].astype(np.float64),
        )

    def halve(self, rows: Ints) -> Ints:
        """Split bundles in the middle of their ranges; return the bundle that each part is of."""
        self.names = self.names or [str(name) for name in self._series.bundles]
        middle = (self.lower[rows] + self.upper[rows]) // 2
        lower = np.stack([self.lower[rows], middle], axis=1).ravel()
        upper = np.stack([middle, self.upper[rows]], axis=1).ravel()
        parents = np.repeat(rows, 2)
        for parent, low, high in zip(parents.tolist(), lower.tolist(), upper.tolist(), strict=True):
            space = self.names[parent].rpartition("/")[0]
            self.names.append(f"{space}/0x{low:08x}_0x{high:08x}")
        self.is_whole[rows] = False
        self.is_whole = np.append(self.is_whole, np.ones(parents.size, np.bool_))
        self.column = np.append(self.column, self.column[parents])
        self.share = np.append(self.share, self.share[parents] / 2)
        self.is_bound = np.append(self.is_bound, self.is_bound[parents])
        self.namespace = np.append(self.namespace, self.namespace[parents])
        self.lower, self.upper = np.append(self.lower, lower), np.append(self.upper, upper)
        self._fields = {}
        return parents

    def fields(self, base: LoadView) -> dict[str, Any]:
        """Return the fields of a view that name bundles; none while nothing was split."""
        if self.has_grown and not self._fields:
            index = {name: row for row, name in enumerate(self.names)}
            self._fields = {
                "bundles": np.array(self.names, object),
                "bundle_names": pa.chunked_array([pa.array(self.names, pa.string())]),
                "shared_index": lambda: index,
                "bundle_namespace": base.bundle_namespace[self.column],
                "is_broker_bound": self.is_bound,
            }
        return self._fields


class Splitter:
    """The leader's check for bundles that are too large."""

    def __init__(self, settings: EffectiveSettings) -> None:
        self._limits = SplitLimits.of(settings)
        self.unloads = settings.flag(UNLOADS)

    @classmethod
    def of(
        cls, series: LoadSeries, candidate: Candidate, settings: EffectiveSettings
    ) -> Splitter | None:
        """Return the split check of a candidate, or ``None`` if it does not split automatically."""
        is_own = not SPLIT_SETTINGS.isdisjoint(candidate.settings)
        is_modular = series.template.manifest.load_manager != "extensible"
        return cls(settings) if is_own and is_modular and settings.flag(SWITCH) else None

    def chosen(self, bundles: Bundles, roster: Roster, leader: Leader) -> Ints:
        """Return the rows that are split now, in row order (deviation SP-1).

        Args:
            bundles: Load now.
            roster: All bundles.
            leader: For its averages, and what it counts.
        """
        limits = self._limits
        rate, flow = leader.long_averages
        is_over = (bundles.topics > limits.topics) | (rate > limits.msgs_per_s)
        is_over |= flow > limits.bytes_per_s
        if limits.sessions > 0:
            is_over |= bundles.clients > limits.sessions
        may = bundles.here & (leader.counted >= 0) & ~roster.is_bound
        may &= (np.rint(bundles.topics) >= _FEWEST_TOPICS) & (roster.upper - roster.lower > 1)
        rows = np.flatnonzero(is_over & may)
        if not rows.size:
            return rows
        space = roster.namespace
        room = limits.bundles - np.bincount(space[bundles.here], minlength=int(space.max()) + 1)
        return rows[_turns(space[rows]) < room[space[rows]]]


def _turns(namespace: Ints) -> Ints:
    """Return the number of preceding rows of the same namespace."""
    order = np.argsort(namespace, kind="stable")
    sorted_ = namespace[order]
    turns = np.empty(namespace.size, np.int64)
    turns[order] = np.arange(namespace.size) - np.searchsorted(sorted_, sorted_)
    return turns
