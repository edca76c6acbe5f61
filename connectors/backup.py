"""Copies of what a Trimtab cannot make again: its journal, its people, its key.

The history has copies of its own (``trimtab history export``), or lies on an object store.
"""

from __future__ import annotations

import os
import secrets
import shutil
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import sqlalchemy as sa

from connectors.access.key import key_path
from connectors.config.model import TrimtabConfig
from connectors.journal.journal import SqlJournal
from connectors.systems import systems_of
from core.errors import InputError
from core.files import PRIVATE_FOLDER, make_private, open_private, sync_folder, whole_file
from core.systems import steps_of

_JOURNAL: Final = "journal.db"
_USERS: Final = "users.json"
_KEY: Final = "installation.key"
_STAGED: Final = ".partial-"
_LIVE_HINT: Final = "`trimtab runs --verify` verifies it completely."


@dataclass(frozen=True, slots=True, kw_only=True)
class Backup:
    """Contents of a backup.

    Attributes:
        files: Names of the files in its folder.
        entries: Entries of the journal in it; ``None`` if the journal is on a database server.
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
    is_made = False
    try:
        if folder.is_dir():
            if any(folder.iterdir()):
                hint = "Specify a new folder."
                raise InputError(f"{folder} is not empty.", hint=hint)
        else:
            make_private(folder)
            is_made = True
        folder.chmod(PRIVATE_FOLDER)
        with _staged(folder) as aside:
            made = [_copied(path, aside / name) for name, path in _files(config) if path.is_file()]
            journal = _journal_file(config)
            entries, digest = None, ""
            if journal is not None and journal.is_file():
                _copy_journal(journal, aside / _JOURNAL)
                entries, digest = _verified(config, aside / _JOURNAL, str(journal), _LIVE_HINT)
                made.append(_JOURNAL)
    except (OSError, sqlite3.Error) as exc:
        raise InputError(
            f"{folder} cannot hold a backup: {_why(exc)}. No file was left behind.",
            hint="Check the folder, its owner and the free disk space.",
        ) from exc
    finally:
        if is_made:
            with suppress(OSError):  # it holds the backup
                folder.rmdir()
    return Backup(files=tuple(made), entries=entries, digest=digest)


@contextmanager
def _staged(folder: Path) -> Iterator[Path]:
    """Give a folder in which a backup is made; its files move to ``folder`` when all are whole."""
    aside = folder / f"{_STAGED}{secrets.token_hex(4)}"
    aside.mkdir(mode=PRIVATE_FOLDER)
    try:
        yield aside
        for file in sorted(aside.iterdir()):
            with file.open("rb") as whole:
                os.fsync(whole.fileno())
        for file in sorted(aside.iterdir()):
            file.replace(folder / file.name)
        aside.rmdir()  # last: as long as it is there, the backup is not whole
        sync_folder(folder)
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def _why(exc: OSError | sqlite3.Error) -> str:
    return str(getattr(exc, "strerror", None) or exc).rstrip(".")


def restore(config: TrimtabConfig, folder: Path) -> Backup:
    """Put a backup where the configuration has journal, users and key; nothing is overwritten.

    Raises:
        InputError: There is no backup in the folder, or something of it is there already.
        OpsError: The journal in it is damaged.
    """
    if any(folder.glob(f"{_STAGED}*")):
        raise InputError(
            f"The backup in {folder} is incomplete: `trimtab backup` was stopped before it ended.",
            hint="Use another backup.",
        )
    targets = dict(_files(config))
    journal = _journal_file(config)
    if journal is not None:
        targets[_JOURNAL] = journal
    wanted = {name: path for name, path in targets.items() if (folder / name).is_file()}
    if not wanted:
        raise InputError(
            f"{folder} has no backup.", hint="Create one with `trimtab backup FOLDER`."
        )
    for path in wanted.values():
        if path.exists():
            raise InputError(
                f"{path} already exists; a restore does not overwrite files.",
                hint="Stop every Trimtab process and move the file away first.",
            )
    entries, digest = None, ""
    if _JOURNAL in wanted:
        entries, digest = _verified(
            config, folder / _JOURNAL, f"in {folder}", "Use another backup."
        )
    _put_back(folder, wanted)
    return Backup(files=tuple(wanted), entries=entries, digest=digest)


def _put_back(folder: Path, wanted: Mapping[str, Path]) -> None:
    done: list[Path] = []
    try:
        for name, path in wanted.items():
            make_private(path.parent)
            _copied(folder / name, path)
            done.append(path)
    except OSError as exc:
        for path in done:
            path.unlink(missing_ok=True)
        raise InputError(
            f"{folder} cannot be restored: {exc.strerror}. No file was restored.",
            hint="Check state_dir, its owner and the free disk space.",
        ) from exc


def _files(config: TrimtabConfig) -> list[tuple[str, Path]]:
    return [(_USERS, config.users_file), (_KEY, key_path(config.access))]


def _journal_file(config: TrimtabConfig) -> Path | None:
    """Return the file of a SQLite journal, or ``None`` if on a server or read-only."""
    url = sa.make_url(config.journal_address.get_secret_value())
    name = url.database or ""
    is_file = url.get_backend_name() == "sqlite" and name and not name.startswith("file:")
    return Path(name) if is_file else None


def _copied(source: Path, target: Path) -> str:
    """Copy a file whole, readable by its owner only from the first byte on; return its new name."""
    with source.open("rb") as data, whole_file(target, is_new=True) as out:
        shutil.copyfileobj(data, out)
    return target.name


def _copy_journal(source: Path, target: Path) -> None:
    """Let SQLite copy a database that is in use, its log included."""
    open_private(target).close()
    with (
        closing(sqlite3.connect(f"file:{source}?mode=ro", uri=True)) as live,
        closing(sqlite3.connect(target)) as copy,
    ):
        live.backup(copy)
        copy.execute("PRAGMA journal_mode=DELETE")  # one file, nothing next to it


def _verified(config: TrimtabConfig, file: Path, place: str, hint: str) -> tuple[int, str]:
    """Return entries and newest hash of a copy.

    Args:
        config: Which systems there are.
        file: The copy.
        place: Which journal it is for people: that of which it is the copy, or ``in`` a folder.
        hint: What to do if it is damaged.
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
    if found.damage is not None or found.database:
        damage = found.damage
        where = f" at entry {damage.seq}: {damage.what}" if damage else f". {found.database[0]}"
        raise InputError(
            f"The journal {place} is damaged{where}",
            hint=hint,
        )
    return found.entries, found.newest_digest
