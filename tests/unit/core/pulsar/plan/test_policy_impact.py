"""What a plan of policies touches: what moves, what stays, who is over the limit, what is typed."""

from __future__ import annotations

import json
from dataclasses import replace

import pyarrow as pa
import pytest
from fleet_builder import NOON, broker_names, make_snapshot

from core.ids import host_of
from core.plan.codec import dump_plan, load_plan
from core.plan.model import Expected, combined, content_hash
from core.plan.options import PlanOptions
from core.pulsar.plan.policy.build import DesiredPolicy
from core.pulsar.plan.policy.moves import PolicyOutlook, change_policies
from core.pulsar.plan.policy.state import policies_of
from core.pulsar.plan.preview import OVER_LIMIT, preview_plan
from core.snapshot import PulsarSnapshot
from core.systems import STEPS
from dashboard.presenters.applying import Impact, must_type_name, remarks
from dashboard.presenters.pulsar.isolation_words import impact_sentence

BROKERS = broker_names(6)


@pytest.fixture(scope="module")
def fleet() -> PulsarSnapshot:
    return make_snapshot(brokers=6, bundles=80)


def host(broker: str) -> str:
    return host_of(broker).replace(".", r"\.")


def isolation(
    name: str, namespaces: list[str], brokers: list[str], **more: object
) -> DesiredPolicy:
    parameters = {"min_limit": "1", "usage_threshold": "80"}
    body = {
        "namespaces": namespaces,
        "primary": [host(one) for one in brokers],
        "secondary": [],
        "auto_failover_policy": {"policy_type": "min_available", "parameters": parameters},
        **more,
    }
    return DesiredPolicy("isolation", name, json.dumps(body))


def spaces(fleet: PulsarSnapshot) -> list[str]:
    """Namespaces that no policy governs."""
    governed = json.loads(next(iter(policies_of(fleet, "isolation").values())))["namespaces"]
    names = set(fleet.bundles["namespace"].to_pylist())
    return sorted(name for name in names if name not in governed and not name.startswith("pulsar/"))


def planned(
    fleet: PulsarSnapshot, *desired: DesiredPolicy, with_unloads: bool = False
) -> PolicyOutlook:
    return change_policies(fleet, desired, PlanOptions(now=NOON), with_unloads=with_unloads)


def busy(fleet: PulsarSnapshot, factor: float) -> PulsarSnapshot:
    """The fleet with every resource used so many times as much."""
    brokers = fleet.brokers
    for name in ("cpu_usage", "direct_memory_usage", "bandwidth_in_usage", "bandwidth_out_usage"):
        at = brokers.schema.get_field_index(name)
        values = pa.array(
            [None if value is None else value * factor for value in brokers[name].to_pylist()],
            brokers.schema.field(name).type,
        )
        brokers = brokers.set_column(at, brokers.schema.field(name), values)
    return PulsarSnapshot.build(fleet.manifest, {**fleet.tables, "brokers": brokers})


# -- one rule: what a plan touches -----------------------------------------------------------------


def test_one_policy_for_which_brokers_unload_many_bundles_needs_the_name(fleet) -> None:
    """It was one change, and no client: a plain yes moved every bundle of a tenant."""
    seen = planned(fleet, isolation("apart", spaces(fleet), BROKERS[2:4]))
    assert len(seen.plan.steps) == 1
    assert seen.impact is not None
    many = len(seen.impact.unloaded)
    assert many > 20
    assert seen.plan.expected.unloaded_by_cluster == many
    assert (seen.plan.expected.clients or 0) > 0
    assert must_type_name(seen.plan, "demo") is not None
    impact = Impact.of(seen.plan)
    assert (impact.changes, impact.unloaded, impact.moving) == (1, many, 1 + many)


def test_idle_bundles_count_as_well_as_those_with_clients(fleet) -> None:
    seen = planned(fleet, isolation("apart", spaces(fleet), BROKERS[2:4]))
    idle = replace(
        seen.plan, expected=replace(seen.plan.expected, clients=0, moved_bytes_per_s=0.0)
    )
    assert "unloaded bundles" in (must_type_name(idle, "demo") or "")


def test_a_policy_that_unloads_nothing_needs_a_yes_only(fleet) -> None:
    seen = planned(fleet, isolation("apart", spaces(fleet), BROKERS, unload_scope="none"))
    assert seen.impact is not None
    assert not seen.impact.unloaded
    assert must_type_name(seen.plan, "demo") is None


