"""Back-tests of generated records: what always holds."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import pairwise

import numpy as np
from backtest_records import as_a_record, waves
from hypothesis import given, settings
from hypothesis import strategies as st
from sampled import examples

from core.history.backtest.model import Candidate, Grid, Unit, Window
from core.history.backtest.parsing import grid_as_json, grid_of
from core.history.backtest.pulsar.engine import SimulatedRun, simulate_window
from core.history.backtest.pulsar.moves import KINDS
from core.history.backtest.pulsar.score import recorded_run, scores
from core.history.backtest.pulsar.series import LoadSeries
from core.history.backtest.pulsar.units import run_unit
from core.history.backtest.ranking import pareto
from core.pulsar.placement import STRATEGY_NAMES
from core.pulsar.shedding import SHEDDING_STRATEGY_NAMES
from core.units import ms_to_datetime

MODULAR = [name for name in SHEDDING_STRATEGY_NAMES if name != "TransferShedder"]
START = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)


@lru_cache(maxsize=16)
def record_of(brokers: int, bundles: int, seed: int) -> LoadSeries:
    return waves(15, brokers=brokers, bundles=bundles, seed=seed, swing=0.5)


@st.composite
def candidates(draw: st.DrawFn) -> Candidate:
    shedding = draw(st.sampled_from([*MODULAR, None]))
    placements = [name for name in STRATEGY_NAMES if name != "AvgShedder"]
    pair = "AvgShedder" if shedding == "AvgShedder" else draw(st.sampled_from(placements))
    return Candidate(
        shedding=shedding,
        placement=pair,
        settings={
            "loadBalancerBundleUnloadMinThroughputThreshold": draw(st.sampled_from([1.0, 10.0])),
            "loadBalancerSheddingGracePeriodMinutes": draw(st.integers(0, 6)),
            "loadBalancerSheddingIntervalMinutes": draw(st.integers(1, 3)),
            "loadBalancerBrokerOverloadedThresholdPercentage": draw(st.sampled_from([15, 85])),
            "loadBalancerReportUpdateThresholdPercentage": draw(st.sampled_from([1, 50])),
        },
    )


@st.composite
def runs(draw: st.DrawFn) -> tuple[LoadSeries, Candidate, int, SimulatedRun]:
    series = record_of(
        draw(st.integers(2, 6)), draw(st.sampled_from([12, 60])), draw(st.integers(1, 2))
    )
    candidate, seed = draw(candidates()), draw(st.integers(0, 3))
    return series, candidate, seed, simulate_window(series, candidate, seed)


@settings(deadline=None, max_examples=examples(40))
@given(runs())
def test_traffic_follows_its_bundles_and_none_is_lost(run):
    series, _, _, simulated = run
    wanted = (series.rates[2] + series.rates[3]).sum(axis=1)
    assert np.allclose(simulated.traffic.sum(axis=1), wanted, rtol=1e-9)
    assert (simulated.traffic > -1e-6).all()


@settings(deadline=None, max_examples=examples(40))
@given(runs())
def test_every_move_starts_where_the_bundle_is_and_ends_elsewhere(run):
    series, candidate, _, simulated = run
    owner = series.owner[0].copy()
    grace = float(candidate.settings["loadBalancerSheddingGracePeriodMinutes"])
    last: dict[int, int] = {}
    moves = simulated.moves
    for row, bundle, source, end in zip(
        moves.row.tolist(),
        moves.bundle.tolist(),
        moves.source.tolist(),
        moves.destination.tolist(),
        strict=True,
    ):
        assert owner[bundle] == source != end
        assert series.broker_here[row, end]
        assert not series.is_bound[bundle]
        assert row - last.get(bundle, -100) > grace - 1
        owner[bundle], last[bundle] = end, row
    assert candidate.shedding is not None or not owner.size or not moves.row.size


@settings(deadline=None, max_examples=examples(15))
@given(runs())
def test_a_record_of_a_run_scores_as_the_run_did(run):
    series, _, _, simulated = run
    record = as_a_record(series, simulated)
    late = simulated.moves.row == series.shape[0] - 1  # seen in no minute of the record
    really, ours = scores(record, recorded_run(record)), scores(series, simulated)
    assert really["unloads"] == ours["unloads"] - int(late.sum())
    assert np.isclose(really["deviation_p95"], ours["deviation_p95"])
    assert 0 <= ours["ping_pongs"] <= ours["unloads"]
    assert ours["rounds"] <= ours["unloads"]


@settings(deadline=None, max_examples=examples(15))
@given(runs())
def test_the_tables_of_a_unit_tell_the_same(run):
    series, candidate, seed, simulated = run
    first, last = (ms_to_datetime(int(series.taken_at[at])) for at in (0, -1))
    window = Window(number=0, start=first, end=last + timedelta(minutes=1))
    unit = Unit(cluster="fleet", window=window, candidate=candidate, candidate_number=1, seed=seed)
    done = run_unit(series, unit)
    row = done.runs.to_pylist()[0]
    unloads = int(np.count_nonzero(simulated.moves.kind == KINDS.index("unload")))
    assert row["unloads"] == sum(done.timeline["unloads"].to_pylist()) == unloads
    assert done.moves.num_rows == simulated.moves.row.size
    assert row["minutes"] == done.timeline.num_rows == series.shape[0]
    assert run_unit(series, unit).moves.equals(done.moves)


@given(
    st.integers(0, 3_000),
    st.integers(2, 400),
    st.sampled_from([1.0, 2.5, 60.0]),
)
def test_windows_tile_the_record(length, window, minute_s):
    end = START + timedelta(seconds=length * minute_s)
    found = Grid(window_minutes=window, minute_s=minute_s).windows(START, end)
    assert found[0].start == START
    assert found[-1].end > end
    assert all(one.end == other.start for one, other in pairwise(found))
    assert all((one.end - one.start).total_seconds() <= window * minute_s for one in found)


@given(st.lists(candidates(), max_size=4), st.integers(2, 500), st.lists(st.integers(0, 9)))
def test_candidates_and_grids_come_back_from_json(tried, window, seeds):
    for candidate in tried:
        assert Candidate.from_json(candidate.as_json()) == candidate
    grid = Grid(
        shedding=tuple(dict.fromkeys(one.shedding for one in tried)) or (None,),
        seeds=tuple(dict.fromkeys(seeds)) or (1,),
        window_minutes=window,
    )
    assert grid_of(grid_as_json(grid)) == grid


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), max_size=12))
def test_the_front_is_what_no_point_beats(points):
    front = pareto([(float(x), float(y)) for x, y in points])
    for point, is_on in zip(points, front, strict=True):
        beaten = any(
            other != point and other[0] <= point[0] and other[1] <= point[1] for other in points
        )
        assert is_on == (not beaten)
