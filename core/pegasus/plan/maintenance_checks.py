"""What forbids maintenance of a Pegasus cluster, and what keeps its effective level meanwhile."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from core.pegasus.plan.draft import Draft
from core.pegasus.server_settings import LIVE_PERCENTAGE
from core.units import is_whole, pluralize

_LEVEL_LEAST_NODES: Final = 3


@dataclass(frozen=True)
class _Rule:
    """Condition that keeps the effective level from freezing."""

    least_nodes: int
    live_percentage: int | None

    @classmethod
    def of(cls, draft: Draft) -> _Rule:
        settings = draft.facts.snapshot.settings
        least = settings.get("min_live_node_count_for_unfreeze", "")
        share = settings.get(LIVE_PERCENTAGE, "")
        return cls(
            int(least) if is_whole(least) else _LEVEL_LEAST_NODES,
            int(share) if is_whole(share) else None,
        )

    def freezes(self, alive: int, known: int) -> bool:
        """Return whether the share of live nodes would freeze it; true if unknown."""
        return self.live_percentage is None or alive * 100 < self.live_percentage * known


def unfreeze(draft: Draft, leaving: Sequence[str]) -> None:
    """Keep the effective level while nodes leave: a node that went stays in the share's total."""
    rule, known = _Rule.of(draft), len(draft.facts.nodes)
    left = len([name for name in draft.state.alive if name not in leaving])
    if not rule.freezes(left, known):
        return
    is_known = rule.live_percentage is not None  # else it could not be restored
    draft.set_setting(LIVE_PERCENTAGE, "0", is_restored=is_known)
    draft.note(
        "warning",
        "live_percentage_stays",
        f"With {left} of {known} nodes alive the effective level would become "
        f"freezed. {LIVE_PERCENTAGE} is set to 0 and stays at 0 after the run as long "
        "as restoring it would freeze the cluster.",
        hint="Restart the meta servers afterwards: this restores the configured value and "
        "drops the nodes that left.",
    )


def warn_of_freezing(draft: Draft) -> None:
    """Report when one node less would freeze the effective level."""
    rule, known, alive = _Rule.of(draft), len(draft.facts.nodes), len(draft.state.alive)
    if alive - 1 < rule.least_nodes or rule.freezes(alive - 1, known):
        draft.note(
            "warning",
            "freezes_meanwhile",
            f"With {alive - 1} of {known} nodes alive the effective level is freezed while a node "
            "restarts: nothing is repaired until it is back.",
        )


def check_left(draft: Draft, leaving: Sequence[str]) -> None:
    """Refuse to leave fewer nodes than replicas, or than keep the effective level."""
    left = [name for name in draft.state.alive if name not in leaving]
    most = max((one.max_replica_count for one in draft.facts.tables.values()), default=1)
    if len(left) < most:
        tables = [one for one in draft.facts.tables.values() if one.max_replica_count == most]
        draft.note(
            "error",
            "too_few_nodes",
            f"{pluralize(len(left), 'node')} would be left, but table {tables[0].name} "
            f"requires {pluralize(most, 'replica')}.",
            hint="Specify fewer nodes, or add some first.",
        )
    least = _Rule.of(draft).least_nodes
    if len(left) < least:
        draft.note(
            "error",
            "would_freeze",
            f"{pluralize(len(left), 'node')} would be left, fewer than {least}: the "
            "effective level would be freezed, and nothing is repaired.",
            hint="Specify fewer nodes, or add some first.",
        )


def check_whole(draft: Draft) -> None:
    """Refuse to empty a node of which not everything is known."""
    if not draft.facts.has_all_partitions:
        draft.note(
            "error",
            "incomplete_snapshot",
            "Not all partitions were read: the replicas on the node are unknown.",
            hint="Take another snapshot; its problems list what did not answer.",
        )


def note_balance_waits(draft: Draft) -> None:
    """Warn of what the meta server finishes before it balances."""
    for number, noun, what in (
        (len(draft.state.children), "child partition", "a partition split is over"),
        (len(draft.state.unhealthy), "partition", "every partition is healthy"),
    ):
        if number:
            sentence = f"Balancing waits until {what}: {pluralize(number, noun)} remaining."
            draft.note("warning", "balance_waits", sentence)


def note_refill(draft: Draft) -> None:
    """Warn that the balancer fills nodes that are empty on purpose."""
    columns = draft.facts.columns
    for status in ("drained", "excluded"):
        names = columns.nodes_with(status)
        if names:
            draft.note(
                "warning",
                "fills_set_aside",
                f"At level lively the balancer moves replicas to {status} nodes again: "
                f"{', '.join(names)}.",
                subject=names[0],
                hint="Leave the level at steady to keep nodes empty, or decommission them first.",
            )


def refuse_split(draft: Draft) -> bool:
    """Refuse to change members during a partition split, which would restart it."""
    children = draft.state.children
    if not children:
        return False
    names = sorted({draft.facts.tables[one.app_id].name for one in children})
    draft.note(
        "error",
        "table_splitting",
        f"{', '.join(names)}: a partition split is in progress, "
        f"{pluralize(len(children), 'child partition')} not registered. The meta "
        "server balances nothing until then, and a parent whose members change "
        "restarts its split.",
        hint="Wait until every child partition is registered; `trimtab pegasus health` "
        "shows the progress.",
    )
    return True


def check_healthy(draft: Draft) -> None:
    """Refuse to take replicas away while others are missing, or while a table is split."""
    refuse_split(draft)
    unhealthy = draft.state.unhealthy
    if unhealthy:
        names = ", ".join(config.gpid for config in unhealthy[:3])
        draft.note(
            "error",
            "unhealthy",
            f"{pluralize(len(unhealthy), 'partition')} unhealthy ({names}): removing more "
            "replicas may lose data.",
            hint="Wait until the guardian has repaired them.",
        )


def check_policy(draft: Draft) -> None:
    """Refuse lively where the active policy would kill the leading meta server."""
    if draft.facts.snapshot.settings.get("balance_cluster") != "true":
        return
    if any(table.max_replica_count == 1 for table in draft.facts.tables.values()):
        draft.note(
            "error",
            "kills_meta_server",
            "balance_cluster is true and a table has a single replica: at lively the "
            "leading meta server would crash.",
            hint="Set balance_cluster to false first.",
        )
