"""Results: units as tables, the ranking, and what to change."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import groupby

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from backtest_records import fleet, still, waves, without_broker
from backtest_series import series_of
from fleet_builder import broker_names, make_snapshot
from pegasus_snapshots import generated

from core.errors import InputError
from core.history.backtest.advice import (
    chosen,
    describe_advice,
    is_plannable,
    recommended,
)
from core.history.backtest.job import run_window
from core.history.backtest.model import (
    OPTIMIZER,
    REPLAYED,
    Grid,
    Target,
    Unit,
    Window,
    backtest_units,
    covered_minutes,
    window_key,
)
from core.history.backtest.pegasus.system import PEGASUS
from core.history.backtest.pulsar.candidates import pulsar_candidates
from core.history.backtest.pulsar.recorded import load_series
from core.history.backtest.pulsar.score import deviations
from core.history.backtest.pulsar.series import LoadSeries
from core.history.backtest.pulsar.system import PULSAR
from core.history.backtest.pulsar.units import run_unit
from core.history.backtest.ranking import pareto, ranked
from core.history.backtest.results import UnitResult, together
from core.history.backtest.schemas import CANDIDATES, RECOMMENDED, RUNS
from core.history.store.layout import HistoryError
from core.history.store.store import HistoryLocation, HistoryStore
from core.history.store.writer import Recorder
from core.progress import JobStoppedError
from core.snapshot import PulsarSnapshot
from core.units import ms_to_datetime
from dashboard.app_pages.backtest.model import fidelity

WIDE = Target(name="own", deviation=0.7, unloads_per_day=1e6)
EAGER = {"loadBalancerBundleUnloadMinThroughputThreshold": (1.0,)}


def units_of(series: LoadSeries, grid: Grid) -> tuple[Unit, ...]:
    first, last = (ms_to_datetime(int(series.taken_at[at])) for at in (0, -1))
    return backtest_units(grid, {series.cluster: (first, last)}, pulsar_candidates(grid))


def windows_run(
    load: Callable[[Unit], LoadSeries],
    units: tuple[Unit, ...],
    tick: Callable[[Unit, int, int], None] = lambda _unit, _minute, _minutes: None,
) -> Iterator[UnitResult]:
    for _, window in groupby(units, key=window_key):
        yield from run_window(load, run_unit, window, tick)


def run_rows(*rows: dict[str, object]) -> pa.Table:
    """Rows of runs, each with its candidate's number, deviation and unloads a day."""
    blank = {
        "cluster": "a",
        "window": 0,
        "seed": 1,
        "shedding": "ThresholdShedder",
        "placement": "LeastLongTermMessageRate",
        "settings": "{}",
        "start": 0,
        "end": 1,
        "minutes": 60,
        "days": 60 / 1440,
        "is_record": False,
    }
    made = [
        blank
        | {"candidate": f"c{row['candidate_number']}", "is_record": row["candidate_number"] == 0}
        | row
        for row in rows
    ]
    return pa.Table.from_pylist(made, schema=RUNS)


def scored(number: int, deviation: float, unloads: float, **more: object) -> dict[str, object]:
    figures = {"deviation_p95": deviation, "unloads_per_day": unloads, "minutes_over_ratio": 0.0}
    days = {"days": float(str(more["minutes"])) / 1440.0} if "minutes" in more else {}
    return {"candidate_number": number, **figures, **days, **more}


def test_units_give_tables_and_the_order_they_ran_in_does_not_matter():
    series = waves(20)
    grid = Grid(shedding=("ThresholdShedder", None), settings=EAGER, seeds=(1, 2))
    units = units_of(series, grid)
    assert len(units) == 7
    results = [run_unit(series, unit) for unit in units]
    tables = together(results)
    again = together(reversed([run_unit(series, unit) for unit in units]))
    assert all(tables[name].equals(again[name]) for name in ("runs", "timeline", "moves"))
    assert tables["runs"].num_rows == 7
    assert tables["timeline"].num_rows == 7 * 20
    assert tables["runs"]["unloads"].to_pylist()[0] == 0
    shed = tables["runs"].to_pylist()[3]
    moved = tables["moves"].filter(pa.compute.equal(tables["moves"]["seed"], shed["seed"]))
    of_it = [row for row in moved.to_pylist() if row["candidate_number"] == 2]
    assert len(of_it) == shed["unloads"] > 0
    assert sum(row["moved_bytes_per_s"] for row in of_it) == pytest.approx(
        shed["moved_bytes_per_s"]
    )


