"""Findings on a Pegasus cluster, one sentence each, with the numbers behind it.

Health of partitions is counted by the five states (counting ``states``), unless said otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from core.health.findings import SEVERITIES, Finding, capped
from core.health.rules.coverage import coverage_of, problems_of
from core.pegasus.health import HealthState
from core.pegasus.ids import gpid_text
from core.pegasus.levels import FunctionLevel
from core.pegasus.snapshot import STORED_LEVEL, SWITCHES, PegasusFacts
from core.pegasus.summary import minimum_2pc
from core.snapshot.pegasus import PegasusSnapshot
from core.units import pluralize

SHORT_RATIO: Final = 0.10
"""Below this share of free space a replica server takes no new replica on a disk.

Source: Pegasus ``disk_min_available_space_ratio``, 10 percent as compiled.
"""

SCARCE_RATIO: Final = 0.20
_BY_WORST: Final = {
    HealthState.DEAD: ("partitions_dead", "error"),
    HealthState.UNREADABLE: ("partitions_unreadable", "error"),
    HealthState.UNWRITABLE: ("partitions_unwritable", "error"),
    HealthState.WRITABLE_ILL: ("partitions_ill", "warning"),
}
_WHY_ILL: Final = "The guardian repairs it at level steady or lively; nothing is balanced before."


@dataclass(frozen=True, eq=False)
class PegasusContext:
    """What every rule may look at, computed once."""

    facts: PegasusFacts

    @property
    def snapshot(self) -> PegasusSnapshot:
        """The snapshot."""
        return self.facts.snapshot

    @cached_property
    def ill_count(self) -> int:
        """Partitions that the guardian does not call healthy, of those that were read."""
        return int((~self.facts.columns.is_guardian_healthy).sum())


Rule = Callable[[PegasusContext], Iterator[Finding]]


def assess_pegasus(facts: PegasusFacts) -> tuple[Finding, ...]:
    """Judge one snapshot by every rule.

    Args:
        facts: Any snapshot; what it does not hold becomes a finding of severity ``unknown``.
    Returns:
        Worst first, then in the order of the rules; of each code only so many, the rest counted.
    """
    context = PegasusContext(facts)
    found = [finding for rule in RULES for finding in capped(rule(context))]
    return tuple(sorted(found, key=lambda finding: SEVERITIES.index(finding.severity)))


def lost_partitions(context: PegasusContext) -> Iterator[Finding]:
    """Partitions without any replica that a person has to decide about (DDD)."""
    names = {app_id: table.name for app_id, table in context.facts.tables.items()}
    rows = context.snapshot.tables["partitions"].select(["app_id", "index", "ddd_reason"])
    for row in rows.filter(rows["ddd_reason"].is_valid()).to_pylist():
        gpid, table = gpid_text(row["app_id"], row["index"]), names.get(row["app_id"], "")
        yield Finding(
            code="partition_lost",
            severity="error",
            subject_kind="pegasus_table",
            subject=table,
            sentence=f"{gpid} of {table or 'an unlisted table'} lost every replica: "
            f"{row['ddd_reason'] or 'no reason was told'}.".replace("..", "."),
            evidence={"gpid": gpid},
            hint="Start its former members; Tables & partitions says which one should lead.",
        )


def partitions_by_state(context: PegasusContext) -> Iterator[Finding]:
    """Tables with partitions that are not healthy, by their worst state."""
    columns = context.facts.columns
    counts = columns.table_states(minimum_2pc(context.facts))
    for place in np.flatnonzero(counts[:, : HealthState.HEALTHY].sum(axis=1) > 0).tolist():
        of_table = {state: int(counts[place, state]) for state in HealthState}
        worst = next(state for state in HealthState if of_table[state])
        code, severity = _BY_WORST[worst]
        listed = ", ".join(
            f"{number} {'is' if number == 1 else 'are'} {state.name.lower().replace('_', ' ')}"
            for state, number in of_table.items()
            if number and state is not HealthState.HEALTHY
        )
        name, total = columns.app_names[place], int(columns.partition_counts[place])
        yield Finding(
            code=code,
            severity="error" if severity == "error" else "warning",
            subject_kind="pegasus_table",
            subject=name,
            sentence=f"{name}: of {pluralize(total, 'partition')} {listed} (counting states). "
            f"{worst.sentence}",
            evidence={state.name.lower(): number for state, number in of_table.items()},
            hint=_WHY_ILL,
        )


def surplus_replicas(context: PegasusContext) -> Iterator[Finding]:
    """Partitions with more replicas than wanted: healthy for clients, ill for the guardian."""
    columns = context.facts.columns
    number = int((columns.membership.replica_counts > columns.part_wanted).sum())
    if number:
        have = "has" if number == 1 else "have"
        yield Finding(
            code="surplus_replicas",
            severity="info",
            subject_kind="cluster",
            subject="",
            sentence=f"{pluralize(number, 'partition')} {have} more replicas than wanted.",
            evidence={"partitions": number},
            hint="The guardian takes the surplus away; nothing is balanced before.",
        )


def dead_nodes(context: PegasusContext) -> Iterator[Finding]:
    """Nodes that the failure detector has given up."""
    for node in context.facts.nodes:
        if not node.is_alive:
            yield Finding(
                code="node_dead",
                severity="error",
                subject_kind="node",
                subject=node.name,
                sentence=f"{node.name} is dead: the failure detector hears nothing of it.",
                hint="Start it again, or take it out of service; its replicas are copied elsewhere "
                "once the time that it is waited for is over.",
            )


def silent_nodes(context: PegasusContext) -> Iterator[Finding]:
    """Nodes that are alive for the failure detector and did not answer the capture."""
    for name in context.facts.columns.nodes_with("not answering"):
        yield Finding(
            code="node_not_answering",
            severity="error",
            subject_kind="node",
            subject=name,
            sentence=f"{name} is not answering: its disks, sizes and rates are unknown.",
            hint="Check its process and load. The failure detector gives up a node that sends no "
            "beacon for its grace period (22 s by default).",
        )


def level_in_the_way(context: PegasusContext) -> Iterator[Finding]:
    """A level at which nothing is repaired, or that nobody knows."""
    stored, effective = context.facts.stored_level, context.facts.effective_level
    if effective is None:
        told = context.snapshot.settings.get(STORED_LEVEL)
        yield _of_cluster(
            "level_unknown",
            "unknown",
            "The meta server did not tell which level is in force"
            + (f"; the stored one is {told}." if told and stored is None else "."),
            "Look at the problems of the reading.",
        )
        return
    if effective >= FunctionLevel.STEADY:
        return
    is_by_itself = stored is not None and stored > effective
    why = f"set to {stored.word}, but too few nodes are alive" if is_by_itself and stored else "set"
    yield _of_cluster(
        "level_low",
        "error",
        f"Level {effective.word} is in force ({why}): nothing is repaired or moved.",
        "Bring nodes back." if is_by_itself else "Set the level to steady when that is not meant.",
    )


def balance(context: PegasusContext) -> Iterator[Finding]:
    """What the balancer counts, where it can be believed; else why it cannot be known."""
    level = context.facts.effective_level
    if context.ill_count or level is None or level < FunctionLevel.STEADY:
        return  # said by other rules
    verdict = context.facts.verdict()
    if verdict.state == "not_balanced":
        hint = "Balance shows what level lively would move, round by round."
        yield _of_cluster("not_balanced", "warning", verdict.sentence, hint)
    elif verdict.state == "unknown":
        hint = "Balance computes the rounds from the snapshot itself."
        yield _of_cluster("balance_unknown", "unknown", verdict.sentence, hint)


def disks_short_of_space(context: PegasusContext) -> Iterator[Finding]:
    """Nodes with a disk that is nearly full, by the fullest one."""
    worst: dict[str, tuple[float, str]] = {}
    for row in context.facts.rows("disks"):
        if row["capacity_mb"] > 0:
            free = row["available_mb"] / row["capacity_mb"]
            at = (free, row["disk"])
            worst[row["node"]] = min(at, worst.get(row["node"], at))
    for node, (free, disk) in sorted(worst.items(), key=lambda item: item[1]):
        if free >= SCARCE_RATIO:
            return
        is_short = free < SHORT_RATIO
        yield Finding(
            code="disk_short" if is_short else "disk_scarce",
            severity="error" if is_short else "warning",
            subject_kind="node",
            subject=node,
            sentence=f"{disk} of {node} has {free * 100:.0f} % of its space free"
            + ("; below 10 % it takes no new replica." if is_short else "."),
            evidence={"disk": disk, "available_ratio": free},
            hint="Move replicas away by size (Balance), or add space.",
        )


def switches_left_on(context: PegasusContext) -> Iterator[Finding]:
    """Switches that hold the balancer back; lost with the leading meta server."""
    told = context.snapshot.settings
    on = [name for name in SWITCHES if told.get(name) == "true"]
    if told.get("assign_secondary_black_list", "").strip():
        on.append("assign_secondary_black_list")
    for name in on:
        yield Finding(
            code="switch_on",
            severity="info",
            subject_kind="setting",
            subject=name,
            sentence=f"{name} is set: it limits what is balanced or repaired.",
            evidence={"value": told[name]},
            hint="Take it back when the maintenance that needed it is over.",
        )


def coverage(context: PegasusContext) -> Iterator[Finding]:
    """Tables of the snapshot that hold fewer rows than there should be."""
    return coverage_of(context.snapshot.manifest)


def problems(context: PegasusContext) -> Iterator[Finding]:
    """What could not be read, gathered by its kind."""
    return problems_of(context.snapshot.manifest)


def _of_cluster(code: str, severity: str, sentence: str, hint: str) -> Finding:
    known = next(one for one in SEVERITIES if one == severity)
    return Finding(
        code=code,
        severity=known,
        subject_kind="cluster",
        subject="",
        sentence=sentence,
        hint=hint,
    )


RULES: Final[tuple[Rule, ...]] = (
    lost_partitions,
    partitions_by_state,
    dead_nodes,
    silent_nodes,
    level_in_the_way,
    disks_short_of_space,
    balance,
    coverage,
    problems,
    surplus_replicas,
    switches_left_on,
)