@pytest.mark.parametrize("kind", ["publish_rate", "resource_group"])
def test_a_limit_of_many_clients_needs_the_name(fleet, kind: str) -> None:
    space = spaces(fleet)[0]
    attach = []
    if kind == "publish_rate":
        change = DesiredPolicy(kind, space, '{"publishThrottlingRateInMsg": 1}')
    else:
        change = DesiredPolicy(kind, "gold", '{"publishRateInMsgs": 1}')
        attach = [DesiredPolicy("namespace_resource_group", space, "gold")]
    seen = planned(fleet, change, *attach)
    limited = seen.plan.expected.limited_clients
    assert isinstance(limited, int)
    own = [row for row in fleet.bundles.to_pylist() if row["namespace"] == space]
    assert limited == sum(row["producer_count"] + row["consumer_count"] for row in own)
    more = replace(seen.plan, expected=replace(seen.plan.expected, limited_clients=501))
    assert must_type_name(more, "demo") == "changed limits for 501 clients"
    few = replace(seen.plan, expected=replace(seen.plan.expected, limited_clients=500))
    assert must_type_name(few, "demo") is None


def test_a_quota_limits_no_client(fleet) -> None:
    seen = planned(fleet, DesiredPolicy("resource_quota", "default", '{"msgRateIn": 7}'))
    assert Impact.of(seen.plan).limited == 0


def test_two_parts_of_a_plan_touch_what_both_touch() -> None:
    one = Expected(clients=3, topics=2, moved_bytes_per_s=1.0, unloaded_by_cluster=4)
    other = Expected(clients=500, topics=1, moved_bytes_per_s=2.0)
    found = combined(one, other)
    assert (found.clients, found.topics, found.moved_bytes_per_s) == (503, 3, 3.0)
    assert found.unloaded_by_cluster == 4
    assert combined(other, replace(one, clients=None)).clients is None


def test_plans_of_before_keep_their_ids(fleet) -> None:
    """What a plan does not touch is left out of it: its hash is that of an earlier version."""
    seen = planned(fleet, DesiredPolicy("anti_affinity", spaces(fleet)[0], "apart"))
    text = dump_plan(seen.plan)
    assert b"unloaded_by_cluster" not in text
    assert b"limited_clients" not in text
    assert load_plan(text, STEPS) == seen.plan
    moving = planned(fleet, isolation("apart", spaces(fleet), BROKERS[2:4])).plan
    again = load_plan(dump_plan(moving), STEPS)
    assert (again, content_hash(again)) == (moving, moving.plan_id)


# -- what moves and what stays ---------------------------------------------------------------------


def test_every_bundle_either_has_to_move_is_placed_again_or_stays(fleet) -> None:
    names = spaces(fleet)[:2]
    seen = planned(fleet, isolation("apart", names, BROKERS[:3]))
    impact = seen.impact
    assert impact is not None
    own = {one.namespace: one for one in impact.changes if one.namespace in names}
    assert set(own) == set(names)
    owners = dict(
        zip(fleet.bundles["bundle"].to_pylist(), fleet.bundles["owner"].to_pylist(), strict=True)
    )
    for name, one in own.items():
        mine = [bundle for bundle in owners if bundle.rpartition("/")[0] == name]
        must = {bundle for bundle in mine if owners[bundle] and owners[bundle] not in BROKERS[:3]}
        assert set(one.misplaced) == must
        assert one.bundles == len(mine) == len(must) + one.replaced + one.staying
    still = planned(fleet, isolation("apart", names, BROKERS[:3], unload_scope="none")).impact
    assert still is not None
    kept = {one.namespace: one.staying for one in still.changes}
    assert all(kept[name] == own[name].bundles - len(own[name].misplaced) for name in names)
    assert f"unchanged: {still.staying:,}" in impact_sentence(
        planned(fleet, isolation("apart", names, BROKERS[:3], unload_scope="none"))
    )


# -- over the limit --------------------------------------------------------------------------------


def test_brokers_that_would_be_over_the_limit_are_named_in_the_plan(fleet) -> None:
    """Everything on one broker of six, at most of its hardware: the plan said nothing."""
    full = busy(fleet, 3.0)
    seen = planned(full, isolation("narrow", spaces(fleet), [BROKERS[2]]))
    (found,) = [item for item in seen.plan.diagnostics if item.code == OVER_LIMIT]
    assert found.severity == "warning"
    assert BROKERS[2] in found.sentence
    assert "overload limit of 85%" in found.sentence
    assert any(BROKERS[2] in sentence for sentence in remarks(seen.plan)["warning"])
    after = next(one for one in seen.plan.expected.brokers if one.broker == BROKERS[2])
    assert after.usage_after is not None
    assert after.usage_after > 0.85
    assert preview_plan(full, seen.plan).overloads == ()  # said once


def test_with_unloads_brokers_over_the_limit_are_named_once(fleet) -> None:
    full = busy(fleet, 3.0)
    change = isolation("narrow", spaces(fleet), [BROKERS[2]], unload_scope="none")
    seen = planned(full, change, with_unloads=True)
    assert [item.code for item in seen.plan.diagnostics].count(OVER_LIMIT) == 1
    assert preview_plan(full, seen.plan).overloads == ()


def test_a_fleet_with_room_is_not_warned_of(fleet) -> None:
    seen = planned(fleet, isolation("apart", spaces(fleet)[:1], BROKERS[2:5]))
    assert OVER_LIMIT not in [item.code for item in seen.plan.diagnostics]
