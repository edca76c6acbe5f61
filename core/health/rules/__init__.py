"""The health rules, in the order in which their findings are listed."""

from __future__ import annotations

from typing import Final

from core.health.findings import Rule
from core.health.rules.coverage import (
    averages_of_few,
    partial_tables,
    problems_of_the_reading,
)
from core.health.rules.fleet import (
    leader_missing,
    mixed_load_managers,
    mixed_versions,
    unsupported_load_manager,
)
from core.health.rules.isolation import domains_shape, isolation_intruders, isolation_shape
from core.health.rules.load import (
    hot_bundles,
    idle_brokers,
    overloaded_brokers,
    single_bundle_namespaces,
    traffic_deviation,
)
from core.health.rules.metrics import (
    exposed_elsewhere,
    garbage_collection,
    many_unloads,
    metrics_against_reports,
    old_metrics,
    slow_writes,
    waiting_lookups,
)
from core.health.rules.ownership import (
    conflicting_ownership,
    reported_elsewhere,
    twice_reported,
    unowned_bundles,
)
from core.health.rules.policies import (
    anti_affinity_crowding,
    isolation_traps,
    isolation_violations,
)
from core.health.rules.reports import capacity_missing, nic_suspicious, stale_reports
from core.health.rules.requests import (
    bundles_against_reports,
    full_direct_memory,
    slow_requests,
)
from core.health.rules.settings import (
    bundle_count_near_limit,
    differing_settings,
    invalid_dynamic_values,
    settings_without_effect,
    unknown_release,
)
from core.health.rules.silence import silent_brokers

RULES: Final[tuple[Rule, ...]] = (
    silent_brokers,
    overloaded_brokers,
    traffic_deviation,
    idle_brokers,
    hot_bundles,
    single_bundle_namespaces,
    unowned_bundles,
    conflicting_ownership,
    twice_reported,
    reported_elsewhere,
    stale_reports,
    capacity_missing,
    nic_suspicious,
    garbage_collection,
    slow_writes,
    slow_requests,
    waiting_lookups,
    full_direct_memory,
    metrics_against_reports,
    bundles_against_reports,
    old_metrics,
    many_unloads,
    exposed_elsewhere,
    leader_missing,
    mixed_versions,
    mixed_load_managers,
    unsupported_load_manager,
    isolation_traps,
    isolation_violations,
    isolation_shape,
    isolation_intruders,
    domains_shape,
    anti_affinity_crowding,
    differing_settings,
    invalid_dynamic_values,
    settings_without_effect,
    unknown_release,
    bundle_count_near_limit,
    averages_of_few,
    partial_tables,
    problems_of_the_reading,
)

__all__ = ["RULES"]
