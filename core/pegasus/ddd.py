"""Partitions that lost every replica (DDD): who may become primary, and why or why not.

Source: Pegasus ``partition_guardian::on_missing_primary`` and the shell's ``ddd_diagnose``.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass

from core.pegasus.partition import UNKNOWN, DroppedReplica, PartitionConfig, PartitionMemory


@dataclass(frozen=True)
class DddNode:
    """A former member as ``ddd_diagnose`` reports it."""

    node: str
    drop_time_ms: int
    is_alive: bool
    is_collected: bool
    ballot: int
    last_committed_decree: int
    last_prepared_decree: int


def ddd_text(dropped: Iterable[DddNode]) -> str:
    """Return former members as JSON, as a snapshot stores them."""
    return json.dumps([asdict(one) for one in dropped])


def parse_ddd_text(text: str | None) -> tuple[DddNode, ...]:
    """Return the former members that a snapshot keeps; none where nothing was diagnosed."""
    return tuple(DddNode(**one) for one in json.loads(text or "[]"))


@dataclass(frozen=True)
class PrimaryChoice:
    """Choice of the primary.

    Attributes:
        node: ``None`` if no node.
        reason: One sentence.
        is_reason_ours: Upstream would show no reason here (PG-1).
    """

    node: str | None
    reason: str
    is_reason_ours: bool = False


@dataclass(frozen=True)
class NodeReport:
    """The guardian's report on a node.

    Attributes:
        is_alive: The failure detector's word.
        has_collected_replicas: It has reported its replicas since it came alive.
    """

    is_alive: bool
    has_collected_replicas: bool


def recommend_primary(config: PartitionConfig, dropped: tuple[DddNode, ...]) -> PrimaryChoice:
    """Return the primary that the shell's diagnosis recommends.

    Args:
        config: The partition; its last two drops are looked at.
        dropped: What is known of its former members.
    """
    if len(config.last_drops) < 2:
        return PrimaryChoice(None, "Fewer than two dropped nodes are known: no choice is certain.")
    known = {one.node: one for one in dropped}
    last_two = [known[node] for node in config.last_drops[-2:] if node in known]
    ready = [one for one in last_two if one.is_alive and one.is_collected]
    if not ready:
        names = " and ".join(config.last_drops[-2:])
        return PrimaryChoice(None, f"Neither {names} is back with its replicas reported.")
    # the later of equals, so the last two are compared from the latest on
    best = max(reversed(ready), key=lambda one: (one.last_committed_decree, one.ballot))
    held = f"{best.node} has committed up to {best.last_committed_decree}"
    if best.last_committed_decree < config.last_committed_decree:
        wanted = f"the configuration up to {config.last_committed_decree}"
        return PrimaryChoice(None, f"{held}, {wanted}: writes would be lost.")
    if len(ready) == 1:
        return PrimaryChoice(best.node, f"{held}; it is the only one of the last two that is back.")
    return PrimaryChoice(best.node, f"{held}, more than the other of the last two.")


def choose_lost_primary(
    config: PartitionConfig, memory: PartitionMemory, nodes: Mapping[str, NodeReport]
) -> PrimaryChoice:
    """Return the primary that the guardian chooses for a DDD partition.

    With a single former member that one is taken without any look at it.
    """
    if len(config.last_drops) == 1:
        only = config.last_drops[0]
        return PrimaryChoice(only, f"{only} is the only node that was dropped; it is not checked.")
    seen: list[DroppedReplica] = []
    for node in config.last_drops[-2:]:
        found = _last_seen(node, memory, nodes.get(node))
        if isinstance(found, str):
            return PrimaryChoice(None, found)
        seen.append(found)
    return _of_two(config, seen[0], seen[1])


def _last_seen(
    node: str, memory: PartitionMemory, context: NodeReport | None
) -> DroppedReplica | str:
    if context is None or not context.is_alive:
        return f"The last dropped node {node} is not back yet."
    record = memory.dropped_on(node)
    if record is not None and record.ballot != UNKNOWN:
        return record
    if context.has_collected_replicas:
        return DroppedReplica(node)
    what = (
        "it is not among the dropped nodes"
        if record is None
        else "its replicas have not been reported"
    )
    return f"The last dropped node {node} is back, but {what}."


def _of_two(
    config: PartitionConfig, second: DroppedReplica, latest: DroppedReplica
) -> PrimaryChoice:
    if second.ballot == latest.ballot == UNKNOWN:
        return PrimaryChoice(None, "Neither of the last two dropped nodes reported this replica.")
    ballot_gap = second.ballot - latest.ballot
    committed_gap = second.last_committed_decree - latest.last_committed_decree
    if ballot_gap * committed_gap < 0:
        return PrimaryChoice(
            None,
            f"{second.node} and {latest.node} are inconsistent: the node with the larger "
            "ballot has committed less.",
        )
    committed = max(second.last_committed_decree, latest.last_committed_decree)
    prepared = max(second.last_prepared_decree, latest.last_prepared_decree)
    if prepared < config.last_committed_decree or prepared < committed:
        needed = max(config.last_committed_decree, committed)
        return PrimaryChoice(
            None,
            f"The last two nodes prepared up to {prepared}, but {needed} is committed: "
            "data is missing.",
            is_reason_ours=True,
        )
    best = max(latest, second, key=_freshness)
    return PrimaryChoice(best.node, f"{best.node} has the newest data of the last two.")


def _freshness(one: DroppedReplica) -> tuple[int, int, int]:
    return (one.ballot, one.last_committed_decree, one.last_prepared_decree)
