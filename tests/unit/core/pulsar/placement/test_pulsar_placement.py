"""Placement: worked answers of the real classes, reasons in words, fallbacks, what is not known."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any
from weakref import ref

import numpy as np
import pyarrow as pa
import pytest
from fleet_builder import NOON, make_snapshot
from places import FIXTURES

from core.errors import UnknownNameError
from core.pulsar.placement import (
    STRATEGY_NAMES,
    Placement,
    PlacementMemory,
    find_strategy,
    place_all,
    place_bundle,
)
from core.pulsar.placement.context import PlacementContext
from core.pulsar.placement.model import PlacedInTurn, Reasons
from core.pulsar.placement.versions import version_ranks
from core.pulsar.settings import effective_settings
from core.pulsar.snapshot.zkdump import import_zk_dump
from core.pulsar.snapshot.znodes.assemble import EXTENSIBLE_LACKS
from core.pulsar.view import LoadView
from core.snapshot import Manifest, PulsarSnapshot

THREE_BROKERS = FIXTURES / "contracts" / "three-brokers.jsonl"
ORDERS = "acme/orders/0x00000000_0x40000000"
MODULAR = "org.apache.pulsar.broker.loadbalance.impl.ModularLoadManagerImpl"
LEAST_RATE, LEAST_USAGE, TURNS, AVG = STRATEGY_NAMES
_PAIR = ("loadBalancerLoadPlacementStrategy", "loadBalancerLoadSheddingStrategy")


def _broker(name: str, cpu: float, **facts: Any) -> dict[str, Any]:
    return {
        "broker": name,
        "is_leader": False,
        "version": "4.2.4",
        "load_manager": MODULAR,
        "cpu_usage": cpu,
        "cpu_limit": 100.0,
        "msg_rate_in": 1.0,
        "msg_rate_out": 0.0,
        "bundle_count": 1,
        "topic_count": 1,
        "long_msg_rate_in": 10.0,
        "long_msg_rate_out": 0.0,
        **facts,
    }


def _bundle(name: str, owner: str | None) -> dict[str, Any]:
    return {
        "bundle": name,
        "namespace": name.rpartition("/")[0],
        "lower": 0,
        "upper": 0xFFFFFFFF,
        "owner": owner,
        "reported_by": owner,
        "is_broker_bound": ":" in name,
    }


def _snapshot(
    brokers: list[dict[str, Any]],
    bundles: list[dict[str, Any]],
    manager: str = "modular",
    leader: str | None = None,
    **tables: list[dict[str, Any]],
) -> PulsarSnapshot:
    manifest = Manifest(
        cluster="c",
        taken_at=NOON,
        tables={},
        load_manager=manager,  # type: ignore[arg-type]  # a literal in every call
        leader=leader,
        release="4.2.4",
    )
    rows = {"brokers": brokers, "bundles": bundles, **tables}
    return PulsarSnapshot.build(
        manifest, {name: pa.Table.from_pylist(part) for name, part in rows.items() if part}
    )


def _place(snapshot: PulsarSnapshot, bundle: str, **options: Any) -> Placement:
    overrides = options.pop("overrides", None)
    settings = effective_settings(
        snapshot, overrides=overrides, release=options.pop("release", None)
    )
    return place_bundle(LoadView.of(snapshot, settings), bundle, settings, **options)


ONE = "t/n/0x00000000_0xffffffff"
TWO = "t/m/0x00000000_0xffffffff"


@pytest.mark.parametrize(
    ("strategy", "distribution"),
    [
        (LEAST_RATE, {"10.1.0.3:8080": 1.0}),
        (LEAST_USAGE, {"10.1.0.2:8080": 0.5, "10.1.0.3:8080": 0.5}),
    ],
)
def test_the_strategies_alone_answer_as_the_real_ones(
    strategy: str, distribution: dict[str, float]
) -> None:
    snapshot = import_zk_dump(THREE_BROKERS, "three", datetime(2026, 1, 1, tzinfo=UTC))
    placement = _place(snapshot, ORDERS, strategy=strategy, with_filters=False)
    assert placement.distribution == distribution
    assert set(placement.ruled_out) == set(placement.scores) - set(distribution)


def test_the_32_bit_digits_of_usage_decide_a_tie() -> None:
    brokers = [_broker("a:1", 10.0), _broker("b:1", 30.0), _broker("c:1", 80.0)]
    snapshot = _snapshot(brokers, [_bundle(ONE, "c:1")])
    placement = _place(snapshot, ONE, strategy=LEAST_USAGE, with_filters=False)
    assert placement.distribution == {"a:1": 1.0}


def test_every_broker_without_a_chance_has_a_reason_with_numbers() -> None:
    snapshot = make_snapshot()
    bundle = snapshot.bundles.column("bundle")[0].as_py()
    placement = _place(snapshot, bundle)
    assert set(placement.ruled_out) | set(placement.distribution) == set(
        snapshot.brokers.column("broker").to_pylist()
    )
    for reason in placement.ruled_out.values():
        name, _, words = reason.partition(": ")
        assert name
        assert words


@pytest.mark.parametrize("strategy", [None, LEAST_RATE, LEAST_USAGE])
def test_the_reason_of_one_broker_is_that_among_all(strategy: str | None) -> None:
    snapshot = make_snapshot()
    bundle = snapshot.bundles.column("bundle")[0].as_py()
    brokers = [*snapshot.brokers.column("broker").to_pylist(), "stranger:1"]
    one_by_one = _place(snapshot, bundle, strategy=strategy).ruled_out
    apart = {name: one_by_one[name] for name in brokers if name in one_by_one}
    assert apart == dict(_place(snapshot, bundle, strategy=strategy).ruled_out)
    assert apart


def test_reasons_let_go_what_they_are_made_of() -> None:
    class Origin:
        def __call__(self, broker: str | None) -> dict[str, str]:
            return {"a": "full"} if broker in (None, "a") else {}

    origin = Origin()
    held = ref(origin)
    reasons = Reasons(origin)
    del origin
    assert reasons["a"] == "full"
    assert held() is not None
    assert dict(reasons) == {"a": "full"}
    assert held() is None
    assert reasons["a"] == "full"


def test_a_broker_with_more_bundles_of_the_namespace_is_ruled_out() -> None:
    snapshot = _snapshot([_broker("a:1", 1.0), _broker("b:1", 1.0)], [_bundle(ONE, "a:1")])
    placement = _place(snapshot, ONE)
    assert placement.distribution == {"b:1": 1.0}
    assert placement.ruled_out == {
        "a:1": "removeMostServicingBrokersForNamespace: 1 bundle of t/n, the minimum is 0"
    }
    even = {"loadBalancerDistributeBundlesEvenlyEnabled": False}
    assert _place(snapshot, ONE, overrides=even).distribution == {"a:1": 0.5, "b:1": 0.5}


def test_an_overloaded_pick_is_made_again_among_all_that_the_policies_allow() -> None:
    brokers = [_broker("a:1", 10.0), _broker("b:1", 90.0), _broker("c:1", 20.0)]
    names = ["t/n/0x00000000_0x40000000", "t/n/0x40000000_0xffffffff"]
    snapshot = _snapshot(brokers, [_bundle(names[0], "a:1"), _bundle(names[1], "c:1")])
    placement = _place(snapshot, names[0], strategy=LEAST_RATE)
    assert placement.candidates == ("b:1",)
    assert placement.distribution == {"a:1": 0.5, "c:1": 0.5}
    assert any("another broker is selected" in note for note in placement.notes)


def test_when_all_are_overloaded_all_are_equally_likely() -> None:
    brokers = [_broker("a:1", 90.0), _broker("b:1", 95.0)]
    placement = _place(_snapshot(brokers, [_bundle(ONE, None)]), ONE)
    assert placement.distribution == {"a:1": 0.5, "b:1": 0.5}


def test_too_many_topics_rule_a_broker_out_unless_all_have_too_many() -> None:
    brokers = [_broker("a:1", 1.0, topic_count=60_000), _broker("b:1", 1.0, topic_count=50_000)]
    snapshot = _snapshot(brokers, [_bundle(ONE, None)])
    placement = _place(snapshot, ONE)
    assert placement.distribution == {"b:1": 1.0}
    assert "60,000 topics" in placement.ruled_out["a:1"]
    few = {"loadBalancerBrokerMaxTopics": 10}
    assert len(_place(snapshot, ONE, overrides=few).distribution) == 2


def _isolation(**changes: Any) -> list[dict[str, Any]]:
    body = {
        "namespaces": ["t/.*"],
        "primary": ["a"],
        "secondary": ["b"],
        "auto_failover_policy": {
            "policy_type": "min_available",
            "parameters": {"min_limit": "1", "usage_threshold": "80"},
        },
        **changes,
    }
    return [{"kind": "isolation", "name": "pay", "body": json.dumps(body)}]


def test_isolation_names_the_policy_that_rules_a_broker_out() -> None:
    brokers = [_broker(f"{host}:1", 1.0) for host in "abc"]
    bundles = [_bundle(ONE, None), _bundle("u/n/0x00000000_0xffffffff", None)]
    snapshot = _snapshot(brokers, bundles, policies=_isolation())
    inside = _place(snapshot, ONE)
    assert inside.distribution == {"a:1": 1.0}
    assert "secondary of isolation" in (inside.ruled_out["b:1"])
    assert "match host c" in inside.ruled_out["c:1"]
    outside = _place(snapshot, bundles[1]["bundle"])
    assert outside.distribution == {"b:1": 0.5, "c:1": 0.5}
    assert "isolation policy 'pay'" in outside.ruled_out["a:1"]


def test_an_expression_with_a_port_leaves_nobody_and_says_so() -> None:
    snapshot = _snapshot(
        [_broker("a:1", 1.0)], [_bundle(ONE, None)], policies=_isolation(primary=["a:1"])
    )
    placement = _place(snapshot, ONE)
    assert placement.distribution == {}
    assert "policies exclude all brokers" in placement.why
    assert _place(snapshot, ONE, release="5.0", strategy=LEAST_RATE).distribution == {"a:1": 1.0}


def test_anti_affinity_spreads_over_domains_first() -> None:
    brokers = [
        _broker("a:1", 1.0, failure_domain="east"),
        _broker("b:1", 1.0, failure_domain="east"),
        _broker("c:1", 1.0, failure_domain="west"),
    ]
    spaces = [
        {"namespace": name, "tenant": "t", "anti_affinity_group": group, "is_broker_bound": False}
        for name, group in (("t/n", "G"), ("t/m", "g"), ("t/free", None))
    ]
    bundles = [
        _bundle("t/n/0x00000000_0xffffffff", None),
        _bundle("t/m/0x00000000_0xffffffff", "a:1"),
        _bundle("t/free/0x00000000_0xffffffff", None),
    ]
    snapshot = _snapshot(brokers, bundles, namespaces=spaces)
    assert set(_place(snapshot, ONE).distribution) == {"b:1", "c:1"}
    domains = {"failureDomainsEnabled": True}
    spread = _place(snapshot, ONE, overrides=domains)
    assert set(spread.distribution) == {"c:1"}
    assert "anti-affinity group 'g'" in spread.ruled_out["b:1"]
    assert len(_place(snapshot, bundles[2]["bundle"], overrides=domains).distribution) == 3


def test_a_broker_of_another_load_manager_class_is_ruled_out() -> None:
    settings = [{"name": "loadManagerClassName", "value": MODULAR, "origin": "default"}]
    brokers = [_broker("a:1", 1.0), _broker("b:1", 1.0, load_manager="x.SimpleLoadManagerImpl")]
    placement = _place(_snapshot(brokers, [_bundle(ONE, None)], settings=settings), ONE)
    assert placement.distribution == {"a:1": 1.0}
    assert "runs SimpleLoadManagerImpl" in placement.ruled_out["b:1"]


def test_later_versions_are_preferred_only_while_every_version_can_be_read() -> None:
    prefer = {"preferLaterVersions": True}
    brokers = [_broker("a:1", 1.0), _broker("b:1", 1.0, version="4.3.0")]
    placement = _place(_snapshot(brokers, [_bundle(ONE, None)]), ONE, overrides=prefer)
    assert placement.distribution == {"b:1": 1.0}
    assert "4.2.4, the latest" in placement.ruled_out["a:1"]
    brokers.append(_broker("c:1", 1.0, version=None))
    restored = _place(_snapshot(brokers, [_bundle(ONE, None)]), ONE, overrides=prefer)
    assert len(restored.distribution) == 3
    assert any("disabled BrokerVersionFilter" in note for note in restored.notes)


def test_versions_rank_as_semantic_versions_do() -> None:
    texts = ["4.2.4-alpha", "4.2.4-alpha.1", "4.2.4-beta", "4.2.4", "4.2.10", "4.10.0"]
    assert version_ranks(texts).tolist() == [0, 1, 2, 3, 4, 5]
    assert version_ranks(["4.2.4+b1", "4.2.4", "4.2", "04.2.1", None]).tolist() == [
        0,
        0,
        -1,
        -1,
        -1,
    ]


def test_excluded_namespaces_are_placed_in_turn() -> None:
    snapshot = _snapshot([_broker("a:1", 1.0), _broker("b:1", 50.0)], [_bundle(ONE, None)])
    options = {"loadBalancerSheddingExcludedNamespaces": ["t/n"]}
    placement = _place(snapshot, ONE, overrides=options)
    assert placement.strategy == TURNS
    assert placement.distribution == {"a:1": 0.5, "b:1": 0.5}
    assert any("counter is unknown" in note for note in placement.notes)


def test_a_heartbeat_bundle_stays_on_its_broker() -> None:
    own = "pulsar/a:1/0x00000000_0xffffffff"
    gone = "sla-monitor/z:1/0x00000000_0xffffffff"
    snapshot = _snapshot(
        [_broker("a:1", 1.0), _broker("b:1", 1.0)], [_bundle(own, "a:1"), _bundle(gone, None)]
    )
    assert _place(snapshot, own).distribution == {"a:1": 1.0}
    assert set(_place(snapshot, own).ruled_out) == {"b:1"}
    assert _place(snapshot, gone).distribution == {}
    settings = effective_settings(snapshot)
    table = place_all(LoadView.of(snapshot, settings), settings)
    assert (table.distribution(own), table.distribution(gone)) == ({"a:1": 1.0}, {})


@pytest.mark.parametrize("manager", ["extensible", "simple"])
def test_other_load_managers_get_no_guess(manager: str) -> None:
    made = _snapshot([_broker("a:1", 1.0)], [_bundle(ONE, None)], manager)
    unread = replace(made.manifest, unavailable=(EXTENSIBLE_LACKS,))
    snapshot = PulsarSnapshot.build(unread, made.tables)
    placement = _place(snapshot, ONE)
    assert placement.distribution == {}
    assert "trimtab" in placement.why.lower()
    settings = effective_settings(snapshot)
    table = place_all(LoadView.of(snapshot, settings), settings)
    assert table.why == placement.why
    assert table.distribution(ONE) == {}
    assert table.stay_probability().tolist() == [0.0]


def test_an_unknown_configured_strategy_is_not_guessed() -> None:
    snapshot = _snapshot([_broker("a:1", 1.0)], [_bundle(ONE, None)])
    own = {"loadBalancerLoadPlacementStrategy": "com.example.OwnStrategy"}
    placement = _place(snapshot, ONE, overrides=own)
    assert (placement.distribution, placement.is_known) == ({}, False)
    assert "OwnStrategy is not" in placement.why


def test_the_pair_of_5_0_applies_only_when_both_halves_are_set() -> None:
    snapshot = _snapshot([_broker("a:1", 1.0)], [_bundle(ONE, None)])
    assert _place(snapshot, ONE, release="5.0").strategy == AVG
    classic = {"loadBalancerLoadSheddingStrategy": "x.ThresholdShedder"}
    fallen_back = _place(snapshot, ONE, release="5.0", overrides=classic)
    assert fallen_back.strategy == LEAST_RATE


@pytest.mark.parametrize(
    ("release", "said"),
    [
        ("4.2", "of 4.2 does not start. LeastLongTermMessageRate is shown instead"),
        ("5.0", "A broker of 5.0 then places by LeastLongTermMessageRate."),
    ],
)
def test_half_a_pair_is_said_wherever_the_other_class_stands_in(release: str, said: str) -> None:
    snapshot = _snapshot([_broker("a:1", 1.0)], [_bundle(ONE, None)])
    half = {
        "loadBalancerLoadPlacementStrategy": AVG,
        "loadBalancerLoadSheddingStrategy": "x.ThresholdShedder",
    }
    settings = effective_settings(snapshot, overrides=half, release=release)
    view = LoadView.of(snapshot, settings)
    found = (
        place_bundle(view, ONE, settings),
        place_bundle(view, ONE, settings, with_filters=False),
        place_all(view, settings),
    )
    for answer in found:
        assert answer.strategy == LEAST_RATE
        assert [said in note for note in answer.notes].count(True) == 1
    asked = place_bundle(view, ONE, settings, strategy=AVG, with_filters=False)
    assert not any("pair" in note for note in asked.notes)


@pytest.mark.parametrize("release", ["4.2", "5.0"])
def test_what_avg_shedder_planned_goes_where_it_planned(release: str) -> None:
    brokers = [_broker(name, 1.0) for name in ("a:1", "b:1", "c:1")]
    snapshot = _snapshot(brokers, [_bundle(ONE, "a:1"), _bundle(TWO, "a:1")])
    memory = PlacementMemory(planned={ONE: "c:1"})
    options = {"strategy": AVG, "release": release, "memory": memory, "with_filters": False}
    assert _place(snapshot, ONE, **options).distribution == {"c:1": 1.0}
    others = _place(snapshot, TWO, **options)
    assert len(others.distribution) == 3
    assert any("planned" in note for note in others.notes)


def test_a_planned_broker_that_is_no_candidate_leaves_the_choice_to_chance() -> None:
    brokers = [_broker(name, 1.0) for name in ("a:1", "b:1", "c:1")]
    snapshot = _snapshot(brokers, [_bundle(ONE, "a:1")])
    memory = PlacementMemory(planned={ONE: "c:1"})
    options = {"strategy": AVG, "memory": memory, "with_filters": False}
    old = _place(snapshot, ONE, release="4.2", candidates=["a:1", "b:1"], **options)
    new = _place(snapshot, ONE, release="5.0", candidates=["a:1", "b:1"], **options)
    assert old.distribution == {"a:1": 0.5, "b:1": 0.5}
    assert new.distribution == {"b:1": 1.0}  # 5.0 leaves the source out


@pytest.mark.parametrize(
    ("release", "planned", "after"),
    [
        ("4.2", {}, {ONE: "b:1"}),
        ("4.2", {ONE: "c:1", TWO: "c:1"}, {ONE: "b:1", TWO: "c:1"}),
        ("4.2", {ONE: "a:1"}, {ONE: "a:1"}),
        ("5.0", {}, {}),
    ],
)
def test_a_pick_that_follows_no_plan_becomes_the_plan(
    release: str, planned: dict[str, str], after: dict[str, str]
) -> None:
    brokers = [_broker(name, 1.0) for name in ("a:1", "b:1", "c:1")]
    snapshot = _snapshot(brokers, [_bundle(ONE, None), _bundle(TWO, None)])
    memory = PlacementMemory(planned=planned)
    options = {"strategy": AVG, "release": release, "with_filters": False}
    placed = _place(snapshot, ONE, memory=memory, candidates=["a:1", "b:1"], **options)
    drawn = "b:1" if "b:1" in placed.distribution else "a:1"
    assert placed.after.with_picked(ONE, drawn).planned == after
    view = LoadView.of(snapshot, effective_settings(snapshot))
    assert placed.after.with_placed(view, ONE, drawn).planned == after
    one_left = _place(snapshot, ONE, memory=memory, candidates=["b:1"], **options)
    assert one_left.after.planned == ({**planned, ONE: "b:1"} if release < "5.0" else planned)
    again = _place(snapshot, ONE, memory=one_left.after, **options)
    assert (again.distribution == {"b:1": 1.0}) == (release < "5.0")


def test_the_plan_of_a_pick_survives_the_filters_and_the_next_pick() -> None:
    brokers = [_broker(name, 1.0) for name in ("a:1", "b:1", "c:1")]
    snapshot = _snapshot(brokers, [_bundle(ONE, None)])
    both = dict.fromkeys(_PAIR, AVG)
    settings = effective_settings(snapshot, overrides=both, release="4.2")
    view = LoadView.of(snapshot, settings)
    first = place_bundle(view, ONE, settings)
    assert len(first.distribution) == 3
    second = place_bundle(view, ONE, settings, memory=first.after.with_picked(ONE, "c:1"))
    assert second.distribution == {"c:1": 1.0}


def test_an_unknown_strategy_offers_the_near_one() -> None:
    with pytest.raises(UnknownNameError, match="LeastLongTermMessageRate"):
        find_strategy("LeastLongMessageRate")
    assert find_strategy("org.example.LeastResourceUsageWithWeight").name == LEAST_USAGE


def test_unknown_bundles_and_candidates_are_named() -> None:
    snapshot = _snapshot([_broker("a:1", 1.0)], [_bundle(ONE, None)])
    with pytest.raises(UnknownNameError, match="bundle"):
        _place(snapshot, "t/n/0x00000000_0x10000000")
    with pytest.raises(UnknownNameError, match="broker"):
        _place(snapshot, ONE, candidates=["z:1"])


def test_only_the_given_candidates_take_part() -> None:
    snapshot = _snapshot([_broker("a:1", 1.0), _broker("b:1", 1.0)], [_bundle(ONE, None)])
    placement = _place(snapshot, ONE, candidates=["b:1"], with_filters=False)
    assert placement.distribution == {"b:1": 1.0}
    assert placement.ruled_out == {"a:1": "candidates: not among those specified"}


def test_a_broker_without_a_readable_report_gets_nothing() -> None:
    silent = {"broker": "b:1", "is_leader": False, "load_manager": MODULAR}
    snapshot = _snapshot([_broker("a:1", 90.0), silent], [_bundle(ONE, None)])
    placement = _place(snapshot, ONE)
    assert placement.distribution == {"a:1": 1.0}
    assert "report is unknown" in placement.ruled_out["b:1"]


def test_without_any_load_data_all_candidates_are_equal() -> None:
    silent = [
        {"broker": name, "is_leader": False, "load_manager": MODULAR}
        for name in ("a:1", "b:1", "c:1")
    ]
    mine = {**_bundle(TWO, "a:1"), "reported_by": None}
    snapshot = _snapshot(silent, [_bundle(ONE, None), mine])
    for strategy in STRATEGY_NAMES:
        placed = _place(snapshot, ONE, strategy=strategy)
        assert placed.distribution == dict.fromkeys(("a:1", "b:1", "c:1"), 1 / 3), strategy
        assert any("No load report" in note for note in placed.notes)


def test_a_bundle_with_non_persistent_topics_goes_to_brokers_that_serve_them() -> None:
    brokers = [
        _broker("a:1", 1.0, persistent_topics_enabled=True, non_persistent_topics_enabled=False),
        _broker("b:1", 1.0, persistent_topics_enabled=False, non_persistent_topics_enabled=True),
        _broker("c:1", 1.0, persistent_topics_enabled=True, non_persistent_topics_enabled=False),
    ]
    bundles = [_bundle(ONE, None), _bundle(TWO, None)]
    topics = [
        {"topic": "non-persistent://t/n/x", "bundle": ONE, "hash": 1},
        {"topic": "persistent://t/m/x", "bundle": TWO, "hash": 1},
    ]
    snapshot = _snapshot(brokers, bundles, topics=topics)
    assert _place(snapshot, ONE).distribution == {"b:1": 1.0}
    assert _place(snapshot, ONE, non_persistent=False).distribution == {"a:1": 0.5, "c:1": 0.5}
    assert _place(snapshot, TWO).distribution == {"a:1": 0.5, "c:1": 0.5}
    given = _place(snapshot, TWO, non_persistent=True)
    assert given.distribution == {"b:1": 1.0}
    assert "serves no non-persistent" in given.ruled_out["a:1"]
    settings = effective_settings(snapshot)
    table = place_all(LoadView.of(snapshot, settings), settings)
    assert table.distribution(ONE) == {"b:1": 1.0}
    assert sorted(table.candidate_counts().tolist()) == [1, 2]


def test_a_bundle_given_a_moment_ago_goes_to_the_same_broker_and_weighs_on_it() -> None:
    names = ["t/n/0x00000000_0x40000000", "t/m/0x00000000_0xffffffff"]
    bundles = [{**_bundle(name, None), "long_msg_rate_in": 5.0} for name in names]
    snapshot = _snapshot([_broker("a:1", 1.0), _broker("b:1", 1.0)], bundles)
    settings = effective_settings(snapshot)
    view = LoadView.of(snapshot, settings)
    memory = PlacementMemory().with_placed(view, names[0], "a:1")
    again = place_bundle(view, names[0], settings, memory=memory)
    assert again.distribution == {"a:1": 1.0}
    other = place_bundle(view, names[1], settings, memory=memory)
    assert other.distribution == {"b:1": 1.0}
    assert other.scores == {"a:1": 15.0, "b:1": 10.0}


def test_what_is_placed_in_turn_weighs_as_the_same_names_do() -> None:
    snapshot = make_snapshot(brokers=7, bundles=200)
    settings = effective_settings(snapshot)
    view = LoadView.of(snapshot, settings)
    in_turn = PlacedInTurn(view)
    rows = np.random.default_rng(5).permutation(200)[:150]  # more than there is room for at first
    for number, row in enumerate(rows.tolist()):
        in_turn.add(row, view.brokers[number % 7])
    assert in_turn == dict(in_turn)
    assert len(in_turn) == 150
    fast, slow = (
        PlacementContext.of(view, settings, PlacementMemory(preallocated=placed))
        for placed in (in_turn, dict(in_turn))
    )
    spaces = np.arange(len(view.namespaces))
    assert (fast.long_rate == slow.long_rate).all()
    assert (fast.topics == slow.topics).all()
    assert (fast.range_counts(spaces) == slow.range_counts(spaces)).all()
    assert (fast.group_counts == slow.group_counts).all()
    assert (fast.group_counts != view.group_counts).any()


def test_smoothed_usage_lags_behind_the_load() -> None:
    snapshot = _snapshot(
        [_broker("a:1", 10.0), _broker("b:1", 60.0), _broker("c:1", 60.0)], [_bundle(ONE, None)]
    )
    held = PlacementMemory(smoothed_usage={"a:1": 0.6, "b:1": 0.1, "c:1": 0.6})
    fresh = _place(snapshot, ONE, strategy=LEAST_USAGE)
    assert fresh.distribution == {"a:1": 1.0}
    late = _place(snapshot, ONE, strategy=LEAST_USAGE, memory=held)
    assert late.distribution == {"b:1": 1.0}
    assert late.after.smoothed_usage["a:1"] == pytest.approx(0.55)


def test_the_leader_counts_what_is_reported_now_and_not_what_was_stored_before_a_move() -> None:
    """Totals agree, so the stored rates of a and b are those from before bundle x moved to b."""
    moved = {**_bundle("t/x/0x00000000_0xffffffff", "b:1"), "long_msg_rate_in": 10.0}
    kept = {**_bundle("t/y/0x00000000_0xffffffff", "c:1"), "long_msg_rate_in": 5.0}
    brokers = [
        _broker("a:1", 1.0, long_msg_rate_in=10.0),
        _broker("b:1", 1.0, long_msg_rate_in=0.0),
        _broker("c:1", 1.0, long_msg_rate_in=5.0),
    ]
    snapshot = _snapshot(brokers, [moved, kept, _bundle(ONE, None)])
    placement = _place(snapshot, ONE)
    assert placement.distribution == {"a:1": 1.0}
    assert any("current bundles" in note for note in placement.notes)


def test_stored_rates_hold_where_the_bundles_tell_less() -> None:
    known = {**_bundle("t/x/0x00000000_0xffffffff", "b:1"), "long_msg_rate_in": 4.0}
    brokers = [
        _broker("a:1", 1.0, long_msg_rate_in=10.0),
        _broker("b:1", 1.0, long_msg_rate_in=9.0),
    ]
    snapshot = _snapshot(brokers, [known, _bundle(ONE, None)])
    assert _place(snapshot, ONE).scores == {"a:1": 10.0, "b:1": 9.0}


def test_a_bundle_without_topics_counts_for_nobody() -> None:
    """A report names bundles with topics only, and the leader counts by reports."""
    spare = [f"t/n/0x{part}0000000_0x{part + 1}0000000" for part in range(2)]
    silent = [{**_bundle(name, "a:1"), "reported_by": None} for name in spare]
    snapshot = _snapshot(
        [_broker("a:1", 1.0), _broker("b:1", 1.0), _broker("c:1", 1.0)],
        [*silent, _bundle("t/n/0x20000000_0xffffffff", "b:1"), _bundle(ONE, None)],
    )
    assert _place(snapshot, ONE).distribution == {"a:1": 0.5, "c:1": 0.5}


def test_a_bundle_that_no_report_names_counts_for_no_broker_whoever_owns_it() -> None:
    """Its owner may not have reported yet, or reports it without statistics."""
    silent = {"broker": "a:1", "is_leader": False, "load_manager": MODULAR}
    names = ["t/n/0x00000000_0x10000000", "t/n/0x10000000_0xffffffff"]
    mine = {**_bundle(names[0], "a:1"), "reported_by": None, "long_msg_rate_in": 7.0}
    for owner, others in ((silent, "b:1"), (_broker("a:1", 1.0), "b:1"), (silent, None)):
        other = {**_bundle(names[1], "b:1"), "reported_by": others}
        snapshot = _snapshot([owner, _broker("b:1", 1.0)], [mine, other])
        view = LoadView.of(snapshot, effective_settings(snapshot))
        assert view.reporter.tolist() == [-1, 1 if others else -1]
        assert view.range_counts.dense(np.array([0]), 2)[0].tolist() == [0, int(others == "b:1")]


@pytest.mark.parametrize(("created_at", "scores"), [(1_000, 10.0), (3_000, 110.0), (None, 10.0)])
def test_the_leader_counts_an_unreported_bundle_that_it_placed_on_itself(
    created_at: int | None, scores: float
) -> None:
    mine = {**_bundle("t/m/0x00000000_0xffffffff", "a:1"), "reported_by": None}
    brokers = [_broker("a:1", 1.0), _broker("b:1", 1.0)]
    rows = [("leader", "/loadbalance/leader", 2_000), ("bundle", mine["bundle"], created_at)]
    claims = [
        {"subject_kind": kind, "subject": name, "source": "znode", "created_at": at}
        for kind, name, at in rows
    ]
    snapshot = _snapshot(brokers, [mine, _bundle(ONE, None)], claims=claims, leader="a:1")
    assert _place(snapshot, ONE).scores == {"a:1": scores, "b:1": 10.0}


def test_how_likely_a_bundle_comes_back_is_its_owners_share() -> None:
    even = {"loadBalancerDistributeBundlesEvenlyEnabled": False}
    names = ["t/n/0x00000000_0x40000000", "t/n/0x40000000_0xffffffff"]
    snapshot = _snapshot(
        [_broker("a:1", 1.0), _broker("b:1", 1.0)],
        [_bundle(names[0], "a:1"), _bundle(names[1], None)],
    )
    settings = effective_settings(snapshot, overrides=even)
    table = place_all(LoadView.of(snapshot, settings), settings)
    assert table.stay_probability().tolist() == [0.5, 0.0]
    assert table.candidate_counts().tolist() == [2, 2]
