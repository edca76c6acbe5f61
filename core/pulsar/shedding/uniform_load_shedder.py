"""UniformLoadShedder: the busiest broker gives to close a part of the gap to the idlest.

Source: Pulsar ``broker.loadbalance.impl.UniformLoadShedder``.
"""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from typing import ClassVar, Final, Literal, Self

import numpy as np

from core.pulsar.bundle_counts import Ints
from core.pulsar.settings import EffectiveSettings
from core.pulsar.shedding.above_threshold import moves_of
from core.pulsar.shedding.basis import SheddingBasis
from core.pulsar.shedding.gates import (
    at_least,
    below,
    in_words,
    missing_reports,
    one_of,
    place_by_usage,
)
from core.pulsar.shedding.model import RATE, BrokerTrace, Decision, Gate, ModularStrategy, Reason
from core.pulsar.shedding.picking import BundleRank
from core.pulsar.shedding.selection import candidates_of, java_int, pick_within
from core.pulsar.view import Flags, Floats, LoadView
from core.snapshot import LoadManager
from core.units import pluralize

_LARGEST_INT: Final = 2_147_483_647
_NEARLY_ZERO: Final = 1e-6
_UNLIMITED: Final = -1
_RATE: Final = "msg/s"
_THROUGHPUT: Final = "bytes/s"


@dataclass(frozen=True, slots=True, kw_only=True)
class UniformConfig:
    """Settings of UniformLoadShedder.

    Attributes:
        rate_gap_percent: ``loadBalancerMsgRateDifferenceShedderThreshold``: tolerated excess of the
            highest message rate over the lowest; 0 or less: off.
        throughput_times: ``loadBalancerMsgThroughputMultiplierDifferenceShedderThreshold``:
            tolerated ratio of the highest throughput to the lowest; 0 or less: off.
        share_ratio: ``maxUnloadPercentage``: part of the gap that one round moves.
        min_msgs_per_s: ``minUnloadMessage``: smaller amounts are left alone.
        min_bytes_per_s: ``minUnloadMessageThroughput``: likewise.
        most_bundles: ``maxUnloadBundleNumPerShedding``: most bundles a round; -1: no cap.
        rate_slack: By release: what a bundle may exceed the rest by, msg/s.
        throughput_slack: Likewise, bytes/s.
        is_joint: By release: one busiest and one idlest broker for both measures.
        skips_single: By release: brokers with at most one bundle are not looked at.
    """

    rate_gap_percent: float
    throughput_times: float
    share_ratio: float
    min_msgs_per_s: int
    min_bytes_per_s: int
    most_bundles: int
    rate_slack: float
    throughput_slack: float
    is_joint: bool
    skips_single: bool

    @classmethod
    def from_settings(cls, settings: EffectiveSettings) -> Self:
        """Read it from the active settings."""
        throughput = "loadBalancerMsgThroughputMultiplierDifferenceShedderThreshold"
        return cls(
            rate_gap_percent=settings.number("loadBalancerMsgRateDifferenceShedderThreshold"),
            throughput_times=settings.number(throughput),
            share_ratio=settings.number("maxUnloadPercentage"),
            min_msgs_per_s=int(settings.number("minUnloadMessage")),
            min_bytes_per_s=int(settings.number("minUnloadMessageThroughput")),
            most_bundles=int(settings.number("maxUnloadBundleNumPerShedding")),
            rate_slack=settings.rules.uniform_rate_slack,
            throughput_slack=settings.rules.uniform_throughput_slack,
            is_joint=settings.rules.uniform_is_joint,
            skips_single=settings.rules.uniform_skips_single,
        )

    def slack(self, unit: str) -> float:
        """Return the allowed excess of a bundle, in the unit of the measure."""
        return self.rate_slack if unit == _RATE else self.throughput_slack


@dataclass(frozen=True, slots=True)
class UniformState:
    """UniformLoadShedder remembers nothing."""


