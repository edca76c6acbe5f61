"""Two collectors on one history: one records, the other stands by and takes over."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from fleet_builder import NOON, make_snapshot
from fleet_edit import edited, owned_by, with_manifest

from connectors.journal.journal import SqlJournal
from connectors.recording.minutes import ClusterMinutes
from core.history.analysis.accuracy.pulsar import PulsarShadow
from core.history.store.lease import HeldError, Lease
from core.history.store.store import HistoryLocation, HistoryStore
from core.history.store.writer import Recorder
from core.snapshot import PulsarSnapshot

START = make_snapshot(brokers=4, bundles=24, minutes_ago=200)
BROKERS = START.brokers["broker"].to_pylist()
MOVED = owned_by(START, BROKERS[0])[:3]


class Site:
    """One history and journal, collectors with state directories of their own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.store = HistoryStore(HistoryLocation(str(folder / "history")))
        self.journal = SqlJournal(f"sqlite:///{folder / 'journal.db'}")

    def collector(self, name: str) -> ClusterMinutes:
        lease = Lease(60.0, self.folder / f"{name}.segments")
        return ClusterMinutes(
            lambda: HistoryStore(self.store.location),
            "fleet",
            lambda: self.journal,
            PulsarShadow(),
            lease,
        )

    def times(self) -> list[int]:
        noon = round(NOON.timestamp() * 1000)
        return [(at - noon) // 1000 for at in self.store.minutes("fleet")["taken_at"].to_pylist()]


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    made = Site(tmp_path)
    yield made
    made.journal.close()


def at(second: float, moved: int = 0) -> PulsarSnapshot:
    """The fleet so long after noon, so many bundles moved from the first broker to the second."""
    owners = {name: {"owner": BROKERS[1]} for name in MOVED[:moved]}
    made = edited(START, "bundles", owners)
    return with_manifest(made, taken_at=NOON + timedelta(seconds=second), duration_s=0.1)


def held(collector: ClusterMinutes, snapshot: PulsarSnapshot) -> bool:
    try:
        return not collector.record(snapshot).is_new
    except HeldError:
        return True


def test_second_collector_stands_by_and_every_move_is_told_once(site: Site) -> None:
    first, second = site.collector("first"), site.collector("second")
    for minute in range(3):
        assert not held(first, at(60 * minute, minute))
        assert held(second, at(60 * minute + 7, minute))
    assert site.times() == [0, 60, 120]
    moves = site.store.rows("events", "fleet", matching={"kind": "move"})
    assert sorted(moves["subject"].to_pylist()) == sorted(MOVED[:2])


def test_stand_by_takes_over_when_the_other_one_stops_and_it_stays_so(site: Site) -> None:
    first, second = site.collector("first"), site.collector("second")
    assert not held(first, at(0))
    assert [held(second, at(second_at, 1)) for second_at in (67, 127, 187)] == [True, True, False]
    assert held(first, at(190, 2))  # it was held up only, and is back
    assert not held(second, at(247, 2))
    moves = site.store.rows("events", "fleet", matching={"kind": "move"})
    assert [row["subject"] for row in moves.to_pylist()] == MOVED[:2]
    again = site.store.snapshot_at("fleet", NOON + timedelta(seconds=250))
    assert again.snapshot_id == replace_cluster(at(247, 2)).snapshot_id


def replace_cluster(snapshot: PulsarSnapshot) -> PulsarSnapshot:
    return PulsarSnapshot.build(replace(snapshot.manifest, cluster="fleet"), snapshot.tables)


def test_collector_that_starts_again_goes_on_at_once(site: Site) -> None:
    site.collector("first").record(at(0))
    assert not held(site.collector("first"), at(5))
    assert held(site.collector("second"), at(10))


def test_of_two_that_begin_at_once_one_records(site: Site) -> None:
    store = HistoryStore(site.store.location)
    late = Recorder(store, "fleet", lease=Lease(60.0))
    commit = store.tables.append

    def overtaken(*given, **more) -> None:
        if not more.get("only_one") and not site.store.minutes("fleet").num_rows:
            Recorder(site.store, "fleet", lease=Lease(60.0)).record(at(1))
        commit(*given, **more)

    store.tables.append = overtaken
    with pytest.raises(HeldError):
        late.record(at(0))
    assert site.times() == [1]


def test_old_minutes_are_taken_in_while_somebody_records(site: Site) -> None:
    collector = site.collector("first")
    assert not held(collector, at(0))
    assert Recorder(site.store, "fleet").record(at(-4_000)).is_new
    assert not held(collector, at(60))
    assert site.times() == [-4_000, 0, 60]


@pytest.mark.parametrize(
    ("period_s", "duration_s", "reach_ms"),
    [(60.0, 1.0, 150_000), (60.0, 200.0, 500_000), (1.0, 0.1, 10_000)],
)
def test_reach_follows_the_period_or_a_slower_capture(period_s, duration_s, reach_ms) -> None:
    assert Lease(period_s).reach_ms(duration_s) == reach_ms


def test_file_that_cannot_be_read_or_written_costs_no_minute(tmp_path: Path) -> None:
    (tmp_path / "damaged").write_text("1\nx\n")
    for file in (tmp_path / "damaged", tmp_path / "nowhere" / "file"):
        lease = Lease(60.0, file)
        lease.began(7)
        lease.check("fleet", 7, 1)
        with pytest.raises(HeldError):
            lease.check("fleet", 8, 1)
