"""Pegasus steps through the executor: waits, kept settings, checks again, foreign moves, undo."""

from __future__ import annotations

from dataclasses import replace

import pytest
from actions_world import RUN, Faults, Worker, World
from pegasus_world import (
    FLOW,
    LIMIT,
    N1,
    N2,
    N3,
    N4,
    PegasusPort,
    PegasusWorld,
    batch,
    move,
    pegasus_plan,
    snapshot_of_world,
)

from core.actions.describe import describe_event
from core.actions.dry_run import rehearse
from core.actions.events import SettingRestored, SettingSaved, StepWaiting
from core.actions.model import RunOptions
from core.actions.views import RunView
from core.errors import PlanConflictError
from core.pegasus.plan.external_changes import external_changes, measured
from core.pegasus.plan.undo import UndoContext, undo_plan
from core.pegasus.plan.verify import recheck
from core.pegasus.server_settings import LIVE_PERCENTAGE
from core.pegasus.steps.base import PegasusStep
from core.pegasus.steps.change import ChangeReplica
from core.pegasus.steps.close import CloseReplicas
from core.pegasus.steps.level import LEVEL_KEY, SetMetaLevel
from core.pegasus.steps.partition import Partition
from core.pegasus.steps.setting import SetServerSetting
from core.pegasus.steps.wait import AwaitState
from core.plan.model import Expected, NodeExpectation, Plan, sealed
from core.values import is_known_value, is_same_value

FAST = RunOptions(pace_per_min=600, verify_within_s=4.0)
STEADY = SetMetaLevel(before="lively", level="steady", is_restored=True)
LIVELY = SetMetaLevel(before="steady", level="lively", is_restored=True)
NO_MORE = SetServerSetting(key=LIMIT, before="10", value="0", is_restored=True)
UPDATE = (AwaitState(state="running", node=N1), AwaitState(state="restarted", node=N1))


def a_world(level: str = "steady") -> PegasusWorld:
    world = PegasusWorld(level=level, level_before=level)
    world.lively_since_s = 0.0 if level == "lively" else None
    return world


def run(world: PegasusWorld, *steps: PegasusStep, options: RunOptions = FAST) -> RunView:
    world.ask(plan=pegasus_plan(world, steps), options=options)
    return world.outlive()


def codes(view: RunView) -> list[str]:
    return [step.result.code if step.result else "" for step in view.steps]


# -- waiting ---------------------------------------------------------------------------------------


def test_a_step_waits_for_its_precondition_and_tells_how_far_it_is() -> None:
    world = a_world()
    for index in range(4):
        world.at(7.0 * (index + 1), lambda gpid=f"2.{index}": world.move_primary_by_others(gpid))
    view = run(world, AwaitState(state="no_primaries", node=N1), move("2.0", N3, N1))
    assert codes(view) == ["reached", "moved"]
    waits = [event.sentence for event in world.events(StepWaiting)]
    assert waits == [f"{N1} leads {left} partitions." for left in (4, 3, 2, 1)]
    assert view.steps[0].waiting == ""
    assert view.steps[0].waiting_since is not None
    assert view.steps[0].before is not None
    assert world.sent_steps == [1]


def test_a_wait_that_lasts_too_long_fails() -> None:
    world = a_world()
    view = run(world, AwaitState(state="no_primaries", node=N1, within_s=20.0))
    assert view.state == "FAILED"
    assert codes(view) == ["not_reached"]
    assert view.steps[0].result is not None
    assert "4 partitions" in view.steps[0].result.sentence
    assert 19.0 < world.now_s < 25.0


def test_a_wait_is_counted_from_its_first_look_also_after_a_worker_died() -> None:
    world = a_world()
    world.at(15.0, lambda: world.shutting_down.add(world.current))
    view = run(world, AwaitState(state="no_primaries", node=N1, within_s=20.0))
    assert codes(view) == ["not_reached"]
    assert view.takeovers == 1
    assert world.now_s < 30.0


def test_a_run_with_waits_goes_on_after_its_plan_expired() -> None:
    world = a_world()
    world.at(700.0, lambda: world.shutting_down.add(world.current))
    for index in range(4):
        world.at(800.0, lambda gpid=f"2.{index}": world.move_primary_by_others(gpid))
    view = run(world, AwaitState(state="no_primaries", node=N1), move("2.0", N3, N1))
    assert view.takeovers == 1
    assert codes(view) == ["reached", "moved"]


