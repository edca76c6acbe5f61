"""Why a broker sheds or stays, and why a bundle is or is not among what leaves it."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

import numpy as np

from core.pulsar.settings import EffectiveSettings
from core.pulsar.shedding import BrokerTrace, Decision, Gate, shedding_strategy_in_force
from core.pulsar.shedding.basis import SheddingBasis
from core.pulsar.shedding.registry import AnyStrategy
from core.pulsar.shedding.transfer_shedder import TransferShedder
from core.pulsar.shedding.unload_checks import Landing, UnloadChecks
from core.pulsar.shedding.what_if import SettingsOf, TurningPoint, WhatIf, is_searchable
from core.pulsar.view import LoadView
from core.units import counted, format_bytes_per_s

_EXCLUDED: Final = "loadBalancerSheddingExcludedNamespaces"


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerReason:
    """Why a broker sheds or stays.

    Attributes:
        broker: Broker id.
        sheds: Whether bundles leave it.
        sentence: The verdict.
        gates: What was asked, of the cluster first, then of the broker; a shut one is the last.
        bundles: What leaves it, in picking order.
        skipped: What was picked and stays all the same, with the reason.
    """

    broker: str
    sheds: bool
    sentence: str
    gates: tuple[Gate, ...]
    bundles: tuple[str, ...] = ()
    skipped: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Hurdle:
    """One thing that a bundle has to get over before it is shed.

    Attributes:
        name: In a few words.
        is_open: Whether it gets over it; one that is shut is the last.
        sentence: Why.
    """

    name: str
    is_open: bool
    sentence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleReason:
    """Why a bundle is shed or stays.

    Attributes:
        bundle: Name.
        leaves: Whether the next round unloads it.
        sentence: The verdict.
        hurdles: In the order in which they are asked.
        destinations: ``{broker: probability}`` when it leaves.
    """

    bundle: str
    leaves: bool
    sentence: str
    hurdles: tuple[Hurdle, ...]
    destinations: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Explanation:
    """The next shedding round of a cluster, ready to be asked about brokers and bundles.

    Attributes:
        view: Load of the cluster.
        settings: In force.
        settings_of: The settings with some assumed otherwise.
        recently_unloaded: Bundles in their grace period.
    """

    view: LoadView
    settings: EffectiveSettings
    settings_of: SettingsOf
    recently_unloaded: Collection[str] = ()

    @cached_property
    def strategy(self) -> AnyStrategy:
        """The shedding strategy in force.

        Raises:
            UnknownNameError: The configured class is not known here.
        """
        return shedding_strategy_in_force(self.view.load_manager, self.settings)

    @property
    def off(self) -> str:
        """The switch that keeps the cluster from shedding by itself; blank: none does."""
        return next(iter(self.settings.shedding_off), "")

    @cached_property
    def _known_recent(self) -> frozenset[str]:
        return frozenset(b for b in self.recently_unloaded if self.view.find_bundle(b) >= 0)

    @cached_property
    def decision(self) -> Decision:
        """What the strategy picks in the next round; with the switch off, what it would pick.

        A leader that just started is assumed: what one remembers is not to be seen from outside.
        """
        strategy = self.strategy
        config, state = strategy.config(self.settings), strategy.initial_state()
        return strategy.decide(self.view, config, state, self._known_recent)[0]

    def landings(self, broker: str) -> tuple[Landing, ...]:
        """Return what the load manager makes of each bundle that is picked on a broker."""
        moves = [move for move in self.decision.moves if move.broker == broker]
        if isinstance(self.strategy, TransferShedder):
            return tuple(
                Landing(move, {move.destination: 1.0} if move.destination else {}) for move in moves
            )
        return tuple(self._checks.landings(moves))

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
        """What was asked of the cluster as a whole, or of pairs."""
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

    def of_broker(self, broker: str) -> BrokerReason:
        """Return why a broker sheds or stays."""
        decision = self.decision
        trace = self._trace_of.get(broker)
        whole = tuple(gate for item in self.of_cluster for gate in item.gates)
        if trace is None:
            return BrokerReason(
                broker=broker,
                sheds=False,
                sentence=f"It stays as it is. {decision.sentence}",
                gates=whole,
            )
        landings = self.landings(broker)
        leaving = tuple(one.move.bundle for one in landings if not one.skipped)
        skipped = tuple((one.move.bundle, one.skipped) for one in landings if one.skipped)
        verb = "would shed" if self.off else "sheds"
        done = f"{verb} {counted(len(leaving), 'bundle')}" if leaving else "stays as it is"
        return BrokerReason(
            broker=broker,
            sheds=bool(leaving),
            sentence=f"{broker} {done}: {trace.sentence}.",
            gates=(*whole, *trace.gates),
            bundles=leaving,
            skipped=skipped,
        )

    def turning_points(self, broker: str) -> Iterator[TurningPoint]:
        """Yield each setting that turns the verdict on a broker by itself; each value is tried.

        None where :func:`is_searchable` says no.
        """
        if not is_searchable(self.view):
            return
        what_if = WhatIf(
            self.strategy, self.view, self.settings_of, recently_unloaded=self._known_recent
        )
        yield from what_if.turning_points(broker)

    def of_bundle(self, bundle: str) -> BundleReason:
        """Return why a bundle is shed or stays.

        Raises:
            UnknownNameError: There is no such bundle.
        """
        row = self.view.bundle_row(bundle)
        hurdles: list[Hurdle] = []
        for hurdle in self._asked(row, bundle):
            hurdles.append(hurdle)
            if not hurdle.is_open:
                return BundleReason(
                    bundle=bundle,
                    leaves=False,
                    sentence=f"It is not shed in the next round: {hurdle.sentence}",
                    hurdles=tuple(hurdles),
                )
        landing = self._landing(row, bundle)
        verb = "would be" if self.off else "is"
        return BundleReason(
            bundle=bundle,
            leaves=True,
            sentence=f"It {verb} shed in the next round: {hurdles[-2].sentence}",
            hurdles=tuple(hurdles),
            destinations=dict(landing.distribution) if landing else {},
        )

    def _asked(self, row: int, bundle: str) -> Iterator[Hurdle]:
        """Yield the hurdles in order; what comes after a shut one is not to be asked."""
        is_bound = bool(self.view.is_broker_bound[row])
        free = "It belongs to no broker in particular."
        bound = "It belongs to its broker (heartbeat or SLA) and never moves."
        yield Hurdle("may move", is_open=not is_bound, sentence=bound if is_bound else free)
        if self.view.load_manager != "extensible":
            yield self._reported(row)
        is_resting = bundle in self._known_recent
        rests = "It changed hands a moment ago and may be in its grace period."
        rested = "No move of it was seen within the grace period."
        yield Hurdle("rested", is_open=not is_resting, sentence=rests if is_resting else rested)
        yield self._allowed(row)
        yield self._on_a_shedding_broker(row)
        yield self._picked(row, bundle)
        landing = self._landing(row, bundle)
        why = landing.skipped if landing else ""
        left = f"It was picked, and the load manager leaves it: {why}."
        yield Hurdle(
            "checked",
            is_open=not why,
            sentence=left if why else "The load manager finds a place for it.",
        )

    def _landing(self, row: int, bundle: str) -> Landing | None:
        broker = self._holder(row)
        landings = self.landings(broker) if broker else ()
        return next((one for one in landings if one.move.bundle == bundle), None)

    def _reported(self, row: int) -> Hurdle:
        view = self.view
        name = "named in a load report"
        reporter = int(view.reporter[row])
        if reporter < 0:
            return Hurdle(
                name, is_open=False, sentence="No load report names it: it has no topics."
            )
        if not view.is_measured[row]:
            return Hurdle(name, is_open=False, sentence="Nothing is measured of it yet.")
        return Hurdle(name, is_open=True, sentence=f"{view.brokers[reporter]} reports it.")

    def _allowed(self, row: int) -> Hurdle:
        namespace = self.view.namespaces[int(self.view.bundle_namespace[row])]
        excluded = namespace in self.settings.excluded_namespaces
        sentence = (
            f"{namespace} is in {_EXCLUDED}."
            if excluded
            else f"{namespace} is not kept out of shedding."
        )
        return Hurdle("namespace is shed", is_open=not excluded, sentence=sentence)

    def _on_a_shedding_broker(self, row: int) -> Hurdle:
        name, broker = "on a broker that sheds", self._holder(row)
        if broker is None:
            return Hurdle(name, is_open=False, sentence="Nobody has it, as far as is known.")
        picked = any(move.broker == broker for move in self.decision.moves)
        trace = self._trace_of.get(broker)
        why = trace.sentence if trace else self.decision.sentence.rstrip(".")
        return Hurdle(name, is_open=picked, sentence=f"{broker}: {why}.")

    def _holder(self, row: int) -> str | None:
        view = self.view
        codes = view.owner if view.load_manager == "extensible" else view.reporter
        code = int(codes[row])
        return view.brokers[code] if code >= 0 else None

    def _picked(self, row: int, bundle: str) -> Hurdle:
        """Whether it is among what the strategy picks, and its place among the others."""
        broker = self._holder(row)
        picked = [m.bundle for m in self.decision.moves if m.broker == broker]
        place, of, load = self._place(row)
        where = f"it is number {place} of {of} by traffic ({load})"
        if bundle in picked:
            return Hurdle(
                "picked", is_open=True, sentence=f"Of {broker}'s bundles {where}, and it is picked."
            )
        enough = f"{counted(len(picked), 'bundle')} {'is' if len(picked) == 1 else 'are'} enough"
        what = f"{enough} for what {broker} is to give away, and {where}."
        return Hurdle("picked", is_open=False, sentence=what)

    def _place(self, row: int) -> tuple[int, int, str]:
        """Place of a bundle among the movable ones of its broker by short-term traffic."""
        view = self.view
        holder = int((view.owner if view.load_manager == "extensible" else view.reporter)[row])
        rows = SheddingBasis.of(view).bundles_of(holder) if holder >= 0 else np.array([row])
        traffic = view.bundle_short_throughput
        above = int(np.count_nonzero(traffic[rows] > traffic[row]))
        return above + 1, max(int(rows.size), 1), format_bytes_per_s(float(traffic[row]))
