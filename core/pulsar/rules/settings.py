"""Rules about settings: where brokers disagree, what is stored without effect, what runs full."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from core.findings.engine import Unlisted
from core.findings.finding import Finding, Severity
from core.findings.quantity import Quantity
from core.pulsar.rules.context import HealthContext
from core.pulsar.settings import SETTING_BY_KEY, missing_setting
from core.units import format_ratio

NEAR_LIMIT_RATIO: Final = 0.9
_MAX_BUNDLES: Final = "loadBalancerNamespaceMaximumBundles"
_INFO: Final[Severity] = "info"


def differing_settings(context: HealthContext) -> Iterator[Finding]:
    """Load-balancer settings that are not the same on every broker."""
    for key, by_broker in context.settings.differing().items():
        values: dict[str, list[str]] = {}
        for broker, value in by_broker.items():
            values.setdefault(str(value), []).append(broker)
        text = "; ".join(
            f"{value} on {brokers[0] if len(brokers) == 1 else f'{len(brokers)} brokers'}"
            for value, brokers in sorted(values.items(), key=lambda item: len(item[1]))
        )
        yield Finding(
            code="settings_differ",
            title="Setting differs between brokers",
            measured=Quantity(len(values), "values"),
            limit=Quantity(1),
            severity="warning",
            subject_kind="setting",
            subject=key,
            sentence=f"{key} differs between brokers: {text}.",
            evidence={"effective": str(context.settings.value(key)), "rows": values},
            hint="The leader's value decides, so a change of leader changes the behaviour.",
        )


def invalid_dynamic_values(context: HealthContext) -> Iterator[Finding]:
    """Stored values that no broker can read: they go on with what they had."""
    for sentence in context.settings.problems:
        yield Finding(
            code="setting_not_effective",
            title="Stored value is not effective",
            severity="warning",
            subject_kind="setting",
            subject=sentence.removeprefix("Setting ").partition(" ")[0],
            sentence=sentence,
            hint="Set it again with a value of its type, or delete the dynamic setting.",
        )


def unknown_release(context: HealthContext) -> Iterator[Finding]:
    """A release whose defaults and rules are not known."""
    target = context.settings.target
    if target.is_known or target.reported is None:
        return
    yield Finding(
        code="release_unknown",
        title="Release is not known",
        measured=Quantity(target.reported or "unknown"),
        limit=Quantity(target.line),
        severity="unknown",
        subject_kind="cluster",
        subject=context.snapshot.manifest.cluster,
        sentence=target.warning,
        evidence={"reported": target.reported, "assumed": target.line},
        hint="Compare its release notes before you rely on predictions.",
    )


def settings_without_effect(context: HealthContext) -> Iterator[Finding]:
    """Values of settings that the release does not have."""
    target = context.settings.target
    for key in context.settings.without_effect:
        setting = SETTING_BY_KEY[key]
        yield Finding(
            code="setting_without_effect",
            title="Setting has no effect in this release",
            measured=Quantity(target.name),
            severity="warning",
            subject_kind="setting",
            subject=key,
            sentence=missing_setting(target, setting),
            evidence={"release": target.name, "available_in": setting.available_in},
            hint="Remove it from the configuration, or upgrade the brokers.",
        )


def bundle_count_near_limit(context: HealthContext) -> Iterator[Finding | Unlisted]:
    """Namespaces with nearly as many bundles as automatic splitting allows."""
    limit = context.settings.number(_MAX_BUNDLES)
    if not limit > 0:
        return
    # the fullest come first: those over the limit before those near it
    for code, severity, title, least, below in (
        ("bundle_limit_reached", _INFO, "At the maximum bundle count", limit, float("inf")),
        (
            "bundle_limit_near",
            _INFO,
            "Near the maximum bundle count",
            limit * NEAR_LIMIT_RATIO,
            limit,
        ),
    ):
        found = context.bundles.near_limit(least, below)
        for row in found.rows.to_pylist():
            yield _crowded(row["namespace"], row["bundles"], limit, (code, severity, title))
        if found.unlisted:
            yield Unlisted(code, found.unlisted)


def _crowded(
    namespace: str, count: int, limit: float, verdict: tuple[str, Severity, str]
) -> Finding:
    return Finding(
        code=verdict[0],
        title=verdict[2],
        measured=Quantity(count),
        limit=Quantity(limit),
        severity=verdict[1],
        subject_kind="namespace",
        subject=namespace,
        sentence=(
            f"{namespace} has {count} bundles, {format_ratio(count / limit)} of the "
            f"{limit:.0f} up to which bundles are split automatically."
        ),
        evidence={"bundles": count, "limit": limit, "setting": _MAX_BUNDLES},
        hint="Bundles cannot be merged; raise the limit only after a look at who needs it.",
    )
