"""Rounds of shedding on one view: the strategy alone, or as the load manager runs it.

The load is the same in every round: nothing is reported between them. What changes is what the
strategy remembers and, with the load manager, which bundles are in their grace period.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from core.pulsar.placement import place_bundle
from core.pulsar.settings import EffectiveSettings
from core.pulsar.shedding.model import Decision, Move
from core.pulsar.shedding.registry import AnyStrategy
from core.pulsar.shedding.unload_checks import UnloadChecks
from core.pulsar.view import LoadView
from core.units import pluralize

_GRACE: Final = "loadBalancerSheddingGracePeriodMinutes"
_INTERVAL: Final = "loadBalancerSheddingIntervalMinutes"
_BY_LOOKUP: Final = (
    "The leader of this release selects no destination: a bundle is placed "
    "by the next lookup. The destinations are those of a lookup right "
    "after the unload."
)


@dataclass(frozen=True, kw_only=True)
class Round:
    """One round.

    Attributes:
        decision: What the strategy decided.
        moves: What is unloaded: all that the strategy picked, or what passed the checks.
        destinations: ``{bundle: {broker: probability}}`` of each of them; empty without the load
            manager. The owner's share is the chance that placement gives the bundle back; from
            3.0.2 on it is not unloaded then.
        skipped: ``{bundle: reason}`` of what was picked and is not unloaded.
    """

    decision: Decision
    moves: tuple[Move, ...]
    destinations: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    skipped: Mapping[str, str] = field(default_factory=dict)

    def bundles_by_broker(self) -> dict[str, list[str]]:
        """Return ``{broker: bundles}`` in picking order; brokers without moves are absent."""
        return replace(self.decision, moves=self.moves).bundles_by_broker()


def strategy_rounds(
    strategy: AnyStrategy,
    view: LoadView,
    settings: EffectiveSettings,
    *,
    recently_unloaded: Collection[str] = (),
) -> Iterator[Round]:
    """Yield rounds of the strategy class alone, without end.

    Args:
        strategy: Of the registry.
        view: Load of the cluster, the same in every round.
        settings: The leader's active settings.
        recently_unloaded: Bundles in their grace period, in every round the same.
    """
    config = strategy.config(settings)
    state = strategy.initial_state()
    recent = frozenset(recently_unloaded)
    while True:
        decision, state = strategy.decide(view, config, state, recent)
        yield Round(decision=decision, moves=decision.moves)


def shed_rounds(
    strategy: AnyStrategy,
    view: LoadView,
    settings: EffectiveSettings,
    *,
    recently_unloaded: Collection[str] = (),
) -> Iterator[Round]:
    """Yield rounds as the load manager runs them, without end.

    The switches, the number of brokers, the checks before an unload and the destination are the
    load manager's. What one round unloads is in its grace period in the next.

    Args:
        strategy: Of the registry.
        view: Load of the cluster, the same in every round.
        settings: The leader's active settings.
        recently_unloaded: Bundles that were unloaded just before the first round; their grace
            period ends like any other.
    Source:
        Pulsar ``ModularLoadManagerImpl#doLoadShedding``; of TransferShedder ``UnloadScheduler``.
    """
    state = strategy.initial_state()
    checks = UnloadChecks(view, settings)
    last_round = settings.number(_GRACE) / max(settings.number(_INTERVAL), 1.0)
    # taken to have been unloaded a moment ago: the grace period runs from the first round on
    unloaded_in = dict.fromkeys(recently_unloaded, 1)
    number = 0
    while True:
        number += 1
        recent = frozenset(b for b, at in unloaded_in.items() if number - at < last_round)
        done, state = shed_round(strategy, checks, state, recent)
        unloaded_in |= dict.fromkeys((move.bundle for move in done.moves), number)
        yield done


def shed_round(
    strategy: AnyStrategy, checks: UnloadChecks, state: object, recently_unloaded: frozenset[str]
) -> tuple[Round, Any]:
    """Return one round as the load manager runs it, and what the strategy remembers after it.

    Args:
        strategy: Of the registry.
        checks: On the view and the settings of the round.
        state: Of the strategy's round before, or its ``initial_state()``.
        recently_unloaded: Bundles in their grace period.
    """
    view, settings = checks.view, checks.settings
    idle = _idle(view, settings)
    if idle is not None:
        return Round(decision=idle, moves=()), state
    decision, state = strategy.decide(view, strategy.config(settings), state, recently_unloaded)
    is_final = strategy.checks_itself
    done = _placed(view, settings, decision) if is_final else _checked(checks, decision)
    return done, strategy.after_unloads(view, state, done.moves)


def _idle(view: LoadView, settings: EffectiveSettings) -> Decision | None:
    """Return the reason the load manager does not run its strategy."""
    off = settings.shedding_off
    if off:
        return Decision(
            label="skip",
            reason="disabled",
            sentence=(
                f"No bundle is unloaded by any strategy: shedding is off ({off[0]} is false)."
            ),
        )
    if len(view.brokers) <= 1:
        there = pluralize(len(view.brokers), "broker")
        return Decision(
            label="skip",
            reason="no_brokers",
            sentence=f"Nothing to unload: with {there} no broker can take a bundle.",
        )
    return None


def _placed(view: LoadView, settings: EffectiveSettings, decision: Decision) -> Round:
    """Return the decision of a strategy that checks everything itself."""
    return Round(
        decision=decision,
        moves=decision.moves,
        destinations={
            move.bundle: {move.destination: 1.0}
            if move.destination
            else dict(place_bundle(view, move.bundle, settings).distribution)
            for move in decision.moves
            if move.destination or view.find_bundle(move.bundle) >= 0
        },
    )


def _checked(checks: UnloadChecks, decision: Decision) -> Round:
    unload_outcomes = list(checks.unload_outcomes(decision.moves))
    passed = [outcome for outcome in unload_outcomes if not outcome.skipped]
    if passed and not checks.settings.rules.names_destination:
        decision = replace(decision, notes=(*decision.notes, _BY_LOOKUP))
    return Round(
        decision=decision,
        moves=tuple(outcome.move for outcome in passed),
        destinations={outcome.move.bundle: outcome.distribution for outcome in passed},
        skipped={item.move.bundle: item.skipped for item in unload_outcomes if item.skipped},
    )
