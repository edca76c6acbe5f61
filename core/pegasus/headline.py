"""Sentences about the state of a Pegasus cluster."""

from __future__ import annotations

from typing import Final

from core.pegasus.columns import NodeStatus, PegasusColumns
from core.pegasus.levels import FunctionLevel
from core.pegasus.snapshot import PegasusFacts
from core.pegasus.summary import unwritable_partitions
from core.pegasus.verdict import BalanceVerdict, State
from core.units import listed, pluralize

_STATES: Final[dict[State, str]] = {
    "balanced": "Balanced",
    "not_balanced": "Not balanced",
    "unknown": "Balance unknown",
}
TROUBLED: Final[tuple[NodeStatus, ...]] = ("down", "not answering")
"""States of a node that need attention."""


def cluster_sentence(facts: PegasusFacts, verdict: BalanceVerdict) -> str:
    """Return the state of the cluster as one sentence."""
    columns = facts.columns
    children = int(columns.is_child.sum())
    unhealthy, read = unhealthy_count(columns), len(columns.part_table)
    alive, nodes = int(columns.is_alive.sum()), columns.node_count
    total = int(columns.partition_counts.sum())
    parts = (
        f"{unhealthy:,} of {pluralize(total, 'partition')} unhealthy"
        if unhealthy
        else _healthy_words(facts, read, children)
    )
    rest = "".join(f", {word}" for word in service_words(facts))
    unread = f" ({total - read:,} not read)" if total > read else ""
    who = "all" if alive == nodes else f"{alive:,} of"
    named = "; ".join((*node_status_words(columns), *set_aside_words(columns)))
    balance = (
        f"{_STATES[verdict.state]} until every partition is healthy."
        if unhealthy
        else balance_sentence(verdict)
    )
    return (
        f"{level_sentence(facts)}; {parts}{unread}{rest}; {who} {pluralize(nodes, 'node')} alive"
        f"{f' ({named})' if named else ''}. {balance}"
    )


def _healthy_words(facts: PegasusFacts, read: int, children: int) -> str:
    if children:
        return f"{read - children:,} of {pluralize(read, 'partition')} healthy"
    word = "fully replicated" if unwritable_partitions(facts).any() else "healthy"
    return f"all {pluralize(read, 'partition')} {word}"


def service_words(facts: PegasusFacts) -> list[str]:
    """Return the counts of unwritable partitions and of those being split."""
    unwritable = int(unwritable_partitions(facts).sum())
    children = int(facts.columns.is_child.sum())
    counts = ((unwritable, "unwritable"), (children, "being split"))
    return [f"{count:,} {word}" for count, word in counts if count]


def page_answer(facts: PegasusFacts, verdict: BalanceVerdict) -> str:
    """Return whether the cluster is balanced, after problems that clients notice.

    Counts that the page has as figures are not repeated.
    """
    service = service_words(facts)
    balance = balance_sentence(verdict)
    if verdict.state == "not_balanced":
        acts = facts.effective_level is FunctionLevel.LIVELY
        balance = (
            "Not balanced: the balancer acts in rounds."
            if acts
            else "Not balanced: at this level, the balancer counts operations and executes none."
        )
    if not service:
        return balance
    total = pluralize(len(facts.columns.part_table), "partition")
    count, _, word = service[0].partition(" ")
    rest = "".join(f", {one}" for one in service[1:])
    return f"{count} of {total} {word}{rest}. {balance}"


def balance_sentence(verdict: BalanceVerdict) -> str:
    """Return whether the cluster is balanced, with the reason."""
    return f"{_STATES[verdict.state]}: {_lowered(verdict.sentence)}"


def unhealthy_count(columns: PegasusColumns) -> int:
    """Return the number of unhealthy partitions, as the guardian counts them."""
    return int((~columns.is_guardian_healthy).sum())


def node_status_words(columns: PegasusColumns) -> list[str]:
    """Return the names of the nodes that are down or do not answer."""
    found = []
    for status in TROUBLED:
        names = columns.nodes_with(status)
        if names:
            found.append(f"{status}: {listed(names)}")
    return found


def set_aside_words(columns: PegasusColumns) -> list[str]:
    """Return the names of the drained and the excluded nodes."""
    statuses: tuple[NodeStatus, ...] = ("drained", "excluded")
    return [
        f"{status}: {listed(names)}" for status in statuses if (names := columns.nodes_with(status))
    ]


def level_sentence(facts: PegasusFacts) -> str:
    """Return the stored and the effective level, without a full stop."""
    stored, effective = facts.stored_level, facts.effective_level
    if effective is None:
        return (
            f"Level {stored.word} is stored, effective level unknown" if stored else "Level unknown"
        )
    if stored is not None and stored is not effective:
        return f"Level {effective.word} ({stored.word} stored)"
    return f"Level {effective.word}"


def _lowered(sentence: str) -> str:
    return sentence[:1].lower() + sentence[1:]


def minus_one(facts: PegasusFacts) -> str:
    """Return the reason why the meta server reports -1 changes."""
    why = waits(facts) or "The disks of some replicas are unknown."
    return f"The meta server reports -1. {why}"


def waits(facts: PegasusFacts) -> str:
    """Return that nothing is counted while partitions are unhealthy; empty if all are healthy."""
    unhealthy = unhealthy_count(facts.columns)
    if not unhealthy:
        return ""
    return f"Unhealthy partitions: {unhealthy:,}. Counting resumes when all partitions are healthy."
