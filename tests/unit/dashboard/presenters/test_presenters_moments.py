"""Times and rounds as pages name them: no raw ISO time, no round that cannot come."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from core.pulsar.leader.prediction import RoundPrediction
from dashboard.app_pages.backtest.model import grid_words
from dashboard.presenters.moments import DEFAULT_RANGE, offered_ranges, typed_moment
from dashboard.presenters.pulsar import leader_round


@pytest.mark.parametrize(
    ("grid", "words"),
    [
        ({"from": "2026-11-27T03:14:35.739000+00:00"}, "prod · 2026-11-27 03:14 to the end"),
        ({"from": None, "to": "2026-11-27T04:14:00+01:00"}, "the start to 2026-11-27 03:14"),
        ({"from": "-6h"}, "-6h to the end"),
    ],
)
def test_the_period_of_a_back_test_is_written_in_minutes(grid: dict[str, str], words: str) -> None:
    assert words in grid_words({"clusters": ["prod"], **grid})


def test_no_next_round_is_announced_while_shedding_is_off() -> None:
    off = RoundPrediction(
        at_s=100.0, made_at_s=90.0, leader="b:1", strategy="AvgShedder", reason="disabled"
    )
    assert leader_round.headline(off, 55.0) == "Shedding is off: no bundles are unloaded"
    assert leader_round.bundle_headline(off, 55.0, "a/b/0x0_0x1") == (
        "Shedding is off: a/b/0x0_0x1 stays"
    )


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("-90min", datetime(2026, 11, 21, 10, 30, tzinfo=UTC)),
        ("- 2 h", datetime(2026, 11, 21, 10, tzinfo=UTC)),
        ("09:05", datetime(2026, 11, 21, 9, 5, tzinfo=UTC)),
        ("23:59:30", datetime(2026, 11, 20, 23, 59, 30, tzinfo=UTC)),  # the last one
        ("24:00", None),
        ("-9e99d", None),
        ("-99999999w", None),
        ("now", None),
    ],
)
def test_a_typed_time_is_how_long_ago_or_the_last_such_time(text, meant):
    assert typed_moment(text, datetime(2026, 11, 21, 12, tzinfo=UTC)) == meant


@pytest.mark.parametrize(
    ("recorded_h", "names"),
    [
        (0, ["1 h", "6 h"]),
        (5, ["1 h", "6 h"]),
        (7, ["1 h", "6 h", "24 h"]),
        (25, ["1 h", "6 h", "24 h", "7 d"]),
        (24 * 90, ["1 h", "6 h", "24 h", "7 d", "30 d"]),
    ],
)
def test_ranges_are_offered_as_far_as_recorded(recorded_h: float, names: list[str]) -> None:
    assert offered_ranges(timedelta(hours=recorded_h), kept=(DEFAULT_RANGE,)) == names


def test_a_range_of_the_address_is_offered_whatever_is_recorded() -> None:
    found = offered_ranges(timedelta(minutes=20), first="15 min", kept=("1 h", "30 d"))
    assert found == ["15 min", "1 h", "30 d"]
