"""Advice that is simulated before it is given: what turns a verdict may still make things worse."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from core.diagnosis.model import Effect
from core.diagnosis.pulsar.trials import Change, Trials, judged_trials
from core.errors import OpsError
from core.pulsar.shedding.what_if import TurningPoint
from core.snapshot import PulsarSnapshot
from core.units import format_ratio, pluralize

BUDGET_S = 10.0
"""Time for the simulations of all points."""


def simulated_points(
    snapshot: PulsarSnapshot,
    points: Iterable[TurningPoint],
    *,
    assumed: Mapping[str, Any] | None = None,
    release: str | None = None,
    budget_s: float = BUDGET_S,
) -> tuple[TurningPoint, ...]:
    """Return turning points with what becomes of the cluster under each, simulated to the end.

    Args:
        snapshot: The cluster.
        points: Of :class:`core.pulsar.shedding.what_if.WhatIf`.
        assumed: Settings that hold anyway, upstream key to value; shedding counts as switched on.
        release: Release that is assumed.
        budget_s: Seconds after which further points are not simulated.
    """
    found = tuple(points)
    if not found:
        return found
    base = Change(settings=dict(assumed or {}), release=release)
    trials = judged_trials(
        Trials(snapshot, budget_s=budget_s, assumed=base.also(Change(settings=_ON)))
    )
    return tuple(_simulated(trials, point) for point in found)


_ON = {"loadBalancerEnabled": True, "loadBalancerSheddingEnabled": True}


def _simulated(trials: Trials, point: TurningPoint) -> TurningPoint:
    if trials.is_over:
        return replace(point, outcome="Not simulated: the time was over.")
    value = list(point.needed) if isinstance(point.needed, tuple) else point.needed
    try:
        effect = trials.effect(Change(settings={point.key: value}))
    except OpsError:
        effect = None
    if effect is None:
        return replace(point, outcome="Not simulated: such a cluster cannot be.")
    return replace(point, outcome=outcome_words(effect), is_recommended=not effect.is_harmful)


def outcome_words(effect: Effect) -> str:
    """Return what a change makes of the cluster, one sentence, with a warning where it is worse."""
    before, after = effect.before, effect.after
    moves = pluralize(after.moves, "move")
    if after.returned:
        moves += f", {after.returned:,} of them back"
    end = f"deviation {format_ratio(before.deviation)} to {format_ratio(after.deviation)}, {moves}"
    if not after.converges:
        return f"Not recommended: simulated, it does not converge ({end})."
    if effect.is_harmful:
        return f"Not recommended: simulated, the cluster ends less even ({end})."
    return f"Simulated: {end}."
