"""The client of meta servers: who leads, what comes back in which order, what is never sent."""

from __future__ import annotations

import random
import socket
import threading

import pytest
from pegasus_recorded import BY_CALL, RECORDED
from pegasus_server import ScriptedServer, serving

from connectors.pegasus.rpc import idl
from connectors.pegasus.rpc.client import MetaClient, ServerClient
from connectors.pegasus.rpc.connection import Connection
from connectors.pegasus.rpc.errors import KNOWN_NAMES, error_of
from connectors.pegasus.rpc.frame import Reply, Request, decode_reply, encode_reply
from connectors.pegasus.rpc.wire import ErrorCode, Gpid, HostPort, RpcAddress
from core.errors import (
    ConflictError,
    GuardRefusedError,
    NotFoundError,
    ProtocolError,
    RemoteError,
    RemoteTimeoutError,
    ServerError,
    ThrottledError,
    UnreachableError,
)
from core.pegasus.answers import NodeEntry, TableStatus
from core.pegasus.balance.model import ConfigType, PlanKind, ProposalAction
from core.pegasus.levels import FunctionLevel
from core.pegasus.partition import PartitionConfig
from core.pegasus.proposal import Proposal, ProposalContext, propose_change, propose_move


def numbered(frame: bytes, seqid: int) -> bytes:
    """Give a recorded reply another sequence id."""
    reply = decode_reply(frame)
    return encode_reply(Reply(reply.name, seqid, reply.error, reply.result))


def recorded(name: str, seqid: int, folder: str = "own") -> bytes:
    return numbered((RECORDED / folder / f"{name}.rsp.bin").read_bytes(), seqid)


def leader(request: Request, _frame: bytes) -> bytes:
    """Answer as the recorded leader did."""
    if request.name == "RPC_CM_PROPOSE_BALANCER":
        return encode_reply(
            Reply(f"{request.name}_ACK", request.seqid, "ERR_OK", idl.ErrResponse(err=ErrorCode()))
        )
    return recorded(BY_CALL[request.name], request.seqid)


def follower_of(where: list[ScriptedServer], name: str = "localhost"):
    """Answer as a meta server that does not lead; only one question tells who does."""

    def answer(request: Request, _frame: bytes) -> bytes:
        call = idl.CALL_BY_NAME[request.name]
        err = ErrorCode("ERR_FORWARD_TO_OTHERS")
        body = call.response(err=err)
        if request.name == idl.QUERY_CFG.name:
            port = int(where[0].address.rpartition(":")[2])
            first = idl.PartitionConfiguration(
                primary=RpcAddress.of(f"127.0.0.1:{port}"), hp_primary=HostPort(name, port, 1)
            )
            body.partitions = [first]
        return encode_reply(Reply(f"{request.name}_ACK", request.seqid, "ERR_OK", body))

    return answer


def test_everything_a_leader_tells_is_read():
    with serving(leader) as [server]:
        client = MetaClient([server.address])
        nodes = client.fetch_nodes()
        assert [node.name for node in nodes] == [
            f"localhost:{port}" for port in range(34801, 34805)
        ]
        assert nodes[0].address == "127.0.0.1:34801"
        tables = client.fetch_tables(TableStatus.INVALID)
        assert {table.name: table.partition_count for table in tables}["t64"] == 64
        partitions = client.fetch_partitions("temp")
        assert partitions[0].gpid == "2.0"
        assert partitions[0].primary == "localhost:34802"
        assert partitions[0].secondaries == ("localhost:34804", "localhost:34801")
        info = client.fetch_cluster_info()
        assert info.level_word == "steady"
        assert info.operations is not None
        assert client.fetch_stored_level() is FunctionLevel.STEADY
        assert client.fetch_ddd() == []
        assert set(client.send_command("meta.lb.get_balance_operation_count", "detail")) >= {
            "total"
        }
        client.close()


@pytest.mark.parametrize("name", ["localhost", "no-such-host.invalid"])
def test_the_leader_is_found_through_a_follower_by_name_or_else_by_address(name):
    where: list[ScriptedServer] = []
    with serving(leader, follower_of(where, name)) as [leading, following]:
        where.append(leading)
        client = MetaClient([following.address])
        assert len(client.fetch_nodes()) == 4
        client.fetch_nodes()
        assert following.names == [idl.LIST_NODES.name, idl.QUERY_CFG.name]
        client.close()


def test_a_dead_meta_server_is_passed_over():
    with serving(leader, leader) as [gone, there]:
        gone.close()
        client = MetaClient([gone.address, there.address])
        assert len(client.fetch_nodes()) == 4
        client.close()


