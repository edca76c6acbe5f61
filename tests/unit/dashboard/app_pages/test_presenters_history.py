"""What the History page says and draws."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import numpy as np
import pyarrow as pa
import pytest

from core.history.queries.query import Evenness, Grid
from core.history.queries.sql import Period
from dashboard.app_pages.history import model as presenter
from dashboard.app_pages.history.charts import history_timeline, moves_by_time, span_format
from dashboard.app_pages.history.events import (
    KIND_WORDS,
    LANES,
    details_of,
    events_frame,
    lane_of,
    lanes,
    what_words,
)
from dashboard.app_pages.history.model import by_time
from dashboard.app_pages.pegasus.history import PEGASUS
from dashboard.app_pages.pulsar.history import PULSAR
from dashboard.presenters.moments import parse_stamp, span_words, stamp

NOON = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
AT = round(NOON.timestamp() * 1000)
MINUTE = 60_000
NAN = float("nan")


def counts(*rows):
    names = ("at", "kind", "by", "count", "first_at", "subject", "before", "after")
    events_seen = [
        dict(zip(names, row, strict=True)) | {"orphans": 0, "arrivals": 0} for row in rows
    ]
    return pa.Table.from_pylist(events_seen)


def grid(values, step_ms=0):
    mean = np.array(values, dtype=float)
    at = AT + np.arange(mean.shape[1], dtype=np.int64) * MINUTE
    return Grid([f"b{row}" for row in range(mean.shape[0])], at, step_ms, mean, mean)


def evenness(*deviations):
    known = np.array(deviations, dtype=float)
    return Evenness(AT + np.arange(known.size, dtype=np.int64) * MINUTE, known, known * 10)


MOVES = counts(
    (AT, "move", "cluster", 9, AT, "x", "a", "b"),
    (AT, "move", "trimtab", 3, AT + 5, "y", "a", "b"),
    (AT, "split", "", 1, AT, "z", None, None),
    (AT, "setting", "", 2, AT, "k", "1", "2"),
)


def test_moves_off_lost_servers_are_told_apart():
    place = MOVES.schema.get_field_index("orphans")
    table = MOVES.set_column(place, "orphans", pa.array([4, 0, 0, 0]))
    events_seen = presenter.EventCounts.of(table)
    assert (events_seen.number("move"), events_seen.orphans) == (8, 4)
    moves = figures(PULSAR, events_seen, evenness(0.2), hours=2)["Bundle moves"]
    assert moves.value == "12"
    assert moves.note == "3 by Trimtab, 5 by the cluster, 4 after server failures"


def test_second_halves_of_moves_and_first_owners_are_no_moves():
    place = MOVES.schema.get_field_index("arrivals")
    events_seen = presenter.EventCounts.of(
        MOVES.set_column(place, "arrivals", pa.array([4, 1, 0, 0]))
    )
    assert (events_seen.number("move"), events_seen.ours("move"), events_seen.orphans) == (7, 2, 0)


def figures(system, events_seen, even, *, hours):
    """The key figures of a period, by their labels."""
    found = presenter.key_figures(system, events_seen, even, timedelta(hours=hours), 0.2)
    return {one.label: one for one in found}


def test_figures_tell_moves_by_the_hour_who_did_them_and_how_even_it_was():
    events_seen = presenter.EventCounts.of(MOVES)
    found = figures(PULSAR, events_seen, evenness(0.1, 0.3, 0.3, 0.1), hours=6)
    assert (found["Bundle moves"].value, found["Recorded"].value) == ("12", "6 h")
    assert found["Bundle moves"].note == "3 by Trimtab, 9 by the cluster"
    assert found["Mean of max deviation"].value == "+20%"
    assert found["Recorded"].note == "4 snapshots"
    assert found["Time over target"].value == "50%"
    assert found["Time over target"].note == "3 h of 6 h"
    assert found["Splits and merges"].value == "1"
    assert found["Settings changed"].value == "2"
    assert "Leader changes" not in found


def test_figures_of_a_quiet_cluster_that_told_nothing():
    found = figures(PULSAR, presenter.EventCounts.of(counts()), evenness(NAN), hours=1)
    assert found["Bundle moves"].value == "0"
    assert (found["Mean of max deviation"].value, found["Mean of max deviation"].status) == (
        "unknown",
    ) * 2
    assert found["Time over target"].value == "unknown"


def test_figures_of_a_pegasus_cluster_are_about_primaries():
    events_seen = presenter.EventCounts.of(counts((AT, "primary", "", 1, AT, "1.2", "a", "b")))
    found = figures(PEGASUS, events_seen, evenness(0.1, 0.3), hours=2)
    assert found["Primary moves"].note == "0.5 per hour, by the cluster"
    apart = found["Primaries gap, mean"]
    assert (apart.value, apart.note) == ("2.0", "max 3")


@pytest.mark.parametrize("system", ["pulsar", "pegasus"])
def test_every_kind_of_event_has_words_and_one_lane(system):
    for kind in KIND_WORDS:
        for by in ("", "cluster", "trimtab"):
            assert lane_of(kind, by) is not None, (kind, by)
    assert len({lane.key for lane in LANES}) == len(LANES)
    assert lane_of("nobody knows", "") is None


def test_lanes_hold_their_own_events_from_the_top():
    found = lanes(MOVES)
    assert [lane.key for lane in found] == ["moves", "ours", "splits", "settings"]
    assert found[0].sizes == [9]
    assert found[0].texts == ["9x move, first<br>x moved: a → b"]
    assert [lane.key for lane in lanes(MOVES, ["splits"])] == ["splits"]


def test_events_of_two_kinds_in_one_lane_and_stretch_are_one_mark():
    table = counts(
        (AT, "split", "", 2, AT + 9, "late", None, None),
        (AT, "merge", "", 1, AT + 1, "early", None, None),
    )
    (lane,) = lanes(table)
    assert lane.sizes == [3]
    assert "early" in lane.texts[0]
    assert stamp(lane.times[0]) == stamp(NOON)


def test_restart_is_told_apart_from_a_broker_that_came_up():
    assert what_words("broker_up", '{"restarted": true}') == "broker restarted"
    assert what_words("broker_up", "") == "broker up"


def test_details_of_any_form_are_shown():
    assert details_of('{"took_ms": 5}') == [("took ms", "5")]
    assert details_of("") == []
    assert details_of("not json") == [("details", "not json")]
    assert details_of("[1]") == [("details", "[1]")]


def test_events_become_rows_with_who_and_why():
    event = {
        "taken_at": AT,
        "kind": "move",
        "subject": "x",
        "before": None,
        "after": "b",
        "by": "trimtab",
        "run_id": "r1",
        "actor": "ann",
        "reason": "hot",
        "details": None,
    }
    (row,) = events_frame(pa.Table.from_pylist([event])).to_dict("records")
    assert (row["by"], row["who"], row["why"], row["run"]) == ("Trimtab", "ann", "hot", "r1")
    assert row["before"] == ""
    assert events_frame(pa.Table.from_pylist([event]), ["moves"]).empty


def test_entry_of_a_run_has_the_time_of_the_journal_as_the_page_of_the_run():
    whole = dict.fromkeys(("before", "after", "by", "run_id", "actor", "reason"))
    seen = {"taken_at": AT, "subject": "r1", **whole}
    rows = [
        {**seen, "kind": "run", "details": json.dumps({"at": AT - MINUTE, "seq": 1})},
        {**seen, "kind": "step", "details": json.dumps({"at": AT - MINUTE, "seq": 3})},
        {**seen, "kind": "run", "details": json.dumps({"at": AT - MINUTE, "seq": 2})},
        {**seen, "kind": "move", "details": json.dumps({"at": AT - MINUTE})},
        {**seen, "kind": "run", "details": "{}"},
        {**seen, "kind": "run", "details": "[]"},
    ]
    table = events_frame(pa.Table.from_pylist(rows))
    before = NOON - timedelta(minutes=1)
    assert list(table["at"]) == [NOON, NOON, NOON, before, before, before]
    assert list(table["what"])[3:] == ["run step", "run", "run"], "newest first, by journal place"


def test_change_of_two_minutes_runs_from_the_earlier_to_the_later_one():
    measure = next(one for one in PULSAR.measures if one.key == "usage")
    names = [one.key for one in PULSAR.measures]

    def minute(usage: float) -> pa.Table:
        return pa.table({"subject": ["b1"], **{name: [usage] for name in names}})

    later = presenter.then_and_now(minute(0.2), minute(0.5), PULSAR, measure)
    assert later["difference"][0] == pytest.approx(30.0)
    earlier = presenter.then_and_now(minute(0.2), minute(0.5), PULSAR, measure, is_later=False)
    assert earlier["difference"][0] == pytest.approx(-30.0), "it fell from 50% to 20%"


def test_presets_end_at_the_newest_and_begin_with_the_record():
    oldest = NOON - timedelta(hours=2)
    assert presenter.period_of("1 h", oldest, NOON, (None, None)) == Period(
        NOON - timedelta(hours=1), NOON
    )
    assert presenter.period_of("30 d", oldest, NOON, (None, None)) == Period(oldest, NOON)


def test_free_ends_are_taken_in_either_order_and_may_be_open():
    early, late = NOON - timedelta(days=3), NOON - timedelta(days=2)
    for ends in ((early, late), (late, early)):
        assert presenter.period_of(presenter.FREE, early, NOON, ends) == Period(early, late)
    assert presenter.period_of(presenter.FREE, early, NOON, (None, None)) == Period(
        NOON - timedelta(days=1), NOON
    )


def test_hottest_on_average_are_drawn_and_all_count_in_the_range():
    values = [[0.1, NAN], [0.9, 0.7], *([[0.2, 0.3]] * presenter.MAX_ROWS)]
    data = presenter.timeline(
        grid(values),
        evenness(0.5, NAN),
        PULSAR.measures[0],
        PULSAR,
        lanes=lanes(MOVES),
        period=Period(NOON, NOON + timedelta(minutes=1)),
        target_ratio=0.2,
    )
    assert len(data.rows) == presenter.MAX_ROWS
    assert data.rows[0] == "b1"
    assert data.low.tolist() == [0.1, 0.3]
    assert data.high.tolist() == [0.9, 0.7]
    figure = history_timeline(data)
    assert {trace.type for trace in figure.data} == {"scatter", "heatmap"}
    assert len(figure.data) == 3 + 1 + 1 + 4


def test_picture_without_events_still_has_its_time_axis():
    data = presenter.timeline(
        grid([[1.0]]),
        evenness(0.0),
        PEGASUS.measures[0],
        PEGASUS,
        lanes=[],
        period=Period(NOON, NOON + timedelta(hours=1)),
        target_ratio=0.2,
    )
    assert any(
        trace.y is not None and "no events" in trace.y for trace in history_timeline(data).data
    )


def test_many_minutes_of_evenness_are_drawn_by_their_worst():
    many = evenness(*([0.1] * 5_000))
    many.deviation[2_500] = 0.9
    data = presenter.timeline(
        grid([[1.0]]),
        many,
        PULSAR.measures[0],
        PULSAR,
        lanes=[],
        period=Period(NOON, NOON + timedelta(hours=1)),
        target_ratio=0.2,
    )
    assert len(data.even_times) <= 600
    assert np.nanmax(data.even) == 0.9


def test_subtitle_has_the_period_the_resolution_and_the_drawn_servers():
    period = Period(NOON, NOON + timedelta(hours=1))
    ends = "2026-11-21 12:00 to 2026-11-21 13:00 UTC"
    assert presenter.subtitle(grid([[1.0]]), period, PULSAR) == ends
    large = grid([[1.0]] * 50, step_ms=300_000)
    note = presenter.subtitle(large, period, PEGASUS)
    assert note.endswith(" · mean per 5 min · 40 hottest of 50 nodes")


def test_moves_are_counted_by_the_hour_and_by_whom():
    moves = pa.table(
        {
            "taken_at": [AT, AT + 1, AT + 2, AT + 3_600_000],
            "before": ["a", "a", None, "a"],  # what came from nobody is a move's second half
            "by": ["cluster", None, "cluster", "trimtab"],
        }
    )
    found = by_time(moves, Period(NOON, NOON + timedelta(hours=8)))
    assert found.each == "an hour"
    assert {name: sum(held) for name, held in found.counts.items()} == {
        "the cluster": 1,
        "Trimtab": 1,
        "unknown": 1,
    }
    assert len(moves_by_time(found).data) == 3


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2026-11-21 12:00:00", NOON),
        ("2026-11-21 12:00", NOON),
        ("2026-11-21T12:00:00Z", NOON),
        ("2026-11-21 12:00:00 UTC", NOON),
        ("now", None),
        ("", None),
        ("21.11.2026", None),
    ],
)
def test_time_is_read_as_the_address_writes_it(text, moment):
    assert parse_stamp(text) == moment


def test_axis_names_days_where_it_spans_them():
    assert span_format(NOON, NOON + timedelta(minutes=5)) == "%H:%M:%S"
    assert span_format(NOON, NOON + timedelta(hours=5)) == "%H:%M"
    assert span_format(NOON, NOON + timedelta(days=5)) == "%d %b %H:%M"


@pytest.mark.parametrize(
    ("span", "words"),
    [
        (timedelta(seconds=20), "20 s"),
        (timedelta(minutes=20), "20 min"),
        (timedelta(hours=2, minutes=5), "2 h 5 min"),
        (timedelta(hours=47), "47 h"),
        (timedelta(days=3), "3 d"),
        (timedelta(days=29, hours=23), "29 d 23 h"),
    ],
)
def test_spans_are_told_in_the_units_people_use(span, words):
    assert span_words(span) == words
