"""Anchors: a journal that was written again, or whose end was cut off, does not agree with them."""

from __future__ import annotations

import json
import sqlite3
import threading
from pathlib import Path

import pytest
from journal_entries import RUN, claimed, record_of

from connectors.journal.anchor import add_anchor, keep_anchored, read_anchors
from connectors.journal.journal import SqlJournal
from core.actions.authority import signed
from core.actions.events import FIRST_LINK, link
from core.errors import ConfigError, InputError
from dashboard.cli.main import run as run_command

KEY = b"k" * 32


@pytest.fixture
def database(tmp_path) -> Path:
    return tmp_path / "state" / "journal.db"


@pytest.fixture
def journal(database):
    made = SqlJournal(f"sqlite:///{database}")
    yield made
    made.close()


def grow(journal: SqlJournal, entries: int) -> None:
    first = journal.newest()[0]
    for second in range(first, first + entries):
        journal.append(signed(record_of(claimed(), run_id=RUN, second=second), KEY))


def anchored(file: Path, journal: SqlJournal) -> dict[int, str]:
    for _ in range(3):
        grow(journal, 4)
        assert add_anchor(file, journal, KEY) is not None
    return {one.seq: one.digest for one in read_anchors(file, KEY)}


def write_again(database: Path, first: int) -> None:
    """Do what somebody can who owns the database: change an entry, and make a sound chain of it."""
    with sqlite3.connect(database) as raw:
        for name in ("trimtab_no_update", "trimtab_no_delete"):
            raw.execute(f"DROP TRIGGER {name}")
        rows = raw.execute(
            "SELECT seq, body, previous FROM trimtab_entries ORDER BY seq"
        ).fetchall()
        previous = FIRST_LINK
        for seq, body, stored in rows:
            if seq < first:
                previous = raw.execute(
                    "SELECT digest FROM trimtab_entries WHERE seq = ?", (seq,)
                ).fetchone()[0]
                continue
            del stored
            text = body.replace('"actor":"', '"actor":"not-', 1) if seq == first else body
            actor = json.loads(text)["actor"]
            digest = link(previous, seq, text)
            raw.execute(
                "UPDATE trimtab_entries SET body = ?, actor = ?, previous = ?, digest = ? "
                "WHERE seq = ?",
                (text, actor, previous, digest, seq),
            )
            previous = digest


def test_anchors_of_an_untouched_journal_agree(tmp_path, journal):
    known = anchored(tmp_path / "anchors.jsonl", journal)
    assert set(known) == {4, 8, 12}
    found = journal.verify(anchors=known)
    assert found.is_sound
    assert found.anchors == 3


def test_nothing_is_added_while_the_journal_does_not_grow(tmp_path, journal):
    file = tmp_path / "anchors.jsonl"
    assert add_anchor(file, journal, KEY) is None
    assert not file.exists()
    anchored(file, journal)
    assert add_anchor(file, journal, KEY) is None
    assert len(read_anchors(file, KEY)) == 3
    assert file.stat().st_mode & 0o077 == 0


def test_a_journal_written_again_is_found_between_two_anchors(tmp_path, journal, database):
    known = anchored(tmp_path / "anchors.jsonl", journal)
    write_again(database, 6)
    assert journal.verify().damage is None
    found = journal.verify(anchors=known)
    assert found.damage is not None
    assert found.damage.seq == 8
    assert "after entry 4" in found.damage.what


def test_a_cut_end_is_found(tmp_path, journal, database):
    known = anchored(tmp_path / "anchors.jsonl", journal)
    with sqlite3.connect(database) as raw:
        raw.execute("DROP TRIGGER trimtab_no_delete")
        raw.execute("DELETE FROM trimtab_entries WHERE seq > 9")
    assert journal.verify().damage is None
    found = journal.verify(anchors=known)
    assert found.damage is not None
    assert found.damage.seq == 10
    assert "truncated" in found.damage.what


