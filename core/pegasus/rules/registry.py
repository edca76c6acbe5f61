"""The rules of Pegasus, in the order in which their findings are listed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from core.findings.engine import Rule, run_rules_by_area
from core.findings.finding import Finding
from core.findings.verdict import Area, Verdict
from core.pegasus.rules.cluster import (
    balance,
    coverage,
    problems,
    switches_left_on,
    unusual_level,
)
from core.pegasus.rules.context import PegasusContext
from core.pegasus.rules.nodes import (
    dead_nodes,
    disks_short_of_space,
    nodes_off_target,
    set_aside_nodes,
    silent_nodes,
)
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
from core.progress import NO_PROGRESS, Progress
from core.snapshot.pegasus import PegasusSnapshot
from core.units import pluralize

RULES_BY_AREA: Final[Mapping[str, tuple[Rule[PegasusContext], ...]]] = {
    "partitions": (lost_partitions, refused_proposals, partitions_by_state, surplus_replicas),
    "tables": (
        requests_denied,
        writes_refused,
        requests_throttled,
        tables_splitting,
        duplications,
        backup_policies,
    ),
    "nodes": (dead_nodes, silent_nodes, set_aside_nodes),
    "level": (unusual_level,),
    "disks": (disks_short_of_space,),
    "balance": (balance, nodes_off_target),
    "reading": (coverage, problems),
    "settings": (switches_left_on,),
}
"""The rules of each area, in the order in which their findings are listed."""

AREAS: Final = tuple(area for area in RULES_BY_AREA if area != "reading")
"""The areas of a verdict, in the order in which they are named."""


def assess_pegasus(
    facts: PegasusFacts,
    earlier: Sequence[PegasusSnapshot] = (),
    progress: Progress = NO_PROGRESS,
) -> tuple[Finding, ...]:
    """Judge one snapshot by every rule.

    Args:
        facts: Any snapshot; what it does not hold becomes a finding of severity ``unknown``.
        earlier: Snapshots of the cluster before it, the newest last: they show what lasts.
        progress: Called before each rule.
    Returns:
        Worst first, then in the order of the rules; of each code only so many, the rest counted.
    """
    return run_rules_by_area(RULES_BY_AREA, PegasusContext(facts, earlier), progress)


def pegasus_verdict(
    facts: PegasusFacts,
    earlier: Sequence[PegasusSnapshot] = (),
    progress: Progress = NO_PROGRESS,
) -> Verdict:
    """Judge one snapshot by every rule, and name what was examined.

    Args:
        facts: Any snapshot; an area that it lacks the data of is named as not examined.
        earlier: Snapshots of the cluster before it, the newest last.
        progress: Called before each rule.
    """
    return Verdict(
        findings=assess_pegasus(facts, earlier, progress),
        areas=tuple(Area(name=name, unexamined=_unexamined(facts, name)) for name in AREAS),
    )


def _unexamined(facts: PegasusFacts, area: str) -> str:
    """Return the reason an area was not or only partly examined, or ""."""
    reason = _REASONS.get(area)
    return reason(facts) if reason is not None else ""


def _of_partitions(facts: PegasusFacts) -> str:
    entry = facts.snapshot.manifest.tables["partitions"]
    if not entry.rows:
        return "no partition was read"
    if entry.coverage_ratio is not None and entry.coverage_ratio < 1:
        return f"{entry.rows:,} of {entry.expected or 0:,} partitions were read"
    return ""


def _of_tables(facts: PegasusFacts) -> str:
    return "" if facts.tables else "no table is known"


def _of_nodes(facts: PegasusFacts) -> str:
    return "" if facts.nodes else "no node is known"


def _of_disks(facts: PegasusFacts) -> str:
    silent = len(facts.columns.nodes_with("not answering"))
    if not facts.snapshot.tables["disks"].num_rows:
        return "no disk was read"
    return f"{pluralize(silent, 'node')} did not answer" if silent else ""


def _of_level(facts: PegasusFacts) -> str:
    return "the meta server did not report it" if facts.effective_level is None else ""


def _of_settings(facts: PegasusFacts) -> str:
    return "" if facts.snapshot.settings else "settings were not read"


_REASONS: Final[Mapping[str, Callable[[PegasusFacts], str]]] = {
    "partitions": _of_partitions,
    "tables": _of_tables,
    "balance": _of_partitions,
    "nodes": _of_nodes,
    "disks": _of_disks,
    "level": _of_level,
    "settings": _of_settings,
}
