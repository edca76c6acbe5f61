"""Applying while things break: nothing is sent twice, nothing is left changed, all is settled."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import sqlalchemy as sa
from apply_site import ApplySite
from apply_under_faults import (
    QUIETLY,
    Count,
    WorkerProcesses,
    WorkerThread,
    all_views,
    assert_sent_once,
    assert_sound,
    assert_sound_but_moved,
    claimant,
    ended,
    heal,
    owner_row,
    requests_of,
    steady_sandbox,
    wait_until,
    write_config,
)
from kazoo.client import KazooClient

from connectors.journal import engine
from connectors.sandbox.pulsar.fleet import Sandbox
from connectors.worker.lease import PATH, ZooKeeperLease
from connectors.worker.status import read_status
from core.actions.events import StepStarted
from core.actions.model import RunId
from core.actions.runs import RunView
from core.plan.model import Plan, sealed
from core.pulsar.steps.split import SplitBundle
from dashboard.services import access

pytestmark = pytest.mark.zookeeper

STEPS = 6
SEED = 20261121
ATTEMPTS = pytest.mark.parametrize(
    "attempt", [1, *(pytest.param(number, marks=pytest.mark.slow) for number in range(2, 11))]
)


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    with steady_sandbox(brokers=6, bundles=240) as running:
        yield running


@pytest.fixture
def whole(sandbox: Sandbox) -> Iterator[Sandbox]:
    """The sandbox with nothing wrong, before and after."""
    heal(sandbox)
    yield sandbox
    heal(sandbox)


@pytest.fixture
def site(whole: Sandbox, tmp_path: Path) -> ApplySite:
    return ApplySite.of(tmp_path, whole.cluster_config())


# -- brokers that do not do as they should ---------------------------------------------------------


@pytest.mark.parametrize(
    ("faults", "state", "code", "words"),
    [
        ({"elsewhere_ratio": 1.0}, "DONE", "landed_elsewhere", "not use the requested destination"),
        ({"lost_answer_ratio": 1.0}, "DONE", "landed", "as requested"),
        ({"slow_s": 3.0}, "DONE", "landed", "as requested"),
        ({"clients_return_s": 20.0}, "DONE", "landed", "served by"),  # unassigned for a while
        ({"accident": "leader_change"}, "DONE", "landed", "moved from"),
        ({"refuse_status": 409}, "FAILED", "refused", "returned 409"),
        ({"refuse_status": 503}, "FAILED", "not_done", "still serves it"),
        ({"refuse_status": 500}, "FAILED", "not_done", "still serves it"),
    ],
)
def test_step_says_what_came_of_it(
    whole: Sandbox, site: ApplySite, faults: dict, state: str, code: str, words: str
) -> None:
    plan = site.plan(1)
    whole.set_faults(**faults)
    view = site.execute_run(plan, replace(QUIETLY, verify_within_s=6.0))
    result = view.steps[0].result
    assert result is not None
    assert result.state == state, result.sentence
    if faults.get("accident"):
        assert result.code in ("landed", "landed_elsewhere", "returned")
    else:
        assert result.code == code, result.sentence
        assert words in result.sentence
    assert plan.steps[0].bundle in result.sentence
    assert_sound(whole, site, [view])


@pytest.mark.slow
def test_broker_that_takes_too_long_leaves_the_step_unknown_until_it_is_settled_by_looking(
    whole: Sandbox, site: ApplySite
) -> None:
    plan = site.plan(1)
    whole.set_faults(slow_s=10.0)
    run_id = site.ask(plan, replace(QUIETLY, verify_within_s=3.0))
    with WorkerThread(site):
        wait_until(lambda: site.view(run_id).steps[0].state == "UNKNOWN", "not knowing")
        result = site.view(run_id).steps[0].result
        assert result is not None
        assert "busy giving" in result.sentence
        view = ended(site, run_id)
    assert view.steps[0].state == "DONE", view.sentence
    assert view.steps[0].is_reconciled
    assert_sound(whole, site, [view])


@ATTEMPTS
def test_owner_that_dies_in_the_middle_leaves_every_step_settled(
    whole: Sandbox, site: ApplySite, attempt: int
) -> None:
    plan = site.plan(STEPS)
    run_id = site.ask(plan, QUIETLY)
    chance = random.Random(SEED + attempt)
    with WorkerThread(site):
        wait_until(lambda: site.view(run_id).steps[chance.randrange(STEPS - 1)].begun_at, "a step")
        whole.set_faults(accident="owner_dies")
        view = ended(site, run_id)
    assert_sound_but_moved(whole, site, view)


@pytest.mark.slow
def test_bundle_of_an_owner_that_dies_is_followed_to_where_it_lands(
    whole: Sandbox, site: ApplySite
) -> None:
    plan = site.plan(1)
    whole.set_faults(accident="owner_dies")
    view = site.execute_run(plan, replace(QUIETLY, verify_within_s=2.0))
    step = view.steps[0]
    assert step.result is not None
    assert step.result.after is not None
    row = owner_row(whole, plan.steps[0].bundle)
    assert step.result.code in ("landed", "landed_elsewhere"), step.result.sentence
    assert step.result.after.holder == whole.state.brokers[row].broker_id
    assert_sound_but_moved(whole, site, view)


@pytest.mark.slow
def test_broker_that_is_lost_before_its_turn_is_said_to_be_unreachable(
    whole: Sandbox, site: ApplySite
) -> None:
    plan = site.plan(1, towards=False)
    number = owner_row(whole, plan.steps[0].bundle)
    whole.kill_broker(number)
    view = site.execute_run(plan, QUIETLY)
    result = view.steps[0].result
    assert result is not None
    assert whole.state.brokers[number].broker_id in result.sentence
    assert result.code in (
        "not_sent",
        "moved_meanwhile",
        "not_owned",
        "owner_gone",
        "placement_dead",
    ), result
    assert_sent_once(whole, view)


# -- ZooKeeper goes and comes ----------------------------------------------------------------------


@ATTEMPTS
def test_zookeeper_killed_and_started_again_leaves_every_step_settled(
    whole: Sandbox, site: ApplySite, attempt: int
) -> None:
    chance = random.Random(SEED * 7 + attempt)
    run_id = site.ask(site.plan(STEPS), QUIETLY)
    server = whole.zookeeper_process
    with WorkerThread(site) as worker:
        wait_until(lambda: site.view(run_id).steps[chance.randrange(STEPS - 1)].begun_at, "a step")
        server.kill()
        threading.Event().wait(chance.uniform(0.0, 4.0))
        server.start()
        view = ended(site, run_id)
        assert worker.said
    assert_sound_but_moved(whole, site, view)


# -- workers go and come ---------------------------------------------------------------------------


def killed_at_random(
    sandbox: Sandbox, site: ApplySite, workers: WorkerProcesses, chance: random.Random
) -> RunView:
    """Kill whoever carries out a run at a random point of it; another one goes on."""
    run_id = site.ask(site.plan(STEPS), QUIETLY)
    wait_until(lambda: claimant(site, run_id), "a claim")
    threading.Event().wait(chance.uniform(0.0, 2.0))
    pid = claimant(site, run_id)
    assert pid is not None
    workers.kill(pid)
    workers.start()
    view = ended(site, run_id)
    assert_sound(sandbox, site, [view])
    # the intent was on record and nothing was sent yet: it is not sent again
    failed = {step.result.code for step in view.steps if step.state != "DONE" and step.result}
    assert failed <= {"not_done"}, view.sentence
    return view


def kill_many(sandbox: Sandbox, site: ApplySite, times: int) -> Counter[str]:
    chance = random.Random(SEED)
    seen: Counter[str] = Counter()
    with WorkerProcesses(site) as workers:
        workers.start()
        workers.start()
        for _ in range(times):
            view = killed_at_random(sandbox, site, workers, chance)
            seen["takeovers"] += view.takeovers
            for step in view.steps:
                seen[f"{step.state}{' by looking' if step.is_reconciled else ''}"] += 1
    sys.stderr.write(f"\n{times} kills: {dict(seen)}\n")
    return seen


@pytest.mark.slow
def test_worker_killed_at_four_random_points_leaves_nothing_open(
    whole: Sandbox, site: ApplySite
) -> None:
    assert kill_many(whole, site, 4)["takeovers"]


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_worker_killed_at_fifty_random_points_leaves_nothing_open(
    whole: Sandbox, site: ApplySite
) -> None:
    seen = kill_many(whole, site, 50)
    assert seen["takeovers"] >= 25
    assert seen["DONE by looking"]


@pytest.mark.slow
def test_two_workers_and_two_who_ask_never_overlap(whole: Sandbox, site: ApplySite) -> None:
    plan = site.plan(2 * STEPS)
    halves = [halved(plan, slice(0, STEPS)), halved(plan, slice(STEPS, None))]
    with WorkerThread(site), WorkerThread(site):
        asked: list[RunId] = []
        askers = [
            threading.Thread(target=lambda half=half: asked.append(site.ask(half, QUIETLY)))
            for half in halves
        ]
        for asker in askers:
            asker.start()
        for asker in askers:
            asker.join()
        views = [ended(site, run_id) for run_id in asked]
    assert [view.state for view in views] == ["DONE", "DONE"]
    assert_sound(whole, site, views)


def halved(plan: Plan, part: slice) -> Plan:
    return sealed(replace(plan, steps=plan.steps[part]))


def test_worker_told_to_end_leaves_the_run_to_the_next_one(whole: Sandbox, site: ApplySite) -> None:
    run_id = site.ask(site.plan(STEPS), replace(QUIETLY, pace_per_min=60.0))
    with WorkerProcesses(site) as workers:
        pid = workers.start()
        wait_until(lambda: site.view(run_id).counts["DONE"], "a step")
        assert workers.end(pid) == 0
        view = site.view(run_id)
        assert view.state == "RUNNING"
        assert not view.unresolved
        assert not view.outstanding_settings
        status = read_status(site.config, site.cluster.name)
        assert status is not None
        assert status.stopped_at is not None
    with WorkerThread(site):
        view = ended(site, run_id)
    assert (view.state, view.takeovers) == ("DONE", 1)
    assert_sound(whole, site, [view])


def test_worker_that_loses_its_lease_stops_acting_and_goes_on_with_a_new_one(
    whole: Sandbox, site: ApplySite
) -> None:
    run_id = site.ask(site.plan(STEPS), replace(QUIETLY, pace_per_min=60.0))
    thief = ZooKeeperLease(site.cluster, "thief")
    try:
        with WorkerThread(site):
            wait_until(lambda: site.view(run_id).counts["DONE"], "a step")
            whole_session_gone(whole)
            wait_until(thief.acquire, "the lease")
            begun = begun_steps(site, run_id)
            threading.Event().wait(2.0)
            assert begun_steps(site, run_id) - begun <= 0
            thief.release()
            view = ended(site, run_id)
    finally:
        thief.release()
    assert_sound(whole, site, [view])


def test_worker_says_that_the_journal_cannot_be_used_and_goes_on_when_it_can(
    whole: Sandbox, site: ApplySite
) -> None:
    blocked = site.config.state_dir / "journal.db"
    blocked.mkdir()
    with WorkerThread(site) as worker:
        wait_until(lambda: error_of(site), "the error in the status")
        assert "journal" in str(error_of(site))
        blocked.rmdir()
        view = ended(site, site.ask(site.plan(1), QUIETLY))
        wait_until(lambda: error_of(site) is None, "no error in the status")
    assert any("journal" in sentence for sentence in worker.said)
    assert_sound(whole, site, [view])


def test_run_that_can_never_be_carried_out_is_ended_and_does_not_block_the_next(
    whole: Sandbox, site: ApplySite
) -> None:
    plan = site.plan(1)
    strange = SplitBundle(
        bundle=plan.steps[0].bundle, owner=plan.steps[0].owner, algorithm="no_such_algorithm"
    )
    with WorkerThread(site):
        first = site.ask(sealed(replace(plan, steps=(strange,))), QUIETLY)
        second = site.ask(plan, QUIETLY)
        assert ended(site, first).state in ("FAILED", "REFUSED")
        view = ended(site, second)
    assert view.state == "DONE", view.sentence
    assert_sound(whole, site, [view])


def error_of(site: ApplySite) -> dict[str, str] | None:
    status = read_status(site.config, site.cluster.name)
    return status.last_error if status is not None else None


def begun_steps(site: ApplySite, run_id: RunId) -> int:
    return sum(isinstance(entry.record.event, StepStarted) for entry in site.entries(run_id))


def whole_session_gone(sandbox: Sandbox) -> None:
    """Take the lease's node away, as an operator might or the end of its session does."""
    client = KazooClient(sandbox.zookeeper)
    client.start(timeout=15)
    client.delete(PATH)
    client.stop()
    client.close()


