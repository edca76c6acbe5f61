"""The patterns that are tried before every single setting is."""

from __future__ import annotations

from typing import Final

from core.diagnosis.pulsar.context import Pattern
from core.diagnosis.pulsar.patterns.bundles import few_bundles, heavy_bundles
from core.diagnosis.pulsar.patterns.filters import topic_limit, version_filter
from core.diagnosis.pulsar.patterns.ownership import stale_owners, stuck_bundles
from core.diagnosis.pulsar.patterns.policies import (
    anti_affinity,
    isolation,
    not_applied,
    other_load_manager,
)
from core.diagnosis.pulsar.patterns.releases import release_defect
from core.diagnosis.pulsar.patterns.resources import (
    differing_limits,
    held_resource,
    network_limit,
    network_unmeasured,
)
from core.diagnosis.pulsar.patterns.restless import (
    even_distribution,
    idle_unloads,
    placement_measure,
    smoothing,
)
from core.diagnosis.pulsar.patterns.switches import (
    excluded_namespaces,
    policed_bundles,
    shedding_off,
)
from core.diagnosis.pulsar.patterns.thresholds import absolute_usage, condition_not_met

OWNERSHIP: Final[tuple[Pattern, ...]] = (stuck_bundles, stale_owners)
"""Those about bundles that no broker serves."""

PATTERNS: Final[tuple[Pattern, ...]] = (
    *OWNERSHIP,
    shedding_off,
    topic_limit,
    version_filter,
    excluded_namespaces,
    not_applied,
    policed_bundles,
    isolation,
    other_load_manager,
    held_resource,
    network_limit,
    network_unmeasured,
    differing_limits,
    heavy_bundles,
    few_bundles,
    condition_not_met,
    idle_unloads,
    even_distribution,
    smoothing,
    placement_measure,
    release_defect,
    anti_affinity,
    absolute_usage,
)
