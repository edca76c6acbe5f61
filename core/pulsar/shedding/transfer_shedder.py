"""TransferShedder: usage is brought to a target spread by transfers and swaps.

Source: Pulsar ``broker.loadbalance.extensions.scheduler.TransferShedder`` (extensible manager).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from typing import ClassVar, Final

import numpy as np

from core.ids import namespace_of
from core.pulsar.extensible_loads import ExtensibleLoads, TopBundle
from core.pulsar.java.maps import concurrent_order, spread_hashes
from core.pulsar.placement.extensible import ExtensibleContext, extensible_filters
from core.pulsar.settings import EffectiveSettings
from core.pulsar.shedding.gates import at_least, below, one_of, place_by_usage
from core.pulsar.shedding.model import (
    BrokerTrace,
    Decision,
    Gate,
    Move,
    Reason,
    RelativeLoadStrategy,
)
from core.pulsar.shedding.picking import UNBOUNDED, fact, fit
from core.pulsar.view import Flags, LoadView
from core.snapshot import LoadManager
from core.units import format_bytes_per_s, format_ratio, pluralize

_NO_LOADS: Final = (
    "The load data that brokers publish was not read, and TransferShedder "
    "requires it. See the problems of the snapshot; `trimtab capture` "
    "prints them."
)

UPSTREAM_REASONS: Final[Mapping[str, str]] = {
    "hit_count": "HitCount",
    "no_bundles": "NoBundles",
    "cool_down": "CoolDown",
    "outdated_data": "OutDatedData",
    "no_load_data": "NoLoadData",
    "no_brokers": "NoBrokers",
}
"""Names of ``UnloadDecision.Reason`` for rounds without moves."""

_SWAP_LIMIT: Final = 0.75
"""A swap must leave the source with less than this part of its throughput."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferConfig:
    """Settings of TransferShedder.

    Attributes:
        target_std: ``loadBalancerBrokerLoadTargetStd``: tolerated spread of usage, ratio.
        hit_rounds: ``loadBalancerSheddingConditionHitCountThreshold``: it acts on the round after
            this many in a row.
        transfers: ``loadBalancerTransferEnabled``: destinations are given, and bundles swapped.
        most_brokers: ``loadBalancerMaxNumberOfBrokerSheddingPerCycle``.
        delay_s: ``loadBalanceSheddingDelayInSeconds``: rest after a broker gave something.
        ttl_s: ``loadBalancerBrokerLoadDataTTLInSeconds``: older records are ignored.
        overload_ratio: ``loadBalancerBrokerOverloadedThresholdPercentage``, as ratio.
        moves_policed: ``loadBalancerSheddingBundlesWithPoliciesEnabled``.
        is_debug: ``loadBalancerDebugModeEnabled``: only then is swapped-back traffic counted.
        excluded: ``loadBalancerSheddingExcludedNamespaces``.
        moves_idle: By release: bundles without traffic are moved, too.
        counts_bytes: By release: traffic under 1 byte/s is too little, whatever the busiest has.
        settings: All of them, for the broker filters.
    """

    target_std: float
    hit_rounds: int
    transfers: bool
    most_brokers: int
    delay_s: int
    ttl_s: int
    overload_ratio: float
    moves_policed: bool
    is_debug: bool
    excluded: frozenset[str]
    moves_idle: bool
    counts_bytes: bool
    settings: EffectiveSettings = field(repr=False)

    @property
    def under_ratio(self) -> float:
        """Below which part of the mean (or of the busiest one's traffic) a broker is idle."""
        return min(0.5, max(0.0, self.target_std / 2.0))


@dataclass(slots=True)
class UsageSpread:
    """Mean and standard deviation of usage, updated while load is moved.

    Source:
        Pulsar ``TransferShedder.LoadStats``.
    """

    count: int
    mean: float
    square_sum: float
    std: float

    @classmethod
    def of(cls, usage: np.ndarray) -> UsageSpread:
        """Add up from left to right, as Java does."""
        total = float(np.cumsum(usage)[-1])
        squares = float(np.cumsum(usage * usage)[-1])
        mean = total / usage.size
        return cls(usage.size, mean, squares, _root(squares / usage.size - mean * mean))

    def move(self, source: float, target: float, amount: float) -> None:
        """Count usage that goes from one broker to another."""
        self.square_sum -= source * source + target * target
        left, grown = max(0.0, source - amount), target + amount
        self.square_sum += left * left + grown * grown
        self.std = _root(abs(self.square_sum / self.count - self.mean * self.mean))


