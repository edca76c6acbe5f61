"""The rules of Pegasus, in the order in which their findings are listed."""

from __future__ import annotations

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
from core.pegasus.rules.partitions import lost_partitions, partitions_by_state, surplus_replicas
from core.pegasus.snapshot import PegasusFacts

RULES: Final[tuple[Rule[PegasusContext], ...]] = (
    lost_partitions,
    partitions_by_state,
    dead_nodes,
    silent_nodes,
    unusual_level,
    disks_short_of_space,
    balance,
    coverage,
    problems,
    surplus_replicas,
    switches_left_on,
)


def assess_pegasus(facts: PegasusFacts) -> tuple[Finding, ...]:
    """Judge one snapshot by every rule.

    Args:
        facts: Any snapshot; what it does not hold becomes a finding of severity ``unknown``.
    Returns:
        Worst first, then in the order of the rules; of each code only so many, the rest counted.
    """
    return run_rules(RULES, PegasusContext(facts))
