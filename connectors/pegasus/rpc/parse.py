"""Structs of the wire to values of ours, and back."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeVar

import msgspec

from connectors.pegasus.rpc import idl
from connectors.pegasus.rpc.wire import Gpid, HostPort, RpcAddress, Struct, WireError
from core.errors import ProtocolError
from core.pegasus.answers import (
    DUPLICATION_STATES,
    FAIL_MODES,
    BackupPolicyEntry,
    ClusterInfo,
    DddEntry,
    DiskEntry,
    DuplicationEntry,
    NodeEntry,
    TableEntry,
    TableStatus,
)
from core.pegasus.ddd import DddNode
from core.pegasus.partition import PartitionConfig, ReplicaEntry, ReplicaStatus
from core.pegasus.proposal import Proposal
from core.pegasus.verdict import OperationCounts
from core.units import is_whole

ALIVE: Final = 1
_Value = TypeVar("_Value")
_UNKNOWN_COMMAND: Final = re.compile(r"unknown command '(.*)'\Z", re.DOTALL)


class _Counts(msgspec.Struct):
    total: int
    move_pri: int = 0
    copy_pri: int = 0
    copy_sec: int = 0


def parsed(
    parser: Callable[[Struct], _Value], result: Any, *, endpoint: str, operation: str
) -> _Value:
    """Return a result as a value.

    Raises:
        ProtocolError: A field that every server sends is absent, or of no use.
    """
    try:
        return parser(result)
    except (AttributeError, TypeError, ValueError, WireError) as exc:
        raise ProtocolError(
            f"{endpoint} returned an incomplete answer to {operation}: {exc}.",
            endpoint=endpoint,
            operation=operation,
            outcome="unknown",
            hint="Check that it is a Pegasus server of a supported version.",
        ) from exc


def _there(value: _Value | None) -> _Value:
    if value is None:
        raise WireError("a required field is missing")
    return value


def parse_old_level(result: Struct) -> int:
    """Read the level that a meta server reports."""
    return int(_there(result.old_level))


def parse_nodes(result: Struct) -> list[NodeEntry]:
    """Read the list of nodes."""
    return [parse_node(one) for one in result.infos or ()]


def parse_tables(result: Struct) -> list[TableEntry]:
    """Read the list of tables."""
    return [parse_table(one) for one in result.infos or ()]


def parse_partitions(result: Struct) -> list[PartitionConfig]:
    """Read the partitions of a table."""
    return [parse_partition(one) for one in result.partitions or ()]


def parse_ddds(result: Struct) -> list[DddEntry]:
    """Read the partitions that lost every replica."""
    return [parse_ddd(one) for one in result.partitions or ()]


def parse_disks(result: Struct) -> list[DiskEntry]:
    """Read the disks of a replica server."""
    return [parse_disk(one) for one in result.disk_infos or ()]


def parse_replicas(result: Struct) -> list[ReplicaEntry]:
    """Read the replicas of a replica server, open and closed ones."""
    return [parse_replica(one) for one in result.replicas or ()]


def parse_replica(one: Struct) -> ReplicaEntry:
    """Read one replica."""
    try:
        status = ReplicaStatus(one.status or 0)
    except ValueError:
        status = ReplicaStatus.INVALID
    return ReplicaEntry(
        app_id=one.pid.app_id,
        index=one.pid.index,
        status=status,
        ballot=_there(one.ballot),
        last_committed_decree=_there(one.last_committed_decree),
        last_prepared_decree=_there(one.last_prepared_decree),
        disk=_there(one.disk_tag),
    )


def name_of(name: HostPort | None, address: RpcAddress | None) -> str | None:
    """Return the name of a node: the registered one, else the address of older servers."""
    if name is not None and name.text is not None:
        return name.text
    return None if address is None else address.text


def parse_node(one: Struct) -> NodeEntry:
    """Read one node of the list."""
    name = name_of(one.hp_node, one.node)
    if name is None:
        raise WireError("a node without an address")
    address = one.node.text if one.node is not None else None
    return NodeEntry(name, address, one.status == ALIVE)


def parse_table(one: Struct) -> TableEntry:
    """Read one table of the list."""
    try:
        status = TableStatus(one.status or 0)
    except ValueError:
        status = TableStatus.INVALID
    return TableEntry(
        app_id=_there(one.app_id),
        name=_there(one.app_name),
        status=status,
        partition_count=_there(one.partition_count),
        max_replica_count=_there(one.max_replica_count),
        envs=one.envs or {},
        create_s=one.create_second or 0,
        drop_s=one.drop_second or 0,
        expire_s=one.expire_second or 0,
        is_bulk_loading=bool(one.is_bulk_loading),
        is_duplicating=bool(one.duplicating),
    )


def parse_partition(one: Struct) -> PartitionConfig:
    """Read one partition's configuration."""
    return PartitionConfig(
        app_id=one.pid.app_id,
        index=one.pid.index,
        ballot=_there(one.ballot),
        max_replica_count=_there(one.max_replica_count),
        primary=name_of(one.hp_primary, one.primary),
        secondaries=_names(one.hp_secondaries, one.secondaries),
        last_drops=_names(one.hp_last_drops, one.last_drops),
        last_committed_decree=_there(one.last_committed_decree),
    )


