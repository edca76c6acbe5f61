from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta

import numpy as np
import pytest
from fleet_builder import NOON, make_snapshot
from fleet_edit import (
    edited,
    every,
    owned_by,
    with_manifest,
    with_policies,
    with_settings,
    without,
)

from core.errors import InputError
from core.optimize import OptimizeRequest, Proposal, optimize
from core.optimize.model import CurvePoint
from core.pulsar.measures import DEFAULT_TARGET, measure
from core.pulsar.plan.build import build_unload_plan
from core.pulsar.plan.outcomes import Scenario
from core.pulsar.plan.project import project_scenario
from core.pulsar.settings import effective_settings
from core.pulsar.view import LoadView
from core.simulation.records import after_reports
from core.snapshot import PulsarSnapshot
from core.units import format_ratio

HOT = "10.1.0.1:8080"
IDLE = "10.1.0.4:8080"


def small(**options: object) -> PulsarSnapshot:
    """Four brokers without any policy; the last one is idle."""
    return with_policies(make_snapshot(**{"brokers": 4, "bundles": 120, **options}))


def after(snapshot: PulsarSnapshot, proposal: Proposal) -> PulsarSnapshot:
    view = LoadView.of(snapshot, effective_settings(snapshot))
    rows = np.array([view.bundle_row(move.bundle) for move in proposal.moves], np.int64)
    ends = tuple(move.destination for move in proposal.moves)
    return project_scenario(snapshot, rows, Scenario(1.0, ends))


def deviation(snapshot: PulsarSnapshot) -> float:
    return float(np.abs(measure(snapshot).throughput.deviations).max())


@pytest.mark.parametrize("seed", range(5))
def test_every_broker_comes_within_the_goal_of_the_mean(seed):
    snapshot = small(seed=seed)
    proposal = optimize(snapshot, OptimizeRequest(within=0.05))
    assert proposal.verdict == "reached"
    assert deviation(after(snapshot, proposal)) <= 0.05
    assert proposal.deviation_after == pytest.approx(deviation(after(snapshot, proposal)))
    assert proposal.deviation_before == pytest.approx(deviation(snapshot))
    assert 1.0 <= proposal.ratio <= 1.15


def test_balanced_already_is_nothing_to_do():
    snapshot = small()
    level = after(snapshot, optimize(snapshot, OptimizeRequest(within=0.05)))
    proposal = optimize(level, OptimizeRequest(within=0.05))
    assert proposal.verdict == "nothing_to_do"
    assert proposal.moves == ()
    assert proposal.lower_bound_bytes_per_s == 0.0
    assert proposal.ratio is None
    assert proposal.sentence.startswith("Nothing to do")


def test_a_wider_goal_moves_less():
    snapshot = small()
    wide, tight = (optimize(snapshot, OptimizeRequest(within=within)) for within in (0.2, 0.05))
    assert wide.moved_bytes_per_s < tight.moved_bytes_per_s
    assert len(wide.moves) < len(tight.moves)


def test_a_budget_is_kept_and_named():
    snapshot = small()
    whole = optimize(snapshot, OptimizeRequest(within=0.05))
    budget = len(whole.moves) // 2
    proposal = optimize(snapshot, OptimizeRequest(within=0.05, max_moves=budget))
    assert len(proposal.moves) <= budget
    assert [item.code for item in proposal.binding] == ["move_budget"]
    assert whole.deviation_after < proposal.deviation_after < proposal.deviation_before


def test_no_budget_at_all_moves_nothing():
    proposal = optimize(small(), OptimizeRequest(within=0.05, max_moves=0))
    assert proposal.moves == ()
    assert proposal.verdict == "best_effort"
    assert proposal.binding[0].code == "move_budget"


def test_curve_goes_from_nothing_to_everything():
    proposal = optimize(small(), OptimizeRequest(within=0.05))
    assert [point.moves for point in proposal.curve] == list(range(len(proposal.moves) + 1))
    assert proposal.curve[0].deviation == proposal.deviation_before
    assert proposal.curve[-1].deviation == pytest.approx(proposal.deviation_after)
    assert proposal.curve[-1].moved_bytes_per_s == pytest.approx(proposal.moved_bytes_per_s)
    assert proposal.curve[-1].clients == sum(move.clients for move in proposal.moves)


def test_excluded_namespaces_stay():
    snapshot = small()
    proposal = optimize(snapshot, OptimizeRequest(exclusions=("acme/*",)))
    assert proposal.moves
    assert not [move for move in proposal.moves if move.bundle.startswith("acme/")]