def _entry(top: Iterable[TopBundle], bundle: str) -> TopBundle | None:
    return next((entry for entry in top if entry.bundle == bundle), None)


def _root(value: float) -> float:
    """Return the square root; NaN of what is negative, as Java has it."""
    return math.sqrt(value) if value >= 0 else math.nan


def _quotient(value: float, divisor: float) -> float:
    """Divide as Java does: by zero it is infinite, or NaN."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return float(np.float64(value) / np.float64(divisor))


@dataclass(slots=True)
class BrokerOutcome:
    """Outcome of one busy broker.

    Attributes:
        busy: Broker row.
        idle: Broker row.
        target: bytes/s that should go.
        given: bytes/s that go.
        words: Why nothing goes; blank when something does.
        rooms: bytes/s that were still to go when the turn of a bundle came.
        goes_idle: Only bundles without traffic go, as some releases have it.
    """

    busy: int
    idle: int
    target: float = 0.0
    given: float = 0.0
    words: str = ""
    rooms: dict[str, float] = field(default_factory=dict)
    goes_idle: bool = False

    @property
    def sheds(self) -> bool:
        """Whether bundles leave the busy broker."""
        return self.given > 0 or self.goes_idle


@dataclass(slots=True, kw_only=True)
class Cycle:
    """One cycle over brokers in rising order of load.

    Attributes:
        view: The cluster.
        loads: What its brokers publish.
        config: The settings of the strategy.
        recent: Bundles in their grace period.
        order: Broker rows, rising load; ties in the order of the leader's map.
        spread: Brought up to date while moving.
        moves: Found so far.
        reasons: One a move.
        handled: Busy brokers that were looked at, in order.
        lacks_load: How often load data were missing.
        lacks_bundles: How often no bundle could go.
    """

    view: LoadView
    loads: ExtensibleLoads
    config: TransferConfig
    recent: AbstractSet[str]
    order: list[int]
    spread: UsageSpread
    moves: list[Move] = field(default_factory=list)
    reasons: list[Reason] = field(default_factory=list)
    handled: list[BrokerOutcome] = field(default_factory=list)
    lacks_load: int = 0
    lacks_bundles: int = 0
    _low: int = 0
    _high: int = 0
    _masks: dict[str, Flags] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._high = len(self.order) - 1

    # -- the three conditions -----------------------------------------------------------------

    def is_under(self, row: int) -> bool:
        """Whether a broker is idle compared with the mean, or has too little traffic."""
        if self.loads.usage[row] < self.spread.mean * self.config.under_ratio:
            return True
        return bool(self.loads.throughput_ema[row] < self.min_throughput())

    def min_throughput(self) -> float:
        """Return below which traffic a broker is idle, bytes/s."""
        if self.config.counts_bytes:
            return 1.0
        busiest = float(self.loads.throughput_ema[self.order[self._high]])
        return busiest * self.config.under_ratio

    def is_over(self, row: int) -> bool:
        """Whether a broker is overloaded, and far above the mean."""
        usage = self.loads.usage[row]
        line = self.spread.mean + self.config.target_std
        return bool(usage > self.config.overload_ratio and usage > line)

    def reason(self) -> Reason | None:
        """Return the reason to continue with the outermost pair, or ``None`` if even enough."""
        if self.spread.std > self.config.target_std:
            return "overloaded"
        if self.is_under(self.order[self._low]):
            return "underloaded"
        return "overloaded" if self.is_over(self.order[self._high]) else None

    # -- moving -------------------------------------------------------------------------------

    def run(self) -> None:
        """Go through pairs from the outside in.

        Source:
            Pulsar ``TransferShedder#findBundlesForUnloading``, after the hit count.
        """
        done = 0
        while done < self.config.most_brokers and self._low < self._high:
            reason = self.reason()
            if reason is None:
                return
            busy, idle = self.order[self._high], self.order[self._low]
            self._high -= 1
            done += self._offload(busy, idle, reason)

    def _offload(self, busy: int, idle: int, reason: Reason) -> bool:
        """Move what can be moved from a busy to an idle broker; whether anything was."""
        name = self.view.brokers[busy]
        usage, other = float(self.loads.usage[busy]), float(self.loads.usage[idle])
        flow = float(self.loads.throughput[busy])
        pair = BrokerOutcome(busy, idle, _quotient(flow * ((usage - other) / 2.0), usage))
        self.handled.append(pair)
        top = self.loads.top.get(name, ())
        if not top:
            self.lacks_load += 1
            pair.words = "it published no top bundles"
            return False
        if len(top) == 1:
            self.lacks_bundles += 1
            pair.words = f"{top[0].bundle} is its only published bundle"
            return False
        before = len(self.moves)
        given, gained = self._pick(pair, top, reason)
        pair.goes_idle = given <= 0 and len(self.moves) > before
        if given <= 0:
            self.lacks_bundles += 1
            return False
        pair.given = given - gained
        self.spread.move(usage, other, _quotient((given - gained) * usage, flow))
        self._low += 1
        return True

    def _pick(
        self, pair: BrokerOutcome, top: tuple[TopBundle, ...], reason: Reason
    ) -> tuple[float, float]:
        """Pick bundles, coldest first; return bytes/s given, and bytes/s counted as gained."""
        names = self.view.brokers
        back = self.loads.top.get(names[pair.idle])
        swaps = None if back is None else iter(back)
        given = gained = 0.0
        left = len(top)
        for entry in top:
            if self._stays(entry, pair.idle):
                continue
            if left <= 1:
                pair.words = pair.words or "at most one of its published bundles would stay"
                break
            if self._has_no_weight(entry):
                continue
            pair.rooms[entry.bundle] = pair.target - given + gained
            if given - gained + entry.throughput > pair.target:
                swapped = self._swap(pair, swaps, entry.throughput, (given, gained))
                if not swapped:
                    pair.words = f"{entry.bundle} carries more than the amount to shed"
                    break
                self._add(swapped, pair.idle, pair.busy, reason)
                gained += self._counted(swapped)
            self._add([entry], pair.busy, pair.idle, reason)
            given += entry.throughput
            left -= 1
        pair.words = pair.words or "none of its published bundles can move"
        return given, gained

    def why_done(self) -> str:
        """Return the reason no further broker had its turn."""
        if sum(pair.given > 0 for pair in self.handled) >= self.config.most_brokers:
            return f"at most {pluralize(self.config.most_brokers, 'broker')} can shed in a round"
        if self._low >= self._high:
            return "no destination is left"
        return "then the load is balanced"

    def room_gate(self, pair: BrokerOutcome) -> Gate:
        """Return the gate on what a busy broker could give: the last bundle whose turn came."""
        last = next(reversed(pair.rooms), None)
        if last is None:
            return at_least("with traffic and movable:", 0.0, 1.0, "bundles")
        if pair.sheds and math.isnan(pair.target):
            return replace(fact(UNBOUNDED, is_open=True), name="traffic to shed")
        if pair.sheds:
            is_strict = not pair.goes_idle
            return at_least("traffic to shed", pair.target, 0.0, "bytes/s", is_strict=is_strict)
        entry = _entry(self.loads.top[self.view.brokers[pair.busy]], last)
        size = entry.throughput if entry else 0.0
        return at_least(f"amount for {last}:", pair.rooms[last], size, "bytes/s")

    def pick(self, bundle: str) -> Gate | None:
        """Return whether a bundle of a relieved broker is selected."""
        owner = next((name for name, top in self.loads.top.items() if _entry(top, bundle)), None)
        if owner is None:
            return fact(
                "it is not among the hottest bundles, the only ones that a broker publishes"
            )
        pair = next((one for one in self.handled if self.view.brokers[one.busy] == owner), None)
        if any(move.bundle == bundle for move in self.moves) and (
            pair is None or bundle not in pair.rooms
        ):
            return fact("it is swapped for a bundle that would have been too large", is_open=True)
        if pair is None:
            return None
        entry = _entry(self.loads.top[owner], bundle)
        if entry is None or self._stays(entry, pair.idle):
            return fact(
                "its owner, namespace, grace period or policies exclude "
                f"{self.view.brokers[pair.idle]}"
            )
        if bundle not in pair.rooms:
            is_idle = entry.throughput == 0
            return fact(
                "it has no traffic" if is_idle else f"its turn was not reached: {pair.words}"
            )
        is_open = any(move.bundle == bundle for move in self.moves)
        return fit(pair.rooms[bundle], entry.throughput, is_open=is_open)

    def _has_no_weight(self, entry: TopBundle) -> bool:
        """Whether a bundle is skipped because it has no traffic."""
        return entry.throughput == 0 and not self.config.moves_idle

    def _counted(self, swapped: list[TopBundle]) -> float:
        """Return swapped-back traffic; upstream counts it in a branch of a log statement only."""
        total = 0.0
        for entry in swapped if self.config.is_debug else ():
            total += entry.throughput
        return total

    def _swap(
        self,
        pair: BrokerOutcome,
        swaps: Iterator[TopBundle] | None,
        amount: float,
        so_far: tuple[float, float],
    ) -> list[TopBundle]:
        """Return bundles of the idle broker that compensate a too large one; empty if impossible.

        What was looked at is not looked at again for the next bundle: the iterator goes on.

        Args:
            pair: Busy and idle broker.
            swaps: Published bundles of the idle one.
            amount: bytes/s of the bundle that is too large.
            so_far: bytes/s given and gained before it.
        """
        given, gained = so_far
        if not self.config.transfers or swaps is None:
            return []
        whole = float(self.loads.throughput[pair.busy])
        busy_after = whole - given + gained - amount
        idle_after = float(self.loads.throughput[pair.idle]) + given - gained + amount
        found: list[TopBundle] = []
        for entry in swaps:
            size = entry.throughput
            if not self._may_go(entry.bundle, pair.busy) or self._has_no_weight(entry):
                continue
            if busy_after + size < whole and idle_after - size < whole:
                found.append(entry)
                busy_after, idle_after = busy_after + size, idle_after - size
                if idle_after <= busy_after < whole * _SWAP_LIMIT:
                    return found
        return []

    def _add(self, entries: list[TopBundle], source: int, target: int, reason: Reason) -> None:
        names = self.view.brokers
        destination = names[target] if self.config.transfers else None
        self.moves += [Move(names[source], entry.bundle, destination) for entry in entries]
        self.reasons += [reason] * len(entries)

    def _stays(self, entry: TopBundle, target: int) -> bool:
        return (
            not entry.is_owned
            or namespace_of(entry.bundle) in self.config.excluded
            or entry.bundle in self.recent
            or not self._may_go(entry.bundle, target)
        )

    def _may_go(self, bundle: str, target: int) -> bool:
        """Whether policies and broker filters allow a bundle on a broker.

        Source:
            Pulsar ``TransferShedder#isTransferable``.
        """
        namespace = namespace_of(bundle)
        row = self.view.namespace_index.get(namespace)
        if row is None:
            return True
        view = self.view
        is_policed = view.namespace_policy[row] >= 0 or view.namespace_group[row] >= 0
        if is_policed and not self.config.moves_policed:
            return False
        if namespace not in self._masks:
            context = ExtensibleContext.of(view, self.config.settings)
            filtered = extensible_filters(context, np.array([row], np.int64))
            self._masks[namespace] = filtered.candidates[0] & ~filtered.version_failed[0]
        return bool(self._masks[namespace][target])


@dataclass(frozen=True, slots=True)
class TransferState:
    """TransferShedder's state.

    Attributes:
        hits: Rounds in a row in which the load was uneven.
        gave_at_ms: ``{broker: ms since the epoch}`` of the brokers that gave a bundle recently: the
            manager's memory, not the class's own.
    """

    hits: int = 0
    gave_at_ms: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _UsableBrokers:
    """Rows with usable records in the leader's order, or why the round ends here."""

    rows: np.ndarray
    ordered: np.ndarray
    state: TransferState
    skip: tuple[Reason, str] | None = None


