"""Rules about settings: where brokers disagree, what is stored without effect."""

from __future__ import annotations

from collections.abc import Iterator

from core.findings.finding import Finding
from core.findings.quantity import Quantity
from core.pulsar.rules.context import HealthContext
from core.pulsar.settings import SETTING_BY_KEY, missing_setting


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
            hint="The leader's value applies, so a change of leader changes the behavior.",
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
