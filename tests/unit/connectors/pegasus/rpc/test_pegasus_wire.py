"""Frames and structs: what was recorded decodes and encodes to the same bytes."""

from __future__ import annotations

import contextlib
import json
import random
import struct

import pytest
from places import FIXTURES

from connectors.pegasus.rpc import idl, parse
from connectors.pegasus.rpc.frame import (
    Reply,
    decode_reply,
    decode_request,
    encode_reply,
    encode_request,
)
from connectors.pegasus.rpc.wire import (
    Gpid,
    HostPort,
    RpcAddress,
    Struct,
    WireError,
    guarded,
    reader,
)
from core.errors import ProtocolError
from core.pegasus.answers import NodeEntry
from core.pegasus.balance.model import ConfigType, PlanKind, ProposalAction
from core.pegasus.proposal import Proposal

RECORDED = FIXTURES / "pegasus" / "thft"
HTTP_ON_THE_SAME_PORT = "0049"


def frames(kind: str) -> list[tuple[str, bytes]]:
    """Every recorded frame; a file of the proxy holds all frames of one connection."""
    found = []
    for file in sorted(RECORDED.rglob(f"*.{kind}.bin")):
        if file.name.startswith(HTTP_ON_THE_SAME_PORT):
            continue
        rest, number = file.read_bytes(), 0
        while rest:
            at, head = (16, 48) if kind == "req" else (0, 0)
            (length,) = struct.unpack_from(">I", rest, at)
            found.append((f"{file.parent.name}/{file.name}#{number}", rest[: head + length]))
            rest, number = rest[head + length :], number + 1
    return found


REQUESTS = frames("req")
REPLIES = frames("rsp")


def test_there_are_460_recorded_frames():
    assert (len(REQUESTS), len(REPLIES)) == (230, 230)


def test_every_recorded_request_of_a_known_call_encodes_to_its_own_bytes():
    strangers = []
    for name, frame in REQUESTS:
        request = decode_request(frame)
        if request.body is None:
            strangers.append(request.name)
            continue
        call = idl.CALL_BY_NAME[request.name]
        made = encode_request(
            call, request.body, seqid=request.seqid, timeout_ms=request.timeout_ms
        )
        assert made == frame, name
    assert sorted(strangers) == ["RPC_CM_QUERY_NODE_PARTITIONS", "RPC_NO_SUCH_THING"]


def test_every_recorded_reply_encodes_to_its_own_bytes():
    for name, frame in REPLIES:
        assert encode_reply(decode_reply(frame)) == frame, name


@pytest.mark.parametrize(
    "file", sorted(RECORDED.glob("own/*.rsp.json")), ids=lambda file: file.stem
)
def test_a_recorded_reply_means_what_its_reading_says(file):
    said = json.loads(file.read_text())
    reply = decode_reply(file.with_suffix(".bin").read_bytes())
    assert (reply.name, reply.seqid) == (said["name"], said["seqid"])
    assert reply.error == said["header_error"]
    if "result" in said and reply.result is not None:
        assert plain(reply.result, said["result"]) == said["result"]


def plain(value: object, like: object) -> object:
    """Write a struct the way the recording's own reading does, as far as that one goes."""
    if isinstance(value, Struct) and isinstance(like, dict):
        return {name: plain(getattr(value, name), like[name]) for name in like}
    if isinstance(value, list) and isinstance(like, list):
        return [plain(one, other) for one, other in zip(value, like, strict=True)]
    if isinstance(value, Gpid):
        return f"{value.app_id}.{value.index}"
    if isinstance(value, RpcAddress | HostPort):
        return like if (value.text is None or f"{value.text}/t1" == like) else value.text
    return getattr(value, "name", value)


