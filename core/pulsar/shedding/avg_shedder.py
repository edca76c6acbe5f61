"""AvgShedder: the busiest broker is paired with the idlest and gives to it, and so on inwards.

Source: Pulsar ``broker.loadbalance.impl.AvgShedder``, the default of 5.0.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from typing import ClassVar, Final, Self

import numpy as np

from core.pulsar.bundle_counts import Ints
from core.pulsar.java.maps import hash_map_order
from core.pulsar.java.sort import ContractError, java_sorted
from core.pulsar.settings import EffectiveSettings
from core.pulsar.shedding.above_threshold import moves_of
from core.pulsar.shedding.basis import SheddingBasis
from core.pulsar.shedding.gates import at_least, in_words, missing_reports, place_by_usage
from core.pulsar.shedding.model import USAGE, BrokerTrace, Decision, Gate, ModularStrategy, Reason
from core.pulsar.shedding.picking import BundleRank, without_traffic
from core.pulsar.shedding.selection import candidates_of, pick_within
from core.pulsar.view import Flags, Floats, LoadView
from core.snapshot import LoadManager
from core.units import pluralize

_COUNTED_FROM_NOW: Final = (
    "Consecutive rounds are counted from here on: the leader's previous "
    "count is only in its memory."
)
_SORT_FAILED: Final = (
    "ranking the brokers by whole points failed in Java (Comparison method "
    "violates its general contract!), so the leader skips this round"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class AvgConfig:
    """Settings of AvgShedder.

    Attributes:
        low_points: ``loadBalancerAvgShedderLowThreshold``: gap of a pair that counts, points.
        high_points: ``loadBalancerAvgShedderHighThreshold``: gap that counts more, points.
        low_rounds: ``loadBalancerAvgShedderHitCountLowThreshold``: rounds in a row.
        high_rounds: ``loadBalancerAvgShedderHitCountHighThreshold``: rounds in a row.
        share_ratio: ``maxUnloadPercentage``: part of the gap that one round moves.
        min_msgs_per_s: ``minUnloadMessage``: an amount has to be above this.
        min_bytes_per_s: ``minUnloadMessageThroughput``: likewise.
        ranks_by_points: By release: brokers less than one point apart rank as equal.
    """

    low_points: float
    high_points: float
    low_rounds: int
    high_rounds: int
    share_ratio: float
    min_msgs_per_s: float
    min_bytes_per_s: float
    ranks_by_points: bool

    @classmethod
    def from_settings(cls, settings: EffectiveSettings) -> Self:
        """Read it from the active settings."""
        own = "loadBalancerAvgShedder"
        return cls(
            low_points=settings.number(f"{own}LowThreshold"),
            high_points=settings.number(f"{own}HighThreshold"),
            low_rounds=int(settings.number(f"{own}HitCountLowThreshold")),
            high_rounds=int(settings.number(f"{own}HitCountHighThreshold")),
            share_ratio=settings.number("maxUnloadPercentage"),
            min_msgs_per_s=settings.number("minUnloadMessage"),
            min_bytes_per_s=settings.number("minUnloadMessageThroughput"),
            ranks_by_points=settings.rules.avg_ranks_by_points,
        )


@dataclass(frozen=True, slots=True)
class AvgState:
    """AvgShedder's state: consecutive rounds in which a broker was part of a wide pair.

    Attributes:
        low_hits: ``{broker: rounds}`` with a gap that counts; absent: none.
        high_hits: ``{broker: rounds}`` with a gap that counts more.
        most_brokers: Brokers ranked at once at most; decides the rank of equal ones.
    """

    low_hits: Mapping[str, int] = field(default_factory=dict)
    high_hits: Mapping[str, int] = field(default_factory=dict)
    most_brokers: int = 0


@dataclass(frozen=True, eq=False)
class Pairs:
    """The pairs of one round, the widest first; arrays are per pair.

    Attributes:
        idle: Positions in ``basis.brokers`` of the brokers that take.
        busy: Positions of those that give; an odd one out is paired with itself.
        gap_points: Difference of their scores.
    """

    idle: Ints
    busy: Ints
    gap_points: Floats

    @classmethod
    def of(
        cls, score: Floats, spread: Ints, peak: int = 0, *, ranks_by_points: bool = False
    ) -> Pairs:
        """Pair brokers from both ends of the ranking.

        Args:
            score: Percent, in the order of ``basis.brokers``.
            spread: Their Java hashes: brokers of equal score rank in hash order.
            peak: Brokers ranked at once at most, so far.
            ranks_by_points: Scores less than one point apart compare as equal, so that the order
                also follows from which of them Java's sort compares.

        Raises:
            ContractError: Java's sort fails on such scores.
        """
        order = hash_map_order(spread, peak)
        if ranks_by_points:
            values = score.tolist()
            ranked = java_sorted(order.tolist(), lambda a, b: _points(values[a] - values[b]))
            order = np.array(ranked, np.int64)
        else:
            order = order[np.argsort(score[order], kind="stable")]
        count = (order.size + 1) // 2
        idle, busy = order[:count], order[::-1][:count]
        return cls(idle, busy, score[busy] - score[idle])


def _points(difference: float) -> float:
    """Return a difference of scores as the old comparison takes it: 0 within one point, or NaN."""
    return difference if abs(difference) >= 1.0 else 0.0


@dataclass(frozen=True, eq=False)
class _Trial:
    """One round.

    Attributes:
        basis: The cluster.
        config: The settings of the strategy.
        recent: Bundles in their grace period.
        pairs: The pairs.
        low_hits: Rounds per position of ``basis.brokers``, this one included.
        high_hits: Likewise.
    """

    basis: SheddingBasis
    config: AvgConfig
    recent: Flags | None
    pairs: Pairs
    low_hits: Ints
    high_hits: Ints

    @property
    def is_wide(self) -> Flags:
        """Pairs whose gap counts."""
        return self.pairs.gap_points >= self.config.low_points

    @property
    def acts(self) -> Flags:
        """Pairs whose gap counted often enough, at either of the two brokers."""
        idle, busy = self.pairs.idle, self.pairs.busy
        high = np.maximum(self.high_hits[idle], self.high_hits[busy]) >= self.config.high_rounds
        low = np.maximum(self.low_hits[idle], self.low_hits[busy]) >= self.config.low_rounds
        return self.is_wide & (high | low)

    def amount(self, pair: int) -> tuple[str, float]:
        """Return ``(unit, amount)`` of a pair; an empty unit: both amounts are too small."""
        view, brokers = self.basis.view, self.basis.brokers
        idle, busy = brokers[self.pairs.idle[pair]], brokers[self.pairs.busy[pair]]
        rate, throughput = (
            float(values[busy] - values[idle]) * self.config.share_ratio
            for values in (view.broker_msg_rate, view.broker_throughput)
        )
        if rate > self.config.min_msgs_per_s:
            return "msg/s", rate
        if throughput > self.config.min_bytes_per_s:
            return "bytes/s", throughput
        return "", rate

    def candidates(self, pair: int, unit: str) -> tuple[Ints, Floats]:
        """Return the bundles with traffic that a pair's busy broker may give, and their weight."""
        view = self.basis.view
        broker = int(self.basis.brokers[self.pairs.busy[pair]])
        rows = candidates_of(self.basis, broker, self.recent)
        keys = (view.bundle_short_rate if unit == "msg/s" else view.bundle_short_throughput)[rows]
        return rows[keys > 0], keys[keys > 0]

    def rows_of(self, pair: int) -> Ints:
        """Return the bundles that a pair's busy broker gives, in picking order."""
        unit, amount = self.amount(pair)
        if not unit:
            return np.zeros(0, np.int64)
        rows, keys = self.candidates(pair, unit)
        order = self.basis.falling(rows, keys)
        picked = pick_within(
            keys[order], amount, lambda left, key: left - key, limit=rows.size, slack=0.0
        )
        return rows[order[picked]]

    def pick(self, bundle: str) -> Gate | None:
        """Return whether a bundle is selected for its broker's pair."""
        row = self.basis.view.bundle_row(bundle)
        at = np.flatnonzero(self.basis.brokers == self.basis.view.reporter[row])
        pairs = np.flatnonzero(self.acts & np.isin(self.pairs.busy, at))
        if not pairs.size:
            return None
        unit, amount = self.amount(int(pairs[0]))
        if not unit:
            return None
        rows, keys = self.candidates(int(pairs[0]), unit)
        turn = BundleRank.of(self.basis, row, (rows, keys), unit)
        if turn is None:
            broker = int(self.basis.brokers[at[0]])
            is_free = row in candidates_of(self.basis, broker, self.recent)
            return without_traffic(unit) if is_free else None
        return turn.within(amount, lambda left, key: left - key, limit=rows.size, slack=0.0)

    def trace(self) -> tuple[BrokerTrace, ...]:
        """Return the gates of every pair, under the broker that would give; then the others."""
        busy = np.flatnonzero(self.pairs.idle != self.pairs.busy).tolist()
        score = self.basis.view.usage[self.basis.brokers] * 100
        by_points = self.config.ranks_by_points
        others = idle_half(self.basis, self.pairs, score, ranks_by_points=by_points)
        return (*(self.pair_trace(pair) for pair in busy), *others)

    def pair_trace(self, pair: int) -> BrokerTrace:
        names, brokers = self.basis.view.brokers, self.basis.brokers
        idle, busy = self.pairs.idle[pair], self.pairs.busy[pair]
        if idle == busy:
            alone = "in the middle of the ranking, where no other broker is paired with it"
            return BrokerTrace(broker=names[brokers[busy]], sheds=False, gates=(), sentence=alone)
        gates = self._gates(pair, names[brokers[idle]])
        sheds = gates[-1].is_open
        sentence = gates[-1].sentence
        if sheds:
            given = pluralize(self.rows_of(pair).size, "bundle")
            sentence = f"sheds {given} to {names[brokers[idle]]}"
        return BrokerTrace(
            broker=names[brokers[busy]], sheds=sheds, gates=tuple(gates), sentence=sentence
        )

    def _gates(self, pair: int, idle: str) -> list[Gate]:
        gap = float(self.pairs.gap_points[pair])
        gates = [at_least(f"gap to {idle}", gap, self.config.low_points, "points")]
        if gates[-1].is_open:
            gates.append(self.hit_gate(pair))
        if gates[-1].is_open:
            gates.append(self._amount_gate(pair))
        if gates[-1].is_open:
            unit, amount = self.amount(pair)
            _, keys = self.candidates(pair, unit)
            gates.append(
                at_least(
                    f"amount for the smallest bundle of {in_words(float(keys.min()), unit)}:",
                    amount,
                    float(keys.min()),
                    unit,
                )
                if keys.size
                else at_least("with traffic and not recently unloaded:", 0.0, 1.0, "bundles")
            )
        return gates

    def hit_gate(self, pair: int) -> Gate:
        """Return the gate on rounds in a row, by the count that is nearer to its bound."""
        idle, busy = self.pairs.idle[pair], self.pairs.busy[pair]
        low = int(max(self.low_hits[idle], self.low_hits[busy]))
        high = int(max(self.high_hits[idle], self.high_hits[busy]))
        by_low = ("gap counted in", low, self.config.low_rounds)
        wide = f"gap of {self.config.high_points:g} points counted in"
        by_high = (wide, high, self.config.high_rounds)
        is_wide = self.pairs.gap_points[pair] >= self.config.high_points
        nearer = is_wide and by_high[2] - by_high[1] <= by_low[2] - by_low[1]
        name, measured, bound = by_high if nearer or high >= self.config.high_rounds else by_low
        return at_least(name, float(measured), float(bound), "rounds")

    def _amount_gate(self, pair: int) -> Gate:
        unit, amount = self.amount(pair)
        is_rate = unit != "bytes/s"
        minimum = self.config.min_msgs_per_s if is_rate else self.config.min_bytes_per_s
        return at_least(
            "amount to shed", amount, minimum, "msg/s" if is_rate else unit, is_strict=True
        )


