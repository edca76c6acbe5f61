"""The shedding decision on a broker, and on each of its bundles."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

import numpy as np

from core.ids import SYSTEM_NAMESPACE, namespace_of
from core.progress import NO_PROGRESS, Progress
from core.pulsar.settings import EffectiveSettings
from core.pulsar.shedding import BrokerTrace, Decision, Gate, active_shedding_strategy
from core.pulsar.shedding.basis import SheddingBasis
from core.pulsar.shedding.gates import at_least
from core.pulsar.shedding.registry import AnyStrategy
from core.pulsar.shedding.unload_checks import UnloadChecks, UnloadOutcome
from core.pulsar.shedding.what_if import (
    SettingPair,
    SettingsOf,
    TurningPoint,
    WhatIf,
    is_searchable,
)
from core.pulsar.view import LoadView
from core.units import format_bytes_per_s, pluralize

__all__ = ["BrokerReason", "BundleReason", "Condition", "Explanation"]


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerReason:
    """The shedding decision on a broker.

    Attributes:
        broker: Broker id.
        sheds: Whether bundles leave it.
        sentence: The verdict.
        gates: Conditions, of the cluster first, then of the broker; a shut one is the last,
            unless it is one of several alternatives.
        bundles: What leaves it, in picking order.
        skipped: What was picked and stays all the same, with the reason.
        otherwise: What besides settings would have to be otherwise for the verdict to turn.
    """

    broker: str
    sheds: bool
    sentence: str
    gates: tuple[Gate, ...]
    bundles: tuple[str, ...] = ()
    skipped: tuple[tuple[str, str], ...] = ()
    otherwise: str = ""


@dataclass(frozen=True, eq=False)
class Explanation:
    """The next shedding round of a cluster, ready for queries about brokers and bundles.

    Attributes:
        view: Load of the cluster.
        settings: Effective ones.
        settings_of: The settings with some assumed otherwise.
        recently_unloaded: Bundles in their grace period.
        progress: Called before each repeated round.
    """

    view: LoadView
    settings: EffectiveSettings
    settings_of: SettingsOf
    recently_unloaded: Collection[str] = ()
    progress: Progress = NO_PROGRESS

    @cached_property
    def strategy(self) -> AnyStrategy:
        """The active shedding strategy.

        Raises:
            UnknownNameError: The configured class is not known here.
        """
        return active_shedding_strategy(self.view.load_manager, self.settings)

    @property
    def off(self) -> str:
        """The switch that keeps the cluster from shedding by itself; blank: none does."""
        return next(iter(self.settings.shedding_off), "")

    @cached_property
    def known_recent(self) -> frozenset[str]:
        """Bundles in their grace period that the cluster has."""
        return frozenset(b for b in self.recently_unloaded if self.view.find_bundle(b) >= 0)

    @cached_property
    def decision(self) -> Decision:
        """The strategy's selection in the next round, even if shedding is off.

        A leader that just started is assumed: what one remembers is not to be seen from outside.
        """
        strategy = self.strategy
        config, state = strategy.config(self.settings), strategy.initial_state()
        return strategy.decide(self.view, config, state, self.known_recent)[0]

    @property
    def sentence(self) -> str:
        """The verdict on the cluster: what is picked, and whether anything of it may go."""
        decision = self.decision
        brokers = dict.fromkeys(move.broker for move in decision.moves)
        unload_outcomes = [one for broker in brokers for one in self.unload_outcomes(broker)]
        if not unload_outcomes or any(not one.skipped for one in unload_outcomes):
            return decision.sentence
        return f"Nothing to unload: {_held_back(unload_outcomes)}."

    def unload_outcomes(self, broker: str) -> tuple[UnloadOutcome, ...]:
        """Return the load manager's decision on each selected bundle of a broker."""
        moves = [move for move in self.decision.moves if move.broker == broker]
        if self.strategy.manager == "extensible":
            return tuple(
                UnloadOutcome(move, {move.destination: 1.0} if move.destination else {})
                for move in moves
            )
        return tuple(self._checks.unload_outcomes(moves))

    @cached_property
    def _checks(self) -> UnloadChecks:
        return UnloadChecks(self.view, self.settings)

    @cached_property
    def _trace_of(self) -> dict[str, BrokerTrace]:
        """The traces by broker; of several about one broker the one that sheds, else the first."""
        found: dict[str, BrokerTrace] = {}
        for trace in self.decision.trace:
            known = found.get(trace.broker or "")
            if trace.broker and (known is None or (trace.sheds and not known.sheds)):
                found[trace.broker] = trace
        return found

    @cached_property
    def of_cluster(self) -> tuple[BrokerTrace, ...]:
        """Conditions of the cluster as a whole, or of pairs."""
        return tuple(trace for trace in self.decision.trace if trace.broker is None)

    def ranked(self) -> list[BrokerTrace]:
        """Return the brokers' traces: those that shed, then those nearest to it."""
        return sorted(
            self._trace_of.values(),
            key=lambda trace: (
                not trace.sheds,
                -len(trace.gates),
                trace.gates[-1].distance if trace.gates else float("inf"),
            ),
        )

    def trace_of(self, broker: str) -> BrokerTrace | None:
        """Return the strategy's trace of a broker, or ``None`` if it was not evaluated."""
        return self._trace_of.get(broker)

    def gates_of(self, broker: str) -> tuple[Gate, ...]:
        """Return the conditions of a broker, those of the cluster first."""
        trace = self._trace_of.get(broker)
        whole = tuple(gate for item in self.of_cluster for gate in item.gates)
        return whole if trace is None else (*whole, *trace.gates)

    def deciding_gate(self, broker: str) -> Gate | None:
        """Return the gate that decides about a broker; ``None`` if none does alone.

        The shut one of its own, or its first where all are open; else the shut one of the cluster:
        of alternatives that are all shut, the nearest.
        """
        trace = self._trace_of.get(broker)
        if trace is not None and trace.gates:
            return trace.gates[0] if trace.gates[-1].is_open else trace.gates[-1]
        whole = next((item for item in self.of_cluster if item.gates and not item.sheds), None)
        if whole is None or whole.gates[-1].is_open:
            return None
        alternatives = [gate for gate in whole.gates if gate.is_alternative]
        if alternatives and not any(gate.is_open for gate in alternatives):
            return min(alternatives, key=_comparable_distance)
        return whole.gates[-1]

    def of_broker(self, broker: str) -> BrokerReason:
        """Return the shedding decision on a broker; what the load manager leaves alone stays."""
        trace = self._trace_of.get(broker)
        gates = self.gates_of(broker)
        unload_outcomes = self.unload_outcomes(broker)
        leaving = tuple(one.move.bundle for one in unload_outcomes if not one.skipped)
        skipped = tuple((one.move.bundle, one.skipped) for one in unload_outcomes if one.skipped)
        is_held = bool(skipped) and not leaving
        why = trace.sentence if trace else self.decision.sentence.rstrip(".")
        if is_held:
            why = _held_back(unload_outcomes)
            gates = (*gates, at_least("not unloaded by the load manager:", 0.0, 1.0, "bundles"))
        verb = "would shed" if self.off else "sheds"
        count = pluralize(len(leaving), "bundle")
        done = f"{verb} {count}: {why}" if leaving else f"stays: {why}"
        if leaving and why.startswith(f"sheds {count}"):  # once is enough
            done = verb + why.removeprefix("sheds")
        return BrokerReason(
            broker=broker,
            sheds=bool(leaving),
            sentence=f"{broker} {done}.",
            gates=gates,
            bundles=leaving,
            skipped=skipped,
            otherwise=self._otherwise(broker, sheds=bool(leaving), is_held=is_held),
        )

    def _otherwise(self, broker: str, *, sheds: bool, is_held: bool) -> str:
        gate = self.deciding_gate(broker)
        if gate is None and not sheds and not is_held:
            if not self.decision.trace:
                return f"A prerequisite is missing: {self.decision.sentence}"
            if self.view.load_manager != "extensible" and not self._is_reported(broker):
                return "Its load report must be known: strategies ignore brokers without one."
            if len(self.view.brokers) == 1:
                return "Another broker must be available."
        return _broker_otherwise(gate, sheds=sheds, is_held=is_held)

    def turning_points(self, broker: str) -> Iterator[TurningPoint]:
        """Yield each setting that turns the verdict on a broker by itself; each value is tried.

        None where :func:`is_searchable` says no.
        """
        if not is_searchable(self.view):
            return
        yield from self._what_if.turning_points(broker)

    def otherwise(
        self,
        broker: str,
        points: Sequence[TurningPoint],
        simulate: Callable[[SettingPair], str] | None = None,
    ) -> str:
        """Return the changes other than one setting that turn the verdict, including two settings.

        Args:
            broker: Broker id.
            points: Its turning points: where there are any, pairs of settings are not tried.
            simulate: Returns what becomes of the cluster with a pair, one sentence.
        """
        reason = self.of_broker(broker)
        if points or reason.sheds or not is_searchable(self.view):
            return reason.otherwise
        both = self._what_if.together(broker)
        if both is None:
            return reason.otherwise
        if simulate is None:
            return (
                f"{reason.otherwise} Two settings change this in the next round: {both.sentence}."
            )
        return f"{reason.otherwise} Two settings change this: {both.sentence}. {simulate(both)}"

    def bundle_turning_points(self, bundle: str) -> Iterator[TurningPoint]:
        """Yield each setting that turns the verdict on a bundle by itself; each value is tried.

        None where :func:`is_searchable` says no, nor for one that never moves or rests.
        """
        row = self.view.bundle_row(bundle)
        is_exempt = not self.view.sheds_system and namespace_of(bundle) == SYSTEM_NAMESPACE
        is_stuck = bool(self.view.is_broker_bound[row]) or is_exempt or bundle in self.known_recent
        if is_searchable(self.view) and not is_stuck:
            yield from self._what_if.bundle_turning_points(bundle)

    def _is_reported(self, broker: str) -> bool:
        return self.view.brokers.index(broker) in SheddingBasis.of(self.view).brokers.tolist()

    @property
    def _what_if(self) -> WhatIf:
        return WhatIf(
            self.strategy,
            self.view,
            self.settings_of,
            recently_unloaded=self.known_recent,
            is_checked=True,
            progress=self.progress,
        )

    def of_bundle(self, bundle: str) -> BundleReason:
        """Return the reason a bundle is shed or stays.

        Raises:
            UnknownNameError: There is no such bundle.
        """
        return BundleTrail(self, bundle, self.view.bundle_row(bundle)).reason()