def test_namespaces_that_the_cluster_never_sheds_stay():
    snapshot = small()
    some = optimize(snapshot, OptimizeRequest(within=0.05)).moves[0].bundle.rpartition("/")[0]
    key = "loadBalancerSheddingExcludedNamespaces"
    settings = effective_settings(snapshot, overrides={key: [some]})
    moved = optimize(snapshot, OptimizeRequest(within=0.05), settings=settings).moves
    assert moved
    assert not [move for move in moved if move.bundle.startswith(f"{some}/")]


def test_bundles_in_their_grace_period_stay():
    snapshot = small()
    first = {move.bundle for move in optimize(snapshot, OptimizeRequest(within=0.05)).moves}
    second = {
        move.bundle
        for move in optimize(snapshot, OptimizeRequest(recently_moved=tuple(first))).moves
    }
    assert second
    assert not first & second


def test_a_bundle_that_its_owner_does_not_report_yet_stays():
    snapshot = small()
    moved = optimize(snapshot, OptimizeRequest(within=0.05)).moves[0]
    travelling = edited(snapshot, "bundles", {moved.bundle: {"owner": IDLE}})
    assert moved.bundle not in {
        move.bundle for move in optimize(travelling, OptimizeRequest(within=0.05)).moves
    }


def test_heartbeat_bundles_never_move():
    proposal = optimize(make_snapshot(), OptimizeRequest(within=0.01))
    assert proposal.moves
    assert not [move for move in proposal.moves if move.bundle.startswith("pulsar/")]


def test_relief_brings_the_hot_ones_down_and_nothing_else():
    snapshot = small()
    usage = measure(snapshot).usage
    line = (usage.mean + usage.maximum) / 2
    proposal = optimize(snapshot, OptimizeRequest(within=0.05, relief=line))
    hot = {name for name, value in zip(usage.brokers, usage.values, strict=True) if value > line}
    assert proposal.measure == "usage"
    assert proposal.verdict == "reached"
    assert {move.source for move in proposal.moves} <= hot
    assert measure(after(snapshot, proposal)).usage.maximum <= line + 1e-6
    assert proposal.deviation_after == 0.0
    at_first, limit = format_ratio(usage.maximum), format_ratio(line)
    assert f"max usage from {at_first} to {limit} or less." in (proposal.sentence)


def test_relief_that_cannot_be_reached_says_how_busy_the_busiest_stays():
    snapshot = small()
    proposal = optimize(snapshot, OptimizeRequest(within=0.05, relief=0.01))
    stays = format_ratio(0.01 * (1 + proposal.deviation_after))
    assert proposal.verdict == "best_effort"
    assert f"to {stays}." in proposal.sentence or f"is at {stays}, above" in proposal.sentence
    assert "off" not in proposal.sentence
    assert "of its 1 " not in " ".join(item.sentence for item in proposal.binding)


def test_relief_of_a_cool_fleet_is_nothing_to_do():
    cool = optimize(small(), OptimizeRequest(within=0.05, relief=0.99))
    assert cool.verdict == "nothing_to_do"
    assert cool.sentence == "Nothing to do: no broker's usage is above 99%."


def test_usage_can_be_the_measure():
    snapshot = small()
    proposal = optimize(snapshot, OptimizeRequest(measure="usage", within=0.08))
    assert proposal.verdict == "reached"
    left = np.abs(measure(after(snapshot, proposal)).usage.deviations).max()
    assert left <= 0.08 + 1e-4


def isolation(namespaces: list[str], primary: list[str]) -> str:
    return json.dumps(
        {
            "namespaces": namespaces,
            "primary": primary,
            "secondary": [],
            "auto_failover_policy": {
                "policy_type": "min_available",
                "parameters": {"min_limit": "1", "usage_threshold": "100"},
            },
        }
    )


def test_isolation_is_kept_and_what_it_makes_impossible_is_proven():
    body = isolation([".*"], ["10.1.0.[123]"])
    snapshot = with_policies(small(), ("isolation", "three", body))
    proposal = optimize(snapshot, OptimizeRequest(within=0.05))
    assert proposal.verdict == "best_effort"
    assert IDLE not in {move.destination for move in proposal.moves}
    assert proposal.lower_bound_bytes_per_s is None
    assert proposal.deviation_floor == pytest.approx(1.0)
    assert ("no_destination", IDLE) in {(item.code, item.subject) for item in proposal.binding}


@pytest.mark.parametrize(
    ("namespace", "primary", "why"),
    [
        ("acme/orders", "10.1.0.4", "admits only acme/orders; all eligible bundles are on it"),
        (
            "globex/.*",
            "10.1.0.[34]",
            "globex/payments; the other brokers with eligible bundles are",
        ),
    ],
)
def test_a_policy_that_keeps_a_broker_below_the_target_is_named(namespace, primary, why):
    body = isolation([namespace], [primary])
    snapshot = with_policies(small(), ("isolation", "apart", body))
    proposal = optimize(snapshot, OptimizeRequest(within=0.05))
    (found,) = [item for item in proposal.binding if item.subject == IDLE]
    assert f"isolation policy apart admits only {namespace[:6]}" in found.sentence
    assert why in found.sentence


