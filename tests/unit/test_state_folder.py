"""A state folder that is not as it was: moved away, replaced, linked, half written.

What cannot be used is named with its place and its remedy, and nothing is written where it is lost.
"""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from child_process import until
from fleet_builder import NOON, make_history, make_snapshot
from journal_entries import ONE_OF_EACH, record_of

from connectors.alerts import watch as alert_watch
from connectors.config.model import TrimtabConfig
from connectors.journal.anchor import add_anchor, read_anchors
from connectors.journal.engine import Database
from connectors.journal.journal import SqlJournal
from connectors.journal.lease import SqlLease
from connectors.worker.limits import WorkerLimits
from core.errors import OpsError
from core.history.store.store import HistoryLocation, HistoryStore
from core.history.store.writer import Recorder
from core.snapshot.store import SnapshotStore
from dashboard import services
from dashboard.cli.main import run

KEY = b"k" * 32
CONFIG = """
state_dir = "{folder}"
[access]
key_file = "{folder}/key"
[[clusters]]
name = "c"
admin_urls = ["http://127.0.0.1:9"]
read_only = false
"""


def forget_what_is_open() -> None:
    services._journal_at.cache_clear()
    services._runbook_at.cache_clear()


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    folder = tmp_path / "state"
    folder.mkdir(mode=0o700)
    config = tmp_path / "trimtab.toml"
    config.write_text(CONFIG.format(folder=folder))
    monkeypatch.setenv(services.CONFIG_ENV, str(config))
    monkeypatch.setenv("TRIMTAB_CONFIG", str(config))
    forget_what_is_open()
    yield folder
    forget_what_is_open()


def journal_of(folder: Path) -> SqlJournal:
    return SqlJournal(f"sqlite:///{folder / 'journal.db'}")


# -- a journal that is moved away under whoever uses it --------------------------------------------


def moved_away(folder: Path, to: Path) -> None:
    to.mkdir()
    for file in folder.glob("journal.db*"):
        file.rename(to / file.name)


def replaced(folder: Path, to: Path) -> None:
    """As a person puts an older copy back while Trimtab runs."""
    shutil.copytree(folder, to)
    for file in folder.glob("journal.db*"):
        file.unlink()
    with (
        closing(sqlite3.connect(to / "journal.db")) as older,
        closing(sqlite3.connect(folder / "journal.db")) as copy,
    ):
        older.backup(copy)


def removed(folder: Path, to: Path) -> None:
    to.mkdir()
    shutil.rmtree(folder)


@pytest.mark.parametrize("fate", [moved_away, replaced, removed])
def test_nothing_is_written_into_a_journal_that_is_not_there_any_more(
    state: Path, tmp_path: Path, fate: Callable[[Path, Path], None]
) -> None:
    with closing(journal_of(state)) as journal:
        for event in ONE_OF_EACH[:3]:
            journal.append(record_of(event))
        fate(state, tmp_path / "elsewhere")
        for attempt in (
            lambda: journal.append(record_of(ONE_OF_EACH[3])),
            journal.entries,
            journal.newest,
            lambda: journal.open_runs("c"),
        ):
            with pytest.raises(OpsError, match=r"journal\.db.* (moved|removed|replaced)") as caught:
                attempt()
            assert "start" in (caught.value.hint or "")
    for file in tmp_path.rglob("journal.db"):
        with sqlite3.connect(file) as raw:
            assert raw.execute("SELECT count(*) FROM trimtab_entries").fetchone() == (3,)


def test_a_lease_in_a_journal_that_is_moved_away_is_not_held(state: Path, tmp_path: Path) -> None:
    with closing(Database(f"sqlite:///{state / 'journal.db'}")) as database:
        lease = SqlLease(database, "c", "one")
        assert lease.acquire()
        moved_away(state, tmp_path / "elsewhere")
        assert not lease.is_held()
        with pytest.raises(OpsError):
            lease.acquire()
        lease.release()
    with closing(Database(f"sqlite:///{state / 'journal.db'}")) as database:
        other = SqlLease(database, "c", "other")
        assert other.acquire()
        other.release()


# -- links -----------------------------------------------------------------------------------------


