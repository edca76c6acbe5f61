"""Whoever can write the journal's database without the key: it has no effect, and is named."""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from unittest.mock import Mock

import msgspec
import pytest
from journal_entries import RUN, WORKER, begun, claimed, ended, plan_of, record_of, requested

from connectors.access.key import signature_check
from connectors.config.model import TrimtabConfig
from connectors.journal.journal import SqlJournal
from connectors.pegasus.acting.pending import PendingProposals
from connectors.recording.steps import RunSteps
from connectors.systems import open_journal
from connectors.worker import worker
from core.access import Identity
from core.actions.authority import signed
from core.actions.events import (
    FIRST_LINK,
    ControlRequested,
    Event,
    Record,
    RunDecided,
    RunEnded,
    RunRefused,
    RunRequested,
    SettingChanged,
    SettingSaved,
    canonical,
    link,
)
from core.actions.model import RunId
from core.actions.runs import fold
from core.pegasus.steps.level import SetMetaLevel
from core.pegasus.steps.move import MoveReplica
from core.pegasus.steps.partition import Partition
from core.plan.model import sealed
from core.units import datetime_to_ms
from dashboard import services
from dashboard.cli.main import run

KEY = "ab" * 32
NOW = datetime.now(UTC).replace(microsecond=0)
FORGED: dict[str, Event] = {
    "claim": claimed("mallory"),
    "end": RunEnded(state="DONE", sentence="All done."),
    "refusal": RunRefused(code="plan_expired", sentence="Too late."),
    "approval": RunDecided(is_approved=True),
    "stop": ControlRequested(control="stop"),
}


@pytest.fixture
def config(tmp_path: Path, monkeypatch) -> Path:
    key = tmp_path / "key"
    key.write_text(KEY)
    key.chmod(0o600)
    file = tmp_path / "trimtab.toml"
    file.write_text(
        f'state_dir = "{tmp_path}"\n[access]\nkey_file = "{key}"\n'
        '[[clusters]]\nname = "prod"\nzookeeper = "z:1"\n'
    )
    monkeypatch.setenv(services.CONFIG_ENV, str(file))
    return file


@pytest.fixture
def plain(config: Path, tmp_path: Path) -> Iterator[SqlJournal]:
    """The journal as a program with the database's password sees it."""
    made = SqlJournal(f"sqlite:///{tmp_path / 'journal.db'}")
    yield made
    made.close()


@pytest.fixture
def journal(config: Path, plain: SqlJournal) -> Iterator[SqlJournal]:
    """The journal as workers, pages and commands open it."""
    made = open_journal(TrimtabConfig.load(config, ()))
    yield made
    made.close()


def genuine(event: Event, second: int = 0, actor: str | None = None) -> Record:
    """An entry of now with this installation's signature."""
    record = record_of(event, actor=actor)
    if isinstance(event, RunRequested | ControlRequested | RunDecided):
        event = msgspec.structs.replace(event, identity=Identity(name=record.actor))
    at = NOW + timedelta(seconds=second)
    record = msgspec.structs.replace(record, at=at, event=event)
    return signed(record, bytes.fromhex(KEY))


def forged(event: Event, second: int = 50, actor: str = "mallory") -> Record:
    record = record_of(event, actor=actor)
    return msgspec.structs.replace(record, at=NOW + timedelta(seconds=second))


def answer(capsys, *words: object) -> tuple[int, dict]:
    code = run([*map(str, words), "--json"])
    return code, json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("is_signed", [False, True], ids=["unsigned", "another key"])
@pytest.mark.parametrize("name", FORGED)
def test_a_waiting_run_still_waits(
    journal: SqlJournal, plain: SqlJournal, name: str, *, is_signed: bool
) -> None:
    plain.append(genuine(requested()))
    assert journal.open_runs("prod") == (RUN,)
    record = forged(FORGED[name])
    plain.append(signed(record, b"x" * 32) if is_signed else record)
    assert journal.open_runs("prod") == (RUN,)
    fresh = SqlJournal(plain.database.url.render_as_string(), is_genuine=journal._is_genuine)
    assert fresh.open_runs("prod") == (RUN,)
    fresh.close()
    view = fold(journal.entries(run_id=RUN))
    assert (view.state, view.worker, view.control, view.decision) == ("QUEUED", "", None, None)
    assert view.forged == (2,)


