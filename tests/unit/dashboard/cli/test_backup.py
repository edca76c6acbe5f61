"""Backups: whole while Trimtab is in use, private, and never put over something."""

from __future__ import annotations

import json
import sqlite3
import threading
from pathlib import Path

import pytest
from journal_entries import ONE_OF_EACH, record_of

from connectors.journal.journal import SqlJournal
from dashboard.cli.main import run


@pytest.fixture
def config(tmp_path) -> Path:
    file = tmp_path / "trimtab.toml"
    key = tmp_path / "keys" / "key"
    file.write_text(f'state_dir = "{tmp_path / "state"}"\n[access]\nkey_file = "{key}"\n')
    key.parent.mkdir(mode=0o700)
    key.write_text("ab" * 32)
    key.chmod(0o600)
    (tmp_path / "state").mkdir(mode=0o700)
    (tmp_path / "state" / "users.json").write_text('{"users": []}')
    return file


@pytest.fixture
def journal(config, tmp_path):
    made = SqlJournal(f"sqlite:///{tmp_path / 'state' / 'journal.db'}")
    for event in ONE_OF_EACH:
        made.append(record_of(event))
    yield made
    made.close()


def answer(capsys, *words: object) -> tuple[int, dict]:
    code = run([*map(str, words), "--json"])
    return code, json.loads(capsys.readouterr().out)


def test_a_backup_is_put_back_as_it_was(config, journal, tmp_path, capsys):
    folder = tmp_path / "backup"
    code, made = answer(capsys, "backup", folder, "--config", config)
    assert code == 0
    assert made["entries"] == len(ONE_OF_EACH)
    assert sorted(made["files"]) == ["installation.key", "journal.db", "users.json"]
    assert folder.stat().st_mode & 0o077 == 0
    assert all(path.stat().st_mode & 0o077 == 0 for path in folder.iterdir())
    before = journal.entries()
    journal.close()
    (tmp_path / "state").rename(tmp_path / "lost")
    (tmp_path / "keys" / "key").unlink()
    code, found = answer(capsys, "restore", folder, "--config", config)
    assert (code, found["digest"]) == (0, made["digest"])
    again = SqlJournal(f"sqlite:///{tmp_path / 'state' / 'journal.db'}")
    assert again.entries() == before
    assert again.append(record_of(ONE_OF_EACH[0])).seq == len(before) + 1
    again.close()
    assert (tmp_path / "keys" / "key").read_text() == "ab" * 32
    assert (tmp_path / "keys" / "key").stat().st_mode & 0o077 == 0


def test_a_journal_that_is_written_meanwhile_is_copied_whole(config, journal, tmp_path, capsys):
    stop = threading.Event()

    def write() -> None:
        while not stop.is_set():
            journal.append(record_of(ONE_OF_EACH[1]))

    thread = threading.Thread(target=write)
    thread.start()
    try:
        for number in range(4):
            code, made = answer(capsys, "backup", tmp_path / f"b{number}", "--config", config)
            assert code == 0
            assert made["entries"] >= len(ONE_OF_EACH)
    finally:
        stop.set()
        thread.join()


def test_nothing_is_overwritten(config, journal, tmp_path, capsys):
    folder = tmp_path / "backup"
    assert answer(capsys, "backup", folder, "--config", config)[0] == 0
    code, refused = answer(capsys, "backup", folder, "--config", config)
    assert code == 1
    assert "not empty" in refused["error"]["message"]
    entries = journal.entries()
    code, refused = answer(capsys, "restore", folder, "--config", config)
    assert code == 1
    assert "does not overwrite files" in refused["error"]["message"]
    assert journal.entries() == entries


def test_a_damaged_copy_is_not_put_back(config, journal, tmp_path, capsys):
    folder = tmp_path / "backup"
    assert answer(capsys, "backup", folder, "--config", config)[0] == 0
    with sqlite3.connect(folder / "journal.db") as raw:
        raw.execute("DROP TRIGGER trimtab_no_update")
        raw.execute("UPDATE trimtab_entries SET actor = 'eve' WHERE seq = 2")
    journal.close()
    (tmp_path / "state").rename(tmp_path / "lost")
    (tmp_path / "keys" / "key").unlink()
    code, refused = answer(capsys, "restore", folder, "--config", config)
    assert code == 1
    assert f"The journal in {folder} is damaged at entry 2" in refused["error"]["message"]
    assert refused["error"]["hint"] == "Use another backup."
    assert not (tmp_path / "state" / "journal.db").exists()


def test_a_damaged_journal_is_named_where_it_is(config, journal, tmp_path, capsys):
    live = tmp_path / "state" / "journal.db"
    with sqlite3.connect(live) as raw:
        raw.execute("DROP TRIGGER trimtab_no_update")
        raw.execute("UPDATE trimtab_entries SET actor = 'eve' WHERE seq = 2")
    code, refused = answer(capsys, "backup", tmp_path / "backup", "--config", config)
    assert code == 1
    assert f"The journal {live} is damaged at entry 2" in refused["error"]["message"]
    assert "trimtab runs --verify" in refused["error"]["hint"]
    assert not (tmp_path / "backup").exists()


def test_a_folder_without_a_backup_is_named(config, tmp_path, capsys):
    (tmp_path / "empty").mkdir()
    code, refused = answer(capsys, "restore", tmp_path / "empty", "--config", config)
    assert code == 1
    assert "has no backup" in refused["error"]["message"]
