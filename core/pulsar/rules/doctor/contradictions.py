"""Settings that contradict each other, as findings of the doctor."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from core.findings.engine import Rule
from core.findings.finding import Finding
from core.pulsar.catalogue import Value
from core.pulsar.rules.combinations import combinations
from core.pulsar.rules.context import HealthContext
from core.pulsar.rules.doctor.model import settings_fix
from core.pulsar.setting_values import typed_value
from core.pulsar.settings import SETTING_BY_KEY


def contradictions(context: HealthContext) -> Iterator[Finding]:
    """Findings of :func:`core.pulsar.rules.combinations.combinations`."""
    settings = context.settings
    for item in combinations(settings, context.snapshot.manifest.load_manager):
        known = [key for key in item.keys if key in SETTING_BY_KEY]
        yield replace(
            item,
            area="settings",
            fix=settings_fix({key: _typed(key, value) for key, value in item.fix.wanted.items()}),
            evidence={
                "values": {key: settings.value(key) for key in known},
                "origins": {key: settings.origin(key) for key in known},
            },
        )


def _typed(key: str, value: Value) -> Value:
    return None if value is None else typed_value(SETTING_BY_KEY[key], value)


RULES: Final[tuple[Rule[HealthContext], ...]] = (contradictions,)