@dataclass(frozen=True, slots=True)
class Extremes:
    """The busiest and the idlest broker by one measure.

    Attributes:
        unit: ``msg/s`` or ``bytes/s``.
        high: Position of the busiest in ``basis.brokers``; -1: there is no broker.
        low: Position of the idlest.
        highest: Value of the busiest.
        lowest: Value of the idlest, as the class computes with it: 1 for nearly 0, at most 2^31-1.
    """

    unit: str
    high: int
    low: int
    highest: float
    lowest: float

    @classmethod
    def of(cls, values: Floats, unit: str) -> Extremes:
        """Find them; the first one wins ties.

        Source:
            Pulsar ``UniformLoadShedder``: 0 is replaced so that nothing is divided by it.
        """
        if not values.size:
            return cls(unit, -1, -1, -1.0, float(_LARGEST_INT))
        high, low = int(np.argmax(values)), int(np.argmin(values))
        lowest = min(float(values[low]), float(_LARGEST_INT))
        return cls(unit, high, low, float(values[high]), _divisor(lowest))

    @classmethod
    def jointly(cls, rate: Floats, throughput: Floats, rows: Ints) -> tuple[Extremes, Extremes]:
        """Find one pair of brokers for both measures.

        Args:
            rate: msg/s, per broker.
            throughput: bytes/s, likewise.
            rows: The brokers that count, in the order in which the class looks at them.

        Source:
            Pulsar ``UniformLoadShedder`` up to 2.11.2, 3.0.1 and 3.1.0: a broker with a higher
            rate or a higher throughput than the busiest so far replaces it, the idlest likewise.
        """
        high = low = -1
        highest, lowest = (-1.0, -1.0), (float(_LARGEST_INT), float(_LARGEST_INT))
        for row in rows.tolist():
            here = (float(rate[row]), float(throughput[row]))
            if here[0] > highest[0] or here[1] > highest[1]:
                high, highest = row, here
            if here[0] < lowest[0] or here[1] < lowest[1]:
                low, lowest = row, here
        low = high if low < 0 else low  # every value is above the cap, which is then the lowest
        return (
            cls(_RATE, high, low, highest[0], _divisor(lowest[0])),
            cls(_THROUGHPUT, high, low, highest[1], _divisor(lowest[1])),
        )

    @property
    def gap_percent(self) -> float:
        """Excess of the busiest over the idlest, percent of the idlest."""
        return (self.highest - self.lowest) * 100 / self.lowest

    @property
    def times(self) -> float:
        """Ratio of the busiest to the least busy broker."""
        return self.highest / self.lowest


def _divisor(lowest: float) -> float:
    """Return the lowest value as the class divides by it: 1 for nearly 0."""
    return 1.0 if abs(lowest) <= _NEARLY_ZERO else lowest


def _spend(left: float, key: float) -> float:
    """Return the remaining amount: a whole number, truncated each time."""
    return left + java_int(-key)


