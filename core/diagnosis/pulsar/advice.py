"""Advice that is simulated before it is given: what turns a verdict may still make things worse."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from core.diagnosis.model import effect_sentence
from core.diagnosis.pulsar.draws import SeedTrials
from core.diagnosis.pulsar.trials import Change, Trials, judged_trials
from core.errors import InputError, OpsError
from core.findings.finding import Finding, Fix
from core.progress import NO_PROGRESS, JobStoppedError, Progress
from core.pulsar.setting_values import parse_upstream_value
from core.pulsar.settings import SETTING_BY_KEY
from core.pulsar.shedding.what_if import SettingPair, TurningPoint
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
    progress: Progress = NO_PROGRESS,
) -> tuple[TurningPoint, ...]:
    """Return turning points with what becomes of the cluster under each, simulated to the end.

    Args:
        snapshot: The cluster.
        points: Of :class:`core.pulsar.shedding.what_if.WhatIf`.
        assumed: Settings that hold anyway, upstream key to value; shedding counts as switched on.
        release: Release that is assumed.
        budget_s: Seconds after which further points are not simulated.
        progress: Called during the simulations.
    """
    found = tuple(points)
    if not found:
        return found
    draws = _draws(snapshot, assumed, release, budget_s, progress)
    return tuple(_simulated(draws, point) for point in found)


def pair_outcome(
    snapshot: PulsarSnapshot,
    pair: SettingPair,
    *,
    assumed: Mapping[str, Any] | None = None,
    release: str | None = None,
    budget_s: float = BUDGET_S,
) -> str:
    """Return the simulated outcome of two changed settings.

    Args:
        snapshot: The cluster.
        assumed: Settings that hold anyway, upstream key to value; shedding counts as switched on.
        release: Release that is assumed.
        budget_s: Seconds after which it is simulated with no further random placements.
    """
    return _outcome(_draws(snapshot, assumed, release, budget_s), pair.settings)[0]


_ON = {"loadBalancerEnabled": True, "loadBalancerSheddingEnabled": True}


def _draws(
    snapshot: PulsarSnapshot,
    assumed: Mapping[str, Any] | None,
    release: str | None,
    budget_s: float,
    progress: Progress = NO_PROGRESS,
) -> SeedTrials:
    base = Change(settings=dict(assumed or {}), release=release).also(Change(settings=_ON))
    trials = Trials(snapshot, budget_s=budget_s, assumed=base, stops_midway=True, progress=progress)
    return SeedTrials(judged_trials(trials))


def _simulated(draws: SeedTrials, point: TurningPoint) -> TurningPoint:
    if draws.trials.is_over:
        return replace(point, outcome="Not simulated: time limit reached.")
    value = list(point.needed) if isinstance(point.needed, tuple) else point.needed
    text, is_recommended = _outcome(draws, {point.key: value})
    return replace(point, outcome=text, is_recommended=is_recommended)


def _outcome(draws: SeedTrials, values: Mapping[str, Any]) -> tuple[str, bool | None]:
    """Return the outcome, and whether it is no worse under any random draw."""
    change = Change(settings=dict(values))
    try:
        effect = draws.trials.effect(change)
    except JobStoppedError:
        raise
    except OpsError:
        effect = None
    if not draws.trials.known(change):
        return "Not simulated: time limit reached.", None
    if effect is None:
        return "Not simulated: invalid combination of settings.", None
    if effect.is_harmful:
        return effect_sentence(effect), False
    if effect.before != effect.after and not draws.confirm(change):
        after = effect.after
        end = f"deviation {format_ratio(after.deviation)}, {pluralize(after.moves, 'move')}"
        return f"Not recommended: {end}, and worse with other random placements.", False
    return effect_sentence(effect), True


def values_of(fix: Fix) -> dict[str, Any]:
    """Return the values of a fix: dynamic settings and lines of ``broker.conf``, typed.

    Empty where a line leaves its value to a person: ``KEY=<Gbit/s>``.
    """
    values = dict(fix.wanted)
    for line in fix.lines:
        key, _, text = line.partition("=")
        if key in SETTING_BY_KEY:
            try:
                values[key] = parse_upstream_value(SETTING_BY_KEY[key], text)
            except InputError:
                return {}
    return {key: value for key, value in values.items() if value is not None}


def change_outcome(snapshot: PulsarSnapshot, values: Mapping[str, Any]) -> tuple[str, bool | None]:
    """Return the outcome of changed settings, and whether it is no worse.

    Args:
        snapshot: The cluster.
        values: Upstream key to value; shedding counts as it is switched on the cluster.
    Returns:
        A sentence, and ``None`` where it cannot be simulated.
    """
    return _outcome(SeedTrials(judged_trials(Trials(snapshot))), values)


def simulated_findings(
    snapshot: PulsarSnapshot,
    findings: Iterable[Finding],
    budget_s: float = BUDGET_S,
    *,
    assumed: Mapping[str, Any] | None = None,
    release: str | None = None,
) -> tuple[Finding, ...]:
    """Return findings with what becomes of the cluster under the fix of each.

    A fix under which the cluster ends less even, or never, is taken away; the hint says why.

    Args:
        snapshot: The cluster.
        findings: Of the settings doctor.
        budget_s: Seconds after which further fixes are not simulated.
        assumed: Settings that hold anyway, upstream key to value.
        release: Release that is assumed.
    """
    base = Change(settings=dict(assumed or {}), release=release)
    trials = Trials(snapshot, budget_s=budget_s, assumed=base)
    found = tuple(findings)
    if not any(values_of(one.fix) for one in found):
        return found
    try:
        trials = judged_trials(trials)
        trials.baseline  # noqa: B018  # a cluster that cannot be simulated has no advice to check
    except OpsError:
        return found
    draws = SeedTrials(trials)
    return tuple(_checked(draws, one) for one in found)


def _checked(draws: SeedTrials, finding: Finding) -> Finding:
    values = values_of(finding.fix)
    if not values or draws.trials.is_over:
        return finding
    effect = draws.trials.effect(Change(settings=values))
    if effect is None or effect.before == effect.after:
        return finding
    words = effect_sentence(effect)
    if effect.is_worse:
        return replace(finding, hint=words, fix=Fix())
    if not effect.is_harmful:
        words, is_no_worse = _outcome(draws, values)
        if not is_no_worse:
            return replace(finding, hint=words, fix=Fix())
    return replace(finding, hint=f"{finding.hint} {words}".strip())
