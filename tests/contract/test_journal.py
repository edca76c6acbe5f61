"""What every journal must do, on SQLite always and on the database that a variable names.

``TRIMTAB_TEST_JOURNAL_URL`` (for example ``postgresql+psycopg://user@/scratch?host=...``) names a
database that these tests may fill and empty.
"""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa
from journal_entries import (
    NOON,
    ONE_OF_EACH,
    RUN,
    begun,
    claimed,
    ended,
    plan_of,
    record_of,
    requested,
)

from connectors.journal.journal import SqlJournal
from connectors.journal.schema import METADATA
from core.actions.events import (
    FIRST_LINK,
    ControlRequested,
    RunEnded,
    RunRefused,
    StepStarted,
    canonical,
    link,
)
from core.actions.model import Observation, RunId
from core.errors import ConfigError, RemoteError

NAMED = os.environ.get("TRIMTAB_TEST_JOURNAL_URL", "")
HERE = Path(__file__).parents[1] / "support"

PROCESSES, APPENDS = 8, 50


@pytest.fixture(params=["sqlite", *(["named"] if NAMED else [])])
def url(request, tmp_path) -> Iterator[str]:
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'state' / 'journal.db'}"
        return
    _empty(NAMED)
    yield NAMED
    _empty(NAMED)


def _empty(address: str) -> None:
    engine = sa.create_engine(address)
    METADATA.drop_all(engine)
    engine.dispose()


@pytest.fixture
def journal(url) -> Iterator[SqlJournal]:
    made = SqlJournal(url)
    yield made
    made.close()


def test_a_new_journal_is_empty_and_sound(journal) -> None:
    assert journal.entries() == []
    assert journal.newest() == (0, FIRST_LINK)
    assert journal.verify().is_sound
    assert list(journal.open_runs("prod")) == []
    assert journal.run_ids() == []


@pytest.mark.parametrize("event", ONE_OF_EACH, ids=lambda event: type(event).__name__)
def test_every_event_reads_back_as_it_was_written(journal, event) -> None:
    record = record_of(event)
    entry = journal.append(record)
    (read,) = journal.entries()
    assert read == entry
    assert read.record == record
    assert entry.digest == link(FIRST_LINK, 1, canonical(record))


def test_entries_are_numbered_from_one_and_linked(journal) -> None:
    entries = [journal.append(record_of(event)) for event in ONE_OF_EACH]
    assert [entry.seq for entry in entries] == list(range(1, len(ONE_OF_EACH) + 1))
    assert entries[0].previous == FIRST_LINK
    assert all(b.previous == a.digest for a, b in itertools.pairwise(entries))
    assert journal.newest() == (entries[-1].seq, entries[-1].digest)
    assert journal.verify().entries == len(entries)


def test_entries_can_be_asked_for_by_run_place_and_number(journal) -> None:
    other = RunId("20261121-130000-000000")
    for run_id in (RUN, other, RUN):
        journal.append(record_of(ControlRequested(control="stop"), run_id=run_id))
    assert [entry.seq for entry in journal.entries(run_id=RUN)] == [1, 3]
    assert [entry.seq for entry in journal.entries(after=1)] == [2, 3]
    assert [entry.seq for entry in journal.entries(after=1, limit=1)] == [2]
    assert [entry.seq for entry in journal.entries(run_id=RUN, after=1)] == [3]


def test_open_runs_are_those_requested_and_not_ended_oldest_first(journal) -> None:
    runs = [RunId(f"20261121-12000{n}-000000") for n in range(5)]
    for run_id in runs:
        journal.append(record_of(requested(), run_id=run_id))
    journal.append(record_of(requested(), run_id=RunId("elsewhere"), cluster="test"))
    journal.append(record_of(claimed(), run_id=runs[0]))
    journal.append(record_of(RunEnded(state="DONE", sentence="x"), run_id=runs[1]))
    journal.append(record_of(RunRefused(code="x", sentence="x"), run_id=runs[3]))
    assert list(journal.open_runs("prod")) == [runs[0], runs[2], runs[4]]
    assert list(journal.open_runs("test")) == ["elsewhere"]
    assert journal.run_ids(cluster="prod") == runs[::-1]
    assert journal.run_ids(limit=2) == ["elsewhere", runs[4]]