@dataclass(frozen=True, eq=False)
class _Trial:
    """One round.

    Attributes:
        basis: The cluster.
        config: The settings of the strategy.
        recent: Bundles in their grace period.
        rate: Extremes by message rate.
        throughput: Extremes by throughput.
    """

    basis: SheddingBasis
    config: UniformConfig
    recent: Flags | None
    rate: Extremes
    throughput: Extremes

    @property
    def gap_gates(self) -> tuple[Gate, ...]:
        """The two conditions, either of which starts a round."""
        rate = at_least(
            "excess of the highest message rate over the lowest",
            self.rate.gap_percent,
            self.config.rate_gap_percent if self.config.rate_gap_percent > 0 else float("inf"),
            "percent",
            is_strict=True,
        )
        throughput = at_least(
            "highest throughput over the lowest",
            self.throughput.times,
            self.config.throughput_times if self.config.throughput_times > 0 else float("inf"),
            "times",
            is_strict=True,
        )
        return one_of(rate, throughput)

    @property
    def acting(self) -> Extremes | None:
        """The active measure of this round; the message rate takes precedence."""
        rate, throughput = self.gap_gates
        if not rate.is_open and not throughput.is_open:
            return None
        return self.rate if rate.is_open else self.throughput

    def amount(self, by: Extremes) -> int:
        """Return the amount to shed, in the unit of the measure; a 32-bit whole number."""
        return java_int((by.highest - by.lowest) * self.config.share_ratio)

    def _minimum(self, by: Extremes) -> int:
        is_rate = by.unit == _RATE
        return self.config.min_msgs_per_s if is_rate else self.config.min_bytes_per_s

    def gates(self, by: Extremes) -> list[Gate]:
        """Return the gates of the busiest broker."""
        broker = int(self.basis.brokers[by.high])
        found = [at_least("reported", float(self.basis.bundle_counts[broker]), 2.0, "bundles")]
        if found[-1].is_open:
            other = self.throughput if by is self.rate else self.rate
            amounts = [self._amount_gate(measure) for measure in (by, other)]
            joint = self.config.is_joint and amounts[1].is_open
            found.append(amounts[1] if joint and not amounts[0].is_open else amounts[0])
        return found

    def _amount_gate(self, by: Extremes) -> Gate:
        amount, minimum = float(self.amount(by)), float(self._minimum(by))
        return at_least("amount to shed", amount, minimum, by.unit)

    def keys(self, by: Extremes, rows: Ints) -> Floats:
        """Return the short-term weight of bundles in the measure."""
        view = self.basis.view
        is_rate = by.unit == _RATE
        return (view.bundle_short_rate if is_rate else view.bundle_short_throughput)[rows]

    def rows(self, by: Extremes) -> Ints:
        """Return the bundles that the busiest broker gives away, in picking order."""
        rows = candidates_of(self.basis, int(self.basis.brokers[by.high]), self.recent)
        keys = self.keys(by, rows)
        order = self.basis.falling(rows, keys)
        cap = self.config.most_bundles
        if self.amount(by) + self.config.slack(by.unit) > _LARGEST_INT:
            return rows[
                :0
            ]  # up to 4.0 the class adds the slack in 32 bits: the bound comes out negative
        picked = pick_within(
            keys[order],
            float(self.amount(by)),
            _spend,
            limit=rows.size if cap == _UNLIMITED else max(cap, 0),
            slack=self.config.slack(by.unit),
        )
        return rows[order[picked]]

    def pick(self, bundle: str) -> Gate | None:
        """Return whether a bundle of the busiest broker is selected."""
        by = self.acting
        if by is None or self.amount(by) + self.config.slack(by.unit) > _LARGEST_INT:
            return None
        rows = candidates_of(self.basis, int(self.basis.brokers[by.high]), self.recent)
        keyed = (rows, self.keys(by, rows))
        turn = BundleRank.of(self.basis, self.basis.view.bundle_row(bundle), keyed, by.unit)
        cap = self.config.most_bundles
        limit = rows.size if cap == _UNLIMITED else max(cap, 0)
        room, slack = float(self.amount(by)), self.config.slack(by.unit)
        return None if turn is None else turn.within(room, _spend, limit=limit, slack=slack)

    def trace(self) -> tuple[BrokerTrace, ...]:
        """Return the gates of the gap, and those of the broker that would give."""
        gaps = self.gap_gates
        by = self.acting
        if by is None:
            sentence = " and ".join(gate.sentence for gate in gaps)
            return (BrokerTrace(broker=None, sheds=False, gates=gaps, sentence=sentence),)
        open_gate = gaps[0] if by is self.rate else gaps[1]
        whole = BrokerTrace(broker=None, sheds=True, gates=gaps, sentence=open_gate.sentence)
        gates = self.gates(by)
        name = self.basis.view.brokers[self.basis.brokers[by.high]]
        if gates[-1].is_open:
            gates.append(self._fitting_gate(by))
        sheds = gates[-1].is_open
        busiest = BrokerTrace(
            broker=name,
            sheds=sheds,
            gates=tuple(gates),
            sentence=f"sheds {pluralize(self.rows(by).size, 'bundle')}"
            if sheds
            else gates[-1].sentence,
        )
        return whole, busiest, *self._others(by)

    def _others(self, by: Extremes) -> Iterator[BrokerTrace]:
        """The brokers that do not give: how far they are from the busiest one."""
        view, brokers = self.basis.view, self.basis.brokers
        is_rate = by.unit == _RATE
        values = (view.broker_msg_rate if is_rate else view.broker_throughput)[brokers]
        measure = "message rate" if is_rate else "throughput"
        name = f"only the busiest broker sheds, and the {measure} of"
        for at in np.argsort(-values, kind="stable").tolist():
            broker = view.brokers[brokers[at]]
            if at == by.high:
                continue
            gate = at_least(
                f"{name} {broker}", float(values[at]), by.highest, by.unit, is_strict=True
            )
            if gate.is_open:
                gate = _passed_over(f"{measure} of {broker} {in_words(float(values[at]), by.unit)}")
            gate = replace(gate, name=f"highest {measure} of all")
            yield BrokerTrace(broker=broker, sheds=False, gates=(gate,), sentence=gate.sentence)

    def _fitting_gate(self, by: Extremes) -> Gate:
        """Return the gate on what goes: a bundle that is larger than the amount stays."""
        rows = candidates_of(self.basis, int(self.basis.brokers[by.high]), self.recent)
        if not rows.size:
            return at_least("movable and not recently unloaded:", 0.0, 1.0, "bundles")
        cap = self.config.most_bundles
        if cap != _UNLIMITED and cap < 1:
            return at_least("allowed in a round:", 0.0, 1.0, "bundles")
        room = float(self.amount(by)) + self.config.slack(by.unit)
        if room > _LARGEST_INT:
            name = "amount with slack (32 bits in this release)"
            return below(name, room, _LARGEST_INT + 1.0, by.unit)
        smallest = float(self.keys(by, rows).min())
        return at_least(
            f"amount for the smallest bundle of {in_words(smallest, by.unit)}:",
            room,
            smallest,
            by.unit,
        )


