"""Areas of the settings doctor, and how its findings are fixed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypedDict

from core.findings.finding import Fix
from core.pulsar.catalogue import Value
from core.pulsar.presets import upstream_words
from core.pulsar.settings import SETTING_BY_KEY

AREAS: Final[Mapping[str, str]] = {
    "settings": "Conflicting settings",
    "brokers": "Differences between brokers",
    "capacity": "Capacity",
    "policies": "Policies",
    "record": "Metrics vs. recorded history",
}
"""Label of each area, in the order in which they are shown."""


class _SettingSubject(TypedDict):
    subject_kind: str
    subject: str
    area: str
    keys: tuple[str, ...]


def about_settings(*keys: str) -> _SettingSubject:
    """Return the fields of a finding about settings; the first one is its subject."""
    return {"subject_kind": "setting", "subject": keys[0], "area": "settings", "keys": keys}


def settings_fix(wanted: Mapping[str, Value]) -> Fix:
    """Return the fix that sets these values: dynamically, else by a line of ``broker.conf``."""
    dynamic = {key: value for key, value in wanted.items() if SETTING_BY_KEY[key].is_dynamic}
    fixed = {key: value for key, value in wanted.items() if key not in dynamic}
    return Fix(
        wanted=dynamic,
        lines=tuple(f"{key}={upstream_words(value)}" for key, value in fixed.items()),
        restart=any(SETTING_BY_KEY[key].takes_effect == "restart" for key in wanted),
    )


def some(names: tuple[str, ...] | list[str], shown: int = 3) -> str:
    """Return names for a sentence: all of a few, else the first and how many more."""
    if len(names) == 1:
        return names[0]
    if len(names) <= shown:
        return f"{', '.join(names[:-1])} and {names[-1]}"
    return f"{names[0]} and {len(names) - 1} other brokers"