def test_anchors_of_another_key_or_a_changed_line_are_refused(tmp_path, journal):
    file = tmp_path / "anchors.jsonl"
    anchored(file, journal)
    with pytest.raises(InputError, match="line 1 does not have"):
        read_anchors(file, b"x" * 32)
    file.write_bytes(file.read_bytes().replace(b'"seq":8', b'"seq":9'))
    with pytest.raises(InputError, match="line 2 does not have"):
        read_anchors(file, KEY)
    file.write_text("no anchor\n")
    with pytest.raises(InputError, match="line 1 is not an anchor"):
        read_anchors(file, KEY)


def test_a_line_whose_writer_was_killed_is_left_out(tmp_path, journal):
    file = tmp_path / "anchors.jsonl"
    anchored(file, journal)
    file.write_bytes(file.read_bytes()[:-10])
    assert [one.seq for one in read_anchors(file, KEY)] == [4, 8]


def test_a_file_without_a_cut_line_is_only_appended_to(tmp_path, journal, monkeypatch):
    """Another process may append at the same moment, and the file may allow nothing else."""
    file = tmp_path / "anchors.jsonl"
    anchored(file, journal)
    before = file.read_bytes()
    grow(journal, 1)
    opened = Path.open

    def open_append_only(path: Path, mode: str = "r", *arguments, **more):
        if "+" in mode or "w" in mode:
            raise PermissionError(1, "Operation not permitted")
        return opened(path, mode, *arguments, **more)

    monkeypatch.setattr(Path, "open", open_append_only)
    assert add_anchor(file, journal, KEY) is not None
    assert file.read_bytes().startswith(before)
    assert [one.seq for one in read_anchors(file, KEY)] == [4, 8, 12, 13]


def test_a_cut_line_does_not_spoil_the_next_anchor(tmp_path, journal):
    file = tmp_path / "anchors.jsonl"
    anchored(file, journal)
    file.write_bytes(file.read_bytes()[:-10])
    grow(journal, 1)
    assert add_anchor(file, journal, KEY) is not None
    assert [one.seq for one in read_anchors(file, KEY)] == [4, 8, 13]


def test_a_folder_that_is_not_there_is_said(tmp_path, journal):
    grow(journal, 1)
    with pytest.raises(ConfigError, match="cannot be written"):
        add_anchor(tmp_path / "no" / "anchors.jsonl", journal, KEY)


def test_the_worker_anchors_what_came_until_its_end(tmp_path, journal, database):
    file, stop = tmp_path / "anchors.jsonl", threading.Event()
    grow(journal, 2)
    thread = threading.Thread(
        target=keep_anchored,
        args=(file, 60.0, lambda: SqlJournal(f"sqlite:///{database}"), KEY, stop),
    )
    thread.start()
    while not file.exists():
        stop.wait(0.01)
    grow(journal, 3)
    stop.set()
    thread.join(timeout=20)
    assert [one.seq for one in read_anchors(file, KEY)] == [2, 5]


def test_the_command_names_what_does_not_agree(tmp_path, database, journal, capsys):
    key, file, config = tmp_path / "key", tmp_path / "anchors.jsonl", tmp_path / "trimtab.toml"
    key.write_text(KEY.hex())
    key.chmod(0o600)
    config.write_text(
        f'state_dir = "{database.parent}"\n[access]\nkey_file = "{key}"\n'
        f'[audit]\nanchor_file = "{file}"\n'
    )
    anchored(file, journal)
    words = ["runs", "--verify", "--config", str(config)]
    assert run_command(words) == 0
    assert "3 anchors match" in capsys.readouterr().out
    write_again(database, 12)
    assert run_command([*words, "--json"]) == 1
    body = json.loads(capsys.readouterr().out)
    assert body["damage"]["seq"] == 12
    assert body["anchors"] == 2
    assert run_command(["runs", "--anchors", str(file), "--config", str(config)]) == 2