def test_other_load_managers_and_older_versions_get_nothing():
    snapshot = small()
    other = edited(snapshot, "brokers", {IDLE: {"load_manager": "x.SimpleLoadManagerImpl"}})
    assert IDLE not in {
        move.destination for move in optimize(other, OptimizeRequest(within=0.05)).moves
    }
    older = edited(snapshot, "brokers", {IDLE: {"version": "4.0.1"}})
    settings = effective_settings(older, overrides={"preferLaterVersions": True})
    moves = optimize(older, OptimizeRequest(within=0.05), settings=settings).moves
    assert IDLE not in {move.destination for move in moves}


def test_topic_limit_of_the_destination_holds():
    snapshot = small()
    limit = 60
    overrides = {"loadBalancerBrokerMaxTopics": limit}
    roomy = every(snapshot, "brokers", {"topic_count": 0})
    settings = effective_settings(roomy, overrides=overrides)
    proposal = optimize(roomy, OptimizeRequest(within=0.05), settings=settings)
    assert proposal.moves
    for broker in measure(roomy).brokers:
        arrived = sum(move.topics for move in proposal.moves if move.destination == broker)
        assert arrived <= limit


def with_giant() -> tuple[PulsarSnapshot, str]:
    """A fleet with a bundle that is larger than the load of all brokers together."""
    snapshot = small()
    giant = owned_by(snapshot, HOT)[0]
    huge = 5e9
    grown = edited(
        snapshot, "bundles", {giant: {"msg_throughput_in": huge, "msg_throughput_out": huge}}
    )
    row = next(row for row in grown.brokers.to_pylist() if row["broker"] == HOT)
    more = {name: row[name] + huge for name in ("msg_throughput_in", "msg_throughput_out")}
    return edited(grown, "brokers", {HOT: more}), giant


def test_moves_that_lower_the_max_deviation_no_further_are_not_needed():
    grown, _ = with_giant()
    proposal = optimize(grown, OptimizeRequest(within=0.05))
    assert 0 < proposal.needed < len(proposal.moves)
    needed = proposal.first(proposal.needed)
    assert deviation(after(grown, needed)) == pytest.approx(
        deviation(after(grown, proposal)), abs=5e-4
    )
    fewer = proposal.first(proposal.needed - 1)
    assert deviation(after(grown, fewer)) > deviation(after(grown, proposal)) + 5e-4
    assert "not change it" in proposal.rest_gain
    assert proposal.sentence.endswith(proposal.rest_gain)
    reached = optimize(small(), OptimizeRequest(within=0.05))
    assert (reached.needed, reached.rest_gain) == (len(reached.moves), "")


def test_what_the_other_moves_would_gain_is_written():
    values = ((0, 0.5, 0.3, 0.0, 0), (1, 0.2, 0.2, 4e6, 10), (3, 0.2, 0.1, 9e6, 40))
    names = ("moves", "deviation", "mean_deviation", "moved_bytes_per_s", "clients")
    points = tuple(CurvePoint(**dict(zip(names, each, strict=True))) for each in values)
    found = optimize(small(), OptimizeRequest(within=0.05))
    proposal = replace(found, verdict="best_effort", curve=points, moves=found.moves[:3])
    assert proposal.needed == 1
    assert proposal.rest_gain == (
        "The other 2 (5 MB/s, 30 clients) would change the mean deviation from 20% to 10%."
    )
    assert proposal.first(1).curve == points[:2]


def test_a_bundle_too_large_for_any_broker_is_named():
    grown, giant = with_giant()
    proposal = optimize(grown, OptimizeRequest(within=0.05))
    assert proposal.verdict == "best_effort"
    assert proposal.binding[0].code == "bundle_too_large"
    assert giant in proposal.binding[0].sentence
    assert "Needed for ±283%" in proposal.sentence
    assert proposal.deviation_floor > 1.0
    assert giant not in {move.bundle for move in proposal.moves}


def test_unknown_load_of_a_broker_keeps_it_out():
    snapshot = small()
    silent = edited(
        snapshot,
        "brokers",
        {IDLE: {"msg_throughput_in": None, "msg_throughput_out": None}},
    )
    proposal = optimize(silent, OptimizeRequest(within=0.05))
    assert proposal.verdict == "reached"
    assert IDLE not in {move.destination for move in proposal.moves}
    assert any("unknown" in note for note in proposal.notes)


def test_no_load_at_all_is_unknown():
    snapshot = every(small(), "brokers", {"msg_throughput_in": None})
    assert optimize(snapshot, OptimizeRequest(within=0.05)).verdict == "unknown"