# -- a person at the command line ------------------------------------------------------------------


@pytest.mark.slow
def test_ctrl_c_of_apply_stops_after_the_step_under_way(
    whole: Sandbox, site: ApplySite, tmp_path: Path
) -> None:
    plan_file = tmp_path / "plan.json"
    plan_file.write_bytes(access.plan_file(site.config, site.plan(STEPS)))
    words = ["apply", str(plan_file), "--cluster", site.cluster.name, "--pace", "60/min"]
    words += ["--reason", "a test", "--yes", "--config", str(write_config(site)), "--json"]
    process = subprocess.Popen(
        [sys.executable, "-m", "dashboard.cli", *words], stdout=subprocess.PIPE, text=True
    )
    wait_until(lambda: any(view.counts["DONE"] for view in all_views(site)), "a step")
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 1
    run = json.loads(out)["run"]
    assert run["state"] == "STOPPED"
    assert run["counts"]["DONE"] >= 1
    assert run["counts"]["SKIPPED"] >= 1
    assert_sound(whole, site, all_views(site))


# -- everything stands still -----------------------------------------------------------------------


FROZEN_S = 6.0
"""Twice the session: another worker has taken the run over when the first one goes on."""


def frozen_at(
    sandbox: Sandbox, site: ApplySite, workers: WorkerProcesses, point: str, number: int
) -> RunView:
    """Stop whoever carries out a run at one step until another has taken it over, and go on."""
    run_id = site.ask(site.plan(STEPS), QUIETLY)

    def is_there() -> bool:
        view = site.view(run_id)
        step = view.steps[number]
        return bool(
            step.begun_at
            if point == "before sending"
            else requests_of(sandbox, view, step.step.bundle)
        )

    wait_until(is_there, f"step {number} {point}")
    pid = claimant(site, run_id)
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    try:
        threading.Event().wait(FROZEN_S)
    finally:
        os.kill(pid, signal.SIGCONT)
    return ended(site, run_id)


