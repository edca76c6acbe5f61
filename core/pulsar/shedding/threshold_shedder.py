"""ThresholdShedder: brokers well above the average usage give away what is above it.

Source: Pulsar ``broker.loadbalance.impl.ThresholdShedder``, the default up to 4.2.
"""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from typing import ClassVar, Final, Self

import numpy as np

from core.pulsar.java.maps import ordered_sum
from core.pulsar.load import next_smoothed_usage
from core.pulsar.settings import EffectiveSettings
from core.pulsar.shedding.above_threshold import (
    ThresholdTrial,
    bundle_gates,
    moves_of,
    pick_biggest,
    source_count,
    throughput_to_shed,
)
from core.pulsar.shedding.basis import SheddingBasis
from core.pulsar.shedding.gates import at_least, below
from core.pulsar.shedding.model import USAGE, BrokerTrace, Decision, ModularStrategy
from core.pulsar.shedding.picking import biggest_gate
from core.pulsar.view import Flags, Floats, LoadView
from core.snapshot import LoadManager
from core.units import format_ratio, pluralize

_MIB_BYTES: Final = 1024.0 * 1024.0
_LOWER_BOUNDARY_SHARE: Final = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class ThresholdConfig:
    """Settings of ThresholdShedder.

    Attributes:
        threshold_ratio: ``loadBalancerBrokerThresholdShedderPercentage`` / 100: tolerated distance
            to the average.
        min_bytes_per_s: ``loadBalancerBundleUnloadMinThroughputThreshold`` in bytes/s.
        history_ratio: ``loadBalancerHistoryResourcePercentage``: weight of the past, 0..1.
        has_lower_boundary: ``lowerBoundarySheddingEnabled``.
    """

    threshold_ratio: float
    min_bytes_per_s: float
    history_ratio: float
    has_lower_boundary: bool

    @classmethod
    def from_settings(cls, settings: EffectiveSettings) -> Self:
        """Read it from the active settings."""
        percent = settings.number("loadBalancerBrokerThresholdShedderPercentage")
        mebibytes = settings.number("loadBalancerBundleUnloadMinThroughputThreshold")
        return cls(
            threshold_ratio=percent / 100.0,
            min_bytes_per_s=mebibytes * _MIB_BYTES,
            history_ratio=settings.number("loadBalancerHistoryResourcePercentage"),
            has_lower_boundary=settings.flag("lowerBoundarySheddingEnabled"),
        )


@dataclass(frozen=True, slots=True)
class ThresholdState:
    """ThresholdShedder's state.

    Attributes:
        smoothed_usage: ``{broker: ratio}``; a leader that just started has none.
        max_sources: Brokers that shed at once at most; decides the order of the answer.
    """

    smoothed_usage: Mapping[str, float] = field(default_factory=dict)
    max_sources: int = 0


def smoothed(past: Floats, usage: Floats, history_ratio: float) -> Floats:
    """Return usage smoothed with its past; a NaN past uses the current value.

    Source:
        Pulsar ``ThresholdShedder#updateAvgResourceUsage``.
    """
    return np.where(np.isnan(past), usage, next_smoothed_usage(past, usage, history_ratio))


def _mean(values: Floats) -> float:
    return ordered_sum(values) / values.size if values.size else 0.0


