"""The preview of a plan for a Pegasus cluster: every step, and every node before and after.

Nothing is decided here: the plan is read, and the snapshot it was made on gives the usage of disks.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from core.pegasus.answers import NodeEntry
from core.pegasus.levels import FunctionLevel
from core.pegasus.partition import PartitionConfig
from core.pegasus.proposal import ProposalContext
from core.pegasus.reconfigure import projected_configs
from core.pegasus.steps.base import PegasusStep
from core.pegasus.steps.partition import Partition
from core.pegasus.steps.proposal import ProposalStep
from core.plan.model import Plan
from core.snapshot.pegasus import PegasusSnapshot
from core.units import format_mb, pluralize

GUARDIANS_CHOICE: Final = (
    "The guardian chooses the target of each replica during the run: replica counts are estimates."
)


@dataclass(frozen=True, slots=True)
class PartitionPreview:
    """One partition that a step changes.

    Attributes:
        gpid: ``app.index``.
        table: Name of its table.
        primary_before: Registered name; ``None`` if it has none.
        primary_after: The same when the step is done.
        secondaries_before: Registered names, in their order.
        secondaries_after: The same when the step is done.
        ballot_after: Its ballot afterwards, without external changes.
    """

    gpid: str
    table: str
    primary_before: str | None
    primary_after: str | None
    secondaries_before: tuple[str, ...]
    secondaries_after: tuple[str, ...]
    ballot_after: int


@dataclass(frozen=True, slots=True)
class PegasusStepPreview:
    """One step, looked at.

    Attributes:
        index: Its place in the plan.
        step: The step itself.
        sentence: What it does.
        note: What a person has to do, or why; empty: nothing more to say.
        lines: Of Pegasus' shell, by hand; empty: it only waits.
        copied_mb: ``None`` if unknown, 0: nothing.
        partitions: Those that it changes.
    """

    index: int
    step: PegasusStep
    sentence: str
    note: str
    lines: tuple[str, ...]
    copied_mb: float | None
    partitions: tuple[PartitionPreview, ...]


@dataclass(frozen=True, slots=True)
class NodePreview:
    """One node that the plan touches.

    Attributes:
        node: Registered name.
        primaries_before: Partitions that it leads.
        primaries_after: The same when all is done.
        replicas_before: Partitions that it is a member of.
        replicas_after: The same when all is done.
        received_mb: What is copied onto it; ``None`` if unknown.
        free_before_mb: Of its disks; ``None`` if it did not report.
        free_after_mb: The same when all is done: what leaves is deleted later, if at all.
        capacity_mb: Of its disks; ``None`` if it did not report.
    """

    node: str
    primaries_before: int
    primaries_after: int
    replicas_before: int
    replicas_after: int
    received_mb: float | None
    free_before_mb: float | None
    free_after_mb: float | None
    capacity_mb: float | None


@dataclass(frozen=True)
class PegasusPreview:
    """Preview of a plan.

    Attributes:
        sentence: All of it in one.
        nodes: Those that lose or gain something, by name.
        steps: In the plan's order.
        restored: What is restored when the run ends, by what it is called.
        copied_mb: In all; ``None`` if unknown.
        waits_for_people: The run stops until an operator has done something.
        max_under_replicated: Partitions that the plan lets lack a replica at a time, at most.
    """

    sentence: str
    nodes: tuple[NodePreview, ...]
    steps: tuple[PegasusStepPreview, ...]
    restored: tuple[str, ...]
    copied_mb: float | None
    waits_for_people: bool
    max_under_replicated: int = 0

    @property
    def is_guardians_choice(self) -> bool:
        """Whether the guardian chooses destinations: then predicted numbers are estimates."""
        taken = any(one.step.removed_replicas for one in self.steps)
        back = any(one.step.ends_with_node_back for one in self.steps)
        return taken and not back


def preview_pegasus(snapshot: PegasusSnapshot, plan: Plan) -> PegasusPreview:
    """Return the preview of a plan.

    Args:
        snapshot: The one that it was made on, or a newer one: for the disks.
        plan: Any of a Pegasus cluster.
    """
    steps = tuple(
        PegasusStepPreview(
            index=index,
            step=step,
            sentence=step.describe(),
            note="" if step.reason == plan.reason else step.reason,
            lines=step.command_lines(),
            copied_mb=step.copied_mb,
            partitions=tuple(_partitions(step)),
        )
        for index, step in enumerate(plan.steps)
        if isinstance(step, PegasusStep)
    )
    return PegasusPreview(
        sentence=_sentence(plan),
        nodes=tuple(_nodes(snapshot, plan)),
        steps=steps,
        restored=tuple(
            dict.fromkeys(step.subject for step in plan.steps if step.temporary_value is not None)
        ),
        copied_mb=plan.expected.copied_mb,
        waits_for_people=any(
            step.wait is not None and step.wait.needs_operator for step in plan.steps
        ),
        max_under_replicated=_under_replicated(plan),
    )


def _under_replicated(plan: Plan) -> int:
    """Return the most partitions that lack a replica between two waits for repair."""
    most = lacking = 0
    for step in plan.steps:
        if isinstance(step, PegasusStep):
            lacking = 0 if step.ends_repaired else lacking + step.removed_replicas
        most = max(most, lacking)
    return most


def _nodes(snapshot: PegasusSnapshot, plan: Plan) -> Iterable[NodePreview]:
    room: dict[str, tuple[float, float]] = {}
    for row in snapshot.tables["disks"].to_pylist():
        free, capacity = room.get(row["node"], (0.0, 0.0))
        room[row["node"]] = free + row["available_mb"], capacity + row["capacity_mb"]
    for one in plan.expected.nodes:
        free_mb, capacity_mb = room.get(one.node, (None, None))
        is_known = free_mb is not None and one.received_mb is not None
        yield NodePreview(
            node=one.node,
            primaries_before=one.primaries_before,
            primaries_after=one.primaries_after,
            replicas_before=one.replicas_before,
            replicas_after=one.replicas_after,
            received_mb=one.received_mb,
            free_before_mb=free_mb,
            free_after_mb=(free_mb or 0.0) - (one.received_mb or 0.0) if is_known else None,
            capacity_mb=capacity_mb,
        )


def _partitions(step: PegasusStep) -> Iterable[PartitionPreview]:
    if isinstance(step, ProposalStep):
        for partition in step.proposed:
            yield _partition(step, partition)


def _partition(step: ProposalStep, partition: Partition) -> PartitionPreview:
    before = partition.config()
    after = _after(step, before)
    return PartitionPreview(
        gpid=partition.gpid,
        table=partition.table,
        primary_before=before.primary,
        primary_after=after.primary,
        secondaries_before=before.secondaries,
        secondaries_after=after.secondaries,
        ballot_after=after.ballot,
    )


def _after(step: ProposalStep, before: PartitionConfig) -> PartitionConfig:
    """Return a partition as the step leaves it; the plan's maker has checked what it needs."""
    named = {*before.members, *before.last_drops, *step.nodes_of()}
    nodes = {name: NodeEntry(name, None, is_alive=True) for name in named}
    context = ProposalContext(nodes=nodes, level=FunctionLevel.STEADY)
    return projected_configs(before, step.proposal(context, before).actions)[-1]


