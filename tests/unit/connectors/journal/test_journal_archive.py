"""Archives: whole old runs leave the journal for a file, and both together verify as before."""

from __future__ import annotations

import json
import sqlite3
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pytest
from journal_entries import NOON, begun, claimed, ended, record_of, requested
from signed_requests import as_requested

from connectors.access.key import installation_key
from connectors.config.access import AccessConfig
from connectors.config.model import TrimtabConfig
from connectors.journal.anchor import add_anchor
from connectors.journal.archive import read_archive, write_archive
from connectors.journal.engine import OwnCheck
from connectors.journal.journal import SqlJournal
from core.access import Identity
from core.actions.authority import signed
from core.actions.events import EntriesArchived, Record, RunEnded, canonical
from core.actions.model import RunId
from core.errors import ConflictError, ForbiddenError, RemoteError
from dashboard import services
from dashboard.cli.main import run

OLD = NOON - timedelta(days=400)
RUNS = [RunId(f"20251017-12000{number}-000000") for number in range(4)]
LIFE = (requested(1), claimed(), begun(0), ended(0), RunEnded(state="DONE", sentence="All done."))


@pytest.fixture
def config(tmp_path) -> Path:
    file = tmp_path / "trimtab.toml"
    file.write_text(
        f'state_dir = "{tmp_path / "state"}"\n'
        f'[access]\nkey_file = "{tmp_path / "key"}"\n'
        f'[audit]\nkeep_days = 30\nanchor_file = "{tmp_path / "anchors"}"\n'
    )
    return file


@pytest.fixture
def key(config) -> bytes:
    return installation_key(TrimtabConfig.load(config, ()).access)


@pytest.fixture
def database(tmp_path) -> Path:
    return tmp_path / "state" / "journal.db"


@pytest.fixture
def journal(database):
    made = SqlJournal(f"sqlite:///{database}")
    yield made
    made.close()


def add(journal: SqlJournal, run_id: RunId, events=LIFE, at: datetime = OLD) -> None:
    key = Path(journal.database.url.database).parents[1] / "key"
    access = AccessConfig(key_file=key)
    for event in events:
        record = msgspec.structs.replace(record_of(event, run_id=run_id), at=at)
        journal.append(as_requested(record, access))


def answer(capsys, *words: object) -> tuple[int, dict]:
    code = run([*map(str, words), "--json"])
    return code, json.loads(capsys.readouterr().out)


def archived(capsys, config: Path, file: Path, *more: str) -> tuple[int, dict]:
    words = ("--reason", "OPS-7 retention", "--yes", "--config", config)
    return answer(capsys, "archive", file, *words, *more)


def test_old_runs_go_to_a_file_and_both_verify_together(
    config, key, database, journal, tmp_path, capsys
) -> None:
    add(journal, RUNS[0])
    add_anchor(tmp_path / "anchors", journal, key)
    add(journal, RUNS[1])
    add(journal, RUNS[2], at=datetime.now(UTC))
    add_anchor(tmp_path / "anchors", journal, key)
    whole = [list(row) for row in stored(database)]
    file = tmp_path / "2025.jsonl"
    code, made = archived(capsys, config, file)
    assert (code, made["first"], made["last"]) == (0, 1, 10)
    assert file.stat().st_mode & 0o077 == 0
    assert [row.body for row in read_archive(file)] == [row[6] for row in whole[:10]]
    assert [list(row) for row in stored(database)[:-1]] == whole[10:]

    code, found = answer(capsys, "runs", "--verify", "--config", config)
    assert (code, found["archived"], found["entries"], found["anchors"]) == (0, 10, 6, 1)
    code, found = answer(capsys, "runs", "--verify", "--archive", file, "--config", config)
    assert (code, found["archived"], found["entries"], found["anchors"]) == (0, 0, 16, 2)
    code, found = answer(capsys, "audit", "--kind", "archived", "--config", config)
    (entry,) = found["entries"]
    assert entry["record"]["event"]["reason"] == "OPS-7 retention"
    code, found = answer(capsys, "runs", "--config", config)
    assert [one["run_id"] for one in found["runs"]] == [RUNS[2]]
    assert journal.append(record_of(requested(), run_id=RUNS[3])).seq == 17


