"""What the settings doctor says: a diagnosis with its evidence, consequence and fix."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from core.findings.finding import Severity
from core.pulsar.catalogue import Value
from core.pulsar.presets import upstream_words
from core.pulsar.rules.context import HealthContext
from core.pulsar.settings import SETTING_BY_KEY

Area = Literal["settings", "brokers", "capacity", "policies", "record"]

AREAS: Final[Mapping[Area, str]] = {
    "settings": "Settings that contradict",
    "brokers": "Brokers against each other",
    "capacity": "Capacity",
    "policies": "Policies",
    "record": "Metrics against the recorded history",
}
"""Areas in the order in which they are shown, in words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fix:
    """How a diagnosis is mended.

    Attributes:
        sentence: What to do, in words; may be empty where the values say it.
        wanted: Dynamic settings to set, ready for a plan; ``None``: taken away.
        lines: Lines for ``broker.conf``, each with a restart of the brokers one by one.
        restart: Whether something of it is felt only when a broker starts.
    """

    sentence: str = ""
    wanted: Mapping[str, Value] = field(default_factory=dict)
    lines: tuple[str, ...] = ()
    restart: bool = False

    @classmethod
    def of(cls, sentence: str, wanted: Mapping[str, Value]) -> Fix:
        """Return the fix that gives settings these values, each in the way that it takes."""
        dynamic = {key: value for key, value in wanted.items() if SETTING_BY_KEY[key].is_dynamic}
        fixed = {key: value for key, value in wanted.items() if key not in dynamic}
        return cls(
            sentence=sentence,
            wanted=dynamic,
            lines=tuple(f"{key}={upstream_words(value)}" for key, value in fixed.items()),
            restart=any(SETTING_BY_KEY[key].takes_effect == "restart" for key in wanted),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """One thing that is wrong with settings, or with what the load manager reckons with.

    Attributes:
        code: Stable word of the rule.
        area: What it is about.
        severity: ``warning``: the balance suffers, or will; ``info``: worth knowing; ``unknown``:
            it could not be judged.
        keys: The settings concerned.
        brokers: Broker ids concerned; empty: all.
        evidence: What was seen, with values and where.
        consequence: What comes of it.
        fix: How it is mended.
        facts: The numbers behind it, ready for JSON.
        assumed: The settings of it that were not read: the defaults of the release stand for
            them, so nobody knows whether it is so.
    """

    code: str
    area: Area
    severity: Severity
    evidence: str
    consequence: str
    fix: Fix = field(default_factory=Fix)
    keys: tuple[str, ...] = ()
    brokers: tuple[str, ...] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)
    assumed: tuple[str, ...] = ()


DoctorRule = Callable[[HealthContext], Iterator[Diagnosis]]


def some(names: tuple[str, ...] | list[str], shown: int = 3) -> str:
    """Return names for a sentence: all of a few, else the first and how many more."""
    if len(names) == 1:
        return names[0]
    if len(names) <= shown:
        return f"{', '.join(names[:-1])} and {names[-1]}"
    return f"{names[0]} and {len(names) - 1} other brokers"
