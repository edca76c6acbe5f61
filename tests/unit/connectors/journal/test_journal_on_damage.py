"""A journal that was tampered with, or is on a read-only disk: listed, and named."""

from __future__ import annotations

import errno
import json
import os
import sqlite3
from pathlib import Path

import filelock
import pytest
from journal_entries import NOON, RUN, requested

from connectors.journal.journal import SqlJournal
from core.actions.events import Record
from core.actions.model import RunId
from core.actions.runs import fold
from core.errors import InvariantError, OpsError
from dashboard import services
from dashboard.cli.main import run


@pytest.fixture
def state(tmp_path: Path, monkeypatch) -> Path:
    config = tmp_path / "trimtab.toml"
    config.write_text(
        f'state_dir = "{tmp_path}"\n[access]\nkey_file = "{tmp_path}/no.key"\n'
        '[[clusters]]\nname = "c"\nadmin_urls = ["http://127.0.0.1:9"]\n'
    )
    monkeypatch.setenv(services.CONFIG_ENV, str(config))
    services._journal_at.cache_clear()
    services._runbook_at.cache_clear()
    yield tmp_path
    services._journal_at.cache_clear()
    services._runbook_at.cache_clear()


def journal_of(folder: Path) -> SqlJournal:
    return SqlJournal(f"sqlite:///{folder / 'journal.db'}")


def filled(folder: Path, runs: int = 3) -> None:
    journal = journal_of(folder)
    for number in range(runs):
        run_id = RunId(f"20261121-12000{number}-abcdef")
        record = Record(run_id=run_id, cluster="c", at=NOON, actor="ann", event=requested())
        journal.append(record)
    journal.close()


def tampered(folder: Path, statement: str) -> None:
    """As somebody with the database's password would: past the triggers that refuse changes."""
    with sqlite3.connect(folder / "journal.db") as connection:
        kind = "SELECT name FROM sqlite_master WHERE type = 'trigger'"
        for (name,) in connection.execute(kind).fetchall():
            connection.execute(f"DROP TRIGGER {name}")
        connection.execute(statement)


EDITED = "UPDATE trimtab_entries SET body = replace(body, 'too hot', 'no cause') WHERE seq = 2"
MOVED = "UPDATE trimtab_entries SET cluster = 'other' WHERE seq = 2"
REMOVED = "DELETE FROM trimtab_entries WHERE seq = 2"


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        (EDITED, "Entry 2 of the journal was altered: Its content does not match"),
        (MOVED, "Its column cluster does not match its content."),
        (REMOVED, "It is missing."),
    ],
)
def test_runs_names_a_tampered_entry(state: Path, capsys, statement: str, words: str) -> None:
    filled(state)
    tampered(state, statement)
    assert run(["runs", "--json"]) == 3
    out, err = capsys.readouterr()
    body = json.loads(out)
    assert len(body["problems"]) == 1
    assert words in body["problems"][0]
    assert words in err
    if statement is EDITED:
        assert run(["runs"]) == 3
        assert "DAMAGED" in capsys.readouterr().out


def test_sound_journal_is_listed_without_a_word(state: Path, capsys) -> None:
    filled(state)
    assert run(["runs", "--json"]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["problems"] == []
    assert not err


def test_worker_does_not_carry_out_a_tampered_request(tmp_path: Path) -> None:
    filled(tmp_path)
    tampered(tmp_path, EDITED)
    journal = journal_of(tmp_path)
    entries = journal.entries(run_id=RunId("20261121-120001-abcdef"))
    with pytest.raises(InvariantError, match="Entry 2 of the journal was altered"):
        fold(entries)
    journal.close()


@pytest.mark.parametrize("has_log", [False, True])
def test_journal_on_a_read_only_disk_is_listed(
    state: Path, capsys, monkeypatch, *, has_log: bool
) -> None:
    filled(state)
    reader = sqlite3.connect(state / "journal.db")
    if has_log:  # a reader keeps the log from being folded into the file
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM trimtab_entries").fetchall()
        journal = journal_of(state)
        run_id = RunId("20261121-120009-abcdef")
        record = Record(run_id=run_id, cluster="c", at=NOON, actor="ann", event=requested())
        journal.append(record)
        journal.close()

    def refused(*_: object, **__: object) -> object:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(filelock.FileLock, "acquire", refused)
    monkeypatch.setattr(os, "access", lambda _path, mode: mode != os.W_OK)
    assert run(["runs", "--json"]) == 0
    body = json.loads(capsys.readouterr().out)
    assert len(body["runs"]) == 3 + has_log
    assert "(read-only)" in body["journal"]
    journal = journal_of(state)
    with pytest.raises(OpsError, match=r"read-only|readonly"):
        journal.append(Record(run_id=RUN, cluster="c", at=NOON, actor="a", event=requested()))
    journal.close()
    reader.close()