def test_a_stop_ends_a_wait_within_a_second() -> None:
    world = a_world()
    world.at(12.0, lambda: world.control("stop"))
    view = run(world, AwaitState(state="no_primaries", node=N1))
    assert view.state == "STOPPED"
    assert world.now_s < 13.1


def test_a_wait_counts_neither_for_the_pace_nor_for_the_moves_of_the_day() -> None:
    world = a_world("lively")
    world.moves_per_day = 1
    options = RunOptions(pace_per_min=1, verify_within_s=4.0)
    view = run(world, STEADY, NO_MORE, move("2.0", N1, N3), options=options)
    assert view.state == "DONE", view.sentence
    assert world.now_s < 10.0


def test_a_restart_that_is_older_than_the_turn_of_its_node_does_not_count() -> None:
    world = a_world()
    world.restart(N1, "start 2")
    world.at(30.0, lambda: world.restart(N1, "start 3"))
    view = run(world, *UPDATE)
    assert codes(view) == ["reached", "reached"]
    assert world.now_s >= 30.0
    assert f"Restart {N1} now." in [event.sentence for event in world.events(StepWaiting)]


def test_a_restart_is_noticed_also_by_a_worker_that_comes_after_it() -> None:
    world = a_world()

    def dies() -> None:
        world.shutting_down.add(world.current)
        world.restart(N1, "start 2")

    world.at(20.0, dies)
    view = run(world, *UPDATE)
    assert view.takeovers == 1
    assert codes(view) == ["reached", "reached"]
    assert world.now_s < 60.0


def test_without_a_noted_start_no_restart_is_waited_for() -> None:
    world = a_world()
    view = run(world, *UPDATE[1:], move("2.0", N1, N3))
    assert codes(view) == ["start_unknown", "not_awaited"]
    assert view.state == "FAILED"


def test_a_wait_in_vain_is_never_settled_as_reached_whenever_its_worker_dies() -> None:
    steps = (AwaitState(state="no_primaries", node=N1, within_s=3.0), move("2.0", N1, N3))
    first = a_world()
    first.ask(plan=pegasus_plan(first, steps), options=replace(FAST, max_failures=5))
    first.outlive(lives=1)
    for moment in range(len(first.crossings)):
        world = a_world()
        world.ask(plan=pegasus_plan(world, steps), options=replace(FAST, max_failures=5))
        view = world.outlive(deaths=(moment,))
        assert codes(view) == ["not_reached", "not_awaited"], first.crossings[moment]
        assert not world.sent_steps


BATCH = batch(N1, p0=N3, p1=N2, p2=N3, p3=N2)


@pytest.mark.parametrize(
    ("steps", "found"),
    [
        (
            (AwaitState(state="no_primaries", node=N1, within_s=3.0), LIVELY),
            ["not_reached", "not_awaited"],
        ),
        (
            (BATCH, AwaitState(state="no_primaries", node=N1), LIVELY),
            ["refused", "not_emptied", "not_emptied"],
        ),
        ((BATCH, LIVELY), ["refused", "set"]),
    ],
    ids=["a wait", "a batch that is waited for", "a batch that nothing hangs on"],
)
def test_what_later_steps_hang_on_ends_the_run_whatever_it_allows(steps, found) -> None:
    world = a_world()
    world.faults[N1] = Faults("refused")
    view = run(world, *steps, options=replace(FAST, max_failures=5))
    assert codes(view) == found
    assert world.level == "steady"


@pytest.mark.parametrize(
    ("node", "found"),
    [(N3, ["moved_meanwhile", "not_emptied"]), (N1, ["moved_meanwhile", "reached"])],
    ids=["others wait for it", "its own wait tells that others emptied the node"],
)
def test_a_batch_that_was_skipped_ends_the_run_unless_its_wait_decides(node, found) -> None:
    world = a_world()
    for index in range(4):
        world.move_primary_by_others(f"2.{index}")
    steps = (batch(N1, p0=N4, p1=N4), AwaitState(state="no_primaries", node=node))
    view = run(world, *steps, options=replace(FAST, max_failures=5))
    assert codes(view) == found
    assert view.steps[0].state == "SKIPPED"


# -- settings for the time of the run --------------------------------------------------------------


