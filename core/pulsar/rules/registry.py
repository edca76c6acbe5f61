"""The rules of health, in the order in which their findings are listed."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from core.findings.engine import Rule, run_rules_by_area
from core.findings.finding import Finding
from core.progress import NO_PROGRESS, Progress
from core.pulsar.measures import Target, measure
from core.pulsar.rules import measurements
from core.pulsar.rules.addresses import (
    lacking_addresses,
    leader_by_url,
    odd_ids,
    shared_addresses,
    unusable_addresses,
)
from core.pulsar.rules.bundle_facts import BundleFacts
from core.pulsar.rules.context import HealthContext
from core.pulsar.rules.coverage import averages_of_few, partial_tables, problems_of_the_reading
from core.pulsar.rules.fleet import (
    leader_missing,
    mixed_load_managers,
    mixed_versions,
    unsupported_load_manager,
)
from core.pulsar.rules.isolation import domains_shape, isolation_intruders, isolation_shape
from core.pulsar.rules.leader import leader_inactive
from core.pulsar.rules.liveness import (
    brokers_not_alive,
    missing_reports,
    reports_ahead,
    reports_of_all,
    silent_addresses,
    unjudged_brokers,
)
from core.pulsar.rules.load import (
    hot_bundles,
    idle_brokers,
    overloaded_brokers,
    placement_without_candidate,
    single_bundle_namespaces,
    traffic_deviation,
)
from core.pulsar.rules.metrics import (
    exposed_elsewhere,
    garbage_collection,
    many_unloads,
    metrics_against_reports,
    old_metrics,
    slow_writes,
    waiting_lookups,
)
from core.pulsar.rules.ownership import (
    reported_elsewhere,
    twice_reported,
    unowned_bundles,
    unserved_bundles,
)
from core.pulsar.rules.policies import anti_affinity_crowding, isolation_traps, isolation_violations
from core.pulsar.rules.reports import capacity_missing, nic_suspicious
from core.pulsar.rules.requests import bundles_against_reports, full_direct_memory, slow_requests
from core.pulsar.rules.settings import (
    differing_settings,
    invalid_dynamic_values,
    settings_without_effect,
    unknown_release,
)
from core.pulsar.rules.splits import bundle_count_near_limit, split_storms, topic_carries_bundle
from core.pulsar.settings import EffectiveSettings, effective_settings
from core.snapshot import PulsarSnapshot

RULES_BY_AREA: Final[Mapping[str, tuple[Rule[HealthContext], ...]]] = {
    "liveness": (
        brokers_not_alive,
        reports_of_all,
        reports_ahead,
        unjudged_brokers,
        silent_addresses,
        missing_reports,
    ),
    "serving": (
        unowned_bundles,
        unserved_bundles,
        twice_reported,
        reported_elsewhere,
        waiting_lookups,
        slow_writes,
        slow_requests,
    ),
    "leader": (leader_missing, leader_inactive),
    "load": (
        overloaded_brokers,
        traffic_deviation,
        idle_brokers,
        hot_bundles,
        placement_without_candidate,
        single_bundle_namespaces,
        garbage_collection,
        full_direct_memory,
        many_unloads,
        averages_of_few,
    ),
    "measurements": (
        *measurements.RULES,
        capacity_missing,
        nic_suspicious,
        metrics_against_reports,
        bundles_against_reports,
        old_metrics,
    ),
    "addresses": (
        unusable_addresses,
        shared_addresses,
        lacking_addresses,
        odd_ids,
        leader_by_url,
        exposed_elsewhere,
    ),
    "policies": (
        isolation_traps,
        isolation_violations,
        isolation_shape,
        isolation_intruders,
        domains_shape,
        anti_affinity_crowding,
    ),
    "settings": (
        mixed_versions,
        mixed_load_managers,
        unsupported_load_manager,
        differing_settings,
        invalid_dynamic_values,
        settings_without_effect,
        unknown_release,
    ),
    "splits": (bundle_count_near_limit, split_storms, topic_carries_bundle),
    "reading": (partial_tables, problems_of_the_reading),
}
"""The rules of each area, in the order in which their findings are listed."""

AREAS: Final = (
    *("load", "serving", "liveness", "leader", "measurements", "settings", "policies"),
    *("addresses", "splits"),
)
"""The areas of a verdict, in the order in which they are named."""

RULES: Final = tuple(rule for rules in RULES_BY_AREA.values() for rule in rules)


def assess(
    snapshot: PulsarSnapshot,
    settings: EffectiveSettings | None = None,
    *,
    target: Target | None = None,
    bundles: BundleFacts | None = None,
    moved: Collection[str] = frozenset(),
    progress: Progress = NO_PROGRESS,
) -> tuple[Finding, ...]:
    """Judge one snapshot by every rule.

    Args:
        snapshot: Any snapshot; what it does not hold becomes a finding of severity ``unknown``.
        settings: The active settings; by default those of the snapshot.
        target: What counts as balanced; by default the cluster's own target.
        bundles: Who holds the bundles, where the snapshot does not.
        moved: Bundles whose owner changed in the minutes before.
        progress: Called before each rule.
    Returns:
        Worst first, then in the order of the rules; at most
        :data:`core.findings.engine.MAX_OF_ONE_CODE` of one code, the rest counted in one more.
    """
    chosen = effective_settings(snapshot) if settings is None else settings
    context = HealthContext(
        snapshot, chosen, measure(snapshot, chosen), target, bundles, moved=moved
    )
    return run_rules_by_area(RULES_BY_AREA, context, progress)