def freeze_many(sandbox: Sandbox, site: ApplySite, numbers: range) -> Count:
    count = Count()
    with WorkerProcesses(site) as workers:
        workers.start()
        workers.start()
        for number in numbers:
            for point in ("before sending", "after sending"):
                view = frozen_at(sandbox, site, workers, point, number % STEPS)
                assert_sound(sandbox, site, [view])
                count.add(sandbox, view)
    sys.stderr.write(f"\nfrozen workers: {count}\n")
    return count


@pytest.mark.slow
def test_worker_frozen_before_and_after_sending_loses_and_repeats_nothing(
    whole: Sandbox, site: ApplySite
) -> None:
    count = freeze_many(whole, site, range(1, 2))
    assert (count.runs, count.lost, count.twice) == (2, 0, 0)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_worker_frozen_at_twenty_points_loses_and_repeats_nothing(
    whole: Sandbox, site: ApplySite
) -> None:
    count = freeze_many(whole, site, range(10))
    assert (count.runs, count.lost, count.twice) == (20, 0, 0)
    assert count.takeovers


@pytest.mark.parametrize(
    "frozen_s",
    [4.0, pytest.param(8.0, marks=pytest.mark.slow), pytest.param(30.0, marks=pytest.mark.slow)],
)
def test_zookeeper_frozen_in_a_run_loses_and_repeats_nothing(
    whole: Sandbox, site: ApplySite, frozen_s: float
) -> None:
    count = Count()
    run_id = site.ask(site.plan(STEPS), QUIETLY)
    pid = whole.zookeeper_process.pid
    assert pid is not None
    with WorkerThread(site):
        wait_until(lambda: site.view(run_id).steps[1].begun_at, "a step")
        os.kill(pid, signal.SIGSTOP)
        try:
            threading.Event().wait(frozen_s)
        finally:
            os.kill(pid, signal.SIGCONT)
        view = ended(site, run_id)
    assert_sound_but_moved(whole, site, view)
    count.add(whole, view)
    sys.stderr.write(f"\nZooKeeper frozen for {frozen_s:.0f} s: {count}\n")
    assert count.twice == 0


def test_journal_without_room_in_a_run_loses_and_repeats_nothing(
    whole: Sandbox, site: ApplySite, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_full = threading.Event()
    begin = engine._on_begin

    def limited(connection: sa.Connection) -> None:
        # SQLite's own limit: no page more than there are, and it answers SQLITE_FULL
        limit = 1 if is_full.is_set() else 2**30
        connection.exec_driver_sql(f"PRAGMA max_page_count = {limit}")
        begin(connection)

    monkeypatch.setattr(engine, "_on_begin", limited)
    run_id = site.ask(site.plan(STEPS), QUIETLY)
    with WorkerThread(site) as worker:
        wait_until(lambda: site.view(run_id).counts["DONE"], "a step")
        is_full.set()
        wait_until(lambda: any("full" in one for one in worker.said), "the full journal is named")
        is_full.clear()
        view = ended(site, run_id)
    assert_sound(whole, site, [view])
    count = Count()
    count.add(whole, view)
    sys.stderr.write(f"\njournal without room: {count}\n")
    assert (count.lost, count.twice) == (0, 0)