def test_settings_go_back_latest_first_to_what_they_were_at_first() -> None:
    world = a_world("lively")
    more = SetServerSetting(key=LIMIT, before="0", value="100", is_restored=True)
    view = run(world, STEADY, NO_MORE, move("2.0", N1, N3), more)
    assert view.state == "DONE", view.sentence
    restored = [event.key for event in world.events(SettingRestored)]
    assert restored == [LIMIT, LEVEL_KEY]
    assert (world.level, world.values[LIMIT]) == ("lively", "10")
    assert [event.during for event in world.events(SettingSaved)] == ["steady", "0", "100"]


def test_a_setting_for_good_stays() -> None:
    world = a_world()
    view = run(world, SetMetaLevel(before="steady", level="lively"))
    assert (view.state, world.level) == ("DONE", "lively")
    assert not world.events(SettingSaved)


def test_what_a_pause_put_back_is_set_again_before_the_next_step() -> None:
    world = a_world("lively")
    seen: list[str] = []
    world.at(1.0, lambda: world.control("pause"))
    world.at(4.0, lambda: seen.append(world.level))
    world.at(5.0, lambda: world.control("resume"))
    world.at(6.5, lambda: seen.append(world.level))
    view = run(world, STEADY, AwaitState(state="no_primaries", node=N1, within_s=9.0))
    assert codes(view) == ["set", "not_reached"]
    assert seen == ["lively", "steady"]
    assert world.level == "lively"


def test_what_a_new_leader_forgot_is_set_again_and_told() -> None:
    world = a_world()
    world.balanced_after_s = 100.0
    world.at(10.0, world.fail_over)
    view = run(world, NO_MORE, LIVELY, AwaitState(state="balanced"))
    assert view.state == "DONE", view.sentence
    words = [describe_event(event).what for event in world.events(SettingSaved)]  # type: ignore[arg-type]  # it is one
    assert f"{LEVEL_KEY} changed back to steady; set to lively again for the run." in words
    assert (world.level, world.values[LIMIT]) == ("steady", "10")


LESS = SetServerSetting(key=LIVE_PERCENTAGE, before="80", value="0", is_restored=True)


def a_world_with_a_share() -> PegasusWorld:
    world = a_world()
    world.values[LIVE_PERCENTAGE] = "80"
    return world


def test_the_share_of_living_nodes_goes_back_when_no_node_has_left() -> None:
    world = a_world_with_a_share()
    world.at(8.0, lambda: world.control("stop"))
    view = run(world, LESS, AwaitState(state="no_primaries", node=N1))
    assert view.state == "STOPPED"
    assert world.values[LIVE_PERCENTAGE] == "80"
    assert [setting.result for setting in view.settings] == ["restored"]


def test_the_share_of_living_nodes_is_left_where_putting_it_back_would_freeze() -> None:
    world = a_world_with_a_share()
    world.at(4.0, lambda: world.dead.add(N4))
    world.at(8.0, lambda: world.control("stop"))
    view = run(world, LESS, AwaitState(state="no_primaries", node=N1))
    assert (view.state, world.values[LIVE_PERCENTAGE]) == ("STOPPED", "0")
    (share,) = view.settings
    assert share.result == "not_restored"
    assert "3 of 4" in share.sentence
    assert f"manually: remote_command -t meta-server {LIVE_PERCENTAGE} 80" in share.sentence


def test_what_a_pause_left_on_purpose_is_looked_at_again_at_the_end() -> None:
    world = a_world_with_a_share()
    world.at(4.0, lambda: world.dead.add(N4))
    world.at(5.0, lambda: world.control("pause"))
    world.at(8.0, lambda: world.control("resume"))
    world.at(80.0, world.dead.clear)
    world.at(90.0, lambda: world.control("stop"))
    view = run(world, LESS, AwaitState(state="no_primaries", node=N1))
    fates = [event.result for event in world.events(SettingRestored)]
    assert fates == ["not_restored", "restored"]
    assert view.state == "STOPPED"
    assert world.values[LIVE_PERCENTAGE] == "80"


def test_a_share_that_a_new_leader_forgot_is_set_again() -> None:
    world = a_world_with_a_share()
    seen: list[str] = []

    def forget() -> None:
        world.values[LIVE_PERCENTAGE] = "80"

    world.at(10.0, forget)
    world.at(100.0, lambda: seen.append(world.values[LIVE_PERCENTAGE]))
    world.at(110.0, lambda: world.control("stop"))
    run(world, LESS, AwaitState(state="no_primaries", node=N1))
    assert seen == ["0"]