def test_one_broker_is_balanced():
    snapshot = small()
    alone = without(snapshot, "brokers", *measure(snapshot).brokers[1:])
    assert optimize(alone, OptimizeRequest(within=0.05)).verdict == "nothing_to_do"


def test_a_plan_of_the_moves_is_accepted_by_every_check():
    snapshot = make_snapshot(brokers=6, bundles=200)
    proposal = optimize(snapshot, OptimizeRequest(within=0.05))
    plan = build_unload_plan(
        snapshot,
        proposal.destinations,
        destinations=proposal.destinations,
        now=NOON + timedelta(seconds=5),
    )
    assert plan.applyable
    assert not plan.by_severity("error")
    assert [step.bundle for step in plan.steps] == [move.bundle for move in proposal.moves]


def test_co_moves_count_the_other_moves_of_the_namespace():
    proposal = optimize(small(), OptimizeRequest(within=0.05))
    for move in proposal.moves:
        namespace = move.bundle.rpartition("/")[0]
        same = [one for one in proposal.moves if one.bundle.startswith(f"{namespace}/0x")]
        assert move.co_moves == len(same) - 1


def test_disruption_counts_clients_topics_and_messages():
    for move in optimize(small(), OptimizeRequest(within=0.05)).moves:
        expected = move.clients + move.topics + move.msgs_per_s / 1000
        assert move.disruption == pytest.approx(expected, abs=1e-3)


@pytest.mark.parametrize(
    "bad",
    [
        {"within": 0.0},
        {"within": float("nan")},
        {"within": 1.5},
        {"relief": -1.0},
        {"max_moves": -1},
        {"measure": "colour"},
        {"measure": "throughput", "relief": 0.5},
    ],
)
def test_a_request_that_cannot_be_is_refused(bad):
    with pytest.raises(InputError):
        OptimizeRequest(**bad)


def test_settings_rows_are_those_in_force():
    key = "loadBalancerSheddingExcludedNamespaces"
    snapshot = small()
    some = optimize(snapshot, OptimizeRequest(within=0.05)).moves[0].bundle.rpartition("/")[0]
    told = with_settings(snapshot, (None, key, some, "dynamic"))
    moves = optimize(told, OptimizeRequest(within=0.05)).moves
    assert not [move for move in moves if move.bundle.startswith(f"{some}/0x")]


def test_clusters_of_the_extensible_manager_keep_its_own_filters():
    manager = "org.apache.pulsar.broker.loadbalance.extensions.ExtensibleLoadManagerImpl"
    body = isolation(["acme/.*"], ["10.1.0.[12]"])
    snapshot = with_policies(small(), ("isolation", "two", body))
    snapshot = every(snapshot, "brokers", {"load_manager": manager})
    snapshot = with_manifest(snapshot, load_manager="extensible")
    settings = effective_settings(snapshot)
    snapshot = after_reports(snapshot, settings, 1.0, ())
    moves = optimize(snapshot, OptimizeRequest(within=0.3)).moves
    assert moves
    pool = {"10.1.0.1:8080", "10.1.0.2:8080"}
    for move in moves:
        assert (move.destination in pool) == move.bundle.startswith("acme/")


@pytest.mark.parametrize("goal", [{}, {"measure": "usage"}, {"relief": 0.01}])
def test_nothing_that_may_move_is_said(goal):
    proposal = optimize(small(), OptimizeRequest(**goal, exclusions=("*",)))
    assert proposal.verdict == "best_effort"
    assert proposal.moves == ()
    assert "fixed_load" in {item.code for item in proposal.binding}
    assert proposal.sentence.startswith("No possible move")


def test_a_fleet_without_traffic_is_balanced():
    snapshot = every(small(), "brokers", {"msg_throughput_in": 0.0, "msg_throughput_out": 0.0})
    snapshot = every(snapshot, "bundles", {"msg_throughput_in": 0.0, "msg_throughput_out": 0.0})
    assert optimize(snapshot, OptimizeRequest(within=0.05)).verdict == "nothing_to_do"


def test_a_fleet_without_bundles_is_judged_all_the_same():
    snapshot = small()
    names = snapshot.bundles["bundle"].to_pylist()
    proposal = optimize(without(snapshot, "bundles", *names), OptimizeRequest(within=0.05))
    assert proposal.verdict == "best_effort"
    assert proposal.moves == ()


def test_the_goal_is_by_default_the_target_of_health() -> None:
    snapshot = small()
    strict = replace(snapshot, manifest=replace(snapshot.manifest, target_ratio=0.05))
    for one, target in ((snapshot, DEFAULT_TARGET.bound), (strict, 0.05)):
        assert measure(one).target.bound == target
        found = optimize(one, OptimizeRequest())
        assert found.goal == optimize(one, OptimizeRequest(within=target)).goal
