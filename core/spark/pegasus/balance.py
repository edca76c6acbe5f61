"""The app policy's rounds on Spark: tables are spread over the executors.

What one table does for its primaries depends on no other table, and neither does what it does for
its secondaries; only whether secondaries are considered at all is decided over all tables, between
two jobs. The cluster policy looks at the whole cluster before every single plan: it stays in
process.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession

from core.errors import InputError
from core.pegasus.balance.app_policy import balance_primaries
from core.pegasus.balance.copy_ops import copy_secondary, tables_to_copy
from core.pegasus.balance.max_flow import Imbalance
from core.pegasus.balance.model import BalanceOptions, BalancePlan, PlanKind
from core.pegasus.balance.rounds import BalanceRound, apply_plans, until_converged
from core.pegasus.view import ClusterView, Ints
from core.progress import NoProgress, Progress
from core.spark.lift import Kernel, lift
from core.spark.progress import followed
from core.spark.tables import arrow_rows

_TABLES_A_GROUP: Final = 32
"""A task has work for longer than it takes to begin one."""

_ANSWER: Final = pa.schema(
    [
        pa.field("row", pa.int32()),
        pa.field("kind", pa.int32()),
        pa.field("source", pa.int32()),
        pa.field("target", pa.int32()),
        pa.field("source_count", pa.int32()),
        pa.field("target_count", pa.int32()),
    ]
)


@dataclass(frozen=True)
class _TableTask:
    """Work of one job per table: only primaries, only secondaries, or both (a check)."""

    options: BalanceOptions
    has_primaries: bool = True
    has_secondaries: bool = False


@dataclass(frozen=True)
class SparkRounds:
    """Rounds of the app policy.

    Attributes:
        spark: The session.
        progress: Receives the tasks done.
    """

    spark: SparkSession
    progress: Progress = field(default_factory=NoProgress)

    def rounds(self, view: ClusterView, options: BalanceOptions) -> Iterator[BalanceRound]:
        """Give rounds as :func:`core.pegasus.balance.rounds.rounds_until_converged` does.

        Raises:
            InputError: The cluster policy was requested.
            ComputeError: Spark failed.
            JobStoppedError: A person stopped it.
        """
        return until_converged(self._endless(view, options), view, options)

    def _endless(self, view: ClusterView, options: BalanceOptions) -> Iterator[BalanceRound]:
        for number in itertools.count(1):
            plans = tuple(self.decide(view, options, number))
            after = view if options.is_check else apply_plans(view, plans)
            yield BalanceRound(view, plans, after)
            view = after

    def decide(
        self, view: ClusterView, options: BalanceOptions, number: int = 1
    ) -> list[BalancePlan]:
        """Return the plans of one round, as :func:`core.pegasus.balance.rounds.balance_round` does.

        Args:
            view: Before.
            options: The switches of the meta server.
            number: Of the round, for progress.

        Raises:
            InputError: The cluster policy was requested.
        """
        if options.policy != "app":
            raise InputError(
                "The cluster policy needs the whole cluster before each plan: Spark "
                "cannot distribute it.",
                hint="Omit --engine spark.",
            )
        if not view.nodes or not view.partition_count:
            return []
        words = f"balancing tables, round {number:,}"
        if options.is_check:
            both = _TableTask(options, has_secondaries=not options.only_primary_balancer)
            return self._job(view, both, words)
        plans = self._job(view, _TableTask(options), words)
        if not plans and not options.only_primary_balancer:
            second = _TableTask(options, has_primaries=False, has_secondaries=True)
            plans = self._job(view, second, words)
        return _first_table(view, plans) if options.balancer_in_turn else plans

    def _job(self, view: ClusterView, work: _TableTask, words: str) -> list[BalancePlan]:
        rows = arrow_rows(self.spark, _rows_of(view))
        with followed(self.spark, self.progress, words):
            answer = lift(rows, ["group"], _kernel(view, work), _ANSWER).toArrow()
        found = sorted(zip(*(answer[name].to_pylist() for name in _ANSWER.names), strict=True))
        return [BalancePlan(row, PlanKind(kind), *rest) for row, kind, *rest in found]


def _first_table(view: ClusterView, plans: list[BalancePlan]) -> list[BalancePlan]:
    first = min((int(view.table_of_row[plan.row]) for plan in plans), default=None)
    return [plan for plan in plans if int(view.table_of_row[plan.row]) == first]


def _rows_of(view: ClusterView) -> pa.Table:
    """One row per partition: its position and its members."""
    tables = view.table_of_row
    return pa.table(
        {
            "group": pa.array(tables // _TABLES_A_GROUP),
            "table": pa.array(tables),
            "row": pa.array(np.arange(view.partition_count, dtype=np.int32)),
            "members": _lists(view.members),
            "disks": _lists(view.member_disks),
        }
    )


def _lists(values: Ints) -> pa.Array:
    rows, roles = values.shape
    offsets = np.arange(rows + 1, dtype=np.int32) * roles
    return pa.ListArray.from_arrays(pa.array(offsets), pa.array(values.reshape(-1)))


def _kernel(view: ClusterView, work: _TableTask) -> Kernel:
    """Return the kernel of a group of tables, with only the shared input."""
    frame = replace(
        view,
        members=view.members[:0],
        member_disks=view.member_disks[:0],
        first_rows=view.first_rows[:1],
    )

    def answer(group: pa.Table) -> pa.Table:
        part, rows = _part_of(frame, group)
        plans = _plans_of(part, work)
        cells = (
            (int(rows[one.row]), int(one.kind), one.source, one.target, *_counts(one))
            for one in plans
        )
        names = _ANSWER.names
        return pa.Table.from_pylist(
            [dict(zip(names, row, strict=True)) for row in cells], schema=_ANSWER
        )

    return answer


def _counts(plan: BalancePlan) -> tuple[int, int]:
    return plan.source_count, plan.target_count


def _part_of(frame: ClusterView, group: pa.Table) -> tuple[ClusterView, Ints]:
    """Return the group's tables as a view, and which rows of the whole its rows are."""
    group = group.sort_by("row")
    rows = group["row"].to_numpy()
    tables, counts = np.unique(group["table"].to_numpy(), return_counts=True)
    shape = (len(rows), -1)
    names = frame.app_names
    part = replace(
        frame,
        app_ids=frame.app_ids[tables],
        app_names=tuple(names[table] for table in tables.tolist()),
        max_replica_counts=frame.max_replica_counts[tables],
        is_balanceable=frame.is_balanceable[tables],
        first_rows=np.concatenate(([0], np.cumsum(counts))).astype(np.int32),
        members=group["members"].combine_chunks().flatten().to_numpy().reshape(shape),
        member_disks=group["disks"].combine_chunks().flatten().to_numpy().reshape(shape),
    )
    return part, rows


def _plans_of(view: ClusterView, work: _TableTask) -> list[BalancePlan]:
    options, imbalance = work.options, Imbalance.of(view)
    considered = view.is_balanceable & ~np.isin(view.app_ids, list(options.ignored_app_ids))
    plans: list[BalancePlan] = []
    planned: set[int] = set()
    if work.has_primaries:
        uneven = np.nonzero(imbalance.is_uneven & considered)[0]
        only_move = options.only_move_primary
        plans += balance_primaries(view, imbalance, uneven, planned, only_move_primary=only_move)
    if work.has_secondaries:
        for table in tables_to_copy(view, imbalance):
            if considered[table]:
                plans += copy_secondary(view, imbalance, table, planned)
    return plans