def _held_back(unload_outcomes: Sequence[UnloadOutcome]) -> str:
    """Return the note that the load manager unloads no selected bundle."""
    reasons = list(dict.fromkeys(one.skipped for one in unload_outcomes))
    others = f", and {pluralize(len(reasons) - 1, 'other reason')}" if len(reasons) > 1 else ""
    return (
        f"{pluralize(len(unload_outcomes), 'bundle')} selected, none unloaded by the load manager: "
        f"{reasons[0]}{others}"
    )


def _comparable_distance(gate: Gate) -> float:
    """Return a gate's distance from opening: usage directly, else as share of the larger value."""
    larger = max(abs(gate.measured), abs(gate.threshold))
    if not math.isfinite(gate.distance) or not math.isfinite(larger):
        return math.inf
    if gate.unit == "ratio":
        return gate.distance
    if gate.unit == "times":
        larger -= 1.0  # of the same size: that is where it starts
    return gate.distance / larger if larger > 0 else 0.0


def _broker_otherwise(gate: Gate | None, *, sheds: bool, is_held: bool) -> str:
    """Return the changes other than settings that turn the verdict on a broker."""
    if is_held:
        return "Isolation, anti-affinity or placement must allow another broker for them."
    if sheds:
        detail = f": {gate.sentence}" if gate else ""
        return f"It stays when its load drops far enough, or that of others rises{detail}."
    if gate is None:
        return "Its rank among the brokers must change."
    return f"{_what_would_have_to(gate)}: {gate.sentence}."