def test_a_value_that_a_failover_replaced_by_its_default_is_set_again() -> None:
    world = a_world_with_a_share()
    seen: list[str] = []
    world.at(10.0, lambda: world.set_value(LIVE_PERCENTAGE, "50"))
    world.at(100.0, lambda: seen.append(world.values[LIVE_PERCENTAGE]))
    world.at(110.0, lambda: world.control("stop"))
    run(world, LESS, AwaitState(state="no_primaries", node=N1))
    assert seen == ["0"]
    assert world.values[LIVE_PERCENTAGE] == "80"  # as it was before the run, not the default
    (again,) = [one.sentence for one in world.events(SettingSaved) if one.sentence]
    assert "leading meta server" in again


def test_what_somebody_else_set_meanwhile_is_left_and_ends_the_run() -> None:
    world = a_world("lively")
    world.at(10.0, lambda: world.level_by_others("freezed"))
    view = run(world, STEADY, AwaitState(state="no_primaries", node=N1))
    assert view.state == "FAILED"
    assert codes(view) == ["set", "setting_changed"]
    assert world.level == "freezed"
    assert view.settings[0].result == "changed_by_others"


def test_a_setting_that_cannot_be_changed_ends_the_run_before_the_rest() -> None:
    world = a_world("lively")
    world.faults[LEVEL_KEY] = Faults("refused")
    view = run(world, STEADY, move("2.0", N1, N3), options=replace(FAST, max_failures=5))
    assert view.state == "FAILED"
    assert codes(view) == ["refused", "setting_not_set"]
    assert world.level == "lively"


def test_what_cannot_be_put_back_names_the_line_of_the_shell() -> None:
    world = a_world("lively")
    world.at(1.0, lambda: setattr(world, "is_setting_refused", True))
    world.at(60.0, lambda: setattr(world, "is_setting_refused", False))
    world.ask(plan=pegasus_plan(world, [STEADY, move("2.0", N1, N3)]), options=FAST)
    world.faults["2.0"] = Faults(after_s=1.0)
    world.work()
    (setting,) = world.view.outstanding_settings
    assert "manually: set_meta_level lively" in setting.sentence
    assert world.outlive().state == "DONE"
    assert world.level == "lively"


@pytest.mark.parametrize(
    ("steps", "options", "words"),
    [
        ([move("2.0", N1, N3)], replace(FAST, pause_balancer=True), "at level steady"),
        ([STEADY, SetMetaLevel(before="steady", level="lively")], FAST, "and permanently"),
    ],
)
def test_a_run_that_contradicts_itself_is_refused(steps, options, words) -> None:
    view = run(a_world("lively"), *steps, options=options)
    assert view.state == "REFUSED"
    assert words in view.sentence


@pytest.mark.parametrize(
    ("one", "other", "is_same"),
    [
        ("5", "5", True),
        ("5", "6", False),
        (None, "5", False),
        ('{"a": "5", "b": "6"}', '{"b": "6"}', True),
        ('{"a": "5", "b": "6"}', '{"a": "6"}', False),
        ('{"a": "5", "b": "6"}', "6", True),
        ("7", '{"a": "5", "b": "6"}', False),
    ],
)
def test_values_of_many_servers_are_compared_where_both_tell(one, other, is_same) -> None:
    assert is_same_value(one, other) is is_same


def test_a_server_that_has_restarted_has_its_former_value_again() -> None:
    assert is_known_value('{"a": "50", "b": "0"}', "0", ("50",))
    assert is_known_value('{"a": "50", "b": "1"}', '{"a": "0", "b": "1"}', ("50",))
    assert not is_known_value('{"a": "50", "b": "7"}', "0", ("50",))
    assert not is_known_value("7", "0", ("50",))


def test_a_setting_is_put_back_by_hand_on_each_server() -> None:
    step = SetServerSetting(key="nfs.rate", server="*", value="50")
    lines = step.restore_lines('{"a:1": "0", "b:1": "9"}')
    assert lines == ("remote_command -l a:1 nfs.rate 0", "remote_command -l b:1 nfs.rate 9")
    assert step.restore_lines("7") == ("remote_command -t replica-server nfs.rate 7",)