def test_a_second_archive_follows_on_the_first(config, key, journal, tmp_path, capsys) -> None:
    files = [tmp_path / f"{number}.jsonl" for number in range(2)]
    add(journal, RUNS[0])
    made = write_archive(journal, 5, files[0])
    record = msgspec.structs.replace(archive_record(made.digest), at=OLD)
    journal.remove_archived(signed(record, key), 5)
    add(journal, RUNS[1])
    code, made = archived(capsys, config, files[1])
    assert (code, made["first"], made["last"]) == (0, 6, 11)
    assert journal.verify().is_sound
    found = journal.verify(archived=[row for one in files for row in read_archive(one)])
    assert (found.damage, found.entries) == (None, 12)
    gap = journal.verify(archived=read_archive(files[0]))
    assert gap.damage is not None
    assert gap.damage.seq == 6
    assert "Entries up to 11" in gap.damage.what


def stored(database: Path) -> list[tuple]:
    with sqlite3.connect(database) as raw:
        return raw.execute("SELECT * FROM trimtab_entries ORDER BY seq").fetchall()


def test_runs_that_reach_into_what_stays_are_not_torn_apart(
    config, journal, tmp_path, capsys
) -> None:
    add(journal, RUNS[0])
    add(journal, RUNS[1], LIFE[:3])
    add(journal, RUNS[2])
    add(journal, RUNS[1], LIFE[3:], at=datetime.now(UTC))
    code, made = archived(capsys, config, tmp_path / "one.jsonl")
    assert (code, made["last"], made["open_run"]) == (0, 5, None)
    assert len(journal.entries(run_id=RUNS[1])) == 5


def test_an_open_run_keeps_all_that_follows(config, journal, tmp_path, capsys) -> None:
    add(journal, RUNS[0], LIFE[:2])
    add(journal, RUNS[1])
    code, refused = archived(capsys, config, tmp_path / "one.jsonl")
    assert code == 1
    assert f"Run {RUNS[0]} is active" in refused["error"]["message"]
    assert not (tmp_path / "one.jsonl").exists()
    assert journal.newest()[0] == 7


@pytest.mark.parametrize(
    ("setting", "more", "words"),
    [
        ("", (), "unlimited retention"),
        ("keep_days = 30\n", ("--before", "-3d"), "retained for 30 days"),
        ("keep_days = 30\n", ("--before", "2020-01-01"), "before 2020-01-01"),
    ],
)
def test_what_the_configuration_keeps_is_not_archived(
    config, journal, tmp_path, capsys, setting, more, words
) -> None:
    config.write_text(config.read_text().replace("keep_days = 30\n", setting))
    add(journal, RUNS[0])
    code, refused = archived(capsys, config, tmp_path / "one.jsonl", *more)
    assert code == 1
    assert words in refused["error"]["message"]
    assert journal.newest()[0] == 5


def test_only_an_admin_of_every_cluster_may(config, journal, tmp_path, capsys) -> None:
    config.write_text(
        config.read_text().replace("[access]\n", '[access]\nsign_in = "users"\n')
        + '[[access.grants]]\nrole = "admin"\npeople = ["ann"]\n'
        + '[[access.grants]]\nrole = "admin"\npeople = ["ben"]\nclusters = ["other-*"]\n'
    )
    add(journal, RUNS[0])
    code, refused = archived(capsys, config, tmp_path / "one.jsonl")
    assert code == 1
    assert "not signed in" in refused["error"]["message"]
    loaded = TrimtabConfig.load(config, ())
    with pytest.raises(ForbiddenError, match="archive the journal"):
        services.old_entries(loaded, None, Identity(name="ben", source="token"))
    assert services.old_entries(loaded, None, Identity(name="ann", source="token")).last == 5


