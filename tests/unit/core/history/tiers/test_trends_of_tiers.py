"""Trends from hours and days: the numbers of the minutes, for as long as a tier has them all."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from history_rows import CLUSTER, recorded, store_in
from history_worlds import pulsar_minutes
from pegasus_minutes import pegasus_minutes

from core.history.analysis.requests import RecordScope, TrendsRequest
from core.history.analysis.trends.job import trends_here
from core.history.store.store import HistoryStore
from core.history.tiers import pipeline
from core.history.tiers.registry import tier_tables
from core.progress import NoProgress
from core.units import datetime_to_ms

SNAPSHOTS = pulsar_minutes(6, 12)
FIRST, LAST = (SNAPSHOTS[row].manifest.taken_at for row in (0, -1))


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Return the folders of a recorded history and of the same with its hours and days."""
    minutes = tmp_path_factory.mktemp("minutes")
    recorded(store_in(minutes), SNAPSHOTS)
    rolled = tmp_path_factory.mktemp("rolled") / "history"
    roll_up(store_in(shutil.copytree(minutes, rolled)))
    return minutes, rolled


@pytest.fixture
def store(folders: tuple[Path, Path], tmp_path: Path) -> HistoryStore:
    return store_in(shutil.copytree(folders[0], tmp_path / "minutes"))


@pytest.fixture
def rolled(folders: tuple[Path, Path], tmp_path: Path) -> HistoryStore:
    """The same history with its hours and days."""
    return store_in(shutil.copytree(folders[1], tmp_path / "rolled"))


def roll_up(store: HistoryStore, moment: datetime = LAST) -> None:
    pipeline.roll_up(store, CLUSTER, datetime_to_ms(moment + timedelta(hours=2)))


def asked(store: HistoryStore, period: str = "hour", **scope: object):
    return trends_here(store, TrendsRequest(period=period), RecordScope(**scope), NoProgress())


def values(trends, kind: str, measure: str, column: str) -> dict[tuple[str, int], float]:
    return {
        (row["subject"], row["starts_at"]): row[column]
        for row in trends.trends.to_pylist()
        if (row["kind"], row["measure"]) == (kind, measure)
    }


@pytest.mark.parametrize("period", ["hour", "day"])
@pytest.mark.parametrize(
    ("make", "server", "measures"),
    [
        (pulsar_minutes, "broker", ("msg_throughput", "msg_rate", "usage", "bundle_count")),
        (pegasus_minutes, "node", ("memory_mb",)),
    ],
)
def test_a_tier_answers_with_the_numbers_of_its_minutes(
    tmp_path, period, make, server, measures
) -> None:
    store = store_in(tmp_path)
    snapshots = make(7, 12)
    recorded(store, snapshots)
    before = asked(store, period)
    assert before.source == "minutes"
    roll_up(store, snapshots[-1].manifest.taken_at)
    after = asked(store, period)
    assert after.source == f"{period}s"
    assert "12 recorded snapshots" in before.sentence
    assert "12 recorded snapshots" in after.sentence
    assert f"from {period}s" in after.sentence
    for measure in measures:
        for column in ("mean", "max"):
            exact = values(before, server, measure, column)
            assert exact
            assert values(after, server, measure, column) == pytest.approx(exact, abs=2e-3)
    uneven = values(before, "cluster", "uneven", "mean")
    assert values(after, "cluster", "uneven", "mean") == pytest.approx(uneven)
    for measure in ("deviation",):
        exact = values(before, "cluster", measure, "mean")
        assert values(after, "cluster", measure, "mean") == pytest.approx(exact, abs=1e-5)


def test_bundles_carry_the_same_total_from_hours_as_from_minutes(store, rolled) -> None:
    before = asked(store)
    after = asked(rolled)
    exact = {row["subject"]: row["mean"] for row in before.hot.to_pylist()}
    found = {row["subject"]: row["mean"] for row in after.hot.to_pylist()}
    assert {name: found[name] for name in exact} == pytest.approx(exact, rel=1e-3, abs=1e-2)


def test_a_late_minute_is_answered_from_minutes_until_it_is_rolled_up(tmp_path) -> None:
    store = store_in(tmp_path)
    recorded(store, SNAPSHOTS[:-1])
    roll_up(store)
    recorded(store, SNAPSHOTS[-1:])
    hours = {one.manifest.taken_at.replace(minute=0, second=0) for one in SNAPSHOTS}
    assert asked(store).source == ("minutes" if len(hours) == 1 else "hours and minutes")
    exact = values(asked(store), "broker", "msg_throughput", "max")
    roll_up(store)
    assert asked(store).source == "hours"
    assert values(asked(store), "broker", "msg_throughput", "max") == pytest.approx(exact, abs=1e-3)


def test_an_hour_that_the_range_cuts_is_answered_from_minutes(rolled) -> None:
    cut = asked(rolled, start=FIRST + timedelta(minutes=2), end=LAST - timedelta(minutes=2))
    assert cut.source == "minutes"
    minutes = {row["minutes"] for row in cut.trends.to_pylist() if row["measure"] == "deviation"}
    assert max(minutes) <= len(SNAPSHOTS) - 4


def test_hours_answer_when_the_minutes_are_gone(rolled) -> None:
    exact = asked(rolled)
    rolled.retain(CLUSTER, LAST + timedelta(days=3), timedelta(days=1), 1 << 40)
    assert not rolled.minutes(CLUSTER).num_rows
    left = asked(rolled)
    assert left.source == "hours"
    assert left.trends.equals(exact.trends)
    assert left.sentence == exact.sentence


def test_single_minutes_never_come_from_a_tier(store, rolled) -> None:
    exact = asked(store, "minute")
    found = asked(rolled, "minute")
    assert found.trends.equals(exact.trends)
    assert found.source == "minutes"


def test_an_hour_of_another_system_is_not_mixed_in(rolled) -> None:
    hours = tier_tables(rolled).table("hours")
    hours.update(predicate="kind = 'cluster'", updates={"system": "'pegasus'"})
    assert asked(rolled).source == "minutes"


def test_a_range_without_any_record_is_refused(rolled) -> None:
    with pytest.raises(Exception, match="No minute was recorded"):
        asked(rolled, start=datetime(2027, 1, 1, tzinfo=UTC))


def test_tables_have_their_names_and_rates_from_hours_too(tmp_path) -> None:
    store = store_in(tmp_path)
    recorded(store, pegasus_minutes(7, 12))
    exact = values(asked(store), "table", "request_rate", "mean")
    roll_up(store)
    found = asked(store)
    assert exact
    assert values(found, "table", "request_rate", "mean") == pytest.approx(
        exact, rel=1e-4, abs=0.01
    )