def _passed_over(words: str) -> Gate:
    """Return the gate of a broker that has more of one measure than the one taken as busiest."""
    sentence = (
        f"only the busiest broker sheds, and the {words} does not count: this release takes one "
        "broker for both measures, the last one with more of either than the one before"
    )
    return place_by_usage(2, 1, sentence)


@dataclass(frozen=True, slots=True)
class UniformLoadShedder(ModularStrategy[UniformState]):
    """The broker with the most traffic gives away a part of its distance to the least.

    Source:
        Pulsar ``UniformLoadShedder#findBundlesForUnloading``, 2.10 to 5.0.
    Parity:
        Move for move, but for SHED-1: whole-number amounts that are cut towards zero, bundles
        without traffic that go along, the minimum of 2^31-1.
    """

    name: ClassVar[str] = "UniformLoadShedder"
    summary: ClassVar[str] = (
        "Closes a part of the gap between the busiest and the least busy broker."
    )
    package: ClassVar[str] = "org.apache.pulsar.broker.loadbalance.impl"
    manager: ClassVar[LoadManager] = "modular"
    measure: ClassVar[str] = f"{RATE} and throughput"
    fitting_placement: ClassVar[str] = "LeastLongTermMessageRate"
    memory: ClassVar[str] = ""
    adjustable: ClassVar[tuple[str, ...]] = (
        "loadBalancerMsgRateDifferenceShedderThreshold",
        "loadBalancerMsgThroughputMultiplierDifferenceShedderThreshold",
        "maxUnloadPercentage",
        "minUnloadMessage",
        "minUnloadMessageThroughput",
    )
    deciding: ClassVar[tuple[str, ...]] = (
        "loadBalancerMsgRateDifferenceShedderThreshold",
        "loadBalancerMsgThroughputMultiplierDifferenceShedderThreshold",
        "minUnloadMessage",
        "minUnloadMessageThroughput",
        "maxUnloadPercentage",
        "maxUnloadBundleNumPerShedding",
    )

    def config(self, settings: EffectiveSettings) -> UniformConfig:
        """Return its settings."""
        return UniformConfig.from_settings(settings)

    def fires_by(
        self, view: LoadView, config: UniformConfig, /
    ) -> Literal["throughput", "msg_rate"]:
        """Return the message rate if above its threshold; it takes precedence, 0 is off."""
        rate, _ = _extremes(SheddingBasis.of(view), config)
        limit = config.rate_gap_percent
        return "msg_rate" if 0 < limit < rate.gap_percent else "throughput"

    def initial_state(self) -> UniformState:
        """Return its empty memory."""
        return UniformState()

    def decide(
        self,
        view: LoadView,
        config: UniformConfig,
        state: UniformState,
        recently_unloaded: AbstractSet[str] = frozenset(),
        /,
    ) -> tuple[Decision, UniformState]:
        """Return this round's unloads."""
        basis = SheddingBasis.of(view)
        extremes = _extremes(basis, config)
        trial = _Trial(basis, config, basis.recent(recently_unloaded), *extremes)
        return _decision(trial), state


