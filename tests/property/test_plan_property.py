"""Plans on whole generated fleets: what always holds."""

from __future__ import annotations

from datetime import timedelta
from functools import lru_cache

import numpy as np
import pytest
from fleet_builder import broker_names, make_snapshot
from fleet_edit import with_policies
from hypothesis import given, settings
from hypothesis import strategies as st
from sampled import examples

from core.errors import UnusablePlanError
from core.plan.codec import dump_plan, load_plan
from core.plan.model import Plan
from core.pulsar.measures import measure, owned_bundle_counts
from core.pulsar.placement import STRATEGY_NAMES
from core.pulsar.plan.build import build_unload_plan
from core.pulsar.plan.preview import QUANTITIES, preview_plan, project
from core.snapshot import PulsarSnapshot
from core.systems import STEPS


@lru_cache(maxsize=64)
def fleet_of(brokers: int, bundles: int, seed: int, *, isolated: bool) -> PulsarSnapshot:
    made = make_snapshot(brokers=brokers, bundles=bundles, seed=seed)
    return made if isolated else with_policies(made)


fleets = st.builds(
    fleet_of,
    st.integers(2, 9),
    st.integers(10, 60),
    st.integers(0, 5),
    isolated=st.booleans(),
)


@st.composite
def plans(draw: st.DrawFn) -> tuple[PulsarSnapshot, Plan]:
    fleet = draw(fleets)
    names = fleet.bundles["bundle"].to_pylist()
    chosen = draw(st.lists(st.sampled_from(names), min_size=1, max_size=4, unique=True))
    plan = build_unload_plan(
        fleet,
        chosen,
        destination=draw(st.none() | st.sampled_from(broker_names(fleet.brokers.num_rows))),
        strategy=draw(st.none() | st.sampled_from(STRATEGY_NAMES)),
        overrides={"loadBalancerDistributeBundlesEvenlyEnabled": draw(st.booleans())},
        now=fleet.manifest.taken_at + timedelta(seconds=draw(st.integers(0, 900))),
    )
    return fleet, plan


@settings(max_examples=examples(60), deadline=None)
@given(plans())
def test_plan_files_round_trip_to_the_same_id(case) -> None:
    _, plan = case
    assert load_plan(dump_plan(plan), STEPS) == plan


@settings(max_examples=examples(60), deadline=None)
@given(plans())
def test_load_and_ownership_are_conserved(case) -> None:
    fleet, plan = case
    preview = preview_plan(fleet, plan)
    table = preview.before_after
    placed = all(step.placement.distribution for step in preview.steps)
    for name in QUANTITIES:
        before, after = (np.array(table[f"{name}_{moment}"]) for moment in ("before", "after"))
        if placed:
            assert after.sum() == pytest.approx(before.sum(), rel=1e-9)
        else:
            assert after.sum() <= before.sum() * (1 + 1e-9)
        low, high = (np.array(table[f"{name}_{moment}"]) for moment in ("low", "high"))
        slack = 1e-6 * np.maximum(np.abs(before), 1.0)
        if preview.is_exact:
            assert np.all(low <= after + slack)
            assert np.all(after <= high + slack)


@settings(max_examples=examples(60), deadline=None)
@given(plans())
def test_each_bundle_is_owned_once_and_only_the_planned_ones_move(case) -> None:
    fleet, plan = case
    after = project(fleet, plan)
    assert after.bundles["bundle"] == fleet.bundles["bundle"]
    owners = zip(
        fleet.bundles["bundle"].to_pylist(),
        fleet.bundles["owner"].to_pylist(),
        after.bundles["owner"].to_pylist(),
        strict=True,
    )
    moved = {bundle for bundle, was, now in owners if was != now}
    assert moved <= {step.bundle for step in plan.steps}
    brokers = set(fleet.brokers["broker"].to_pylist())
    assert set(after.bundles["owner"].to_pylist()) <= brokers | {None}