@pytest.mark.parametrize("is_change", [False, True], ids=["question", "change"])
def test_a_frozen_meta_server_leaves_time_for_the_one_that_leads(is_change):
    with socket.create_server(("127.0.0.1", 0)) as frozen, serving(leader) as [alive]:
        metas = [f"127.0.0.1:{frozen.getsockname()[1]}", alive.address]
        client = MetaClient(metas, timeout_s=4.0)
        try:
            if is_change:
                assert client.apply_level(FunctionLevel.LIVELY) is FunctionLevel.STEADY
            assert client.fetch_nodes()
        finally:
            client.close()


def test_a_question_outlives_the_loss_of_its_connection_and_a_change_does_not():
    dropped = threading.Event()

    def fickle(request: Request, frame: bytes) -> bytes | None:
        if request.name == idl.CLUSTER_INFO.name and not dropped.is_set():
            dropped.set()
            return None
        return None if request.name == idl.PROPOSE_BALANCER.name else leader(request, frame)

    with serving(fickle) as [server]:
        client = MetaClient([server.address], timeout_s=5)
        assert client.fetch_cluster_info().level_word == "steady"
        with pytest.raises(UnreachableError) as told:
            client.apply_proposal(move(34801, 34804))
        assert told.value.outcome == "unknown"
        assert server.names.count(idl.PROPOSE_BALANCER.name) == 1
        client.close()


def test_without_a_leader_the_client_gives_up_in_time():
    where: list[ScriptedServer] = []
    with serving(follower_of(where)) as [server]:
        where.append(server)
        client = MetaClient([server.address], timeout_s=0.5)
        with pytest.raises(UnreachableError, match="ERR_FORWARD_TO_OTHERS"):
            client.fetch_nodes()
        client.close()


def test_replies_in_any_order_reach_whoever_asked():
    held: list[bytes] = []

    def backwards(request: Request, frame: bytes) -> bytes:
        held.append(leader(request, frame))
        return b"".join(reversed(held)) if len(held) == 3 else b""

    with serving(backwards) as [server]:
        connection = Connection(server.address, timeout_s=5)
        asked = [
            (idl.LIST_NODES, idl.ListNodesRequest(status=0)),
            (idl.CLUSTER_INFO, idl.Empty()),
            (idl.LIST_APPS, idl.ListAppsRequest(status=0)),
        ]
        replies = connection.call_all(asked, timeout_s=5)
        assert [reply.name.removesuffix("_ACK") for reply in replies] == [
            call.name for call, _ in asked
        ]
        connection.close()


def test_the_partitions_of_more_tables_than_are_asked_at_once_all_come():
    with serving(leader) as [server]:
        client = MetaClient([server.address])
        names = [f"t{number}" for number in range(70)]
        found = client.fetch_all_partitions(names)
        assert list(found) == names
        assert {len(partitions) for partitions in found.values()} == {8}
        client.close()