def test_a_candidate_that_cannot_be_played_says_why_and_the_others_go_on():
    series = waves(5)
    units = units_of(series, Grid(shedding=("TransferShedder", None)))
    tables = together(windows_run(lambda _unit: series, units))
    problems = {row["shedding"]: row["problem"] for row in tables["runs"].to_pylist()[1:]}
    assert "has none of" in problems["TransferShedder"]
    assert problems["none"] is None
    candidates = ranked(tables["runs"], WIDE, PULSAR.nouns).to_pylist()
    assert [row["rank"] for row in candidates if row["problem"]] == [None]


def test_each_window_is_loaded_once():
    series = waves(12)
    loads: list[int] = []

    def load(unit: Unit) -> LoadSeries:
        loads.append(unit.window.number)
        if unit.window.number == 1:
            raise HistoryError("Nothing was recorded then.")
        return series

    units = units_of(series, Grid(window_minutes=4, seeds=(1, 2)))
    tables = together(windows_run(load, units))
    assert loads == [0, 1, 2]
    assert [row["problem"] is None for row in tables["runs"].to_pylist()] == [
        *[True] * 3,
        *[False] * 3,
        *[True] * 3,
    ]


def test_a_run_is_stopped_in_its_middle():
    series = waves(40)

    steps: list[int] = []

    def impatient(_unit: Unit, minute: int, _minutes: int) -> None:
        steps.append(minute)
        if len(steps) > 3:
            raise JobStoppedError("stopped")

    units = units_of(series, Grid(shedding=("ThresholdShedder",)))
    found: list[UnitResult] = []
    with pytest.raises(JobStoppedError):
        found.extend(windows_run(lambda _unit: series, units, impatient))
    assert len(found) <= 1


def test_whoever_meets_the_target_comes_first_then_the_fewest_unloads():
    target = Target(name="own", deviation=0.2, unloads_per_day=10)
    runs = run_rows(
        scored(0, 0.31, 188),
        scored(1, 0.19, 9),
        scored(2, 0.15, 6),
        scored(3, 0.14, 6),
        scored(4, 0.05, 40),
        scored(5, 0.30, 0),
    )
    rows = ranked(runs, target, PULSAR.nouns).to_pylist()
    assert [row["candidate_number"] for row in rows] == [3, 2, 1, 5, 4, 0]
    assert [row["rank"] for row in rows] == [1, 2, 3, 4, 5, None]
    assert [row["meets_target"] for row in rows] == [True, True, True, False, False, False]
    assert {row["candidate_number"] for row in rows if row["is_pareto"]} == {3, 4, 5}
    assert "deviation p95 14%" in rows[0]["sentence"]
    assert "31%, 188.0 a day" in rows[0]["sentence"]


def test_no_shedding_is_ranked_only_where_it_meets_the_target():
    target = Target(name="own", deviation=0.2, unloads_per_day=10)
    runs = run_rows(
        scored(0, 0.9, 400),
        scored(1, 0.9, 300, candidate=REPLAYED),
        scored(2, 0.8, 0, candidate="no shedding", shedding="none"),
        scored(3, 0.5, 280),
        scored(4, 5.8, 0, candidate="RoundRobinBrokerSelector", shedding="none"),  # record: off
    )
    rows = ranked(runs, target, PULSAR.nouns).to_pylist()
    assert [(row["candidate_number"], row["rank"]) for row in rows] == [
        (3, 1),
        (4, 2),
        (1, 3),
        (0, None),
        (2, None),
    ]
    assert rows[0]["sentence"].startswith(
        "No candidate meets the target of 20% deviation and 10 unloads a day. Closest: c3 (50%, "
        "280.0 a day)."
    )
    assert {row["candidate_number"] for row in rows if row["is_pareto"]} == {3, 4}
    even = run_rows(scored(0, 0.1, 0), scored(2, 0.1, 0, candidate="no shedding", shedding="none"))
    assert ranked(even, target, PULSAR.nouns).to_pylist()[1]["rank"] == 1