@dataclass(frozen=True, slots=True)
class TransferShedder(RelativeLoadStrategy):
    """The busiest broker gives to the idlest until usage is spread little enough.

    Source:
        Pulsar ``TransferShedder#findBundlesForUnloading``, 3.0 to 5.0.
    Parity:
        The same set of moves (the real class answers with a hash set), quirks included: swapped
        traffic counts in debug mode only. TRANSFER-1: records of brokers that are not registered
        any more count for the real class until they are withdrawn; here they are ignored.
    """

    name: ClassVar[str] = "TransferShedder"
    summary: ClassVar[str] = (
        "Transfers and swaps bundles until the usage spread is below the target."
    )
    package: ClassVar[str] = "org.apache.pulsar.broker.loadbalance.extensions.scheduler"
    manager: ClassVar[LoadManager] = "extensible"
    measure: ClassVar[str] = ""
    checks_itself: ClassVar[bool] = True
    counts_rounds: ClassVar[bool] = True
    fitting_placement: ClassVar[str] = ""
    memory: ClassVar[str] = ""
    adjustable: ClassVar[tuple[str, ...]] = (
        "loadBalancerBrokerLoadTargetStd",
        "loadBalancerSheddingConditionHitCountThreshold",
        "loadBalancerMaxNumberOfBrokerSheddingPerCycle",
        "loadBalancerTransferEnabled",
    )
    deciding: ClassVar[tuple[str, ...]] = (
        "loadBalancerBrokerLoadTargetStd",
        "loadBalancerSheddingConditionHitCountThreshold",
        "loadBalancerBrokerOverloadedThresholdPercentage",
        "loadBalancerMaxNumberOfBrokerSheddingPerCycle",
        "loadBalanceSheddingDelayInSeconds",
        "loadBalancerBrokerLoadDataTTLInSeconds",
        "loadBalancerTransferEnabled",
        "loadBalancerSheddingBundlesWithPoliciesEnabled",
    )

    def config(self, settings: EffectiveSettings) -> TransferConfig:
        """Return its settings."""
        prefix = "loadBalancer"
        hits = settings.number(f"{prefix}SheddingConditionHitCountThreshold")
        overloaded = settings.number(f"{prefix}BrokerOverloadedThresholdPercentage")
        return TransferConfig(
            target_std=settings.number(f"{prefix}BrokerLoadTargetStd"),
            hit_rounds=int(hits),
            transfers=settings.flag(f"{prefix}TransferEnabled"),
            most_brokers=int(settings.number(f"{prefix}MaxNumberOfBrokerSheddingPerCycle")),
            delay_s=int(settings.number("loadBalanceSheddingDelayInSeconds")),
            ttl_s=int(settings.number(f"{prefix}BrokerLoadDataTTLInSeconds")),
            overload_ratio=overloaded / 100.0,
            moves_policed=settings.flag(f"{prefix}SheddingBundlesWithPoliciesEnabled"),
            is_debug=settings.flag(f"{prefix}DebugModeEnabled"),
            excluded=settings.excluded_namespaces,
            moves_idle=settings.rules.transfer_moves_idle,
            counts_bytes=settings.rules.transfer_counts_bytes,
            settings=settings,
        )

    def initial_state(self) -> TransferState:
        """Return the memory of a leader that just started."""
        return TransferState()

    def decide(
        self,
        view: LoadView,
        config: TransferConfig,
        state: TransferState,
        recently_unloaded: AbstractSet[str] = frozenset(),
        /,
    ) -> tuple[Decision, TransferState]:
        """Return this round's transfers, and the memory for the next one."""
        loads = view.extensible
        if loads is None:
            return Decision(label="skip", reason="unavailable", sentence=_NO_LOADS), state
        fresh = _fresh(view, loads, config, state)
        state = fresh.state
        if fresh.skip is not None:
            return _skipped(*fresh.skip), state
        cycle = Cycle(
            view=view,
            loads=loads,
            config=config,
            recent=recently_unloaded,
            order=fresh.ordered.tolist(),
            spread=UsageSpread.of(loads.usage[fresh.rows]),
        )
        gates = _cluster_gates(cycle)
        is_uneven = cycle.reason() is not None
        state = replace(state, hits=state.hits + 1 if is_uneven else 0)
        hits = at_least(
            "consecutive rounds",
            float(state.hits),
            float(config.hit_rounds),
            "rounds",
            is_strict=True,
        )
        if not hits.is_open:
            sentence = _waiting(cycle, hits, is_uneven=is_uneven)
            trace = (
                BrokerTrace(broker=None, sheds=False, gates=(*gates, hits), sentence=sentence),
            )
            return _skipped("hit_count", f"{sentence}.", trace), state
        before = cycle.spread.std
        cycle.run()
        decision = _decided(cycle, before, (*gates, hits))
        return decision, replace(state, hits=0) if decision.moves else state

    def patient_state(self, _view: LoadView, config: TransferConfig, /) -> TransferState:
        """Return the memory after as many uneven rounds as it counts."""
        return TransferState(hits=max(config.hit_rounds, 0))

    def with_recent_sources(
        self, state: TransferState, gave_at_ms: Mapping[str, int], /
    ) -> TransferState:
        """Return the memory with these brokers at rest."""
        return replace(state, gave_at_ms=dict(gave_at_ms))

    def after_unloads(
        self, view: LoadView, state: TransferState, moves: Sequence[Move], /
    ) -> TransferState:
        """Return the memory after moves were executed: their sources rest, the cluster with them.

        Source:
            Pulsar ``UnloadScheduler#execute``.
        """
        if view.extensible is None:
            return state
        gave = dict.fromkeys((move.broker for move in moves), view.extensible.taken_at_ms)
        return replace(state, gave_at_ms={**state.gave_at_ms, **gave})


