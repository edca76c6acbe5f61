"""A minute with its steps and its forecast; what fails, fails alone and in words."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from fleet_builder import NOON, make_snapshot
from fleet_edit import edited, owned_by, with_manifest
from journal_entries import begun, claimed, ended, plan_of, record_of, requested

from connectors.journal.journal import SqlJournal
from connectors.recording.minutes import ClusterMinutes
from core.actions.events import RunEnded
from core.errors import OpsError, UnreachableError
from core.history.analysis.accuracy.pulsar import PulsarShadow
from core.history.store.store import HistoryError, HistoryLocation, HistoryStore
from core.pulsar.steps.unload import UnloadBundle
from core.snapshot import PulsarSnapshot


class Site:
    """A history, a journal, and recorders of one cluster one after the other."""

    def __init__(self, folder: Path) -> None:
        self.store = HistoryStore(HistoryLocation(str(folder / "history")))
        self.journal = SqlJournal(f"sqlite:///{folder / 'journal.db'}")

    def recorder(self, open_journal: Callable[[], Any] | None = None) -> ClusterMinutes:
        return ClusterMinutes(
            lambda: self.store, "fleet", open_journal or (lambda: self.journal), PulsarShadow()
        )

    def events(self, *kinds: str) -> list[dict[str, Any]]:
        rows = self.store.rows("events", "fleet").to_pylist()
        return [row for row in rows if row["kind"] in kinds]

    def run(self, bundle: str, source: str, target: str, second: int = 30) -> None:
        """A run that moved one bundle, half a minute after noon."""
        step = UnloadBundle(bundle=bundle, owner=source, destination=target)
        plan = replace(plan_of(1, cluster="fleet"), steps=(step,))
        events = (
            requested(plan=plan),
            claimed(),
            begun(0, source),
            ended(0, broker=target),
            RunEnded(state="DONE", sentence="All done."),
        )
        for event in events:
            self.journal.append(record_of(event, cluster="fleet", second=second))


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    made = Site(tmp_path)
    yield made
    made.journal.close()


def at(minute: int, owners: dict[str, str] | None = None) -> PulsarSnapshot:
    """The small fleet so many minutes after noon, all the same but for some owners."""
    made = make_snapshot(brokers=4, bundles=24, minutes_ago=200)
    moved = {name: {"owner": broker} for name, broker in (owners or {}).items()}
    made = edited(made, "bundles", moved)
    return with_manifest(made, taken_at=NOON + timedelta(minutes=minute))


BROKERS = at(0).brokers["broker"].to_pylist()
FIRST, SECOND = owned_by(at(0), BROKERS[0])[:2]


def test_move_of_a_run_is_trimtabs_and_any_other_the_clusters(site: Site) -> None:
    recorder = site.recorder()
    recorder.record(at(0))
    site.run(FIRST, BROKERS[0], BROKERS[1])
    done = recorder.record(at(1, {FIRST: BROKERS[1], SECOND: BROKERS[2]}))
    moves = {row["subject"]: row for row in site.events("move")}
    assert moves[FIRST]["by"] == "trimtab"
    assert moves[FIRST]["actor"] == "ann"
    assert moves[FIRST]["reason"] == "too hot"
    assert moves[SECOND]["by"] == "cluster"
    assert [row["kind"] for row in site.events("run", "step")] == ["run", "run", "step", "run"]
    assert done.events == 6


def test_snapshot_before_its_time_is_recorded_only_with_an_event(site: Site) -> None:
    recorder = ClusterMinutes(
        lambda: site.store, "fleet", lambda: site.journal, PulsarShadow(), rest_ms=120_000
    )
    moved = {FIRST: BROKERS[1]}
    assert recorder.record(at(0)).is_new
    assert not recorder.record(at(1)).is_new
    assert recorder.record(at(2)).is_new
    assert recorder.record(at(3, moved)).is_new, "a move"
    site.run(SECOND, BROKERS[0], BROKERS[2], second=200)
    assert recorder.record(at(4, moved)).is_new, "a step of a run"
    assert not recorder.record(at(5, moved)).is_new
    assert recorder.record(at(6, {})).is_new, "the move back"
    assert [row["subject"] for row in site.events("step")] == [SECOND]
    whole = site.store.snapshot_at("fleet", at(6).manifest.taken_at)
    assert whole.bundles.equals(at(6).bundles)


def test_restart_tells_no_step_twice_and_loses_none(site: Site) -> None:
    site.recorder().record(at(0))
    site.run(FIRST, BROKERS[0], BROKERS[1], second=30)
    site.recorder().record(at(1, {FIRST: BROKERS[1]}))
    site.run(SECOND, BROKERS[0], BROKERS[2], second=90)
    recorder = site.recorder()
    recorder.record(at(2, {FIRST: BROKERS[1], SECOND: BROKERS[2]}))
    recorder.record(at(3, {FIRST: BROKERS[1], SECOND: BROKERS[2]}))
    assert [row["subject"] for row in site.events("step")] == [FIRST, SECOND]
    assert [(row["subject"], row["by"]) for row in site.events("move")] == [
        (FIRST, "trimtab"),
        (SECOND, "trimtab"),
    ]


def test_minute_that_was_recorded_already_is_told_and_changes_nothing(site: Site) -> None:
    recorder = site.recorder()
    assert recorder.record(at(0)).is_new
    site.run(FIRST, BROKERS[0], BROKERS[1], second=-30)
    assert not site.recorder().record(at(0)).is_new
    assert site.events("step") == []
    recorder.record(at(1))
    assert [row["subject"] for row in site.events("step")] == [FIRST]


def test_journal_that_cannot_be_read_leaves_the_minute_whole(site: Site) -> None:
    def broken() -> SqlJournal:
        raise UnreachableError(
            "The journal is not available.", endpoint="db", operation="open", outcome="not_sent"
        )

    recorder = site.recorder(broken)
    recorder.record(at(0))
    done = recorder.record(at(1, {FIRST: BROKERS[1]}))
    assert done.is_new
    assert isinstance(done.problem, OpsError)
    assert [row["by"] for row in site.events("move")] == [""]
    assert site.store.minutes("fleet").num_rows == 2


def test_steps_of_a_minute_that_failed_come_with_the_next(site: Site, tmp_path: Path) -> None:
    recorder = site.recorder()
    recorder.record(at(0))
    site.run(FIRST, BROKERS[0], BROKERS[1])
    blocked = tmp_path / "history" / "minutes"
    aside = blocked.rename(tmp_path / "aside")
    blocked.write_text("no folder")
    with pytest.raises(HistoryError):
        recorder.record(at(1, {FIRST: BROKERS[1]}))
    blocked.unlink()
    aside.rename(blocked)
    recorder.record(at(2, {FIRST: BROKERS[1]}))
    assert [(row["subject"], row["by"]) for row in site.events("move")] == [(FIRST, "trimtab")]
    assert [row["subject"] for row in site.events("step")] == [FIRST]
    assert site.store.minutes("fleet").num_rows == 2


def test_forecast_is_recorded_once_an_interval(site: Site) -> None:
    recorder = site.recorder()
    for minute in range(3):
        recorder.record(at(minute))
    times = site.store.rows("shadow", "fleet")["taken_at"].to_pylist()
    assert len(set(times)) == 3


def test_what_the_cluster_moved_before_a_restart_rests_after_it(site: Site) -> None:
    predicted = PulsarShadow().decide(at(0))["bundle"].to_pylist()
    assert predicted
    site.recorder().record(at(0))
    hot = predicted[0]
    other = next(name for name in BROKERS if name != owner_of(hot))
    site.recorder().record(at(1, {hot: other}))
    site.recorder().record(at(2, {hot: owner_of(hot)}))
    rows = site.store.rows("shadow", "fleet", start=NOON + timedelta(minutes=2)).to_pylist()
    assert hot not in [row["bundle"] for row in rows]


def owner_of(bundle: str) -> str:
    rows = {row["bundle"]: row["owner"] for row in at(0).bundles.to_pylist()}
    return rows[bundle]
