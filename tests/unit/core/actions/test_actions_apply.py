"""One run from its request to its end, in virtual time."""

from __future__ import annotations

from datetime import timedelta

import pytest
from actions_world import BROKERS, MOVABLE, OWNERS, RUN, Death, Faults, Worker, World, plan_of

from core.actions.apply import reconcile_run
from core.actions.events import (
    ExternalMove,
    RunClaimed,
    RunEnded,
    RunPaused,
    RunResumed,
    StepEnded,
    StepStarted,
)
from core.actions.model import RunOptions, RunState, StepResult
from core.actions.reconcile import LANDING_GRACE_S, needs_reconciling
from core.actions.session import UNREADABLE_FOR_S

FIRST, SECOND, THIRD = MOVABLE[:3]
QUICK = RunOptions(pace_per_min=600, verify_within_s=5.0)
UNSERVED = "Not achieved: each bundle is unloaded, and a broker serves it."


def _asked(options: RunOptions = QUICK, **more: object) -> World:
    world = World()
    world.ask(options=options, **more)  # type: ignore[arg-type]  # the request's own names
    return world


def _dead_after_sending(world: World) -> None:
    """Let the worker die as soon as something was sent; another one may follow."""

    def die(where: str) -> None:
        if where == "after send":
            world.on_cross = None
            world.dies_at = len(world.crossings)

    world.on_cross = die
    with pytest.raises(Death):
        world.work()


def _codes(world: World) -> list[str]:
    return [step.result.code if step.result else step.state for step in world.view.steps]


def _ending(world: World, step: int) -> StepResult:
    result = world.view.steps[step].result
    assert result is not None
    return result


def test_a_run_does_its_steps_in_order_and_ends() -> None:
    world = _asked(destination=BROKERS[3])
    assert world.work() == "DONE"
    assert [name for _, _, name in world.sends] == [FIRST, SECOND, THIRD]
    assert _codes(world) == ["landed"] * 3
    assert all(world.owners[name] == BROKERS[3] for name in (FIRST, SECOND, THIRD))
    assert world.view.sentence == "3 of 3 steps done in 2 s."
    first = world.view.steps[0]
    assert first.before is not None
    assert first.before.holder == OWNERS[FIRST]
    assert first.took_ms == 500.0


def test_an_ended_run_is_left_alone() -> None:
    world = _asked()
    world.work()
    entries = len(world.entries)
    assert world.work("w2") == "DONE"
    assert len(world.entries) == entries


def test_without_the_lease_nothing_happens() -> None:
    world = _asked()
    world.holder = "somebody"
    assert world.work() == "QUEUED"
    assert len(world.entries) == 1


def test_a_refused_run_never_begins() -> None:
    world = _asked()
    world.is_read_only = True
    assert world.work() == "REFUSED"
    assert world.view.refusal is not None
    assert world.view.refusal.code == "read_only"
    assert not world.events(RunClaimed)


def test_a_lost_hint_is_said_and_the_next_move_offered() -> None:
    world = _asked(destination=BROKERS[3])
    world.faults[SECOND] = Faults(lands_on=BROKERS[1])
    assert world.work() == "DONE"
    assert _codes(world) == ["landed", "landed_elsewhere", "landed"]
    assert "; 1 moved elsewhere than requested." in world.view.sentence
    assert [(s.bundle, s.owner) for s in world.view.next_moves] == [(SECOND, BROKERS[1])]


@pytest.mark.parametrize(
    ("answer", "code", "words"),
    [
        ("refused", "refused", "was refused: The broker answered 409: the bundle is being split."),
        ("not_sent", "not_sent", "could not be sent: Connection refused."),
        ("swallowed", "not_done", "is still on"),
    ],
)
def test_a_failed_step_ends_the_run_in_the_clusters_words(answer, code, words) -> None:
    world = _asked()
    world.faults[FIRST] = Faults(answer)
    assert world.work() == "FAILED"
    assert _codes(world) == [code, "max_failures", "max_failures"]
    assert words in _ending(world, 0).sentence
    assert _ending(world, 1).sentence.startswith("1 step failed; the run stops at 1. The last")
    assert world.view.sentence.startswith(f"{UNSERVED} No step was done. 0 of 3 steps done in ")
    assert "First: " in world.view.sentence


def test_a_bundle_on_its_way_is_not_given_up_at_a_glance() -> None:
    world = _asked(RunOptions(pace_per_min=600, verify_within_s=1.0), destination=BROKERS[3])
    world.faults[FIRST] = Faults(after_s=LANDING_GRACE_S - 1.0)
    assert world.work() == "DONE"
    assert _codes(world) == ["landed"] * 3
    assert world.owners[FIRST] == BROKERS[3]