def test_bars_are_over_seeds_and_windows_count_by_their_minutes():
    runs = run_rows(
        scored(0, 0.3, 0, seed=0),
        scored(0, 0.3, 0, seed=0, window=1),
        scored(1, 0.1, 10, seed=1, minutes=30),
        scored(1, 0.4, 40, seed=1, window=1, minutes=60),
        scored(1, 0.2, 20, seed=2, minutes=30),
        scored(1, 0.5, 50, seed=2, window=1, minutes=60),
    )
    row = next(
        row for row in ranked(runs, WIDE, PULSAR.nouns).to_pylist() if row["candidate_number"] == 1
    )
    assert row["deviation_p95"] == pytest.approx(0.35)
    assert (row["deviation_p95_low"], row["deviation_p95_high"]) == pytest.approx((0.3, 0.4))
    assert row["unloads_per_day"] == pytest.approx(35)
    assert (row["seeds"], row["minutes"], row["runs"]) == (2, 90, 4)


def test_several_clusters_are_ranked_each_and_together():
    runs = pa.concat_tables(
        [
            run_rows(scored(0, 0.3, 0), scored(1, 0.1, 5), scored(2, 0.2, 5)),
            run_rows(
                scored(0, 0.3, 0, cluster="b"),
                scored(1, 0.9, 5, cluster="b"),
                scored(2, 0.2, 5, cluster="b"),
            ),
        ]
    )
    rows = ranked(runs, WIDE, PULSAR.nouns)
    assert rows.schema.equals(CANDIDATES)
    best = {row["cluster"]: row["candidate_number"] for row in rows.to_pylist() if row["rank"] == 1}
    assert best == {"a": 1, "b": 2, None: 2}


@pytest.mark.parametrize(
    ("points", "front"),
    [
        ([], []),
        ([(1.0, 1.0)], [True]),
        ([(1.0, 2.0), (2.0, 1.0), (2.0, 2.0)], [True, True, False]),
        ([(1.0, 1.0), (1.0, 1.0), (1.0, 2.0)], [True, True, False]),
        ([(None, 1.0), (3.0, 3.0)], [False, True]),
    ],
)
def test_nothing_beats_what_is_on_the_front(points, front):
    assert pareto(points) == front


def test_what_to_change_is_the_difference_to_the_settings_in_force():
    force = {
        "loadBalancerEnabled": True,
        "loadBalancerSheddingEnabled": False,
        "loadBalancerLoadSheddingStrategy": "org.apache.pulsar.x.ThresholdShedder",
        "loadBalancerLoadPlacementStrategy": "org.apache.pulsar.x.LeastLongTermMessageRate",
        "loadBalancerBrokerThresholdShedderPercentage": 10,
        "maxUnloadPercentage": 0.2,
    }
    own = {"maxUnloadPercentage": 0.5, "loadBalancerBrokerThresholdShedderPercentage": 10}
    runs = run_rows(
        scored(0, 0.9, 0, shedding="none", settings=json.dumps(force)),
        scored(2, 0.8, 0, shedding="none", candidate=REPLAYED),
        scored(1, 0.1, 5, shedding="UniformLoadShedder", settings=json.dumps(own)),
    )
    target = Target(name="own", deviation=0.2, unloads_per_day=10)
    found = recommended(runs, ranked(runs, target, PULSAR.nouns), target, PULSAR.nouns)
    assert found.schema.equals(RECOMMENDED)
    changes = {row["key"]: (row["old"], row["new"]) for row in found.to_pylist()}
    assert changes == {
        "loadBalancerSheddingEnabled": ("false", "true"),
        "loadBalancerLoadSheddingStrategy": (
            '"org.apache.pulsar.x.ThresholdShedder"',
            '"org.apache.pulsar.broker.loadbalance.impl.UniformLoadShedder"',
        ),
        "maxUnloadPercentage": ("0.2", "0.5"),
    }
    assert "from 80% to 10%" in found["why"].to_pylist()[0]