def _what_would_have_to(gate: Gate) -> str:
    if gate.is_alternative:
        return "The load must become more uneven"
    return {
        "places": "It must be one of the busiest",
        "bundles": "It must have more load to shed",
        "rounds": "The load must stay uneven",
    }.get(gate.unit, "The load must change")


MAY_MOVE: Final = "may move"
REPORTED: Final = "named in a load report"
RESTED: Final = "rested"
ALLOWED: Final = "namespace can be shed"
ON_SHEDDING: Final = "on a broker that sheds"
PICKED: Final = "picked"
CHECKED: Final = "checked"

_EXCLUDED: Final = "loadBalancerSheddingExcludedNamespaces"
_GRACE: Final = "loadBalancerSheddingGracePeriodMinutes"


@dataclass(frozen=True, slots=True)
class Condition:
    """One thing that has to hold for a bundle to be shed.

    Attributes:
        name: In a few words.
        is_met: Whether it holds; one that does not is the last.
        sentence: Why.
        measured: What was measured, in ``unit``; ``None`` if the condition is a fact, not a number.
        threshold: What it is compared with.
        unit: Of both, as in :class:`~core.pulsar.shedding.Gate`; blank without numbers.
        distance: How much ``measured`` has to change until the verdict turns; above zero while the
            condition does not hold.
    """

    name: str
    is_met: bool
    sentence: str
    measured: float | None = None
    threshold: float | None = None
    unit: str = ""
    distance: float | None = None

    @classmethod
    def by_gate(cls, name: str, gate: Gate | None, sentence: str, *, is_met: bool) -> Condition:
        """Return a condition with the numbers of a gate, where that has any."""
        if gate is None or not math.isfinite(gate.distance):
            return cls(name, is_met, sentence)
        return cls(
            name,
            is_met,
            sentence,
            measured=gate.measured,
            threshold=gate.threshold,
            unit=gate.unit,
            distance=gate.distance,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleReason:
    """Reason a bundle is shed or stays.

    Attributes:
        bundle: Name.
        leaves: Whether the next round unloads it.
        sentence: The verdict.
        conditions: In the order in which the leader checks them.
        destinations: ``{broker: probability}`` when it leaves.
        otherwise: What besides settings would have to be otherwise for the verdict to turn.
    """

    bundle: str
    leaves: bool
    sentence: str
    conditions: tuple[Condition, ...]
    destinations: dict[str, float] = field(default_factory=dict)
    otherwise: str = ""


@dataclass(frozen=True, eq=False)
class BundleTrail:
    """One bundle in the next shedding round.

    Attributes:
        round: The round.
        bundle: Name.
        row: Of the bundle.
    """

    round: Explanation
    bundle: str
    row: int

    def reason(self) -> BundleReason:
        """Return the reason it is shed or stays."""
        conditions: list[Condition] = []
        for condition in self._conditions():
            conditions.append(condition)
            if not condition.is_met:
                return BundleReason(
                    bundle=self.bundle,
                    leaves=False,
                    sentence=f"It is not shed in the next round: {condition.sentence}",
                    conditions=tuple(conditions),
                    otherwise=self._otherwise(condition),
                )
        outcome = self._unload_outcome()
        verb = "would be" if self.round.off else "is"
        return BundleReason(
            bundle=self.bundle,
            leaves=True,
            sentence=f"It {verb} shed in the next round: {conditions[-2].sentence}",
            conditions=tuple(conditions),
            destinations=dict(outcome.distribution) if outcome else {},
            otherwise=f"It stays if the load of {self.holder} or of the bundle drops far enough.",
        )

    def _conditions(self) -> Iterator[Condition]:
        """Yield the conditions in order; nothing is checked after one that does not hold."""
        view = self.round.view
        yield self._may_move()
        if view.load_manager != "extensible":
            yield self._reported()
        yield self._rested()
        yield self._allowed()
        yield self._on_a_shedding_broker()
        yield self._picked()
        outcome = self._unload_outcome()
        why = outcome.skipped if outcome else ""
        left = f"It was selected, but the load manager does not unload it: {why}."
        found = "The load manager finds a destination for it."
        yield Condition(CHECKED, is_met=not why, sentence=left if why else found)

    def _may_move(self) -> Condition:
        view = self.round.view
        if view.is_broker_bound[self.row]:
            bound = "It is bound to its broker (heartbeat or SLA) and never moves."
            return Condition(MAY_MOVE, is_met=False, sentence=bound)
        if self._is_exempt_system:
            exempt = f"Shedding of this release excludes {SYSTEM_NAMESPACE}."
            return Condition(MAY_MOVE, is_met=False, sentence=exempt)
        return Condition(MAY_MOVE, is_met=True, sentence="It is not bound to a broker.")

    @property
    def _is_exempt_system(self) -> bool:
        """Whether it is a system bundle and the release does not shed those."""
        view = self.round.view
        is_modular = view.load_manager != "extensible"
        return (
            is_modular and not view.sheds_system and namespace_of(self.bundle) == SYSTEM_NAMESPACE
        )

    def _otherwise(self, unmet: Condition) -> str:
        """Return the change other than a setting that would shed it."""
        grace = self.round.settings.number(_GRACE)
        goes = "This cannot be changed: it is bound to its broker."
        return {
            MAY_MOVE: "The brokers need 2.11.1 or later." if self._is_exempt_system else goes,
            REPORTED: "It must have topics, on a broker that reports it.",
            RESTED: f"Its grace period of {grace:g} min must be over.",
            ALLOWED: f"Its namespace must be removed from {_EXCLUDED}.",
            ON_SHEDDING: self._broker_otherwise(),
            PICKED: "Its traffic, or the amount its broker is to shed, must change.",
            CHECKED: "Isolation, anti-affinity or placement must allow another broker for it.",
        }[unmet.name]

    def _broker_otherwise(self) -> str:
        holder = self.holder
        if holder is None:
            return "A broker must own it."
        return self.round.of_broker(holder).otherwise

    @property
    def _holder_row(self) -> int:
        """Row of the broker that counts it: the owner or reporter; -1 for none."""
        view = self.round.view
        codes = view.owner if view.load_manager == "extensible" else view.reporter
        return int(codes[self.row])

    @property
    def holder(self) -> str | None:
        """Broker id of who counts it."""
        code = self._holder_row
        return self.round.view.brokers[code] if code >= 0 else None

    def _unload_outcome(self) -> UnloadOutcome | None:
        unload_outcomes = self.round.unload_outcomes(self.holder) if self.holder else ()
        return next((one for one in unload_outcomes if one.move.bundle == self.bundle), None)

    def _reported(self) -> Condition:
        view = self.round.view
        reporter = int(view.reporter[self.row])
        topics = float(view.bundle_topics[self.row])
        if reporter < 0:
            return Condition(
                REPORTED,
                is_met=False,
                sentence="No load report has it: it has no topics.",
                measured=topics,
                threshold=1.0,
                unit="topics",
                distance=max(1.0 - topics, 0.0),
            )
        if not view.is_measured[self.row]:
            return Condition(REPORTED, is_met=False, sentence="It has no statistics yet.")
        return Condition(REPORTED, is_met=True, sentence=f"{view.brokers[reporter]} reports it.")

    def _rested(self) -> Condition:
        is_resting = self.bundle in self.round.known_recent
        rests = "It moved recently and may be in its grace period."
        rested = "No move of it was observed within the grace period."
        return Condition(RESTED, is_met=not is_resting, sentence=rests if is_resting else rested)

    def _allowed(self) -> Condition:
        view = self.round.view
        namespace = view.namespaces[int(view.bundle_namespace[self.row])]
        excluded = namespace in self.round.settings.excluded_namespaces
        excluded_why = f"{namespace} is in {_EXCLUDED}."
        free = f"{namespace} is not excluded from shedding."
        return Condition(ALLOWED, is_met=not excluded, sentence=excluded_why if excluded else free)

    def _on_a_shedding_broker(self) -> Condition:
        broker = self.holder
        if broker is None:
            return Condition(ON_SHEDDING, is_met=False, sentence="It has no known owner.")
        gives = any(move.broker == broker for move in self.round.decision.moves)
        trace = self.round.trace_of(broker)
        why = trace.sentence if trace else self.round.decision.sentence.rstrip(".")
        gate = self.round.deciding_gate(broker)
        shown = gate if gate is not None and gate.is_open is gives else None
        return Condition.by_gate(ON_SHEDDING, shown, f"{broker}: {why}.", is_met=gives)

    def _picked(self) -> Condition:
        """Whether the strategy selects it, and its rank."""
        broker = self.holder
        picked = [m.bundle for m in self.round.decision.moves if m.broker == broker]
        is_open = self.bundle in picked
        gate = self.round.decision.pick(self.bundle)
        where = self._where(str(broker))
        if gate is not None and gate.is_open is is_open:
            return Condition.by_gate(PICKED, gate, f"{where}: {gate.sentence}.", is_met=is_open)
        outcome = (
            "it is selected"
            if is_open
            else f"{pluralize(len(picked), 'bundle')} of others were selected"
        )
        return Condition(PICKED, is_met=is_open, sentence=f"{where}, and {outcome}.")

    def _where(self, broker: str) -> str:
        """Return its place among those of its broker that the strategy can choose from."""
        loads = self.round.view.extensible
        if self.round.view.load_manager == "extensible" and loads is not None:
            sizes = {entry.bundle: entry.throughput for entry in loads.top.get(broker, ())}
            if self.bundle not in sizes:
                return (
                    f"It is not among the {pluralize(len(sizes), 'bundle')} that {broker} published"
                )
            own = sizes[self.bundle]
            place = sum(size > own for size in sizes.values()) + 1
            rank = f"number {place} of {len(sizes)} by traffic ({format_bytes_per_s(own)})"
            return f"Of the bundles that {broker} published it is {rank}"
        place, of, load = self._place()
        return f"Of {broker}'s bundles it is number {place} of {of} by traffic ({load})"

    def _place(self) -> tuple[int, int, str]:
        """Place of a bundle among the movable ones of its broker by short-term traffic."""
        view = self.round.view
        holder = self._holder_row
        rows = SheddingBasis.of(view).bundles_of(holder) if holder >= 0 else np.array([self.row])
        traffic = view.bundle_short_throughput
        above = int(np.count_nonzero(traffic[rows] > traffic[self.row]))
        return above + 1, max(int(rows.size), 1), format_bytes_per_s(float(traffic[self.row]))