NODES = {
    f"localhost:{port}": NodeEntry(f"localhost:{port}", f"127.0.0.1:{port}", is_alive=True)
    for port in (34801, 34802, 34803, 34804, 34805)
}
OWN = [
    ("cli_help_meta", idl.REMOTE_COMMAND, idl.Command(cmd="help", arguments=[])),
    (
        "cli_lb_count",
        idl.REMOTE_COMMAND,
        idl.Command(cmd="meta.lb.get_balance_operation_count", arguments=["detail"]),
    ),
    ("cluster_info", idl.CLUSTER_INFO, idl.Empty()),
    ("control_meta_get", idl.CONTROL_META, idl.ControlMetaRequest(level=10_000)),
    ("control_meta_set_steady", idl.CONTROL_META, idl.ControlMetaRequest(level=400)),
    ("ddd_all", idl.DDD_DIAGNOSE, idl.DddDiagnoseRequest(pid=Gpid(-1, -1))),
    ("ddd_app2", idl.DDD_DIAGNOSE, idl.DddDiagnoseRequest(pid=Gpid(2, -1))),
    ("list_apps_all", idl.LIST_APPS, idl.ListAppsRequest(status=0)),
    (
        "list_apps_prefix_t6",
        idl.LIST_APPS,
        idl.ListAppsRequest(status=0, app_name_pattern="t6", match_type=4),
    ),
    ("list_nodes_alive", idl.LIST_NODES, idl.ListNodesRequest(status=1)),
    (
        "query_cfg_temp_idx_1_3",
        idl.QUERY_CFG,
        idl.QueryCfgRequest(app_name="temp", partition_indices=[1, 3]),
    ),
]


@pytest.mark.parametrize(("name", "call", "body"), OWN, ids=[one[0] for one in OWN])
def test_a_request_of_ours_is_the_recorded_one(name, call, body):
    recorded = (RECORDED / "own" / f"{name}.req.bin").read_bytes()
    assert encode_request(call, body, seqid=1, timeout_ms=10_000) == recorded


def name(port: int) -> str:
    return f"localhost:{port}"


def step(kind: ConfigType, target: int, node: int) -> ProposalAction:
    return ProposalAction(kind, name(target), name(node))


PROPOSALS = [
    (
        "rel_move_hp",
        Proposal(
            4,
            0,
            (
                step(ConfigType.DOWNGRADE_TO_SECONDARY, 34801, 34801),
                step(ConfigType.UPGRADE_TO_PRIMARY, 34804, 34804),
            ),
            PlanKind.MOVE_PRIMARY,
        ),
    ),
    (
        "rel_copysec_hp",
        Proposal(
            4,
            1,
            (
                step(ConfigType.ADD_SECONDARY_FOR_LB, 34804, 34801),
                step(ConfigType.REMOVE, 34804, 34805),
            ),
            PlanKind.COPY_SECONDARY,
        ),
    ),
    (
        "rel_copypri_hp",
        Proposal(
            4,
            2,
            (
                step(ConfigType.ADD_SECONDARY_FOR_LB, 34802, 34803),
                step(ConfigType.DOWNGRADE_TO_SECONDARY, 34802, 34802),
                step(ConfigType.UPGRADE_TO_PRIMARY, 34803, 34803),
                step(ConfigType.REMOVE, 34803, 34802),
            ),
            PlanKind.COPY_PRIMARY,
        ),
    ),
]


@pytest.mark.parametrize(("name", "proposal"), PROPOSALS, ids=[one[0] for one in PROPOSALS])
def test_a_proposal_of_ours_is_the_recorded_one(name, proposal):
    recorded = (RECORDED / "propose" / f"{name}.req.bin").read_bytes()
    body = parse.proposal_body(proposal, NODES)
    assert encode_request(idl.PROPOSE_BALANCER, body, seqid=1, timeout_ms=10_000) == recorded


def test_a_call_that_the_server_does_not_know_ends_after_its_message_begins():
    frame = (RECORDED / "own" / "unknown_rpc_RPC_NO_SUCH_THING.rsp.bin").read_bytes()
    reply = decode_reply(frame)
    assert reply.error == "ERR_HANDLER_NOT_FOUND"
    assert reply.result is None


@pytest.mark.parametrize(
    ("frame", "words"),
    [
        (b"", "announces another length"),
        (b"\x00\x00\x00\x05\x00", "."),
        (b"HTTP/1.1 200 OK", "a reply of 1,213,486,160 bytes"),
        (b"\x00\x00\x00\x0c\x7f\xff\xff\xff0000", "."),
    ],
)
def test_bytes_that_are_no_reply_are_told_apart(frame, words):
    with pytest.raises(WireError, match=words):
        decode_reply(frame)


