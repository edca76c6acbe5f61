"""Where the bundles of a plan may land: probabilities carried through its steps.

Each step without a destination is placed as the cluster would place it, knowing what the steps
before it have placed already (the leader remembers them until the brokers report again). Where a
placement is a draw, every outcome is followed on its own; from :data:`MAX_SCENARIOS` on they are
sampled, with a fixed seed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

import numpy as np

from core.errors import InvariantError
from core.pulsar.placement import Placement, PlacementMemory, place_bundle
from core.pulsar.placement.model import Reasons
from core.pulsar.settings import EffectiveSettings
from core.pulsar.steps.unload import UnloadBundle
from core.pulsar.view import LoadView

MAX_SCENARIOS: Final = 256
"""More outcomes than this are sampled."""

MAX_WORK: Final = 200_000
"""Brokers looked at in one preview, over all its placements: many steps on a large fleet are
sampled with fewer scenarios."""

MIN_SAMPLES: Final = 16
GIVEN: Final = "destination given"
HINT_LOSS_NOTE: Final = (
    "With ModularLoadManagerImpl the destination is only a hint, ignored "
    "in about one of ten recorded moves; then placement decides. A run "
    "records the actual destination of each bundle."
)


@dataclass(frozen=True, slots=True)
class Scenario:
    """One outcome of the whole plan.

    Attributes:
        probability: 0..1; over all scenarios they add up to 1.
        destinations: Broker id of each step's bundle, in step order; ``None`` if unassigned.
    """

    probability: float
    destinations: tuple[str | None, ...]


@dataclass(frozen=True, slots=True)
class Outcomes:
    """All outcomes, most likely first (equals in order of discovery).

    Attributes:
        scenarios: At least one.
        placements: One a step; its distribution is the mixture over all scenarios.
        is_exact: Every outcome was followed; otherwise they were sampled.
        notes: What a person should know about how this was computed.
    """

    scenarios: tuple[Scenario, ...]
    placements: tuple[Placement, ...]
    is_exact: bool
    notes: tuple[str, ...]

    @property
    def most_likely(self) -> Scenario:
        """The first of the scenarios with the greatest probability."""
        return self.scenarios[0]


@dataclass(frozen=True, slots=True)
class PlacementRules:
    """By what the cluster places: a prepared view, settings, strategy and a seed for sampling."""

    view: LoadView
    settings: EffectiveSettings
    strategy: str | None = None
    seed: int = 0


@dataclass(frozen=True, slots=True)
class _Branch:
    probability: float
    memory: PlacementMemory | None
    destinations: tuple[str | None, ...] = ()


def carry_through(rules: PlacementRules, steps: Sequence[UnloadBundle]) -> Outcomes:
    """Follow every outcome of the steps, in order.

    Raises:
        UnknownNameError: A bundle or the strategy is unknown.
    """
    open_steps = sum(step.destination is None for step in steps)
    work = max(open_steps - 1, 1) * max(len(rules.view.brokers), 1)
    cap = max(MIN_SAMPLES, min(MAX_SCENARIOS, MAX_WORK // work))
    rng = np.random.default_rng(rules.seed)
    branches = [_Branch(1.0, None)]
    placements: list[Placement] = []
    is_exact = True
    for step in steps:
        branches, placement = _one_step(rules, step, branches)
        placements.append(placement)
        if len(branches) > cap:
            branches = _sampled(branches, cap, rng)
            is_exact = False
    ordered = sorted(_merged(branches).items(), key=lambda item: -item[1])
    notes = _notes(steps, len(ordered), is_exact=is_exact)
    scenarios = tuple(Scenario(probability, ends) for ends, probability in ordered)
    return Outcomes(scenarios, tuple(placements), is_exact, notes)


def _one_step(
    rules: PlacementRules, step: UnloadBundle, branches: list[_Branch]
) -> tuple[list[_Branch], Placement]:
    if step.destination is not None:
        grown = [
            replace(branch, destinations=(*branch.destinations, step.destination))
            for branch in branches
        ]
        return grown, _given(rules, step.bundle, step.destination)
    grown = []
    mixture: dict[str, float] = {}
    first: Placement | None = None
    for branch in branches:
        placed = place_bundle(
            rules.view, step.bundle, rules.settings, strategy=rules.strategy, memory=branch.memory
        )
        first = placed if first is None else first
        grown += _split(rules, step.bundle, branch, placed)
        for broker, p in placed.distribution.items():
            mixture[broker] = mixture.get(broker, 0.0) + branch.probability * p
    if first is None:
        raise InvariantError("A plan step has no scenario to continue from.")
    ruled_out = Reasons(partial(_losers, first.ruled_out, mixture))
    return grown, replace(first, distribution=mixture, ruled_out=ruled_out)


def _losers(
    ruled_out: Mapping[str, str], mixture: Mapping[str, float], broker: str | None
) -> dict[str, str]:
    if broker is not None:
        why = None if broker in mixture else ruled_out.get(broker)
        return {} if why is None else {broker: why}
    return {name: why for name, why in ruled_out.items() if name not in mixture}


def _split(rules: PlacementRules, bundle: str, branch: _Branch, placed: Placement) -> list[_Branch]:
    """Follow each destination of one placement; an empty distribution leaves it without owner."""
    if not placed.distribution:
        return [replace(branch, destinations=(*branch.destinations, None))]
    return [
        _Branch(
            branch.probability * p,
            placed.after.with_placed(rules.view, bundle, broker),
            (*branch.destinations, broker),
        )
        for broker, p in placed.distribution.items()
    ]


def _sampled(branches: list[_Branch], count: int, rng: np.random.Generator) -> list[_Branch]:
    """Draw ``count`` branches, evenly spread over their probabilities (systematic sampling)."""
    edges = np.cumsum([branch.probability for branch in branches])
    points = (np.arange(count) + rng.random()) / count * edges[-1]
    chosen = np.minimum(np.searchsorted(edges, points, side="right"), len(branches) - 1)
    return [replace(branches[row], probability=1.0 / count) for row in chosen.tolist()]


def _merged(branches: list[_Branch]) -> dict[tuple[str | None, ...], float]:
    merged: dict[tuple[str | None, ...], float] = {}
    for branch in branches:
        merged[branch.destinations] = merged.get(branch.destinations, 0.0) + branch.probability
    return merged


def _given(rules: PlacementRules, bundle: str, destination: str) -> Placement:
    """The placement of a step whose destination is given: certain, but for a lost hint."""
    is_hint = rules.view.load_manager in ("modular", "unknown", "mixed")
    return Placement(
        bundle=bundle,
        strategy=GIVEN,
        distribution={destination: 1.0},
        ruled_out={},
        why="",
        notes=(HINT_LOSS_NOTE,) if is_hint else (),
    )


def _notes(
    steps: Sequence[UnloadBundle], scenario_count: int, *, is_exact: bool
) -> tuple[str, ...]:
    open_steps = [step for step in steps if step.destination is None]
    if not open_steps:
        return ()
    if not is_exact:
        note = (
            f"Too many outcomes: {scenario_count} were sampled with a fixed seed; "
            "min and max are those of the samples."
        )
        return (note,)
    if scenario_count == 1:
        return ()
    return (f"All {scenario_count} outcomes were evaluated with their probabilities.",)