def test_what_a_dead_worker_left_is_watched_before_it_counts_as_given_up() -> None:
    world = _asked(RunOptions(pace_per_min=600, verify_within_s=1.0), destination=BROKERS[3])
    world.faults[FIRST] = Faults(after_s=LANDING_GRACE_S - 1.0)
    _dead_after_sending(world)
    world.pass_time(5.0)
    assert world.work("w2") == "DONE"
    assert _codes(world) == ["landed"] * 3
    assert world.view.steps[0].is_reconciled


def test_a_bundle_that_nobody_asks_for_is_given_up_after_the_grace() -> None:
    world = _asked(RunOptions(pace_per_min=600, verify_within_s=1.0))
    world.faults[FIRST] = Faults(is_looked_up=False)
    assert world.work() == "DONE"
    assert _codes(world) == ["idle", "landed", "landed"]
    took_ms = world.view.steps[0].took_ms
    assert took_ms is not None
    assert LANDING_GRACE_S * 1000 <= took_ms < LANDING_GRACE_S * 1000 + 2000


def test_what_the_request_was_answered_stays_with_a_step_that_went_wrong() -> None:
    world = _asked(destination=BROKERS[3])
    world.faults[FIRST] = Faults("late", after_s=999.0)
    world.at(20.0, world.under_way.clear)
    words = "Response to the request: No answer within 5 s."
    world.work()
    unknown = next(e for e in world.events(StepEnded) if isinstance(e, StepEnded))
    assert unknown.result.state == "UNKNOWN"
    assert unknown.result.sentence.endswith(words)
    assert _ending(world, 0).code == "not_done"
    assert _ending(world, 0).sentence.endswith(words)


def test_more_failures_are_borne_where_the_options_say_so() -> None:
    world = _asked(RunOptions(pace_per_min=600, verify_within_s=5.0, max_failures=2))
    world.faults[FIRST] = Faults("refused")
    assert world.work() == "FAILED"
    assert _codes(world) == ["refused", "landed", "landed"]
    after = _ending(world, 0).after
    assert after is not None
    assert after.holder == OWNERS[FIRST]


def test_a_refusal_of_a_cluster_gone_dark_has_no_last_look() -> None:
    world = _asked()
    world.faults[FIRST] = Faults("not_sent")
    world.on_cross = lambda where: where == "before send" and setattr(world, "is_dark", True)
    world.work()
    assert _ending(world, 0).code == "not_sent"
    assert _ending(world, 0).after is None


def test_a_lost_answer_is_settled_by_looking() -> None:
    world = _asked()
    world.faults[FIRST] = Faults("lost")
    assert world.work() == "DONE"
    assert [name for _, _, name in world.sends].count(FIRST) == 1


def test_what_may_still_happen_is_unknown_and_waited_for() -> None:
    world = _asked()
    world.faults[SECOND] = Faults("late", after_s=30.0)
    assert world.work() == "DONE"
    ended = [e for e in world.events(StepEnded) if isinstance(e, StepEnded) and e.step == 1]
    assert [e.result.state for e in ended] == ["UNKNOWN", "DONE"]
    assert ended[1].is_reconciled
    begun = [e.record.at for e in world.entries if isinstance(e.record.event, StepStarted)]
    assert (begun[2] - begun[1]).total_seconds() > 29  # nothing is begun while one is unknown


def test_what_stays_unknown_ends_the_run_and_is_settled_afterwards() -> None:
    world = _asked()
    world.faults[SECOND] = Faults("late", after_s=300.0)
    assert world.work() == "FAILED"
    assert _codes(world) == ["landed", "timed_out", "result_unknown"]
    assert f"Step 2 ({SECOND}) has had an unknown result for 60 s" in _ending(world, 2).sentence
    world.holder = "w9"
    ports = Worker(world, "w9").ports
    assert reconcile_run(RUN, ports).steps[1].state == "UNKNOWN"
    world.pass_time(300.0)
    assert needs_reconciling(world.view, world.moment)
    assert not needs_reconciling(world.view, world.moment + timedelta(hours=1))
    assert reconcile_run(RUN, ports).steps[1].state == "DONE"
    assert not needs_reconciling(world.view, world.moment)
    assert world.view.state == "FAILED"


def test_an_open_run_is_not_settled_afterwards() -> None:
    world = _asked()
    world.holder = "w9"
    assert reconcile_run(RUN, Worker(world, "w9").ports).state == "QUEUED"


