"""Plans for generated Pegasus clusters, carried out in memory, keep what must be kept."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime

from hypothesis import given, settings
from hypothesis import strategies as st
from pegasus_snapshots import generated
from pegasus_stage import Stage
from sampled import examples

from core.pegasus.even.measures import MEASURES, WeightedSnapshot
from core.pegasus.even.planner import EvenGoal, even_out
from core.pegasus.plan.build import balance_plan
from core.pegasus.plan.maintenance import drain_plan, migrate_plan, rolling_update_plan
from core.pegasus.plan.preview import preview_pegasus
from core.pegasus.snapshot import PegasusFacts
from core.plan.codec import dump_plan, load_plan
from core.plan.model import Plan
from core.plan.options import PlanOptions
from core.snapshot.pegasus import PegasusSnapshot
from core.systems import STEPS

TERMS = PlanOptions(now=datetime(2026, 11, 21, tzinfo=UTC), reason="a test")
CLUSTERS = st.builds(
    generated,
    st.integers(1, 3),
    st.integers(1, 8),
    st.integers(5, 8),
    seed=st.integers(1, 10_000),
)


def names(snapshot: PegasusSnapshot) -> list[str]:
    return [row["node"] for row in snapshot.tables["nodes"].to_pylist()]


def held(stage: Stage) -> tuple[Counter[str], Counter[str]]:
    """Primaries and replicas by node."""
    configs = stage.configs.values()
    led = Counter(config.primary for config in configs if config.primary is not None)
    return led, Counter(name for config in configs for name in config.members)


def check(snapshot: PegasusSnapshot, plan: Plan, stage: Stage) -> None:
    """What holds of every plan that was carried out."""
    before = Stage(snapshot)
    assert load_plan(dump_plan(plan), STEPS) == plan
    assert sum(held(stage)[1].values()) == sum(held(before)[1].values())
    for gpid, config in stage.configs.items():
        assert len(set(config.members)) == config.replica_count == config.max_replica_count
        assert config.ballot >= before.configs[gpid].ballot
    led_before, held_before = held(before)
    for one in plan.expected.nodes:
        assert one.primaries_before == led_before[one.node]
        assert one.replicas_before == held_before[one.node]
    assert len(preview_pegasus(snapshot, plan).steps) == len(plan.steps)


@settings(max_examples=examples(40), deadline=None)
@given(CLUSTERS, st.integers(0, 4))
def test_migrating_leaves_no_primary_and_keeps_every_replica(snapshot, at):
    node = names(snapshot)[at]
    plan = migrate_plan(snapshot, node, TERMS)
    stage = Stage(snapshot)
    if not held(stage)[0][node]:
        assert not plan.steps
        return
    stage.play(plan)
    check(snapshot, plan, stage)
    led, replicas = held(stage)
    assert led[node] == 0
    assert replicas == held(Stage(snapshot))[1]
    for one in plan.expected.nodes:
        assert led[one.node] == one.primaries_after


@settings(max_examples=examples(40), deadline=None)
@given(CLUSTERS, st.integers(0, 4), st.booleans())
def test_draining_leaves_nothing_and_never_takes_the_last_secondary(snapshot, at, prefer_last):
    node = names(snapshot)[at]
    plan = drain_plan(snapshot, [node], TERMS)
    stage = Stage(snapshot, prefer_last=prefer_last)
    if not held(stage)[1][node]:
        assert not plan.steps
        return
    stage.play(plan)
    check(snapshot, plan, stage)
    assert held(stage)[1][node] == 0
    assert stage.fewest >= 2


@settings(max_examples=examples(25), deadline=None)
@given(CLUSTERS)
def test_a_rolling_update_of_every_node_ends_with_every_replica_where_it_was(snapshot):
    plan = rolling_update_plan(snapshot, [], TERMS)
    stage = Stage(snapshot)
    stage.play(plan)
    check(snapshot, plan, stage)
    assert held(stage)[1] == held(Stage(snapshot))[1]
    assert stage.fewest >= 2


@settings(max_examples=examples(40), deadline=None)
@given(CLUSTERS, st.sampled_from(MEASURES))
def test_our_own_balance_is_a_plan_that_ends_where_it_says(snapshot, measure):
    measured = WeightedSnapshot.of(PegasusFacts(snapshot))
    found = even_out(measured.view, measured.weights(measure), EvenGoal())
    if not found.steps:
        return
    plan = balance_plan(snapshot, measured.view, found.steps, TERMS)
    stage = Stage(snapshot)
    stage.play(plan)
    check(snapshot, plan, stage)
    led, replicas = held(stage)
    for one in plan.expected.nodes:
        assert led[one.node] == one.primaries_after
        assert replicas[one.node] == one.replicas_after
