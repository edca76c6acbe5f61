"""What an undo does not bring back: named in its plan, counted, and moved back where asked for."""

from __future__ import annotations

from dataclasses import replace

import pytest
from actions_world import BROKERS, MOVABLE, World, plan_of
from pegasus_world import (
    FLOW,
    N1,
    N2,
    N3,
    N4,
    PegasusWorld,
    batch,
    move,
    pegasus_plan,
    snapshot_of_world,
)
from test_actions_other_steps import carried, plan_context, setting_of, split_of

from core.actions.model import RunOptions
from core.actions.undo import LEFT, MOVED, MOVES_BACK, not_brought_back
from core.actions.views import RunView
from core.errors import NothingToUndoError, PlanConflictError
from core.pegasus.plan.moves_back import FormerPartition, describe_moved, moved_since, next_move
from core.pegasus.plan.undo import UndoContext
from core.pegasus.plan.undo import undo_plan as pegasus_undo
from core.pegasus.steps.base import PegasusStep
from core.pegasus.steps.close import CloseReplicas
from core.pegasus.steps.level import SetMetaLevel
from core.pegasus.steps.setting import SetServerSetting
from core.pegasus.steps.wait import AwaitState
from core.plan.model import Plan
from core.pulsar.plan.answer import plan_sentence
from core.pulsar.plan.preview import preview_plan
from core.pulsar.plan.undo import undo_plan
from core.pulsar.policy_kinds import POLICY_KINDS
from core.pulsar.steps.policy import SetPolicy
from core.snapshot.pegasus import PegasusSnapshot
from core.step import Step
from dashboard.presenters.applying import send_label

FAST = RunOptions(pace_per_min=600, verify_within_s=4.0)
LIVELY = SetMetaLevel(before="steady", level="lively")


def lively_run(*more: PegasusStep) -> tuple[PegasusWorld, RunView, PegasusSnapshot]:
    """A run that set the level to lively, and the cluster as it began."""
    world = PegasusWorld()
    start = snapshot_of_world(world)
    world.ask(plan=pegasus_plan(world, (LIVELY, *more)), options=FAST)
    return world, world.outlive(), start


def rebalanced(world: PegasusWorld) -> None:
    """What the balancer did: three primaries moved, one replica was copied to another node."""
    for gpid, config in list(world.configs.items())[:3]:
        other = config.secondaries[0]
        rest = tuple(node for node in config.members if node != other)
        world.configs[gpid] = replace(config, ballot=9, primary=other, secondaries=rest)
    gpid, config = list(world.configs.items())[3]
    free = next(node for node in (N2, N3) if node not in config.members)
    kept = tuple(free if node == N4 else node for node in config.secondaries)
    world.configs[gpid] = replace(config, ballot=9, secondaries=kept)


def undone(
    world: PegasusWorld, view: RunView, start: PegasusSnapshot | None, max_moves: int = 0
) -> Plan:
    context = UndoContext(
        snapshot=snapshot_of_world(world), now=world.moment, start=start, max_moves=max_moves
    )
    return pegasus_undo(view, context)


# -- Pegasus: lively back to steady ----------------------------------------------------------------


def test_lively_back_to_steady_counts_the_replicas_that_stay() -> None:
    """The plan set the level back and said nothing of what the balancer had moved."""
    world, view, start = lively_run()
    rebalanced(world)
    plan = undone(world, view, start)
    assert [step.kind for step in plan.steps] == ["set_meta_level"]
    left = not_brought_back(plan)
    assert any("moved at lively stay" in one for one in left)
    (counted,) = [item for item in plan.diagnostics if item.code == MOVED]
    assert "3 primaries moved and 1 replica copied to other nodes" in counted.sentence
    assert f"{start.manifest.taken_at:%H:%M:%S} UTC" in counted.sentence
    assert "--with-moves" in counted.hint
    assert plan.complete  # the level goes back; what moved was no step


def test_moves_back_are_a_plan_that_brings_every_replica_back() -> None:
    world, view, start = lively_run()
    before = dict(world.configs)
    rebalanced(world)
    plan = undone(world, view, start, max_moves=50)
    kinds = [step.kind for step in plan.steps]
    assert kinds == ["set_meta_level", *["move_replica"] * 4]
    assert plan.applyable
    (counted,) = [item for item in plan.diagnostics if item.code == MOVES_BACK]
    assert "4 moves back are planned" in counted.sentence
    assert not any("stay where they are" in one for one in not_brought_back(plan))
    world.entries.clear()
    world.sent_steps.clear()
    world.sent_attempts.clear()
    world.ask(plan=plan, options=FAST)
    assert world.outlive().state == "DONE"
    assert world.level == "steady"
    for gpid, config in world.configs.items():
        assert config.primary == before[gpid].primary
        assert set(config.members) == set(before[gpid].members)


