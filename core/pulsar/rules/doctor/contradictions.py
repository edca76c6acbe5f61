"""Settings that contradict each other, as diagnoses."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from core.pulsar.catalogue import Value
from core.pulsar.combinations import combinations
from core.pulsar.rules.context import HealthContext
from core.pulsar.rules.doctor.model import Diagnosis, DoctorRule, Fix
from core.pulsar.setting_values import typed_value
from core.pulsar.settings import SETTING_BY_KEY


def contradictions(context: HealthContext) -> Iterator[Diagnosis]:
    """What :func:`core.pulsar.combinations.combinations` finds."""
    settings = context.settings
    for item in combinations(settings, context.snapshot.manifest.load_manager):
        yield Diagnosis(
            code=item.code,
            area="settings",
            severity=item.weight,
            keys=item.keys,
            evidence=item.evidence,
            consequence=item.consequence,
            fix=Fix.of(item.hint, {key: _typed(key, value) for key, value in item.wanted.items()}),
            facts={
                "values": {key: settings.value(key) for key in item.keys if key in SETTING_BY_KEY},
                "origins": {
                    key: settings.origin(key) for key in item.keys if key in SETTING_BY_KEY
                },
            },
        )


def _typed(key: str, value: Value) -> Value:
    return None if value is None else typed_value(SETTING_BY_KEY[key], value)


RULES: Final[tuple[DoctorRule, ...]] = (contradictions,)
