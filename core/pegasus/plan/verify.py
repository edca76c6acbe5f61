"""Checking a plan for a Pegasus cluster again, on a fresh snapshot.

A step is still right when its partition is as it was, or changed such that the roles that
the step goes by are the same. Steps are taken in order: what an earlier pending one will have done
is taken into account, and what comes after a wait is judged when the wait is over.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import chain

import pyarrow as pa
import pyarrow.compute as pc

from core.errors import InvariantError
from core.pegasus.balance.model import ProposalAction
from core.pegasus.levels import FunctionLevel
from core.pegasus.partition import PartitionConfig
from core.pegasus.proposal import ProposalContext
from core.pegasus.reconfigure import projected_configs
from core.pegasus.snapshot import PegasusFacts
from core.pegasus.steps.base import PegasusStep
from core.plan.model import Diagnostic, Plan
from core.snapshot.pegasus import PegasusSnapshot
from core.step import Step


def recheck(
    snapshot: PegasusSnapshot,
    plan: Plan,
    *,
    steps: Collection[int] | None = None,
) -> dict[int, Diagnostic]:
    """Return the refusals of pending plan steps, by position in the plan.

    Args:
        snapshot: A fresh one.
        plan: What was requested.
        steps: Places to look at: those that are still pending; ``None`` for all.
    """
    pending = [
        (index, step) for index, step in enumerate(plan.steps) if steps is None or index in steps
    ]
    ahead = _StepVerifier(snapshot, [step for _, step in pending])
    found: dict[int, Diagnostic] = {}
    for index, step in pending:
        if step.wait is not None:
            break  # the state when it is over cannot be predicted
        problem = ahead.problem(step)
        if problem is not None:
            found[index] = problem
    return found


class _StepVerifier:
    """The current cluster, and its state after the preceding pending steps."""

    def __init__(self, snapshot: PegasusSnapshot, steps: Sequence[Step]) -> None:
        facts = PegasusFacts(snapshot)
        self._tables = {entry.name for entry in facts.tables.values()}
        self._nodes = {entry.name: entry for entry in facts.nodes}
        self.level = facts.effective_level
        self._is_forced = facts.stored_level is not None and facts.stored_level != self.level
        self._configs = {
            config.gpid: config
            for config in configs_of(snapshot, chain.from_iterable(step.touched for step in steps))
        }
        self._expected = dict(self._configs)

    def problem(self, step: Step) -> Diagnostic | None:
        match step:
            case PegasusStep():
                return step.check(self)
            case _:
                raise InvariantError(f"A Pegasus cluster has no step of kind {step.kind}.")

    def store_level(self, level: FunctionLevel) -> None:
        """Take the level for stored; one that is forced by missing nodes stays effective."""
        if not self._is_forced:
            self.level = level

    def check_node(self, node: str) -> Diagnostic | None:
        """Return the reason a node is excluded."""
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
            hint="Create a new plan without that node.",
        )

    def config(self, gpid: str) -> PartitionConfig | None:
        """Return a partition as the pending steps before leave it."""
        return self._expected.get(gpid)

    def config_as_read(self, gpid: str) -> PartitionConfig | None:
        """Return the current partition."""
        return self._configs.get(gpid)

    def has_table(self, name: str) -> bool:
        """Return whether a table of that name exists."""
        return name in self._tables

    def proposal_context(self) -> ProposalContext:
        """Return the context of proposal checks."""
        return ProposalContext(self._nodes, self.level or FunctionLevel.STEADY)

    def advance(self, config: PartitionConfig, actions: Sequence[ProposalAction]) -> None:
        """Take the actions for done."""
        self._expected[config.gpid] = projected_configs(config, actions)[-1]


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
