"""Anchors: hashes of the journal's end that are stored elsewhere, signed, at intervals.

A journal that somebody rewrote from one entry on has a sound chain again, and one whose end was cut
off always has. Neither agrees with hashes that were written to another place before.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import logging
import os
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from threading import Event

import msgspec

from connectors.journal.journal import SqlJournal
from core.errors import ConfigError, InputError, OpsError

_LOG = logging.getLogger("trimtab.journal")
_TAIL_BYTES = 4096


class Anchor(msgspec.Struct, frozen=True, kw_only=True):
    """One line of an anchor file.

    Attributes:
        at: When it was written, ISO 8601 in UTC.
        seq: Place of the journal's last entry at that moment.
        digest: Its hash.
        signature: HMAC-SHA-256 of the three with the installation's key, hexadecimal.
    """

    at: str
    seq: int
    digest: str
    signature: str = ""


def add_anchor(file: Path, journal: SqlJournal, key: bytes) -> Anchor | None:
    """Append the journal's end to an anchor file; ``None`` if the last line has it.

    Args:
        file: Made with mode 0600 if it is not there; its folder has to be there.
        journal: Of which the end is read.
        key: The installation's key.
    Raises:
        RemoteError: The journal cannot be read.
        ConfigError: The file cannot be written.
    """
    seq, digest = journal.newest()
    try:
        if seq == 0 or _last_line(file).find(f'"digest":"{digest}"') >= 0:
            return None
        at = datetime.now(UTC).isoformat(timespec="seconds")
        anchor = _signed(Anchor(at=at, seq=seq, digest=digest), key)
        _drop_cut_line(file)
        handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        with os.fdopen(handle, "ab") as out:
            out.write(msgspec.json.encode(anchor) + b"\n")  # one write: two processes never mix
            out.flush()
            os.fsync(out.fileno())
    except OSError as exc:
        raise ConfigError(
            f"The anchor file {file} cannot be written: {exc.strerror}.",
            hint="Check anchor_file under [audit], its folder and its owner.",
        ) from exc
    return anchor


def read_anchors(file: Path, key: bytes) -> Sequence[Anchor]:
    """Return the anchors of a file, as they were written.

    A last line without its end is left out: its writer was stopped.

    Raises:
        InputError: The file cannot be read, or a line is none that this installation wrote.
    """
    try:
        lines = file.read_bytes().split(b"\n")[:-1]
    except OSError as exc:
        raise InputError(
            f"The anchor file {file} cannot be read: {exc.strerror}.",
            hint="Check anchor_file under [audit], or pass a copy with --anchors.",
        ) from exc
    return [_read(line, f"{file}, line {number}", key) for number, line in enumerate(lines, 1)]


def keep_anchored(
    file: Path, every_s: float, open_journal: Callable[[], SqlJournal], key: bytes, stop: Event
) -> None:
    """Add an anchor now, at every interval and at the end, until ``stop`` is set.

    A failure is logged and tried again at the next interval; it never ends the caller's work.

    Args:
        file: See :func:`add_anchor`.
        every_s: Seconds between two.
        open_journal: Opens the journal; it is closed after each look.
        key: The installation's key.
        stop: Set it to end.
    """
    is_last = False
    while True:
        try:
            journal = open_journal()
            try:
                anchor = add_anchor(file, journal, key)
            finally:
                journal.close()
        except OpsError as exc:
            _LOG.error("no anchor of the journal was written: %s", exc)
        else:
            if anchor is not None:
                _LOG.info("anchor of the journal: entry %d, hash %s", anchor.seq, anchor.digest)
        if is_last:
            return
        is_last = stop.wait(every_s)


def anchor_age_s(file: Path) -> float | None:
    """Return the age of the anchor file, s, or ``None`` if missing."""
    try:
        return max(0.0, time.time() - file.stat().st_mtime)
    except OSError:
        return None


def _read(line: bytes, place: str, key: bytes) -> Anchor:
    try:
        anchor = msgspec.json.decode(line, type=Anchor)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as exc:
        raise InputError(
            f"{place} is not an anchor: {exc}.", hint="Restore the file from a copy."
        ) from exc
    found, expected = anchor.signature.encode(), _signed(anchor, key).signature.encode()
    if not hmac.compare_digest(found, expected):
        raise InputError(
            f"{place} does not have this installation's signature.",
            hint="The line was changed, or another key_file under [access] signed it.",
        )
    return anchor


def _signed(anchor: Anchor, key: bytes) -> Anchor:
    text = json.dumps([anchor.at, anchor.seq, anchor.digest])
    seal = hmac.new(key, b"anchor\n" + text.encode(), hashlib.sha256).hexdigest()
    return msgspec.structs.replace(anchor, signature=seal)


def _drop_cut_line(file: Path) -> None:
    """Remove a last line without its end: the next anchor would become a part of it.

    The disk was full, or the writer was stopped; no reader takes such a line.
    """
    with suppress(FileNotFoundError):
        with file.open("rb") as stored:
            start = max(0, stored.seek(0, os.SEEK_END) - _TAIL_BYTES)
            stored.seek(start)
            tail = stored.read()
        if tail and not tail.endswith(b"\n"):  # else nothing is cut off: others may append now
            with file.open("r+b") as cut:
                cut.truncate(start + tail.rfind(b"\n") + 1)


def _last_line(file: Path) -> str:
    try:
        with file.open("rb") as stored:
            stored.seek(0, os.SEEK_END)
            stored.seek(max(0, stored.tell() - _TAIL_BYTES))
            lines = stored.read().splitlines()
    except FileNotFoundError:
        return ""
    return lines[-1].decode("utf-8", "replace") if lines else ""