def test_what_cannot_go_back_is_named_with_the_reason() -> None:
    world, view, start = lively_run()
    rebalanced(world)
    world.dead.add(N1)
    plan = undone(world, view, start, max_moves=50)
    (refused,) = [item for item in plan.diagnostics if item.code == "undo_refused"]
    assert refused.severity == "warning"
    assert "3 partitions cannot be moved back" in refused.sentence
    assert N1 in refused.sentence
    assert not plan.complete
    assert not plan.errored


def test_a_plan_has_no_more_moves_back_than_it_may() -> None:
    world, view, start = lively_run()
    rebalanced(world)
    plan = undone(world, view, start, max_moves=2)
    assert [step.kind for step in plan.steps].count("move_replica") == 2
    (more,) = [item for item in plan.diagnostics if item.code == "undo_too_many"]
    assert "2 partitions more can be reverted" in more.sentence


def test_without_a_snapshot_of_the_beginning_it_says_that_it_does_not_know() -> None:
    world, view, _ = lively_run()
    rebalanced(world)
    plan = undone(world, view, None)
    assert any("are unknown: no snapshot" in one for one in not_brought_back(plan))


def test_nothing_moved_nothing_is_counted() -> None:
    world, view, start = lively_run()
    assert [
        item.code for item in undone(world, view, start).diagnostics if item.code == MOVED
    ] == []


def test_moves_of_the_run_itself_are_not_counted_as_left() -> None:
    world = PegasusWorld()
    start = snapshot_of_world(world)
    world.ask(plan=pegasus_plan(world, (move("2.0", N1, N3),)), options=FAST)
    view = world.outlive()
    assert moved_since(view, start, snapshot_of_world(world)) == []
    plan = undone(world, view, start)
    assert MOVED not in [item.code for item in plan.diagnostics]
    assert any("look it up again" in one for one in not_brought_back(plan))


def test_a_run_that_was_lively_for_its_time_has_moves_back_only() -> None:
    """Its level is back already: it could not be undone at all, and the page had no button."""
    world = PegasusWorld()
    start = snapshot_of_world(world)
    own = SetMetaLevel(before="steady", level="lively", is_restored=True)
    world.ask(plan=pegasus_plan(world, (own, AwaitState(state="balanced"))), options=FAST)
    view = world.outlive()
    assert world.level == "steady"
    rebalanced(world)
    with pytest.raises(PlanConflictError, match="3 primaries moved") as caught:
        undone(world, view, start)
    assert "--with-moves" in caught.value.hint
    plan = undone(world, view, start, max_moves=50)
    assert [step.kind for step in plan.steps] == ["move_replica"] * 4


@pytest.mark.parametrize(
    ("primary", "members", "now", "found"),
    [
        # the primary is still a member: it leads again
        (N1, {N1, N2, N3}, (N2, (N1, N3)), ("move_pri", N2, N1)),
        # it has left, and a node that joined leads: copied back whole
        (N1, {N1, N2, N3}, (N4, (N2, N3)), ("copy_pri", N4, N1)),
        # it has left, and a former secondary leads: a replica goes back first
        (N1, {N1, N2, N3}, (N2, (N4, N3)), ("copy_sec", N4, N1)),
        # only a secondary is elsewhere
        (N1, {N1, N2, N3}, (N1, (N2, N4)), ("copy_sec", N4, N3)),
        # as it was
        (N1, {N1, N2, N3}, (N1, (N3, N2)), None),
        # a replica is missing: the guardian's business
        (N1, {N1, N2, N3}, (N1, (N2,)), None),
        # nobody leads
        (N1, {N1, N2, N3}, (None, (N2,)), None),
    ],
)
def test_the_next_move_back(primary, members, now, found) -> None:
    config = replace(
        PegasusWorld().configs["2.0"], primary=now[0], secondaries=now[1], max_replica_count=3
    )
    former = FormerPartition("2.0", primary, frozenset(members), has_other_primary=True, joined=0)
    assert next_move(config, former) == found


def test_what_moved_is_counted_in_words() -> None:
    one = FormerPartition("2.0", N1, frozenset({N1}), has_other_primary=True, joined=0)
    two = FormerPartition("2.1", N1, frozenset({N1}), has_other_primary=False, joined=2)
    assert describe_moved([one]) == "1 primary moved"
    assert describe_moved([two]) == "2 replicas copied to other nodes"
    assert describe_moved([two._replace(joined=0)]) == "1 partition lost a replica"


# -- every kind of step, from one place ------------------------------------------------------------


