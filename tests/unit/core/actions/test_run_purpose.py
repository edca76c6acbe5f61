"""What a run is for: derived from its plan, read from the cluster at its end, done again."""

from __future__ import annotations

from dataclasses import replace

import pytest
from actions_world import Faults, Worker
from pegasus_snapshots import part_row, snapshot_of, whole
from pegasus_world import N1, N2, N3, N4, PegasusPort, PegasusWorld, batch, move, pegasus_plan

from core.actions.apply import CUT_SHORT
from core.actions.describe import describe_event, describe_purpose
from core.actions.dry_run import rehearse
from core.actions.events import Entry, PurposeChecked, Record, StepEnded, StepReopened
from core.actions.model import RunOptions
from core.actions.purpose import MAX_ATTEMPTS
from core.actions.views import RunView
from core.pegasus.partition import PartitionConfig
from core.pegasus.plan.purpose import lacking, purpose_of
from core.pegasus.steps.base import PegasusStep
from core.pegasus.steps.batch import PartitionProposal, ProposeMany
from core.pegasus.steps.change import ChangeReplica
from core.pegasus.steps.level import SetMetaLevel
from core.pegasus.steps.partition import Partition
from core.pegasus.steps.setting import SetServerSetting
from core.pegasus.steps.wait import Awaited, AwaitState
from core.systems import purpose_of as purpose_of_any
from dashboard.cli import run_answers
from dashboard.presenters.run_steps import purpose_words

FAST = RunOptions(pace_per_min=600, verify_within_s=4.0)
EMPTY = batch(N1, p0=N3, p1=N2, p2=N3, p3=N2)
GONE = AwaitState(state="no_primaries", node=N1, within_s=30.0)
LATER = AwaitState(state="running", node=N2)
LASTING = SetServerSetting(key="meta.lb.add_secondary_max_count_for_one_node", value="7")


def run(world: PegasusWorld, *steps: PegasusStep, options: RunOptions = FAST) -> RunView:
    world.ask(plan=pegasus_plan(world, steps), options=options)
    return world.outlive()


def leads_again(world: PegasusWorld, index: int) -> None:
    """Make N1 the primary of a partition, as a new leader's guardian may."""
    config = world.configs[f"2.{index}"]
    others = tuple(name for name in (config.primary, *config.secondaries) if name not in (N1, None))
    world.touched.add(config.gpid)
    world.configs[config.gpid] = replace(
        config, ballot=config.ballot + 1, primary=N1, secondaries=others
    )


def waits_until(world: PegasusWorld, moment_s: float) -> None:
    """Let the last step wait for a node until then."""
    del world.started[N2]
    world.at(moment_s, lambda: world.started.update({N2: "start 2"}))


def wait(state: Awaited, node: str | None = None) -> AwaitState:
    return AwaitState(state=state, node=node)


def change(word: str, node: str) -> ChangeReplica:
    partition = EMPTY.items[1].partition
    return ChangeReplica(partition=partition, change=word, node=node)  # type: ignore[arg-type]  # a word


def limit_for_the_run() -> SetServerSetting:
    return SetServerSetting(key=LASTING.key, before="10", value="0", is_restored=True)


DOWN = ProposeMany(
    node=N4,
    verb="DOWNGRADE_TO_INACTIVE",
    items=tuple(PartitionProposal(partition=item.partition) for item in EMPTY.items),
)