def _names(names: list[HostPort] | None, addresses: list[RpcAddress] | None) -> tuple[str, ...]:
    if names is not None:
        return tuple(one.text for one in names if one.text is not None)
    return tuple(one.text for one in addresses or () if one.text is not None)


def parse_cluster_info(one: Struct) -> ClusterInfo:
    """Read what the leading meta server reports of its cluster."""
    values = dict(zip(one.keys or (), one.values or (), strict=False))
    return cluster_info_of(values)


def cluster_info_of(values: Mapping[str, str]) -> ClusterInfo:
    """Read the same out of its texts, from the call or from HTTP."""
    return ClusterInfo(
        meta_servers=tuple(filter(None, values.get("meta_servers", "").split(","))),
        leader=values.get("primary_meta_server", ""),
        level_word=values.get("meta_function_level", "").removeprefix("fl_"),
        operations=parse_operation_counts(values.get("balance_operation_count", "")),
        primary_stddev=_number(values.get("primary_replica_count_stddev")),
        replica_stddev=_number(values.get("total_replica_count_stddev")),
        values=dict(values),
    )


def parse_operation_counts(text: str) -> OperationCounts | None:
    """Read the counts, a JSON text inside a text; ``None`` when they are not there."""
    try:
        counts = msgspec.json.decode(text, type=_Counts)
    except (msgspec.MsgspecError, RecursionError):
        return None
    return OperationCounts(counts.total, counts.move_pri, counts.copy_pri, counts.copy_sec)


def _number(text: str | None) -> float | None:
    try:
        return None if text is None else float(text)
    except ValueError:
        return None


def parse_ddd(one: Struct) -> DddEntry:
    """Read one partition that lost every replica."""
    dropped = tuple(
        DddNode(
            node=name_of(node.hp_node, node.node) or "",
            drop_time_ms=_there(node.drop_time_ms),
            is_alive=bool(node.is_alive),
            is_collected=bool(node.is_collected),
            ballot=_there(node.ballot),
            last_committed_decree=_there(node.last_committed_decree),
            last_prepared_decree=_there(node.last_prepared_decree),
        )
        for node in one.dropped or ()
    )
    return DddEntry(parse_partition(one.config), dropped, one.reason or "")


def parse_duplications(result: Struct) -> list[DuplicationEntry]:
    """Read the duplications of every table, with the lag of each partition."""
    return [
        parse_duplication(table.appid, one)
        for table in (result.app_states or {}).values()
        for one in (table.duplications or {}).values()
    ]


def parse_table_duplications(result: Struct) -> list[DuplicationEntry]:
    """Read the duplications of one table; releases before 2.6 report no lag."""
    return [parse_duplication(_there(result.appid), one) for one in result.entry_list or ()]


