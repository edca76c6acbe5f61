"""What the guardian does next for the partitions of a snapshot, as far as a snapshot shows.

The meta server's memory of a partition (pending proposals, when a replica was dropped) is not
reported; a snapshot has the nodes that left, and of diagnosed partitions the known former
members. So an answer that depends on that memory is given for both cases.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from core.pegasus.balance.model import ConfigType
from core.pegasus.ddd import DddNode, PrimaryChoice, parse_ddd_text, recommend_primary
from core.pegasus.guardian import Cure, CureStatus, GuardedNode, Guardian, GuardianOptions
from core.pegasus.levels import FunctionLevel
from core.pegasus.partition import DroppedReplica, PartitionConfig, PartitionMemory
from core.pegasus.snapshot import PegasusFacts, partition_of
from core.pegasus.summary import minimum_2pc
from core.units import datetime_to_ms, format_age, is_whole

_EVER = 0
_ASSUMED_DELAY_MS = 600_000
_FLOW_CONTROL = "add_secondary_enable_flow_control"
_MAX_ADDED = "add_secondary_max_count_for_one_node"


@dataclass(frozen=True)
class Outlook:
    """State of one partition and its next repair.

    Attributes:
        config: The partition.
        cure: What the guardian does; its reason names both cases where they differ.
        is_sure: It does not hang on what only the meta server knows.
        dropped: Former members as diagnosed; empty: no diagnosis of it.
        reported_reason: The meta server's reason for a lost partition; ``None`` if none known,
            empty: it gave none.
        choice: The shell's choice of a primary; ``None`` if not every replica was lost.
    """

    config: PartitionConfig
    cure: Cure
    is_sure: bool
    dropped: tuple[DddNode, ...] = ()
    reported_reason: str | None = None
    choice: PrimaryChoice | None = None


def outlooks(facts: PegasusFacts, rows: Sequence[int]) -> list[Outlook]:
    """Return the next repair of some partitions.

    Args:
        facts: The snapshot.
        rows: Places of partitions in ``facts.columns``, few: each is looked at by itself.
    """
    if not len(rows):
        return []
    parts = _partition_rows(facts, rows)
    nodes = _guarded(facts, {row["app_id"] for row in parts})
    options = _options(facts)
    now_ms = datetime_to_ms(facts.snapshot.manifest.taken_at)
    guardian = Guardian(nodes, options, now_ms)
    found = [_outlook(row, guardian, facts.effective_level) for row in parts]
    return [_held_back(one) for one in found] if _adds_nothing(facts) else found


def _adds_nothing(facts: PegasusFacts) -> bool:
    """Return whether flow control blocks every new secondary; false if unknown."""
    settings = facts.snapshot.settings
    most = settings.get(_MAX_ADDED, "")
    return settings.get(_FLOW_CONTROL, "") == "true" and is_whole(most) and not int(most)


def _held_back(one: Outlook) -> Outlook:
    """Return an outlook without the addition that flow control does not send."""
    cure = one.cure
    if cure.action is None or cure.action.type is not ConfigType.ADD_SECONDARY:
        return one
    reason = (
        f"{cure.reason} It is not sent: {_MAX_ADDED} is 0, as during a rolling update or a drain."
    )
    return replace(one, cure=replace(cure, action=None, reason=reason))


def _partition_rows(facts: PegasusFacts, rows: Sequence[int]) -> list[dict[str, Any]]:
    table = facts.columns.partitions.take(np.asarray(rows, dtype=np.int64))
    found: list[dict[str, Any]] = table.to_pylist()
    return found


def _guarded(facts: PegasusFacts, app_ids: Iterable[int]) -> list[GuardedNode]:
    """Count what every node holds; of the tables in question one by one, of all in sum."""
    columns = facts.columns
    led, held = columns.counts(primaries_only=True), columns.counts(primaries_only=False)
    places = {int(columns.app_ids[at]): at for at in range(columns.table_count)}
    wanted = {app_id: places[app_id] for app_id in app_ids}
    return [
        GuardedNode(
            name=name,
            is_alive=bool(columns.is_alive[node]),
            table_primaries={app_id: int(led[at, node]) for app_id, at in wanted.items()},
            table_partitions={app_id: int(held[at, node]) for app_id, at in wanted.items()},
            primary_count=int(led[:, node].sum()),
            partition_count=int(held[:, node].sum()),
        )
        for node, name in enumerate(columns.nodes)
    ]


def _options(facts: PegasusFacts) -> GuardianOptions:
    settings = facts.snapshot.settings
    delay = settings.get("assign_delay_ms", "")
    black = settings.get("assign_secondary_black_list", "").split(",")
    return GuardianOptions(
        min_2pc_count=minimum_2pc(facts),
        assign_delay_ms=int(delay) if is_whole(delay) else _ASSUMED_DELAY_MS,
        black_list=frozenset(name for name in black if name),
    )


def _outlook(row: dict[str, Any], guardian: Guardian, level: FunctionLevel | None) -> Outlook:
    config = partition_of(row)
    dropped = parse_ddd_text(row["ddd_dropped"])
    if config.is_ddd:
        cure, is_sure = _of_lost(config, dropped, guardian)
        choice = recommend_primary(config, dropped) if dropped else None
    else:
        cure, is_sure = _of_living(config, guardian)
        choice = None
    return Outlook(config, _at_level(cure, level), is_sure, dropped, row["ddd_reason"], choice)


def _of_lost(
    config: PartitionConfig, dropped: tuple[DddNode, ...], guardian: Guardian
) -> tuple[Cure, bool]:
    if not dropped and len(config.last_drops) > 1:
        names = " and ".join(config.last_drops[-2:])
        return Cure(
            CureStatus.DEAD,
            None,
            f"Every replica was lost. One of {names} becomes primary when it is back with "
            "its data; their data was not diagnosed.",
        ), False
    known = {one.node: one for one in dropped}
    nodes = [
        replace(node, has_collected_replicas=known[node.name].is_collected)
        if node.name in known
        else node
        for node in guardian.nodes
    ]
    records = tuple(
        DroppedReplica(
            one.node,
            max(one.drop_time_ms, 0),
            one.ballot,
            one.last_committed_decree,
            one.last_prepared_decree,
        )
        for one in dropped
    )
    return replace(guardian, nodes=nodes).next_cure(config, PartitionMemory(dropped=records)), True


def _of_living(config: PartitionConfig, guardian: Guardian) -> tuple[Cure, bool]:
    """Return a partition's cure while it has members, and whether it holds at any time."""
    room = max(config.max_replica_count - config.replica_count, 0)
    left = config.last_drops[-room:] if room else ()

    def cure_at(time_ms: int) -> Cure:
        memory = PartitionMemory(dropped=tuple(DroppedReplica(node, time_ms) for node in left))
        return guardian.next_cure(config, memory)

    early, late = cure_at(guardian.now_ms), cure_at(_EVER)
    if early.action is not None or not left:
        return early, early.action == late.action
    wait = format_age(guardian.options.assign_delay_ms / 1000)
    reason = f"Waits for {left[-1]}, up to {wait} after it left; then: {late.reason}"
    return Cure(early.status, late.action, reason), False


def _at_level(cure: Cure, level: FunctionLevel | None) -> Cure:
    if level is None or level > FunctionLevel.FREEZED or cure.status is CureStatus.HEALTHY:
        return cure
    reason = f"{cure.reason} Not executed at level {level.word}."
    return replace(cure, action=None, reason=reason)