def test_many_threads_share_one_connection():
    with serving(leader) as [server]:
        connection = Connection(server.address, timeout_s=5)
        seen: list[int] = []

        def ask() -> None:
            for _ in range(10):
                body = idl.ListNodesRequest(status=0)
                reply = connection.call(idl.LIST_NODES, body, timeout_s=10)
                seen.append(len(reply.result.infos))

        threads = [threading.Thread(target=ask) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        assert seen == [4] * 60
        connection.close()


def test_no_answer_in_time_is_unknown_and_its_late_reply_harms_nobody():
    late = threading.Event()

    def slow(request: Request, frame: bytes) -> bytes:
        if request.name == idl.CLUSTER_INFO.name:
            late.wait(5)
        return leader(request, frame)

    with serving(slow) as [server]:
        connection = Connection(server.address, timeout_s=5)
        with pytest.raises(RemoteTimeoutError) as told:
            connection.call(idl.CLUSTER_INFO, idl.Empty(), timeout_s=0.1)
        assert told.value.outcome == "unknown"
        late.set()
        body = idl.ListNodesRequest(status=0)
        assert connection.call(idl.LIST_NODES, body, timeout_s=5).result.infos
        connection.close()


@pytest.mark.parametrize(
    "garbage",
    [b"HTTP/1.1 404 Not Found\r\n\r\n", b"\x00\x00\x00\x06ok", b"\xff\xff\xff\xff", b"\x00" * 64],
)
def test_garbage_is_a_protocol_error(garbage):
    with serving(lambda _request, _frame: garbage) as [server]:
        client = MetaClient([server.address], timeout_s=2)
        with pytest.raises(ProtocolError, match="violated the Pegasus protocol"):
            client.fetch_nodes()
        client.close()


def test_a_reply_that_nobody_asked_for_is_a_protocol_error():
    with serving(lambda request, _frame: recorded("list_nodes_all", request.seqid + 7)) as [server]:
        client = MetaClient([server.address], timeout_s=2)
        with pytest.raises(ProtocolError, match="never requested"):
            client.fetch_nodes()
        client.close()


# every name that the servers define
VENDOR = """
OK UNKNOWN SERVICE_NOT_FOUND SERVICE_ALREADY_RUNNING IO_PENDING TIMEOUT SERVICE_NOT_ACTIVE BUSY
NETWORK_INIT_FAILED FORWARD_TO_OTHERS OBJECT_NOT_FOUND HANDLER_NOT_FOUND LEARN_FILE_FAILED
GET_LEARN_STATE_FAILED INVALID_VERSION INVALID_PARAMETERS CAPACITY_EXCEEDED INVALID_STATE
INACTIVE_STATE NOT_ENOUGH_MEMBER FILE_OPERATION_FAILED HANDLE_EOF WRONG_CHECKSUM INVALID_DATA
INVALID_HANDLE INCOMPLETE_DATA VERSION_OUTDATED PATH_NOT_FOUND PATH_ALREADY_EXIST
ADDRESS_ALREADY_USED STATE_FREEZED LOCAL_APP_FAILURE BIND_IOCP_FAILED NETWORK_START_FAILED
NOT_IMPLEMENTED CHECKPOINT_FAILED WRONG_TIMING NO_NEED_OPERATE CORRUPTION TRY_AGAIN
CLUSTER_NOT_FOUND CLUSTER_ALREADY_EXIST SERVICE_ALREADY_EXIST INJECTED REPLICATION_FAILURE
APP_EXIST APP_NOT_EXIST BUSY_CREATING BUSY_DROPPING NETWORK_FAILURE UNDER_RECOVERY
LEARNER_NOT_FOUND OPERATION_DISABLED EXPIRED LOCK_ALREADY_EXIST HOLD_BY_OTHERS RECURSIVE_LOCK
NO_OWNER NODE_ALREADY_EXIST INCONSISTENT_STATE ARRAY_INDEX_OUT_OF_RANGE DIR_NOT_EMPTY
FS_INTERNAL IGNORE_BAD_DATA APP_DROPPED MOCK_INTERNAL ZOOKEEPER_OPERATION CHILD_REGISTERED
INGESTION_FAILED UNAUTHENTICATED KRB5_INTERNAL SASL_INTERNAL SASL_INCOMPLETE ACL_DENY SPLITTING
PARENT_PARTITION_MISUSED CHILD_NOT_READY DISK_INSUFFICIENT RETRY_EXHAUSTED
SYNC_RANGER_POLICIES_FAILED RANGER_PARSE_ACL RANGER_POLICIES_NO_NEED_UPDATE
"""


def test_every_name_that_pegasus_defines_was_thought_of():
    assert {f"ERR_{name}" for name in VENDOR.split()} == KNOWN_NAMES


@pytest.mark.parametrize(
    ("name", "kind", "outcome"),
    [
        ("ERR_OBJECT_NOT_FOUND", NotFoundError, "refused"),
        ("ERR_BUSY", ThrottledError, "refused"),
        ("ERR_INVALID_PARAMETERS", ConflictError, "refused"),
        ("ERR_STATE_FREEZED", ConflictError, "refused"),
        ("ERR_TIMEOUT", RemoteTimeoutError, "unknown"),
        ("ERR_HANDLER_NOT_FOUND", ProtocolError, "refused"),
        ("ERR_SOMETHING_NEW", ServerError, "unknown"),
    ],
)
def test_each_error_of_pegasus_is_one_of_ours(name, kind, outcome):
    error = error_of(name, endpoint="pegasus a:1", operation="RPC_X")
    assert type(error) is kind
    assert error.outcome == outcome
    assert name in str(error)
    assert error.hint


def test_a_table_that_is_not_there_and_a_call_to_the_wrong_kind_of_server_are_told():
    def answer(request: Request, _frame: bytes) -> bytes:
        name = {
            idl.QUERY_CFG.name: "query_cfg_nosuch",
            idl.LIST_NODES.name: "meta_rpc_on_replica",
            idl.REMOTE_COMMAND.name: "cli_unknown",
        }[request.name]
        return recorded(name, request.seqid)

    with serving(answer) as [server]:
        client = MetaClient([server.address], timeout_s=2)
        with pytest.raises(NotFoundError):
            client.fetch_partitions("nosuch")
        with pytest.raises(ProtocolError, match="ERR_HANDLER_NOT_FOUND"):
            client.fetch_nodes()
        one = ServerClient(server.address)
        with pytest.raises(NotFoundError, match=r"does not have the command no\.such\.command"):
            one.send_command("no.such.command")
        one.close()
        client.close()


def test_a_stored_level_outside_the_five_keeps_the_deadly_question_from_being_asked():
    def answer(request: Request, frame: bytes) -> bytes:
        if request.name == idl.CONTROL_META.name:
            return recorded("control_meta_get_after_bogus", request.seqid)
        return leader(request, frame)

    with serving(answer) as [server]:
        client = MetaClient([server.address], timeout_s=2)
        with pytest.raises(ConflictError, match="level 123 is invalid"):
            client.fetch_cluster_info()
        assert idl.CLUSTER_INFO.name not in server.names
        client.close()


# -- what is never sent -------------------------------------------------------------------------


def node(port: int, *, is_alive: bool = True) -> NodeEntry:
    return NodeEntry(f"localhost:{port}", f"127.0.0.1:{port}", is_alive)


def at(port: int) -> str:
    return f"localhost:{port}"


def move(source: int, target: int) -> Proposal:
    actions = (
        ProposalAction(ConfigType.DOWNGRADE_TO_SECONDARY, at(source), at(source)),
        ProposalAction(ConfigType.UPGRADE_TO_PRIMARY, at(target), at(target)),
    )
    return Proposal(4, 0, actions, PlanKind.MOVE_PRIMARY)


SIGHT = ProposalContext(
    {one.name: one for one in [*map(node, range(34801, 34805)), node(34805, is_alive=False)]},
    FunctionLevel.STEADY,
)
WHOLE = PartitionConfig(4, 0, 3, 3, at(34801), (at(34802), at(34803)))


def test_a_move_of_a_primary_is_built_and_sent():
    proposal = propose_move(SIGHT, WHOLE, PlanKind.MOVE_PRIMARY, at(34801), at(34803))
    with serving(leader) as [server]:
        client = MetaClient([server.address])
        client.apply_proposal(proposal)
        assert server.names[-1] == idl.PROPOSE_BALANCER.name
        assert client.apply_level(FunctionLevel.LIVELY) is FunctionLevel.STEADY
        client.close()


@pytest.mark.parametrize(
    ("kind", "source", "target", "words"),
    [
        (PlanKind.MOVE_PRIMARY, at(34801), at(34804), "has no secondary"),
        (PlanKind.MOVE_PRIMARY, at(34802), at(34803), "is not its primary"),
        (PlanKind.MOVE_PRIMARY, at(34801), "127.0.0.1:34803", "not the registered name"),
        (PlanKind.MOVE_PRIMARY, at(34801), "", "not the registered name"),
        (PlanKind.MOVE_PRIMARY, at(34801), at(34801), "is both source and target"),
        (PlanKind.COPY_PRIMARY, at(34801), at(34805), "is not alive"),
        (PlanKind.COPY_PRIMARY, at(34801), at(34802), "is already a secondary of it"),
        (PlanKind.COPY_SECONDARY, at(34804), at(34802), "has no secondary"),
        (PlanKind.COPY_SECONDARY, at(34802), at(34801), "is already the primary of it"),
    ],
)
def test_a_dangerous_move_is_refused_with_its_reason(kind, source, target, words):
    with pytest.raises(GuardRefusedError, match=words) as told:
        propose_move(SIGHT, WHOLE, kind, source, target)
    assert told.value.hint


@pytest.mark.parametrize(
    ("change", "name", "words"),
    [
        (ConfigType.ASSIGN_PRIMARY, at(34804), "only when every replica was lost"),
        (ConfigType.ADD_SECONDARY, at(34801), "is already the primary of it"),
        (ConfigType.ADD_SECONDARY, at(34804), "no replica of it is missing"),
        (ConfigType.DOWNGRADE_TO_INACTIVE, at(34801), "is its primary"),
        (ConfigType.REMOVE, at(34804), "does not serve it"),
        (ConfigType.UPGRADE_TO_SECONDARY, at(34804), "is not supported as a manual change"),
        (ConfigType.UPGRADE_TO_PRIMARY, at(34802), "is not supported as a manual change"),
    ],
)
def test_a_dangerous_change_is_refused_with_its_reason(change, name, words):
    with pytest.raises(GuardRefusedError, match=words):
        propose_change(SIGHT, WHOLE, change, name)


def test_the_only_secondary_is_not_taken_away_and_a_stranger_not_made_primary():
    lone = PartitionConfig(4, 0, 3, 3, at(34801), (at(34802),))
    with pytest.raises(GuardRefusedError, match="only secondary"):
        propose_change(SIGHT, lone, ConfigType.REMOVE, at(34802))
    lost = PartitionConfig(4, 0, 3, 3, None, (), (at(34802), at(34803)))
    with pytest.raises(GuardRefusedError, match="not known to have had it"):
        propose_change(SIGHT, lost, ConfigType.ASSIGN_PRIMARY, at(34804))
    assert propose_change(SIGHT, lost, ConfigType.ASSIGN_PRIMARY, at(34803)).kind is None


@pytest.mark.parametrize(
    ("context", "words"),
    [
        (ProposalContext(SIGHT.nodes, FunctionLevel.FREEZED), "at level freezed"),
        (
            ProposalContext(SIGHT.nodes, FunctionLevel.STEADY, frozenset({"4.0"})),
            "may still be executed",
        ),
    ],
)
def test_the_wrong_moment_is_refused(context, words):
    with pytest.raises(GuardRefusedError, match=words):
        propose_move(context, WHOLE, PlanKind.MOVE_PRIMARY, at(34801), at(34802))


def test_a_name_that_is_not_registered_and_a_level_outside_the_five_leave_no_byte():
    with serving(leader) as [server]:
        client = MetaClient([server.address])
        with pytest.raises(GuardRefusedError, match="not the registered name"):
            client.apply_proposal(move(34801, 34899))
        with pytest.raises(GuardRefusedError, match="is invalid"):
            client.apply_level(123)
        assert set(server.names) == {idl.LIST_NODES.name}
        client.close()


# -- what a server may do wrong -------------------------------------------------------------------


def test_half_a_reply_is_no_answer_in_time():
    with serving(lambda request, _frame: recorded("list_nodes_all", request.seqid)[:40]) as [
        server
    ]:
        client = MetaClient([server.address], timeout_s=0.5)
        with pytest.raises(RemoteTimeoutError):
            client.fetch_nodes()
        client.close()


def test_a_reply_in_many_small_pieces_is_put_together():
    with serving(leader) as [server]:
        connection = Connection(server.address, timeout_s=5)
        connection._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2_048)
        body = idl.QueryCfgRequest(app_name="temp", partition_indices=[])
        for _ in range(5):
            reply = connection.call(idl.QUERY_CFG, body, timeout_s=5)
            assert len(reply.result.partitions) == 8
        connection.close()


