"""Balanced, not balanced, or unknown: what may be said from what the meta server counts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from core.pegasus.levels import FunctionLevel
from core.units import pluralize

State = Literal["balanced", "not_balanced", "unknown"]


@dataclass(frozen=True)
class OperationCounts:
    """``balance_operation_count``: one round's worth, stale while anything is unhealthy.

    Attributes:
        total: -1: the meta server does not know.
        move_primary: ``move_pri``.
        copy_primary: ``copy_pri``.
        copy_secondary: ``copy_sec``.
    """

    total: int
    move_primary: int
    copy_primary: int
    copy_secondary: int


@dataclass(frozen=True)
class BalanceVerdict:
    """A state and the sentence that says why."""

    state: State
    sentence: str


def judge_balance(
    counts: OperationCounts,
    *,
    level: FunctionLevel,
    unhealthy_count: int | None,
    is_cluster_policy: bool | None,
    partition_count: int | None = None,
    down: Sequence[str] = (),
    splitting_count: int = 0,
) -> BalanceVerdict:
    """Return whether a cluster is balanced.

    Args:
        counts: As read; at steady they forecast one round, at lively they are the last one.
        level: The effective one.
        unhealthy_count: Partitions that the guardian does not call healthy; ``None`` if unknown.
        is_cluster_policy: ``balance_cluster``; ``None`` if unknown.
        partition_count: Partitions in all; ``None`` if unknown.
        down: Names of the nodes that are down.
        splitting_count: Children of partition splits that have not registered.
    """
    doubt = (
        _repair(unhealthy_count, partition_count, down)
        or _split(splitting_count)
        or _doubt(counts, level, unhealthy_count)
    )
    if doubt is not None:
        return BalanceVerdict("unknown", doubt)
    if counts.total > 0:
        return BalanceVerdict("not_balanced", f"The balancer counts {_worth(counts, level)}.")
    if level is FunctionLevel.STEADY and is_cluster_policy is not False:
        why = (
            "At steady the cluster policy counts nothing; 0 has no meaning."
            if is_cluster_policy
            else "Whether the cluster policy is active, which counts nothing, is unknown."
        )
        return BalanceVerdict("unknown", why)
    return BalanceVerdict("balanced", "The balancer has nothing to do.")


def _worth(counts: OperationCounts, level: FunctionLevel) -> str:
    """Return the number with what it is of: a check adds up what rounds do one after the other."""
    counted = pluralize(counts.total, "balance operation")
    if level is FunctionLevel.LIVELY:
        return f"{counted} in the current round; others may follow"
    return f"{counted} in one check; each round at lively recounts them"


def _repair(
    unhealthy_count: int | None, partition_count: int | None, down: Sequence[str]
) -> str | None:
    """Return repairs that block balancing; they take precedence.

    Source: Pegasus ``server_state::check_all_partitions``: no balancing, and no count, before every
    partition is healthy. A leader that took over meanwhile reports -1 for the same reason.
    """
    if not unhealthy_count:
        return None
    of = (
        pluralize(unhealthy_count, "partition")
        if partition_count is None
        else f"{unhealthy_count:,} of {pluralize(partition_count, 'partition')}"
    )
    lost = f" (down: {', '.join(down)})" if down else ""
    return f"{of} unhealthy{lost}: the balancer waits until every partition is healthy."


def _split(splitting_count: int) -> str | None:
    """Return the note that a partition split blocks the balancer."""
    if not splitting_count:
        return None
    return (
        f"{pluralize(splitting_count, 'child partition')} not registered: the balancer waits until "
        "the split is done."
    )


def _doubt(
    counts: OperationCounts, level: FunctionLevel, unhealthy_count: int | None
) -> str | None:
    if counts.total < 0:
        return "The meta server does not have the disks of all replicas yet."
    if level < FunctionLevel.STEADY:
        return f"At level {level.word} the balancer does not count; the number is old."
    if unhealthy_count is None:
        return "Whether every partition is healthy is unknown."
    return None