def test_a_level_outside_the_five_in_a_plan_is_told_and_never_sent() -> None:
    world = a_world()
    view = run(world, SetMetaLevel(before="steady", level="frozen"), move("2.0", N1, N3))
    assert codes(view)[0] == "unknown_level"
    assert view.steps[0].result is not None
    assert "frozen" in view.steps[0].result.sentence
    assert world.level == "steady"
    assert 0 not in world.sent_steps


# -- checks again ----------------------------------------------------------------------------------


def problems(world: PegasusWorld, *steps: PegasusStep) -> dict[int, str]:
    plan = pegasus_plan(a_world(), steps)
    found = recheck(snapshot_of_world(world), plan)
    return {index: item.code for index, item in found.items()}


def changed(gpid: str, primary: str, *secondaries: str) -> PegasusWorld:
    world = a_world()
    old = world.configs[gpid]
    world.configs[gpid] = replace(
        old, ballot=old.ballot + 2, primary=primary, secondaries=secondaries
    )
    return world


def test_a_step_is_still_right_while_its_roles_are() -> None:
    assert not problems(a_world(), move("2.0", N1, N3), batch(N1, p1=N2))
    assert not problems(changed("2.0", N1, N3, N2), move("2.0", N1, N3))


def test_a_step_whose_partition_changed_is_told_with_both_memberships() -> None:
    world = changed("2.0", N3, N1, N4)
    plan = pegasus_plan(a_world(), [move("2.0", N1, N3)])
    (problem,) = recheck(snapshot_of_world(world), plan).values()
    assert problem.code == "moved_meanwhile"
    assert f"had primary {N1}, secondaries {N3}, {N4} (ballot 3)" in problem.sentence
    assert f"now has primary {N3}, secondaries {N1}, {N4} (ballot 5)" in problem.sentence


def test_a_step_expects_what_the_one_before_it_leaves() -> None:
    back = move("2.0", N3, N1)
    assert not problems(a_world(), move("2.0", N1, N3), back)
    assert problems(a_world(), back) == {0: "proposal_refused"}


def test_a_batch_is_right_while_one_of_its_partitions_is() -> None:
    assert not problems(changed("2.1", N2, N1, N4), batch(N1, p1=N2, p2=N3))
    assert problems(changed("2.1", N2, N1, N4), batch(N1, p1=N2)) == {0: "moved_meanwhile"}


def test_nodes_level_and_table_have_to_be_there() -> None:
    dead = a_world()
    dead.dead.add(N3)
    assert problems(dead, move("2.0", N1, N3)) == {0: "node_not_alive"}
    frozen = a_world("freezed")
    assert problems(frozen, move("2.0", N1, N3)) == {0: "level_too_low"}
    thaw = SetMetaLevel(before="freezed", level="steady", is_restored=True)
    assert not problems(frozen, thaw, move("2.0", N1, N3))
    gone = a_world()
    step = move("2.0", N1, N3)
    del gone.configs["2.0"]
    assert problems(gone, step) == {0: "unknown_partition"}
    other = Partition.of(replace(a_world().configs["2.0"], app_id=9), "other")
    lost = move("2.0", N1, N3).__class__(partition=other, move="move_pri", source=N1, target=N3)
    assert problems(gone, lost) == {0: "table_gone"}


def test_what_comes_after_a_wait_is_judged_when_the_wait_is_over() -> None:
    world = a_world()
    world.dead.add(N1)
    wait = AwaitState(state="restarted", node=N1)
    assert not problems(world, wait, move("2.0", N3, N1))
    assert not problems(world, CloseReplicas(node=N2, partitions=("2.0",)))
    assert problems(world, CloseReplicas(node=N3, partitions=("2.0",))) == {0: "still_member"}


# -- what others moved, and what came of it --------------------------------------------------------


def _view(world: PegasusWorld, *steps: PegasusStep) -> RunView:
    world.ask(plan=pegasus_plan(world, steps or [move("2.0", N1, N3)]), options=FAST)
    return world.view


