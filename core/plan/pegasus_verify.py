"""Checking a plan for a Pegasus cluster again, on a fresh snapshot.

A step is still right when its partition is as it was, or changed in a way in which the roles that
the step goes by are the same. Steps are taken in order: what an earlier pending one will have done
is taken into account, and what comes after a wait is judged when the wait is over.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from core.errors import GuardRefusedError, InputError, InvariantError
from core.pegasus.balance.model import ConfigType, PlanKind
from core.pegasus.levels import FunctionLevel, parse_level
from core.pegasus.partition import PartitionConfig
from core.pegasus.proposal import ClusterSight, Proposal, propose_change, propose_move
from core.pegasus.reconfigure import way_of
from core.pegasus.snapshot import PegasusFacts
from core.plan.model import Diagnostic, Plan
from core.plan.pegasus_steps import (
    AwaitState,
    ChangeReplica,
    CloseReplicas,
    MoveReplica,
    Partition,
    ProposeMany,
    SetMetaLevel,
    SetServerSetting,
)
from core.plan.steps import PegasusStep, Step
from core.snapshot.pegasus import PegasusSnapshot

_KINDS: Final[Mapping[str, PlanKind]] = {
    "move_pri": PlanKind.MOVE_PRIMARY,
    "copy_pri": PlanKind.COPY_PRIMARY,
    "copy_sec": PlanKind.COPY_SECONDARY,
}
_AGAIN: Final = "Look at it again, and make another plan if it is still wanted."


def recheck_pegasus(
    snapshot: PegasusSnapshot,
    plan: Plan,
    steps: Collection[int] | None = None,
) -> dict[int, Diagnostic]:
    """Return why steps of a plan may not be carried out any more, by place in the plan.

    Args:
        snapshot: A fresh one.
        plan: What was asked for.
        steps: Places to look at: those that are still pending; ``None``: all.
    """
    pending = [
        (index, step) for index, step in enumerate(plan.steps) if steps is None or index in steps
    ]
    ahead = _Ahead(snapshot, [step for _, step in pending])
    found: dict[int, Diagnostic] = {}
    for index, step in pending:
        if isinstance(step, AwaitState):
            break  # nobody can tell now what will be when it is over
        problem = ahead.problem(step)
        if problem is not None:
            found[index] = problem
    return found


def proposal_of(
    sight: ClusterSight, config: PartitionConfig, step: MoveReplica | ChangeReplica | ProposeMany
) -> Proposal:
    """Return what a step proposes for a partition as it is now.

    Raises:
        GuardRefusedError: It would do nothing, something else, or harm.
    """
    match step:
        case MoveReplica():
            return propose_move(sight, config, _KINDS[step.move], step.source, step.target)
        case ChangeReplica():
            return propose_change(sight, config, ConfigType[step.change], step.node)
        case ProposeMany():
            if step.verb != "move_pri":
                return propose_change(sight, config, ConfigType[step.verb], step.node)
            target = _target(step, config.gpid)
            return propose_move(sight, config, PlanKind.MOVE_PRIMARY, step.node, target)


def membership(config: PartitionConfig) -> str:
    """Return who has a partition: ``primary n1:34801, secondaries n2:34801, n3:34801``."""
    seconds = ", ".join(config.secondaries) or "none"
    return f"primary {config.primary or 'none'}, secondaries {seconds}"


def moved_meanwhile_pegasus(
    before: PartitionConfig, now: PartitionConfig, why: str = ""
) -> Diagnostic:
    """Return what is said of a partition that is not any more as a step needs it."""
    return Diagnostic(
        severity="error",
        code="moved_meanwhile",
        sentence=f"Partition {now.gpid} had {membership(before)} (ballot {before.ballot}) when the "
        f"plan was made, and has {membership(now)} (ballot {now.ballot}) now.{why}",
        subject=now.gpid,
        hint=_AGAIN,
    )


class _Ahead:
    """The cluster as it is, and as the pending steps before will have made it."""

    def __init__(self, snapshot: PegasusSnapshot, steps: Sequence[Step]) -> None:
        facts = PegasusFacts(snapshot)
        self._tables = {entry.name for entry in facts.tables.values()}
        self._nodes = {entry.name: entry for entry in facts.nodes}
        self._level = facts.effective_level
        self._is_forced = facts.stored_level is not None and facts.stored_level != self._level
        self._configs = {
            config.gpid: config
            for config in configs_of(snapshot, chain.from_iterable(map(partitions_of, steps)))
        }
        self._expected = dict(self._configs)

    def problem(self, step: Step) -> Diagnostic | None:
        match step:
            case SetMetaLevel():
                return self._at_level(step)
            case MoveReplica() | ChangeReplica():
                return self._about(step, step.partition)
            case ProposeMany():
                problems = [self._about(step, item.partition) for item in step.items]
                # what is left of it is still worth doing; the rest is told when it is done
                return next(iter(problems), None) if all(problems) else None
            case CloseReplicas():
                return self._absent(step.node) or self._still_member(step)
            case SetServerSetting():
                return None  # what it is now is looked at right before it is changed
            case _:
                raise InvariantError(f"A Pegasus cluster has no step of kind {step.kind}.")

    def _at_level(self, step: SetMetaLevel) -> Diagnostic | None:
        try:
            level = parse_level(step.level)
        except InputError as exc:  # the meta server would store it, and die of it later
            return Diagnostic(
                severity="error",
                code="unknown_level",
                sentence=exc.message,
                subject=step.subject,
                hint=exc.hint,
            )
        if not self._is_forced:
            self._level = level
        return None

    def _about(
        self, step: MoveReplica | ChangeReplica | ProposeMany, partition: Partition
    ) -> Diagnostic | None:
        config = self._expected.get(partition.gpid)
        if config is None:
            return self._lost(partition)
        absent = next(filter(None, map(self._absent, _named(step, partition.gpid))), None)
        if absent is not None:
            return absent
        if self._level is not None and self._level <= FunctionLevel.FREEZED:
            return _frozen(self._level, step)
        sight = ClusterSight(self._nodes, self._level or FunctionLevel.STEADY)
        try:
            proposal = proposal_of(sight, config, step)
        except GuardRefusedError as exc:
            return self._refused(partition, exc)
        self._expected[config.gpid] = way_of(config, proposal.actions)[-1]
        return None

    def _refused(self, partition: Partition, exc: GuardRefusedError) -> Diagnostic:
        planned, now = partition.config(), self._configs[partition.gpid]
        if _roles(planned) != _roles(now):
            return moved_meanwhile_pegasus(planned, now, f" {exc.message}")
        return Diagnostic(
            severity="error",
            code="proposal_refused",
            sentence=exc.message,
            subject=partition.gpid,
            hint=exc.hint or _AGAIN,
        )

    def _lost(self, partition: Partition) -> Diagnostic:
        if partition.table not in self._tables:
            return Diagnostic(
                severity="error",
                code="table_gone",
                sentence=f"Table {partition.table} of partition {partition.gpid} is not there any "
                "more.",
                subject=partition.gpid,
                hint="Make the plan anew without it.",
            )
        return Diagnostic(
            severity="error",
            code="unknown_partition",
            sentence=f"Partition {partition.gpid} of {partition.table} was not read.",
            subject=partition.gpid,
            hint=_AGAIN,
        )

    def _absent(self, node: str) -> Diagnostic | None:
        known = self._nodes.get(node)
        if known is not None and known.is_alive:
            return None
        return Diagnostic(
            severity="error",
            code="unknown_node" if known is None else "node_not_alive",
            sentence=f"{node} is not registered with the meta server."
            if known is None
            else f"{node} is not alive.",
            subject=node,
            hint="Make the plan anew without that node.",
        )

    def _still_member(self, step: CloseReplicas) -> Diagnostic | None:
        for gpid in step.partitions:
            config = self._expected.get(gpid)
            if config is not None and step.node in config.members:
                return Diagnostic(
                    severity="error",
                    code="still_member",
                    sentence=f"{step.node} serves partition {gpid}: its replica is not closed.",
                    subject=gpid,
                    hint="Take the node out of the partition first.",
                )
        return None


def configs_of(snapshot: PegasusSnapshot, gpids: Iterable[str]) -> Iterator[PartitionConfig]:
    """Yield some partitions of a snapshot; those that it does not have are left out."""
    wanted = set(gpids)
    table = snapshot.tables["partitions"]
    apps = {int(gpid.partition(".")[0]) for gpid in wanted}
    rows = table.filter(pc.is_in(table["app_id"], value_set=pa.array(sorted(apps), pa.int64())))
    for row in rows.to_pylist():
        config = PartitionConfig(
            app_id=row["app_id"],
            index=row["index"],
            ballot=row["ballot"],
            max_replica_count=row["max_replica_count"],
            primary=row["primary"],
            secondaries=tuple(row["secondaries"]),
            last_drops=tuple(row["last_drops"]),
            last_committed_decree=row["last_committed_decree"],
        )
        if config.gpid in wanted:
            yield config


def partitions_of(step: Step) -> tuple[str, ...]:
    """Return the partitions (gpid) that a step touches; none for a step of Pulsar."""
    match step:
        case MoveReplica() | ChangeReplica():
            return (step.partition.gpid,)
        case ProposeMany():
            return tuple(item.partition.gpid for item in step.items)
        case CloseReplicas():
            return step.partitions
        case _:
            return ()


def _named(
    step: MoveReplica | ChangeReplica | ProposeMany, gpid: str | None = None
) -> tuple[str, ...]:
    """The nodes that a step names, of a batch those for one partition or for all."""
    match step:
        case MoveReplica():
            return step.source, step.target
        case ChangeReplica():
            return (step.node,)
        case ProposeMany():
            targets = [
                item.target
                for item in step.items
                if item.target is not None and gpid in (None, item.partition.gpid)
            ]
            return step.node, *targets


def _target(step: ProposeMany, gpid: str) -> str:
    return next((item.target or "" for item in step.items if item.partition.gpid == gpid), "")


def _roles(config: PartitionConfig) -> tuple[str | None, frozenset[str]]:
    return config.primary, frozenset(config.secondaries)


def _frozen(level: FunctionLevel, step: PegasusStep) -> Diagnostic:
    return Diagnostic(
        severity="error",
        code="level_too_low",
        sentence=f"At level {level.word}, which is in force, no proposal is carried out.",
        subject=step.subject,
        hint="Set the level to steady first; it is freezed by itself while nodes are missing.",
    )
