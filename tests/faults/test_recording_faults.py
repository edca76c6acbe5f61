"""A history that fails never stops the collector: snapshots go on, the fault is reported."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from small_broker import SmallBroker, serve_cluster
from test_collector import Running

from connectors.check import check_history
from connectors.config.model import ClusterConfig, TrimtabConfig
from core.history.store.store import HistoryLocation, HistoryStore
from core.snapshot.store import SnapshotStore
from dashboard.cli.main import run

WITHIN_S = 90.0
_PAUSE = threading.Event()


@pytest.fixture
def broker() -> Iterator[SmallBroker]:
    with SmallBroker() as running:
        serve_cluster(running)
        yield running


@pytest.fixture
def start(tmp_path: Path, broker: SmallBroker) -> Iterator[Callable[..., Running]]:
    started: list[Running] = []

    def make(every_s: float = 0.2, **more: Any) -> Running:
        cluster = ClusterConfig(name="c", admin_urls=[broker.url], timeouts={"read_s": 2.0})
        started.append(Running(tmp_path / "state", [cluster], every_s, **more))
        return started[-1]

    yield make
    for each in started:
        each.end()


def until(holds: Callable[[], bool], what: str) -> None:
    """Wait for a state; fail with its name when it never comes."""
    deadline = time.monotonic() + WITHIN_S
    while not holds():
        assert time.monotonic() < deadline, what
        _PAUSE.wait(0.05)


def status(state: Path) -> dict[str, Any]:
    path = state / "collectors" / "c.json"
    found = json.loads(path.read_bytes()) if path.is_file() else {}
    return found.get("history") or {}


def minutes(state: Path) -> int:
    return HistoryStore(HistoryLocation(str(state / "history"))).minutes("c").num_rows


def test_what_is_collected_is_recorded_and_the_status_says_so(tmp_path: Path, start) -> None:
    running = start()
    until(lambda: status(tmp_path / "state").get("minutes", 0) >= 3, "three minutes recorded")
    running.end()
    told = status(tmp_path / "state")
    store = HistoryStore(HistoryLocation(told["place"]))
    found = store.minutes("c")
    assert found.num_rows == told["minutes"]
    assert told["last_error"] is None
    assert told["last_rows"] > 0
    last = datetime.fromisoformat(told["last_minute_at"])
    assert found["taken_at"][-1].as_py() == round(last.timestamp() * 1000)
    saved_here = {
        one.snapshot_id for one in SnapshotStore(tmp_path / "state" / "snapshots").entries("c")
    }
    assert set(found["snapshot_id"].to_pylist()) <= saved_here
    assert store.snapshot_at("c", last).snapshot_id == found["snapshot_id"][-1].as_py()


def blocked(state: Path) -> None:
    """A file stands where the history's directory should be."""
    (state / "history").write_text("no folder")


def opened(state: Path) -> None:
    (state / "history").unlink()


def test_history_that_cannot_be_written_is_told_once_and_mends_itself(
    tmp_path: Path, start
) -> None:
    state = tmp_path / "state"
    state.mkdir()
    blocked(state)
    running = start()
    event = running.next("unrecorded")
    assert "history" in event.sentence
    assert "snapshots are stored" in event.sentence
    snapshot_store = SnapshotStore(state / "snapshots")
    before = len(snapshot_store.entries("c"))
    until(lambda: len(snapshot_store.entries("c")) >= before + 3, "snapshots go on")
    until(lambda: status(state).get("missed", 0) >= 2, "missed minutes are counted")
    assert status(state)["last_error"]["code"] == "history"
    opened(state)
    assert "again" in running.next("recorded").sentence
    until(lambda: status(state).get("minutes", 0) >= 2, "minutes are recorded")
    running.end()
    assert minutes(state) == status(state)["minutes"]


@pytest.mark.slow
def test_history_that_vanishes_is_begun_anew(tmp_path: Path, start) -> None:
    state = tmp_path / "state"
    running = start(every_s=2.0)
    until(lambda: status(state).get("minutes", 0) >= 2, "recorded")
    (state / "history").rename(tmp_path / "gone")
    gone_at = datetime.now(UTC)
    until(
        lambda: (
            datetime.fromisoformat(status(state)["last_minute_at"]) > gone_at and minutes(state) > 0
        ),
        "recorded anew",
    )
    running.end()
    store = HistoryStore(HistoryLocation(str(state / "history")))
    found = store.minutes("c")
    last = datetime.fromtimestamp(found["taken_at"][-1].as_py() / 1000, tz=UTC)
    assert store.snapshot_at("c", last).snapshot_id == found["snapshot_id"][-1].as_py()


@pytest.mark.parametrize("kind", ["minutes", "brokers", "bundle_facts"])
def test_table_that_is_damaged_is_named_and_the_shelf_goes_on(
    tmp_path: Path, start, kind: str
) -> None:
    state = tmp_path / "state"
    first = start()
    until(lambda: status(state).get("minutes", 0) >= 1, "recorded")
    first.end()
    for log in (state / "history" / kind / "_delta_log").iterdir():
        if log.is_file():
            log.write_bytes(b"{ not json")
    checked = check_history(TrimtabConfig(state_dir=state))
    assert not checked.ok
    assert kind in checked.detail
    again = start()
    assert kind in again.next("unrecorded").sentence
    again.next("collected")
    again.next("collected")


