"""The written form of one balancer question: ``{"input": ..., "node_numbering": [...]}``.

A replica is ``[node, disk]``; the first of a partition is its primary (``null``: it has none), the
others are its secondaries in their order.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

import msgspec
import numpy as np

from core.errors import SchemaError
from core.pegasus.balance.model import BalanceOptions
from core.pegasus.ids import parse_node
from core.pegasus.view import NO_NODE, ClusterView

_Node = str
_Replica = tuple[_Node, str]
_FORM: Final = 'It must have the form {"input": {"nodes", "apps", ...}, "node_numbering": [...]}.'


class TraceTable(msgspec.Struct):
    """One table."""

    app_id: Annotated[int, msgspec.Meta(ge=1, le=0x7FFFFFFF)]
    max_replica_count: Annotated[int, msgspec.Meta(ge=1, le=1_000)]
    partitions: list[list[_Replica | None]]
    app_name: str = ""
    is_balanceable: bool = True


class TraceInput(msgspec.Struct):
    """State and switches."""

    nodes: list[_Node]
    apps: list[TraceTable]
    policy: Literal["app", "cluster"] = "app"
    only_primary_balancer: bool = False
    only_move_primary: bool = False
    balancer_in_turn: bool = False
    checker: bool = False
    balance_op_count_per_round: Annotated[int, msgspec.Meta(ge=0)] = 10
    ignored_app_list: list[int] = []
    disks: list[str] = []


class Trace(msgspec.Struct):
    """A balancer input; without a numbering the nodes are in order of names."""

    input: TraceInput
    node_numbering: list[_Node] | None = None


def parse_trace(content: bytes, place: str) -> Trace:
    """Read a question.

    Args:
        content: JSON; keys that are not known (``id``, ``expected``) are passed over.
        place: The file's name, for messages.

    Raises:
        SchemaError: It is no JSON, has another form, or contradicts itself.
    """
    try:
        trace = msgspec.json.decode(content, type=Trace)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as exc:
        raise SchemaError(f"{place} is not a balancer input: {exc}.", hint=_FORM) from exc
    _check(trace, place)
    return trace


def options_of(trace: Trace) -> BalanceOptions:
    """Return the switches of a question."""
    given = trace.input
    return BalanceOptions(
        policy=given.policy,
        only_primary_balancer=given.only_primary_balancer,
        only_move_primary=given.only_move_primary,
        balancer_in_turn=given.balancer_in_turn,
        is_check=given.checker,
        balance_op_count_per_round=given.balance_op_count_per_round,
        ignored_app_ids=frozenset(given.ignored_app_list),
    )


def view_of(trace: Trace) -> ClusterView:
    """Return the state of a question as columns.

    Cost:
        O(replicas), a Python loop over them: parsing, not deciding.
    """
    tables = sorted(trace.input.apps, key=lambda table: table.app_id)
    nodes = tuple(trace.node_numbering or sorted(trace.input.nodes, key=parse_node))
    partitions = [partition for table in tables for partition in table.partitions]
    tags = {replica[1] for one in partitions for replica in one if replica is not None}
    disks = tuple(sorted(tags | set(trace.input.disks)))
    node_code = {name: code for code, name in enumerate(nodes)}
    disk_code = {tag: code for code, tag in enumerate(disks)}
    width = max((len(partition) for partition in partitions), default=1)
    members = np.full((len(partitions), max(width, 1)), NO_NODE, dtype=np.int32)
    member_disks = members.copy()
    for row, partition in enumerate(partitions):
        for role, replica in enumerate(partition):
            if replica is not None:
                members[row, role] = node_code[replica[0]]
                member_disks[row, role] = disk_code[replica[1]]
    counts = [len(table.partitions) for table in tables]
    return ClusterView(
        nodes=nodes,
        disks=disks,
        app_ids=np.array([table.app_id for table in tables], dtype=np.int32),
        app_names=tuple(table.app_name or str(table.app_id) for table in tables),
        max_replica_counts=np.array([table.max_replica_count for table in tables], dtype=np.int32),
        is_balanceable=np.array([table.is_balanceable for table in tables], dtype=np.bool_),
        first_rows=np.cumsum([0, *counts]).astype(np.int32),
        members=members,
        member_disks=member_disks,
        node_disks=_node_disks(trace.input.disks, disk_code, members, member_disks, len(nodes)),
    )


def _node_disks(
    configured: list[str],
    disk_code: dict[str, int],
    members: np.ndarray[tuple[int, ...], np.dtype[np.int32]],
    member_disks: np.ndarray[tuple[int, ...], np.dtype[np.int32]],
    node_count: int,
) -> tuple[tuple[int, ...], ...]:
    """Return the disks of every node: as configured, else those in use on it, else all."""
    if configured:
        return (tuple(disk_code[tag] for tag in configured),) * node_count
    everywhere = tuple(range(len(disk_code)))
    used = (
        np.unique(member_disks[(members == node) & (member_disks != NO_NODE)])
        for node in range(node_count)
    )
    return tuple(tuple(int(disk) for disk in disks) or everywhere for disks in used)


def _check(trace: Trace, place: str) -> None:
    given = trace.input
    known = set(given.nodes)
    if len(known) != len(given.nodes) or not known:
        raise SchemaError(f"{place}: nodes must be a list of different names.", hint=_FORM)
    for node in given.nodes:
        parse_node(node)
    numbering = trace.node_numbering
    if numbering is not None and (len(numbering) != len(known) or set(numbering) != known):
        raise SchemaError(
            f"{place}: node_numbering must list each node once.",
            hint="Omit it, or list every node.",
        )
    ids = [table.app_id for table in given.apps]
    if len(set(ids)) != len(ids):
        raise SchemaError(f"{place}: two tables have the same app_id.", hint=_FORM)
    for table in given.apps:
        for index, partition in enumerate(table.partitions):
            _check_partition(partition, known, f"{place}: partition {table.app_id}.{index}")


def _check_partition(partition: list[_Replica | None], known: set[str], place: str) -> None:
    names = [replica[0] for replica in partition if replica is not None]
    if None in partition[1:]:
        raise SchemaError(f"{place}: only a primary can be null.", hint="Omit the others.")
    if len(set(names)) != len(names):
        raise SchemaError(f"{place} has two replicas on one node.", hint=_FORM)
    strangers = sorted(set(names) - known)
    if strangers:
        raise SchemaError(
            f"{place} has a replica on {strangers[0]}, which is not among the nodes.",
            hint="Add it to nodes and node_numbering.",
        )