def _skipped(reason: Reason, why: str, trace: tuple[BrokerTrace, ...] = ()) -> Decision:
    """Return a round without moves, with the class's own name of the reason in the sentence."""
    sentence = f"Nothing to unload ({UPSTREAM_REASONS[reason]}): {why}"
    return Decision(label="skip", reason=reason, sentence=sentence, explain=lambda: trace)


def _fresh(
    view: LoadView, loads: ExtensibleLoads, config: TransferConfig, state: TransferState
) -> _UsableBrokers:
    """Take the records that count.

    Source:
        Pulsar ``TransferShedder.LoadStats#update`` and ``#setLoadDataStore``.
    """
    known = np.flatnonzero(loads.has_load)
    known = known[np.argsort(np.array([view.brokers[row] for row in known], np.str_))]
    known = known[concurrent_order(spread_hashes([view.brokers[row] for row in known]))]
    ordered = known[np.argsort(loads.usage[known], kind="stable")]
    is_old = loads.taken_at_ms - loads.updated_at_ms[known] > config.ttl_s * 1000
    rows = known[~is_old]
    rested = dict(state.gave_at_ms)
    for row in rows.tolist():
        name = view.brokers[row]
        if name not in rested:
            continue
        elapsed_ms = int(loads.updated_at_ms[row]) - rested[name]
        if elapsed_ms < config.delay_s * 1000:
            why = (
                f"{name} shed bundles {elapsed_ms / 1000:.0f} s before its last record; "
                f"the whole cluster waits for {config.delay_s} s."
            )
            return _UsableBrokers(
                rows, ordered, replace(state, gave_at_ms=rested), ("cool_down", why)
            )
        rested.pop(name)
    return _UsableBrokers(
        rows, ordered, replace(state, gave_at_ms=rested), _lack(view, loads, is_old, rows.size)
    )