def parse_duplication(app_id: int, one: Struct) -> DuplicationEntry:
    """Read one duplication."""
    states = one.partition_states or {}
    lags = {
        index: max(state.last_committed_decree - max(state.confirmed_decree, 0), 0)
        for index, state in states.items()
        if state.last_committed_decree is not None and state.confirmed_decree is not None
    }
    return DuplicationEntry(
        app_id=app_id,
        dup_id=_there(one.dupid),
        status=_word(DUPLICATION_STATES, one.status) or "unknown",
        remote=one.remote or "",
        remote_table=one.remote_app_name,
        fail_mode=_word(FAIL_MODES, one.fail_mode),
        create_ms=one.create_ts or 0,
        partitions=len(states or one.progress or {}),
        lags=lags,
    )


def _word(words: Sequence[str], number: int | None) -> str | None:
    return words[number] if number is not None and 0 <= number < len(words) else None


def parse_backup_policies(result: Struct) -> list[BackupPolicyEntry]:
    """Read the policies of periodic backups, each with its last backup."""
    backups = [*(result.backup_infos or ())]
    policies = result.policys or ()
    backups += [[]] * (len(policies) - len(backups))
    return [
        BackupPolicyEntry(
            name=one.policy_name or "",
            provider=one.backup_provider_type or "",
            interval_s=int(one.backup_interval_seconds)
            if is_whole(one.backup_interval_seconds or "")
            else None,
            app_ids=tuple(sorted(one.app_ids or ())),
            kept=one.backup_history_count_to_keep or 0,
            start_time=one.start_time or "",
            is_disabled=bool(one.is_disable),
            last_start_ms=last[0].start_time_ms or 0 if last else 0,
            last_end_ms=last[0].end_time_ms or 0 if last else 0,
        )
        for one, last in zip(policies, backups, strict=False)
    ]


def parse_disk(one: Struct) -> DiskEntry:
    """Read one disk."""
    return DiskEntry(
        tag=_there(one.tag),
        directory=one.full_dir,
        capacity_mb=_there(one.disk_capacity_mb),
        available_mb=_there(one.disk_available_mb),
        primaries=_gpids(one.holding_primary_replicas),
        secondaries=_gpids(one.holding_secondary_replicas),
    )


def _gpids(by_table: Mapping[int, list[Gpid]] | None) -> frozenset[tuple[int, int]]:
    sets = (by_table or {}).values()
    return frozenset((one.app_id, one.index) for gpids in sets for one in gpids)


def parse_command_answer(text: str) -> Any:
    """Return the answer of a remote command: parsed if it is JSON, else the text."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def unknown_command(answer: str) -> str | None:
    """Return the command that a server says it does not know, ``None`` for any other answer."""
    match = _UNKNOWN_COMMAND.match(answer)
    return None if match is None else match[1]


def proposal_body(proposal: Proposal, nodes: Mapping[str, NodeEntry]) -> Struct:
    """Return the request of a proposal: every node in both forms, by its registered name.

    Args:
        proposal: Made by :mod:`core.pegasus.proposal`.
        nodes: As the meta server lists them now.

    Raises:
        KeyError: A node that is not registered; who calls has checked that before.
    """
    actions = [
        idl.ProposalAction(
            target=_address(nodes[action.target]),
            node=_address(nodes[action.node]),
            type=int(action.type),
            hp_target=HostPort.of(action.target),
            hp_node=HostPort.of(action.node),
        )
        for action in proposal.actions
    ]
    kind = {} if proposal.kind is None else {"balance_type": int(proposal.kind)}
    gpid = Gpid(proposal.app_id, proposal.index)
    return idl.BalancerRequest(gpid=gpid, action_list=actions, force=False, **kind)


def _address(node: NodeEntry) -> RpcAddress:
    return RpcAddress() if node.address is None else RpcAddress.of(node.address)
