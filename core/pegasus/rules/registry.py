"""The rules of Pegasus, in the order in which their findings are listed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from core.findings.engine import Rule, run_rules
from core.findings.finding import Finding
from core.pegasus.rules.cluster import (
    balance,
    coverage,
    problems,
    switches_left_on,
    unusual_level,
)
from core.pegasus.rules.context import PegasusContext
from core.pegasus.rules.nodes import dead_nodes, disks_short_of_space, silent_nodes
from core.pegasus.rules.partitions import (
    lost_partitions,
    partitions_by_state,
    refused_proposals,
    surplus_replicas,
)
from core.pegasus.rules.tables import (
    backup_policies,
    duplications,
    requests_denied,
    requests_throttled,
    tables_splitting,
    writes_refused,
)
from core.pegasus.snapshot import PegasusFacts
from core.snapshot.pegasus import PegasusSnapshot

RULES: Final[tuple[Rule[PegasusContext], ...]] = (
    lost_partitions,
    refused_proposals,
    partitions_by_state,
    requests_denied,
    writes_refused,
    dead_nodes,
    silent_nodes,
    unusual_level,
    disks_short_of_space,
    requests_throttled,
    balance,
    coverage,
    problems,
    surplus_replicas,
    tables_splitting,
    duplications,
    backup_policies,
    switches_left_on,
)


def assess_pegasus(
    facts: PegasusFacts, earlier: Sequence[PegasusSnapshot] = ()
) -> tuple[Finding, ...]:
    """Judge one snapshot by every rule.

    Args:
        facts: Any snapshot; what it does not hold becomes a finding of severity ``unknown``.
        earlier: Snapshots of the cluster before it, the newest last: they show what lasts.
    Returns:
        Worst first, then in the order of the rules; of each code only so many, the rest counted.
    """
    return run_rules(RULES, PegasusContext(facts, earlier))
