"""Frames: what surrounds a call on the wire, in both directions.

A request has a header of 48 bytes, big endian, then a Thrift message. A reply has no header: its
length (these four bytes included), the name of an error of the remote procedure call layer, then a
Thrift message; with an error the message may end after its begin.
"""

from __future__ import annotations

import math
import struct as packing
from dataclasses import dataclass
from typing import Any, Final

from thrift.Thrift import TMessageType, TType

from connectors.config.model import DECODED, ReadLimits
from connectors.pegasus.rpc.errors import OK
from connectors.pegasus.rpc.idl import CALL_BY_NAME, Call
from connectors.pegasus.rpc.wire import Budget, Struct, WireError, guarded, reader, written
from core.bounds import json_weight

MAGIC: Final = b"THFT"
HEADER_BYTES: Final = 48
MAX_BYTES: Final = ReadLimits().answer_bytes
"""Longest reply where no configuration says otherwise."""
ACK: Final = "_ACK"
_HEADER: Final = packing.Struct(">4sIIIIIiiIiQ")
_LENGTH: Final = packing.Struct(">i")


@dataclass(frozen=True)
class Request:
    """A call to be sent.

    Attributes:
        name: The call's code.
        seqid: Echoed by the reply.
        timeout_ms: After it the server may drop the work.
        body: The struct that the call takes; ``None`` for a call that is not known.
        is_call: ``False`` for a message without a reply.
    """

    name: str
    seqid: int
    timeout_ms: int
    body: Struct | None
    is_call: bool = True


@dataclass(frozen=True)
class Reply:
    """Reply to a request.

    Attributes:
        name: The call's code, with ``_ACK``.
        seqid: Of the request.
        error: Of the layer of the calls; ``ERR_OK`` or the result is ``None``.
        result: A struct, or a text.
    """

    name: str
    seqid: int
    error: str
    result: Struct | str | None


def encode_request(call: Call, body: Struct, *, seqid: int, timeout_ms: int) -> bytes:
    """Return the bytes of a request, whole: its length is that of its body, always."""

    def write(protocol: Any) -> None:
        protocol.writeMessageBegin(call.name, TMessageType.CALL, seqid)
        protocol.writeFieldBegin("args", TType.STRUCT, 1)
        body.write(protocol)
        protocol.writeFieldStop()

    content = written(write)
    # checksums are not checked; table, partition and hashes do not matter to these calls
    header = _HEADER.pack(MAGIC, 0, HEADER_BYTES, 0, len(content), 0, 0, 0, timeout_ms, 0, 0)
    return header + content


def decode_request(frame: bytes) -> Request:
    """Return a request out of its bytes.

    Raises:
        WireError: Another magic, version or length, or a body that does not fit.
    """
    if len(frame) < HEADER_BYTES:
        raise WireError(f"a request of {len(frame)} bytes, shorter than its header")
    magic, version, header_bytes, _, length, *_rest = _HEADER.unpack_from(frame)
    timeout_ms = _rest[3]
    if (magic, version, header_bytes) != (MAGIC, 0, HEADER_BYTES):
        raise WireError(f"a header of {magic!r}, version {version}, {header_bytes} bytes")
    if length != len(frame) - HEADER_BYTES:
        raise WireError(f"a body of {len(frame) - HEADER_BYTES} bytes, announced {length}")

    def read() -> Request:
        protocol, left = reader(frame[HEADER_BYTES:])
        name, kind, seqid = protocol.readMessageBegin()
        if kind not in (TMessageType.CALL, TMessageType.ONEWAY):
            raise WireError(f"a message of type {kind}")
        call = CALL_BY_NAME.get(name)
        if call is None:
            return Request(name, seqid, timeout_ms, None, kind == TMessageType.CALL)
        body = _result(protocol, call.request, field=None)
        if left():
            raise WireError(f"{left()} bytes after the end")
        return Request(name, seqid, timeout_ms, body, kind == TMessageType.CALL)

    request: Request = guarded(read)
    return request


def encode_reply(reply: Reply) -> bytes:
    """Return the bytes of a reply; with an error it ends after the begin of its message."""

    def write(protocol: Any) -> None:
        protocol.writeString(reply.error)
        protocol.writeMessageBegin(reply.name, TMessageType.REPLY, reply.seqid)
        if isinstance(reply.result, str):
            protocol.writeFieldBegin("success", TType.STRING, 0)
            protocol.writeString(reply.result)
            protocol.writeFieldStop()
        elif reply.result is not None:
            protocol.writeFieldBegin("success", TType.STRUCT, 0)
            reply.result.write(protocol)
            protocol.writeFieldStop()

    content = written(write)
    return _LENGTH.pack(len(content) + _LENGTH.size) + content


def reply_length(start: bytes, max_bytes: int = MAX_BYTES) -> int:
    """Return the length of a reply, from its first four bytes.

    Raises:
        WireError: Less than a reply can have, or more than ``max_bytes``.
    """
    length: int = _LENGTH.unpack(start[:4])[0]
    if not _LENGTH.size < length <= max_bytes:
        raise WireError(
            f"a reply of {length:,} bytes (read_limits.answer_mib allows {max_bytes // 2**20} MiB)"
        )
    return length


def decode_reply(frame: bytes, *, max_bytes: int = MAX_BYTES, ends_at: float = math.inf) -> Reply:
    """Return a reply out of its bytes.

    Args:
        frame: All of them.
        max_bytes: Of the longest reply that is accepted.
        ends_at: When decoding has to be over, on the monotonic clock, s.
    Raises:
        WireError: The length does not fit, the call is unknown, the result is out of form, or would
            take more than eight times ``max_bytes``.
        TimeoutError: The time is up.
    """
    if len(frame) <= _LENGTH.size or reply_length(frame, max_bytes) != len(frame):
        raise WireError(f"a reply of {len(frame)} bytes that announces another length")

    def read() -> Reply:
        protocol, left = reader(frame[_LENGTH.size :], Budget(DECODED * max_bytes, ends_at))
        error = protocol.readString()
        name, kind, seqid = protocol.readMessageBegin()
        if kind != TMessageType.REPLY:
            raise WireError(f"a message of type {kind} for a reply")
        if error != OK:
            return Reply(name, seqid, error, None)
        call = CALL_BY_NAME.get(name.removesuffix(ACK))
        if call is None or not name.endswith(ACK):
            raise WireError(f"a reply to {name!r}, which was not called")
        result = _result(protocol, call.response, field=0)
        if left():
            raise WireError(f"{left()} bytes after the end")
        return Reply(name, seqid, error, result)

    reply: Reply = guarded(read)
    return reply


def _result(protocol: Any, kind: type[Struct] | None, *, field: int | None) -> Any:
    """Read the one field of a message, then its stop; ``field`` ``None`` accepts any number."""
    wanted = TType.STRING if kind is None else TType.STRUCT
    _, found, number = protocol.readFieldBegin()
    if found != wanted or (field is not None and number != field):
        raise WireError(f"a field {number} of type {found} where the message has one of {wanted}")
    value: Any
    if kind is None:
        value = protocol.readString()
        protocol.budget.take(json_weight(value.encode()))  # of a remote command: mostly JSON
    else:
        value = kind()
        value.read(protocol)
    if protocol.readByte() != TType.STOP:
        raise WireError("more fields than one in a message")
    return value
