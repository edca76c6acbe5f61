"""The journal on a real PostgreSQL: the same contract, and writers and servers that are killed."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import sqlalchemy as sa
from apply_site import ApplySite
from apply_under_faults import QUIETLY, WorkerProcesses, assert_sound, heal, wait_until
from journal_entries import record_of, requested
from postgresql import PostgreSql
from pydantic import SecretStr

from connectors.journal.archive import read_archive, write_archive
from connectors.journal.journal import SqlJournal
from connectors.sandbox.pulsar.fleet import Sandbox, SandboxOptions
from core.actions.events import EntriesArchived
from core.actions.model import ENDED_RUNS, RunId
from core.errors import RemoteError

pytestmark = pytest.mark.slow

TESTS = Path(__file__).parents[1]
STEPS = 6
SEED = 20261121
KILLS = 12
"""Times that the worker is killed, each at another moment of a run."""


@pytest.fixture(scope="module")
def server() -> Iterator[PostgreSql]:
    made = PostgreSql()
    made.start()
    yield made
    made.stop()


@pytest.fixture
def url(server: PostgreSql) -> str:
    server.empty()
    return server.url


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    options = SandboxOptions(
        brokers=6,
        bundles=240,
        session_timeout_s=20.0,  # no broker is lost on a busy machine
        stats_every_s=1.0,
        is_steady=True,
        dynamic={"loadBalancerSheddingEnabled": "true"},
    )
    with Sandbox(options) as running:
        yield running


@pytest.fixture
def site(sandbox: Sandbox, tmp_path: Path, url: str) -> ApplySite:
    heal(sandbox)
    made = ApplySite.of(tmp_path, sandbox.cluster_config())
    return replace(made, config=made.config.model_copy(update={"journal_url": SecretStr(url)}))


def test_the_contract_of_journals_leases_and_jobs_holds(url) -> None:
    suites = ("test_journal.py", "test_sql_lease.py")
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", "named"]
    done = subprocess.run(
        [*words, *(str(TESTS / "contract" / suite) for suite in suites)],
        env={**os.environ, "TRIMTAB_TEST_JOURNAL_URL": url},
        cwd=TESTS.parent,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:]
    assert "passed" in done.stdout


def test_the_database_itself_refuses_changes(url) -> None:
    journal = SqlJournal(url)
    journal.append(record_of(requested()))
    for statement in (
        "UPDATE trimtab_entries SET actor = 'eve'",
        "DELETE FROM trimtab_entries",
        "TRUNCATE trimtab_entries",
    ):
        with (
            pytest.raises(sa.exc.DBAPIError, match="only ever added to"),
            journal.database.engine.begin() as connection,
        ):
            connection.execute(sa.text(statement))
    assert journal.verify().is_sound
    journal.close()


def test_archived_entries_leave_and_the_database_refuses_deletes_again(url, tmp_path) -> None:
    journal = SqlJournal(url)
    for _ in range(3):
        journal.append(record_of(requested()))
    made = write_archive(journal, 2, tmp_path / "old.jsonl")
    event = EntriesArchived(first=1, last=2, digest=made.digest, file="old.jsonl", sha256="")
    journal.remove_archived(record_of(event, run_id=RunId("")), 3)
    assert [entry.seq for entry in journal.entries()] == [3, 4]
    found = journal.verify(archived=read_archive(tmp_path / "old.jsonl"))
    assert (found.damage, found.entries) == (None, 4)
    with (
        pytest.raises(sa.exc.DBAPIError, match="only ever added to"),
        journal.database.engine.begin() as connection,
    ):
        connection.execute(sa.text("DELETE FROM trimtab_entries"))
    journal.close()


def test_a_damaged_index_is_named_and_what_cannot_be_checked_too(server, url) -> None:
    journal = SqlJournal(url)
    for _ in range(400):
        journal.append(record_of(requested()))
    found = journal.verify()
    assert found.is_sound
    assert found.skipped == (
        "page checksums (data_checksums is off)",
        "indexes (the extension amcheck is not installed)",
    )
    with journal.database.engine.begin() as connection:
        connection.execute(sa.text("CREATE EXTENSION amcheck"))
    assert "indexes" in journal.verify().checked
    journal.close()

    server.damage_index("trimtab_entries_pkey")

    journal = SqlJournal(url)
    damaged = journal.verify()
    assert "indexes" in damaged.checked
    assert not damaged.is_sound
    assert any("trimtab_entries_pkey" in sentence for sentence in damaged.problems), (
        damaged.problems
    )
    journal.close()


def test_processes_that_open_a_new_database_at_once_all_succeed(url) -> None:
    journals: list[SqlJournal] = []
    threads = [threading.Thread(target=lambda: journals.append(SqlJournal(url))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(journals) == 8
    assert journals[0].append(record_of(requested())).seq == 1
    for journal in journals:
        journal.close()


@pytest.mark.parametrize("attempt", range(5))
def test_what_was_acknowledged_outlives_the_death_of_the_server(server, url, attempt) -> None:
    """Every process of the server is killed while four threads append."""
    journal, acknowledged, unknown = SqlJournal(url), [], []
    stop = threading.Event()

    def append(number: int) -> None:
        while not stop.is_set():
            record = record_of(requested(), second=number)
            try:
                acknowledged.append(journal.append(record).digest)
            except RemoteError as error:
                unknown.append(error.outcome)
                return

    threads = [threading.Thread(target=append, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    wait_until(lambda: len(acknowledged) > 20 * (attempt + 1), "entries")
    server.kill()
    for thread in threads:
        thread.join()
    stop.set()
    server.start()
    found = journal.verify()
    assert found.is_sound
    stored = [entry.digest for entry in journal.entries()]
    assert set(acknowledged) <= set(stored)
    assert len(stored) == len(set(stored))
    assert len(stored) - len(acknowledged) <= unknown.count("unknown")
    assert journal.append(record_of(requested())).seq == len(stored) + 1
    journal.close()


def test_connections_that_an_administrator_ends_lose_nothing(server, url) -> None:
    journal = SqlJournal(url)
    outcomes = []
    for _ in range(10):
        server.kill_backends()
        try:
            journal.append(record_of(requested()))
            outcomes.append("appended")
        except RemoteError as error:
            outcomes.append(error.outcome)
    found = journal.verify()
    assert found.is_sound
    assert set(outcomes) <= {"appended", "not_sent", "unknown"}
    assert found.entries >= outcomes.count("appended") >= 8
    journal.close()


@pytest.mark.zookeeper
@pytest.mark.parametrize("attempt", range(KILLS))
def test_a_worker_killed_at_any_moment_leaves_a_run_that_the_next_one_ends(
    sandbox: Sandbox, site: ApplySite, attempt: int
) -> None:
    chance = random.Random(SEED + attempt)
    run_id = site.ask(site.plan(STEPS), QUIETLY)
    with WorkerProcesses(site) as workers:
        first = workers.start()
        # a moment in the claim, in a step, between steps, or while the settings are restored
        entries = chance.randrange(1, 3 * STEPS)
        wait_until(
            lambda: len(site.entries(run_id)) > entries or site.view(run_id).is_ended, "entries"
        )
        threading.Event().wait(chance.random() * 0.3)
        workers.kill(first)
        workers.start()
        wait_until(lambda: site.view(run_id).state in ENDED_RUNS, "the end")
    assert_sound(sandbox, site, [site.view(run_id)])


@pytest.mark.zookeeper
@pytest.mark.parametrize("attempt", range(4))
def test_a_server_killed_during_a_run_lets_it_go_on_afterwards(
    sandbox: Sandbox, site: ApplySite, server: PostgreSql, attempt: int
) -> None:
    chance = random.Random(SEED - attempt)
    run_id = site.ask(site.plan(STEPS), QUIETLY)
    with WorkerProcesses(site) as workers:
        workers.start()
        entries = chance.randrange(2, 2 * STEPS)
        wait_until(
            lambda: len(site.entries(run_id)) > entries or site.view(run_id).is_ended, "entries"
        )
        server.kill()
        threading.Event().wait(chance.random())
        server.start()
        wait_until(lambda: site.view(run_id).state in ENDED_RUNS, "the end")
    assert_sound(sandbox, site, [site.view(run_id)])