@settings(max_examples=examples(60), deadline=None)
@given(plans())
def test_a_plan_never_holds_a_forbidden_step(case) -> None:
    fleet, plan = case
    bound = dict(
        zip(
            fleet.bundles["bundle"].to_pylist(),
            fleet.bundles["is_broker_bound"].to_pylist(),
            strict=True,
        )
    )
    for step in plan.steps:
        assert not bound[step.bundle]
        assert step.destination != step.owner
    assert plan.applyable == (bool(plan.steps) and not plan.errored)
    assert plan.errored == bool(plan.by_severity("error"))


@settings(max_examples=examples(40), deadline=None)
@given(plans())
def test_probabilities_add_up_and_scenarios_agree_with_the_distributions(case) -> None:
    fleet, plan = case
    preview = preview_plan(fleet, plan)
    assert sum(one.probability for one in preview.scenarios) == pytest.approx(1.0)
    for number, step in enumerate(preview.steps):
        if step.placement.distribution:
            assert sum(step.placement.distribution.values()) == pytest.approx(1.0)
        assert not set(step.placement.distribution) & set(step.placement.ruled_out)
        if preview.is_exact:
            marginal: dict[str, float] = {}
            for one in preview.scenarios:
                end = one.destinations[number]
                if end is not None:
                    marginal[end] = marginal.get(end, 0.0) + one.probability
            assert marginal == pytest.approx(step.placement.distribution)


@settings(max_examples=examples(40), deadline=None)
@given(plans())
def test_the_expected_table_is_the_mean_of_the_scenarios(case) -> None:
    fleet, plan = case
    preview = preview_plan(fleet, plan)
    if not preview.is_exact:
        return
    mean = owned_bundle_counts(fleet).copy()
    index = {name: row for row, name in enumerate(fleet.brokers["broker"].to_pylist())}
    for step in plan.steps:
        mean[index[step.owner]] -= 1
    for one in preview.scenarios:
        for end in one.destinations:
            if end is not None:
                mean[index[end]] += one.probability
    assert preview.before_after["bundle_count_after"].to_pylist() == pytest.approx(mean.tolist())


@settings(max_examples=examples(30), deadline=None)
@given(fleets, st.floats(0.1, 1_000.0))
def test_deviation_does_not_depend_on_the_unit(fleet, factor) -> None:
    spread = measure(fleet).throughput
    scaled = type(spread)(
        "throughput", "traffic", "bytes/s", spread.brokers, spread.values * factor
    )
    assert scaled.max_deviation_ratio == pytest.approx(spread.max_deviation_ratio)
    assert scaled.coefficient_ratio == pytest.approx(spread.coefficient_ratio)
    assert scaled.worst == spread.worst


@lru_cache(maxsize=1)
def plan_file() -> bytes:
    fleet = fleet_of(4, 20, 1, isolated=False)
    bundle = next(name for name in fleet.bundles["bundle"].to_pylist() if "pulsar" not in name)
    return dump_plan(build_unload_plan(fleet, [bundle], now=fleet.manifest.taken_at))


@settings(max_examples=examples(400), deadline=None)
@given(
    st.integers(0, len(plan_file()) - 1),
    st.integers(0, 6),
    st.binary(max_size=6) | st.sampled_from([b"\\ud800", b"NaN", b"1e999", b"9" * 40, b"null"]),
)
def test_a_damaged_plan_file_is_refused_and_never_misread(at, removed, inserted) -> None:
    whole = plan_file()
    damaged = whole[:at] + inserted + whole[at + removed :]
    try:
        plan = load_plan(damaged, STEPS)
    except UnusablePlanError:
        return
    assert plan == load_plan(whole, STEPS)


def test_a_plan_file_that_nests_without_end_is_refused() -> None:
    with pytest.raises(UnusablePlanError):
        load_plan(b"[" * 100_000, STEPS)
