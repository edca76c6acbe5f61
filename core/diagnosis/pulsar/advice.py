"""Advice that is simulated before it is given: what turns a verdict may still make things worse."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from core.diagnosis.model import effect_sentence
from core.diagnosis.pulsar.trials import Change, Trials, judged_trials
from core.errors import InputError, OpsError
from core.findings.finding import Finding, Fix
from core.pulsar.setting_values import parse_upstream_value
from core.pulsar.settings import SETTING_BY_KEY
from core.pulsar.shedding.what_if import TurningPoint
from core.snapshot import PulsarSnapshot

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
    return replace(point, outcome=effect_sentence(effect), is_recommended=not effect.is_harmful)


def values_of(fix: Fix) -> dict[str, Any]:
    """Return what a fix sets: dynamic settings and lines of ``broker.conf``, typed.

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
    """Return what becomes of a cluster under other settings, and whether that is no worse.

    Args:
        snapshot: The cluster.
        values: Upstream key to value; shedding counts as it is switched on the cluster.
    Returns:
        A sentence, and ``None`` where it cannot be simulated.
    """
    trials = judged_trials(Trials(snapshot))
    try:
        effect = trials.effect(Change(settings=dict(values)))
    except OpsError:
        effect = None
    if effect is None:
        return "Not simulated: such a cluster cannot be.", None
    return effect_sentence(effect), not effect.is_harmful


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
    return tuple(_checked(trials, one) for one in found)


def _checked(trials: Trials, finding: Finding) -> Finding:
    values = values_of(finding.fix)
    if not values or trials.is_over:
        return finding
    effect = trials.effect(Change(settings=values))
    if effect is None or effect.before == effect.after:
        return finding
    words = effect_sentence(effect)
    if effect.is_worse:
        return replace(finding, hint=words, fix=Fix())
    return replace(finding, hint=f"{finding.hint} {words}".strip())
