"""Changes of settings: with their own types, and as brokers write them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from core.pulsar.presets import upstream_words
from core.pulsar.setting_values import typed_value
from core.pulsar.settings import EffectiveSettings, known_setting


def typed(changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return changes with their settings' own types.

    Raises:
        UnknownNameError: A key that no setting has.
        InputError: A value of the wrong type.
    """
    return {
        key: None if value is None else typed_value(known_setting(key), value)
        for key, value in changes.items()
    }


def wanted_words(changes: Mapping[str, Any]) -> tuple[tuple[str, str | None], ...]:
    """Return the changes as brokers write them, ready for a plan."""
    return tuple(
        (key, None if value is None else upstream_words(value)) for key, value in changes.items()
    )


def is_shedding(settings: EffectiveSettings) -> bool:
    """Return whether the cluster sheds by itself."""
    return not settings.shedding_off