def test_what_others_changed_is_told_partition_by_partition_and_a_lost_node_as_one() -> None:
    world = a_world()
    view, before = _view(world), snapshot_of_world(world)
    world.pass_time(60.0)
    for index, (primary, seconds) in enumerate(
        [(N1, (N3, N4)), (N2, (N4,)), (N3, (N4,)), (N1, (N2, N3))]
    ):
        old = world.configs[f"2.{index}"]
        world.configs[f"2.{index}"] = replace(
            old, ballot=old.ballot + (index > 0), primary=primary, secondaries=seconds
        )
    found = list(external_changes(view, before, snapshot_of_world(world)))
    assert [(move.subject, move.source, move.destination) for move in found] == [
        ("2.1", N1, N2),
        ("2.2", N1, N3),
        ("2.3", N4, N3),
    ]
    world.dead.add(N1)
    found = list(external_changes(view, before, snapshot_of_world(world)))
    assert [move.sentence.partition(": ")[0] for move in found] == [
        "Partition 2.3",
        f"{N1} is no longer alive",
    ]


def test_what_the_run_itself_moved_is_not_foreign() -> None:
    world = a_world()
    before = snapshot_of_world(world)
    view = run(world, move("2.0", N1, N3))
    assert view.state == "DONE"
    assert not list(external_changes(view, before, snapshot_of_world(world)))
    assert not view.external_changes


def test_moves_at_a_level_that_the_run_set_are_its_own_doing() -> None:
    world = a_world()
    world.at(2.0, lambda: world.move_primary_by_others("2.1"))
    world.balanced_after_s = 70.0
    view = run(world, LIVELY, AwaitState(state="balanced"))
    assert view.state == "DONE"
    assert not view.external_changes


def test_nodes_are_measured_as_they_lead_and_serve() -> None:
    world = a_world()
    plan = pegasus_plan(world, [move("2.0", N1, N3)])
    node = NodeExpectation(
        node=N3, primaries_before=0, primaries_after=1, replicas_before=2, replicas_after=2
    )
    plan = sealed(replace(plan, expected=Expected(nodes=(node,))))
    world.ask(plan=plan, options=FAST)
    view = world.outlive()
    found = measured(view, snapshot_of_world(world))
    assert [(item.node, item.primaries, item.replicas) for item in found.nodes] == [(N3, 1, 2)]
    assert describe_event(found).after == "1 node checked"
    everything = measured(_view(a_world()), snapshot_of_world(world))
    assert [item.node for item in everything.nodes] == [N1, N2, N3, N4]


# -- rehearsed -------------------------------------------------------------------------------------


def rehearsed(world: PegasusWorld, *steps: PegasusStep):
    worker = Worker(world, "w1")
    plan = pegasus_plan(world, steps)
    port = PegasusPort(worker)
    return rehearse(plan, FAST, cluster=port, clock=worker.ports.clock)


def test_a_rehearsal_waits_for_nothing_and_changes_nothing() -> None:
    world = a_world("lively")
    found = rehearsed(
        world,
        STEADY,
        batch(N1, p0=N3, p1=N2, p2=N3, p3=N2),
        AwaitState(state="no_primaries", node=N1),
        move("2.0", N3, N1),
    )
    assert [step.code for step in found.steps] == [
        "would_send",
        "would_send",
        "would_wait",
        "would_send",
    ]
    assert f"{N1} leads 4 partitions." in found.steps[2].sentence
    assert found.requests == 3
    assert not world.sent_steps
    assert world.level == "lively"
    assert world.now_s < 5.0


def test_a_rehearsal_tells_what_is_wrong_already() -> None:
    found = rehearsed(changed("2.0", N3, N1, N4), move("2.0", N1, N3))
    assert [step.code for step in found.steps] == ["moved_meanwhile"]


def test_a_rehearsal_lists_what_is_set_and_judges_no_step_by_what_an_earlier_one_changes() -> None:
    world = a_world()
    again = SetServerSetting(key=LIMIT, before="0", value="100", is_restored=True)
    found = rehearsed(
        world,
        NO_MORE,
        batch(N1, p0=N3),
        AwaitState(state="no_primaries", node=N1),
        move("2.0", N3, N1),
        again,
        LIVELY,
    )
    assert [step.code for step in found.steps] == [
        "would_send",
        "would_send",
        "would_wait",
        "would_send",
        "would_send",
        "would_send",
    ]
    for place in (3, 4, 5):
        assert "things are now" not in found.steps[place].sentence
    assert found.settings == (
        (LIMIT, "0"),
        (LIMIT, "100"),
        (LEVEL_KEY, "lively"),
        (LEVEL_KEY, "steady"),
        (LIMIT, "10"),
    )


# -- taken back ------------------------------------------------------------------------------------


