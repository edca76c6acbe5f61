"""The batches that empty a node: primaries move, secondaries leave, what is left is closed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

from core.errors import GuardRefusedError, OpsError
from core.pegasus.balance.model import PlanKind
from core.pegasus.partition import PartitionConfig
from core.pegasus.plan.draft import Draft
from core.pegasus.proposal import propose_move
from core.pegasus.steps.batch import PartitionProposal, ProposeMany
from core.pegasus.steps.close import CloseReplicas
from core.pegasus.steps.wait import AwaitState


def migrate(draft: Draft, node: str, leaving: Collection[str]) -> list[str]:
    """Add the batch that moves every primary of a node to one of its secondaries.

    The scripts draw one of the first two secondaries; here the one takes it that leads fewest
    partitions by then, of equal ones fewest of the table. Partitions with the least choice come
    first, so that the others can even out.

    Args:
        draft: What is filled.
        node: It gives up its primaries.
        leaving: Nodes that get none.

    Returns:
        The partitions that are moved, in gpid order.
    """
    state = draft.state
    led = state.led_by(node)
    of_table = _table_leads(draft, led)
    refused: list[tuple[str, OpsError]] = []
    items: dict[str, PartitionProposal] = {}
    for config in sorted(led, key=lambda one: len(_able(draft, one, leaving))):
        able = _able(draft, config, leaving)
        try:
            draft.check_table(config)
            if not able:
                raise _no_heir(draft, config, node)
            target = min(
                able, key=lambda name: (state.primaries[name], of_table[config.app_id, name])
            )
            found = propose_move(
                state.proposal_context(), config, PlanKind.MOVE_PRIMARY, node, target
            )
        except OpsError as exc:
            refused.append((config.gpid, exc))
            continue
        items[config.gpid] = PartitionProposal(partition=state.partition(config), target=target)
        of_table[config.app_id, target] += 1
        state.advance(config, found.actions)
    draft.note_refused(sorted(refused, key=lambda one: _place(one[0])))
    ordered = [config.gpid for config in led if config.gpid in items]
    if ordered:
        draft.append(
            ProposeMany(
                node=node,
                verb="move_pri",
                items=tuple(items[gpid] for gpid in ordered),
            )
        )
    return ordered


def downgrade(draft: Draft, node: str, batch: int | None = None) -> list[list[str]]:
    """Add the batches that take a node out of every partition that it keeps a secondary of.

    Between two batches the run waits until every partition has its replicas again, so that at most
    one batch of partitions lacks a replica at a time.

    Args:
        draft: What is filled.
        node: It leaves.
        batch: Partitions of one batch; ``None`` for all in one.

    Returns:
        The partitions that it leaves, batch by batch, in gpid order.
    """
    state = draft.state
    refused: list[tuple[str, OpsError]] = []
    items: list[PartitionProposal] = []
    for config in state.followed_by(node):
        try:
            draft.check_table(config)
            found = draft.changed(config, "DOWNGRADE_TO_INACTIVE", node)
        except OpsError as exc:
            refused.append((config.gpid, exc))
            continue
        items.append(PartitionProposal(partition=state.partition(config)))
        state.advance(config, found.actions)
    draft.note_refused(refused)
    size = batch or max(len(items), 1)
    batches = [items[start : start + size] for start in range(0, len(items), size)]
    for place, some in enumerate(batches):
        if place:
            draft.steps.append(AwaitState(state="healthy", reason=draft.terms.reason))
        draft.append(
            ProposeMany(
                node=node,
                verb="DOWNGRADE_TO_INACTIVE",
                items=tuple(some),
            )
        )
    return [[item.partition.gpid for item in some] for some in batches]


def close(draft: Draft, node: str, gpids: Collection[str]) -> None:
    """Add the step that closes replicas which are no members any more."""
    draft.steps.append(CloseReplicas(node=node, partitions=tuple(gpids), reason=draft.terms.reason))


def _able(draft: Draft, config: PartitionConfig, leaving: Collection[str]) -> list[str]:
    """Return the secondaries that may lead, by host and port.

    One that leaves later is better than none: by then the guardian has filled up the partition.
    Where the guardian has put a replica is only a guess, and nothing is moved on a guess.
    """
    state, suspected = draft.state, draft.facts.columns.nodes_with("not answering")
    sure = [
        name
        for name in state.alive
        if name in config.secondaries
        and name not in suspected
        and (config.gpid, name) not in state.predicted
    ]
    return [name for name in sure if name not in leaving] or sure


def _table_leads(draft: Draft, led: Collection[PartitionConfig]) -> Counter[tuple[int, str]]:
    ids = {config.app_id for config in led}
    return Counter(
        (one.app_id, now.primary)
        for app_id in ids
        for one in draft.facts.partitions[app_id]
        for now in [draft.state.config(one.gpid)]
        if now.primary is not None
    )


def _no_heir(draft: Draft, config: PartitionConfig, node: str) -> GuardRefusedError:
    if any((config.gpid, name) in draft.state.predicted for name in config.secondaries):
        return GuardRefusedError(
            f"The primary of {config.gpid} after {node} is the guardian's choice: all of "
            "its replicas are on nodes that leave.",
            hint=f"Exclude {node}, and drain it in a separate run.",
        )
    held = ", ".join(config.secondaries) or "no node"
    return GuardRefusedError(
        f"No other node can become primary of {config.gpid}: apart from {node} it is on {held}.",
        hint="Copy it first: trimtab pegasus move CLUSTER GPID copy_pri --from N --to N.",
    )


def _place(gpid: str) -> tuple[int, int]:
    app_id, _, index = gpid.partition(".")
    return int(app_id), int(index)