@pytest.mark.parametrize(
    ("steps", "purpose"),
    [
        ((EMPTY, GONE), f"{N1} has no primaries"),
        ((EMPTY, GONE, DOWN, wait("no_replicas", N1)), f"{N1} has no replicas"),
        (
            (EMPTY, GONE, DOWN, wait("no_replicas", N1), wait("gone", N1)),
            f"{N1} has no replicas and is not alive",
        ),
        (
            (EMPTY, GONE, wait("running", N1), wait("no_replicas", N1), wait("restarted", N1)),
            f"{N1} was restarted",
        ),
        ((move("2.1", N1, N2),), f"{N2} has the primary of 2.1"),
        ((move("2.1", N1, N2), move("2.1", N2, N4)), f"{N4} has the primary of 2.1"),
        ((move("2.1", N4, N3, "copy_sec"),), f"{N3} has the secondary of 2.1"),
        ((EMPTY,), "4 partitions have the replicas that the plan moves"),
        ((EMPTY, GONE, move("2.1", N2, N1)), "4 partitions have the replicas that the plan moves"),
        ((change("REMOVE", N2),), f"{N2} was removed from 2.1"),
        ((change("ADD_SECONDARY", N3),), f"{N3} has the secondary of 2.1"),
        ((SetMetaLevel(before="steady", level="lively"),), "meta level is lively"),
        ((SetMetaLevel(before="steady", level="lively", is_restored=True),), ""),
        ((LASTING,), f"{LASTING.key} is 7"),
        ((EMPTY, GONE, LASTING), f"{N1} has no primaries"),
        ((wait("balanced"),), "the balancer has nothing to do"),
        ((wait("healthy"),), ""),
    ],
)
def test_the_purpose_follows_from_the_steps(steps: tuple[PegasusStep, ...], purpose: str) -> None:
    plan = pegasus_plan(PegasusWorld(), steps)
    assert purpose_of(plan) == purpose_of_any(plan) == purpose


def test_a_run_whose_purpose_holds_is_done_and_says_so() -> None:
    world = PegasusWorld()
    view = run(world, EMPTY, GONE)
    assert view.state == "DONE", view.sentence
    assert purpose_words(view) == f"Purpose: {N1} has no primaries. Achieved: yes."
    assert run_answers.run(view)["purpose"] == {
        "what": f"{N1} has no primaries",
        "holds": True,
        "sentence": "",
    }


def test_before_the_end_the_purpose_is_shown_and_not_judged() -> None:
    world = PegasusWorld()
    world.ask(plan=pegasus_plan(world, (EMPTY, GONE)), options=FAST)
    assert purpose_words(world.view) == f"Purpose: {N1} has no primaries."
    assert run_answers.run(world.view)["purpose"]["holds"] is None


def test_what_came_back_is_moved_off_again() -> None:
    world = PegasusWorld()
    waits_until(world, 40.0)
    world.at(20.0, lambda: leads_again(world, 1))
    view = run(world, EMPTY, GONE, LATER)
    assert view.state == "DONE", view.sentence
    assert [step.attempt for step in view.steps] == [2, 2, 1]
    assert world.sent_steps == [0, 0]
    assert {config.primary for config in world.configs.values()} == {N2, N3}
    first, second = world.events(StepReopened)
    assert first.sentence == f"{N1} has 1 partition again (2.1)."
    assert describe_event(second).what == "Step 2 reopened: Step 1 is executed again."


def test_what_comes_back_while_a_later_step_waits_is_moved_off_at_once() -> None:
    world = PegasusWorld()
    waits_until(world, 300.0)
    seen: list[int] = []
    world.at(20.0, lambda: leads_again(world, 1))
    world.at(120.0, lambda: seen.append(sum(one.primary == N1 for one in world.configs.values())))
    assert run(world, EMPTY, GONE, LATER).state == "DONE"
    assert seen == [0]


def test_a_node_that_was_restarted_may_have_its_replicas_again() -> None:
    world = PegasusWorld()
    world.at(10.0, lambda: world.restart(N1, "start 2"))
    world.at(11.0, lambda: leads_again(world, 1))
    waits_until(world, 100.0)
    view = run(world, wait("running", N1), EMPTY, GONE, wait("restarted", N1), LATER)
    assert view.state == "DONE", view.sentence
    assert not world.events(StepReopened)


def test_it_is_tried_a_few_times_and_then_reported() -> None:
    world = PegasusWorld()
    waits_until(world, 600.0)
    for turn in range(MAX_ATTEMPTS):
        world.at(20.0 + 100.0 * turn, lambda: leads_again(world, 1))
    view = run(world, EMPTY, GONE, LATER)
    assert view.state == "FAILED"
    assert [step.attempt for step in view.steps] == [MAX_ATTEMPTS, MAX_ATTEMPTS, 1]
    assert view.sentence.startswith(
        f"Not achieved: {N1} has no primaries. {N1} still has 1 primary."
    )