@dataclass(frozen=True, slots=True)
class AvgShedder(ModularStrategy[AvgState]):
    """Brokers are paired by score; a pair that is far apart for long enough is levelled.

    Source:
        Pulsar ``AvgShedder#findBundlesForUnloading``, 3.0.6 to 5.0.
    Parity:
        Move for move, but for SHED-1; up to 4.0.7, 4.1.0 and 4.1.1 the ranking compares whole
        points. The planned destination is the pair's idle broker; whether
        placement uses it is placement's matter.
    """

    name: ClassVar[str] = "AvgShedder"
    counts_rounds: ClassVar[bool] = True
    summary: ClassVar[str] = (
        "Pairs the busiest broker with the least busy one and levels each pair."
    )
    package: ClassVar[str] = "org.apache.pulsar.broker.loadbalance.impl"
    manager: ClassVar[LoadManager] = "modular"
    measure: ClassVar[str] = USAGE
    fitting_placement: ClassVar[str] = "LeastResourceUsageWithWeight"
    memory: ClassVar[str] = (
        "AvgShedder's counts of rounds above a threshold are reset: it waits "
        "for as many rounds again before it sheds."
    )
    adjustable: ClassVar[tuple[str, ...]] = (
        "loadBalancerAvgShedderLowThreshold",
        "loadBalancerAvgShedderHitCountLowThreshold",
        "loadBalancerAvgShedderHighThreshold",
        "loadBalancerAvgShedderHitCountHighThreshold",
        "maxUnloadPercentage",
        "minUnloadMessage",
        "minUnloadMessageThroughput",
    )
    deciding: ClassVar[tuple[str, ...]] = (
        "loadBalancerAvgShedderLowThreshold",
        "loadBalancerAvgShedderHighThreshold",
        "loadBalancerAvgShedderHitCountLowThreshold",
        "loadBalancerAvgShedderHitCountHighThreshold",
        "minUnloadMessage",
        "minUnloadMessageThroughput",
        "maxUnloadPercentage",
    )

    def config(self, settings: EffectiveSettings) -> AvgConfig:
        """Return its settings."""
        return AvgConfig.from_settings(settings)

    def initial_state(self) -> AvgState:
        """Return the memory of a leader that just started."""
        return AvgState()

    def patient_state(self, view: LoadView, config: AvgConfig, /) -> AvgState:
        """Return the memory one round before every pair has been apart for long enough."""
        low, high = config.low_rounds - 1, config.high_rounds - 1
        return AvgState(dict.fromkeys(view.brokers, low), dict.fromkeys(view.brokers, high))

    def decide(
        self,
        view: LoadView,
        config: AvgConfig,
        state: AvgState,
        recently_unloaded: AbstractSet[str] = frozenset(),
        /,
    ) -> tuple[Decision, AvgState]:
        """Return this round's unloads, and the hit counts for the next."""
        basis = SheddingBasis.of(view)
        names = [view.brokers[row] for row in basis.brokers]
        peak = max(state.most_brokers, len(names))
        try:
            pairs = Pairs.of(
                view.usage[basis.brokers] * 100,
                basis.broker_spread,
                peak,
                ranks_by_points=config.ranks_by_points,
            )
        except ContractError:
            return _unsorted(basis), replace(state, most_brokers=peak)
        low = np.array([state.low_hits.get(name, 0) for name in names], np.int64)
        high = np.array([state.high_hits.get(name, 0) for name in names], np.int64)
        count_hits(pairs, config, low, high)
        trial = _Trial(basis, config, basis.recent(recently_unloaded), pairs, low, high)
        acting = np.flatnonzero(trial.acts)
        picked = {int(pairs.busy[pair]): trial.rows_of(int(pair)) for pair in acting}
        destinations = {int(pairs.busy[pair]): int(pairs.idle[pair]) for pair in acting}
        decision = _decision(trial, picked, destinations)
        if state == AvgState():
            decision = replace(decision, notes=(*decision.notes, _COUNTED_FROM_NOW))
        if not trial.is_wide.any():
            return decision, AvgState(most_brokers=peak)
        low_after, high_after = low.copy(), high.copy()
        for counts in (low_after, high_after):
            counts[pairs.idle[acting]] = 0
            counts[pairs.busy[acting]] = 0
        low_hits = _carried(state.low_hits, names, low_after)
        return decision, AvgState(low_hits, _carried(state.high_hits, names, high_after), peak)


