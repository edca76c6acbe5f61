"""Moves as tables and bars by partition, node, disk and table; choices of a manual move."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from core.errors import GuardRefusedError
from core.pegasus.balance.model import BalancePlan, PlanKind
from core.pegasus.levels import FunctionLevel
from core.pegasus.partition import PartitionConfig
from core.pegasus.proposal import MOVE_KINDS, Move, ProposalContext, propose_move
from core.pegasus.snapshot import PegasusFacts
from core.pegasus.view import NO_NODE, ClusterView
from core.units import format_mb
from dashboard.app_pages.pegasus.balance.model import KIND_WORDS
from dashboard.charts.bars import BeforeAfter
from dashboard.queries.pegasus.balance import BalanceBasis, disk_counts

Floats = NDArray[np.float64]
By = Literal["primaries", "replicas", "size", "disks"]
QUANTITIES: Final[tuple[By, ...]] = ("primaries", "replicas", "size", "disks")
MAX_BARS: Final = 24
MOST_LISTED: Final = 1_000
MAX_REASONS: Final = 50
_BECAUSE: Final = {
    PlanKind.MOVE_PRIMARY: "destination has a secondary",
    PlanKind.COPY_PRIMARY: "no role change possible",
    PlanKind.COPY_SECONDARY: "balances secondaries",
}
"""Why a change is of its kind; why it is made at all are the counts of both nodes."""


@dataclass(frozen=True)
class PlanList:
    """Plans of rounds in one list.

    Attributes:
        plans: The plans.
        rounds: Of each its round, from 1.
    """

    plans: tuple[BalancePlan, ...]
    rounds: tuple[int, ...]

    @classmethod
    def of(cls, rounds: Sequence[Sequence[BalancePlan]]) -> PlanList:
        """Put rounds one after the other."""
        pairs = [(plan, number) for number, plans in enumerate(rounds, 1) for plan in plans]
        return cls(tuple(plan for plan, _ in pairs), tuple(number for _, number in pairs))

    def of_table(self, view: ClusterView, table: str) -> PlanList:
        """Return those of one table; empty: all."""
        if table not in view.app_names:
            return self
        place = view.app_names.index(table)
        rows = [at for at, one in enumerate(self.plans) if view.table_of_row[one.row] == place]
        return self.at(rows)

    def at(self, places: Sequence[int]) -> PlanList:
        """Return those at some places."""
        return PlanList(
            tuple(self.plans[place] for place in places),
            tuple(self.rounds[place] for place in places),
        )


def moves_frame(view: ClusterView, basis: BalanceBasis, listed: PlanList) -> pd.DataFrame:
    """Return one row a plan, the first :data:`MOST_LISTED`.

    Args:
        view: Any state of the cluster in the policy's numbering.
        basis: Has the sizes.
    """
    shown = listed.plans[:MOST_LISTED]
    copied = [plan.kind is not PlanKind.MOVE_PRIMARY for plan in shown]
    sizes = [
        float(basis.sizes_mb[plan.row]) if is_copied else 0.0
        for plan, is_copied in zip(shown, copied, strict=True)
    ]
    return pd.DataFrame(
        {
            "round": list(listed.rounds[:MOST_LISTED]),
            "partition": [view.gpid_text(plan.row) for plan in shown],
            "table": [view.app_names[int(view.table_of_row[plan.row])] for plan in shown],
            "kind": [KIND_WORDS[plan.kind] for plan in shown],
            "from": [view.nodes[plan.source] for plan in shown],
            "to": [view.nodes[plan.target] for plan in shown],
            "size_mb": pd.Series(sizes, dtype="float64"),
        }
    )


def reasons_frame(view: ClusterView, listed: PlanList, *, is_policy: bool) -> pd.DataFrame:
    """Return the reasons for the first :data:`MAX_REASONS` changes: counts of source and target.

    Args:
        view: Any state of the cluster in the policy's numbering.
        is_policy: They are a policy's, which evens out single tables.
    """
    plans, nodes = listed.plans[:MAX_REASONS], max(len(view.nodes), 1)
    totals = [int(view.partition_counts[int(view.table_of_row[plan.row])]) for plan in plans]
    return pd.DataFrame(
        {
            "partition": [view.gpid_text(plan.row) for plan in plans],
            "table": [view.app_names[int(view.table_of_row[plan.row])] for plan in plans],
            "kind": [KIND_WORDS[plan.kind] for plan in plans],
            "from": [view.nodes[plan.source] for plan in plans],
            "source_count": [plan.source_count for plan in plans],
            "to": [view.nodes[plan.target] for plan in plans],
            "target_count": [plan.target_count for plan in plans],
            "share": [
                _range_of(total // nodes, -(-total // nodes))
                if is_policy and plan.kind is PlanKind.MOVE_PRIMARY
                else ""
                for plan, total in zip(plans, totals, strict=True)
            ],
            "because": [_BECAUSE[plan.kind] for plan in plans],
        }
    )


def bars(before: ClusterView, after: ClusterView, basis: BalanceBasis, by: By) -> BeforeAfter:
    """Return nodes, or disks of nodes, before and after; those that change most where many."""
    if by == "disks":
        names, was, now = _disks(before, after)
    else:
        names, was, now = _nodes(before, after, basis, by)
    known = now[np.isfinite(now)]
    order = np.argsort(-np.nan_to_num(np.abs(now - was)), kind="stable")[:MAX_BARS]
    order = order[np.argsort(-np.nan_to_num(was[order]), kind="stable")]
    return BeforeAfter(
        brokers=[names[place] for place in order.tolist()],
        before=was[order],
        after=now[order],
        low=now[order],
        high=now[order],
        mean_after=float(known.mean()) if known.size else float("nan"),
        tolerance_ratio=basis.target_ratio,
        unit="count" if by != "size" else "MB",
    )


def _nodes(
    before: ClusterView, after: ClusterView, basis: BalanceBasis, by: By
) -> tuple[list[str], Floats, Floats]:
    if by == "size":
        was, now = _sizes(before, basis), _sizes(after, basis)
    else:
        kinds = {"primaries": "primary_counts", "replicas": "replica_counts"}
        was = getattr(before, kinds[by]).sum(axis=0).astype(np.float64)
        now = getattr(after, kinds[by]).sum(axis=0).astype(np.float64)
    return list(before.nodes), was, now


def _sizes(view: ClusterView, basis: BalanceBasis) -> Floats:
    rows, roles = np.nonzero(view.members != NO_NODE)
    loads = np.zeros(len(view.nodes))
    np.add.at(loads, view.members[rows, roles], np.nan_to_num(basis.sizes_mb[rows]))
    return loads


def _disks(before: ClusterView, after: ClusterView) -> tuple[list[str], Floats, Floats]:
    was, now = disk_counts(before).astype(np.float64), disk_counts(after).astype(np.float64)
    places = [
        (node, disk) for node, disks in enumerate(before.node_disks) for disk in sorted(disks)
    ]
    nodes = [node for node, _ in places]
    disks = [disk for _, disk in places]
    names = [f"{before.nodes[node]} {before.disks[disk]}" for node, disk in places]
    return names, was[nodes, disks], now[nodes, disks]


def tables_frame(
    before: ClusterView, after: ClusterView, basis: BalanceBasis, listed: PlanList
) -> pd.DataFrame:
    """Return one row a table that changes: counts per node as ``least to most``, before, after."""
    changes = np.zeros(before.table_count, dtype=np.int64)
    copied = np.zeros(before.table_count)
    for plan in listed.plans:
        table = int(before.table_of_row[plan.row])
        changes[table] += 1
        if plan.kind is not PlanKind.MOVE_PRIMARY:
            copied[table] += float(basis.sizes_mb[plan.row])
    touched = np.nonzero(changes)[0]
    touched = touched[np.argsort(-changes[touched], kind="stable")][:MOST_LISTED]
    columns = {
        f"{what}_{moment}": [_range(getattr(view, f"{what}_counts")[table]) for table in touched]
        for what in ("primary", "replica")
        for moment, view in (("before", before), ("after", after))
    }
    return pd.DataFrame(
        {
            "table": [before.app_names[table] for table in touched.tolist()],
            "changes": changes[touched],
            "copied_mb": copied[touched],
            **columns,
        }
    )


def _range(counts: NDArray[np.int32]) -> str:
    return _range_of(int(counts.min()), int(counts.max()))


def _range_of(low: int, high: int) -> str:
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def headroom(view: ClusterView, basis: BalanceBasis, received_mb: Floats) -> tuple[list[str], str]:
    """Return the nodes without space for the copies, with the shortage.

    Args:
        view: In the numbering of ``received_mb``.
        basis: Has the free room.
        received_mb: Shape ``(n_nodes,)``: what is copied onto each before anything is deleted.
    Returns:
        One sentence a node that lacks room; one sentence on the tightest of the others, or empty.
    """
    free = np.array([basis.free_mb[name] for name in view.nodes])
    destinations = np.nonzero(received_mb > 0)[0]
    if not destinations.size:
        return [], ""
    lacking = [
        f"{view.nodes[node]} has {_mb(float(free[node]))} free and would receive "
        f"{_mb(float(received_mb[node]))} before replicas are deleted there."
        for node in destinations
        if np.isnan(free[node]) or free[node] < received_mb[node]
    ]
    left = (free - received_mb)[destinations]
    if np.isnan(left).all():
        return lacking, ""
    tight = destinations[int(np.nanargmin(left))]
    return lacking, (
        f"Copies precede deletions. Least free space: {view.nodes[tight]} "
        f"({_mb(float(free[tight]))} free, {_mb(float(received_mb[tight]))} to receive)."
    )


def _mb(value: float) -> str:
    return format_mb(value if np.isfinite(value) else None)


MOVES: Final[dict[str, Move]] = {
    "move the primary": "move_pri",
    "copy the primary": "copy_pri",
    "copy a secondary": "copy_sec",
}
EXPLAINED: Final[dict[Move, str]] = {
    "move_pri": "Swaps roles with a secondary; no data is copied, clients follow within seconds.",
    "copy_pri": "Copies the replica to a node without one, which becomes the primary.",
    "copy_sec": "Copies a secondary to a node without one and removes the old one.",
}
MAY: Final = "allowed"


def proposal_context(facts: PegasusFacts) -> ProposalContext:
    """Return the context for checks of proposals; an unknown level counts as ``freezed``."""
    level = facts.effective_level or FunctionLevel.FREEZED
    return ProposalContext(nodes={node.name: node for node in facts.nodes}, level=level)


def config_of(facts: PegasusFacts, table: str, index: int) -> PartitionConfig | None:
    """Return a partition; ``None``: there is none such in the snapshot."""
    app_id = next((key for key, one in facts.tables.items() if one.name == table), None)
    configs = facts.partitions.get(app_id, []) if app_id is not None else []
    return next((config for config in configs if config.index == index), None)


def sources(config: PartitionConfig, move: Move) -> list[str]:
    """Return the nodes that may give in such a move."""
    if move == "copy_sec":
        return list(config.secondaries)
    return [] if config.primary is None else [config.primary]


def targets_frame(
    facts: PegasusFacts, config: PartitionConfig, move: Move, source: str
) -> pd.DataFrame:
    """Return one row a node: permission for the replica, reason against it, and its load.

    Those that may stand first, the emptiest of them at the top.
    """
    columns = facts.columns
    primaries = columns.counts(primaries_only=True).sum(axis=0)
    replicas = columns.counts(primaries_only=False).sum(axis=0)
    carried = primaries if move == "move_pri" else replicas
    context = proposal_context(facts)
    verdicts = [_verdict(context, config, move, source, name) for name in columns.nodes]
    order = np.lexsort((carried, np.array([verdict != MAY for verdict in verdicts])))
    free = {
        name: float(sum(disk.available_mb for disk in disks)) for name, disks in facts.disks.items()
    }
    return pd.DataFrame(
        {
            "node": [columns.nodes[at] for at in order],
            "verdict": [verdicts[at] for at in order],
            "primaries": primaries[order],
            "replicas": replicas[order],
            "free_mb": pd.Series([free.get(columns.nodes[at]) for at in order], dtype="float64"),
        }
    )


def allowed(frame: pd.DataFrame) -> Sequence[str]:
    """Return the nodes that may take the replica, the emptiest first."""
    names: list[str] = frame.loc[frame["verdict"] == MAY, "node"].tolist()
    return names


def _verdict(
    context: ProposalContext, config: PartitionConfig, move: Move, source: str, target: str
) -> str:
    if target == source:
        return "no: is the primary" if source == config.primary else "no: is the source"
    try:
        propose_move(context, config, MOVE_KINDS[move], source, target)
    except GuardRefusedError as refused:
        head = f"The meta server rejects the proposal for partition {config.gpid}: "
        reason = refused.message.removeprefix(head).rstrip(".")
        return f"no: {reason}"
    return MAY
