"""A clock that is wrong for a while and set right again, a machine that sleeps, clocks that differ.

What was written while it was wrong may hold nobody up, silence nothing and delete nothing.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from fleet_builder import NOON, make_snapshot
from fleet_edit import edited, owned_by, with_manifest
from wall import Wall

from connectors.access.sessions import MAX_FAILURES, Sessions
from connectors.access.users import UserFile
from connectors.config.model import TrimtabConfig
from connectors.jobs.queue import MAX_AGE, JobQueue, queue_of
from connectors.journal.engine import Database
from connectors.worker.clock import SystemClock
from core.alerts.model import Alert, AlertKey, Facts, Limits
from core.alerts.progress import looked, to_tell
from core.errors import ForbiddenError
from core.gauges import Gauge
from core.history.store.store import HistoryLocation, HistoryStore
from core.history.store.writer import Recorder

PASSWORD = "correct horse battery"
DAY = timedelta(days=1)
MINUTE = timedelta(minutes=1)
UNEVEN = Gauge("max_deviation_ratio", "x", (("measure", "throughput"),), 5.0)


# -- signing in ------------------------------------------------------------------------------------


@pytest.fixture
def wall() -> Wall:
    return Wall(NOON)


@pytest.fixture
def sessions(wall: Wall, tmp_path: Path) -> Iterator[Sessions]:
    users = UserFile(tmp_path / "users.json")
    users.set_user("ann", PASSWORD)
    database = Database(f"sqlite:///{tmp_path / 'journal.db'}")
    yield Sessions(database, users, b"k" * 32, timedelta(hours=12), wall)
    database.close()


def test_failures_of_a_clock_that_was_ahead_keep_nobody_out(sessions: Sessions, wall: Wall) -> None:
    wall.now += 100 * DAY
    for _ in range(MAX_FAILURES + 1):
        with suppress(ForbiddenError):
            sessions.sign_in("ann", "guess", "10.0.0.1")
    wall.now -= 100 * DAY
    assert sessions.of(sessions.sign_in("ann", PASSWORD, "10.0.0.1")) is not None


def test_a_session_of_a_clock_that_was_ahead_is_over(sessions: Sessions, wall: Wall) -> None:
    wall.now += 100 * DAY
    text = sessions.sign_in("ann", PASSWORD, "10.0.0.1")
    wall.now -= 100 * DAY
    assert sessions.of(text) is None
    text = sessions.sign_in("ann", PASSWORD, "10.0.0.1")
    wall.now -= MINUTE  # as far as clocks of two machines differ
    assert sessions.of(text) is not None


# -- alerts ----------------------------------------------------------------------------------------


def alert(state: str, since: datetime, told_at: datetime | None = None) -> Alert:
    return Alert(
        key=AlertKey("uneven", "prod", "traffic"),
        state=state,  # type: ignore[arg-type]  # one of the three
        severity="warning",
        sentence="It is uneven.",
        hint="Run it.",
        since=since,
        told_at=told_at,
    )


def test_an_alert_that_began_on_a_clock_ahead_fires_in_its_time() -> None:
    limits = Limits()
    ahead = NOON + 100 * DAY
    one = Facts(cluster="prod", now=ahead, taken_at=ahead, gauges=[UNEVEN])
    wrong = looked({}, [one], limits)
    (key,) = wrong
    assert wrong[key].state == "pending"
    found = wrong
    for minute in range(0, 121, 10):
        now = NOON + minute * MINUTE
        found = looked(found, [replace(one, now=now, taken_at=now)], limits)
    assert found[key].state == "firing"
    assert found[key].since == NOON


def test_what_was_told_by_a_clock_ahead_is_told_again() -> None:
    told = alert("firing", NOON, told_at=NOON + 100 * DAY)
    assert to_tell([told], (), NOON + MINUTE, timedelta(hours=4)) == {"prod": [told]}
    told = alert("firing", NOON, told_at=NOON + 2 * MINUTE)  # of another machine
    assert to_tell([told], (), NOON + MINUTE, timedelta(hours=4)) == {}


# -- jobs ------------------------------------------------------------------------------------------


@pytest.fixture
def queue(tmp_path: Path) -> Iterator[JobQueue]:
    opened = queue_of(TrimtabConfig(state_dir=tmp_path))
    yield opened
    opened.close()


def done_jobs(queue: JobQueue, moments: list[datetime]) -> list[str]:
    made = [queue.add("count", {}, "ann", moment) for moment in moments]
    for job_id in made:
        queue.stop(job_id, NOON)
    return made


def test_a_clock_that_jumps_deletes_no_results_of_jobs(queue: JobQueue) -> None:
    made = done_jobs(queue, [NOON - hour * timedelta(hours=6) for hour in range(8)])
    assert queue.drop_old(NOON + 100 * DAY) == []
    # what ran on that clock deletes nothing either, until it has run on for a day
    ahead = NOON + 100 * DAY
    made += done_jobs(queue, [ahead, ahead + timedelta(hours=2)])
    assert queue.drop_old(ahead + timedelta(hours=2)) == []
    assert {job.id for job in queue.jobs()} == set(made)
    made += done_jobs(queue, [ahead + timedelta(hours=hour) for hour in (8, 14, 20, 26)])
    assert set(queue.drop_old(ahead + timedelta(hours=26))) == set(made[:8])


def test_jobs_of_a_clock_that_was_ahead_go_with_the_others(queue: JobQueue) -> None:
    (ahead,) = done_jobs(queue, [NOON + 100 * DAY])
    days = [NOON + day * DAY for day in range(int(MAX_AGE / DAY) + 3)]
    done_jobs(queue, days)
    assert ahead not in queue.drop_old(days[-1])  # by its time it is not old


# -- minutes of the history ------------------------------------------------------------------------


def test_minutes_are_recorded_before_and_after_a_clock_that_was_wrong(tmp_path: Path) -> None:
    start = make_snapshot(brokers=4, bundles=24, minutes_ago=200)
    brokers = start.brokers["broker"].to_pylist()
    moved = owned_by(start, brokers[0])[:4]
    store = HistoryStore(HistoryLocation(str(tmp_path / "history")))
    recorder = Recorder(store, "fleet")
    # right, a day ahead, right, an hour behind, right: one bundle more has moved each time
    offsets = [timedelta(0), DAY + MINUTE, 2 * MINUTE, 3 * MINUTE - timedelta(hours=1), 4 * MINUTE]
    taken = []
    for number, offset in enumerate(offsets):
        owners = {name: {"owner": brokers[1]} for name in moved[:number]}
        snapshot = with_manifest(edited(start, "bundles", owners), taken_at=NOON + offset)
        assert recorder.record(snapshot).is_new
        taken.append((NOON + offset, snapshot))
    minutes = store.minutes("fleet")["taken_at"].to_pylist()
    assert minutes == sorted(round(at.timestamp() * 1000) for at, _ in taken)
    for at, snapshot in taken:
        found = store.snapshot_at("fleet", at)
        assert found.bundles.sort_by("bundle").equals(snapshot.bundles.sort_by("bundle"))
    moves = store.rows("events", "fleet", matching={"kind": "move"})["subject"].to_pylist()
    assert len(moves) == len(set(moves))  # none is recorded twice


# -- a machine that sleeps -------------------------------------------------------------------------


@pytest.mark.skipif(not hasattr(time, "CLOCK_BOOTTIME"), reason="the kernel has no such clock")
def test_time_goes_on_while_the_machine_sleeps(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a worker has seen before its machine slept for a night is old when it wakes."""
    clock = SystemClock(threading.Event())
    before = clock.monotonic()
    awake = time.clock_gettime

    def slept(which: int) -> float:
        return awake(which) + (28_800.0 if which == time.CLOCK_BOOTTIME else 0.0)

    monkeypatch.setattr(time, "clock_gettime", slept)
    assert clock.monotonic() - before >= 28_800.0


def test_the_wall_clock_moves_no_time_that_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = SystemClock(threading.Event())
    before = clock.monotonic()
    monkeypatch.setattr(time, "time", lambda: 0.0)
    monkeypatch.setenv("TZ", "Pacific/Kiritimati")
    time.tzset()
    try:
        assert 0.0 <= clock.monotonic() - before < 60.0
        assert clock.now().tzinfo is UTC
        assert abs((clock.now() - datetime.now(UTC)).total_seconds()) < 60.0
    finally:
        monkeypatch.undo()
        time.tzset()