@dataclass(frozen=True, slots=True)
class ThresholdShedder(ModularStrategy[ThresholdState]):
    """Brokers whose smoothed usage is above the average by the threshold give the excess away.

    Source:
        Pulsar ``ThresholdShedder#findBundlesForUnloading``, 4.0 to 5.0.
    Parity:
        Move for move, but for SHED-1. When lower-boundary shedding is tried the past weighs twice
        in that round, as upstream.
    """

    name: ClassVar[str] = "ThresholdShedder"
    summary: ClassVar[str] = "Relieves brokers well above the average usage, smoothed over time."
    package: ClassVar[str] = "org.apache.pulsar.broker.loadbalance.impl"
    manager: ClassVar[LoadManager] = "modular"
    measure: ClassVar[str] = USAGE
    fitting_placement: ClassVar[str] = "LeastResourceUsageWithWeight"
    memory: ClassVar[str] = (
        "ThresholdShedder's smoothed usage of every broker is lost: the new "
        "leader starts with the current value, so a short peak counts in full."
    )
    adjustable: ClassVar[tuple[str, ...]] = (
        "loadBalancerBrokerThresholdShedderPercentage",
        "loadBalancerBundleUnloadMinThroughputThreshold",
        "loadBalancerHistoryResourcePercentage",
        "lowerBoundarySheddingEnabled",
    )
    deciding: ClassVar[tuple[str, ...]] = (
        "loadBalancerBrokerThresholdShedderPercentage",
        "loadBalancerBundleUnloadMinThroughputThreshold",
        "lowerBoundarySheddingEnabled",
    )

    def config(self, settings: EffectiveSettings) -> ThresholdConfig:
        """Return its settings."""
        return ThresholdConfig.from_settings(settings)

    def initial_state(self) -> ThresholdState:
        """Return the memory of a leader that just started."""
        return ThresholdState()

    def decide(
        self,
        view: LoadView,
        config: ThresholdConfig,
        state: ThresholdState,
        recently_unloaded: AbstractSet[str] = frozenset(),
        /,
    ) -> tuple[Decision, ThresholdState]:
        """Return this round's unloads, and the smoothed usage for the next."""
        basis = SheddingBasis.of(view)
        names = [view.brokers[row] for row in basis.brokers]
        held = state.smoothed_usage
        past = np.array([held.get(name, np.nan) for name in names], np.float64)
        usage = smoothed(past, view.threshold_usage[basis.brokers], config.history_ratio)
        mean = _mean(usage)
        trial = _trial(basis, config, usage, mean, basis.recent(recently_unloaded))
        trial = replace(trial, max_sources=state.max_sources)
        moves = trial.moves() if mean else ()
        if mean and not moves and config.has_lower_boundary:
            usage = smoothed(usage, view.threshold_usage[basis.brokers], config.history_ratio)
            lower = _LowerBoundary(replace(trial, usage=usage), config, _mean(usage))
            decision = lower.decision(trial.decision(self.name, moves))
        else:
            decision = trial.decision(self.name, moves)
        if not mean and names:
            idle = "Nothing to unload: the average usage of all brokers is 0."
            decision = replace(
                decision, reason="no_load_data", sentence=idle, explain=lambda: (_idle_trace(),)
            )
        notes = (*decision.notes, *_unknown_past(past, config.history_ratio))
        decision = replace(decision, notes=notes)
        limit = max(state.max_sources, source_count(decision.moves))
        return decision, ThresholdState(dict(zip(names, usage.tolist(), strict=True)), limit)


def _idle_trace() -> BrokerTrace:
    """The gate on the cluster: no broker is looked at while all are idle."""
    gate = at_least("average usage of all brokers", 0.0, 0.0, "ratio", is_strict=True)
    return BrokerTrace(broker=None, sheds=False, gates=(gate,), sentence=gate.sentence)


def _unknown_past(past: Floats, history_ratio: float) -> tuple[str, ...]:
    """Return the note on brokers whose past usage only the leader has."""
    unknown = int(np.count_nonzero(np.isnan(past)))
    if not unknown or not history_ratio:
        return ()
    who = pluralize(unknown, "broker")
    note = f"The past usage of {who} is only in the leader's memory: the current value is used."
    return (note,)


def _trial(
    basis: SheddingBasis,
    config: ThresholdConfig,
    usage: Floats,
    mean: float,
    recent: Flags | None,
) -> ThresholdTrial:
    throughput = basis.view.broker_throughput[basis.brokers]
    return ThresholdTrial(
        basis=basis,
        recent=recent,
        usage=usage,
        threshold=mean + config.threshold_ratio,
        threshold_label=(
            f"the threshold of {format_ratio(mean + config.threshold_ratio)} (average "
            f"{format_ratio(mean)} and {config.threshold_ratio * 100:g} points)"
        ),
        needed=throughput_to_shed(usage, throughput, threshold=mean, slack=config.threshold_ratio),
        minimum=config.min_bytes_per_s,
    )