def test_a_journal_behind_a_link_is_used_verified_and_backed_up(
    state: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    (state / "journal.db").symlink_to(disk / "data.db")
    with closing(journal_of(state)) as journal:
        for event in ONE_OF_EACH:
            journal.append(record_of(event))
    assert (state / "journal.db").is_symlink()
    assert run(["backup", str(tmp_path / "copy"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["entries"] == len(ONE_OF_EACH)
    assert not (tmp_path / "copy" / "journal.db").is_symlink()


def test_a_journal_behind_a_link_on_a_read_only_disk_is_read_with_its_log(
    state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    (state / "journal.db").symlink_to(disk / "data.db")
    with closing(journal_of(state)) as journal:
        journal.append(record_of(ONE_OF_EACH[0]))
        reader = sqlite3.connect(disk / "data.db")  # keeps the log from being folded in
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM trimtab_entries").fetchall()
        journal.append(record_of(ONE_OF_EACH[1]))
    assert list(disk.glob("*-wal"))
    monkeypatch.setattr(os, "access", lambda _path, mode: mode != os.W_OK)
    with closing(journal_of(state)) as journal:
        assert len(journal.entries()) == 2
    reader.close()


# -- folders where files are expected, and files where folders are ---------------------------------


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A state folder with something in every place."""
    folder = tmp_path_factory.mktemp("whole") / "state"
    folder.mkdir(mode=0o700)
    with closing(journal_of(folder)) as journal:
        for event in ONE_OF_EACH:
            journal.append(record_of(event))
    for snapshot in make_history(2, brokers=3, bundles=12, now=NOON, cluster="c"):
        SnapshotStore(folder / "snapshots").put(snapshot)
        Recorder(HistoryStore(HistoryLocation(str(folder / "history"))), "c").record(snapshot)
    (folder / "users.json").write_text("{}")
    (folder / "users.json").chmod(0o600)
    return folder


def swapped(path: Path) -> None:
    """Put a folder where a file is, a file where a folder is."""
    if path.is_dir():
        shutil.rmtree(path)
        path.write_text("no folder")
    else:
        path.unlink(missing_ok=True)
        path.mkdir(parents=True)
        (path / "inside").write_text("")


COMMANDS: tuple[tuple[str, ...], ...] = (
    ("runs",),
    ("runs", "--verify"),
    ("health", "c"),
    ("history", "minutes", "c"),
    ("jobs", "list"),
    ("alerts", "list"),
    ("users", "list"),
    ("tokens", "list"),
    ("audit",),
    ("check",),
    ("metrics",),
    ("collect", "--every", "0"),
    ("backup", "{out}"),
)


@pytest.mark.parametrize(
    "place",
    [
        *("journal.db", "users.json", "key", "snapshots", "snapshots/c", "history", "jobs"),
        *("collectors", "collectors/c.json", "collectors/c.lock", "workers", "alerts.lock"),
        *("journal.db.lock", "history/minutes", "history/brokers", "history/minutes/_delta_log"),
    ],
)
def test_what_is_of_the_wrong_kind_is_named_and_no_command_breaks(
    state: Path, whole: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], place: str
) -> None:
    state.rmdir()
    shutil.copytree(whole, state)
    swapped(state / place)
    faults = []
    for words in COMMANDS:
        as_json = [] if words[0] in ("metrics", "collect") else ["--json"]
        code = run([*(word.format(out=tmp_path / "out") for word in words), *as_json])
        out, err = capsys.readouterr()
        body = json.loads(out) if as_json else {}
        error = body.get("error", {"code": "", "message": str(state)}) if code == 1 else {}
        is_named = not error or str(state) in error["message"] or error["code"] == "unreachable"
        if (
            code not in (0, 1, 3)
            or not is_named
            or error.get("code") == "invariant"
            or any(word in out + err for word in ("Traceback", "internal error"))
        ):
            faults.append((words, code, out, err))
    assert not faults


@pytest.mark.parametrize("part", ["manifest.json", "brokers.parquet", "bundles.parquet"])
@pytest.mark.parametrize("damage", ["cut", "garbage", "gone", "folder", "empty"])
def test_a_damaged_newest_snapshot_is_named_with_its_file(
    state: Path, capsys: pytest.CaptureFixture[str], part: str, damage: str
) -> None:
    saved = SnapshotStore(state / "snapshots").put(
        make_snapshot(brokers=3, bundles=12, cluster="c")
    )
    file = saved.path / part
    body = file.read_bytes()
    if damage in ("cut", "garbage", "empty"):
        left = {"cut": body[: len(body) // 2], "garbage": os.urandom(len(body)), "empty": b""}
        file.write_bytes(left[damage])
    else:
        file.unlink()
    if damage == "folder":
        file.mkdir()
    assert run(["health", str(saved.path), "--json"]) == 1
    error = json.loads(capsys.readouterr().out)["error"]
    assert error["code"] == "snapshot"
    assert str(saved.path) in error["message"]


# -- files that are written while they are read ----------------------------------------------------


def limits_of(file: Path, said: list[str]) -> WorkerLimits:
    config = TrimtabConfig.load(file, ())
    return WorkerLimits(config, config.cluster("c"), said.append)


@pytest.mark.parametrize("share", [0.0, 0.2, 0.5, 0.8, 0.95])
def test_a_configuration_that_is_half_written_changes_no_limit(
    state: Path, tmp_path: Path, share: float
) -> None:
    """Editors empty a file before they fill it: what is missing meanwhile was not taken out."""
    file, said = tmp_path / "trimtab.toml", []
    text = file.read_text()
    limits = limits_of(file, said)
    file.write_text(text[: int(len(text) * share)])
    assert not limits.now().read_only
    assert not limits.now().read_only
    file.write_text(text + "[clusters.apply]\nmoves_per_day = 7\n")
    os.utime(file, (2, 2))  # a while ago
    assert not limits.now().read_only
    assert limits.now().apply.moves_per_day == 7


def test_a_configuration_that_stays_as_it_was_cut_is_followed(state: Path, tmp_path: Path) -> None:
    file = tmp_path / "trimtab.toml"
    limits = limits_of(file, [])
    file.write_text(f'state_dir = "{state}"\n')
    assert not limits.now().read_only
    os.utime(file, (1, 1))  # some time has passed
    assert limits.now().read_only


def test_a_cluster_that_is_made_read_only_is_so_at_once(state: Path, tmp_path: Path) -> None:
    file = tmp_path / "trimtab.toml"
    limits = limits_of(file, [])
    file.write_text(file.read_text().replace("read_only = false", "read_only = true"))
    assert limits.now().read_only


def test_a_change_between_the_start_of_a_worker_and_its_first_run_is_followed(
    state: Path, tmp_path: Path
) -> None:
    """A worker imports for seconds after it has read its configuration."""
    file = tmp_path / "trimtab.toml"
    config = TrimtabConfig.load(file, ())
    with file.open("a") as more:
        more.write("[clusters.apply]\nmoves_per_day = 7\n")
    os.utime(file, (2, 2))  # a while ago
    said: list[str] = []
    limits = WorkerLimits(config, config.cluster("c"), said.append)
    assert limits.now().apply.moves_per_day == 7, said


def test_an_anchor_after_one_that_was_cut_off_stands_on_its_own_line(
    state: Path, tmp_path: Path
) -> None:
    file = tmp_path / "anchors.jsonl"
    with closing(journal_of(state)) as journal:
        for event in ONE_OF_EACH[:3]:
            journal.append(record_of(event))
            add_anchor(file, journal, KEY)
        file.write_bytes(file.read_bytes()[:-10])  # the disk was full, or the writer was killed
        journal.append(record_of(ONE_OF_EACH[3]))
        assert add_anchor(file, journal, KEY) is not None
        assert [one.seq for one in read_anchors(file, KEY)] == [1, 2, 4]


# -- alerts ----------------------------------------------------------------------------------------


def test_alerts_go_on_when_their_lock_can_be_taken_again(state: Path, tmp_path: Path) -> None:
    config = TrimtabConfig.load(tmp_path / "trimtab.toml", ())
    (state / "alerts.lock").mkdir()
    said: list[str] = []
    stop, has_looked = threading.Event(), threading.Event()

    class Past:
        def __getattr__(self, _: str) -> Callable[..., None]:
            has_looked.set()
            return lambda *_: None

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(alert_watch, "_STANDBY_S", 0.05)
        thread = threading.Thread(
            target=alert_watch.watch, args=(config, Past(), stop, said.append)
        )
        thread.start()
        until(lambda: said, "a word on the lock", 20)
        assert "alerts.lock" in "".join(said)
        (state / "alerts.lock").rmdir()
        assert has_looked.wait(20)
        stop.set()
        thread.join(20)
    assert not thread.is_alive()
    assert len([one for one in said if "alerts.lock" in one]) == 1