@pytest.mark.parametrize(
    ("step", "words"),
    [
        (LIVELY, "stay where they are"),
        (SetMetaLevel(before="lively", level="steady"), "not queued again"),
        (SetServerSetting(key=FLOW, value="true", before="false"), "stay where they are"),
        (move("2.0", N1, N3), "look it up again"),
        (move("2.0", N1, N2, "copy_sec"), "again"),
        (batch(N1, p0=N3), "look these up again"),
        (AwaitState(state="restarted", node=N1), "not undone"),
        (setting_of(), "are not reverted"),
        *(
            (SetPolicy(policy=kind, name="acme/orders", value="{}"), "stay")
            for kind in POLICY_KINDS
        ),
    ],
)
def test_each_kind_says_in_one_sentence_what_stays(step: Step, words: str) -> None:
    assert words in step.not_undone
    assert step.not_undone.endswith(".")
    assert step.not_undone.count(". ") == 0


@pytest.mark.parametrize(
    "step",
    [
        AwaitState(state="healthy"),
        SetServerSetting(key=FLOW, value="true", is_restored=True),
        split_of(),  # named bundle by bundle, as a warning
        CloseReplicas(node=N1, partitions=("2.0",)),  # likewise
    ],
)
def test_what_leaves_nothing_behind_or_says_so_itself_has_no_sentence(step: Step) -> None:
    assert step.not_undone == ""


def test_only_an_undo_says_what_it_does_not_bring_back() -> None:
    world, view, start = lively_run()
    rebalanced(world)
    plan = undone(world, view, start)
    assert not_brought_back(plan)
    assert not_brought_back(replace(plan, undoes=None)) == []


# -- Pulsar ----------------------------------------------------------------------------------------


def test_a_setting_that_goes_back_leaves_the_bundles_that_brokers_moved() -> None:
    world = World()
    start = plan_context(world).snapshot
    view = carried(world, setting_of())
    others = [name for name in MOVABLE if world.owners[name] is not None][:3]
    came = {name: world.owners[name] for name in others}
    for name in others:
        world.move(name, next(one for one in BROKERS if one != world.owners[name]))
    plan = undo_plan(view, plan_context(world), start=start)
    assert [step.kind for step in plan.steps] == ["set_dynamic_setting"]
    (counted,) = [item for item in plan.diagnostics if item.code == MOVED]
    assert "3 other bundles moved to another broker" in counted.sentence
    assert [item.code for item in plan.diagnostics if item.code == LEFT] == [LEFT]
    back = undo_plan(view, plan_context(world), start=start, max_moves=50)
    moves = {step.subject: step.destination for step in back.steps if step.kind == "unload_bundle"}
    assert moves
    assert moves.items() <= came.items()
    refused = [item for item in back.diagnostics if item.code == "undo_refused"]
    assert len(moves) == len(came) or refused
    # what moved goes last: the setting that moved it is back by then
    assert back.steps[0].kind == "set_dynamic_setting"


def test_an_unload_that_goes_back_names_the_clients_and_not_its_own_bundles() -> None:
    world = World()
    bundle = next(name for name in MOVABLE if name.startswith("acme/orders/"))
    world.move(bundle, BROKERS[1])
    start = plan_context(world).snapshot
    source = world.owners[bundle]
    view = carried(world, *_unload(world, bundle))
    assert world.owners[bundle] != source
    plan = undo_plan(view, plan_context(world), start=start)
    assert MOVED not in [item.code for item in plan.diagnostics]
    assert any("disconnects them again" in one for one in not_brought_back(plan))


def test_a_run_whose_bundles_are_back_has_nothing_to_undo() -> None:
    world = World()
    bundle = next(name for name in MOVABLE if name.startswith("acme/orders/"))
    world.move(bundle, BROKERS[1])
    start = plan_context(world).snapshot
    view = carried(world, *_unload(world, bundle))
    plan = undo_plan(view, plan_context(world), start=start)
    assert send_label(plan) == "Move 1 bundle back"
    preview = preview_plan(plan_context(world).snapshot, plan)
    assert plan_sentence(preview).startswith("Moving back 1 bundle (")
    world.move(bundle, BROKERS[1])
    other = next(name for name in MOVABLE if name != bundle and world.owners[name] is not None)
    world.move(other, next(one for one in BROKERS if one != world.owners[other]))
    with pytest.raises(NothingToUndoError) as caught:
        undo_plan(view, plan_context(world), start=start)
    assert caught.value.message == (
        f"Nothing to undo in run {view.run_id}: {bundle} is already at {BROKERS[1]}, as before. "
        f"Since {start.manifest.taken_at:%H:%M:%S} UTC, the last snapshot before the run, 1 other "
        "bundle moved to another broker, not reverted by the undo."
    )
    assert "--with-moves" in caught.value.hint


def _unload(world: World, bundle: str) -> tuple[Step, ...]:
    target = BROKERS[2]
    return plan_of(world, [bundle], target).steps


def test_a_split_still_says_that_it_stays_in_preview_and_result() -> None:
    world = World()
    view = carried(world, setting_of(), split_of())
    plan = undo_plan(view, plan_context(world))
    assert any("never merged again" in one for one in not_brought_back(plan))
