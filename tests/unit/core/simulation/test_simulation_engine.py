from __future__ import annotations

import json
from itertools import pairwise

import numpy as np
import pytest
from fleet_builder import make_snapshot
from fleet_edit import edited, every, with_manifest, with_policies, with_settings

from core.errors import InputError, UnknownNameError
from core.pulsar.averages import sampled
from core.pulsar.cluster import FleetStart
from core.pulsar.load import next_average
from core.pulsar.measures import measure
from core.pulsar.settings import effective_settings
from core.simulation import RoundResult, Run, SimulatedMove, WhatIf, simulate
from core.simulation.engine import find_flaps
from core.simulation.records import after_reports, top_bundles
from core.snapshot import PulsarSnapshot

HOT = "10.1.0.1:8080"
NEW = "10.9.0.1:8080"
THRESHOLD = "ThresholdShedder"
EXTENSIBLE = "org.apache.pulsar.broker.loadbalance.extensions.ExtensibleLoadManagerImpl"
SHEDDERS = ["ThresholdShedder", "OverloadShedder", "UniformLoadShedder", "AvgShedder"]


def small(**options: object) -> PulsarSnapshot:
    return with_policies(make_snapshot(**{"brokers": 4, "bundles": 120, **options}))


def owners_after(snapshot: PulsarSnapshot, rounds: tuple[RoundResult, ...]) -> dict[str, str]:
    owner = dict(
        zip(
            snapshot.bundles["bundle"].to_pylist(),
            snapshot.bundles["owner"].to_pylist(),
            strict=True,
        )
    )
    for done in rounds:
        for move in done.moves:
            assert owner[move.bundle] == move.source
            assert move.destination != move.source
            owner[move.bundle] = move.destination
    return owner


@pytest.mark.parametrize("shedding", SHEDDERS)
def test_every_move_starts_where_the_bundle_is(shedding):
    snapshot = small()
    owners_after(snapshot, simulate(snapshot, Run(shedding=shedding, rounds=25)).rounds)


def test_the_hot_broker_is_relieved_until_it_settles():
    done = simulate(small(), Run(shedding=THRESHOLD, rounds=100))
    assert done.ending == "converged"
    assert done.rounds[0].moves
    assert done.deviation_after < done.deviation_before
    assert done.rounds_to_converge == max(one.number for one in done.rounds if one.moves)
    assert done.sentence.startswith("ThresholdShedder converges after")


def test_same_seed_same_answer():
    run = Run(shedding="AvgShedder", rounds=30, seed=5)
    first, second = (simulate(small(), run, placement="AvgShedder") for _ in range(2))
    assert first == second


def test_a_horizon_that_is_too_near_is_said():
    done = simulate(small(), Run(shedding=THRESHOLD, rounds=1))
    assert done.ending == "horizon"
    assert done.rounds_to_converge is None
    assert "not converge within" in done.sentence


def test_an_even_fleet_settles_at_once():
    snapshot = every(small(), "brokers", {f"{name}_usage": 10.0 for name in ("cpu", "memory")})
    done = simulate(snapshot, Run(shedding="OverloadShedder"))
    assert done.rounds_to_converge == 0
    assert done.move_count == 0
    assert "moves nothing" in done.sentence


def test_a_bundle_rests_for_its_grace_period():
    snapshot = small()
    first = simulate(snapshot, Run(shedding=THRESHOLD, rounds=1)).rounds[0].moves[0].bundle
    run = Run(shedding=THRESHOLD, rounds=5, recently_unloaded=[first])
    moved = {move.bundle for done in simulate(snapshot, run).rounds for move in done.moves}
    assert moved
    assert first not in moved


def test_no_bundle_moves_twice_within_its_grace_period():
    done = simulate(make_snapshot(brokers=8, bundles=200), Run(shedding=THRESHOLD, rounds=60))
    last: dict[str, float] = {}
    for one in done.rounds:
        for move in one.moves:
            assert one.minute - last.get(move.bundle, -1e9) > done.grace_minutes
            last[move.bundle] = one.minute


def test_interval_and_grace_are_the_settings():
    overrides = {
        "loadBalancerSheddingIntervalMinutes": 5,
        "loadBalancerSheddingGracePeriodMinutes": 10,
    }
    done = simulate(small(), Run(shedding=THRESHOLD, rounds=3), overrides=overrides)
    assert [round(one.minute) for one in done.rounds] == [5, 10, 15]
    assert done.grace_minutes == 10.0


def test_shedding_that_is_off_counts_as_on_and_is_said():
    snapshot = with_settings(small(), (None, "loadBalancerSheddingEnabled", "false", "dynamic"))
    done = simulate(snapshot, Run(shedding=THRESHOLD, rounds=2))
    assert done.move_count
    assert any("loadBalancerSheddingEnabled" in note for note in done.notes)


def test_a_broker_that_joins_gets_bundles():
    snapshot = small()
    done = simulate(snapshot, Run(shedding=THRESHOLD, rounds=60, what_if=WhatIf(added=[NEW])))
    assert done.rounds[0].number == 0
    assert done.rounds[0].moves == ()
    assert NEW in {move.destination for one in done.rounds for move in one.moves}


