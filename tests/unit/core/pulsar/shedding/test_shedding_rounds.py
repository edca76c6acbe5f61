"""Rounds as the load manager runs them: switches, checks before an unload, destinations."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace

import pytest
from shedding_world import MB, Broker, Bundle, World, even

from core.pulsar.explain import Explanation
from core.pulsar.shedding import (
    Round,
    find_shedding_strategy,
    shed_rounds,
    strategy_rounds,
)

FIRST = "acme/orders/0x00000000_0x00010000"
SECOND = "acme/orders/0x00010000_0x00020000"


def _hot(**conf: object) -> World:
    """One broker over the limit, two idle ones."""
    return World(
        {
            "a": Broker(95, [Bundle(30 * MB, 3e4), Bundle(20 * MB, 2e4), Bundle(10 * MB, 1e4)]),
            "b": Broker(20),
            "c": Broker(30),
        },
        conf,
    )


def _rounds(
    world: World, count: int = 1, *recent: str, strategy: str = "OverloadShedder"
) -> list[Round]:
    found = shed_rounds(
        find_shedding_strategy(strategy),
        world.view(),
        world.settings(),
        recently_unloaded=recent,
    )
    return list(itertools.islice(found, count))


def _isolation(primary: list[str]) -> dict[str, str]:
    body = {
        "namespaces": ["acme/orders"],
        "primary": primary,
        "secondary": [],
        "auto_failover_policy": {
            "policy_type": "min_available",
            "parameters": {"min_limit": "1", "usage_threshold": "80"},
        },
    }
    return {"orders": json.dumps(body)}


def test_a_round_unloads_what_passed_the_checks_and_says_whereto() -> None:
    (done,) = _rounds(_hot())
    assert done.bundles_by_broker() == {"a:8080": [FIRST]}
    assert done.destinations == {FIRST: {"b:8080": 0.5, "c:8080": 0.5}}
    assert done.skipped == {}


def test_what_a_round_unloads_is_in_its_grace_period_in_the_next() -> None:
    rounds = _rounds(_hot(), 4)
    assert [[m.bundle for m in done.moves] for done in rounds[:2]] == [[FIRST], [SECOND]]
    assert not rounds[3].moves
    assert "free" in rounds[3].decision.sentence or rounds[3].decision.reason == "no_bundles"


def test_the_strategy_alone_takes_no_notice_of_its_own_unloads() -> None:
    world = _hot()
    strategy = find_shedding_strategy("OverloadShedder")
    rounds = itertools.islice(strategy_rounds(strategy, world.view(), world.settings()), 3)
    assert [[m.bundle for m in done.moves] for done in rounds] == [[FIRST]] * 3


def test_a_grace_period_ends_when_its_minutes_are_over() -> None:
    world = _hot(loadBalancerSheddingGracePeriodMinutes=2)
    rounds = _rounds(world, 4)
    assert [[m.bundle for m in done.moves] for done in rounds] == [
        [FIRST], [SECOND], [FIRST], [SECOND],
    ]  # fmt: skip


def test_what_was_unloaded_before_the_first_round_may_go_again_after_its_grace_period() -> None:
    rounds = _rounds(_hot(loadBalancerSheddingGracePeriodMinutes=2), 4, FIRST)
    assert [[m.bundle for m in done.moves] for done in rounds] == [
        [SECOND], ["acme/orders/0x00020000_0x00030000"], [FIRST], [SECOND],
    ]  # fmt: skip


def test_the_strategy_alone_leaves_recently_unloaded_bundles_alone_in_every_round() -> None:
    world = _hot(loadBalancerSheddingGracePeriodMinutes=2)
    strategy = find_shedding_strategy("OverloadShedder")
    rounds = strategy_rounds(strategy, world.view(), world.settings(), recently_unloaded=[FIRST])
    found = [[m.bundle for m in done.moves] for done in itertools.islice(rounds, 5)]
    assert found == [[SECOND]] * 5


@pytest.mark.parametrize("key", ["loadBalancerEnabled", "loadBalancerSheddingEnabled"])
def test_a_switch_that_is_off_stops_every_round_and_is_named(key: str) -> None:
    (done,) = _rounds(_hot(**{key: False}))
    assert not done.moves
    assert done.decision.reason == "disabled"
    assert key in done.decision.sentence


def test_a_lone_broker_sheds_nothing() -> None:
    (done,) = _rounds(World({"a": Broker(99, even(4, 40 * MB))}))
    assert done.decision.reason == "no_brokers"


def test_an_excluded_namespace_is_skipped_from_4_2_on() -> None:
    world = _hot(loadBalancerSheddingExcludedNamespaces=["acme/orders"])
    (done,) = _rounds(world)
    assert not done.moves
    assert "loadBalancerSheddingExcludedNamespaces" in done.skipped[FIRST]
    (old,) = _rounds(replace(world, release="4.0.8"))
    assert [move.bundle for move in old.moves] == [FIRST]


def test_isolation_that_leaves_no_other_broker_keeps_the_bundle_and_says_why() -> None:
    (done,) = _rounds(replace(_hot(), isolation=_isolation(["a"])))
    assert not done.moves
    assert done.skipped == {FIRST: "isolation policy 'orders' allows no broker but a:8080"}


def test_releases_before_2_11_unload_a_bundle_that_no_other_broker_may_own() -> None:
    isolated = replace(_hot(), isolation=_isolation(["a"]))
    (old,) = _rounds(replace(isolated, release="2.10.5"))
    assert [move.bundle for move in old.moves] == [FIRST]
    assert old.destinations == {FIRST: {"a:8080": 1.0}}
    (checked,) = _rounds(replace(isolated, release="2.11.4"))
    assert list(checked.skipped) == [FIRST]


def test_isolation_limits_the_destination() -> None:
    (done,) = _rounds(replace(_hot(), isolation=_isolation(["a", "c"])))
    assert done.destinations == {FIRST: {"c:8080": 1.0}}


def test_an_anti_affinity_group_that_is_even_everywhere_keeps_its_bundles() -> None:
    brokers = {
        name: Broker(cpu, [Bundle(30 * MB, 1.0, f"acme/{name}"), Bundle(MB, 1.0, "other/x")])
        for name, cpu in (("a", 95), ("b", 20))
    }
    groups = {"acme/a": "g", "acme/b": "G"}
    (done,) = _rounds(World(brokers, groups=groups))
    assert not done.moves
    assert "anti-affinity group 'g'" in next(iter(done.skipped.values()))
    (free,) = _rounds(World({**brokers, "c": Broker(10)}, groups=groups))
    assert free.destinations == {"acme/a/0x00000000_0x00010000": {"c:8080": 1.0}}


def test_a_bundle_that_placement_gives_back_is_not_unloaded() -> None:
    world = World(
        {
            "a": Broker(86, [Bundle(30 * MB, 10), Bundle(20 * MB, 10)]),
            "b": Broker(99, even(2, MB, 1e6)),
        },
        {"loadBalancerDistributeBundlesEvenlyEnabled": False,
         "loadBalancerBrokerThresholdShedderPercentage": 0,
         "loadBalancerBrokerOverloadedThresholdPercentage": 98},
    )  # fmt: skip
    hot = world.having(loadBalancerBrokerOverloadedThresholdPercentage=86)
    strategy = find_shedding_strategy("OverloadShedder")
    decision = hot.decide("OverloadShedder")[0]
    assert any(move.broker == "a:8080" for move in decision.moves)
    (done,) = itertools.islice(shed_rounds(strategy, hot.view(), hot.settings()), 1)
    for bundle, found in done.destinations.items():
        assert sum(found.values()) == pytest.approx(1.0), bundle
    calm = World(
        {
            "a": Broker(70, [Bundle(300 * MB, 10), Bundle(200 * MB, 10)]),
            "b": Broker(20, even(2, MB, 1e6)),
        },
        {"loadBalancerDistributeBundlesEvenlyEnabled": False},
    )
    (back,) = _rounds(calm, strategy="ThresholdShedder")
    assert not back.moves
    assert "return it" in back.skipped[FIRST]
    (old,) = _rounds(replace(calm, release="3.0.1"), strategy="ThresholdShedder")
    assert [move.bundle for move in old.moves] == list(old.destinations)
    assert old.destinations[FIRST] == {"a:8080": 1.0}
    assert any("selects no destination" in note for note in old.decision.notes)
    assert not any("selects no destination" in note for note in back.decision.notes)


@pytest.mark.parametrize(("placement", "asked"), [("AvgShedder", "the plan"), (None, "")])
def test_a_planned_destination_counts_when_placement_asks_for_it(
    placement: str | None, asked: str
) -> None:
    levels = {"a": 95, "b": 80, "c": 10, "d": 5}
    conf: dict[str, object] = {"loadBalancerLoadSheddingStrategy": "AvgShedder"}
    if placement:
        conf["loadBalancerLoadPlacementStrategy"] = placement
    world = World(
        {name: Broker(cpu, even(10, cpu * MB, cpu * 1e3)) for name, cpu in levels.items()}, conf
    )
    done = _rounds(world, 2, strategy="AvgShedder")[1]
    assert done.moves
    planned = {move.bundle: {move.destination: 1.0} for move in done.moves}
    assert (done.destinations == planned) is (asked == "the plan")


def test_many_namespaces_get_the_destinations_that_each_would_get_alone() -> None:
    bundles = [Bundle(10 * MB, 1e4, f"acme/space-{number}") for number in range(40)]
    world = World({"a": Broker(99, bundles), "b": Broker(20), "c": Broker(30)})
    (done,) = _rounds(world.having(loadBalancerBrokerOverloadedThresholdPercentage=40))
    assert len(done.moves) > 12
    alone = {"b:8080": 0.5, "c:8080": 0.5}
    assert all(found == alone for found in done.destinations.values())


def test_2_11_0_leaves_the_system_namespace_alone_and_says_so() -> None:
    system = [replace(one, namespace="pulsar/system") for one in _hot().brokers["a"].bundles]
    world = replace(_hot(), brokers={**_hot().brokers, "a": Broker(95, system)})
    first = FIRST.replace("acme/orders", "pulsar/system")
    for release in ("2.10.5", "2.11.1", "4.2.4"):
        (done,) = _rounds(replace(world, release=release))
        assert [move.bundle for move in done.decision.moves] == [first], release
    kept = replace(world, release="2.11.0")
    (done,) = _rounds(kept)
    assert not done.decision.moves
    explained = Explanation(
        view=kept.view(), settings=kept.settings(), settings_of=lambda _: kept.settings()
    )
    reason = explained.of_bundle(first)
    assert "release excludes pulsar/system" in reason.sentence
    assert reason.otherwise.startswith("The brokers need 2.11.1 or later.")
