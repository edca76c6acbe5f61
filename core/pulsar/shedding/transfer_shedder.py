"""TransferShedder: usage is brought to a target spread by transfers and swaps.

Source: Pulsar ``broker.loadbalance.extensions.scheduler.TransferShedder`` (extensible manager).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from typing import ClassVar, Final

import numpy as np

from core.pulsar.extensible_loads import ExtensibleLoads
from core.pulsar.settings import EffectiveSettings
from core.pulsar.shedding.gates import at_least, below, one_of, place_by_usage
from core.pulsar.shedding.java_order import concurrent_order, spread_hashes
from core.pulsar.shedding.model import BrokerTrace, Decision, Gate, Move, Reason
from core.pulsar.shedding.transfer_offload import Cycle, Handled, Spread, TransferConfig
from core.pulsar.view import LoadView
from core.snapshot import LoadManager
from core.units import format_bytes_per_s, format_ratio, pluralize

_NO_LOADS: Final = (
    "What the brokers publish about their load was not read: TransferShedder decides by it. "
    "Capture again with the `extensible` extra installed, on a cluster of the extensible manager."
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


@dataclass(frozen=True, slots=True)
class TransferState:
    """What TransferShedder remembers.

    Attributes:
        hits: Rounds in a row in which the load was uneven.
        gave_at_ms: ``{broker: ms since the epoch}`` of the brokers that gave something lately; the
            manager's memory, not the class's own.
    """

    hits: int = 0
    gave_at_ms: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Fresh:
    """Rows with usable records in the leader's order, or why there is no way on."""

    rows: np.ndarray
    ordered: np.ndarray
    state: TransferState
    skip: tuple[Reason, str] | None = None


@dataclass(frozen=True, slots=True)
class TransferShedder:
    """The busiest broker gives to the idlest until usage is spread little enough.

    Source:
        Pulsar ``TransferShedder#findBundlesForUnloading``, 3.0 to 5.0.
    Parity:
        The same set of moves (the real class answers with a hash set), quirks included: swapped
        traffic counts in debug mode only. TRANSFER-1: records of brokers that are not registered
        any more count for the real class until they are withdrawn; here they are left out.
    """

    name: ClassVar[str] = "TransferShedder"
    summary: ClassVar[str] = "Transfers and swaps bundles until usage is spread little enough."
    package: ClassVar[str] = "org.apache.pulsar.broker.loadbalance.extensions.scheduler"
    manager: ClassVar[LoadManager] = "extensible"
    measure: ClassVar[str] = ""
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
        """Return what this round transfers, and the memory for the next one."""
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
            spread=Spread.of(loads.usage[fresh.rows]),
        )
        gates = _cluster_gates(cycle)
        is_uneven = cycle.reason() is not None
        state = replace(state, hits=state.hits + 1 if is_uneven else 0)
        hits = at_least(
            "rounds in a row", float(state.hits), float(config.hit_rounds), "rounds", is_strict=True
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

    def after_unloads(
        self, view: LoadView, state: TransferState, moves: Sequence[Move]
    ) -> TransferState:
        """Return the memory after moves were executed: whoever gave rests, the cluster with it.

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
) -> _Fresh:
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
                f"{name} gave something {elapsed_ms / 1000:.0f} s before its "
                f"last record; the whole cluster rests for {config.delay_s} s."
            )
            return _Fresh(rows, ordered, replace(state, gave_at_ms=rested), ("cool_down", why))
        rested.pop(name)
    return _Fresh(
        rows, ordered, replace(state, gave_at_ms=rested), _lack(view, loads, is_old, rows.size)
    )


def _lack(
    view: LoadView, loads: ExtensibleLoads, is_old: np.ndarray, count: int
) -> tuple[Reason, str] | None:
    """Return why the records do not suffice."""
    if not count and is_old.any():
        return "outdated_data", "every broker's record is too old."
    if not count:
        return "no_brokers", "no broker published its load."
    missing = [view.brokers[row] for row in np.flatnonzero(~loads.has_load)]
    if missing:
        who = f"{pluralize(len(missing), 'broker')} published no load yet, {missing[0]} for one"
        return "no_load_data", f"{who}, and the class waits for all."
    return None


def _cluster_gates(cycle: Cycle) -> tuple[Gate, ...]:
    """The three conditions, one of which suffices."""
    config, loads, spread = cycle.config, cycle.loads, cycle.spread
    low, high = cycle.order[0], cycle.order[-1]
    names = cycle.view.brokers
    ratio = config.under_ratio
    least_flow = cycle.least_throughput()
    return one_of(
        at_least("spread of usage (std)", spread.std, config.target_std, "ratio", is_strict=True),
        below(f"usage of {names[low]}", float(loads.usage[low]), spread.mean * ratio, "ratio"),
        below(f"traffic of {names[low]}", float(loads.throughput_ema[low]), least_flow, "bytes/s"),
        at_least(
            f"usage of {names[high]}",
            float(loads.usage[high]),
            max(config.overload_ratio, spread.mean + config.target_std),
            "ratio",
            is_strict=True,
        ),
    )


def _waiting(cycle: Cycle, hits: Gate, *, is_uneven: bool) -> str:
    spread = f"usage is spread by {format_ratio(cycle.spread.std)}"
    if not is_uneven:
        target = format_ratio(cycle.config.target_std)
        return f"{spread}, the target is {target}, and no broker is idle or overloaded"
    left = int(hits.distance)
    return f"{spread}; the class acts after {pluralize(left, 'more uneven round')} in a row"


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
            f"{pluralize(pairs, 'pair')} of brokers; the spread of usage goes from "
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


def _pair_trace(cycle: Cycle, pair: Handled, place: int) -> BrokerTrace:
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


def _given(pair: Handled, idle: str) -> str:
    """Return in words what a busy broker gives to an idle one."""
    if pair.given > 0:
        given, target = format_bytes_per_s(pair.given), format_bytes_per_s(pair.target)
        return f"gives {given} of {target} to {idle}"
    if pair.goes_idle:
        return f"gives {idle} bundles without traffic only: {pair.words}"
    return f"gives nothing to {idle}: {pair.words}"


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
            sentence = f"{sentence}; it takes from {takes[row]}"
        gate = place_by_usage(place, last, sentence)
        yield BrokerTrace(broker=names[row], sheds=False, gates=(gate,), sentence=sentence)