def _lack(
    view: LoadView, loads: ExtensibleLoads, is_old: np.ndarray, count: int
) -> tuple[Reason, str] | None:
    """Return the reason the records are insufficient."""
    if not count and is_old.any():
        return "outdated_data", "every broker's record is too old."
    if not count:
        return "no_brokers", "no broker published its load."
    unheard = (view.brokers[row] for row in np.flatnonzero(~loads.has_load))
    missing = [name for name in unheard if name not in view.dead]
    if missing:
        who = f"{pluralize(len(missing), 'broker')} published no load yet, for example {missing[0]}"
        return "no_load_data", f"{who}; TransferShedder waits for all."
    return None


def _cluster_gates(cycle: Cycle) -> tuple[Gate, ...]:
    """The three conditions, one of which suffices."""
    config, loads, spread = cycle.config, cycle.loads, cycle.spread
    low, high = cycle.order[0], cycle.order[-1]
    names = cycle.view.brokers
    ratio = config.under_ratio
    min_flow = cycle.min_throughput()
    std = 0.0 if math.isnan(spread.std) else spread.std  # all are equal but for rounding
    return one_of(
        at_least("spread of usage (std)", std, config.target_std, "ratio", is_strict=True),
        below(f"usage of {names[low]}", float(loads.usage[low]), spread.mean * ratio, "ratio"),
        below(f"traffic of {names[low]}", float(loads.throughput_ema[low]), min_flow, "bytes/s"),
        at_least(
            f"usage of {names[high]}",
            float(loads.usage[high]),
            max(config.overload_ratio, spread.mean + config.target_std),
            "ratio",
            is_strict=True,
        ),
    )


