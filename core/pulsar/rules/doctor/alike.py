"""Brokers that differ: settings, releases, load managers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final

from core.findings.engine import Rule
from core.findings.finding import Finding, Fix
from core.findings.quantity import Quantity
from core.pulsar.catalogue import Value
from core.pulsar.releases import Release
from core.pulsar.rules.context import HealthContext
from core.pulsar.rules.doctor.groups import class_name, value_words
from core.pulsar.rules.doctor.model import settings_fix, some
from core.pulsar.settings import SETTING_BY_KEY, SETTINGS, missing_setting

_OWN_PREFIXES: Final = (
    "loadBalancerReportUpdate",
    "loadBalancerOverrideBrokerNic",
    "loadBalancerHostUsage",
    "statsUpdate",
    "exposeBundles",
)
"""Settings that every broker applies to itself, whoever leads."""


def differing(context: HealthContext) -> Iterator[Finding]:
    """A setting that is not the same on every broker."""
    for key, by_broker in context.settings.differing().items():
        counts = Counter(by_broker.values())
        common = counts.most_common(1)[0][0]
        odd = tuple(name for name, value in by_broker.items() if value != common)
        listed = "; ".join(
            f"{value_words(value)} on "
            + some([name for name, own in by_broker.items() if own == value])
            for value, _ in sorted(counts.items(), key=lambda item: item[1])
        )
        setting = SETTING_BY_KEY[key]
        yield Finding(
            code="settings_differ",
            title="Setting differs between brokers",
            measured=Quantity(len(_words(by_broker)), "values"),
            limit=Quantity(1),
            area="brokers",
            severity="info" if key.startswith("loadBalancerOverrideBrokerNic") else "warning",
            keys=(key,),
            servers=odd,
            sentence=f"{key}: {listed}.",
            consequence=_consequence(context, key),
            hint="The same value on every broker"
            + ("." if setting.is_dynamic else ", with a restart of those that differ."),
            fix=settings_fix({key: common}),
            evidence={
                "effective": value_words(context.settings.value(key)),
                "rows": _words(by_broker),
            },
        )


def _consequence(context: HealthContext, key: str) -> str:
    if "brokers" in SETTING_BY_KEY[key].managers or key.startswith(_OWN_PREFIXES):
        return "Each broker uses its own value: the same load is reported or treated differently."
    leader = context.snapshot.manifest.leader
    value = value_words(context.settings.value(key))
    held = f" ({value} on {leader})" if leader else ""
    return f"The leader's value applies{held}: a change of leader changes the behavior."


def _words(by_broker: Mapping[str, Value]) -> dict[str, list[str]]:
    held: dict[str, list[str]] = {}
    for name, value in by_broker.items():
        held.setdefault(value_words(value), []).append(name)
    return held


def releases(context: HealthContext) -> Iterator[Finding]:
    """Brokers of several releases, and the defaults that differ between them."""
    versions = _held_by(context, "version")
    if len(versions) < 2:
        return
    listed = ", ".join(f"{version} on {some(names)}" for version, names in versions.items())
    found = sorted({Release.of(version) for version in versions}, key=lambda one: one.number)
    lines = list(dict.fromkeys(one.line for one in found))
    apart = [
        one.key
        for one in SETTINGS
        if len({one.default_for(release) for release in found}) > 1
        and context.settings.origin(one.key) in ("default", "assumed")
    ]
    defaults = (
        f" Unset defaults differ between {' and '.join(lines)}: {', '.join(apart)}."
        if apart
        else ""
    )
    yield Finding(
        code="mixed_releases",
        title="Brokers run different releases",
        measured=Quantity(len(versions), "releases"),
        limit=Quantity(1),
        area="brokers",
        severity="warning" if apart else "info",
        keys=tuple(apart),
        servers=tuple(name for names in list(versions.values())[1:] for name in names),
        sentence=f"The brokers run {len(versions)} releases: {listed}.{defaults}",
        consequence="The behavior depends on the release of the leader."
        if apart
        else "Normal during an upgrade; strategies differ in details between releases.",
        hint="Finish the upgrade before you tune anything.",
        evidence={"rows": versions},
    )


def release_gaps(context: HealthContext) -> Iterator[Finding]:
    """An unknown release, and values of settings that the release does not have."""
    target = context.settings.target
    if not target.is_known and target.reported is not None:
        yield Finding(
            code="release_unknown",
            title="Release is not known",
            measured=Quantity(target.reported or "unknown"),
            limit=Quantity(target.line),
            area="brokers",
            severity="unknown",
            keys=(),
            sentence=target.warning,
            consequence="Defaults and rules may differ from what is shown.",
            hint="Compare the release notes before you rely on predictions.",
            evidence={"reported": target.reported, "assumed": target.line},
        )
    for key in context.settings.without_effect:
        setting = SETTING_BY_KEY[key]
        yield Finding(
            code="setting_without_effect",
            title="Setting has no effect in this release",
            measured=Quantity(target.name),
            area="brokers",
            severity="warning",
            keys=(key,),
            sentence=missing_setting(target, setting),
            consequence="The cluster behaves as if the value was not set.",
            hint="Remove it from the configuration, or upgrade the brokers.",
            evidence={"release": target.name, "available_in": setting.available_in},
        )


def load_managers(context: HealthContext) -> Iterator[Finding]:
    """Brokers that run another load manager than the leader."""
    managers = _held_by(context, "load_manager")
    if len(managers) < 2:
        return
    listed = ", ".join(f"{class_name(name)} on {some(held)}" for name, held in managers.items())
    yield Finding(
        code="mixed_load_managers",
        title="Brokers run different load managers",
        measured=Quantity(len(managers), "load managers"),
        limit=Quantity(1),
        area="brokers",
        severity="warning",
        keys=("loadManagerClassName",),
        servers=tuple(name for names in list(managers.values())[1:] for name in names),
        sentence=f"The brokers run different load managers: {listed}.",
        consequence="Bundles are placed only on brokers with the leader's load manager; "
        "the others become empty.",
        hint="Finish the migration: one class everywhere.",
        fix=Fix(lines=(f"loadManagerClassName={next(iter(managers))}",), restart=True),
        evidence={"rows": managers},
    )


def _held_by(context: HealthContext, column: str) -> dict[str, list[str]]:
    """Return value to the brokers that have it, the most frequent value first."""
    brokers = context.snapshot.brokers
    held: dict[str, list[str]] = {}
    for name, value in zip(brokers["broker"].to_pylist(), brokers[column].to_pylist(), strict=True):
        if value is not None:
            held.setdefault(value, []).append(name)
    return dict(sorted(held.items(), key=lambda item: -len(item[1])))


RULES: Final[tuple[Rule[HealthContext], ...]] = (differing, releases, release_gaps, load_managers)
