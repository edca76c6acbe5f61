"""Examine one cluster: every rule of the doctor, and what could not be judged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import pyarrow as pa

from core.findings.engine import Rule, run_rules, worst_first
from core.findings.finding import Finding
from core.pulsar.measures import measure
from core.pulsar.rules import measurements
from core.pulsar.rules.context import HealthContext
from core.pulsar.rules.doctor import (
    alike,
    capacity,
    contradictions,
    file_keys,
    file_values,
    host_load,
    policies,
    recorded,
)
from core.pulsar.rules.doctor.groups import Comparison, compare_brokers
from core.pulsar.rules.doctor.model import AREAS
from core.pulsar.rules.recorded_past import RecordedPast
from core.pulsar.settings import SETTING_BY_KEY, SETTINGS, EffectiveSettings, effective_settings
from core.snapshot import PulsarSnapshot
from core.units import pluralize

DOCTOR_RULES: Final[tuple[Rule[HealthContext], ...]] = (
    *contradictions.RULES,
    *file_keys.RULES,
    *file_values.RULES,
    *alike.RULES,
    *capacity.RULES,
    *host_load.RULES,
    *measurements.RULES,
    *policies.RULES,
    *recorded.RULES,
)


_BY_SETTINGS: Final = ("settings", "policies")
"""Areas whose evidence is what settings are; that of the others is what was measured."""


OF_HOSTS: Final = ("foreign_load", "cpu_off_traffic")
"""Findings about the load of a broker's host: its page lists them, and Brokers."""


@dataclass(frozen=True, kw_only=True)
class Examination:
    """The doctor's findings on a cluster.

    Attributes:
        diagnoses: Worst first, then in the order of the areas.
        comparison: Brokers against each other.
        unjudged: Sentences about what could not be judged, and why.
        changed: Settings that are not the defaults of their release.
        assumed: Settings that the snapshot does not have.
    """

    diagnoses: tuple[Finding, ...]
    comparison: Comparison
    unjudged: tuple[str, ...]
    changed: tuple[str, ...]
    assumed: tuple[str, ...]

    @property
    def of_settings(self) -> tuple[Finding, ...]:
        """All but the problems of a broker's host, which no setting fixes."""
        return tuple(one for one in self.diagnoses if one.code not in OF_HOSTS)

    @property
    def warnings(self) -> tuple[Finding, ...]:
        """Findings that need attention."""
        return tuple(one for one in self.diagnoses if one.severity in ("error", "warning"))

    @property
    def doubted(self) -> tuple[Finding, ...]:
        """Findings that need attention if settings that were not read are the defaults."""
        return tuple(one for one in self.diagnoses if one.severity == "unknown" and one.assumed)


def examine(
    snapshot: PulsarSnapshot,
    settings: EffectiveSettings | None = None,
    past: RecordedPast | None = None,
    earlier: Sequence[pa.Table] = (),
) -> Examination:
    """Examine the settings of one snapshot's cluster.

    Args:
        snapshot: Any snapshot; what it does not hold is reported as unjudged.
        settings: Effective ones; by default those of the snapshot.
        past: What was recorded of the cluster, for its peaks; else those of the snapshot count.
        earlier: Brokers of the minutes before the snapshot, oldest first; see
            :class:`core.pulsar.rules.context.HealthContext`.
    """
    chosen = effective_settings(snapshot) if settings is None else settings
    context = HealthContext(snapshot, chosen, measure(snapshot, chosen), past=past, earlier=earlier)
    found = run_rules(DOCTOR_RULES, context, limit=None)
    areas = list(AREAS)
    read = frozenset(snapshot.settings["name"].to_pylist())
    return Examination(
        diagnoses=worst_first(
            sorted(
                (_doubted(one, chosen, read) for one in found),
                key=lambda one: areas.index(one.area),
            )
        ),
        comparison=compare_brokers(snapshot, chosen),
        unjudged=tuple(_unjudged(context)),
        changed=tuple(
            one.key for one in SETTINGS if chosen.value(one.key) != chosen.default_of(one.key)
        ),
        assumed=tuple(one.key for one in SETTINGS if chosen.origin(one.key) == "assumed"),
    )


def _doubted(one: Finding, settings: EffectiveSettings, read: frozenset[str]) -> Finding:
    """Mark findings based on settings that were not read: not warnings, possibly wrong."""
    assumed = tuple(
        key
        for key in one.keys
        if key in SETTING_BY_KEY and key not in read and settings.origin(key) == "assumed"
    )
    if one.area not in _BY_SETTINGS or not assumed:
        return one
    whole = len(assumed) == len(one.keys)
    names = "its settings" if whole else ", ".join(assumed)
    return replace(
        one,
        severity="unknown" if one.severity == "warning" else one.severity,
        sentence=f"{one.sentence} Assumed, not read: {names}.",
        assumed=assumed,
    )


def _unjudged(context: HealthContext) -> list[str]:
    """Return the parts that the snapshot lacks."""
    notes = list(context.settings.problems)
    if not context.snapshot.settings.num_rows:
        notes.append(
            "No setting of this cluster was read: the defaults of its release are assumed, and "
            "brokers cannot be compared. Settings are read over REST: see admin_urls."
        )
    brokers = len(context.measures.usage.brokers)
    silent = context.liveness.silent
    if silent:
        notes.append(
            f"{pluralize(len(silent), 'broker')} of {brokers} did not answer: the "
            "settings of the others are assumed for them."
        )
    known = int(np.isfinite(context.measures.throughput.values).sum())
    if known < host_load.MIN_BROKERS:
        notes.append(
            "Other processes on broker hosts were not evaluated: the comparison "
            f"needs load reports of {host_load.MIN_BROKERS} brokers and has {known}."
        )
    return notes
