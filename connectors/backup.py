"""Copies of what a Trimtab cannot make again: its journal, its people, its key.

The history has copies of its own (``trimtab history export``), or lies on an object store.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import sqlalchemy as sa

from connectors.access.key import key_path
from connectors.config.model import TrimtabConfig
from connectors.journal.journal import SqlJournal
from connectors.systems import systems_of
from core.errors import InputError
from core.systems import steps_of

_JOURNAL: Final = "journal.db"
_USERS: Final = "users.json"
_KEY: Final = "installation.key"


@dataclass(frozen=True, slots=True, kw_only=True)
class Backup:
    """What a backup holds.

    Attributes:
        files: Names of the files in its folder.
        entries: Entries of the journal in it; ``None``: the journal is on a database server.
        digest: Hash of the newest of them; empty without a journal.
    """

    files: tuple[str, ...]
    entries: int | None
    digest: str = ""


def back_up(config: TrimtabConfig, folder: Path) -> Backup:
    """Copy journal, users and key into a new folder (0700); Trimtab may be in use meanwhile.

    A journal on a database server is left to that server's own tools.

    Raises:
        InputError: The folder is there and not empty, or cannot be written.
        OpsError: The journal cannot be read, or its copy is damaged.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        if any(folder.iterdir()):
            raise InputError(f"{folder} is not empty.", hint="Name a folder that is not there yet.")
        folder.chmod(0o700)
        made = [_copied(path, folder / name) for name, path in _files(config) if path.is_file()]
        journal = _journal_file(config)
        if journal is None or not journal.is_file():
            return Backup(files=tuple(made), entries=None)
        _copy_journal(journal, folder / _JOURNAL)
    except (OSError, sqlite3.Error) as exc:
        raise InputError(
            f"The backup in {folder} is not whole: {getattr(exc, 'strerror', None) or exc}.",
            hint="Check the folder, its owner and the room on its disk.",
        ) from exc
    entries, digest = _verified(config, folder / _JOURNAL)
    return Backup(files=(*made, _JOURNAL), entries=entries, digest=digest)


def restore(config: TrimtabConfig, folder: Path) -> Backup:
    """Put a backup where the configuration has journal, users and key; nothing is overwritten.

    Raises:
        InputError: There is no backup in the folder, or something of it is there already.
        OpsError: The journal in it is damaged.
    """
    targets = dict(_files(config))
    journal = _journal_file(config)
    if journal is not None:
        targets[_JOURNAL] = journal
    wanted = {name: path for name, path in targets.items() if (folder / name).is_file()}
    if not wanted:
        raise InputError(f"{folder} holds no backup.", hint="`trimtab backup FOLDER` makes one.")
    for path in wanted.values():
        if path.exists():
            raise InputError(
                f"{path} is there already, and a restore overwrites nothing.",
                hint="Stop every process of Trimtab, and move it away first.",
            )
    entries, digest = _verified(config, folder / _JOURNAL) if _JOURNAL in wanted else (None, "")
    try:
        for name, path in wanted.items():
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            _copied(folder / name, path)
    except OSError as exc:
        raise InputError(
            f"{folder} cannot be put back: {exc.strerror}.",
            hint="Check state_dir, its owner and the room on its disk; remove what was put back.",
        ) from exc
    return Backup(files=tuple(wanted), entries=entries, digest=digest)


def _files(config: TrimtabConfig) -> list[tuple[str, Path]]:
    return [(_USERS, config.users_file), (_KEY, key_path(config.access))]


def _journal_file(config: TrimtabConfig) -> Path | None:
    """Return the file of a SQLite journal; ``None``: it is on a server, or read-only."""
    url = sa.make_url(config.journal_address.get_secret_value())
    name = url.database or ""
    is_file = url.get_backend_name() == "sqlite" and name and not name.startswith("file:")
    return Path(name) if is_file else None


def _copied(source: Path, target: Path) -> str:
    """Copy a file, readable by its owner only from the first byte on; return its new name."""
    handle = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "wb") as out, source.open("rb") as data:
        shutil.copyfileobj(data, out)
        out.flush()
        os.fsync(out.fileno())
    return target.name


def _copy_journal(source: Path, target: Path) -> None:
    """Let SQLite copy a database that is in use, its log included."""
    os.close(os.open(target, os.O_CREAT | os.O_EXCL, 0o600))
    with (
        closing(sqlite3.connect(f"file:{source}?mode=ro", uri=True)) as live,
        closing(sqlite3.connect(target)) as copy,
    ):
        live.backup(copy)
        copy.execute("PRAGMA journal_mode=DELETE")  # one file, nothing next to it


def _verified(config: TrimtabConfig, file: Path) -> tuple[int, str]:
    """Return entries and newest hash of a copy.

    Raises:
        InputError: It is damaged.
    """
    journal = SqlJournal(
        f"sqlite:///file:{file}?immutable=1&uri=true", steps_of(systems_of(config))
    )
    try:
        found = journal.verify()
    finally:
        journal.close()
    if found.damage is not None:
        raise InputError(
            f"The journal in {file} is damaged at entry {found.damage.seq}: {found.damage.what}",
            hint="Check the journal with `trimtab runs --verify`, or use another backup.",
        )
    return found.entries, found.newest_digest