def test_open_runs_are_followed_as_they_come_and_go(journal, url) -> None:
    other = SqlJournal(url)  # another process's
    assert list(journal.open_runs("prod")) == []
    other.append(record_of(requested(), run_id=RunId("a")))
    assert list(journal.open_runs("prod")) == ["a"]
    other.append(record_of(requested(), run_id=RunId("b")))
    assert list(journal.open_runs("prod")) == ["a", "b"]
    other.append(record_of(RunEnded(state="DONE", sentence="x"), run_id=RunId("a")))
    assert list(journal.open_runs("prod")) == list(other.open_runs("prod")) == ["b"]
    other.close()


def test_an_end_written_by_a_worker_that_lost_the_run_leaves_it_open(journal) -> None:
    journal.append(record_of(requested()))
    journal.append(record_of(claimed("old")))
    journal.append(record_of(claimed("new")))
    end = RunEnded(state="DONE", sentence="x")
    journal.append(record_of(end, actor="old"))
    assert list(journal.open_runs("prod")) == [RUN]
    journal.append(record_of(end, actor="new"))
    assert list(journal.open_runs("prod")) == []


def test_moves_are_counted_by_cluster_and_time(journal) -> None:
    for second in range(4):
        journal.append(record_of(begun(0), second=second))
        journal.append(record_of(ended(0), second=second))
    journal.append(record_of(begun(0), second=3, cluster="test"))
    assert journal.moves_since("prod", NOON) == 4
    assert journal.moves_since("prod", record_of(begun(0), second=2).at) == 2
    assert journal.moves_since("test", NOON) == 1


def test_the_latest_move_of_a_cluster_is_known(journal) -> None:
    assert journal.last_begun("prod", NOON) is None
    for second in range(3):
        record = record_of(begun(0), second=second)
        journal.append(record)
    journal.append(record_of(begun(0), second=9, cluster="test"))
    assert journal.last_begun("prod", NOON) == record.at
    assert journal.last_begun("prod", record_of(begun(0), second=3).at) is None


def test_a_step_that_is_not_paced_is_no_move(journal) -> None:
    said = Observation(exists=True, detail='It says "is_paced":false.')
    journal.append(record_of(StepStarted(step=0, observed=said), second=1))
    journal.append(record_of(StepStarted(step=1, observed=said, is_paced=False), second=2))
    assert journal.moves_since("prod", NOON) == 1
    assert journal.last_begun("prod", NOON) == record_of(begun(0), second=1).at


def test_runs_that_ended_since_a_moment_are_found(journal) -> None:
    for second, name in enumerate("abc"):
        end = RunEnded(state="DONE", sentence="x")
        journal.append(record_of(end, run_id=RunId(name), second=second))
    journal.append(record_of(end, run_id=RunId("d"), second=9, cluster="test"))
    assert list(journal.runs_ended("prod", record_of(end, second=1).at)) == ["b", "c"]


def test_runs_of_a_plan_are_found_by_the_plan_itself(journal) -> None:
    plan, other = plan_of(2), plan_of(3, derived_from=plan_of(2).plan_id)
    journal.append(record_of(requested(plan=plan), run_id=RunId("a")))
    journal.append(record_of(requested(plan=other), run_id=RunId("b")))
    journal.append(record_of(requested(plan=plan), run_id=RunId("c")))
    assert list(journal.runs_of_plan(plan)) == ["a", "c"]
    assert list(journal.runs_of_plan(other)) == ["b"]
    assert list(journal.runs_of_plan(plan_of(4))) == []


def test_runs_that_acted_between_two_moments_are_named_once(journal) -> None:
    for run_id, second in (("a", 1), ("b", 3), ("b", 4), ("c", 9)):
        journal.append(record_of(begun(0), second=second, run_id=RunId(run_id)))
    journal.append(record_of(begun(0), second=4, run_id=RunId("d"), cluster="test"))
    since, until = (record_of(begun(0), second=second).at for second in (1, 8))
    assert list(journal.runs_acting("prod", since, until)) == ["b"]


def test_the_same_journal_opens_again(url) -> None:
    first = SqlJournal(url)
    first.append(record_of(requested()))
    first.close()
    second = SqlJournal(url)
    assert len(second.entries()) == 1
    second.append(record_of(claimed()))
    assert second.verify().entries == 2
    second.close()


