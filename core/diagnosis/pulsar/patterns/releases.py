"""What a later release does otherwise."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from core.diagnosis.pulsar.context import Candidate, DiagnosisContext
from core.diagnosis.pulsar.trials import Change
from core.pulsar.placement import active_placement
from core.pulsar.releases import (
    NEWEST_STABLE,
    REFERENCE_VERSIONS,
    RULE_HISTORY,
    Number,
    Release,
    value_at,
    version_number,
)
from core.pulsar.settings import SETTING_BY_KEY

_OF_STRATEGY: Final = {
    "drops": "ThresholdShedder",
    "uniform": "UniformLoadShedder",
    "avg": "AvgShedder",
    "transfer": "TransferShedder",
}
"""First word of a rule's name to the only strategy that goes by it."""

RULES: Final = {
    "drops_over_limit": "ThresholdShedder drops resources above 100 % of their limit",
    "uniform_is_joint": "UniformLoadShedder compares the rate of one broker with another's traffic",
    "uniform_skips_single": "UniformLoadShedder skips brokers with one bundle",
    "uniform_rate_slack": "UniformLoadShedder picks up to 1,000 msg/s more than it should",
    "uniform_throughput_slack": "UniformLoadShedder picks up to 1,000 bytes/s more than it should",
    "avg_ranks_by_points": "AvgShedder ranks brokers less than one point apart as equal",
    "transfer_moves_idle": "TransferShedder moves bundles without traffic",
    "transfer_counts_bytes": "TransferShedder fills only brokers without any traffic",
    "sheds_system_namespace": "bundles of pulsar/system are shed or not",
    "placement_forgets_idle": "LeastResourceUsageWithWeight forgets an idle broker's past",
    "names_destination": "an unload goes wherever the next lookup places it",
    "checks_policies": "bundles are unloaded that policies give back to their broker",
    "overload_is_weighted": "weights of resources do not count for the overload limit",
    "heap_is_weighed": "JVM heap counts in the usage of a broker",
    "heap_is_in_maximum": "JVM heap counts for the overload limit",
}
"""What older releases do, a clause each rule of :data:`core.pulsar.releases.RULE_HISTORY`."""


def release_defect(context: DiagnosisContext) -> Iterator[Candidate]:
    """A later release ends better with the same settings: the first that does names the rule."""
    target = context.settings.target
    newest = version_number(REFERENCE_VERSIONS[NEWEST_STABLE])
    reads = {key: context.settings.value(key) for key in context.reads()}
    for version in _turning_versions(target.number, newest, _relevant(context)):
        later = Release.of(version)
        if not later.is_known:
            continue
        changed = [
            name
            for name in _relevant(context)
            if value_at(RULE_HISTORY[name], target.number)
            != value_at(RULE_HISTORY[name], later.number)
        ]
        if not changed:
            continue
        held = {key: value for key, value in reads.items() if later_has(key, later)}
        yield Candidate(
            code="release_defect",
            summary=f"In {target.name} {RULES[changed[-1]]}; {version} does not.",
            changes=(context.base.also(Change(settings=held, release=version)),),
            hint=f"Upgrade the brokers to {version} or later.",
            tier=2,
        )


def later_has(key: str, later: Release) -> bool:
    """Return whether a release has a setting."""
    return SETTING_BY_KEY[key].exists_in(later)


def _relevant(context: DiagnosisContext) -> tuple[str, ...]:
    """Return the rules that the cluster's strategies go by."""
    name = context.strategy.name
    placement = active_placement(context.settings, context.view.load_manager)
    return tuple(
        rule
        for rule in RULES
        if _OF_STRATEGY.get(rule.partition("_")[0], name) == name
        and (rule != "placement_forgets_idle" or placement == "LeastResourceUsageWithWeight")
    )


def _turning_versions(present: Number, newest: Number, rules: tuple[str, ...]) -> list[str]:
    """Return the versions after the present one at which a rule changes, oldest first."""
    numbers = {
        version_number(version)
        for rule in rules
        for version in RULE_HISTORY[rule]
        if present < version_number(version) <= newest
    }
    return [".".join(str(part) for part in number) for number in sorted(numbers)]