def _waiting(cycle: Cycle, hits: Gate, *, is_uneven: bool) -> str:
    spread = f"usage spread is {format_ratio(cycle.spread.std)}"
    if not is_uneven:
        target = format_ratio(cycle.config.target_std)
        return f"{spread}, the target is {target}, and no broker is idle or overloaded"
    left = int(hits.distance)
    return f"{spread}; TransferShedder acts after {pluralize(left, 'more uneven round')}"


def _decided(cycle: Cycle, before: float, gates: tuple[Gate, ...]) -> Decision:
    moves = tuple(cycle.moves)
    trace = _trace(cycle, gates)
    if moves:
        pairs = sum(pair.sheds for pair in cycle.handled)
        return Decision(
            label="success",
            reason=cycle.reasons[0],
            moves=moves,
            sentence=f"TransferShedder moves {pluralize(len(moves), 'bundle')} between "
            f"{pluralize(pairs, 'pair')} of brokers; the usage spread changes from "
            f"{format_ratio(before)} to {format_ratio(cycle.spread.std)}.",
            explain=lambda: trace,
            pick=cycle.pick,
        )
    reason: Reason = "hit_count"
    if cycle.lacks_load:
        reason = "no_load_data"
    elif cycle.lacks_bundles:
        reason = "no_bundles"
    names = cycle.view.brokers
    handled = [f"{names[pair.busy]}: {pair.words}" for pair in cycle.handled]
    why = "; ".join(handled) or "there is no pair of brokers to level"
    return _skipped(reason, f"{why}.", trace)