def test_a_field_of_struct_type_from_a_newer_server_is_not_guessed_over():
    newer = idl.struct("NodeInfo", idl.i32(1, "status"), idl.one(9, "hp_other", HostPort))
    answer = idl.struct(
        "ListNodesResponse",
        idl.one(1, "err", idl.ErrorCode),
        idl.many(2, "infos", newer),
    )
    body = answer(err=idl.ErrorCode(), infos=[newer(status=1, hp_other=HostPort("a", 1, 1))])
    frame = encode_reply(Reply("RPC_CM_LIST_NODES_ACK", 1, "ERR_OK", body))
    with pytest.raises(WireError, match="the server is newer"):
        decode_reply(frame)


def test_an_unknown_plain_field_is_passed_over():
    newer = idl.struct("Response", idl.one(1, "err", idl.ErrorCode), idl.i64(30, "later"))
    frame = encode_reply(
        Reply("RPC_CM_LIST_NODES_ACK", 1, "ERR_OK", newer(err=idl.ErrorCode(), later=5))
    )
    assert decode_reply(frame).result == idl.ListNodesResponse(err=idl.ErrorCode())


def test_a_field_number_below_zero_is_no_field_from_the_end():
    body = struct.pack(">bhqb", 10, -1, 5, 0)
    protocol, left = reader(body)
    found = idl.ListNodesResponse()
    found.read(protocol)
    assert (found, left()) == (idl.ListNodesResponse(), 0)


@pytest.mark.parametrize("count", range(1, 12))
def test_bytes_that_end_early_are_named(count):
    protocol, _ = reader(struct.pack(">bhqb", 10, 30, 5, 0)[:count])
    with pytest.raises(WireError, match="the bytes end early"):
        guarded(lambda: idl.ListNodesResponse().read(protocol))


def test_an_answer_without_what_every_server_sends_is_no_answer():
    half = idl.QueryCfgResponse(partitions=[idl.PartitionConfiguration(pid=Gpid(1, 0))])
    with pytest.raises(ProtocolError, match="incomplete"):
        parse.parsed(parse.parse_partitions, half, endpoint="here", operation="there")


@pytest.mark.parametrize("port", [1, 34801, 65535])
def test_both_forms_of_an_address_say_the_same(port):
    assert RpcAddress.of(f"127.0.0.1:{port}").text == f"127.0.0.1:{port}"
    assert HostPort.of(f"db1:{port}").text == f"db1:{port}"
    assert RpcAddress().text is None
    assert HostPort().text is None


def damaged(rng: random.Random, frame: bytearray) -> bytes:
    for _ in range(rng.randint(1, 6)):
        kind, at = rng.randrange(4), rng.randrange(len(frame))
        if kind == 0:
            frame[at] = rng.randrange(256)
        elif kind == 1:
            del frame[at : at + rng.randint(1, 40)]
        elif kind == 2:
            frame[at:at] = rng.randbytes(rng.randint(1, 40))
        else:
            frame[at : at + 4] = rng.choice([b"\xff" * 4, b"\x7f\xff\xff\xff", b"\0" * 4])
        frame = frame or bytearray(b"\0")
    if rng.random() < 0.7:  # else the length itself is wrong, and nothing else is looked at
        frame[:4] = struct.pack(">i", len(frame))
    return bytes(frame)


@pytest.mark.parametrize("count", [1_500, pytest.param(10_000, marks=pytest.mark.slow)])
def test_malformed_frames_end_in_one_kind_of_error(count):
    rng = random.Random(20_260_313)
    outcomes = {"read": 0, "refused": 0}
    for _ in range(count):
        frame = damaged(rng, bytearray(rng.choice(REPLIES)[1]))
        try:
            reply = decode_reply(frame)
        except WireError:
            outcomes["refused"] += 1
            continue
        outcomes["read"] += 1
        for parser in (parse.parse_nodes, parse.parse_partitions, parse.parse_tables):
            with contextlib.suppress(ProtocolError):
                parse.parsed(parser, reply.result, endpoint="here", operation="there")
    assert outcomes["refused"] > count / 4
    assert outcomes["read"] > 0