def test_damaged_replies_end_in_an_error_of_ours_or_in_a_reading():
    rng = random.Random(7)

    def damaging(request: Request, frame: bytes) -> bytes:
        answer = bytearray(leader(request, frame))
        for _ in range(rng.randint(1, 4)):
            answer[rng.randrange(4, len(answer))] = rng.randrange(256)
        return bytes(answer)

    ends = {"read": 0, "refused": 0}
    with serving(damaging) as [server]:
        for _ in range(150):
            client = MetaClient([server.address], timeout_s=0.2)
            try:
                client.fetch_partitions("temp")
                ends["read"] += 1
            except RemoteError:
                ends["refused"] += 1
            client.close()
    assert min(ends.values()) > 0


def test_a_connection_that_was_closed_says_so_and_sends_nothing():
    with serving(leader) as [server]:
        connection = Connection(server.address, timeout_s=5)
        connection.close()
        with pytest.raises(UnreachableError) as told:
            connection.call(idl.CLUSTER_INFO, idl.Empty(), timeout_s=1)
        assert told.value.outcome == "not_sent"
        assert server.heard == []


def test_disks_of_a_replica_server_are_read():
    def answer(request: Request, _frame: bytes) -> bytes:
        disk = idl.DiskInfo(
            tag="ssd1",
            full_dir="/data/ssd1",
            disk_capacity_mb=1000,
            disk_available_mb=400,
            holding_primary_replicas={2: [Gpid(2, 0), Gpid(2, 5)]},
            holding_secondary_replicas={2: [Gpid(2, 1)], 3: []},
        )
        body = idl.QueryDiskInfoResponse(
            err=ErrorCode(), total_capacity_mb=1000, total_available_mb=400, disk_infos=[disk]
        )
        return encode_reply(Reply(f"{request.name}_ACK", request.seqid, "ERR_OK", body))

    with serving(answer) as [server]:
        client = ServerClient(server.address)
        [disk] = client.fetch_disks(node(34801))
        assert (disk.tag, disk.available_mb) == ("ssd1", 400)
        assert disk.primaries == {(2, 0), (2, 5)}
        assert disk.secondaries == {(2, 1)}
        client.close()