def test_a_genuine_end_ends_a_run_whatever_was_forged_before(
    journal: SqlJournal, plain: SqlJournal
) -> None:
    for second, event in enumerate((requested(1), claimed(), begun(0), ended(0))):
        plain.append(genuine(event, second))
    plain.append(forged(claimed("mallory", is_takeover=True)))
    plain.append(genuine(RunEnded(state="DONE", sentence="Done."), 60))
    plain.append(forged(requested(1), 70))  # it opens no ended run again
    assert journal.open_runs("prod") == ()
    view = fold(journal.entries(run_id=RUN))
    assert (view.state, view.worker, view.forged) == ("DONE", WORKER, (5, 7))


def test_a_refusal_ends_a_forged_run_whose_claim_is_forged_too(
    journal: SqlJournal, plain: SqlJournal
) -> None:
    plain.append(forged(requested()))
    plain.append(forged(claimed("mallory")))
    assert journal.open_runs("prod") == (RUN,)
    plain.append(genuine(RunRefused(code="not_signed", sentence="Nobody signed it."), 60, WORKER))
    assert journal.open_runs("prod") == ()
    fresh = SqlJournal(plain.database.url.render_as_string(), is_genuine=journal._is_genuine)
    assert fresh.open_runs("prod") == ()
    fresh.close()


