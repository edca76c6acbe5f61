"""Who may serve what, what brokers unload by themselves, crowded groups, changes seen through."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from fleet_builder import NOON, make_snapshot

from core.ids import host_of
from core.plan.options import PlanOptions
from core.pulsar.anti_affinity import GroupSpread
from core.pulsar.placement.context import PlacementContext
from core.pulsar.plan.answer import plan_sentence
from core.pulsar.plan.policy.build import DesiredPolicy, build_policy_plan
from core.pulsar.plan.policy.moves import change_policies
from core.pulsar.plan.policy.unload_scope import unloaded_namespaces
from core.pulsar.plan.preview import preview_plan
from core.pulsar.policy_kinds import PolicyChange, policy_kind
from core.pulsar.serving import Serving
from core.pulsar.settings import effective_settings
from core.pulsar.steps.policy import SetPolicy
from core.pulsar.steps.unload import UnloadBundle
from core.pulsar.view import LoadView
from core.snapshot import PulsarSnapshot
from core.snapshot.store import save_snapshot
from dashboard.app_pages.pulsar.isolation import model as isolation_model
from dashboard.cli.main import run
from dashboard.presenters.pulsar.isolation_words import NO_POLICY

TERMS = PlanOptions(now=NOON)


def body(spaces: list[str], primary: list[str], **more: object) -> str:
    least = str(more.pop("least", 1))
    parameters = {"min_limit": least, "usage_threshold": "80"}
    failover = {"policy_type": "min_available", "parameters": parameters}
    whole = {"namespaces": spaces, "primary": primary, "secondary": []}
    return json.dumps({**whole, "auto_failover_policy": failover, **more})


def host(fleet: PulsarSnapshot, at: int) -> str:
    return host_of(fleet.brokers["broker"][at].as_py()).replace(".", r"\.")


def with_rows(fleet: PulsarSnapshot, *rows: tuple[str, str, str]) -> PulsarSnapshot:
    table = pa.Table.from_pylist(
        [dict(zip(("kind", "name", "body"), row, strict=True)) for row in rows],
        schema=fleet.policies.schema,
    )
    return PulsarSnapshot.build(fleet.manifest, {**fleet.tables, "policies": table})


@pytest.fixture(scope="module")
def fleet() -> PulsarSnapshot:
    return with_rows(make_snapshot(brokers=6, bundles=60))


def serving_of(snapshot: PulsarSnapshot) -> Serving:
    settings = effective_settings(snapshot)
    return Serving.of(LoadView.of(snapshot, settings), settings)


def space(fleet: PulsarSnapshot, at: int = 0) -> str:
    names = sorted(set(fleet.bundles["namespace"].to_pylist()))
    return [name for name in names if name.startswith(("acme/", "globex/", "initech/"))][at]


def test_a_policy_that_cannot_be_read_is_listed_by_name(fleet, tmp_path, capsys) -> None:
    good, back = body([space(fleet)], [host(fleet, 0)]), body([space(fleet, 1)], [r"(b)\1"])
    broken = with_rows(
        fleet, ("isolation", "apart", good), ("isolation", "again", back), ("isolation", "bad", "[")
    )
    serving = serving_of(broken)
    assert list(serving.view.unreadable_policies) == ["again", "bad"]
    assert "back reference" in serving.view.unreadable_policies["again"]
    table = isolation_model.matrix(serving)
    assert table["policy"].tolist() == ["apart", NO_POLICY, "again", "bad"]
    again = table.iloc[2]
    assert set(again[3:][again.index[4:]]) == {"unreadable"}
    assert again["namespaces"] == "unreadable"
    assert table["bundles"].isna().tolist() == [False, False, True, True]
    assert isolation_model.matrix(serving, "again")["policy"].tolist()[-1] == "again"
    save_snapshot(broken, tmp_path / "snapshot")
    assert run(["isolation", str(tmp_path / "snapshot"), "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert list(answer["unreadable_policies"]) == ["again", "bad"]
    assert run(["isolation", str(tmp_path / "snapshot")]) == 0
    assert "again: unreadable (" in capsys.readouterr().out


@pytest.mark.parametrize("least", [0, 1, 2, 3, 5])
def test_who_may_serve_is_what_placement_allows(fleet, least) -> None:
    rule = json.loads(body([space(fleet)], [host(fleet, 0), host(fleet, 1)], least=least))
    rule["secondary"] = [host(fleet, 2)]
    serving = serving_of(with_rows(fleet, ("isolation", "apart", json.dumps(rule))))
    allowed = PlacementContext.of(serving.view, effective_settings(fleet)).allowed
    persistent = np.delete(allowed, -2, axis=0)  # the row of non-persistent topics is apart
    assert np.array_equal(serving.may, persistent)
    role = serving.role(0, 2)
    assert role == ("secondary" if least > 2 else "standby")
    assert serving.rows[0].is_short == (least > 2)
    sizes = sorted(rows.size for rows in serving.broker_classes)
    assert sizes == [1, 2, 3]


def test_misplaced_are_the_bundles_whose_owner_may_not_have_them(fleet) -> None:
    serving = serving_of(
        with_rows(fleet, ("isolation", "apart", body([space(fleet)], [host(fleet, 4)])))
    )
    view = serving.view
    for row, bundle in enumerate(view.bundles.tolist()):
        owner = int(view.owner[row])
        if owner < 0 or view.is_broker_bound[row]:
            assert row not in serving.misplaced
            continue
        name = bundle.rpartition("/")[0]
        wrong = view.brokers[owner] not in serving.brokers_of(name)
        assert (row in serving.misplaced) == wrong


def isolating(before: str | None, value: str | None) -> PolicyChange:
    kind = policy_kind("isolation")
    return PolicyChange(
        policy="isolation",
        name="apart",
        before=before and kind.canonical(before),
        value=value and kind.canonical(value),
    )


@pytest.mark.parametrize(
    ("old", "new", "scope", "meant"),
    [
        (None, ["A"], None, {"A"}),
        (["A"], ["A", "B"], None, {"B"}),
        (["A", "B"], ["B"], None, {"A"}),
        (["A"], ["A"], None, set()),
        (["A"], ["A", "B"], "all_matching", {"A", "B"}),
        (["A"], ["B"], "none", set()),
    ],
)
def test_brokers_unload_what_the_scope_says(fleet, old, new, scope, meant) -> None:
    names = {"A": space(fleet, 0), "B": space(fleet, 1)}
    extra = {} if scope is None else {"unload_scope": scope}
    before = None if old is None else body([names[one] for one in old], ["x"])
    value = body([names[one] for one in new], ["x"], **extra)
    view = serving_of(fleet).view
    found = set(unloaded_namespaces(view, [isolating(before, value)]))
    assert found == {names[one] for one in meant}


def test_other_primaries_unload_all_and_older_brokers_unload_what_matches(fleet) -> None:
    first, second = space(fleet, 0), space(fleet, 1)
    view = serving_of(fleet).view
    change = isolating(body([first], ["x"]), body([first, second], ["y"]))
    assert set(unloaded_namespaces(view, [change])) == {first, second}
    old = replace(view, versions=("3.0.5",) * len(view.brokers))
    change = isolating(body([first], ["x"]), body([first], ["x"]))
    assert unloaded_namespaces(old, [change]) == (first,)
    assert unloaded_namespaces(view, [isolating(body([first], ["x"]), None)]) == ()


def test_unload_scope_survives_and_an_unknown_field_does_not() -> None:
    kind = policy_kind("isolation")
    assert "unload_scope" in kind.canonical(body(["a"], ["x"], unload_scope="none"))
    assert "unload_scope" not in kind.canonical(body(["a"], ["x"]))


def test_change_with_unloads_places_by_the_new_policy(fleet) -> None:
    wish = DesiredPolicy("isolation", "apart", body([space(fleet)], [host(fleet, 3)]))
    bare = change_policies(fleet, [wish], TERMS)
    assert [type(one) for one in bare.plan.steps] == [SetPolicy]
    assert bare.impact is not None
    astray = set(bare.impact.astray)
    assert astray
    assert not astray & set(bare.impact.unloaded)
    assert bare.preview is not None
    target = fleet.brokers["broker"][3].as_py()
    own = [one for one in bare.preview.steps if one.step.namespace == space(fleet)]
    assert own
    assert all(set(one.placement.distribution) == {target} for one in own)

    whole = change_policies(fleet, [wish], TERMS, with_unloads=True)
    moves = [one for one in whole.plan.steps if isinstance(one, UnloadBundle)]
    assert {one.bundle for one in moves} == astray
    assert isinstance(whole.plan.steps[0], SetPolicy)
    assert all(target not in one.predicted for one in moves)
    seen = preview_plan(fleet, whole.plan)
    assert all(target not in one.placement.distribution for one in seen.steps)
    assert "isolation_astray" in {one.code for one in bare.plan.diagnostics}
    assert "isolation_astray" not in {one.code for one in whole.plan.diagnostics}
    assert plan_sentence(seen).startswith(f"Setting the {whole.plan.steps[0].subject}, and unload")


def test_groups_are_crowded_where_a_member_could_be_elsewhere(fleet) -> None:
    view = serving_of(fleet).view
    spread = GroupSpread(view, effective_settings(fleet), serving_of(fleet))
    held = {one.namespace: set(one.brokers) for one in spread.members("pair")}
    assert len(held) > 1
    everywhere = set().union(*held.values())
    for crowd in spread.collisions("pair"):
        assert sum(crowd.place in brokers for brokers in held.values()) == len(crowd.members) > 1
        assert not set(crowd.free) & everywhere
        assert crowd.bundles


@pytest.mark.parametrize(
    ("kind", "name", "value", "code"),
    [
        ("isolation", "x", body(["nobody/.*"], ["nowhere"]), "isolation_unknown_broker"),
        ("isolation", "x", body(["("], ["x"]), "isolation_invalid"),
        ("isolation", "x", body(["a/b"], ["x"], least="many"), "isolation_invalid"),
        ("isolation", "x", body(["a/b"], ["x"], unload_scope="some"), "isolation_scope"),
        ("failure_domain", "z", '{"brokers":["10.9.9.9:8080"]}', "domain_stranger"),
        ("failure_domain", "z", '{"brokers":"all"}', "domain_brokers"),
        ("anti_affinity", "acme/nowhere", "apart", "namespace_unknown"),
    ],
)
def test_harm_is_refused(fleet, kind, name, value, code) -> None:
    plan = build_policy_plan(fleet, [DesiredPolicy(kind, name, value)], TERMS)
    assert code in {one.code for one in plan.by_severity("error")}
    assert not plan.applyable


def test_a_namespace_without_a_policy_left_without_a_broker_is_refused(fleet) -> None:
    hosts = [host(fleet, at) for at in range(fleet.brokers.num_rows)]
    wish = DesiredPolicy("isolation", "all", body([space(fleet)], hosts))
    plan = build_policy_plan(fleet, [wish], TERMS)
    assert [one.code for one in plan.by_severity("error")] == ["isolation_no_broker"]


def test_a_broker_that_is_down_may_stay_in_its_domain(fleet) -> None:
    held = with_rows(fleet, ("failure_domain", "z", '{"brokers":["10.9.9.9:8080"]}'))
    both = json.dumps({"brokers": ["10.9.9.9:8080", fleet.brokers["broker"][0].as_py()]})
    plan = build_policy_plan(held, [DesiredPolicy("failure_domain", "z", both)], TERMS)
    assert plan.applyable
    assert "domain_absent" in {one.code for one in plan.by_severity("warning")}