def count_hits(pairs: Pairs, config: AvgConfig, low: Ints, high: Ints) -> None:
    """Bring the counts up to date with this round's gaps, in place.

    Args:
        pairs: Of this round.
        config: The two gaps that count.
        low: Rounds per broker, in the order of ``basis.brokers``.
        high: Likewise.
    Source:
        Pulsar ``AvgShedder#findBrokerPairs``.
    """
    is_wide = pairs.gap_points >= config.low_points
    is_wider = pairs.gap_points >= config.high_points
    for broker in (pairs.idle, pairs.busy):
        low[broker[~is_wide]] = 0
        high[broker[~(is_wide & is_wider)]] = 0
    for broker in (pairs.idle, pairs.busy):
        np.add.at(low, broker[is_wide], 1)
        np.add.at(high, broker[is_wide & is_wider], 1)


def _carried(before: Mapping[str, int], names: list[str], counts: Ints) -> dict[str, int]:
    """Return the counts by name; brokers that are not there now keep theirs, as upstream."""
    present = set(names)
    gone = {name: count for name, count in before.items() if name not in present}
    now = {name: count for name, count in zip(names, counts.tolist(), strict=True) if count}
    return {**gone, **now}


def _unsorted(basis: SheddingBasis) -> Decision:
    """Return the round of a leader whose ranking failed; its counts stay as they are."""
    return Decision(
        label="skip",
        reason="sort_failed",
        sentence=f"Nothing to unload: {_SORT_FAILED}.",
        notes=missing_reports(basis),
    )


