"""The closed loop: against the simulation, against itself, and what it keeps."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import numpy as np
import pytest
from backtest_records import (
    as_a_record,
    fleet,
    recorded_moves,
    replay_agreement,
    split_in_two,
    still,
    straight,
    waves,
    without_broker,
)
from backtest_series import series_of
from fleet_builder import broker_names
from fleet_edit import edited, every, with_manifest

from core.errors import InputError
from core.history.backtest.model import OPTIMIZER, RECORDED, Candidate
from core.history.backtest.pulsar.engine import SimulatedRun, simulate_window
from core.history.backtest.pulsar.fleet import Bundles, Fleet
from core.history.backtest.pulsar.leader import Leader
from core.history.backtest.pulsar.moves import KINDS
from core.history.backtest.pulsar.replay import predicted
from core.history.backtest.pulsar.score import deviations, recorded_run, scores
from core.history.backtest.pulsar.series import LoadSeries
from core.optimize import OptimizeRequest, optimize
from core.pulsar.settings import effective_settings
from core.pulsar.view import LoadView
from core.simulation import Run, simulate
from core.simulation.records import after_reports
from core.snapshot import PulsarSnapshot

NAMES = broker_names(5)
MODULAR = ["ThresholdShedder", "OverloadShedder", "UniformLoadShedder", "AvgShedder"]
EAGER = {
    "loadBalancerBundleUnloadMinThroughputThreshold": 1.0,
    "loadBalancerBrokerOverloadedThresholdPercentage": 15,
}


def candidate(shedding: str, **settings: object) -> Candidate:
    placement = "AvgShedder" if shedding == "AvgShedder" else None
    return Candidate(shedding=shedding, placement=placement, settings=settings)


def listed(series: LoadSeries, outcome: SimulatedRun) -> list[tuple[str, str, str]]:
    moves = outcome.moves
    return [
        (series.bundles[bundle], series.brokers[source], series.brokers[end])
        for bundle, source, end in zip(moves.bundle, moves.source, moves.destination, strict=True)
    ]


@pytest.mark.parametrize("shedding", MODULAR)
def test_a_constant_load_goes_as_the_simulation_has_it(shedding):
    snapshot = straight(fleet(bundles=120))
    wanted = candidate(shedding, **EAGER)
    simulated = simulate(
        snapshot,
        Run(shedding=shedding, rounds=25, seed=3),
        placement=wanted.placement,
        overrides=dict(EAGER),
    )
    series = series_of(still(snapshot, 27))
    outcome = simulate_window(series, wanted, 3, has_report_delays=False)
    last = max(round_.minute for round_ in simulated.rounds)
    expected = [
        (move.bundle, move.source, move.destination)
        for round_ in simulated.rounds
        for move in round_.moves
        if round_.minute <= 25
    ]
    assert expected
    found = listed(series, outcome)
    assert found[: len(expected)] == expected
    if simulated.ending == "converged" and last <= 25:
        assert len(found) == len(expected)
    away, _ = deviations(outcome.traffic)
    for round_ in simulated.rounds[:10]:
        assert away[int(round_.minute) + 1] == pytest.approx(round_.deviation)


@pytest.mark.parametrize("is_extensible", [False, True])
def test_plans_of_the_optimizer_are_applied_until_every_broker_is_near_the_mean(is_extensible):
    snapshot = straight(fleet(bundles=120))
    if is_extensible:
        snapshot = with_manifest(snapshot, load_manager="extensible")
    series = series_of(still(snapshot, 12))
    outcome = simulate_window(series, Candidate(shedding=OPTIMIZER), 3, has_report_delays=False)
    far, _ = deviations(outcome.traffic)
    assert outcome.shedding == OPTIMIZER
    assert far[0] > 0.2 >= far[-1]
    proposal = optimize(snapshot, OptimizeRequest())
    moved = {name: end for name, _, end in listed(series, outcome)}
    assert moved == proposal.destinations, "once: what is balanced stays"


def test_without_shedding_the_fleet_is_the_recorded_one_to_the_last_bit():
    series = waves(40)
    outcome = simulate_window(series, Candidate(shedding=None), 1)
    assert np.array_equal(outcome.traffic, series.traffic)
    assert not outcome.moves.row.size
    ours, recorded = scores(series, outcome), scores(series, recorded_run(series))
    assert ours == recorded


@pytest.mark.parametrize("release", ["2.10.6", "3.0.0", "4.2.4"])
def test_the_leader_sees_the_usages_that_its_release_computes(release):
    snapshot = with_manifest(fleet(), release=release)
    hot = {"cpu_usage": 380.0, "cpu_limit": 300.0, "memory_usage": 31.0, "memory_limit": 32.0}
    snapshot = edited(snapshot, "brokers", {NAMES[1]: hot})
    series = series_of([snapshot])
    settings = effective_settings(snapshot)
    seen = Leader(series, settings).view(0, Bundles.recorded(series, 0), series.owner[0])
    expected = LoadView.of(snapshot, settings)
    for name in ("usage", "overload_usage", "threshold_usage", "usage_known", "has_report"):
        assert np.array_equal(getattr(seen, name), getattr(expected, name)), name


@pytest.mark.parametrize("shedding", MODULAR)
def test_no_traffic_is_lost_or_made(shedding):
    series = waves(40)
    outcome = simulate_window(series, candidate(shedding, **EAGER), 1)
    assert outcome.moves.row.size
    wanted = (series.rates[2] + series.rates[3]).sum(axis=1)
    assert np.allclose(outcome.traffic.sum(axis=1), wanted, rtol=1e-9)


def test_the_same_seed_gives_the_same_run():
    series = waves(30)
    wanted = replace(candidate("ThresholdShedder", **EAGER), placement="RoundRobinBrokerSelector")
    first, second, third = (
        listed(series, simulate_window(series, wanted, seed)) for seed in (4, 4, 5)
    )
    assert first == second
    assert first != third


@pytest.mark.parametrize("shedding", ["ThresholdShedder", "UniformLoadShedder"])
def test_a_record_of_what_was_played_is_played_the_same_again(shedding):
    series = waves(50, swing=0.1)
    wanted = candidate(shedding, **EAGER)
    outcome = simulate_window(series, wanted, 2)
    record = as_a_record(series, outcome)
    assert outcome.moves.row.max() < 49  # what moves in the last minute is in no record
    assert sorted(listed(record, recorded_run(record))) == sorted(listed(series, outcome))
    assert listed(record, simulate_window(record, wanted, 2)) == listed(series, outcome)
    same = ("unloads", "client_cuts", "ping_pongs", "deviation_p95", "rounds")
    really, ours = scores(record, recorded_run(record)), scores(series, outcome)
    assert {name: really[name] for name in same} == pytest.approx(
        {name: ours[name] for name in same}
    )


def test_rounds_from_the_recorded_state_foretell_what_the_engine_did():
    series = waves(40)
    outcome = simulate_window(series, Candidate(shedding=RECORDED), 2, has_report_delays=False)
    assert outcome.moves.row.size
    record = as_a_record(series, outcome)
    record = replace(record, has_reported=np.ones_like(record.has_reported))
    found = replay_agreement(record)
    assert found.judged == 38
    assert found.moves == outcome.moves.row.size
    assert found.moves_predicted == found.moves
    assert found.counts["nothing"] + found.counts["equal"] == found.judged


def test_rounds_of_a_cluster_that_does_not_shed_are_not_judged():
    made = fleet()
    off = made.settings.to_pylist()
    for row in off:
        row["value"] = "false" if row["name"] == "loadBalancerSheddingEnabled" else row["value"]
    tables = {**made.tables, "settings": type(made.settings).from_pylist(off)}
    series = series_of(still(PulsarSnapshot.build(made.manifest, tables), 5))
    assert replay_agreement(series).counts == {"not_judged": 3}
    assert simulate_window(series, Candidate(shedding=RECORDED), 1).shedding is None
    assert predicted(series)["is_configured"].to_pylist()[0]


def test_bundles_of_a_broker_that_went_are_placed_anew():
    made = fleet()
    there = list(still(made, 12))
    gone = [without_broker(one, NAMES[0], NAMES[1]) for one in there[6:]]
    series = series_of([*there[:6], *gone])
    outcome = simulate_window(series, Candidate(shedding=None), 1)
    moves = outcome.moves
    assert set(moves.kind.tolist()) == {KINDS.index("placed again")}
    assert set(moves.row.tolist()) == {6}
    assert NAMES[0] not in {end for _, _, end in listed(series, outcome)}
    assert np.isnan(outcome.traffic[6:, 0]).all()
    assert np.allclose(np.nansum(outcome.traffic, axis=1), np.nansum(series.traffic, axis=1))
    really = recorded_run(series)
    assert scores(series, really)["unloads"] == 0
    assert scores(series, really)["placed_again"] == moves.row.size
    assert [row["kind"] for row in recorded_moves(series).to_pylist()] == ["broker_down"]


def test_a_broker_that_joins_gets_what_is_shed():
    made = fleet()
    there = list(still(made, 20))
    without = [without_broker(one, NAMES[0], NAMES[1]) for one in there[:5]]
    series = series_of([*without, *there[5:]])
    outcome = simulate_window(series, candidate("ThresholdShedder", **EAGER), 1)
    ends = {end for _, _, end in listed(series, outcome)}
    assert NAMES[0] in ends
    joined = outcome.moves.row[outcome.moves.destination == 0]
    assert joined.min() >= 5


def test_halves_of_a_bundle_begin_where_the_whole_was():
    made = fleet()
    bundle = next(
        row for row in made.bundles.to_pylist() if not row["is_broker_bound"] and row["owner"]
    )
    whole = bundle["owner"]
    other = next(name for name in NAMES if name != whole)
    there = list(still(made, 8))
    halved = [split_in_two(one, bundle["bundle"], (whole, other)) for one in there[4:]]
    series = series_of([*there[:4], *halved])
    assert (series.parent >= 0).sum() == 2
    outcome = simulate_window(series, Candidate(shedding=None), 1)
    assert outcome.splits.tolist() == [0, 0, 0, 0, 1, 0, 0, 0]
    assert recorded_run(series).splits.tolist() == outcome.splits.tolist()
    assert not outcome.moves.row.size


def test_a_bundle_rests_for_its_grace_period():
    series = waves(60)
    outcome = simulate_window(series, candidate("UniformLoadShedder", **EAGER), 1)
    last: dict[int, int] = {}
    for row, bundle in zip(outcome.moves.row.tolist(), outcome.moves.bundle.tolist(), strict=True):
        assert row - last.get(bundle, -100) >= 29
        last[bundle] = row


def test_a_gap_in_the_record_is_no_extra_round():
    snapshots = list(still(fleet(), 12))
    later = [
        PulsarSnapshot(
            replace(one.manifest, taken_at=one.manifest.taken_at + timedelta(minutes=30)),
            one.tables,
        )
        for one in snapshots[6:]
    ]
    series = series_of([*snapshots[:6], *later])
    assert series.minutes.tolist() == [0, 1, 2, 3, 4, 5, 36, 37, 38, 39, 40, 41]
    assert simulate_window(series, candidate("ThresholdShedder", **EAGER), 1).traffic.shape[0] == 12


def test_of_two_snapshots_of_one_minute_the_last_one_counts():
    first, second = list(still(fleet(), 2))
    soon = replace(first.manifest, taken_at=first.manifest.taken_at + timedelta(seconds=10))
    series = series_of([first, PulsarSnapshot(soon, first.tables), second])
    assert series.shape[0] == 2
    assert series.minutes.tolist() == [0, 1]
    assert series.taken_at[0] - series_of([first]).taken_at[0] == 10_000


def extensible() -> PulsarSnapshot:
    """The fleet under the extensible manager, with what its brokers publish."""
    made = every(straight(fleet(bundles=200)), "brokers", {"cpu_limit": 300.0})
    made = with_manifest(made, load_manager="extensible")
    return after_reports(made, effective_settings(made), 60.0, ())


def test_transfer_shedder_goes_as_the_simulation_has_it():
    snapshot = extensible()
    simulated = simulate(snapshot, Run(shedding="TransferShedder", rounds=25, seed=3))
    series = series_of(still(snapshot, 27))
    outcome = simulate_window(
        series, Candidate(shedding="TransferShedder"), 3, has_report_delays=False
    )
    expected = [
        (move.bundle, move.source, move.destination)
        for round_ in simulated.rounds
        for move in round_.moves
    ]
    assert expected
    assert listed(series, outcome)[: len(expected)] == expected


def test_a_broker_that_goes_leaves_an_extensible_fleet_whole():
    there = list(still(extensible(), 10))
    gone = [without_broker(one, NAMES[0], NAMES[1]) for one in there[5:]]
    series = series_of([*there[:5], *gone])
    for shedding in (None, "TransferShedder"):
        outcome = simulate_window(series, Candidate(shedding=shedding), 1)
        sums = np.nansum(outcome.traffic, axis=1)
        assert np.allclose(sums, np.nansum(series.traffic, axis=1))
        assert outcome.placement == "LeastResourceUsageWithWeight"


def test_a_strategy_without_its_loads_says_so():
    series = waves(3)
    with pytest.raises(InputError, match="TransferShedder"):
        simulate_window(series, Candidate(shedding="TransferShedder"), 1)


def test_reports_that_come_late_change_what_the_leader_does():
    snapshot = straight(fleet(bundles=400))
    series = series_of(still(snapshot, 30))
    wanted = candidate("UniformLoadShedder", loadBalancerReportUpdateThresholdPercentage=80)
    late = listed(series, simulate_window(series, wanted, 1))
    early = listed(series, simulate_window(series, wanted, 1, has_report_delays=False))
    assert late != early
    assert late


SPLITS = {
    "loadBalancerAutoBundleSplitEnabled": True,
    "loadBalancerNamespaceBundleMaxTopics": 5,
    "loadBalancerNamespaceBundleMaxSessions": 0,
    "loadBalancerNamespaceBundleMaxMsgRate": 1_000_000_000,
    "loadBalancerNamespaceBundleMaxBandwidthMbytes": 100_000,
}


def splits_of(topics: float) -> int:
    """How often a bundle and its parts are split until none has more than five topics."""
    return 0 if topics <= 5 else 1 + 2 * splits_of(topics / 2)


@pytest.mark.parametrize("unloads", [True, False])
def test_a_candidate_that_splits_halves_what_is_too_large(unloads):
    series = waves(8)
    wanted = Candidate(
        shedding=None, settings=SPLITS | {"loadBalancerAutoUnloadSplitBundlesEnabled": unloads}
    )
    outcome = simulate_window(series, wanted, 1)
    count = series.shape[2]
    free = ~series.is_bound & (series.reporter[0] >= 0)
    assert outcome.splits.sum() == sum(map(splits_of, series.topics[0][free].tolist())) > 50
    assert np.allclose(outcome.traffic.sum(axis=1), series.traffic.sum(axis=1), rtol=1e-9)
    kinds = {KINDS[kind] for kind in outcome.moves.kind.tolist()}
    assert kinds == ({"split"} if unloads else set())
    names = outcome.moves.names
    assert len(names) == count + 2 * outcome.splits.sum()
    for first, second in zip(names[count::2], names[count + 1 :: 2], strict=True):
        (low, middle), (same, high) = (
            name.rpartition("/")[2].split("_") for name in (first, second)
        )
        assert low < middle == same < high


def test_parts_are_shed_like_any_bundle():
    series = waves(20)
    wanted = candidate("ThresholdShedder", **EAGER, **SPLITS)
    outcome = simulate_window(series, wanted, 1)
    moves = outcome.moves
    unloaded = moves.bundle[moves.kind == KINDS.index("unload")]
    assert (unloaded >= series.shape[2]).any()
    assert np.allclose(outcome.traffic.sum(axis=1), series.traffic.sum(axis=1), rtol=1e-9)
    assert listed_by_name(series, outcome) == listed_by_name(
        series, simulate_window(series, wanted, 1)
    )


def listed_by_name(series: LoadSeries, outcome: SimulatedRun) -> list[tuple[str, int]]:
    names, ends = outcome.moves.names, outcome.moves.destination
    return [(names[at], end) for at, end in zip(outcome.moves.bundle, ends.tolist(), strict=True)]


def test_splits_of_the_record_are_not_made_twice():
    series = waves(4)
    assert not simulate_window(series, Candidate(shedding=None), 1).splits.any()


def test_a_full_namespace_is_split_no_further():
    series = waves(4)
    limit = {"loadBalancerNamespaceMaximumBundles": 1}
    assert not simulate_window(
        series, Candidate(shedding=None, settings=SPLITS | limit), 1
    ).splits.any()


def test_moments_that_do_not_fall_on_minutes_are_one_a_minute():
    snapshots = [
        PulsarSnapshot(
            replace(
                one.manifest, taken_at=one.manifest.taken_at - timedelta(seconds=45.4 * minute)
            ),
            one.tables,
        )
        for minute, one in enumerate(still(fleet(), 40))
    ]
    minutes = series_of(snapshots).minutes
    assert (np.diff(minutes) == 1).all()
    assert minutes.size == 10


@pytest.mark.parametrize(
    ("writers", "begins_anew"),
    [((True, True), True), ((True, False), True), ((False, True), False)],
)
def test_a_bundle_that_no_report_named_for_a_moment_begins_its_averages_anew(writers, begins_anew):
    series = waves(3)
    bundle = int(np.argmax(series.owner[0] == 0))
    parts = {name: getattr(series, name).copy() for name in ("owner", "reporter", "has_reported")}
    parts["has_reported"][1, :2] = writers  # the one that gave it, the one that got it
    parts["owner"][1:, bundle] = parts["reporter"][1:, bundle] = 1
    parts["reporter"][1, bundle] = 1 if writers[1] else -1
    rates = tuple(rate.copy() for rate in series.rates)
    for rate in rates:
        rate[1:, bundle] = rate[0, bundle] * 3
    series = replace(series, **parts, rates=rates)
    leader = Leader(series, effective_settings(series.template))
    for row in range(3):
        load = Bundles.recorded(series, row)
        leader.read(row, float(row > 0), Fleet.recorded(series, row), load, series.owner[row])
    now = sum(rate[2, bundle] for rate in rates[:2])
    assert (leader.long_averages[0][bundle] == pytest.approx(now)) == begins_anew
    assert leader.long_averages[0][bundle] <= now * (1 + 1e-9)
