from __future__ import annotations

from connectors.pulsar.collect import settings_table
from core.snapshot.problems import ProblemLog

KEY = "loadBalancerBrokerThresholdShedderPercentage"
MEMORY = "loadBalancerMemoryResourceWeight"
VERSIONS = {"a:1": "4.2.4", "b:1": "4.2.4"}


def entries(runtime, dynamic=None, problems=None):
    log = problems if problems is not None else ProblemLog()
    table = settings_table(runtime, VERSIONS, dynamic or {}, log)
    return {
        (row["broker"], row["name"]): (row["value"], row["origin"]) for row in table.to_pylist()
    }


def test_value_of_the_release_is_a_default_and_another_one_of_the_file() -> None:
    same = entries({"a:1": {KEY: "10", MEMORY: "0.7"}, "b:1": {KEY: "10", MEMORY: "0.7"}})
    assert same[None, KEY] == ("10", "default")
    assert same[None, MEMORY] == ("0.7", "file")


def test_override_in_force_is_dynamic() -> None:
    rows = entries({"a:1": {KEY: "37"}, "b:1": {KEY: "37"}}, {KEY: "37"})
    assert rows == {(None, KEY): ("37", "dynamic")}


def test_broker_that_differs_has_its_own_row() -> None:
    runtime = {"a:1": {KEY: "10"}, "b:1": {KEY: "20"}, "c:1": {KEY: "10"}}
    rows = entries(runtime)
    assert rows[None, KEY] == ("10", "default")
    assert rows["b:1", KEY] == ("20", "file")
    assert len(rows) == 2


def test_stored_value_that_no_broker_can_use_is_named_and_not_in_force() -> None:
    problems = ProblemLog()
    rows = entries({"a:1": {KEY: "10"}}, {KEY: "abc"}, problems)
    assert rows == {(None, KEY): ("10", "default"), (None, f"stored:{KEY}"): ("abc", "stored")}
    (problem,) = problems.named()
    assert KEY in problem.what
    assert "abc" in problem.what


def test_bool_that_is_neither_is_read_as_false_and_named() -> None:
    problems = ProblemLog()
    name = "loadBalancerSheddingEnabled"
    rows = entries({"a:1": {name: "false"}}, {name: "maybe"}, problems)
    assert rows[None, name] == ("false", "dynamic")
    assert "maybe" in problems.named()[0].what


def test_without_a_running_value_the_stored_one_holds() -> None:
    assert entries({}, {KEY: "37"}) == {(None, KEY): ("37", "dynamic")}


def test_stored_value_that_no_broker_goes_by_is_told_beside_the_running_one() -> None:
    fixed = "loadBalancerEnabled"
    rows = entries({"a:1": {fixed: "true"}}, {fixed: "false"})
    assert rows == {
        (None, fixed): ("true", "default"),
        (None, f"stored:{fixed}"): ("false", "stored"),
    }


def test_stored_setting_that_no_broker_has_is_told_from_one_that_they_have() -> None:
    other, gone = "maxPublishRatePerTopicInBytes", "loadBalancerShedingEnabled"
    rows = entries({"a:1": {other: "5"}}, {other: "5", gone: "true"})
    assert rows == {(None, other): ("5", "dynamic"), (None, f"stored:{gone}"): ("true", "stored")}
    assert entries({}, {gone: "true"}) == {(None, gone): ("true", "dynamic")}