def test_a_partition_that_is_new_on_the_node_is_named() -> None:
    world = PegasusWorld()
    new = PartitionConfig(
        app_id=2, index=4, ballot=3, max_replica_count=3, primary=N1, secondaries=(N2, N3)
    )
    world.at(0.5, lambda: world.configs.update({new.gpid: new}))
    view = run(world, EMPTY, GONE)
    assert view.state == "FAILED"
    assert view.purpose is not None
    assert view.purpose.sentence == f"{N1} still has 1 primary."


def test_a_batch_of_a_table_that_was_dropped_leaves_the_rest_to_be_done() -> None:
    world = PegasusWorld()
    other = Partition.of(replace(world.configs["2.0"], app_id=9), "dropped")
    lost = ProposeMany(
        node=N1, verb="move_pri", items=(PartitionProposal(partition=other, target=N2),)
    )
    view = run(world, lost, EMPTY, GONE)
    assert [step.state for step in view.steps] == ["SKIPPED", "DONE", "DONE"], view.sentence
    assert view.state == "DONE"


def test_a_partition_that_was_to_move_and_was_dropped_is_named() -> None:
    world = PegasusWorld()
    view = run(world, move("2.1", N1, N2), move("2.2", N1, N3))
    snapshot = snapshot_of(whole([part_row(2, 2, N3, [N1, N4])]))
    assert lacking(view, snapshot) == "Partition 2.1 does not exist."


@pytest.mark.parametrize(
    ("steps", "sentence"),
    [
        ((EMPTY, GONE), ""),
        ((EMPTY, GONE, wait("gone", N1)), ""),
        ((EMPTY, GONE, wait("restarted", N1)), f"No restart of {N1} was observed."),
    ],
)
def test_a_node_that_the_cluster_has_forgotten_holds_nothing(
    steps: tuple[PegasusStep, ...], sentence: str
) -> None:
    world = PegasusWorld()
    world.ask(plan=pegasus_plan(world, steps), options=FAST)
    content = whole([part_row(2, at, N2, [N3, N4]) for at in range(4)])
    content["nodes"] = [row for row in content["nodes"] if row["node"] != N1]
    assert lacking(world.view, snapshot_of(content)) == sentence


def test_a_child_of_a_split_is_on_the_node_once_it_has_registered() -> None:
    world = PegasusWorld()
    world.ask(plan=pegasus_plan(world, (EMPTY, GONE)), options=FAST)
    parents = [part_row(2, at, N2, [N3, N4]) for at in range(4)]
    child = part_row(2, 4, None, ballot=-1)
    assert lacking(world.view, snapshot_of(whole([*parents, child]))) == ""
    registered = part_row(2, 4, N1, [N3, N4])
    found = lacking(world.view, snapshot_of(whole([*parents, registered])))
    assert found == f"{N1} still has 1 primary."


def test_a_run_that_did_little_and_was_skipped_for_the_rest_is_not_done() -> None:
    """Four steps of many were done, the rest was refused or not emptied: never exit code 0."""
    world = PegasusWorld()
    world.faults[N1] = Faults("swallowed")
    view = run(world, EMPTY, GONE, move("2.0", N3, N2), options=replace(FAST, max_failures=9))
    assert view.state == "FAILED"
    assert view.sentence.startswith("Not achieved: ")
    assert {"not_emptied", "not_awaited"} <= CUT_SHORT


def test_what_others_moved_meanwhile_is_well_where_the_purpose_holds() -> None:
    world = PegasusWorld()
    for index in range(4):
        world.at(0.1, lambda gpid=f"2.{index}": world.move_primary_by_others(gpid))
    view = run(world, limit_for_the_run(), EMPTY, GONE)
    assert [step.state for step in view.steps] == ["DONE", "SKIPPED", "DONE"], view.sentence
    assert view.state == "DONE"