@pytest.mark.parametrize(
    "change", ["UPDATE trimtab_entries SET actor = 'x'", "DELETE FROM trimtab_entries"]
)
def test_the_database_itself_refuses_changes(journal, change) -> None:
    journal.append(record_of(requested()))
    with (
        pytest.raises(sa.exc.DBAPIError, match="only ever added to"),
        journal.database.engine.begin() as connection,
    ):
        connection.exec_driver_sql(change)
    assert journal.verify().entries == 1


def test_a_journal_of_another_version_is_refused(url) -> None:
    journal = SqlJournal(url)
    with journal.database.engine.begin() as connection:
        connection.exec_driver_sql("UPDATE trimtab_revision SET version_num = '0099'")
    journal.close()
    with pytest.raises(ConfigError, match="revision 0099"):
        SqlJournal(url)


def test_many_threads_write_one_unbroken_chain(journal) -> None:
    start = threading.Barrier(8)

    def write(number: int) -> None:
        start.wait(10)
        for _ in range(10):
            journal.append(
                record_of(ControlRequested(control="stop"), run_id=RunId(f"run-{number}"))
            )

    threads = [threading.Thread(target=write, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    found = journal.verify()
    assert found.is_sound
    assert found.entries == 80


WRITER = """
import sys
sys.path.insert(0, {here!r})
from journal_entries import record_of, requested
from core.actions.events import ControlRequested
from core.actions.model import RunId
from connectors.journal.journal import SqlJournal
journal = SqlJournal({url!r})
print("ready", flush=True)
sys.stdin.readline()
for number in range({count}):
    record = record_of(ControlRequested(control="stop", reason=str(number)), run_id=RunId({name!r}))
    print(journal.append(record).seq, flush=True)
"""


def writer(url: str, name: str, count: int) -> subprocess.Popen[str]:
    code = WRITER.format(here=str(HERE), url=url, name=name, count=count)
    return subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


@pytest.mark.slow
def test_many_processes_write_one_unbroken_chain(url) -> None:
    writers = [writer(url, f"run-{n}", APPENDS) for n in range(PROCESSES)]
    for each in writers:  # all of them make the tables at once, too
        assert each.stdout is not None
        assert each.stdout.readline() == "ready\n"
    for each in writers:
        assert each.stdin is not None
        each.stdin.write("go\n")
        each.stdin.flush()
    seqs = []
    for each in writers:
        out, _ = each.communicate(timeout=120)
        assert each.returncode == 0
        seqs += [int(line) for line in out.split()]
    assert sorted(seqs) == list(range(1, PROCESSES * APPENDS + 1))
    journal = SqlJournal(url)
    found = journal.verify()
    assert found.is_sound
    assert found.entries == PROCESSES * APPENDS
    for n in range(PROCESSES):
        entries = journal.entries(run_id=RunId(f"run-{n}"))
        reasons = [entry.record.event.reason for entry in entries]
        assert reasons == [str(number) for number in range(APPENDS)]
    journal.close()


@pytest.mark.parametrize("after", [1, 7, 40])
def test_a_writer_killed_in_the_middle_leaves_a_sound_chain(url, after) -> None:
    victim = writer(url, "victim", 10_000)
    assert victim.stdin is not None
    assert victim.stdout is not None
    assert victim.stdout.readline() == "ready\n"
    victim.stdin.write("go\n")
    victim.stdin.flush()
    told = [int(victim.stdout.readline()) for _ in range(after)]
    victim.kill()
    told += [int(line) for line in victim.stdout.read().split()]
    victim.communicate(timeout=30)
    journal = SqlJournal(url)
    found = journal.verify()
    assert found.is_sound
    # what was acknowledged is there; one more may have been written and not acknowledged
    assert found.entries - len(told) in (0, 1)
    assert journal.append(record_of(requested())).seq == found.entries + 1
    assert journal.verify().is_sound
    journal.close()


def test_an_unreadable_entry_is_named(journal) -> None:
    journal.append(record_of(requested()))
    with journal.database.engine.begin() as connection:
        text = canonical(record_of(claimed())).replace("RunClaimed", "RunStolen")
        connection.execute(
            sa.text(
                "INSERT INTO trimtab_entries VALUES "
                "(2, 'r', 'c', 0, 'a', 'k', :text, 'previous', 'digest')"
            ),
            {"text": text},
        )
    with pytest.raises(RemoteError, match="Entry 2 of the journal") as caught:
        journal.entries()
    assert "runs --verify" in caught.value.hint