def _extremes(basis: SheddingBasis, config: UniformConfig) -> tuple[Extremes, Extremes]:
    """Return the busiest and the idlest broker by rate and by throughput."""
    rate = basis.view.broker_msg_rate[basis.brokers]
    throughput = basis.view.broker_throughput[basis.brokers]
    if not config.is_joint:
        return Extremes.of(rate, _RATE), Extremes.of(throughput, _THROUGHPUT)
    counts = basis.bundle_counts[basis.brokers]
    rows = np.flatnonzero(counts > 1) if config.skips_single else np.arange(rate.size)
    return Extremes.jointly(rate, throughput, rows)


def _decision(trial: _Trial) -> Decision:
    by = trial.acting
    notes = missing_reports(trial.basis)
    if by is None:
        is_known = trial.basis.brokers.size > 0
        why = " and ".join(gate.sentence for gate in trial.gap_gates)
        sentence = (
            f"Nothing to unload: {why if is_known else 'the load of every broker is unknown'}."
        )
        reason: Reason = "balanced" if is_known else "no_load_data"
        return Decision(
            label="skip", reason=reason, sentence=sentence, explain=trial.trace, notes=notes
        )
    gates = trial.gates(by)
    rows = trial.rows(by) if gates[-1].is_open else np.zeros(0, np.int64)
    names = trial.basis.view.brokers
    busiest, idlest = (names[trial.basis.brokers[at]] for at in (by.high, by.low))
    gap = f"{in_words(by.highest, by.unit)} vs. {in_words(by.lowest, by.unit)} of {idlest}"
    if rows.size:
        return Decision(
            label="success",
            reason="overloaded",
            moves=moves_of(trial.basis, {by.high: rows}),
            sentence=(
                f"UniformLoadShedder unloads {pluralize(rows.size, 'bundle')} from {busiest}, "
                f"which carries {gap}."
            ),
            explain=trial.trace,
            pick=trial.pick,
            notes=notes,
        )
    why = gates[-1].sentence
    if gates[-1].is_open:
        why = f"no bundle fits into the {in_words(float(trial.amount(by)), by.unit)} to shed"
    small = not gates[-1].is_open and gates[-1].unit == by.unit
    return Decision(
        label="skip",
        reason="too_small" if small else "no_bundles",
        sentence=f"Nothing to unload: {busiest} carries {gap}, but {why}.",
        explain=trial.trace,
        notes=notes,
    )
