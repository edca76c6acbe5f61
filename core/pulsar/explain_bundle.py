"""What one bundle has to get over before it is shed, hurdle by hurdle."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np

from core.ids import SYSTEM_NAMESPACE, namespace_of
from core.pulsar.shedding.basis import SheddingBasis
from core.pulsar.shedding.model import Gate
from core.pulsar.shedding.unload_checks import Landing
from core.units import format_bytes_per_s, pluralize

if TYPE_CHECKING:
    from core.pulsar.explain import Explanation

MAY_MOVE: Final = "may move"
REPORTED: Final = "named in a load report"
RESTED: Final = "rested"
ALLOWED: Final = "namespace is shed"
ON_SHEDDING: Final = "on a broker that sheds"
PICKED: Final = "picked"
CHECKED: Final = "checked"

_EXCLUDED: Final = "loadBalancerSheddingExcludedNamespaces"
_GRACE: Final = "loadBalancerSheddingGracePeriodMinutes"


@dataclass(frozen=True, slots=True)
class Hurdle:
    """One thing that a bundle has to get over before it is shed.

    Attributes:
        name: In a few words.
        is_open: Whether it gets over it; one that is shut is the last.
        sentence: Why.
        measured: What was measured, in ``unit``; ``None``: the hurdle is a fact, not a number.
        threshold: What it is compared with.
        unit: Of both, as in :class:`~core.pulsar.shedding.Gate`; blank without numbers.
        distance: How much ``measured`` has to change until the verdict turns; above zero while the
            hurdle is shut.
    """

    name: str
    is_open: bool
    sentence: str
    measured: float | None = None
    threshold: float | None = None
    unit: str = ""
    distance: float | None = None

    @classmethod
    def by_gate(cls, name: str, gate: Gate | None, sentence: str, *, is_open: bool) -> Hurdle:
        """Return a hurdle with the numbers of a gate, where that has any."""
        if gate is None or not math.isfinite(gate.distance):
            return cls(name, is_open, sentence)
        return cls(
            name,
            is_open,
            sentence,
            measured=gate.measured,
            threshold=gate.threshold,
            unit=gate.unit,
            distance=gate.distance,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleReason:
    """Why a bundle is shed or stays.

    Attributes:
        bundle: Name.
        leaves: Whether the next round unloads it.
        sentence: The verdict.
        hurdles: In the order in which they are asked.
        destinations: ``{broker: probability}`` when it leaves.
        otherwise: What besides settings would have to be otherwise for the verdict to turn.
    """

    bundle: str
    leaves: bool
    sentence: str
    hurdles: tuple[Hurdle, ...]
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
        """Return why it is shed or stays."""
        hurdles: list[Hurdle] = []
        for hurdle in self._asked():
            hurdles.append(hurdle)
            if not hurdle.is_open:
                return BundleReason(
                    bundle=self.bundle,
                    leaves=False,
                    sentence=f"It is not shed in the next round: {hurdle.sentence}",
                    hurdles=tuple(hurdles),
                    otherwise=self._otherwise(hurdle),
                )
        landing = self._landing()
        verb = "would be" if self.round.off else "is"
        return BundleReason(
            bundle=self.bundle,
            leaves=True,
            sentence=f"It {verb} shed in the next round: {hurdles[-2].sentence}",
            hurdles=tuple(hurdles),
            destinations=dict(landing.distribution) if landing else {},
            otherwise=f"It stays when the load of {self.holder} falls far enough, or its own does.",
        )

    def _asked(self) -> Iterator[Hurdle]:
        """Yield the hurdles in order; what comes after a shut one is not to be asked."""
        view = self.round.view
        yield self._may_move()
        if view.load_manager != "extensible":
            yield self._reported()
        yield self._rested()
        yield self._allowed()
        yield self._on_a_shedding_broker()
        yield self._picked()
        landing = self._landing()
        why = landing.skipped if landing else ""
        left = f"It was picked, and the load manager leaves it: {why}."
        found = "The load manager finds a place for it."
        yield Hurdle(CHECKED, is_open=not why, sentence=left if why else found)

    def _may_move(self) -> Hurdle:
        view = self.round.view
        if view.is_broker_bound[self.row]:
            bound = "It belongs to its broker (heartbeat or SLA) and never moves."
            return Hurdle(MAY_MOVE, is_open=False, sentence=bound)
        if self._is_kept_system:
            kept = f"Shedding of this release leaves {SYSTEM_NAMESPACE} alone."
            return Hurdle(MAY_MOVE, is_open=False, sentence=kept)
        return Hurdle(MAY_MOVE, is_open=True, sentence="It belongs to no broker in particular.")

    @property
    def _is_kept_system(self) -> bool:
        """Whether the release sheds no bundle of the system namespace, and this is one."""
        view = self.round.view
        is_modular = view.load_manager != "extensible"
        return (
            is_modular and not view.sheds_system and namespace_of(self.bundle) == SYSTEM_NAMESPACE
        )

    def _otherwise(self, shut: Hurdle) -> str:
        """Say what would have to change, apart from settings, for it to be shed."""
        grace = self.round.settings.number(_GRACE)
        goes = "Nothing changes that: it goes where its broker goes."
        return {
            MAY_MOVE: "The brokers would need 2.11.1 or later." if self._is_kept_system else goes,
            REPORTED: "It would have to have topics, on a broker that reports it.",
            RESTED: f"Its grace period of {grace:g} min would have to be over.",
            ALLOWED: f"Its namespace would have to be taken out of {_EXCLUDED}.",
            ON_SHEDDING: self._broker_otherwise(),
            PICKED: "Its traffic, or how much its broker is to give away, would have to change.",
            CHECKED: "Isolation, anti-affinity or placement would have to let another broker have "
            "it.",
        }[shut.name]

    def _broker_otherwise(self) -> str:
        holder = self.holder
        if holder is None:
            return "A broker would have to own it."
        return self.round.of_broker(holder).otherwise

    @property
    def _holder_row(self) -> int:
        """Broker that counts it: the owner, or who reports it; -1: none."""
        view = self.round.view
        codes = view.owner if view.load_manager == "extensible" else view.reporter
        return int(codes[self.row])

    @property
    def holder(self) -> str | None:
        """Broker id of who counts it."""
        code = self._holder_row
        return self.round.view.brokers[code] if code >= 0 else None

    def _landing(self) -> Landing | None:
        landings = self.round.landings(self.holder) if self.holder else ()
        return next((one for one in landings if one.move.bundle == self.bundle), None)

    def _reported(self) -> Hurdle:
        view = self.round.view
        reporter = int(view.reporter[self.row])
        topics = float(view.bundle_topics[self.row])
        if reporter < 0:
            return Hurdle(
                REPORTED,
                is_open=False,
                sentence="No load report names it: it has no topics.",
                measured=topics,
                threshold=1.0,
                unit="topics",
                distance=max(1.0 - topics, 0.0),
            )
        if not view.is_measured[self.row]:
            return Hurdle(REPORTED, is_open=False, sentence="Nothing is measured of it yet.")
        return Hurdle(REPORTED, is_open=True, sentence=f"{view.brokers[reporter]} reports it.")

    def _rested(self) -> Hurdle:
        is_resting = self.bundle in self.round.known_recent
        rests = "It changed hands a moment ago and may be in its grace period."
        rested = "No move of it was seen within the grace period."
        return Hurdle(RESTED, is_open=not is_resting, sentence=rests if is_resting else rested)

    def _allowed(self) -> Hurdle:
        view = self.round.view
        namespace = view.namespaces[int(view.bundle_namespace[self.row])]
        excluded = namespace in self.round.settings.excluded_namespaces
        kept = f"{namespace} is in {_EXCLUDED}."
        free = f"{namespace} is not kept out of shedding."
        return Hurdle(ALLOWED, is_open=not excluded, sentence=kept if excluded else free)

    def _on_a_shedding_broker(self) -> Hurdle:
        broker = self.holder
        if broker is None:
            return Hurdle(ON_SHEDDING, is_open=False, sentence="Nobody has it, as far as is known.")
        gives = any(move.broker == broker for move in self.round.decision.moves)
        trace = self.round.trace_of(broker)
        why = trace.sentence if trace else self.round.decision.sentence.rstrip(".")
        gate = self.round.deciding_gate(broker)
        shown = gate if gate is not None and gate.is_open is gives else None
        return Hurdle.by_gate(ON_SHEDDING, shown, f"{broker}: {why}.", is_open=gives)

    def _picked(self) -> Hurdle:
        """Whether it is among what the strategy picks, and its place among the others."""
        broker = self.holder
        picked = [m.bundle for m in self.round.decision.moves if m.broker == broker]
        is_open = self.bundle in picked
        gate = self.round.decision.pick(self.bundle)
        where = self._where(str(broker))
        if gate is not None and gate.is_open is is_open:
            return Hurdle.by_gate(PICKED, gate, f"{where}: {gate.sentence}.", is_open=is_open)
        told = "it is picked" if is_open else f"{pluralize(len(picked), 'bundle')} of others went"
        return Hurdle(PICKED, is_open=is_open, sentence=f"{where}, and {told}.")

    def _where(self, broker: str) -> str:
        """Say its place among those of its broker that the strategy can choose from."""
        loads = self.round.view.extensible
        if self.round.view.load_manager == "extensible" and loads is not None:
            sizes = {entry.bundle: entry.throughput for entry in loads.top.get(broker, ())}
            if self.bundle not in sizes:
                return (
                    f"It is not among the {pluralize(len(sizes), 'bundle')} that {broker} published"
                )
            own = sizes[self.bundle]
            place = sum(size > own for size in sizes.values()) + 1
            told = f"number {place} of {len(sizes)} by traffic ({format_bytes_per_s(own)})"
            return f"Of the bundles that {broker} published it is {told}"
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
