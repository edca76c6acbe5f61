"""What a later release does otherwise."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from core.diagnosis.pulsar.context import Candidate, DiagnosisContext
from core.diagnosis.pulsar.trials import Change
from core.ids import SYSTEM_NAMESPACE
from core.pulsar.placement import active_placement
from core.pulsar.releases import (
    NEWEST_STABLE,
    REFERENCE_VERSIONS,
    RULE_HISTORY,
    RULES,
    Number,
    Release,
    value_at,
    version_number,
)
from core.pulsar.settings import SETTING_BY_KEY

_REMEDIES: Final = frozenset(
    {
        "sheds_system_namespace",
        "placement_forgets_idle",
        "names_destination",
        "checks_policies",
        "overload_is_weighted",
    }
)
"""Rules that are the remedy where they hold; every other one is the defect."""


def release_defect(context: DiagnosisContext) -> Iterator[Candidate]:
    """A later release ends better with the same settings: the first that does names the rule."""
    target = context.settings.target
    newest = version_number(REFERENCE_VERSIONS[NEWEST_STABLE])
    reads = {key: context.settings.value(key) for key in context.reads()}
    before = target.number
    turning = _turning_versions(target.number, newest, _relevant(context))
    for version in turning:
        later = Release.of(version)
        if not later.is_known:
            continue
        changed = [
            name
            for name in _relevant(context)
            # what a later release of the same line takes back is no remedy
            if _is_better(name, before, later.number) and _holds_in_line(name, before, later.number)
        ]
        stable = _stable_from(changed[0], before, later.number) if changed else ""
        before = later.number
        if not changed:
            continue
        held = {key: value for key, value in reads.items() if later_has(key, later)}
        yield Candidate(
            code="release_defect",
            summary=f"Release {target.name}: {RULES[changed[0]].sentence}. {version} changes this.",
            changes=(context.base.also(Change(settings=held, release=version)),),
            hint=f"Upgrade the brokers to {_upgrades(version, stable)}.",
            tier=1,
            calm_suffices=True,
        )


def later_has(key: str, later: Release) -> bool:
    """Return whether a release has a setting."""
    return SETTING_BY_KEY[key].exists_in(later)


def _is_better(rule: str, before: Number, later: Number) -> bool:
    """Return whether a rule improves between two releases."""
    history = RULE_HISTORY[rule]
    old, new = value_at(history, before), value_at(history, later)
    return new > old if rule in _REMEDIES else new < old


def _holds_in_line(rule: str, before: Number, changed: Number) -> bool:
    """Return whether no later release of the same line reverts an improvement."""
    later = (version_number(version) for version in RULE_HISTORY[rule])
    return all(
        _is_better(rule, before, number)
        for number in later
        if number > changed and number[:2] == changed[:2]
    )


def _stable_from(rule: str, before: Number, changed: Number) -> str:
    """Return the version from which a rule stays improved, or ""."""
    later = sorted({changed, *map(version_number, RULE_HISTORY[rule])})
    stable = ""
    for number in later:
        if number < changed:
            continue
        is_good = _is_better(rule, before, number)
        stable = (stable or _version(number)) if is_good else ""
    return stable


def _upgrades(version: str, stable: str) -> str:
    if version == stable:
        return f"{version} or later"
    return f"{version}, or {stable} or later" if stable else version


def _version(number: Number) -> str:
    return ".".join(str(part) for part in number)


def _relevant(context: DiagnosisContext) -> tuple[str, ...]:
    """Return the rules that the cluster's strategies and namespaces go by."""
    name = context.strategy.name
    view = context.view
    placement = active_placement(context.settings, view.load_manager)
    needs = {
        "placement_forgets_idle": placement == "LeastResourceUsageWithWeight",
        "sheds_system_namespace": SYSTEM_NAMESPACE in view.namespaces,
        "checks_policies": bool(view.policies or view.groups),
    }
    return tuple(
        rule for rule in RULES if RULES[rule].strategy in ("", name) and needs.get(rule, True)
    )


def _turning_versions(present: Number, newest: Number, rules: tuple[str, ...]) -> list[str]:
    """Return the versions after the present one at which a rule changes, oldest first."""
    numbers = {
        version_number(version)
        for rule in rules
        for version in RULE_HISTORY[rule]
        if present < version_number(version) <= newest
    }
    return [_version(number) for number in sorted(numbers)]