def _decision(trial: _Trial, picked: dict[int, Ints], destinations: dict[int, int]) -> Decision:
    moves = moves_of(trial.basis, picked, destinations)
    if moves:
        label = pluralize(len(moves), "bundle")
        sources = pluralize(len({move.broker for move in moves}), "pair")
        sentence = f"AvgShedder unloads {label} to level {sources} of brokers."
    else:
        sentence = f"Nothing to unload: {_why_not(trial, picked)}."
    return Decision(
        label="success" if moves else "skip",
        reason="overloaded" if moves else _reason(trial, picked),
        moves=moves,
        sentence=sentence,
        explain=trial.trace,
        pick=trial.pick,
        notes=missing_reports(trial.basis),
    )


def _reason(trial: _Trial, picked: dict[int, Ints]) -> Reason:
    if not trial.basis.brokers.size:
        return "no_load_data"
    if not trial.is_wide.any():
        return "balanced"
    if not picked:
        return "hit_count"
    acting = np.flatnonzero(trial.acts)
    return "no_bundles" if any(trial.amount(int(pair))[0] for pair in acting) else "too_small"


def _why_not(trial: _Trial, picked: dict[int, Ints]) -> str:
    match _reason(trial, picked):
        case "no_load_data":
            return "the load of every broker is unknown"
        case "balanced":
            return f"the widest pair's {trial.pair_trace(0).sentence}"
        case "hit_count":
            waiting = np.flatnonzero(trial.is_wide)
            count = pluralize(waiting.size, "pair")
            nearest = min(
                (gate for pair in waiting if (gate := trial.hit_gate(int(pair)))),
                key=lambda gate: gate.distance,
            )
            return f"{count} waiting for more consecutive rounds: {nearest.sentence}"
        case "too_small":
            return "the amount that the triggered pairs would move is below both minimums"
        case _:
            return "the triggered pairs have no bundle that fits"


