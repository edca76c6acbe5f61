"""Grids: what they try, and what is wrong with them."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import numpy as np
import pytest

from core.errors import InputError, UnknownNameError
from core.history.backtest.job import recorded_between, stretches_between
from core.history.backtest.model import (
    AS_RECORDED,
    RECORDED,
    REPLAYED,
    Candidate,
    Grid,
    backtest_units,
)
from core.history.backtest.parsing import grid_as_json, grid_of, parse_grid
from core.history.backtest.pulsar.candidates import pulsar_candidates

START = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
THRESHOLD = "loadBalancerBrokerThresholdShedderPercentage"


@pytest.mark.parametrize(
    ("text", "error", "words"),
    [
        ("{", InputError, "not JSON"),
        ("[]", InputError, "a list, not a JSON object"),
        ("null", InputError, "null, not a JSON object"),
        ('{"shedings": []}', UnknownNameError, "Did you mean shedding"),
        ('{"shedding": []}', InputError, "is empty"),
        ('{"shedding": {}}', InputError, "is an object"),
        ('{"shedding": ["TresholdShedder"]}', UnknownNameError, "Did you mean ThresholdShedder"),
        ('{"placement": ["LeastUsed"]}', UnknownNameError, "No placement strategy"),
        ('{"settings": []}', InputError, "`settings` of the grid is a list"),
        ('{"settings": {"loadBalancerBrokerThreshold": [1]}}', UnknownNameError, "Did you mean"),
        (f'{{"settings": {{"{THRESHOLD}": ["much"]}}}}', InputError, "must be a whole number"),
        (
            '{"settings": {"loadBalancerLoadSheddingStrategy": ["x"]}}',
            InputError,
            "under `shedding`",
        ),
        ('{"seeds": [1.5]}', InputError, "not a whole number"),
        ('{"seeds": [true]}', InputError, "not a whole number"),
        ('{"window_minutes": 1}', InputError, "from 2 to"),
        ('{"window_minutes": true}', InputError, "from 2 to"),
        ('{"minute_s": 0}', InputError, "from 0.001 to"),
        ('{"from": "noon"}', InputError, "not a time"),
        ('{"from": "2026-11-21T13:00Z", "to": "2026-11-21T12:00Z"}', InputError, "not before"),
        ('{"target": "viv"}', UnknownNameError, "Did you mean vivo"),
        ('{"target": {"deviatoin": 0.1}}', UnknownNameError, "Did you mean deviation"),
        ('{"policies": ["all"]}', UnknownNameError, "No policy"),
        ('{"policies": ["app"], "shedding": ["none"]}', InputError, "two grids"),
        ('{"clusters": [1]}', InputError, "instead of a name"),
    ],
)
def test_what_is_wrong_with_a_grid_is_said(text, error, words):
    with pytest.raises(error, match=re.escape(words)):
        parse_grid(text)


def test_a_grid_comes_back_from_its_json():
    grid = grid_of(
        {
            "clusters": ["a"],
            "from": "2026-11-21T12:00:00+00:00",
            "shedding": ["none", "recorded", "AvgShedder"],
            "placement": [None, "LeastResourceUsageWithWeight"],
            "settings": {THRESHOLD: [10, 20], "loadBalancerSheddingExcludedNamespaces": [["a/b"]]},
            "seeds": 4,
            "target": {"deviation": 0.1},
            "minute_s": 2,
        }
    )
    assert grid_of(json.loads(json.dumps(grid_as_json(grid)))) == grid
    assert grid.seeds == (4,)
    assert grid.target.unloads_per_day == 10


def test_a_time_without_a_zone_is_utc():
    assert parse_grid('{"from": "2026-11-21T12:00:00"}').start == START


def test_a_candidate_is_tried_once_however_often_it_comes_up():
    grid = parse_grid(
        f'{{"shedding": ["ThresholdShedder", "none"], "settings": {{"{THRESHOLD}": [10, 20]}}}}'
    )
    labels = [candidate.label for candidate in pulsar_candidates(grid)]
    assert labels == [
        AS_RECORDED,
        REPLAYED,
        f"ThresholdShedder · {THRESHOLD}=10",
        f"ThresholdShedder · {THRESHOLD}=20",
        "no shedding",
    ]


def test_avg_shedder_comes_as_a_pair():
    grid = Grid(shedding=("AvgShedder", "ThresholdShedder"), placement=(None, "AvgShedder"))
    pairs = [(one.shedding, one.placement) for one in pulsar_candidates(grid)[2:]]
    assert pairs == [("AvgShedder", "AvgShedder"), ("ThresholdShedder", None)]


@pytest.mark.parametrize(
    "candidate",
    [
        Candidate(is_record=True),
        Candidate(shedding=None),
        Candidate(shedding="AvgShedder", placement="AvgShedder", settings={THRESHOLD: 10}),
        Candidate(policy="app", settings={"balancer_in_turn": True}),
    ],
)
def test_a_candidate_comes_back_from_its_json(candidate):
    assert Candidate.from_json(json.loads(json.dumps(candidate.as_json()))) == candidate


def test_windows_cover_the_record_without_overlap():
    grid = Grid(window_minutes=60)
    windows = grid.windows(START, START + timedelta(minutes=149))
    assert [(one.end - one.start) / timedelta(minutes=1) for one in windows] == [60, 60, 30]
    assert [one.number for one in windows] == [0, 1, 2]
    assert all(a.end == b.start for a, b in pairwise(windows))


def test_minutes_of_a_compressed_cluster_are_shorter():
    grid = Grid(window_minutes=60, minute_s=2.0)
    windows = grid.windows(START, START + timedelta(seconds=238))
    assert [(one.end - one.start).total_seconds() for one in windows] == [120, 120]


def test_a_gap_and_a_change_of_settings_end_a_window():
    minutes = np.array([*range(10), *range(30, 50)]) * 60_000
    found = stretches_between(minutes, np.array([40 * 60_000]), 60.0)
    zero = datetime(1970, 1, 1, tzinfo=UTC)
    ends = [tuple((at - zero) / timedelta(minutes=1) for at in one) for one in found]
    assert ends == [(0, 10), (30, 40), (40, 50)]
    windows = Grid(window_minutes=8).windows(START, START, found)
    assert [(one.end - one.start) / timedelta(minutes=1) for one in windows] == [8, 2, 8, 2, 8, 2]
    assert [one.number for one in windows] == list(range(6))


def test_a_range_that_begins_between_the_last_minute_and_a_change_plays_nothing_of_before():
    minutes = np.arange(10) * 60_000
    found = stretches_between(minutes, np.array([5 * 60_000]), 60.0)
    zero = datetime(1970, 1, 1, tzinfo=UTC)
    late = zero + timedelta(minutes=4, seconds=30)
    assert recorded_between(found, minutes, late, None) == found[1:]
    assert recorded_between(found, minutes, zero, zero + timedelta(minutes=5)) == found[:1]
    assert recorded_between(found, minutes, None, None) == found
    assert recorded_between(found, minutes, zero + timedelta(hours=1), None) == ()


@pytest.mark.parametrize("usual_s", [10, 60, 300])
def test_a_minute_that_was_missed_is_no_gap(usual_s):
    moments = np.array([0, 1, 2, 4, 5, 6]) * usual_s * 1000
    assert len(stretches_between(moments, np.zeros(0, np.int64), 60.0)) == 1


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({THRESHOLD: [-50]}, "below 0"),
        ({THRESHOLD: [10, 101]}, "above 100"),
        ({"defaultNamespaceBundleSplitAlgorithm": ["by_magic"]}, "not a split algorithm"),
    ],
    ids=str,
)
def test_values_are_checked_as_those_of_trimtab_set(settings, words):
    with pytest.raises(InputError, match=words):
        grid_of({"settings": settings})


def test_the_record_is_one_run_a_window_whatever_the_seeds():
    grid = Grid(seeds=(1, 2), window_minutes=60)
    units = backtest_units(
        grid, {"a": (START, START + timedelta(minutes=100))}, pulsar_candidates(grid)
    )
    assert [(one.candidate_number, one.seed, one.window.number) for one in units] == [
        (0, 0, 0),
        (1, 1, 0),
        (1, 2, 0),
        (0, 0, 1),
        (1, 1, 1),
        (1, 2, 1),
    ]


@pytest.mark.parametrize(
    ("grid", "words"),
    [
        (Grid(clusters=("b",)), "No history of cluster 'b' is recorded"),
        (Grid(start=START + timedelta(days=1)), "No recorded minute"),
        (Grid(seeds=tuple(range(200)), window_minutes=2), "the maximum is"),
    ],
)
def test_units_that_cannot_be_are_refused(grid, words):
    with pytest.raises(InputError, match=words):
        backtest_units(grid, {"a": (START, START + timedelta(hours=20))}, pulsar_candidates(grid))


def test_moves_of_primaries_hardly_count_unless_the_grid_says_so():
    lenient = grid_of({"policies": ["app"]}).target
    assert (lenient.name, lenient.unloads_per_day) == ("pegasus", 100_000.0)
    assert grid_of({"policies": ["app"], "target": "vivo"}).target.unloads_per_day == 10
    assert grid_of({}).target.name == "vivo"


def test_a_strategy_is_the_recorded_one_unless_named():
    assert pulsar_candidates(Grid())[1].shedding == RECORDED
    assert pulsar_candidates(Grid())[1].label == "recorded settings, replayed"