def test_a_last_step_that_stays_unknown_is_waited_for_too() -> None:
    world = _asked(bundles=[FIRST])
    world.faults[FIRST] = Faults("late", after_s=300.0)
    assert world.work() == "FAILED"
    assert _codes(world) == ["timed_out"]
    done = "No step was done. 0 of 1 step done in 71 s; 1 unknown (timed out). First: "
    assert world.view.sentence.startswith(f"{UNSERVED} {done}")


def test_a_cluster_that_cannot_be_looked_at_leaves_the_step_unknown() -> None:
    world = _asked(bundles=[FIRST])
    world.on_cross = lambda where: where == "after send" and setattr(world, "is_dark", True)
    assert world.work() == "FAILED"
    assert _ending(world, 0).state == "UNKNOWN"
    assert "within 5 s" in _ending(world, 0).sentence


def test_a_stop_finishes_the_step_under_way_and_no_other() -> None:
    world = _asked()
    world.faults[FIRST] = Faults(after_s=3.0)
    world.at(1.0, lambda: world.control("stop", "too slow"))
    assert world.work() == "STOPPED"
    assert _codes(world) == ["landed", "stopped", "stopped"]
    assert "; 2 skipped (stopped). First: bob stopped the run" in world.view.sentence


def test_a_stop_that_came_too_late_changes_nothing() -> None:
    world = _asked(bundles=[FIRST])
    world.at(0.5, lambda: world.control("stop"))
    assert world.work() == "DONE"


def test_a_pause_holds_until_it_is_resumed() -> None:
    world = _asked()
    world.at(0.4, lambda: world.control("pause", "lunch"))
    world.at(30.0, lambda: world.control("resume"))
    assert world.work() == "DONE"
    paused, resumed = world.events(RunPaused)[0], world.events(RunResumed)[0]
    assert isinstance(paused, RunPaused)
    assert paused.sentence == "bob paused the run: lunch."
    assert isinstance(resumed, RunResumed)
    assert resumed.sentence == "bob resumed the run."
    assert world.sends[1][0] >= 30.0


def test_a_paused_run_whose_plan_expired_is_not_continued() -> None:
    world = _asked(lifetime_s=20.0)
    world.at(0.4, lambda: world.control("pause"))
    world.at(30.0, lambda: world.control("resume"))
    assert world.work() == "FAILED"
    assert _codes(world) == ["landed", "plan_expired", "plan_expired"]
    assert "resumed 10" in _ending(world, 1).sentence


def test_a_run_taken_over_after_its_plan_expired_is_not_continued() -> None:
    world = _asked(lifetime_s=20.0)
    world.at(1.0, lambda: world.shutting_down.add("w1"))
    world.faults[FIRST] = Faults(after_s=1.2)
    assert world.work() == "RUNNING"
    assert _codes(world) == ["landed", "PENDING", "PENDING"]  # it looked a moment longer
    world.pass_time(60.0)
    assert world.work("w2") == "FAILED"
    assert _codes(world) == ["landed", "plan_expired", "plan_expired"]
    assert world.view.takeovers == 1


def test_a_process_that_is_told_to_end_leaves_the_run_to_the_next() -> None:
    world = _asked()
    world.shutting_down.add("w1")
    assert world.work() == "RUNNING"
    assert not world.sends
    assert world.work("w2") == "DONE"


def test_the_same_worker_goes_on_without_a_new_claim() -> None:
    world = _asked()
    world.shutting_down.add("w1")
    world.work()
    world.shutting_down.clear()
    assert world.work() == "DONE"
    assert len(world.events(RunClaimed)) == 1


def test_a_lease_lost_under_way_ends_the_acting_and_the_step_is_looked_at() -> None:
    world = _asked()
    world.faults[FIRST] = Faults(after_s=2.0)
    world.at(1.0, lambda: setattr(world, "holder", "thief"))
    assert world.work() == "RUNNING"
    assert _codes(world) == ["landed", "PENDING", "PENDING"]
    world.holder = None
    assert world.work("w2") == "DONE"


def test_a_lease_lost_after_the_intent_sends_nothing() -> None:
    world = _asked()
    lose = {"after append StepStarted"}
    world.on_cross = lambda where: where in lose and setattr(world, "holder", "thief")
    assert world.work() == "RUNNING"
    assert not world.sends
    world.on_cross = world.holder = None
    assert world.work("w2") == "FAILED"
    assert _codes(world) == ["not_done", "max_failures", "max_failures"]


