"""One writer at a time: the lease in the journal's database."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator

import pytest
import sqlalchemy as sa

from connectors.journal.engine import Database
from connectors.journal.lease import SqlLease
from connectors.journal.schema import METADATA
from core.errors import RemoteError

NAMED = os.environ.get("TRIMTAB_TEST_JOURNAL_URL", "")


@pytest.fixture(params=["sqlite", *(["named"] if NAMED else [])])
def database(request, tmp_path) -> Iterator[Database]:
    if request.param == "named":
        engine = sa.create_engine(NAMED)
        METADATA.drop_all(engine)
        engine.dispose()
    url = NAMED if request.param == "named" else f"sqlite:///{tmp_path / 'journal.db'}"
    made = Database(url)
    yield made
    made.close()


class Clock:
    """Seconds that pass when a test says so."""

    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def lease(database, clock):
    made: list[SqlLease] = []

    def make(holder: str, cluster: str = "prod") -> SqlLease:
        # so long that the renewing thread, which counts real seconds, stays out of it
        made.append(SqlLease(database, cluster, holder, lifetime_s=3600, clock=clock))
        return made[-1]

    yield make
    for each in made:
        each.release()


def test_one_of_two_gets_it_and_is_named(lease) -> None:
    first, second = lease("one"), lease("two")
    assert first.acquire()
    assert not second.acquire()
    assert first.is_held()
    assert not second.is_held()
    assert second.holder() == "one"


def test_nobody_holds_it_before_and_after(lease) -> None:
    first = lease("one")
    assert first.holder() is None
    assert not first.is_held()
    assert first.acquire()
    first.release()
    assert first.holder() is None
    assert not first.is_held()
    assert lease("two").acquire()


def test_whoever_holds_it_may_take_it_again(lease) -> None:
    first = lease("one")
    assert first.acquire()
    assert first.acquire()
    assert first.is_held()


def test_leases_of_two_clusters_are_two(lease) -> None:
    assert lease("one").acquire()
    assert lease("two", "test").acquire()


def test_an_expired_lease_is_free_and_its_holder_learns_it(lease, clock) -> None:
    first, second = lease("one"), lease("two")
    assert first.acquire()
    clock.now += 3601
    assert second.holder() is None
    assert second.acquire()
    assert not first.is_held()
    first.release()  # must not take away what is the other one's
    assert second.is_held()


def test_asking_renews_it(lease, clock) -> None:
    first, second = lease("one"), lease("two")
    assert first.acquire()
    for _ in range(3):
        clock.now += 3000
        assert first.is_held()
    assert not second.acquire()


def test_past_its_end_it_is_still_ours_as_long_as_nobody_took_it(lease, clock) -> None:
    first, second = lease("one"), lease("two")
    assert first.acquire()
    clock.now += 10_000
    assert first.is_held()
    assert not second.acquire()


def test_it_is_renewed_while_nobody_asks(database) -> None:
    first = SqlLease(database, "prod", "one", lifetime_s=0.6)
    second = SqlLease(database, "prod", "two", lifetime_s=0.6)
    assert first.acquire()
    try:
        is_over = threading.Event()
        for _ in range(8):
            is_over.wait(0.2)
            assert not second.acquire()
        assert first.is_held()
    finally:
        first.release()
        second.release()


def test_of_many_at_once_one_gets_it(database) -> None:
    leases = [SqlLease(database, "prod", f"worker {n}", lifetime_s=60) for n in range(8)]
    start = threading.Barrier(len(leases))
    got: list[str] = []

    def race(lease: SqlLease, number: int) -> None:
        start.wait(10)
        if lease.acquire():
            got.append(f"worker {number}")

    threads = [
        threading.Thread(target=race, args=(lease, number)) for number, lease in enumerate(leases)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert len(got) == 1
    assert leases[0].holder() == got[0]
    for lease in leases:
        lease.release()


def test_a_database_that_is_away_makes_it_not_certain(tmp_path) -> None:
    database = Database(f"sqlite:///{tmp_path / 'journal.db'}")
    lease = SqlLease(database, "prod", "one", lifetime_s=3600)
    assert lease.acquire()
    with database.engine.begin() as connection:
        connection.exec_driver_sql("DROP TABLE trimtab_leases")
    assert not lease.is_held()
    with pytest.raises(RemoteError):
        lease.acquire()
    with pytest.raises(RemoteError):
        lease.holder()
    lease.release()
    database.close()
