"""Backups while everything is written: each can be put back, is sound, and is a moment of it."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from journal_entries import ONE_OF_EACH, record_of

from connectors.access.users import UserFile
from connectors.backup import back_up, restore
from connectors.config.model import TrimtabConfig
from connectors.journal.journal import SqlJournal

BACKUPS = 5
WRITERS = 3


def configured(folder: Path) -> TrimtabConfig:
    access = {"key_file": str(folder / "key")}
    return TrimtabConfig(state_dir=folder / "state", access=access)


def journal_at(config: TrimtabConfig) -> SqlJournal:
    return SqlJournal(config.journal_address)


@pytest.fixture
def site(tmp_path: Path) -> TrimtabConfig:
    config = configured(tmp_path / "live")
    config.state_dir.mkdir(parents=True, mode=0o700)
    (tmp_path / "live" / "key").write_text("ab" * 32)
    (tmp_path / "live" / "key").chmod(0o600)
    with closing(journal_at(config)) as journal:
        for event in ONE_OF_EACH:
            journal.append(record_of(event))
    return config


def test_each_backup_made_during_writes_can_be_restored_and_is_sound(
    site: TrimtabConfig, tmp_path: Path
) -> None:
    stop = threading.Event()
    faults: list[BaseException] = []

    def until_stopped(work: Callable[[], object]) -> None:
        try:
            while not stop.is_set():
                work()
        except BaseException as exc:  # noqa: BLE001  # the test fails with it
            faults.append(exc)

    journals = [journal_at(site) for _ in range(WRITERS)]
    users = UserFile(site.users_file)
    work: list[Callable[[], object]] = [
        *(lambda one=one: one.append(record_of(ONE_OF_EACH[1])) for one in journals),
        lambda: users.set_user("ann", "correct horse battery", ("sre",)),
    ]
    users.set_user("ann", "correct horse battery")
    threads = [threading.Thread(target=until_stopped, args=(one,)) for one in work]
    for thread in threads:
        thread.start()
    try:
        made = [back_up(site, tmp_path / f"backup {number}") for number in range(BACKUPS)]
    finally:
        stop.set()
        for thread in threads:
            thread.join()
        for journal in journals:
            journal.close()
    assert not faults
    assert [one.entries for one in made] == sorted(one.entries or 0 for one in made)
    assert (made[-1].entries or 0) > len(ONE_OF_EACH)
    with closing(journal_at(site)) as journal:
        whole = journal.entries()
    for number, backup in enumerate(made):
        config = configured(tmp_path / f"restored {number}")
        again = restore(config, tmp_path / f"backup {number}")
        assert (again.entries, again.digest) == (backup.entries, backup.digest)
        assert UserFile(config.users_file).verified("ann", "correct horse battery") is not None
        with closing(journal_at(config)) as journal:
            assert journal.verify().is_sound
            assert journal.entries() == whole[: backup.entries]
            assert journal.append(record_of(ONE_OF_EACH[0])).seq == (backup.entries or 0) + 1
        json.loads((tmp_path / f"backup {number}" / "users.json").read_bytes())