def test_a_bundle_that_moved_since_the_check_is_skipped_and_told() -> None:
    world = _asked()
    other = next(broker for broker in BROKERS if broker != OWNERS[SECOND])
    world.at(0.4, lambda: world.move(SECOND, other))
    assert world.work() == "DONE"
    assert _codes(world) == ["landed", "moved_meanwhile", "landed"]
    moves = [e for e in world.events(ExternalMove) if isinstance(e, ExternalMove)]
    assert [(m.subject, m.source, m.destination) for m in moves] == [
        (SECOND, OWNERS[SECOND], other)
    ]
    assert moves[0].sentence == (
        f"{SECOND} moved from {OWNERS[SECOND]} to {other} during the run, but not as one of its "
        "steps."
    )


def test_a_bundle_that_is_gone_is_skipped() -> None:
    world = _asked()
    world.at(0.4, lambda: world.gone.add(SECOND))
    world.work()
    assert _codes(world) == ["landed", "gone", "landed"]


def test_what_no_longer_passes_the_plans_own_checks_is_skipped_at_once() -> None:
    world = World()
    plan = plan_of(world, [FIRST, SECOND])
    world.gone.add(FIRST)
    world.ask(plan=plan, options=QUICK)
    assert world.work() == "FAILED"  # not every bundle was unloaded
    assert _codes(world) == ["unknown_bundle", "landed"]
    assert f"Not unloaded: 1 ({FIRST})." in world.view.sentence


def test_a_run_that_did_nothing_failed() -> None:
    world = World()
    plan = plan_of(world, [FIRST])
    world.gone.add(FIRST)
    world.ask(plan=plan)
    assert world.work() == "FAILED"


def test_plan_that_allows_itself_years_is_refused() -> None:
    world = _asked(lifetime_s=73 * 365 * 86_400.0)
    assert world.work() == "REFUSED"
    refusal = world.view.refusal
    assert refusal is not None
    assert refusal.code == "plan_lifetime"
    assert "60 min" in refusal.sentence


def test_an_excluded_step_is_skipped() -> None:
    world = _asked()
    world.at(0.4, lambda: setattr(world, "exclusions", ("acme/*",)))
    world.work()
    assert _codes(world) == ["landed", "excluded", "excluded"]


@pytest.mark.parametrize(("light_after_s", "state"), [(30.0, "DONE"), (1e9, "FAILED")])
def test_a_dark_cluster_is_waited_for_so_long(light_after_s: float, state: RunState) -> None:
    world = _asked(lifetime_s=3_000.0)
    world.is_dark = True
    world.at(light_after_s, lambda: setattr(world, "is_dark", False))
    assert world.work() == state
    if state == "FAILED":
        assert _codes(world) == ["cluster_unreadable"] * 3
        assert UNREADABLE_FOR_S <= world.now_s < UNREADABLE_FOR_S + 10


def test_a_cluster_that_goes_dark_between_steps_is_waited_for() -> None:
    world = _asked()

    def darken(where: str) -> None:
        if where == "after append StepEnded":
            world.on_cross = None
            world.is_dark = True
            world.at(world.now_s + 20.0, lambda: setattr(world, "is_dark", False))

    world.on_cross = darken
    assert world.work() == "DONE"
    assert world.sends[1][0] > 20.0


def test_a_snapshot_grown_old_is_taken_anew() -> None:
    world = _asked(RunOptions(pace_per_min=1.5, verify_within_s=5.0))
    world.work()
    assert world.crossings.count("snapshot") == 3  # at the start, at 80 s, and at the end


def test_the_end_is_told_once() -> None:
    world = _asked()
    world.work()
    assert len(world.events(RunEnded)) == 1


def test_a_worker_that_finds_anothers_claim_stops_before_it_sends() -> None:
    world = _asked()

    def rival(where: str) -> None:
        if where == "before append StepStarted":
            world.on_cross = None
            world.holder = None
            world.work("rival")
            world.current = "w1"

    world.on_cross = rival
    assert world.work() == "DONE"
    assert {worker for _, worker, _ in world.sends} == {"rival"}
    assert len(world.view.disregarded) > 0


def test_two_workers_that_refuse_and_claim_at_once_do_not_disagree() -> None:
    world = _asked()

    def expire(where: str) -> None:
        if where == "before append RunClaimed":
            world.on_cross = None
            world.pass_time(900.0)
            world.holder = None
            world.work("rival")

    world.on_cross = expire
    assert world.work() == "REFUSED"
    assert not world.sends


@pytest.mark.parametrize(("whole_after_s", "code"), [(3.0, "landed"), (1e9, "unknown_bundle")])
def test_a_snapshot_with_holes_is_taken_anew_before_it_is_believed(whole_after_s, code) -> None:
    world = _asked()
    world.holes = {SECOND}
    world.at(whole_after_s, world.holes.clear)
    assert world.work() == ("DONE" if code == "landed" else "FAILED")
    assert _codes(world) == ["landed", code, "landed"]
