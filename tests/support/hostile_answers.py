"""Ways in which a ZooKeeper server and a Pegasus meta server behave that no client should trust."""

from __future__ import annotations

import struct
from collections.abc import Callable
from itertools import count

from hostile_server import HOSTS, Line
from thrift.Thrift import TMessageType, TType

from connectors.pegasus.rpc import idl
from connectors.pegasus.rpc.frame import Reply, Request, decode_request, encode_reply
from connectors.pegasus.rpc.wire import ErrorCode, HostPort, written

Script = Callable[[Line], object]

# -- ZooKeeper -------------------------------------------------------------------------------------

GET_CHILDREN, CLOSE, MULTI_READ = 8, -11, 22
WATCH_XID, PING_XID = -1, -2
UNIMPLEMENTED = -6
STAT = bytes(68)
TWO_GIB = struct.pack(">i", 2**31 - 1)
DONE = struct.pack(">iBi", -1, 1, -1)
TINY_NAMES = 2_700_000


def framed(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


def reply(xid: int, body: bytes = b"", error: int = 0) -> bytes:
    return framed(struct.pack(">iqi", xid, 1, error) + body)


def text(value: bytes) -> bytes:
    return struct.pack(">i", len(value)) + value


def connected(line: Line, timeout_ms: int = 6_000) -> None:
    """Answer a connect request: protocol, timeout, session, password, read-only."""
    line.framed()
    line.send(framed(struct.pack(">iiq", 0, timeout_ms, 7) + text(bytes(16)) + b"\0"))


def requested(line: Line) -> tuple[int, int]:
    """Return xid and type of the next request."""
    xid, kind = struct.unpack_from(">ii", line.framed())
    return xid, kind


def _opened(answer: Callable[[Line, int, int], object]) -> Script:
    """A script that answers each request by its xid and type."""

    def script(line: Line) -> None:
        connected(line)
        while True:
            xid, kind = requested(line)
            if kind == CLOSE:
                line.send(reply(xid))
                return
            answer(line, xid, kind)

    return script


def _opens(behave: Script) -> Script:
    """A script that waits for no request."""

    def script(line: Line) -> None:
        connected(line)
        behave(line)

    return script


def _after_open(behave: Script) -> Script:
    """A script that ignores what the first request asks for."""

    def script(line: Line) -> None:
        connected(line)
        requested(line)
        behave(line)

    return script


def _before_open(behave: Script) -> Script:
    def script(line: Line) -> None:
        line.framed()
        behave(line)

    return script


def _old(answer: Callable[[Line, int], object]) -> Script:
    """A script of a server before 3.6: it knows no MultiRead."""

    def each(line: Line, xid: int, kind: int) -> None:
        if kind == MULTI_READ:
            line.send(reply(xid, error=UNIMPLEMENTED))
        else:
            answer(line, xid)

    return _opened(each)


def _zeros_for_ever(line: Line) -> None:
    line.send(TWO_GIB)
    line.forever(bytes(65_536))


def children(names: int, length: int) -> bytes:
    """The body of a list of children."""
    return struct.pack(">i", names) + text(b"n" * length) * names


def _multi(line: Line, xid: int, body: bytes, count: int = 1) -> None:
    one = struct.pack(">iBi", GET_CHILDREN, 0, 0) + body
    line.send(reply(xid, one * count + DONE))


def _value(line: Line, xid: int, value: bytes) -> None:
    line.send(reply(xid, struct.pack(">iBi", 4, 0, 0) + text(value) + STAT + DONE))


def _objects(line: Line, xid: int, kind: int) -> None:
    del kind
    _value(line, xid, b'{"a":[' + b"{}," * 5_000_000 + b"{}]}")


ZOOKEEPER: dict[str, Script] = {
    "accepts and says nothing": Line.wait,
    "answers the connect request with 2 GiB": _before_open(_zeros_for_ever),
    "drips its answer to the connect request": _before_open(
        lambda line: line.drip(framed(bytes(500)))
    ),
    "answers a read with 2 GiB": _after_open(_zeros_for_ever),
    "announces a negative length": _after_open(lambda line: line.send(struct.pack(">i", -5))),
    "drips the length of an answer": _after_open(lambda line: line.drip(TWO_GIB[:3])),
    "drips an answer": _after_open(lambda line: line.drip(framed(bytes(100_000)))),
    "connects and answers no request": _after_open(Line.wait),
    "hangs up after it has connected": connected,
    "hangs up on every request": _after_open(lambda _line: None),
    "expires every session": lambda line: connected(line, 0),
    "answers another request": _opened(lambda line, xid, _: line.send(reply(xid + 7))),
    "answers what was not requested": _opens(lambda line: line.forever(reply(7, error=-101))),
    "answers with an error that there is not": _opened(
        lambda line, xid, _: line.send(reply(xid, error=-4_711))
    ),
    "sends notifications without end": _after_open(
        lambda line: line.forever(reply(WATCH_XID, struct.pack(">ii", 3, 3) + text(b"/a")))
    ),
    "sends pings without end": _after_open(lambda line: line.forever(reply(PING_XID))),
    "lists as many names as fit": _opened(
        lambda line, xid, _: _multi(line, xid, children(TINY_NAMES, 2))
    ),
    "lists names of no length": _old(
        lambda line, xid: line.send(reply(xid, struct.pack(">i", 9) + b"\xff" * 36))
    ),
    "cuts its answers short": _opened(
        lambda line, xid, _: line.send(reply(xid, struct.pack(">iBi", 8, 0, 0) + TWO_GIB))
    ),
    "answers names with values": _opened(lambda line, xid, _: _value(line, xid, bytes(1 << 20))),
    "answers more than was asked": _opened(
        lambda line, xid, _: _multi(line, xid, children(0, 0), 1_200_000)
    ),
    "has 15 MiB in every znode": _opened(lambda line, xid, _: _value(line, xid, bytes(15 << 20))),
    "has 5 million objects in every znode": _opened(_objects),
    "drips what old servers answer": _old(lambda line, _: line.drip(framed(bytes(100_000)))),
}

# -- Pegasus ---------------------------------------------------------------------------------------

FRAME = 28 << 20
OK = b"\x0c\x00\x01" + text(b"ERR_OK")
"""Field 1 of a response: a struct whose payload is a text."""


def raw_reply(request: Request, response: bytes, name: str = "", seqid: int | None = None) -> bytes:
    """A reply whose response is given as bytes."""

    def write(protocol: object) -> None:
        protocol.writeString("ERR_OK")
        protocol.writeMessageBegin(
            name or f"{request.name}_ACK",
            TMessageType.REPLY,
            request.seqid if seqid is None else seqid,
        )
        protocol.writeFieldBegin("success", TType.STRUCT, 0)

    content = written(write) + response + b"\0\0"
    return struct.pack(">i", len(content) + 4) + content


def good_reply(request: Request, response: object) -> bytes:
    return encode_reply(Reply(f"{request.name}_ACK", request.seqid, "ERR_OK", response))


def listed(kind: int, number: int, elements: bytes, field: int = 2) -> bytes:
    return struct.pack(">bhbi", 15, field, kind, number) + elements


def _calls(answer: Callable[[Line, Request], object]) -> Script:
    def script(line: Line) -> None:
        while True:
            answer(line, decode_request(line.called()))

    return script


def _responds(response: Callable[[], bytes]) -> Script:
    """A script that sends the same bytes as the response to every call."""
    made: list[bytes] = []

    def answer(line: Line, request: Request) -> None:
        if not made:
            made.append(response())
        line.send(raw_reply(request, made[0]))

    return _calls(answer)


def _called(behave: Script) -> Script:
    def script(line: Line) -> None:
        line.called()
        behave(line)

    return script


def forwards(leader: Callable[[], str]) -> Script:
    """A script of a meta server that never leads; ``leader`` gives the address that it names."""

    def answer(line: Line, request: Request) -> None:
        call = idl.CALL_BY_NAME[request.name]
        response = call.response(err=ErrorCode("ERR_FORWARD_TO_OTHERS"))
        if call is idl.QUERY_CFG and (address := leader()):
            primary = idl.PartitionConfiguration(hp_primary=HostPort.of(address))
            response.partitions = [primary]
        line.send(good_reply(request, response))

    return _calls(answer)


def _commanded(text_of: Callable[[], str]) -> Script:
    """A script that leads, and answers every remote command with a text."""

    def answer(line: Line, request: Request) -> None:
        if request.name == idl.LIST_NODES.name:
            line.send(good_reply(request, idl.ListNodesResponse(err=ErrorCode(), infos=[])))
        else:
            line.send(good_reply(request, text_of()))

    return _calls(answer)


def _nested() -> bytes:
    return struct.pack(">bhbi", 15, 9, 15, 1) + struct.pack(">bi", 15, 1) * 5_000


_numbers = count(1)

PEGASUS: dict[str, Script] = {
    "accepts and says nothing": Line.wait,
    "answers with 2 GiB": _called(_zeros_for_ever),
    "announces a negative length": _called(lambda line: line.send(struct.pack(">i", -5))),
    "drips the length of a reply": _called(lambda line: line.drip(TWO_GIB[:3])),
    "drips a reply": _called(lambda line: line.drip(framed(bytes(100_000)))),
    "hangs up on every request": _called(lambda _line: None),
    "replies to another request": _calls(
        lambda line, request: line.send(raw_reply(request, OK, seqid=request.seqid + 5))
    ),
    "replies to another call": _calls(
        lambda line, request: line.send(raw_reply(request, OK, name="RPC_CM_LIST_APPS_ACK"))
    ),
    "replies without end": _calls(
        lambda line, request: line.forever(raw_reply(request, OK + listed(12, 0, b"")))
    ),
    "announces a list of 2 billion": _responds(lambda: OK + listed(12, 2**31 - 1, b"")),
    "announces a text of 2 GiB": _responds(lambda: b"\x0c\x00\x01" + TWO_GIB),
    "lists 29 million empty structs": _responds(lambda: OK + listed(12, FRAME, bytes(FRAME))),
    "lists 29 million unknown bytes": _responds(
        lambda: OK + listed(3, FRAME, bytes(FRAME), field=99)
    ),
    "nests lists 5,000 deep": _responds(lambda: OK + _nested()),
    "never leads and names nobody": forwards(lambda: ""),
    "names itself": forwards(lambda: f"localhost:{NAMED_PORT[0]}"),
    "names ever other servers": forwards(
        lambda: f"{HOSTS[next(_numbers) % len(HOSTS)]}:{NAMED_PORT[0]}"
    ),
    "answers a command nested deeply": _commanded(lambda: "[" * 200_000),
    "answers a command with 9 million objects": _commanded(lambda: f"[{'{},' * 9_000_000}0]"),
}
NAMED_PORT = [1]
"""Port of the server that runs; for those that name others."""