def test_a_file_is_never_overwritten(config, journal, tmp_path, capsys) -> None:
    add(journal, RUNS[0])
    (tmp_path / "one.jsonl").write_text("mine")
    code, refused = archived(capsys, config, tmp_path / "one.jsonl")
    assert code == 1
    assert "does not overwrite files" in refused["error"]["message"]
    assert (tmp_path / "one.jsonl").read_text() == "mine"
    assert len(journal.entries()) == 5


def test_a_damaged_journal_is_not_archived(config, database, journal, tmp_path, capsys) -> None:
    add(journal, RUNS[0])
    with sqlite3.connect(database) as raw:
        raw.execute("DROP TRIGGER trimtab_no_update")
        raw.execute("UPDATE trimtab_entries SET actor = 'eve' WHERE seq = 2")
    code, refused = archived(capsys, config, tmp_path / "one.jsonl")
    assert code == 1
    assert "damaged at entry 2" in refused["error"]["message"]
    assert not (tmp_path / "one.jsonl").exists()


def test_forged_claims_and_ends_neither_end_an_old_run_nor_keep_it(
    config, journal, tmp_path, capsys
) -> None:
    add(journal, RUNS[0], LIFE[:4])
    unsigned = (claimed("mallory", is_takeover=True), requested(1))
    for event in unsigned:
        journal.append(msgspec.structs.replace(record_of(event, run_id=RUNS[0]), at=OLD))
    add(journal, RUNS[0], LIFE[4:])
    journal.append(msgspec.structs.replace(record_of(requested(1), run_id=RUNS[0]), at=OLD))
    add(journal, RUNS[1], LIFE[:4])
    journal.append(msgspec.structs.replace(record_of(LIFE[4], run_id=RUNS[1]), at=OLD))
    code, made = archived(capsys, config, tmp_path / "one.jsonl")
    assert (code, made["last"], made["open_run"]) == (0, 8, RUNS[1])


def test_a_database_that_is_not_as_it_should_be_is_not_archived(
    config, journal, tmp_path, capsys, monkeypatch
) -> None:
    add(journal, RUNS[0])
    said = "SQLite reports: row 3 missing from index trimtab_entries_of_run."
    check = OwnCheck(faults=(said,))
    monkeypatch.setattr("connectors.journal.engine.Database.check", lambda _: check)
    code, refused = archived(capsys, config, tmp_path / "one.jsonl")
    assert code == 1
    assert said in refused["error"]["message"]
    assert not (tmp_path / "one.jsonl").exists()


@pytest.mark.parametrize("forged", ["nothing", "unsigned", "other key"])
def test_entries_that_were_deleted_without_an_archive_are_missed(
    config, key, database, journal, capsys, forged
) -> None:
    """Whoever owns the database can delete, and can write a record of an archive, but not sign."""
    add(journal, RUNS[0])
    add(journal, RUNS[1])
    with sqlite3.connect(database) as raw:
        raw.execute("DROP TRIGGER trimtab_no_delete")
        digest = raw.execute("SELECT digest FROM trimtab_entries WHERE seq = 5").fetchone()[0]
        raw.execute("DELETE FROM trimtab_entries WHERE seq <= 5")
    with journal.database.unsealed():
        pass  # it puts the trigger back: nothing but the entries is missed
    record = archive_record(digest)
    if forged != "nothing":
        journal.append(record if forged == "unsigned" else signed(record, b"x" * 32))
    code, found = answer(capsys, "runs", "--verify", "--config", config)
    assert (code, found["damage"]["seq"]) == (1, 1)
    assert "no genuine entry records an archive" in found["damage"]["what"]
    journal.append(signed(record, key))  # the test of the test: a genuine one is believed
    code, found = answer(capsys, "runs", "--verify", "--config", config)
    assert found["damage"] is None
    assert found["unsigned"] == ([] if forged == "nothing" else [11])
    assert code == (0 if forged == "nothing" else 1)


