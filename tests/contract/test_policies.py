"""Every kind of policy set, told, removed and taken back through the executor, on a sandbox."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from test_cli_apply import Fleet, answer, write_config

from connectors.sandbox.pulsar.fleet import Sandbox, SandboxOptions

pytestmark = pytest.mark.zookeeper

GOLD = {"publishRateInMsgs": 1000, "publishRateInBytes": 1_000_000}


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    folder = tmp_path_factory.mktemp("policies")
    with Sandbox(SandboxOptions(brokers=5, bundles=60, is_steady=True)) as sandbox:
        yield Fleet(sandbox, write_config(folder, sandbox))


def _told(capsys, fleet: Fleet, kind: str) -> dict[str, object]:
    code, body = answer(capsys, "policy", "list", "sandbox", kind, "--config", fleet.config)
    assert code == 0, body
    return body["policies"][kind]


def _execute(capsys, fleet: Fleet, folder: Path, *words: str) -> str:
    """Plan a change and apply it; return the run."""
    plan = folder / f"{len(list(folder.iterdir()))}.json"
    whole = ("policy", words[0], "sandbox", *words[1:], "--config", fleet.config, "--plan", plan)
    code, body = answer(capsys, *whole)
    assert code == 0, body
    more = ("--cluster", "sandbox", "--config", fleet.config, "--reason", "a test", "--yes")
    code, body = answer(capsys, "apply", plan, *more)
    assert code == 0, body
    assert body["run"]["counts"] == {"DONE": 1}
    return body["run"]["run_id"]


def _values(fleet: Fleet) -> list[tuple[str, str, str, object]]:
    space = fleet.sandbox.state.namespaces[0]
    bundle = fleet.sandbox.state.names[0]
    broker = fleet.sandbox.state.brokers[0]
    rate = {"dispatchThrottlingRateInMsg": 50, "dispatchThrottlingRateInByte": -1}
    rate |= {"relativeToPublishRate": False, "ratePeriodInSecond": 1}
    quota = {"msgRateIn": 5.0, "msgRateOut": 5.0, "bandwidthIn": 1e6, "bandwidthOut": 1e6}
    quota |= {"memory": 0.0, "dynamic": False}
    publish = {"publishThrottlingRateInMsg": 10, "publishThrottlingRateInByte": -1}
    subscribe = {"subscribeThrottlingRatePerConsumer": 5, "ratePeriodInSecond": 30}
    return [
        ("resource_group", "gold", json.dumps(GOLD), {**GOLD, **_none_of("dispatch")}),
        ("publish_rate", space, json.dumps(publish), publish),
        ("dispatch_rate", space, json.dumps(rate), rate),
        ("subscription_dispatch_rate", space, json.dumps(rate), rate),
        ("replicator_dispatch_rate", space, json.dumps(rate), rate),
        ("subscribe_rate", space, json.dumps(subscribe), subscribe),
        ("resource_quota", bundle, json.dumps(quota), quota),
        ("anti_affinity", space, "apart", "apart"),
        ("failure_domain", "rack-z", json.dumps({"brokers": []}), {"brokers": []}),
        (
            "isolation",
            "alone",
            json.dumps(_isolation(space, broker.host.replace(".", r"\."))),
            {**_isolation(space, broker.host.replace(".", r"\.")), "secondary": []},
        ),
    ]


def _none_of(what: str) -> dict[str, int]:
    return {f"{what}RateInMsgs": -1, f"{what}RateInBytes": -1}


def _isolation(space: str, host: str) -> dict[str, object]:
    parameters = {"min_limit": "1", "usage_threshold": "80"}
    failover = {"policy_type": "min_available", "parameters": parameters}
    return {
        "namespaces": [space],
        "primary": [host],
        "secondary": [],
        "auto_failover_policy": failover,
    }


@pytest.mark.parametrize("at", range(10))
def test_a_policy_is_set_told_and_taken_back(fleet: Fleet, at: int, capsys, tmp_path: Path) -> None:
    kind, name, value, wanted = _values(fleet)[at]
    before = _told(capsys, fleet, kind)
    run = _execute(capsys, fleet, tmp_path, "set", kind, name, value)
    assert _told(capsys, fleet, kind) == {**before, name: wanted}
    code, body = answer(capsys, "undo", run, "--config", fleet.config, "--yes", "--reason", "back")
    assert code == 0, body
    assert _told(capsys, fleet, kind) == before


def test_a_group_is_attached_in_use_detached_and_deleted(fleet: Fleet, capsys, tmp_path) -> None:
    space = fleet.sandbox.state.namespaces[1]
    _execute(capsys, fleet, tmp_path, "set", "resource_group", "silver", json.dumps(GOLD))
    _execute(capsys, fleet, tmp_path, "set", "namespace_resource_group", space, "silver")
    assert _told(capsys, fleet, "namespace_resource_group") == {space: "silver"}
    delete = ("policy", "delete", "sandbox", "resource_group", "silver", "--config", fleet.config)
    code, body = answer(capsys, *delete)
    assert code == 1
    assert f"limits 1 namespace ({space})" in body["error"]["message"]
    _execute(capsys, fleet, tmp_path, "delete", "namespace_resource_group", space)
    _execute(capsys, fleet, tmp_path, "delete", "resource_group", "silver")
    assert "silver" not in _told(capsys, fleet, "resource_group")


@pytest.mark.parametrize(
    ("kind", "name", "value", "words"),
    [
        ("resource_group", "g", '{"publishRateInMsgs": -5}', "the range is -1"),
        ("resource_group", "g", '{"publishRateInMsgs": 99999999999}', "the range is -1"),
        ("resource_group", "g", '{"publishRateInBytes": 1.5}', "whole number"),
        ("resource_group", "g", "not json", "must be JSON"),
        ("namespace_resource_group", "SPACE", "nobody", "no resource group"),
        ("publish_rate", "acme/nowhere", "{}", "does not exist"),
        ("anti_affinity", "SPACE", '"quoted"', "is not a valid anti-affinity group"),
        ("failure_domain", "rack-y", '{"brokers": ["BROKER"]}', "already"),
        ("isolation", "i", '{"namespaces": [], "primary": ["x"]}', "namespaces is empty"),
        ("isolation", "i", "NOBODY", "no eligible broker"),
        ("isolation", "i", "OVERLAP", "matched by isolation policy"),
        ("isolaton", "i", "{}", "isolation"),
    ],
)
def test_what_would_do_harm_is_refused_before_anything_is_sent(
    fleet: Fleet, kind: str, name: str, value: str, words: str, capsys
) -> None:
    state = fleet.sandbox.state
    taken = next(iter(fleet.sandbox._running.engine.policies.isolation.values()))
    stand_ins = {
        "SPACE": state.namespaces[0],
        "BROKER": state.brokers[0].broker_id,
        "NOBODY": json.dumps(_isolation(state.namespaces[0], "nowhere")),
        "OVERLAP": json.dumps(_isolation(taken["namespaces"][0], ".*")),
    }
    for word, text in stand_ins.items():
        name, value = name.replace(word, text), value.replace(word, text)
    code, body = answer(
        capsys, "policy", "set", "sandbox", kind, name, value, "--config", fleet.config
    )
    assert code == 1
    assert words in f"{body['error']['message']} {body['error']['hint']}"


def test_bundles_of_an_isolated_namespace_end_where_the_preview_said(
    fleet: Fleet, capsys, tmp_path: Path
) -> None:
    """Set with its unloads, every bundle lies where it may; taken back, anybody may serve it."""
    state = fleet.sandbox.state
    space = state.namespaces[2]
    wanted = state.brokers[1]
    value = json.dumps(_isolation(space, wanted.host.replace(".", r"\.")))
    words = ("policy", "set", "sandbox", "isolation", "apart", value)
    more = ("--unload", "--plan", tmp_path / "plan.json", "--config", fleet.config)
    code, body = answer(capsys, *words, *more)
    assert code == 0, body
    impact = body["impact"]
    own = next(one for one in impact["namespaces"] if one["namespace"] == space)
    assert own["after"] == [wanted.broker_id]
    said = {one["bundle"]: set(one["to"]) for one in impact["expected"]}
    assert set(own["must_move"]) <= set(said)
    apply = ("--cluster", "sandbox", "--config", fleet.config, "--reason", "a test", "--yes")
    code, body = answer(capsys, "apply", tmp_path / "plan.json", *apply)
    assert code == 0, body
    assert set(body["run"]["counts"]) == {"DONE"}
    code, told = answer(
        capsys, "isolation", "sandbox", "--namespace", space, "--config", fleet.config
    )
    assert code == 0, told
    assert (told["policy"], told["misplaced"]) == ("apart", [])
    owners = {
        state.names[at]: state.brokers[owner].broker_id
        for at, owner in enumerate(state.owner.tolist())
        if state.names[at] in said and owner >= 0
    }
    assert owners
    assert all(owner in said[bundle] for bundle, owner in owners.items())
    run = body["run"]["run_id"]
    code, body = answer(capsys, "undo", run, "--config", fleet.config, "--yes", "--reason", "back")
    assert code == 0, body
    assert "apart" not in _told(capsys, fleet, "isolation")


def test_what_moved_for_a_policy_is_counted_by_its_undo_and_moved_back(
    fleet: Fleet, capsys, tmp_path: Path
) -> None:
    """Set, its bundles moved; undone, they stay, are counted, and go back where asked for."""
    state = fleet.sandbox.state
    space = next(
        name
        for name in state.namespaces  # not the one that was isolated just before
        if name.startswith("initech/") and name != state.namespaces[2] and _owners(fleet, name)
    )
    before = _owners(fleet, space)
    held = list(before.values())
    target = min(state.brokers[1:4], key=lambda broker: held.count(broker.broker_id)).broker_id
    value = json.dumps(_isolation(space, target.partition(":")[0].replace(".", r"\.")))
    words = ("policy", "set", "sandbox", "isolation", "narrow", value, "--unload")
    plan = tmp_path / "plan.json"
    code, body = answer(capsys, *words, "--plan", plan, "--config", fleet.config)
    assert code == 0, body
    impact = body["impact"]
    own = next(one for one in impact["namespaces"] if one["namespace"] == space)
    assert own["bundles"] == len(before)
    assert len(own["must_move"]) + own["staying"] <= own["bundles"]
    assert {one["broker"] for one in impact["brokers"]} >= {target}
    assert body["plan"]["expected"]["unloaded_by_cluster"] == len(impact["unloaded"])
    more = ("--cluster", "sandbox", "--config", fleet.config, "--reason", "a test", "--yes")
    code, body = answer(capsys, "apply", plan, *more)
    assert code == 0, body
    moved = _owners(fleet, space)
    assert set(moved.values()) == {target}

    undo = ("undo", body["run"]["run_id"], "--config", fleet.config, "--reason", "back")
    code, plain = answer(capsys, *undo, "--plan", tmp_path / "undo.json")
    assert code == 0, plain
    codes = [one["code"] for one in plain["plan"]["diagnostics"]]
    assert "undo_leaves" in codes
    code, moving = answer(capsys, *undo, "--with-moves", "--plan", tmp_path / "moves.json")
    assert code == 0, moving
    sentences = {one["code"]: one["sentence"] for one in moving["plan"]["diagnostics"]}
    assert "back are planned" in sentences["undo_moves_back"]
    code, body = answer(capsys, *undo, "--with-moves", "--yes")
    assert code == 0, body
    assert "narrow" not in _told(capsys, fleet, "isolation")
    after = _owners(fleet, space)
    back = [name for name in before if after.get(name) == before[name]]
    assert len(back) > sum(moved[name] == before[name] for name in before)


def _owners(fleet: Fleet, space: str) -> dict[str, str]:
    """Bundle to owner, of a namespace."""
    state = fleet.sandbox.state
    return {
        state.names[at]: state.brokers[owner].broker_id
        for at, owner in enumerate(state.owner.tolist())
        if owner >= 0 and state.names[at].startswith(f"{space}/")
    }