def idle_half(
    basis: SheddingBasis, pairs: Pairs, score: Floats, *, ranks_by_points: bool
) -> Iterator[BrokerTrace]:
    """Yield the trace of every destination broker and of unpaired ones.

    Args:
        basis: The cluster.
        pairs: Of the round.
        score: Percent, in the order of ``basis.brokers``.
        ranks_by_points: The ranking compares whole points: the place decides, not the score.
    """
    names = [basis.view.brokers[row] for row in basis.brokers]
    count = len(names)
    sources = [
        busy
        for idle, busy in zip(pairs.idle.tolist(), pairs.busy.tolist(), strict=True)
        if idle != busy
    ]
    if not sources:
        return
    bound = float(score[sources[-1]])
    for pair, at in enumerate(pairs.idle.tolist()):
        busy = int(pairs.busy[pair])
        part = "has no pair" if at == busy else f"would receive from {names[busy]}"
        rank = f"number {count - pair} of {count} by usage, it {part}: its usage of"
        gate = at_least(rank, float(score[at]), bound, "percent", is_strict=True)
        gate = replace(gate, name="usage of the source half")
        if ranks_by_points:
            rank = f"{rank} {score[at]:.1f}% is ranked by whole points"
            gate = place_by_usage(count - pair, len(sources), rank)
        yield BrokerTrace(
            broker=names[at],
            sheds=False,
            gates=(gate,),
            sentence=gate.sentence,
        )