def test_bundles_of_a_failed_broker_are_placed_on_the_others():
    snapshot = small()
    done = simulate(snapshot, Run(shedding=THRESHOLD, rounds=1, what_if=WhatIf(failed=[HOT])))
    owner = owners_after(snapshot, done.rounds[:1])
    left = {name for name, who in owner.items() if who == HOT}
    assert all(name.startswith("pulsar/") for name in left)
    assert {move.source for move in done.rounds[0].moves} == {HOT}
    assert done.rounds[0].clients > 0


def test_a_whole_failure_domain_can_fail():
    snapshot = make_snapshot(brokers=6, bundles=120)
    what_if = WhatIf(failed_domains=["zone-a"])
    done = simulate(snapshot, Run(shedding=THRESHOLD, rounds=1, what_if=what_if))
    assert {move.source for move in done.rounds[0].moves} <= {"10.1.0.1:8080", "10.1.0.4:8080"}
    assert "2 brokers left" in done.rounds[0].sentence


@pytest.mark.parametrize(
    ("what_if", "error"),
    [
        (WhatIf(failed=["nobody:8080"]), UnknownNameError),
        (WhatIf(failed_domains=["nowhere"]), UnknownNameError),
        (WhatIf(added=[HOT]), InputError),
        (WhatIf(added=["no-port"]), InputError),
        (WhatIf(failed=[f"10.1.0.{number}:8080" for number in (1, 2, 3, 4)]), InputError),
    ],
)
def test_a_what_if_that_cannot_be_is_refused(what_if, error):
    with pytest.raises(error):
        simulate(small(), Run(shedding=THRESHOLD, what_if=what_if))


def test_no_round_is_refused():
    with pytest.raises(InputError):
        Run(shedding=THRESHOLD, rounds=0)


def test_isolation_that_leaves_no_destination_moves_nothing():
    body = {
        "namespaces": [".*"],
        "primary": ["10.1.0.1"],
        "secondary": [],
        "auto_failover_policy": {
            "policy_type": "min_available",
            "parameters": {"min_limit": "1", "usage_threshold": "100"},
        },
    }
    snapshot = with_policies(small(), ("isolation", "one", json.dumps(body)))
    done = simulate(snapshot, Run(shedding=THRESHOLD, rounds=40))
    assert not [move for one in done.rounds for move in one.moves if move.source == HOT]


def test_traffic_is_conserved():
    snapshot = small()
    done = simulate(snapshot, Run(shedding=THRESHOLD, rounds=10, what_if=WhatIf(added=[NEW])))
    assert done.moved_bytes_per_s == pytest.approx(
        sum(one.moved_bytes_per_s for one in done.rounds)
    )


def moved(number: int, *pairs: tuple[str, str]) -> RoundResult:
    moves = tuple(SimulatedMove(bundle="b", source=one, destination=other) for one, other in pairs)
    return RoundResult(
        number=number,
        minute=float(number),
        moves=moves,
        skipped={},
        deviation=None,
        usage_deviation=None,
        moved_bytes_per_s=0.0,
        clients=0,
        sentence="",
    )


@pytest.mark.parametrize(
    ("ways", "flaps"),
    [
        ([("A", "B"), ("B", "A")], [("A", "B", 1, 2)]),
        ([("A", "B"), ("B", "C")], []),
        ([("A", "B"), ("B", "C"), ("C", "A")], [("A", "C", 1, 3)]),
        ([("A", "B"), ("B", "A"), ("A", "B")], [("A", "B", 1, 2), ("B", "A", 2, 3)]),
    ],
)
def test_a_bundle_that_comes_back_is_a_flap(ways, flaps):
    rounds = [moved(number, way) for number, way in enumerate(ways, 1)]
    found = find_flaps(rounds)
    assert [(one.home, one.away, one.left_round, one.back_round) for one in found] == flaps
    assert all(one.dwell_minutes == one.back_round - one.left_round for one in found)


@pytest.mark.parametrize("count", [1, 3, 25])
@pytest.mark.parametrize(("term", "limit"), [("short", 10), ("long", 1000)])
def test_samples_move_the_averages_as_upstream_does(count, term, limit):
    rng = np.random.default_rng(count)
    held = rng.integers(0, limit + 1, 124).tolist()
    snapshot = small()
    names = snapshot.bundles["bundle"].to_pylist()
    cells = {name: {f"{term}_samples": samples} for name, samples in zip(names, held, strict=False)}
    snapshot = edited(snapshot, "bundles", cells)
    name = f"{term}_msg_rate_in"
    average = snapshot.bundles[name].to_numpy()
    samples = snapshot.bundles[f"{term}_samples"].to_numpy()
    value = snapshot.bundles["msg_rate_in"].to_numpy()
    for _ in range(count):
        average, samples = next_average(average, samples, value, max_samples=limit)
    after = FleetStart(snapshot).fleet().sampled(count).snapshot
    assert np.allclose(after.bundles[name].to_numpy(), average)
    assert after.bundles[f"{term}_samples"].to_pylist() == samples.tolist()
    assert after.brokers[name].to_numpy().sum() == pytest.approx(average.sum())