def test_nothing_is_recorded_where_it_is_switched_off(tmp_path: Path, broker: SmallBroker) -> None:
    cluster = ClusterConfig(name="c", admin_urls=[broker.url])
    running = Running(tmp_path / "state", [cluster], 0.2, history={"is_recorded": False})
    try:
        running.next("collected")
    finally:
        running.end()
    assert running.status()["history"] is None
    assert not (tmp_path / "state" / "history").exists()


def written(folder: Path, broker: SmallBroker) -> Path:
    """A configuration of that one cluster."""
    config = folder / "trimtab.toml"
    config.write_text(
        f'state_dir = "{folder / "state"}"\n[history]\nevery_s = 0\n[[clusters]]\nname = "c"\n'
        f'admin_urls = ["{broker.url}"]\n'
    )
    return config


def test_single_collection_is_recorded_unless_it_shall_not_be(
    tmp_path: Path, broker: SmallBroker, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["collect", "--every", "0", "--config", str(written(tmp_path, broker))]
    assert run([*words, "--no-history"]) == 0
    assert not (tmp_path / "state" / "history").exists()
    assert run(words) == 0
    assert minutes(tmp_path / "state") == 1
    (tmp_path / "state" / "history").rename(tmp_path / "aside")
    blocked(tmp_path / "state")
    assert run(words) == 1
    assert "history" in capsys.readouterr().err
    assert len(SnapshotStore(tmp_path / "state" / "snapshots").entries("c")) == 3


def test_single_collection_leaves_recording_to_a_collector_that_runs(
    tmp_path: Path, broker: SmallBroker, start
) -> None:
    start(every_s=300.0)
    until(lambda: status(tmp_path / "state").get("minutes", 0) == 1, "recorded")
    assert run(["collect", "--every", "0", "--config", str(written(tmp_path, broker))]) == 0
    assert minutes(tmp_path / "state") == 1


def test_check_says_whether_the_history_can_be_written_and_read(tmp_path: Path) -> None:
    fine = check_history(TrimtabConfig(state_dir=tmp_path))
    assert fine.ok
    (tmp_path / "file").write_text("")
    place = {"uri": str(tmp_path / "file" / "below")}
    found = check_history(TrimtabConfig(state_dir=tmp_path, history=place))
    assert not found.ok
    assert str(tmp_path / "file") in found.detail
    assert found.remedy
    assert check_history(TrimtabConfig(state_dir=tmp_path, history={"is_recorded": False})).ok


# -- a collector that is killed while it writes ----------------------------------------------------


def collect(config: Path) -> subprocess.Popen[bytes]:
    words = ["collect", "--config", str(config), "--every", "150ms"]
    return subprocess.Popen(
        [sys.executable, "-m", "dashboard.cli", *words],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "kills", [3, pytest.param(50, marks=pytest.mark.slow)], ids=["few", "fifty"]
)
@pytest.mark.slow
def test_collector_killed_while_writing_loses_and_repeats_no_minute(
    tmp_path: Path, broker: SmallBroker, kills: int
) -> None:
    state = tmp_path / "state"
    config = written(tmp_path, broker)
    promised: set[str] = set()
    for number in range(kills):
        process = collect(config)
        try:
            wanted = 1 + number % 4
            until(
                lambda process=process, wanted=wanted: is_at(state, process.pid, wanted),
                f"{wanted} minutes recorded by the collector {number}",
            )
            _PAUSE.wait((number * 37 % 100) / 500)  # anywhere in the next minute's writing
        finally:
            os.kill(process.pid, signal.SIGKILL)
            process.wait()
        promised.add(status(state)["last_minute_at"])
    store = HistoryStore(HistoryLocation(str(state / "history")))
    found = store.minutes("c")
    times = found["taken_at"].to_pylist()
    assert max(Counter(times).values()) == 1
    assert times == sorted(times)
    assert {round(datetime.fromisoformat(one).timestamp() * 1000) for one in promised} <= set(times)
    every = max(1, len(times) // 60)
    for at, snapshot_id in zip(
        times[::every], found["snapshot_id"].to_pylist()[::every], strict=True
    ):
        moment = datetime.fromtimestamp(at / 1000, tz=UTC)
        assert store.snapshot_at("c", moment).snapshot_id == snapshot_id
    known = set(times)
    for kind in ("brokers", "bundle_facts", "settings"):
        assert set(store.rows(kind, "c")["taken_at"].to_pylist()) <= known


def is_at(state: Path, pid: int, wanted: int) -> bool:
    """Whether the collector of that process has recorded so many minutes."""
    path = state / "collectors" / "c.json"
    if not path.is_file():
        return False
    told = json.loads(path.read_bytes())
    return told["pid"] == pid and (told["history"] or {}).get("minutes", 0) >= wanted