def _trace(cycle: Cycle, gates: tuple[Gate, ...]) -> tuple[BrokerTrace, ...]:
    whole = BrokerTrace(
        broker=None,
        sheds=bool(cycle.moves),
        gates=gates,
        sentence="the load has been uneven for long enough",
    )
    ranked = cycle.order[::-1]
    pairs = [_pair_trace(cycle, pair, ranked.index(pair.busy) + 1) for pair in cycle.handled]
    return (whole, *pairs, *_others(cycle, ranked))


def _pair_trace(cycle: Cycle, pair: BrokerOutcome, place: int) -> BrokerTrace:
    """The gates of a busy broker whose turn came."""
    names = cycle.view.brokers
    idle = names[pair.idle]
    rank = f"number {place} of {len(cycle.order)} by usage, with {idle}"
    published = at_least(
        "published:", float(len(cycle.loads.top.get(names[pair.busy], ()))), 2.0, "bundles"
    )
    gates = [place_by_usage(place, place, rank), published]
    if published.is_open:
        gates.append(cycle.room_gate(pair))
    return BrokerTrace(
        broker=names[pair.busy], sheds=pair.sheds, gates=tuple(gates), sentence=_given(pair, idle)
    )


def _given(pair: BrokerOutcome, idle: str) -> str:
    """Return in words what a busy broker gives to an idle one."""
    if pair.given > 0:
        given, target = format_bytes_per_s(pair.given), format_bytes_per_s(pair.target)
        return f"sheds {given} of {target} to {idle}"
    if pair.goes_idle:
        return f"sheds only bundles without traffic to {idle}: {pair.words}"
    return f"sheds nothing to {idle}: {pair.words}"


def _others(cycle: Cycle, ranked: Sequence[int]) -> Iterator[BrokerTrace]:
    """The brokers whose turn did not come: how many places are between them and it."""
    names, last = cycle.view.brokers, len(cycle.handled)
    why = cycle.why_done()
    takes = {pair.idle: names[pair.busy] for pair in cycle.handled if pair.sheds}
    for place, row in enumerate(ranked[last:], start=last + 1):
        busiest = "busiest one" if last == 1 else f"{last} busiest"
        sentence = (
            f"number {place} of {len(ranked)} by usage, and only the {busiest} had a turn: {why}"
        )
        if row in takes:
            sentence = f"{sentence}; it receives from {takes[row]}"
        gate = place_by_usage(place, last, sentence)
        yield BrokerTrace(broker=names[row], sheds=False, gates=(gate,), sentence=sentence)