def undone(view: RunView, world: PegasusWorld) -> Plan:
    return undo_plan(view, UndoContext(snapshot=snapshot_of_world(world), now=world.moment))


def test_a_run_is_taken_back_last_step_first() -> None:
    world = a_world()
    flow = SetServerSetting(key=FLOW, before="false", value="true")
    view = run(
        world,
        SetMetaLevel(before="steady", level="lively"),
        flow,
        move("2.0", N1, N3),
        batch(N1, p1=N2, p2=N3),
        options=replace(FAST, max_failures=3),
    )
    assert view.state == "DONE", view.sentence
    plan = undone(view, world)
    assert plan.undoes == RUN
    assert plan.applyable
    assert plan.complete
    kinds = [step.kind for step in plan.steps]
    assert kinds == [
        "propose_many",
        "propose_many",
        "move_replica",
        "set_server_setting",
        "set_meta_level",
    ]
    world.entries.clear()
    world.sent_steps.clear()
    world.sent_attempts.clear()
    world.ask(plan=plan, options=FAST)
    assert world.outlive().state == "DONE"
    assert {config.primary for config in world.configs.values()} == {N1}
    assert (world.level, world.values[FLOW]) == ("steady", "false")


def test_copies_go_back_by_copies() -> None:
    world = a_world()
    view = run(world, move("2.0", N1, N2, "copy_pri"), move("2.1", N4, N3, "copy_sec"))
    assert view.state == "DONE", view.sentence
    plan = undone(view, world)
    assert [(step.owner, step.destination) for step in plan.steps] == [(N3, N4), (N2, N1)]


def test_what_was_changed_for_the_time_of_a_run_is_back_already() -> None:
    world = a_world("lively")
    view = run(world, STEADY, move("2.0", N1, N3))
    assert [step.kind for step in undone(view, world).steps] == ["move_replica"]


def test_what_somebody_moved_since_stays() -> None:
    world = a_world()
    view = run(world, move("2.0", N1, N3), move("2.1", N1, N2))
    world.configs["2.0"] = replace(
        world.configs["2.0"], ballot=99, primary=N4, secondaries=(N1, N3)
    )
    plan = undone(view, world)
    assert [step.subject for step in plan.steps] == ["2.1"]
    assert not plan.complete
    assert [item.code for item in plan.diagnostics if item.severity == "warning"] == [
        "undo_moved_since"
    ]
    world.configs["2.1"] = replace(
        world.configs["2.1"], ballot=99, primary=N4, secondaries=(N1, N2)
    )
    with pytest.raises(PlanConflictError, match="it was changed since"):
        undone(view, world)


def test_a_replica_that_was_taken_away_is_added_again_where_one_is_missing() -> None:
    world = a_world()
    partition = Partition.of(world.configs["2.0"], "temp")
    view = run(world, ChangeReplica(partition=partition, change="REMOVE", node=N4))
    assert view.state == "DONE", view.sentence
    (step,) = undone(view, world).steps
    assert isinstance(step, ChangeReplica)
    assert (step.change, step.node) == ("ADD_SECONDARY", N4)
    old = world.configs["2.0"]
    world.configs["2.0"] = replace(old, ballot=9, secondaries=(*old.secondaries, N2))
    with pytest.raises(PlanConflictError, match="no replica of it is missing"):
        undone(view, world)


def test_an_emptied_node_whose_replicas_are_elsewhere_is_told_by_number() -> None:
    world = a_world()
    steps = [
        ChangeReplica(partition=Partition.of(config, "temp"), change="REMOVE", node=N4)
        for config in world.configs.values()
    ]
    view = run(world, *steps)
    assert view.state == "DONE", view.sentence
    for gpid, config in world.configs.items():
        other = N3 if N2 in config.secondaries else N2
        world.configs[gpid] = replace(config, ballot=9, secondaries=(*config.secondaries, other))
    with pytest.raises(PlanConflictError, match="4 partitions already have") as caught:
        undone(view, world)
    assert "rebalance" in caught.value.hint


def test_nothing_is_taken_back_of_a_run_that_did_nothing() -> None:
    world: World = a_world()
    assert isinstance(world, PegasusWorld)
    world.faults["2.0"] = Faults("refused")
    view = run(world, move("2.0", N1, N3))
    with pytest.raises(PlanConflictError, match="cannot be undone"):
        undone(view, world)
