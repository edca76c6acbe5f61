"""Many reads in one request: ZooKeeper's MultiRead (3.6 and later), which kazoo does not have.

Source:
    ZooKeeper ``ZooDefs.OpCode.multiRead`` (22), ``MultiOperationRecord``, ``MultiResponse``: a
    sequence of ``MultiHeader {int type, bool done, int err}`` each followed by its record, closed
    by a header with ``done``. Only ``getData`` (4) and ``getChildren`` (8) may be in it; an
    operation that fails has type -1 and an ``ErrorResult {int err}``.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from core.bounds import json_weight

GET_DATA: Final = 4
GET_CHILDREN: Final = 8
NO_NODE: Final = -101
NO_AUTH: Final = -102
_MULTI_READ: Final = 22
_ERROR: Final = -1
_HEADER: Final = struct.Struct(">iBi")
NAME_BYTES: Final = 57
"""What Python takes for a short text in a list, without its characters."""
ANSWER_BYTES: Final = 200
_INT: Final = struct.Struct(">i")
_CLOSE: Final = _HEADER.pack(_ERROR, 1, -1)
_OPEN: Final = {kind: _HEADER.pack(kind, 0, -1) for kind in (GET_DATA, GET_CHILDREN)}
# czxid mzxid ctime mtime version cversion aversion ephemeralOwner dataLength numChildren pzxid
_STAT: Final = struct.Struct(">qqqqi8xq8xq")


@dataclass(frozen=True, slots=True)
class ReadOperation:
    """One operation: the data of a path, or the names of its children."""

    kind: int
    path: str


class ReadAnswer(NamedTuple):
    """Answer of one operation.

    Attributes:
        error: 0, or ZooKeeper's error code.
        value: ``bytes`` of a data read, a list of names of a children read, ``None`` on an error.
        created_id: ``czxid`` of a data read: another one for a znode that was created again.
        changed_id: ``mzxid`` of a data read.
        created_at: ``ctime`` of a data read, ms since the epoch.
        modified_at: ``mtime`` of a data read, ms since the epoch.
        version: Of the data: the writes since the znode was created.
        session_id: ``ephemeralOwner`` of a data read: the session that it lives with; 0: it is no
            ephemeral.
        child_change_id: ``pzxid`` of a data read: grows whenever a child comes or goes.
    """

    error: int
    value: Any
    created_id: int
    changed_id: int
    created_at: int
    modified_at: int
    version: int
    session_id: int
    child_change_id: int

    @property
    def held_bytes(self) -> int:
        """Approximate memory, including its value as decoded later."""
        if isinstance(self.value, list):
            return NAME_BYTES * len(self.value) + sum(map(len, self.value))
        return ANSWER_BYTES + (json_weight(self.value) if self.value else 0)

    @classmethod
    def without_stat(cls, error: int, value: Any = None) -> ReadAnswer:
        """Return the answer of a read of children, or of a failed one."""
        return cls(error, value, 0, 0, 0, 0, 0, 0, 0)


class MultiRead(NamedTuple):
    """A request in kazoo's form: ``type``, ``serialize``, ``deserialize``."""

    kinds: tuple[int, ...]
    paths: tuple[str, ...]

    @property
    def type(self) -> int:
        """ZooKeeper's number for the request."""
        return _MULTI_READ

    def serialize(self) -> bytes:
        """Return the request's body."""
        out = []
        for kind, path in zip(self.kinds, self.paths, strict=True):
            raw = path.encode()
            out.append(_OPEN[kind])
            out.append(_INT.pack(len(raw)))
            out.append(raw)
            out.append(b"\x00")  # no watch
        out.append(_CLOSE)
        return b"".join(out)

    def deserialize(self, raw: bytes, offset: int) -> list[ReadAnswer]:
        """Return one answer an operation, in order.

        Raises:
            ValueError: The answer is not in this protocol.
        """
        answers: list[ReadAnswer] = []
        try:
            while True:
                kind, done, _ = _HEADER.unpack_from(raw, offset)
                offset += _HEADER.size
                if done:
                    break
                if len(answers) == len(self.kinds):
                    raise ValueError(f"more than {len(answers)} answers to as many reads")
                if kind not in (self.kinds[len(answers)], _ERROR):
                    raise ValueError(f"a MultiRead answer of unrequested type {kind}")
                answer, offset = _one(kind, raw, offset)
                answers.append(answer)
        except (struct.error, UnicodeDecodeError) as exc:
            raise ValueError("a MultiRead answer that cannot be read") from exc
        if len(answers) != len(self.kinds):
            raise ValueError(f"{len(answers)} answers to {len(self.kinds)} reads")
        return answers


def _one(kind: int, raw: bytes, offset: int) -> tuple[ReadAnswer, int]:
    size: int = _INT.unpack_from(raw, offset)[0]
    offset += 4
    if kind == GET_DATA:
        end = offset + max(size, 0)
        return ReadAnswer(0, raw[offset:end], *_STAT.unpack_from(raw, end)), end + _STAT.size
    if kind == GET_CHILDREN:
        names = []
        for _ in range(size):
            length = _INT.unpack_from(raw, offset)[0]
            offset += 4
            if length < 0:
                raise ValueError("a MultiRead answer with a name of no length")
            names.append(raw[offset : offset + length].decode())
            offset += length
        return ReadAnswer.without_stat(0, names), offset
    return ReadAnswer.without_stat(size), offset


def request_of(reads: Iterable[ReadOperation], chroot: str) -> MultiRead:
    """Return the request for some operations, their paths below ``chroot``."""
    listed: list[Any] = list(reads)
    return MultiRead(
        tuple(read.kind for read in listed), tuple(f"{chroot}{read.path}" for read in listed)
    )
