"""A plan that unloads a whole namespace says so, and one that leaves a bundle does not."""

from __future__ import annotations

import pyarrow.compute as pc
import pytest
from fleet_builder import NOON, make_snapshot

from core.errors import InputError
from core.plan.options import PlanOptions
from core.pulsar.plan.build import build_unload_plan
from core.pulsar.plan.split import build_cuts_plan


@pytest.fixture(scope="module")
def snapshot():
    return make_snapshot(brokers=4, bundles=40)


def _owned(snapshot):
    ordinary = snapshot.bundles.filter(pc.invert(snapshot.bundles["is_broker_bound"]))
    namespace = ordinary["namespace"][0].as_py()
    own = ordinary.filter(pc.equal(ordinary["namespace"], namespace))
    return namespace, own.filter(pc.is_valid(own["owner"]))["bundle"].to_pylist()


def test_a_plan_that_unloads_a_whole_namespace_warns_with_its_clients(snapshot):
    namespace, bundles = _owned(snapshot)
    plan = build_unload_plan(snapshot, bundles, now=NOON)
    (told,) = [one for one in plan.diagnostics if one.code == "whole_namespace"]
    assert told.severity == "warning"
    assert namespace in told.sentence
    assert "clients" in told.sentence
    rest = build_unload_plan(snapshot, bundles[1:], now=NOON)
    assert not [one for one in rest.diagnostics if one.code == "whole_namespace"]


def test_a_plan_cuts_several_bundles_each_at_its_own_positions(snapshot):
    _, bundles = _owned(snapshot)
    cuts = {}
    for name in bundles[:2]:
        lower, upper = (int(part, 16) for part in name.rpartition("/")[2].split("_"))
        cuts[name] = (lower + (upper - lower) // 4, lower + (upper - lower) // 2)
    plan = build_cuts_plan(snapshot, cuts, PlanOptions(now=NOON))
    assert {step.bundle: step.positions for step in plan.steps} == cuts
    assert {step.algorithm for step in plan.steps} == {"specified_positions_divide"}
    (final,) = [one for one in plan.diagnostics if one.code == "split_is_final"]
    namespace = bundles[0].rpartition("/")[0]
    held = snapshot.bundles["namespace"].to_pylist().count(namespace)
    assert f"{namespace} changes from {held} bundles to {held + 4}" in final.sentence
    about = [one for one in plan.diagnostics if one.subject in cuts]
    assert {one.subject for one in about} == set(cuts)
    assert all(one.subject in one.sentence for one in about)
    with pytest.raises(InputError):
        build_cuts_plan(snapshot, {}, PlanOptions(now=NOON))