def test_a_run_that_has_ended_does_not_block_those_behind_it(
    config: Path, journal: SqlJournal, plain: SqlJournal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its claim is forged and not looked at any more: the list of open runs keeps it."""
    second = RunId("second")
    plain.append(genuine(requested()))
    plain.append(msgspec.structs.replace(genuine(requested()), run_id=second))
    executed: list[RunId] = []

    def execute(run_id: RunId, _ports: object) -> str:
        executed.append(run_id)
        return "REFUSED"

    loaded = TrimtabConfig.load(config, ())
    loop = worker._WorkerLoop(loaded, loaded.cluster("prod"), threading.Event(), lambda _: None)
    monkeypatch.setattr(worker, "execute_run", execute)
    monkeypatch.setattr(loop, "_new_lease", lambda _: Mock(place="here"))
    monkeypatch.setattr(loop, "_opened", lambda _: Mock())
    monkeypatch.setattr(loop, "_journal", journal)
    for _ in range(3):
        loop._turn()
    assert executed == [RUN, second]


def test_a_genuine_text_under_other_columns_ends_no_run(
    journal: SqlJournal, plain: SqlJournal
) -> None:
    plain.append(genuine(requested()))
    claim = plain.append(genuine(claimed(), 1))
    body = canonical(claim.record)
    row = (3, RUN, "prod", round(NOW.timestamp() * 1000), WORKER, "RunEnded", body)
    with sqlite3.connect(plain.database.url.database) as raw:
        values = (*row, claim.digest, link(claim.digest, 3, body))
        raw.execute("INSERT INTO trimtab_entries VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", values)
    assert plain.open_runs("prod") == ()
    assert journal.open_runs("prod") == (RUN,)


def test_forged_moves_spend_no_budget_and_set_no_pace(
    journal: SqlJournal, plain: SqlJournal
) -> None:
    plain.append(genuine(requested(1)))
    plain.append(genuine(begun(0), 1))
    for second in range(5):
        plain.append(forged(begun(0), 50 + second))
    plain.append(genuine(begun(0), 1))  # a copy of the second
    assert plain.moves_since("prod", NOW) == 7
    assert journal.moves_since("prod", NOW) == 1
    assert journal.last_begun("prod", NOW) == NOW + timedelta(seconds=1)
    assert journal.runs_acting("prod", NOW, NOW + timedelta(hours=1)) == [RUN]


def test_a_forged_request_does_not_make_a_plan_applied_already(
    journal: SqlJournal, plain: SqlJournal
) -> None:
    plan = plan_of(1, created_at=NOW, expires_at=NOW + timedelta(minutes=10))
    other = msgspec.structs.replace(forged(requested(plan=plan)), run_id=RunId("other"))
    plain.append(other)
    plain.append(genuine(requested(plan=plan)))
    assert list(plain.runs_of_plan(plan)) == ["other", RUN]
    assert list(journal.runs_of_plan(plan)) == [RUN]
    assert set(journal.open_runs("prod")) == {"other", RUN}  # a worker refuses the forged one


def test_a_forged_run_is_no_event_and_explains_nothing(
    journal: SqlJournal, plain: SqlJournal
) -> None:
    setting = SettingSaved(key="loadBalancerSheddingEnabled", before="true", during="false")
    changed = SettingChanged(key=setting.key)
    for second, event in enumerate((requested(), claimed(), begun(0), setting, changed, ended(0))):
        plain.append(forged(event, second, WORKER))
    steps = RunSteps(journal, "prod", 0, datetime_to_ms(NOW), lambda key: (key,))
    steps.read()
    assert steps.pending() == []
    assert steps.run_changes(datetime_to_ms(NOW)) == []
    believing = RunSteps(plain, "prod", 0, datetime_to_ms(NOW), lambda key: (key,))
    believing.read()  # the test of the test
    assert believing.pending()
    assert believing.run_changes(datetime_to_ms(NOW))


def test_a_forged_run_has_thrown_no_proposal_away(journal: SqlJournal, plain: SqlJournal) -> None:
    partition = Partition(gpid="2.0", table="t", ballot=1, max_replica_count=3, primary="r1:34801")
    move = MoveReplica(partition=partition, move="move_pri", source="r1:34801", target="r2:34801")
    proposed = (
        requested(plan=sealed(replace(plan_of(1), steps=(move,)))),
        claimed(),
        begun(0),
        ended(0, "UNKNOWN", "timed_out"),
        RunEnded(state="FAILED", sentence="One step is unknown."),
    )
    for second, event in enumerate(proposed):
        plain.append(genuine(event, second))
    pending = PendingProposals(journal, "prod")
    assert pending() == {partition.gpid}
    level = sealed(replace(plan_of(1), steps=(SetMetaLevel(before="steady", level="steady"),)))
    for second, event in enumerate((requested(plan=level), claimed(), begun(0), ended(0)), 50):
        record = forged(event, second, WORKER)
        plain.append(msgspec.structs.replace(record, run_id=RunId("other")))
    assert pending() == {partition.gpid}
    assert PendingProposals(plain, "prod")() == frozenset()  # the test of the test


def test_copies_are_named(journal: SqlJournal, plain: SqlJournal) -> None:
    request = genuine(requested(1))
    approval = genuine(RunDecided(is_approved=True), 5, actor="ben")
    for record in (request, approval, genuine(claimed(), 6), request, approval):
        plain.append(record)
    view = fold(journal.entries(run_id=RUN))
    assert view.forged == (4, 5)
    assert journal.run_ids() == [RUN]
    assert view.state == "RUNNING"


def test_without_a_key_every_entry_is_believed(plain: SqlJournal, tmp_path: Path) -> None:
    plain.append(forged(requested(1)))
    check = signature_check(tmp_path / "none")
    assert check(plain.entries()[0].record)
    assert not (tmp_path / "none").exists()


# -- runs --verify ---------------------------------------------------------------------------------


def test_five_forged_entries_are_named(config, plain, capsys) -> None:
    plain.append(genuine(requested(1)))
    for second, event in enumerate(FORGED.values()):
        plain.append(forged(event, 50 + second))
    code, found = answer(capsys, "runs", "--verify")
    assert code == 1
    assert not found["is_sound"]
    assert found["damage"] is None
    assert found["unsigned"] == [2, 3, 4, 5, 6]
    assert run(["runs", "--verify"]) == 1
    said = " ".join(capsys.readouterr().out.split())
    assert "is NOT INTACT" in said
    assert "Not genuine: 5 entries of 6" in said
    assert "2, 3, 4, 5, 6" in said


def test_a_copy_is_named(config, plain, capsys) -> None:
    record = genuine(requested(1))
    plain.append(record)
    assert answer(capsys, "runs", "--verify")[0] == 0
    plain.append(record)
    code, found = answer(capsys, "runs", "--verify")
    assert (code, found["unsigned"]) == (1, [2])


def test_what_is_no_record_is_named(config, plain, capsys) -> None:
    """Its hash and columns fit: only a reader of the record notices."""
    first = plain.append(genuine(requested(1)))
    record = {"run_id": RUN, "cluster": "prod", "actor": "eve", "at": f"{NOW:%Y-%m-%dT%H:%M:%SZ}"}
    body = json.dumps({**record, "event": {"kind": "Nonsense"}, "format_version": 2})
    row = (2, RUN, "prod", round(NOW.timestamp() * 1000), "eve", "Nonsense", body)
    with sqlite3.connect(plain.database.url.database) as raw:
        values = (*row, first.digest, link(first.digest, 2, body))
        raw.execute("INSERT INTO trimtab_entries VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", values)
    code, found = answer(capsys, "runs", "--verify")
    assert (code, found["unsigned"]) == (1, [2])


def test_signatures_that_cannot_be_checked_are_no_answer(config, plain, tmp_path, capsys) -> None:
    plain.append(genuine(requested(1)))
    (tmp_path / "key").unlink()
    code, found = answer(capsys, "runs", "--verify")
    assert code == 3
    assert "Signatures were not verified" in found["problems"][0]
    assert not (tmp_path / "key").exists()  # whoever only reads makes none


def test_the_database_checks_itself(config, plain, tmp_path, capsys) -> None:
    """An index that lacks an entry hides it from the queries; the chain of all entries is whole."""
    plain.append(genuine(requested(1)))
    plain.close()
    name = "trimtab_entries_of_run"
    with sqlite3.connect(tmp_path / "journal.db", isolation_level=None) as raw:
        raw.execute("PRAGMA writable_schema=ON")
        index = raw.execute("SELECT * FROM sqlite_master WHERE name = ?", (name,)).fetchone()
        raw.execute("DELETE FROM sqlite_master WHERE name = ?", (name,))
    raw.close()
    plain.append(genuine(claimed(), 1))
    plain.close()
    with sqlite3.connect(tmp_path / "journal.db", isolation_level=None) as raw:
        raw.execute("PRAGMA writable_schema=ON")
        raw.execute("INSERT INTO sqlite_master VALUES (?, ?, ?, ?, ?)", index)
    raw.close()
    code, found = answer(capsys, "runs", "--verify")
    assert code == 1
    assert found["damage"] is None
    assert any("SQLite reports" in one and name in one for one in found["problems"])


def test_pages_of_the_file_that_cannot_be_read_are_damage(config, plain, tmp_path, capsys) -> None:
    for second in range(60):
        plain.append(genuine(requested(4), second))
    plain.close()
    with (tmp_path / "journal.db").open("r+b") as file:
        size = file.seek(0, 2)
        file.seek(size // 2)
        file.write(b"\xff" * 8192)
    code, found = answer(capsys, "runs", "--verify")
    assert code == 1
    assert not found["is_sound"]
    assert any("SQLite reports" in one or "is damaged" in one for one in found["problems"])


@pytest.mark.parametrize(
    "statement",
    [
        "DROP TRIGGER trimtab_no_update",
        (
            "DROP TRIGGER trimtab_no_delete; CREATE TRIGGER trimtab_no_delete BEFORE DELETE ON "
            "trimtab_entries BEGIN SELECT 1; END"
        ),
    ],
)
def test_a_database_that_allows_changes_is_named(
    config, plain, tmp_path, capsys, statement
) -> None:
    plain.append(genuine(requested(1)))
    with sqlite3.connect(tmp_path / "journal.db") as raw:
        raw.executescript(statement)
    code, found = answer(capsys, "runs", "--verify")
    assert code == 1
    assert "no longer protects entries" in found["problems"][0]


@pytest.mark.parametrize(
    ("recorded", "words"),
    [
        ({1: RUN, 9: RUN}, "ends with entry 1, but the history refers to entry 9"),
        ({1: "another"}, "Entry 1 differs from the entry of run another"),
        ({1: RUN}, ""),
    ],
)
def test_what_the_history_has_must_be_in_the_journal(plain, recorded, words) -> None:
    plain.append(genuine(requested(1)))
    found = plain.verify(recorded=recorded)
    assert words in found.lost
    assert bool(found.lost) is bool(words)
    assert found.is_sound is not bool(words)


def test_an_empty_journal_is_a_loss_where_the_history_has_entries(plain) -> None:
    assert plain.verify().is_sound
    found = plain.verify(recorded={3: RUN})
    assert not found.is_sound
    assert "The journal is empty, but the history refers to entry 3" in found.problems[0]
    assert (found.newest_seq, found.newest_digest) == (0, FIRST_LINK)