def _sentence(plan: Plan) -> str:
    """Return for example ``Moves 12 primaries, copies 3 replicas (1.2 GB), waits 2 times.``."""
    own = [step for step in plan.steps if isinstance(step, PegasusStep)]
    moved = sum(step.moved_primaries for step in own)
    copied = sum(step.copied_replicas for step in own)
    taken = sum(step.removed_replicas for step in own)
    parts = []
    if moved:
        parts.append(f"moves {'1 primary' if moved == 1 else f'{moved:,} primaries'}")
    if copied:
        parts.append(f"copies {pluralize(copied, 'replica')}")
    if taken:
        limit = f"at most {_under_replicated(plan):,} partitions under-replicated at a time"
        parts.append(f"removes {pluralize(taken, 'replica')} ({limit})")
    parts += _others(own)
    if not parts:
        return "Nothing to do."
    text = ", ".join(parts)
    known = plan.expected.copied_mb
    amount = "An unknown amount" if known is None else format_mb(known)
    size = "" if known == 0 else f" {amount} is copied in total."
    return f"{text[0].upper()}{text[1:]}.{size}"


def _others(steps: Sequence[PegasusStep]) -> Iterable[str]:
    """Yield a clause a kind, those that change settings first."""
    by_kind: dict[type[PegasusStep], list[PegasusStep]] = {}
    for step in steps:
        by_kind.setdefault(type(step), []).append(step)
    kinds = sorted(by_kind, key=lambda kind: (by_kind[kind][0].setting is None, kind.phrase.order))
    clauses = (kind.summarize(by_kind[kind]) for kind in kinds)
    yield from filter(None, clauses)