def test_a_cluster_that_cannot_be_read_at_the_end_leaves_it_unknown() -> None:
    world = PegasusWorld()
    waits_until(world, 5.0)
    world.at(5.2, lambda: setattr(world, "is_dark", True))
    view = run(world, EMPTY, GONE, LATER)
    assert view.state == "FAILED"
    (checked,) = world.events(PurposeChecked)
    assert checked.holds is None
    assert "Achieved: unknown." in describe_purpose(checked)
    assert view.sentence.startswith("Unknown whether achieved: ")


def dark_at_the_end(world: PegasusWorld, until_s: float = 1e9) -> None:
    """Let the cluster be unreadable from the end of the last step, the second one, on."""
    put = world.put

    def put_and_see(record: Record) -> Entry:
        if isinstance(record.event, StepEnded) and record.event.step == 1:
            world.is_dark = world.now_s < until_s
        return put(record)

    setattr(world, "put", put_and_see)  # noqa: B010  # a method, to mypy
    world.at(until_s, lambda: setattr(world, "is_dark", False))


def test_a_stop_during_the_last_check_is_a_stop_where_the_purpose_is_not_known() -> None:
    world = PegasusWorld()
    dark_at_the_end(world)
    world.at(20.0, lambda: world.control("stop", "enough"))
    view = run(world, EMPTY, GONE)
    assert view.state == "STOPPED"
    assert [step.state for step in view.steps] == ["DONE"] * 2
    assert world.now_s < 25
    assert view.sentence.startswith(f"Unknown whether achieved: {N1} has no primaries. ")
    assert view.sentence.endswith(" bob stopped the run at 12:00:20 UTC: enough.")


def test_a_stop_during_the_last_check_is_a_stop_where_the_purpose_does_not_hold() -> None:
    world = PegasusWorld()
    dark_at_the_end(world, 20.0)
    world.at(20.0, lambda: leads_again(world, 1))
    world.at(20.0, lambda: world.control("stop"))
    view = run(world, EMPTY, GONE)
    assert view.state == "STOPPED"
    assert not world.events(StepReopened)
    assert view.sentence.startswith(
        f"Not achieved: {N1} has no primaries. {N1} still has 1 primary"
    )
    assert view.sentence.endswith(" bob stopped the run at 12:00:20 UTC.")


def test_a_stop_during_the_last_check_changes_nothing_where_the_purpose_holds() -> None:
    world = PegasusWorld()
    dark_at_the_end(world, 20.0)
    world.at(20.0, lambda: world.control("stop"))
    view = run(world, EMPTY, GONE)
    assert view.state == "DONE"
    assert "stopped" not in view.sentence


def test_the_last_check_reads_an_unreadable_cluster_again_every_two_seconds() -> None:
    world = PegasusWorld()
    readings: list[float] = []
    reach = PegasusPort.reach

    def counted(port: PegasusPort) -> None:
        if world.is_dark:
            readings.append(world.now_s)
        reach(port)

    dark_at_the_end(world, 25.0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PegasusPort, "reach", counted)
        assert run(world, EMPTY, GONE).state == "DONE"
    assert 9 <= len(readings) <= 13


def test_a_dry_run_judges_no_purpose() -> None:
    world = PegasusWorld()
    worker = Worker(world, "dry")
    plan = pegasus_plan(world, (EMPTY, GONE))
    found = rehearse(plan, FAST, cluster=PegasusPort(worker), clock=worker.ports.clock)
    assert found.state == "DONE", found.sentence


def test_a_pending_request_of_an_earlier_run_refuses_the_plan_before_a_setting_is_changed() -> None:
    world = PegasusWorld(pending_before={"2.1"})
    view = run(world, limit_for_the_run(), EMPTY, GONE)
    assert view.state == "REFUSED"
    assert view.refusal is not None
    assert view.refusal.code == "pending"
    assert "2.1" in view.refusal.sentence
    assert world.sent_steps == []
    assert view.settings == ()


def test_a_plan_that_discards_what_is_pending_first_may_run() -> None:
    world = PegasusWorld(level="lively", level_before="lively", pending_before={"2.1"})
    steady = SetMetaLevel(before="lively", level="steady", is_restored=True)
    view = run(world, steady, EMPTY, GONE)
    assert view.state == "DONE", view.sentence