def test_nothing_is_recommended_where_nothing_is_better():
    runs = run_rows(
        scored(0, 0.1, 1, settings="{}"),
        scored(3, 0.1, 1, candidate=REPLAYED),
        scored(1, 0.1, 1),
        scored(2, 0.5, 0),
    )
    target = Target(name="own", deviation=0.2, unloads_per_day=10)
    assert recommended(runs, ranked(runs, target, PULSAR.nouns), target, PULSAR.nouns).num_rows == 0


def test_any_ranked_candidate_can_be_put_in_force():
    runs = run_rows(
        scored(0, 0.5, 0, settings='{"maxUnloadPercentage": 0.2}'),
        scored(3, 0.5, 0, candidate=REPLAYED, settings='{"maxUnloadPercentage": 0.2}'),
        scored(1, 0.4, 300, settings='{"maxUnloadPercentage": 0.5}'),
    )
    terms = (Target(name="own", deviation=0.2, unloads_per_day=10), PULSAR.nouns)
    rows = ranked(runs, *terms)
    assert recommended(runs, rows, *terms).num_rows == 0
    (change,) = recommended(runs, rows, *terms, "c1").to_pylist()
    assert (change["key"], change["old"], change["new"]) == ("maxUnloadPercentage", "0.2", "0.5")
    assert "rank 2, not recommended, misses the target by 20.0 points" in change["verdict"]
    assert recommended(runs, rows, *terms, REPLAYED).num_rows == 0
    assert recommended(runs, rows, *terms, "another").num_rows == 0


def test_any_ranked_candidate_of_a_pegasus_cluster_can_be_put_in_force():
    runs = run_rows(
        scored(0, 0.5, 0, shedding="cluster", settings='{"level": "steady"}'),
        scored(3, 0.5, 0, shedding="cluster", candidate=REPLAYED, settings='{"level": "steady"}'),
        scored(1, 0.4, 300, shedding="cluster", settings='{"level": "lively"}'),
    )
    terms = (Target(name="own", deviation=0.2, unloads_per_day=10), PEGASUS.nouns)
    rows = ranked(runs, *terms)
    (change,) = PEGASUS.recommended(runs, rows, *terms, "c1").to_pylist()
    assert (change["key"], change["new"]) == ("level", '"lively"')
    assert "not recommended" in change["verdict"]


TIGHT = Target(name="own", deviation=0.2, unloads_per_day=10)


def test_candidates_are_compared_with_the_model_of_the_record_and_its_error_is_told():
    runs = run_rows(
        scored(0, 0.584, 817),
        scored(1, 0.795, 934, candidate=REPLAYED),
        scored(2, 0.55, 900, settings='{"maxUnloadPercentage": 0.5}'),
    )
    rows = ranked(runs, TIGHT, PULSAR.nouns)
    best = chosen(rows.to_pylist(), TIGHT)
    assert best is not None
    assert best["candidate_number"] == 2
    why = recommended(runs, rows, TIGHT, PULSAR.nouns)["why"].to_pylist()[0]
    assert "from 79.5% to 55%" in why
    words = describe_advice(runs, rows, TIGHT, PULSAR.nouns)
    assert "Model error: +21.1 points of deviation and +117.0 unloads a day" in words
    assert "Recommended" not in words
    assert "misses the target by 35.0 points of deviation and 890.0 unloads a day: c2." in words
    assert "Unloads a day extrapolated from 1 h." in words


@pytest.mark.parametrize(
    ("deviation", "unloads", "is_chosen"),
    [
        (0.599, 0, False),  # fewer unloads, and farther off: doing nothing is no remedy
        (0.59, 0, True),  # within a point
        (0.7, 50, False),  # worse
        (0.19, 9, True),
    ],
)
@pytest.mark.parametrize(("record", "again"), [(0.584, 0.6), (0.6, 0.584)])
def test_fewer_unloads_are_no_better_where_the_nodes_drift_apart(
    record, again, deviation, unloads, is_chosen
):
    runs = run_rows(
        scored(0, record, 45),
        scored(1, again, 50, candidate=REPLAYED),
        scored(2, deviation, unloads),
    )
    best = chosen(ranked(runs, TIGHT, PULSAR.nouns).to_pylist(), TIGHT)
    assert (best is not None) is is_chosen