@dataclass(frozen=True, eq=False)
class _LowerBoundary:
    """The second try: the busiest broker gives, because one is far below the average.

    Attributes:
        trial: The first try, its usage smoothed once more.
        config: The settings of the strategy.
        mean: Of the usage smoothed once more.
    """

    trial: ThresholdTrial
    config: ThresholdConfig
    mean: float

    @property
    def bound(self) -> float:
        return self.mean - self.config.threshold_ratio

    def busiest(self) -> int:
        """Return the position of the busiest broker that has more than one bundle, or -1."""
        basis, usage = self.trial.basis, self.trial.usage
        fits = (usage > self.bound) & (basis.bundle_counts[basis.brokers] > 1)
        return int(np.argmax(np.where(fits, usage, -np.inf))) if fits.any() else -1

    def needed(self, position: int) -> float:
        """Return bytes/s to give: half of what the threshold is of its throughput."""
        basis = self.trial.basis
        throughput = float(basis.view.broker_throughput[basis.brokers[position]])
        return throughput * self.config.threshold_ratio * _LOWER_BOUNDARY_SHARE

    def decision(self, before: Decision) -> Decision:
        """Return the decision of this try, after one that found nothing."""
        basis, usage = self.trial.basis, self.trial.usage
        position = self.busiest()
        low = int(np.argmin(usage))
        lowest = basis.view.brokers[basis.brokers[low]]
        is_low = bool(usage[low] < self.bound) and position >= 0
        needed = self.needed(position) if position >= 0 else 0.0
        rows = np.zeros(0, np.int64)
        if is_low and not self.config.min_bytes_per_s > needed:
            broker = int(basis.brokers[position])
            rows = pick_biggest(basis, broker, self.trial.recent, needed)
        trace = self._trace(position, float(usage[low]), lowest, needed)
        if not rows.size:
            sentence = f"{before.sentence} Lower boundary: {trace.sentence}."
            return replace(before, sentence=sentence, explain=lambda: (trace, *self.trial.trace()))
        moves = moves_of(basis, {position: rows})
        return replace(
            before,
            label="success",
            reason="underloaded",
            moves=moves,
            sentence=(
                f"ThresholdShedder unloads {pluralize(len(moves), 'bundle')} from the busiest "
                f"broker {moves[0].broker}, because {lowest} is below the lower boundary of "
                f"{format_ratio(self.bound)}."
            ),
            explain=lambda: (trace, *self.trial.trace()),
            pick=lambda bundle: biggest_gate(
                basis, basis.view.bundle_row(bundle), self.trial.recent, needed
            ),
        )

    def _trace(self, position: int, least: float, lowest: str, needed: float) -> BrokerTrace:
        """Return the gates of this try: one broker low, the other with enough to give."""
        gap = below(f"usage of {lowest}", least, self.bound, "ratio")
        gates = [gap]
        basis = self.trial.basis
        if gap.is_open and position < 0:
            counts = basis.bundle_counts[basis.brokers]
            above = counts[self.trial.usage > self.bound]
            most = float(above.max(initial=0))
            spare = "brokers above the lower boundary reported at most"
            gates.append(at_least(spare, most, 2.0, "bundles"))
        elif gap.is_open:
            minimum = self.config.min_bytes_per_s
            gates.append(at_least("amount to shed", needed, minimum, "bytes/s"))
            if gates[-1].is_open:
                broker = int(basis.brokers[position])
                gates.extend(bundle_gates(basis, broker, self.trial.recent))
        shut = [gate.sentence for gate in gates if not gate.is_open]
        return BrokerTrace(
            broker=basis.view.brokers[basis.brokers[position]] if position >= 0 else None,
            sheds=not shut,
            gates=tuple(gates),
            sentence=shut[0] if shut else gap.sentence,
        )
