"""Znode events of a cluster, and recordings of them.

A recording is a file of JSON lines, plain or compressed with gzip, one event a line. Events of a
watch and of a poll have the same form.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, Self

import msgspec

from core.errors import InputError
from core.files import open_private

_MS_PER_S: Final = 1000.0
_GZIP_MAGIC: Final = b"\x1f\x8b"
_MAX_PENDING_BYTES: Final = 1 << 20
_FORM: Final = (
    'Each line of a recording is a JSON object such as {"te": 1795411844.6, "k": "mod", "path": '
    '"/loadbalance/...", "value": "...", "ver": 3, "mzxid": 487, "czxid": 94, "mtime": '
    "1795411851947}."
)

MESSAGE: Final = "msg"
"""Kind of an event that carries a message of a system topic (extensible load manager)."""

STATE_KINDS: Final = ("init", "new", "mod")
"""Kinds of events that carry the znode."""

LOST_SESSIONS: Final = ("Expired", "Closed", "AuthFailed", "EXPIRED_SESSION", "LOST", "CLOSED")
"""Session states after which no earlier watch is valid; a mere disconnection loses nothing yet."""


class ZnodeEvent(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    omit_defaults=True,
    gc=False,
    rename={
        "kind": "k",
        "version": "ver",
        "mtime_ms": "mtime",
        "session_id": "eph",
        "received_at_s": "te",
        "read_at_s": "td",
        "result_code": "rc",
    },
):
    """One event of one znode, or of the session that watches them.

    Attributes:
        kind: ``init`` (state when watching began), ``new``, ``mod``, ``del``; of the session
            ``session`` and ``ready``; of a system topic ``msg``. Readers skip kinds that they do
            not use.
        received_at_s: When the event arrived, seconds since the epoch.
        path: Of the znode, or the topic; empty for events of the session.
        key: Of the message: a broker id or a bundle.
        value: Text of the znode or the message; ``None`` if there is no such znode, or the message
            withdraws its key.
        version: Data version, 0 at its creation; ``None`` if there is no such znode.
        mzxid: Transaction that wrote the data.
        czxid: Transaction that created the znode.
        mtime_ms: When the server wrote the data, or the message was published, ms since the epoch.
        session_id: Session of an ephemeral znode; 0: it is persistent.
        read_at_s: When the data was read, seconds since the epoch.
        result_code: ZooKeeper's code of a failed read: -101 no such node.
        state: Of the session.
    """

    kind: str
    received_at_s: float = 0.0
    read_at_s: float | None = None
    path: str = ""
    key: str | None = None
    value: str | None = None
    version: int | None = None
    mzxid: int | None = None
    czxid: int | None = None
    mtime_ms: int | None = None
    session_id: int | None = None
    result_code: int | None = None
    state: str | None = None

    @property
    def at_s(self) -> float:
        """When it happened, seconds since the epoch: the server's time where the event has it."""
        return self.received_at_s if self.mtime_ms is None else self.mtime_ms / _MS_PER_S

    @property
    def is_znode(self) -> bool:
        """Whether the event carries an existing znode."""
        return self.kind in STATE_KINDS and self.value is not None

    @property
    def loses_watch(self) -> bool:
        """Whether changes after it may have been missed."""
        return self.kind == "session" and self.state in LOST_SESSIONS


_DECODER: Final = msgspec.json.Decoder(ZnodeEvent)
_ENCODER: Final = msgspec.json.Encoder()


def encode_event(event: ZnodeEvent) -> bytes:
    """Return one line of a recording, without the line break."""
    return _ENCODER.encode(event)


def read_recording(path: Path) -> Iterator[ZnodeEvent]:
    """Yield the events of a recording in the order of the file.

    Args:
        path: JSON lines; compression is detected by content, not by name.
    Raises:
        InputError: The file cannot be read, is cut off, or has a malformed line.
    """
    try:
        with path.open("rb") as raw:
            is_compressed = raw.peek(2)[:2] == _GZIP_MAGIC
            yield from _events(gzip.GzipFile(fileobj=raw) if is_compressed else raw, path)
    except (EOFError, gzip.BadGzipFile, zlib.error) as exc:
        raise InputError(
            f"Recording {path} is damaged: its compressed data ends too early or is invalid.",
            hint="Copy the file again, or decompress the rest of it with zcat.",
        ) from exc
    except OSError as exc:
        raise InputError(
            f"Recording {path} cannot be read: {exc.strerror or exc}.",
            hint="Specify a file that `trimtab leader record` wrote.",
        ) from exc


def _events(lines: Iterable[bytes], path: Path) -> Iterator[ZnodeEvent]:
    number = 0
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            event = _DECODER.decode(line)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as exc:
            raise InputError(
                f"Line {number} of recording {path} is malformed: {str(exc).rstrip('.')}.",
                hint=_FORM,
            ) from exc
        if event.kind in (*STATE_KINDS, "del", MESSAGE) and not event.path:
            raise InputError(
                f"Line {number} of recording {path} is malformed: it has no path.", hint=_FORM
            )
        yield event


class RecordingWriter:
    """Append events to a recording; usable as a context manager.

    Compressed files consist of one gzip member a flush, so that a file that is still written, or
    whose writer was killed, can be read up to the last flush.

    Args:
        path: File to create; compressed if its name ends with ``.gz``.

    Raises:
        InputError: The file exists already, or cannot be written.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.count = 0
        self._is_compressed = path.suffix == ".gz"
        self._lines: list[bytes] = []
        self._pending_bytes = 0
        try:
            self._raw = open_private(path)
        except FileExistsError as exc:
            raise InputError(
                f"Recording {path} already exists.", hint="Specify another file, or remove it."
            ) from exc
        except OSError as exc:
            raise self._unwritable(exc) from exc

    def write(self, event: ZnodeEvent) -> None:
        """Append one event.

        Raises:
            InputError: The file cannot be written.
        """
        line = encode_event(event)
        self._lines.append(line)
        self._pending_bytes += len(line)
        self.count += 1
        if self._pending_bytes > _MAX_PENDING_BYTES:
            self.flush()

    def flush(self) -> None:
        """Make what was written so far readable after a crash.

        Raises:
            InputError: The file cannot be written.
        """
        if not self._lines:
            return
        text = b"\n".join(self._lines) + b"\n"
        self._lines.clear()
        self._pending_bytes = 0
        try:
            self._raw.write(gzip.compress(text) if self._is_compressed else text)
            self._raw.flush()
        except OSError as exc:
            raise self._unwritable(exc) from exc

    def close(self) -> None:
        """End the file.

        Raises:
            InputError: The file cannot be written.
        """
        if not self._raw.closed:
            try:
                self.flush()
            finally:
                self._raw.close()

    def _unwritable(self, exc: OSError) -> InputError:
        return InputError(
            f"Recording {self.path} cannot be written: {exc.strerror or exc}.",
            hint="Specify a file in a folder that you can write to.",
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()
