"""A client of a cluster's meta servers, and of single servers.

The leading meta server is found by requests: one that does not lead says so, and only the question
for a table's partitions shows who does. Requests are repeated when that is safe; what changes
something is sent once, after a question has shown that its receiver leads.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any, Final, TypeVar

from connectors.pegasus.rpc import idl, parse
from connectors.pegasus.rpc.connection import Connection, layer_error
from connectors.pegasus.rpc.errors import FORWARD, OK, error_of
from connectors.pegasus.rpc.frame import MAX_BYTES, Reply
from connectors.pegasus.rpc.idl import Call
from connectors.pegasus.rpc.wire import Gpid, HostPort, RpcAddress, Struct
from connectors.transport import deadline
from core.errors import (
    ConflictError,
    GivenUpError,
    GuardRefusedError,
    NotFoundError,
    ProtocolError,
    RemoteError,
    RemoteTimeoutError,
    UnknownNameError,
    UnreachableError,
)
from core.pegasus.answers import (
    BackupPolicyEntry,
    ClusterInfo,
    DddEntry,
    DiskEntry,
    DuplicationEntry,
    NodeEntry,
    TableEntry,
    TableStatus,
)
from core.pegasus.levels import LEVEL_QUERY, FunctionLevel, level_of
from core.pegasus.partition import PartitionConfig, ReplicaEntry
from core.pegasus.proposal import Proposal

MATCH_ALL: Final = 1
PREFIX_MATCH: Final = 4
ALL: Final = -1
NO_HANDLER: Final = "ERR_HANDLER_NOT_FOUND"
_PAUSE_S: Final = 0.2
_UNPROVEN_S: Final = 3.0
"""How long a meta server that has not been seen to lead may take: a frozen one accepts connections
and answers nothing, and another one may lead."""
_MAX_FOLLOWED: Final = 3
"""Named leaders that are followed before the configured ones are tried again, after a pause."""
_IN_FLIGHT: Final = 32
"""Questions sent before the first answer is read: more could block both ends on full buffers."""
_Value = TypeVar("_Value")


class MetaClient:
    """Reads and changes through the leading meta server; for any number of threads.

    Args:
        addresses: Meta servers ``host:port``, any of them, in any order.
        timeout_s: For one whole question, the search for the leader included. A change gets it once
            more when its receiver has shown that it leads.
        max_bytes: Of the longest reply that is read.
    """

    def __init__(
        self,
        addresses: Sequence[str],
        *,
        timeout_s: float = 10.0,
        max_bytes: int = MAX_BYTES,
    ) -> None:
        if not addresses:
            raise ValueError("no meta server is configured")
        self._addresses = list(addresses)
        self._timeout_s = timeout_s
        self._max_bytes = max_bytes
        self._leader: Connection | None = None
        self._proven: Connection | None = None
        self._lock = threading.RLock()

    def close(self) -> None:
        """Close the connection."""
        with self._lock:
            if self._leader is not None:
                self._leader.close()
                self._leader = None

    # -- questions ------------------------------------------------------------------------------

    def fetch_nodes(self) -> list[NodeEntry]:
        """Return every node the meta server knows, dead ones included."""
        body = idl.ListNodesRequest(status=0)
        return self._query_parsed(idl.LIST_NODES, body, parse.parse_nodes)

    def fetch_tables(
        self, status: TableStatus = TableStatus.AVAILABLE, *, prefix: str | None = None
    ) -> list[TableEntry]:
        """Return the tables in a status (``INVALID``: in any), or those whose name starts so."""
        match = {} if prefix is None else {"app_name_pattern": prefix, "match_type": PREFIX_MATCH}
        body = idl.ListAppsRequest(status=int(status), **match)
        return self._query_parsed(idl.LIST_APPS, body, parse.parse_tables)

    def fetch_partitions(self, table: str, indices: Sequence[int] = ()) -> list[PartitionConfig]:
        """Return partitions of a table; no index: all; one out of range: all, too."""
        body = idl.QueryCfgRequest(app_name=table, partition_indices=list(indices))
        return self._query_parsed(idl.QUERY_CFG, body, parse.parse_partitions)

    def fetch_all_partitions(self, tables: Sequence[str]) -> dict[str, list[PartitionConfig]]:
        """Return the partitions of many tables, a few requests under way at a time."""
        found: dict[str, list[PartitionConfig]] = {}
        for start in range(0, len(tables), _IN_FLIGHT):
            some = tables[start : start + _IN_FLIGHT]
            bodies = [idl.QueryCfgRequest(app_name=one, partition_indices=[]) for one in some]
            results = self._query_all([(idl.QUERY_CFG, body) for body in bodies])
            for table, result in zip(some, results, strict=True):
                found[table] = self._parsed(idl.QUERY_CFG, parse.parse_partitions, result)
        return found

    def fetch_cluster_info(self) -> ClusterInfo:
        """Return the cluster information of the meta server, with the effective level.

        The stored level is read first: with one outside the five the meta server would die of
        this question.
        """
        self.fetch_stored_level()
        return self._query_parsed(idl.CLUSTER_INFO, idl.Empty(), parse.parse_cluster_info)

    def fetch_stored_level(self) -> FunctionLevel:
        """Return the stored level; the effective one may be lower.

        Raises:
            ConflictError: The stored level is none of the five.
        """
        body = idl.ControlMetaRequest(level=LEVEL_QUERY)
        return self._level(self._query_parsed(idl.CONTROL_META, body, parse.parse_old_level))

    def fetch_ddd(self, app_id: int = ALL, index: int = ALL) -> list[DddEntry]:
        """Return partitions that lost every replica: of all tables, of one, or a single one."""
        body = idl.DddDiagnoseRequest(pid=Gpid(app_id, index))
        return self._query_parsed(idl.DDD_DIAGNOSE, body, parse.parse_ddds)

    def fetch_duplications(self, tables: Sequence[str]) -> list[DuplicationEntry]:
        """Return the duplications of tables, with their lag where the release reports it.

        Args:
            tables: Those that are duplicated, for releases before 2.6: they list no others.
        """
        body = idl.ListDuplicationRequest(app_name_pattern="", match_type=MATCH_ALL)
        try:
            return self._query_parsed(idl.LIST_DUPLICATION, body, parse.parse_duplications)
        except ProtocolError as exc:
            if exc.context.get("pegasus_error") != NO_HANDLER:
                raise
        found = []
        for table in tables:
            one = idl.QueryDuplicationRequest(app_name=table)
            found += self._query_parsed(idl.QUERY_DUPLICATION, one, parse.parse_table_duplications)
        return found

    def fetch_backup_policies(self) -> list[BackupPolicyEntry]:
        """Return the policies of periodic backups, each with its last backup.

        Raises:
            RemoteError: ``ERR_SERVICE_NOT_ACTIVE`` where cold backups are disabled.
        """
        body = idl.QueryBackupPolicyRequest(policy_names=[], backup_info_count=1)
        return self._query_parsed(idl.QUERY_BACKUP_POLICY, body, parse.parse_backup_policies)

    def query_command(self, command: str, *arguments: str) -> Any:
        """Send a remote command that only reads; the leader is looked for once a connection.

        A server that has answered as the leader on this connection is not probed again: a command
        that only leaders know tells by itself when it does not lead any more.

        Raises:
            NotFoundError: The server does not know it.
        """
        call, body = idl.REMOTE_COMMAND, idl.Command(cmd=command, arguments=list(arguments))

        def send(leader: Connection, left_s: float) -> list[Reply]:
            if leader is not self._proven:
                nodes = idl.ListNodesRequest(status=0)
                probe = leader.call(idl.LIST_NODES, nodes, timeout_s=left_s)
                if _app_error(probe) == FORWARD:
                    return [probe]
            return [leader.call(call, body, timeout_s=left_s)]

        result = self._with_leader(call.name, send, may_repeat=True)[0]
        return _command_answer(command, result, self._endpoint())

    # -- changes --------------------------------------------------------------------------------

    def apply_level(self, level: FunctionLevel) -> FunctionLevel:
        """Set the function level and return the one stored before.

        At steady and below, every pending proposal of every table is discarded by it.

        Raises:
            GuardRefusedError: None of the five levels: another number would kill the meta server.
        """
        if not isinstance(level, FunctionLevel):
            raise GuardRefusedError(
                f"Level {level!r} is invalid; the meta server would crash on the next "
                "cluster-info query.",
                hint="Levels: stopped, blind, freezed, steady, lively.",
            )
        result = self._change(idl.CONTROL_META, idl.ControlMetaRequest(level=int(level)))
        return self._level(self._parsed(idl.CONTROL_META, parse.parse_old_level, result))

    def apply_proposal(self, proposal: Proposal) -> str:
        """Send a proposal; no error means queued: whether it happens is seen by looking.

        Returns:
            Endpoint of the server that has queued it.
        Raises:
            GuardRefusedError: A name in it is not registered (any more); nothing was sent.
            ConflictError: Another proposal for the partition is pending.
        """
        try:
            nodes = {node.name: node for node in self.fetch_nodes()}
        except RemoteError as exc:
            exc.outcome = "not_sent"  # of the proposal
            raise
        for action in proposal.actions:
            for name in (action.target, action.node):
                if name not in nodes:
                    raise GuardRefusedError(
                        f"{name or 'An empty name'} is not the registered name of a node; the "
                        "servers would ignore it or crash.",
                        hint=f"Registered: {', '.join(sorted(nodes)[:8])}.",
                    )
        self._change(idl.PROPOSE_BALANCER, parse.proposal_body(proposal, nodes))
        return self._endpoint()

    def send_command(self, command: str, *arguments: str) -> Any:
        """Send a remote command to the leading meta server; see :class:`ServerClient`."""
        body = idl.Command(cmd=command, arguments=list(arguments))
        return _command_answer(command, self._change(idl.REMOTE_COMMAND, body), self._endpoint())

    # -- how ------------------------------------------------------------------------------------

    def _endpoint(self) -> str:
        leader = self._leader
        return f"pegasus {self._addresses[0]}" if leader is None else leader.endpoint

    def _query(self, call: Call, body: Struct) -> Any:
        return self._query_all([(call, body)])[0]

    def _query_all(self, wanted: Sequence[tuple[Call, Struct]]) -> list[Any]:
        def query(leader: Connection, left_s: float) -> list[Reply]:
            return leader.call_all(wanted, timeout_s=left_s)

        return self._with_leader(wanted[0][0].name, query, may_repeat=True)

    def _query_parsed(self, call: Call, body: Struct, parser: Callable[[Struct], _Value]) -> _Value:
        return self._parsed(call, parser, self._query(call, body))

    def _parsed(self, call: Call, parser: Callable[[Struct], _Value], result: Any) -> _Value:
        return parse.parsed(parser, result, endpoint=self._endpoint(), operation=call.name)

    def _level(self, number: int) -> FunctionLevel:
        try:
            return level_of(number)
        except UnknownNameError as exc:
            raise ConflictError(
                f"The stored function level {number} is invalid; a cluster-info query crashes "
                "the meta server.",
                endpoint=self._endpoint(),
                operation=idl.CONTROL_META.name,
                outcome="refused",
                hint="Set the level to steady before anything else.",
            ) from exc

    def _change(self, call: Call, body: Struct) -> Any:
        """Send once, to a server that has just shown that it leads."""

        def send(leader: Connection, left_s: float) -> list[Reply]:
            try:
                probe = leader.call(
                    idl.LIST_NODES, idl.ListNodesRequest(status=0), timeout_s=left_s
                )
            except (UnreachableError, RemoteTimeoutError) as exc:
                exc.outcome = "not_sent"  # the change itself
                raise
            if _app_error(probe) == FORWARD:
                return [probe]
            return [leader.call(call, body, timeout_s=self._timeout_s)]

        return self._with_leader(call.name, send, may_repeat=False)[0]

    def _with_leader(
        self,
        operation: str,
        speak: Callable[[Connection, float], list[Reply]],
        *,
        may_repeat: bool,
    ) -> list[Any]:
        ends_at = time.monotonic() + min(self._timeout_s, deadline.left_s())
        failure: RemoteError | None = None
        forwarded: RemoteError | None = None
        named: Sequence[str] = ()
        followed = 0
        candidates = self._candidates()
        while (left_s := ends_at - time.monotonic()) > 0:
            address = next(candidates)
            if address is None:  # all were tried: wait until one leads again
                self._wait(min(_PAUSE_S, left_s), operation)
                followed = 0
                continue
            try:
                is_alone = len(self._addresses) == 1
                is_proven = is_alone or address in named or self._is_leader(address)
                connection = self._connect(address, left_s)
                share_s = left_s / len(self._addresses)
                replies = speak(connection, left_s if is_proven else min(share_s, _UNPROVEN_S))
            except (UnreachableError, RemoteTimeoutError) as exc:
                self.close()
                if not may_repeat and exc.outcome != "not_sent":
                    raise
                # who does not lead says more than who was given no time to answer
                failure = forwarded or exc
                continue
            leads, results = _results(replies, connection, operation)
            if leads:
                self._proven = connection
                return results
            forwarded = error_of(FORWARD, endpoint=connection.endpoint, operation=operation)
            failure = forwarded
            # servers may name each other without end
            followed += 1
            named = self._named_leader(connection, ends_at) if followed <= _MAX_FOLLOWED else ()
            if named:
                candidates = self._candidates(named)
        raise failure or RemoteTimeoutError(
            f"No meta server responded to {operation} in time.",
            endpoint=self._endpoint(),
            operation=operation,
            outcome="not_sent",
            hint="Check the addresses of the meta servers.",
        )

    def _wait(self, seconds: float, operation: str) -> None:
        try:
            with suppress(deadline.DeadlineError):
                deadline.awaited(threading.Event().wait, seconds)
        except deadline.GivenUpError as exc:
            raise GivenUpError.at(self._endpoint(), operation, "not_sent") from exc

    def _candidates(self, named: Sequence[str] = ()) -> Iterator[str | None]:
        """Give addresses to try, without end; ``None`` to wait after all were tried."""
        leader = self._leader
        if leader is not None and leader.is_open and not named:
            yield leader.address
        yield from named
        while True:
            yield from self._addresses
            yield None

    def _is_leader(self, address: str) -> bool:
        leader = self._leader
        return leader is not None and leader.is_open and leader.address == address

    def _connect(self, address: str, left_s: float) -> Connection:
        with self._lock:
            if self._leader is not None and self._is_leader(address):
                return self._leader
            self.close()
            # several meta servers share the time: one that is silent must not use all of it
            share_s = max(left_s / max(len(self._addresses), 1), 0.05)
            self._leader = Connection(address, timeout_s=share_s, max_bytes=self._max_bytes)
            return self._leader

    def _named_leader(self, follower: Connection, ends_at: float) -> list[str]:
        """Read from a server that does not lead who does: its name first, then its address."""
        body = idl.QueryCfgRequest(app_name="", partition_indices=[])
        left_s = max(ends_at - time.monotonic(), 0.0)
        try:
            reply = follower.call(idl.QUERY_CFG, body, timeout_s=left_s)
        except GivenUpError:
            raise
        except RemoteError:
            return []
        partitions = getattr(reply.result, "partitions", None) or []
        if layer_error(reply) or not partitions or _app_error(reply) != FORWARD:
            return []
        first = partitions[0]
        both = (
            first.hp_primary.text if first.hp_primary is not None else None,
            first.primary.text if first.primary is not None else None,
        )
        return [one for one in both if one and one != follower.address]


class ServerClient:
    """Requests to one server: remote commands of either kind, disks of a replica server.

    Args:
        address: ``host:port``.
        timeout_s: For one question.
        connect_s: For a connection; ``None`` for the request timeout.
        max_bytes: Of the longest reply that is read.
    """

    def __init__(
        self,
        address: str,
        *,
        timeout_s: float = 5.0,
        connect_s: float | None = None,
        max_bytes: int = MAX_BYTES,
    ) -> None:
        self.address = address
        self._max_bytes = max_bytes
        self._timeout_s = timeout_s
        self._connect_s = timeout_s if connect_s is None else connect_s
        self._connection: Connection | None = None

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def fetch_disks(self, node: NodeEntry, table: str = "") -> list[DiskEntry]:
        """Return the disks of a replica server; with a table only its replicas are listed."""
        body = idl.QueryDiskInfoRequest(
            node=RpcAddress() if node.address is None else RpcAddress.of(node.address),
            app_name=table,
            hp_node=HostPort.of(node.name),
        )
        result = self._call(idl.QUERY_DISK_INFO, body)
        endpoint, operation = f"pegasus {self.address}", idl.QUERY_DISK_INFO.name
        return parse.parsed(parse.parse_disks, result, endpoint=endpoint, operation=operation)

    def fetch_replicas(self, node: NodeEntry) -> list[ReplicaEntry]:
        """Return every current replica of a replica server, including closed ones."""
        body = idl.QueryReplicaInfoRequest(
            node1=RpcAddress() if node.address is None else RpcAddress.of(node.address),
            hp_node1=HostPort.of(node.name),
        )
        result = self._call(idl.QUERY_REPLICA_INFO, body)
        endpoint, operation = f"pegasus {self.address}", idl.QUERY_REPLICA_INFO.name
        return parse.parsed(parse.parse_replicas, result, endpoint=endpoint, operation=operation)

    def send_command(self, command: str, *arguments: str) -> Any:
        """Send a remote command and return its answer, parsed when it is JSON.

        Raises:
            NotFoundError: The server does not know it; ``meta.lb`` is known by the leader alone.
        """
        body = idl.Command(cmd=command, arguments=list(arguments))
        answer = self._call(idl.REMOTE_COMMAND, body)
        return _command_answer(command, answer, f"pegasus {self.address}")

    def _call(self, call: Call, body: Struct) -> Any:
        if self._connection is None or not self._connection.is_open:
            self._connection = Connection(
                self.address, timeout_s=self._connect_s, max_bytes=self._max_bytes
            )
        connection = self._connection
        reply = connection.call(call, body, timeout_s=self._timeout_s)
        leads, results = _results([reply], connection, call.name)
        if not leads:
            raise error_of(FORWARD, endpoint=connection.endpoint, operation=call.name)
        return results[0]


def _results(
    replies: Sequence[Reply], connection: Connection, operation: str
) -> tuple[bool, list[Any]]:
    """Return whether the server leads, and the results; a server error is raised."""
    results: list[Any] = []
    for reply in replies:
        error = layer_error(reply) or _app_error(reply)
        if error == FORWARD:
            return False, []
        if error != OK:
            detail = getattr(reply.result, "hint_message", None) or ""
            raise error_of(error, endpoint=connection.endpoint, operation=operation, detail=detail)
        results.append(reply.result)
    return True, results


def _app_error(reply: Reply) -> str:
    if not isinstance(reply.result, Struct):
        return OK
    return str(reply.result.err.name) if reply.result.err is not None else OK


def _command_answer(command: str, answer: str, endpoint: str) -> Any:
    if parse.unknown_command(answer) is not None:
        raise NotFoundError(
            f"{endpoint} does not have the command {command}.",
            endpoint=endpoint,
            operation=f"remote command {command}",
            outcome="refused",
            hint="Only the leading meta server has the meta.lb commands.",
        )
    return parse.parse_command_answer(answer)
