"""Archives: the oldest entries of a journal, moved to a file that verifies with the rest.

One line an entry, exactly as it was stored, so that the chain of hashes can be computed over files
and journal together.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import msgspec

from connectors.journal.journal import SqlJournal
from connectors.journal.verify import Row, verify_rows
from core.errors import InputError
from core.files import whole_text


@dataclass(frozen=True, slots=True, kw_only=True)
class Archive:
    """Contents of a file of entries.

    Attributes:
        first: Place of its first entry.
        last: Place of its last entry.
        digest: Hash of the last entry.
        sha256: Of its content, hexadecimal.
    """

    first: int
    last: int
    digest: str
    sha256: str


def write_archive(journal: SqlJournal, last: int, file: Path) -> Archive:
    """Copy the entries up to one place into a new file (0600), and verify what was written.

    Args:
        journal: It is only read.
        last: Place of the last entry to copy; it is there.
        file: It must not exist.
    Raises:
        InputError: The file is there, cannot be written, or does not hold what was to be written.
        RemoteError: The journal cannot be read.
    """
    rows = journal.rows(last)
    try:
        with whole_text(file, is_new=True) as out:
            for row in rows:
                out.write(json.dumps(asdict(row), sort_keys=True) + "\n")
        return _verified(file, last)
    except FileExistsError as exc:
        raise InputError(
            f"{file} already exists; an archive does not overwrite files.",
            hint="Specify a new file.",
        ) from exc
    except OSError as exc:
        raise InputError(
            f"{file} cannot be written: {exc.strerror}.",
            hint="Check the folder, its owner and the free disk space. No entry was removed.",
        ) from exc


def read_archive(file: Path) -> Iterator[Row]:
    """Yield the entries of an archive as they were stored.

    Raises:
        InputError: It cannot be read, has no entry, or a line is none.
    """
    number = 0
    try:
        with file.open("rb") as lines:
            for number, line in enumerate(lines, 1):
                try:
                    yield _ROW.decode(line)
                except (msgspec.MsgspecError, UnicodeError, RecursionError) as exc:
                    raise InputError(
                        f"{file}, line {number} is not a journal entry: {exc}.",
                        hint="Specify a file written by `trimtab archive`.",
                    ) from exc
    except OSError as exc:
        raise InputError(
            f"The archive {file} cannot be read: {exc.strerror}.", hint="Check the name."
        ) from exc
    if not number:  # as if it had not been passed, the journal behind it would be intact
        raise InputError(f"The archive {file} is empty.", hint="Restore it from a copy.")


_ROW = msgspec.json.Decoder(Row)


def _verified(file: Path, last: int) -> Archive:
    """Read a file back.

    Raises:
        InputError: It does not end with entry ``last``, or its chain is broken.
    """
    first = next(read_archive(file))
    found = verify_rows(read_archive(file), after=(first.seq - 1, first.previous))
    if found.damage is not None or found.newest_seq != last:
        what = found.damage.what if found.damage else f"It ends with entry {found.newest_seq}."
        raise InputError(
            f"{file} does not match the written entries: {what}",
            hint="Check the disk, or use another one. No entry was removed.",
        )
    with file.open("rb") as content:
        sha256 = hashlib.file_digest(content, "sha256").hexdigest()
    return Archive(first=first.seq, last=last, digest=found.newest_digest, sha256=sha256)
