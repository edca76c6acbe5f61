"""Fleet: which of Trimtab's own processes are down, since when, and where their log is."""

from __future__ import annotations

from datetime import timedelta

import msgspec
import pytest
from fleet_builder import make_snapshot
from snapshot_site import Site, assert_calm, now, texts

from dashboard.services.processes import SUPERVISOR_ENV, ProcessState, Supervision


@pytest.fixture
def site(tmp_path, monkeypatch):
    made = Site(tmp_path, clusters=("fleet",), each="read_only = false")
    monkeypatch.setenv("TRIMTAB_CONFIG", str(made.config))
    made.put(make_snapshot(brokers=4, bundles=40, now=now(), cluster="fleet"))
    return made


@pytest.fixture
def supervise(tmp_path, monkeypatch):
    def write(**worker: object) -> None:
        states = [
            ProcessState(name="pages", is_up=True, since=now(), restarts=0),
            ProcessState(name="worker", log="logs/worker.log", **worker),  # type: ignore[arg-type]
        ]
        file = tmp_path / "supervisor.json"
        seen = Supervision(pid=1, last_seen_at=now(), processes=states)
        file.write_bytes(msgspec.json.encode(seen))
        monkeypatch.setenv(SUPERVISOR_ENV, str(file))

    return write


def table_of(app):
    return next(one.value for one in app.dataframe if "restarts" in one.value.columns)


def test_nothing_is_shown_while_all_run(site, supervise):
    supervise(is_up=True, since=now(), restarts=0)
    site.worker_says()
    app = site.open("fleet")
    assert_calm(app)
    assert "Processes" not in texts(app)


def test_a_process_that_is_down_is_shown_with_its_log(site, supervise):
    start = now() + timedelta(seconds=30)
    supervise(is_up=False, since=now(), restarts=3, last_end="SIGKILL", next_start_at=start)
    app = site.open("fleet")
    assert_calm(app)
    assert "1 down" in texts(app)
    (row,) = table_of(app).to_dict("records")
    assert row["process"] == "Worker"
    assert row["state"] == ["✖ Down"]
    assert (row["restarts"], row["end"], row["log"]) == ("3", "SIGKILL", "logs/worker.log")
    assert row["next"] == f"{start:%H:%M:%S}"


def test_a_process_that_was_started_again_stays_for_an_hour(site, supervise):
    site.worker_says()
    supervise(is_up=True, since=now() - timedelta(minutes=5), restarts=1)
    assert "All running again" in texts(site.open("fleet"))
    supervise(is_up=True, since=now() - timedelta(minutes=61), restarts=1)
    assert "Processes" not in texts(site.open("fleet"))


def test_a_collector_that_never_read_a_cluster_is_shown(tmp_path, monkeypatch, supervise):
    (tmp_path / "empty").mkdir()
    empty = Site(tmp_path / "empty", clusters=("fleet",))
    monkeypatch.setenv("TRIMTAB_CONFIG", str(empty.config))
    supervise(is_up=False, since=now(), restarts=0, last_end="exit code 1")
    app = empty.open("fleet")
    assert "No snapshot of fleet" in texts(app)
    assert table_of(app)["end"].tolist() == ["exit code 1"]


def test_a_worker_of_its_own_that_went_silent_is_shown(site, monkeypatch):
    monkeypatch.delenv(SUPERVISOR_ENV, raising=False)
    site.worker_says(silent_s=60)
    (row,) = table_of(site.open("fleet")).to_dict("records")
    assert (row["process"], row["cluster"], row["restarts"]) == ("Worker", "fleet", "\u2013")
