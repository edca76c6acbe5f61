"""State folders that earlier versions left are opened, read, written and verified by this one.

``tests/fixtures/state`` holds what the versions of those days wrote about one small cluster at noon
of 2026-11-21: three snapshots, three minutes of history, a journal with an entry of each kind, a
job, an alert; the later one a person with a token, too.
"""

from __future__ import annotations

import json
import shutil
import tarfile
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest
from fleet_builder import NOON, make_history
from journal_entries import ONE_OF_EACH, record_of
from places import FIXTURES

from connectors.access.users import UserFile
from connectors.alerts.store import AlertStore
from connectors.config.model import TrimtabConfig
from connectors.jobs.queue import queue_of
from connectors.journal.engine import Database
from connectors.journal.journal import SqlJournal
from core.history.queries.sql import HistoryReader, Period
from core.history.store.store import HistoryLocation, HistoryStore
from core.history.store.writer import Recorder
from core.pulsar.system import PULSAR
from core.snapshot.store import SnapshotStore
from dashboard import services
from dashboard.cli.main import run

STATES = sorted((FIXTURES / "state").glob("*.tar.xz"))


@pytest.fixture(params=STATES, ids=lambda path: path.name.partition(".")[0])
def state(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Path]:
    with tarfile.open(request.param) as packed:
        packed.extractall(tmp_path, filter="data")
    config = tmp_path / "trimtab.toml"
    config.write_text(
        f'state_dir = "{tmp_path / "state"}"\n[access]\nkey_file = "{tmp_path / "key"}"\n'
        '[[clusters]]\nname = "prod"\nadmin_urls = ["http://127.0.0.1:9"]\n'
    )
    monkeypatch.setenv(services.CONFIG_ENV, str(config))
    monkeypatch.setenv("TRIMTAB_CONFIG", str(config))
    for cached in (services._journal_at, services._runbook_at):
        cached.cache_clear()
    yield tmp_path / "state"
    for cached in (services._journal_at, services._runbook_at):
        cached.cache_clear()


def test_its_journal_is_read_verified_and_continued(state: Path) -> None:
    with closing(SqlJournal(f"sqlite:///{state / 'journal.db'}")) as journal:
        before = journal.entries()
        assert len(before) >= 10
        found = journal.verify()
        assert found.is_sound
        assert found.entries == len(before)
        assert journal.append(record_of(ONE_OF_EACH[0])).seq == len(before) + 1
        assert journal.verify().is_sound


def test_its_snapshots_are_read(state: Path) -> None:
    saved = SnapshotStore(state / "snapshots").entries("prod")
    assert [one.taken_at for one in saved] == [
        NOON - minute * timedelta(minutes=1) for minute in (2, 1, 0)
    ]
    for one in saved:
        snapshot = PULSAR.record.load(one.path)
        assert snapshot.brokers.num_rows == 3
        assert snapshot.bundles.num_rows == 15  # with those of the brokers' own namespaces


def test_its_history_is_read_checked_and_continued(state: Path) -> None:
    store = HistoryStore(HistoryLocation(str(state / "history")))
    assert store.minutes("prod").num_rows == 3
    assert store.problems("prod") == []
    assert store.snapshot_at("prod", NOON).brokers.num_rows == 3
    period = Period(NOON - timedelta(hours=1), NOON)
    found = HistoryReader(store, "prod").ask("SELECT count(*) AS n FROM rows", "brokers", period)
    assert found is not None
    assert found.to_pylist() == [{"n": 9}]
    later = NOON + timedelta(minutes=3)
    (snapshot,) = make_history(1, brokers=3, bundles=12, now=later, cluster="prod")
    assert Recorder(HistoryStore(store.location), "prod").record(snapshot).is_new
    assert store.minutes("prod").num_rows == 4
    again = HistoryStore(store.location)
    assert again.snapshot_at("prod", NOON).snapshot_id
    stored = again.snapshot_at("prod", later)
    assert stored.brokers.sort_by("broker").equals(snapshot.brokers.sort_by("broker"))
    again.compact("prod", NOON + timedelta(hours=5))
    assert again.snapshot_at("prod", later).brokers.num_rows == 3
    assert again.problems("prod") == []


def test_its_jobs_people_and_alerts_are_there(state: Path) -> None:
    with closing(queue_of(TrimtabConfig(state_dir=state))) as queue:
        (job,) = queue.jobs()
        assert (job.state, job.problem) == ("stopped", "")
        assert queue.add("fleet_health", {}, "ann", NOON) != job.id
    users = UserFile(state / "users.json")
    with closing(Database(f"sqlite:///{state / 'journal.db'}")) as database:
        alerts = AlertStore(database).alerts()
    assert [one.state for one in alerts.values()] == ["firing"]
    if not users.users():
        assert not (state / "token.txt").exists()  # that version had none
        return
    assert users.verified("ann", "correct horse battery") is not None
    assert users.of_token((state / "token.txt").read_text(), NOON).groups == ("sre",)


@pytest.mark.parametrize(
    "words",
    [
        ("runs",),
        ("runs", "--verify"),
        ("audit",),
        ("history", "minutes", "prod"),
        ("jobs", "list"),
        ("alerts", "list"),
        ("users", "list"),
        ("backup", "{out}"),
    ],
    ids=" ".join,
)
def test_commands_work_on_it(
    state: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...]
) -> None:
    assert run([*(one.format(out=tmp_path / "copy") for one in words), "--json"]) in (0, 3)
    body = json.loads(capsys.readouterr().out)
    assert "error" not in body


def test_it_is_backed_up_and_restored(
    state: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["backup", str(tmp_path / "copy"), "--json"]) == 0
    made = json.loads(capsys.readouterr().out)
    shutil.rmtree(state)
    services._journal_at.cache_clear()
    assert run(["restore", str(tmp_path / "copy"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["digest"] == made["digest"]