@pytest.mark.parametrize("limit", [10, 1000])
def test_an_average_that_is_its_sample_stays_to_the_bit(limit):
    """A large cluster on Spark takes sums of such bundles over from round to round."""
    rng = np.random.default_rng(limit)
    last = np.concatenate(
        [rng.random(500) * 10.0 ** rng.integers(-9, 12, 500), [0.0, -0.0, 5e-324]]
    )
    held = rng.integers(0, limit + 3, last.size)
    for count in (0, 1, 7, 4000):
        begun = (np.full(last.size, 3.0), (held, limit))
        values, _ = sampled(last, last, np.ones(last.size, np.bool_), count, begun)
        assert (values == last).all()


def test_a_bundle_without_an_average_begins_one():
    snapshot = small()
    name = snapshot.bundles["bundle"][0].as_py()
    blank = dict.fromkeys(f"long_{way}" for way in ("msg_rate_in", "msg_throughput_in"))
    fresh = edited(snapshot, "bundles", {name: blank | {"long_samples": None}})
    row = FleetStart(fresh).fleet().sampled(1).snapshot.bundles.to_pylist()[0]
    assert row["long_msg_rate_in"] == pytest.approx(row["msg_rate_in"])


def extensible(**options: object) -> PulsarSnapshot:
    """The same fleet under the extensible manager, with all that its brokers publish."""
    snapshot = with_manifest(small(**options), load_manager="extensible")
    snapshot = every(snapshot, "brokers", {"load_manager": EXTENSIBLE})
    spaces = every(snapshot, "namespaces", {"anti_affinity_group": None})
    return after_reports(spaces, effective_settings(spaces), 1.0, ())


def test_transfer_shedder_levels_the_fleet_and_its_brokers_rest():
    snapshot = every(extensible(), "brokers", {"cpu_limit": 300.0})
    done = simulate(snapshot, Run(shedding="TransferShedder", rounds=60))
    busy = [one.number for one in done.rounds if one.moves]
    assert busy[0] == 4  # the fourth uneven round in a row acts
    assert all(later - earlier >= 3 for earlier, later in pairwise(busy))
    assert done.rounds[busy[-1] - 1].usage_deviation < done.rounds[0].usage_deviation
    owners_after(snapshot, done.rounds)


def test_a_broker_that_joins_an_extensible_cluster_publishes_its_load():
    what_if = WhatIf(added=[NEW], failed=[HOT])
    done = simulate(extensible(), Run(shedding="TransferShedder", rounds=20, what_if=what_if))
    assert NEW in {move.destination for one in done.rounds for move in one.moves}


def test_hottest_bundles_are_the_hottest_and_in_rising_order():
    snapshot = extensible()
    table = top_bundles(snapshot, effective_settings(snapshot)).to_pylist()
    for broker in snapshot.brokers["broker"].to_pylist():
        listed = [row for row in table if row["broker"] == broker]
        assert [row["position"] for row in listed] == list(range(len(listed)))
        sizes = [round(row["msg_throughput_in"] / 1e5) for row in listed]
        assert sizes == sorted(sizes)
        owned = [
            row
            for row in snapshot.bundles.to_pylist()
            if row["owner"] == broker and not row["is_broker_bound"]
        ]
        assert len(listed) == min(10, len(owned))
        limit = sorted((round(row["msg_throughput_in"] / 1e5) for row in owned), reverse=True)
        assert sizes == sorted(limit[:10])


def test_transfer_shedder_without_published_loads_is_refused():
    with pytest.raises(InputError):
        simulate(small(), Run(shedding="TransferShedder"))


def test_settled_means_that_more_rounds_move_nothing():
    snapshot = small()
    done = simulate(snapshot, Run(shedding=THRESHOLD, rounds=100))
    again = simulate(snapshot, Run(shedding=THRESHOLD, rounds=done.rounds_to_converge))
    assert again.ending == "converged"
    assert measure(snapshot).throughput.total > 0


def test_a_short_rest_and_a_narrow_band_make_bundles_ping_pong():
    overrides = {
        "loadBalancerSheddingGracePeriodMinutes": 1,
        "loadBalancerBrokerThresholdShedderPercentage": 3,
        "loadBalancerBundleUnloadMinThroughputThreshold": 0.1,
    }
    snapshot = small(brokers=6, bundles=24, seed=2)
    run = Run(shedding=THRESHOLD, rounds=12)
    done = simulate(snapshot, run, overrides=overrides)
    assert done.flaps
    assert "returned" in done.sentence
    moves = {(one.number, move.bundle): move for one in done.rounds for move in one.moves}
    for flap in done.flaps:
        assert moves[flap.left_round, flap.bundle].source == flap.home
        back = moves[flap.back_round, flap.bundle]
        assert (back.source, back.destination) == (flap.away, flap.home)
        assert flap.dwell_minutes >= done.grace_minutes
    rested = simulate(snapshot, run)
    assert len(rested.flaps) < len(done.flaps)
