"""The job server and its queue: jobs are claimed once, followed, stopped, survived, imported."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from time import monotonic

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import sqlalchemy as sa
from job_stories import change
from pydantic import BaseModel, ConfigDict, Field
from structlog.contextvars import get_contextvars

from connectors.config.model import TrimtabConfig
from connectors.jobs import queue as job_queue
from connectors.jobs import server
from connectors.jobs.catalogue import by_name, checked, kinds
from connectors.jobs.model import JobAnswer, JobContext, JobKind
from connectors.jobs.queue import JobQueue, LostClaimError, queue_of
from connectors.jobs.record import Answer, Job
from connectors.jobs.results import View, rows
from connectors.worker.status import read_status_file
from core.errors import ComputeError, InputError, InvariantError, UnknownNameError

DEADLINE_S = 60.0


class CountScope(BaseModel):
    model_config = ConfigDict(extra="forbid")
    parts: int = Field(default=3, ge=1)
    fails: str = ""


def count(context: JobContext, asked: CountScope) -> JobAnswer:
    tick = threading.Event()
    for part in range(asked.parts):
        context.progress.step(part, asked.parts, "counting")
        if asked.fails == "crash":
            raise RuntimeError("the kind is broken")
        if asked.fails == "input":
            raise InputError("There is nothing to count.", hint="Give something.")
        if asked.parts > 100:
            tick.wait(0.02)
    table = pa.table({"part": range(asked.parts), "name": [f"p{n}" for n in range(asked.parts)]})
    pq.write_table(table, context.out / "parts.parquet")
    return JobAnswer(
        sentence=f"{asked.parts} parts were counted.",
        tables={"parts": "One row a part."},
        facts={"parts": asked.parts},
    )


COUNT = JobKind(
    name="count", title="Count", answers="How many parts are there?", scope=CountScope, run=count
)
FOREVER = 10_000_000


def now() -> datetime:
    return datetime.now(UTC)


def until(is_so: Callable[[], bool], what: str) -> None:
    end, tick = monotonic() + DEADLINE_S, threading.Event()
    while not is_so():
        assert monotonic() < end, f"{what} took longer than {DEADLINE_S:.0f} s"
        tick.wait(0.02)


@pytest.fixture
def config(tmp_path) -> TrimtabConfig:
    """With ``TRIMTAB_TEST_JOURNAL_URL`` the queue is in that database."""
    return TrimtabConfig(state_dir=tmp_path, journal_url=os.environ.get("TRIMTAB_TEST_JOURNAL_URL"))


@pytest.fixture
def queue(config) -> Iterator[JobQueue]:
    opened = queue_of(config)
    yield opened
    opened.close()


def nothing() -> None:
    raise AssertionError("this kind needs neither")


TOOLS = server.JobResources(spark=nothing, history=nothing)


@contextmanager
def serving(config: TrimtabConfig) -> Iterator[list[str]]:
    stop, said = threading.Event(), []
    thread = threading.Thread(
        target=server.serve, args=(config, by_name([COUNT]), TOOLS, stop, said.append)
    )
    thread.start()
    try:
        yield said
    finally:
        stop.set()
        thread.join(DEADLINE_S)
        assert not thread.is_alive()


def ask(queue: JobQueue, **asked) -> str:
    return queue.add("count", asked, "ada", now())


def ended(queue: JobQueue, job_id: str) -> Job:
    until(lambda: queue.find(job_id).is_ended, f"job {job_id}")
    return queue.find(job_id)


def test_jobs_are_done_in_their_order_and_their_results_are_readable(config, queue) -> None:
    first, second = ask(queue, parts=3), ask(queue, parts=5)
    with serving(config):
        done = [ended(queue, first), ended(queue, second)]
    assert [job.state for job in done] == ["done", "done"]
    assert [job.answer.sentence for job in done if job.answer] == [
        "3 parts were counted.",
        "5 parts were counted.",
    ]
    assert done[0].status.done == done[0].status.total == 3
    assert rows(done[1].table("parts"), View()).table.num_rows == 5
    assert {job.id for job in queue.jobs()} == {first, second}


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"fails": "crash"}, "internal error (RuntimeError: the kind is broken)"),
        ({"fails": "input"}, "There is nothing to count."),
        ({"parts": 0}, "parts: Input should be greater than or equal to 1"),
        ({"no_such": 1}, "no_such"),
    ],
)
def test_a_job_that_fails_says_why_and_the_next_one_is_done(config, queue, asked, said) -> None:
    bad, good = ask(queue, **asked), ask(queue)
    with serving(config):
        failed = ended(queue, bad)
        assert ended(queue, good).state == "done"
    assert failed.state == "failed"
    assert failed.status.error
    assert said in failed.status.error["message"]


def test_the_log_of_a_job_names_it_also_from_the_thread_that_computes(
    config, queue, caplog
) -> None:
    bad = ask(queue, fails="crash")
    about: dict[str, object] = {}

    def note(record: logging.LogRecord) -> bool:  # in the thread that logs
        about[record.msg] = get_contextvars()
        return True

    caplog.handler.addFilter(note)
    with serving(config):
        ended(queue, bad)
    assert about["a job of kind %s failed"] == {"job": bad}


def test_an_unknown_kind_and_damaged_files_are_one_sentence_each(config, queue) -> None:
    unknown = queue.add("cuont", {}, "ada", now())
    broken = ask(queue)
    change(queue, broken, request='{"kind": 7')
    status = ask(queue)
    change(queue, status, state="failed", status="\N{REPLACEMENT CHARACTER}")
    with serving(config):
        assert "count?" in (ended(queue, unknown).status.error or {})["hint"]
        ended(queue, ask(queue))
    for job_id in (broken, status):
        job = queue.find(job_id)
        assert job.state == "failed"
        assert "is damaged" in job.problem


def test_a_running_job_tells_how_far_it_is_and_ends_when_it_is_asked_to(config, queue) -> None:
    job_id = ask(queue, parts=FOREVER)
    with serving(config):
        until(lambda: queue.find(job_id).status.done > 0, "the first parts")
        status = queue.find(job_id).status
        assert (status.state, status.total, status.activity) == ("running", FOREVER, "counting")
        until(lambda: queue.find(job_id).status.eta_s is not None, "an estimate")
        beat = read_status_file(server.server_status_path(config))
        assert beat
        assert beat.is_alive(now())
        queue.stop(job_id, now())
        stopped = ended(queue, job_id)
    assert stopped.state == "stopped"
    assert stopped.answer is None
    with pytest.raises(InputError, match="already stopped"):
        queue.stop(job_id, now())


def test_a_job_that_waits_is_stopped_without_a_server(queue) -> None:
    job_id = ask(queue)
    assert queue.find(job_id).state == "queued"
    queue.stop(job_id, now())
    assert queue.find(job_id).state == "stopped"


def test_a_server_that_ends_puts_its_job_back_and_the_next_one_does_it(config, queue) -> None:
    job_id = ask(queue, parts=FOREVER)
    with serving(config):
        until(lambda: queue.find(job_id).state == "running", "the start")
    assert queue.find(job_id).state == "queued"
    request = queue.find(job_id).request
    assert request
    shorter = msgspec.structs.replace(request, parameters={"parts": 2})
    change(queue, job_id, request=msgspec.json.encode(shorter).decode())
    with serving(config):
        assert ended(queue, job_id).state == "done"


def test_a_second_server_stands_by_until_the_first_one_ends(config) -> None:
    with serving(config) as first:
        until(lambda: "Waiting for jobs." in first, "the first server")
        with serving(config) as second:
            until(lambda: bool(second), "the second server's words")
            assert second[0].startswith("Standby")


@pytest.mark.slow
def test_what_a_killed_server_was_at_is_marked_by_the_next_one(config, queue, tmp_path) -> None:
    job_id = ask(queue, parts=FOREVER)
    script = (
        "import os, sys, threading; sys.path[:0] = sys.argv[2:]\n"
        "from pathlib import Path\n"
        "from connectors.config.model import TrimtabConfig\n"
        "from connectors.jobs import server\n"
        "from connectors.jobs.catalogue import by_name\n"
        "from test_job_server import COUNT, TOOLS\n"
        "url = os.environ.get('TRIMTAB_TEST_JOURNAL_URL')\n"
        "config = TrimtabConfig(state_dir=Path(sys.argv[1]), journal_url=url)\n"
        "server.serve(config, by_name([COUNT]), TOOLS, threading.Event(), print)\n"
    )
    here = Path(__file__)
    paths = (here.parent, here.parents[1] / "support", here.parents[2])
    child = subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path), *map(str, paths)],
        stdout=subprocess.DEVNULL,
    )
    try:
        until(lambda: queue.find(job_id).status.done > 0, "the first parts")
        os.kill(child.pid, signal.SIGKILL)
    finally:
        child.kill()
        child.wait()
    assert queue.find(job_id).state == "running"
    with serving(config):
        left = ended(queue, job_id)
    assert left.state == "failed"
    assert left.status.error
    assert left.status.error["message"] == "The job's process died."


def test_old_jobs_are_dropped_and_the_others_stay(queue, monkeypatch) -> None:
    old = queue.add("count", {}, "ada", now() - job_queue.MAX_AGE - timedelta(days=1))
    queue.stop(old, now())
    done = [queue.add("count", {}, "ada", now() - timedelta(hours=n)) for n in range(4)]
    for job_id in done:
        queue.stop(job_id, now())
    waits = ask(queue)
    assert queue.drop_old(now() + timedelta(days=1)) == [old]
    monkeypatch.setattr(job_queue, "MAX_JOBS", 2)
    assert set(queue.drop_old(now())) == set(done[2:])
    assert {job.id for job in queue.jobs()} == {waits, *done[:2]}
    queue.drop(done[0])
    with pytest.raises(InputError, match="is queued"):
        queue.drop(waits)
    with pytest.raises(UnknownNameError):
        queue.find("../../etc")


def test_result_rows_are_filtered_and_sorted_and_names_are_checked(config, queue) -> None:
    job_id = ask(queue, parts=12)
    with serving(config):
        job = ended(queue, job_id)
    found = rows(job.table("parts"), View(contains="P1", sort="part", limit=2))
    assert found.table["part"].to_pylist() == [11, 10]
    assert (found.matching, found.total, found.is_sorted) == (3, 12, True)
    assert rows(job.table("parts"), View(contains="nowhere")).matching == 0
    with pytest.raises(UnknownNameError):
        rows(job.table("parts"), View(sort="prat"))
    with pytest.raises(UnknownNameError):
        job.table("../../request")


def test_kinds_have_names_of_their_own_and_a_model_that_says_what_is_wrong() -> None:
    with pytest.raises(InvariantError):
        by_name([COUNT, COUNT])
    with pytest.raises(InputError, match="Count cannot be started with these parameters: parts"):
        checked(COUNT, {"parts": "many"})
    assert all(kind.answers.endswith("?") for kind in kinds().values())


def test_two_workers_never_run_the_same_job(config, queue) -> None:
    other = queue_of(config)
    won: list[str] = []
    gate = threading.Barrier(2)

    def work(own: JobQueue) -> None:
        for job_id in jobs:
            gate.wait(DEADLINE_S)
            if own.claim(job_id, now()) is not None:
                won.append(job_id)

    jobs = [ask(queue) for _ in range(20)]
    threads = [threading.Thread(target=work, args=(one,)) for one in (queue, other)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(DEADLINE_S)
    assert sorted(won) == sorted(jobs)
    assert queue.next_id() is None
    other.close()


def test_a_server_that_lost_its_job_writes_nothing_any_more(queue) -> None:
    claim = queue.claim(ask(queue), now())
    assert claim
    assert queue.fail_running(ComputeError("Its server was killed."), now()) == [claim.job.id]
    answer = Answer(sentence="", tables={}, facts={})
    for write in (
        lambda: claim.report(claim.job.status),
        lambda: claim.requeue("again"),
        lambda: claim.end(claim.job.status, "done", now(), answer=answer),
        claim.is_stop_requested,
    ):
        with pytest.raises(LostClaimError):
            write()
    assert queue.find(claim.job.id).state == "failed"


def test_a_stop_between_claim_and_requeue_is_not_lost(config, queue) -> None:
    claim = queue.claim(ask(queue), now())
    assert claim
    queue.stop(claim.job.id, now())
    claim.requeue("The server ended.")
    with serving(config):
        assert ended(queue, claim.job.id).state == "stopped"


def test_the_list_is_one_query_however_many_jobs_there_are(queue) -> None:
    made = [ask(queue) for _ in range(5)]
    statements = []
    database, _ = queue._open()
    sa.event.listen(
        database.engine, "before_cursor_execute", lambda *given: statements.append(given[2])
    )
    assert {job.id for job in queue.jobs()} == set(made)
    assert [text for text in statements if text.startswith("SELECT")] == statements[-1:]


def test_nothing_is_made_by_looking_at_a_queue_that_there_is_not(config, queue) -> None:
    assert queue.jobs() == []
    assert not list(config.state_dir.iterdir())


def test_two_state_directories_share_a_database_and_no_job(config, queue, tmp_path) -> None:
    job_id = ask(queue)
    with closing(JobQueue(tmp_path / "elsewhere", config.journal_address)) as other:
        ask(other)
        assert job_id not in {job.id for job in other.jobs()}
        assert other.next_id() != job_id
        assert other.claim(job_id, now()) is None