def archive_record(digest: str, last: int = 5) -> Record:
    event = EntriesArchived(
        first=1, last=last, digest=digest, file="x", sha256="", identity=Identity(name="ann")
    )
    return Record(run_id=RunId(""), cluster="", at=NOON, actor="ann", event=event)


def test_a_changed_archive_is_named(config, journal, tmp_path, capsys) -> None:
    add(journal, RUNS[0])
    add(journal, RUNS[1], at=datetime.now(UTC))
    file = tmp_path / "one.jsonl"
    assert archived(capsys, config, file)[0] == 0
    file.write_text(file.read_text().replace("All done.", "All lost."))
    code, found = answer(capsys, "runs", "--verify", "--archive", file, "--config", config)
    assert (code, found["damage"]["seq"]) == (1, 5)
    file.write_text("no entry\n")
    code, refused = answer(capsys, "runs", "--verify", "--archive", file, "--config", config)
    assert code == 1
    assert "line 1 is not a journal entry" in refused["error"]["message"]
    file.write_text("")
    code, refused = answer(capsys, "runs", "--verify", "--archive", file, "--config", config)
    assert (code, refused["error"]["message"]) == (1, f"The archive {file} is empty.")


def test_a_run_that_was_written_meanwhile_stops_the_removal(journal) -> None:
    add(journal, RUNS[0])
    add(journal, RUNS[1], LIFE[:1])
    found = journal.archivable(NOON)
    digest = journal.entries()[4].digest
    assert (found.last, found.open_run) == (5, RUNS[1])
    add(journal, RUNS[0], [requested()])
    with pytest.raises(ConflictError, match="changed during archiving"):
        journal.remove_archived(archive_record(digest), found.newest)
    with pytest.raises(ConflictError, match="changed during archiving"):
        journal.remove_archived(archive_record("f" * 64), journal.newest()[0])
    assert len(journal.entries()) == 7


def test_the_database_refuses_deletes_again_and_after_a_failure(database, journal) -> None:
    add(journal, RUNS[0])
    digest = journal.newest()[1]
    with sqlite3.connect(database) as raw:  # the record itself cannot be added
        raw.execute(
            "CREATE TRIGGER full BEFORE INSERT ON trimtab_entries "
            "BEGIN SELECT RAISE(ABORT, 'disk is full'); END"
        )
    with pytest.raises(RemoteError):
        journal.remove_archived(archive_record(digest), 5)
    assert len(journal.entries()) == 5
    refuses_deletes(database)
    with sqlite3.connect(database) as raw:
        raw.execute("DROP TRIGGER full")
    journal.remove_archived(archive_record(digest), 5)
    assert [entry.seq for entry in journal.entries()] == [6]
    refuses_deletes(database)


def refuses_deletes(database: Path) -> None:
    with (
        sqlite3.connect(database) as raw,
        pytest.raises(sqlite3.IntegrityError, match="only ever added to"),
    ):
        raw.execute("DELETE FROM trimtab_entries")


@pytest.mark.slow
def test_writers_go_on_while_entries_are_archived(config, database, journal, tmp_path, capsys):
    for _ in range(40):
        add(journal, RUNS[0], [claimed()] * 25)
    stop, added = threading.Event(), []

    def write() -> None:
        while not stop.is_set():
            record = record_of(claimed(), run_id=RUNS[1])
            added.append(journal.append(msgspec.structs.replace(record, at=datetime.now(UTC))))

    thread = threading.Thread(target=write)
    thread.start()
    try:
        code, made = archived(capsys, config, tmp_path / "one.jsonl")
    finally:
        stop.set()
        thread.join()
    assert (code, made["last"]) == (0, 1000)
    found = journal.verify(archived=read_archive(tmp_path / "one.jsonl"))
    assert (found.damage, found.entries) == (None, 1000 + 1 + len(added))
    assert canonical(added[0].record) in {row[6] for row in stored(database)}