def test_optimizer_is_ranked_and_described_but_no_setting_is_recommended_for_it():
    runs = run_rows(
        scored(0, 0.5, 45, settings="{}"),
        scored(3, 0.5, 45, candidate=REPLAYED, settings="{}"),
        scored(1, 0.1, 1, shedding=OPTIMIZER, settings="{}"),
        scored(2, 0.2, 2, shedding="AvgShedder", settings="{}"),
    )
    terms = (TIGHT, PULSAR.nouns)
    rows = ranked(runs, *terms)
    assert rows.to_pylist()[0]["shedding"] == OPTIMIZER
    best = chosen(rows.to_pylist(), TIGHT)
    assert best is not None
    assert best["shedding"] == "AvgShedder"
    assert recommended(runs, rows, *terms, "c1").num_rows == 0
    said = describe_advice(runs, rows, *terms)
    assert "Optimizer plans, applied manually: deviation p95 10% with 1.0 unloads" in said


def test_without_the_recorded_settings_played_again_nothing_is_recommended():
    runs = run_rows(scored(0, 0.5, 45), scored(2, 0.1, 1))
    rows = ranked(runs, TIGHT, PULSAR.nouns)
    assert chosen(rows.to_pylist(), TIGHT) is None
    assert "no baseline" in describe_advice(runs, rows, TIGHT, PULSAR.nouns)


def test_of_equals_whoever_changes_least_is_first_and_has_the_mark():
    runs = run_rows(
        scored(0, 0.5, 45, settings='{"maxUnloadPercentage": 0.2}'),
        scored(1, 0.9, 45, candidate=REPLAYED),
        scored(2, 0.6, 0, shedding="AvgShedder", settings='{"maxUnloadPercentage": 0.5}'),
        scored(3, 0.6, 0, shedding="AvgShedder"),
        scored(4, 0.6, 0, settings='{"maxUnloadPercentage": 0.2}'),
    )
    rows = ranked(runs, TIGHT, PULSAR.nouns).to_pylist()
    numbers = [row["candidate_number"] for row in rows if row["rank"]]
    assert numbers == [4, 3, 2, 1]
    assert [row["candidate_number"] for row in rows if row["is_pareto"]] == [4]


def test_a_candidate_that_missed_a_window_is_not_ranked_on_the_others():
    failed = {"problem": "It cannot be.", "window": 1, "minutes": 0}
    runs = run_rows(
        scored(0, 0.5, 45),
        scored(0, 0.5, 45, window=1),
        {"candidate_number": 0, **failed, "window": 2},
        scored(1, 0.1, 1),
        {"candidate_number": 1, **failed},
        {"candidate_number": 1, **failed, "window": 2},
        scored(2, 0.4, 40),
        scored(2, 0.4, 40, window=1),
        {"candidate_number": 2, **failed, "window": 2},
    )
    rows = {row["candidate_number"]: row for row in ranked(runs, TIGHT, PULSAR.nouns).to_pylist()}
    assert (rows[1]["rank"], rows[1]["meets_target"], rows[1]["deviation_p95"]) == (
        None,
        False,
        None,
    )
    assert "1 of 2 runs could not be simulated. It cannot be." in rows[1]["sentence"]
    assert (rows[2]["rank"], rows[2]["problem"]) == (
        1,
        None,
    )  # no record: it counts for no candidate


def test_a_setting_that_needs_a_restart_is_no_plan():
    change = {"is_dynamic": True, "takes_effect": "next round"}
    assert is_plannable(change)
    assert not is_plannable(change | {"takes_effect": "restart"})
    assert not is_plannable(change | {"is_dynamic": False})


