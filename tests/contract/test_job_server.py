"""The job server: what is asked on disk is carried out, followed, stopped and survived."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from time import monotonic

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pydantic import BaseModel, ConfigDict, Field

from connectors.config.model import TrimtabConfig
from connectors.jobs import folder, server
from connectors.jobs.catalogue import by_name, checked, kinds
from connectors.jobs.model import JobAnswer, JobContext, JobKind
from connectors.jobs.results import View, rows
from connectors.worker.status import read_status_file
from core.errors import InputError, InvariantError, UnknownNameError

DEADLINE_S = 60.0


class Asked(BaseModel):
    model_config = ConfigDict(extra="forbid")
    parts: int = Field(default=3, ge=1)
    fails: str = ""


def count(context: JobContext, asked: Asked) -> JobAnswer:
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
    name="count", title="Count", answers="How many parts are there?", asks=Asked, run=count
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
    return TrimtabConfig(state_dir=tmp_path)


def nothing() -> None:
    raise AssertionError("this kind needs neither")


TOOLS = server.Tools(spark=nothing, history=nothing)


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


def ask(config, **asked) -> str:
    return folder.add(config, "count", asked, "ada", now())


def ended(config, job_id) -> folder.Job:
    until(lambda: folder.find(config, job_id).is_ended, f"job {job_id}")
    return folder.find(config, job_id)


def test_jobs_are_done_in_their_order_and_their_results_are_readable(config) -> None:
    first, second = ask(config, parts=3), ask(config, parts=5)
    with serving(config):
        done = [ended(config, first), ended(config, second)]
    assert [job.state for job in done] == ["done", "done"]
    assert [job.answer.sentence for job in done if job.answer] == [
        "3 parts were counted.",
        "5 parts were counted.",
    ]
    assert done[0].status.done == done[0].status.total == 3
    assert rows(done[1].table("parts"), View()).table.num_rows == 5
    assert {job.id for job in folder.listed(config)} == {first, second}


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"fails": "crash"}, "fault of Trimtab itself (RuntimeError: the kind is broken)"),
        ({"fails": "input"}, "There is nothing to count."),
        ({"parts": 0}, "parts: Input should be greater than or equal to 1"),
        ({"no_such": 1}, "no_such"),
    ],
)
def test_a_job_that_fails_says_why_and_the_next_one_is_done(config, asked, said) -> None:
    bad, good = ask(config, **asked), ask(config)
    with serving(config):
        failed = ended(config, bad)
        assert ended(config, good).state == "done"
    assert failed.state == "failed"
    assert failed.status.error
    assert said in failed.status.error["message"]


def test_an_unknown_kind_and_damaged_files_are_one_sentence_each(config) -> None:
    unknown = folder.add(config, "cuont", {}, "ada", now())
    broken = ask(config)
    (folder.jobs_dir(config) / broken / folder.REQUEST).write_text('{"kind": 7')
    status = ask(config)
    (folder.jobs_dir(config) / status / folder.STATUS).write_bytes(b"\xff\x00")
    with serving(config):
        assert "Did you mean count?" in (ended(config, unknown).status.error or {})["hint"]
        ended(config, ask(config))
    for job_id in (broken, status):
        job = folder.find(config, job_id)
        assert job.state == "failed"
        assert "is damaged" in job.problem


def test_a_running_job_tells_how_far_it_is_and_ends_when_it_is_asked_to(config) -> None:
    job_id = ask(config, parts=FOREVER)
    with serving(config):
        until(lambda: folder.find(config, job_id).status.done > 0, "the first parts")
        status = folder.find(config, job_id).status
        assert (status.state, status.total, status.words) == ("running", FOREVER, "counting")
        until(lambda: folder.find(config, job_id).status.eta_s is not None, "an estimate")
        beat = read_status_file(server.server_status_path(config))
        assert beat
        assert beat.is_alive(now())
        folder.ask_stop(config, job_id)
        stopped = ended(config, job_id)
    assert stopped.state == "stopped"
    assert stopped.answer is None
    with pytest.raises(InputError, match="stopped already"):
        folder.ask_stop(config, job_id)


def test_a_job_that_waits_is_stopped_without_a_server(config) -> None:
    job_id = ask(config)
    assert folder.find(config, job_id).state == "queued"
    folder.ask_stop(config, job_id)
    assert folder.find(config, job_id).state == "stopped"


def test_a_server_that_ends_puts_its_job_back_and_the_next_one_does_it(config) -> None:
    job_id = ask(config, parts=FOREVER)
    with serving(config):
        until(lambda: folder.find(config, job_id).state == "running", "the start")
    assert folder.find(config, job_id).state == "queued"
    path = folder.jobs_dir(config) / job_id / folder.REQUEST
    path.write_text(json.dumps(json.loads(path.read_text()) | {"asked": {"parts": 2}}))
    with serving(config):
        assert ended(config, job_id).state == "done"


def test_a_second_server_stands_by_until_the_first_one_ends(config) -> None:
    with serving(config) as first:
        until(lambda: "Waiting for jobs." in first, "the first server")
        with serving(config) as second:
            until(lambda: bool(second), "the second server's words")
            assert second[0].startswith("Standing by")


def test_what_a_killed_server_was_at_is_marked_by_the_next_one(config, tmp_path) -> None:
    job_id = ask(config, parts=FOREVER)
    script = (
        "import sys, threading; sys.path[:0] = sys.argv[2:]\n"
        "from pathlib import Path\n"
        "from connectors.config.model import TrimtabConfig\n"
        "from connectors.jobs import server\n"
        "from connectors.jobs.catalogue import by_name\n"
        "from test_job_server import COUNT, TOOLS\n"
        "config = TrimtabConfig(state_dir=Path(sys.argv[1]))\n"
        "server.serve(config, by_name([COUNT]), TOOLS, threading.Event(), print)\n"
    )
    here = Path(__file__)
    child = subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path), str(here.parent), str(here.parents[2])],
        stdout=subprocess.DEVNULL,
    )
    try:
        until(lambda: folder.find(config, job_id).status.done > 0, "the first parts")
        os.kill(child.pid, signal.SIGKILL)
    finally:
        child.kill()
        child.wait()
    assert folder.find(config, job_id).state == "running"
    with serving(config):
        left = ended(config, job_id)
    assert left.state == "failed"
    assert left.status.error
    assert left.status.error["message"] == "The job ended with its process."


def test_old_jobs_are_dropped_and_the_others_stay(config, monkeypatch) -> None:
    old = folder.add(config, "count", {}, "ada", now() - folder.MAX_AGE - timedelta(days=1))
    folder.ask_stop(config, old)
    done = [folder.add(config, "count", {}, "ada", now() - timedelta(hours=n)) for n in range(4)]
    for job_id in done:
        folder.ask_stop(config, job_id)
    waits = ask(config)
    assert folder.drop_old(config, now()) == [old]
    monkeypatch.setattr(folder, "MAX_JOBS", 2)
    assert set(folder.drop_old(config, now())) == set(done[2:])
    assert {job.id for job in folder.listed(config)} == {waits, *done[:2]}
    folder.drop(config, done[0])
    with pytest.raises(InputError, match="is queued"):
        folder.drop(config, waits)
    with pytest.raises(UnknownNameError):
        folder.find(config, "../../etc")


def test_result_rows_are_filtered_and_sorted_and_names_are_checked(config) -> None:
    job_id = ask(config, parts=12)
    with serving(config):
        job = ended(config, job_id)
    found = rows(job.table("parts"), View(contains="P1", sort="part", most=2))
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
    with pytest.raises(InputError, match="Count cannot be asked so: parts"):
        checked(COUNT, {"parts": "many"})
    assert all(kind.answers.endswith("?") for kind in kinds().values())