def test_the_broker_with_the_max_deviation_may_be_below_the_mean():
    traffic = np.array([[1.0, 9.0, 8.0], [0.0, 0.0, np.nan], [np.nan] * 3, [5.0, np.nan, np.nan]])
    away, who = deviations(traffic)
    assert away[:2].tolist() == [pytest.approx(5 / 6), 0.0]
    assert np.isnan(away[2])
    assert away[3] == 0.0
    assert who.tolist() == [0, 0, -1, 0]


def recorded_hour(store: HistoryStore) -> list[PulsarSnapshot]:
    """A record with moves, a broker that goes and one that comes back, over two segments."""
    there = [make_snapshot(brokers=4, bundles=40, minutes_ago=12 - at) for at in range(12)]
    hurt = [without_broker(one, *broker_names(4)[:2]) for one in there[5:9]]
    snapshots = [*there[:5], *hurt, *there[9:]]
    first, second = Recorder(store, "fleet"), Recorder(store, "fleet")
    for snapshot in snapshots[:7]:
        assert first.record(snapshot).is_new
    for snapshot in snapshots[7:]:
        assert second.record(snapshot).is_new
    return snapshots


def test_a_series_out_of_the_history_is_that_of_the_snapshots(tmp_path):
    store = HistoryStore(HistoryLocation(str(tmp_path)))
    snapshots = recorded_hour(store)
    window = Window(
        number=0,
        start=snapshots[2].manifest.taken_at,
        end=snapshots[-1].manifest.taken_at,
    )
    found, wanted = load_series(store, "fleet", window), series_of(snapshots[2:-1])
    for name, value in vars(wanted).items():
        if isinstance(value, np.ndarray):
            same = np.array_equal(getattr(found, name), value, equal_nan=value.dtype.kind == "f")
            assert same, name
    pairs = zip(found.rates, wanted.rates, strict=True)
    assert all(np.array_equal(one, other) for one, other in pairs)
    assert found.template.brokers.equals(wanted.template.brokers)
    assert found.template.bundles.equals(wanted.template.bundles)
    with pytest.raises(HistoryError, match="No history of 'fleet' is recorded"):
        load_series(store, "fleet", replace(window, start=window.end.replace(year=2027)))


def test_a_pegasus_record_is_none_of_pulsar(tmp_path):
    store = HistoryStore(HistoryLocation(str(tmp_path)))

    snapshot = generated(3, 4, 5)
    Recorder(store, "onebox").record(snapshot)
    start = snapshot.manifest.taken_at
    window = Window(number=0, start=start, end=start.replace(year=start.year + 1))
    with pytest.raises(InputError, match="not a Pulsar cluster"):
        load_series(store, "onebox", window)


def test_the_record_row_holds_the_settings_in_force():
    series = series_of(still(fleet(), 3))
    unit = units_of(series, Grid())[0]
    row = run_unit(series, unit).runs.to_pylist()[0]
    assert row["is_record"]
    assert (row["shedding"], row["placement"]) == ("ThresholdShedder", "LeastLongTermMessageRate")
    assert json.loads(row["settings"])["loadBalancerSheddingEnabled"] is True


def test_a_day_of_every_other_minute_is_a_day():
    assert covered_minutes(np.arange(60)) == 60
    assert covered_minutes(np.arange(0, 1440, 2)) == 1440
    assert covered_minutes(np.arange(0, 1440, 10) + 0.03) == pytest.approx(1440)
    assert covered_minutes(np.array([7])) == 1
    assert covered_minutes(np.array([])) == 0


def test_the_difference_of_replay_and_record_is_told_next_to_the_verdict():
    rows = pd.DataFrame(
        {
            "candidate": ["as recorded", REPLAYED],
            "is_record": [True, False],
            "deviation_p95": [1.249, 1.063],
            "unloads_per_day": [238.2, 141.7],
        }
    )
    assert fidelity(rows, PULSAR.nouns) == (
        "Actual: measured on the cluster. Replayed: the recorded settings, simulated. They differ "
        "by 19 points of deviation and 96.5 unloads a day; smaller differences between candidates "
        "are noise."
    )
    assert not fidelity(rows.head(1), PULSAR.nouns)
