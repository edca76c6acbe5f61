"""Every reason why a step, or a whole run, is not begun."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from actions_world import BASE, MOVABLE, OWNERS, RUN, Worker, World, plan_of

from core.actions import guards
from core.actions.events import Record, RunClaimed, StepStarted
from core.actions.model import Observation, RunId, RunOptions, StepResult
from core.actions.preconditions import plan_refusal, run_refusal
from core.actions.reconcile import write_result
from core.actions.request import RunLimits, check_request
from core.actions.session import Session
from core.errors import InputError, PlanError
from core.plan.model import Diagnostic, Plan, sealed

FIRST = MOVABLE[0]
ERROR = Diagnostic(severity="error", code="x", sentence="It is split.", hint="Specify the parts.")


def _session(world: World, *, claimed: bool = True) -> Session:
    worker = Worker(world, "w1")
    world.holder = "w1"
    session = Session(RUN, worker.ports)
    if claimed:
        session.record(RunClaimed(worker="w1", lease="here"))
    return session


def _refusal_of(world: World, plan: Plan) -> str:
    world.ask(plan=plan)
    refusal = run_refusal(_session(world, claimed=False))
    return refusal.code if refusal else ""


REFUSED: dict[str, Callable[[Plan], Plan]] = {
    "": lambda p: p,
    "another_cluster": lambda p: sealed(replace(p, cluster="other")),
    "format_version": lambda p: sealed(replace(p, format_version=1)),
    "plan_changed": lambda p: replace(p, reason="edited"),
    "not_applyable": lambda p: sealed(
        replace(p, applyable=False, errored=True, diagnostics=(ERROR,))
    ),
    "plan_expired": lambda p: sealed(replace(p, expires_at=p.created_at)),
    "too_many_steps": lambda p: sealed(replace(p, steps=p.steps * 201)),
}
"""By code: what is done to a plan that may run."""


@pytest.mark.parametrize("code", REFUSED)
def test_a_plan_is_refused_with_one_code_by_page_request_and_worker(code: str) -> None:
    world = World()
    plan = REFUSED[code](plan_of(world, [FIRST]))
    assert _refusal_of(world, plan) == code
    cluster, now = "fleet", plan.created_at
    limits = RunLimits(pace_per_min=600.0, max_failures=1, max_steps=200, is_read_only=False)
    refusal = plan_refusal(plan, cluster=cluster, is_read_only=False, max_steps=200, now=now)
    assert (refusal.code if refusal else "") == code
    if refusal is None:
        check_request(plan, cluster, limits, now)
        return
    assert refusal.sentence
    with pytest.raises(PlanError) as caught:
        check_request(plan, cluster, limits, now)
    assert (caught.value.message, caught.value.hint) == (refusal.sentence, refusal.hint)


def test_a_plan_without_steps_is_refused() -> None:
    world = World()
    plan = sealed(replace(plan_of(world, [FIRST]), applyable=False, steps=()))
    assert _refusal_of(world, plan) == "not_applyable"


def test_a_read_only_cluster_refuses_every_run() -> None:
    world = World(is_read_only=True)
    assert _refusal_of(world, plan_of(world, [FIRST])) == "read_only"


@pytest.mark.parametrize(
    "options", [RunOptions(pace_per_min=0), RunOptions(verify_within_s=-1)], ids=str
)
def test_options_that_cannot_be_are_refused(options) -> None:
    world = World()
    world.ask(options=options)
    refusal = run_refusal(_session(world, claimed=False))
    assert refusal is not None
    assert refusal.code == "bad_options"
    assert "above 0" in refusal.sentence


def test_a_run_that_nobody_asked_for_is_an_error() -> None:
    with pytest.raises(InputError, match="There is no run"):
        Session(RUN, Worker(World(), "w1").ports)


def _asked(**options: object) -> World:
    world = World()
    world.ask(options=RunOptions(**options))  # type: ignore[arg-type]  # the options' own names
    return world


def _fresh(session: Session) -> Session:
    session.snapshot = BASE
    session.snapshot_at_s = session.ports.clock.monotonic()
    return session


def test_nothing_holds_a_step_that_may_begin() -> None:
    assert guards.first_result(_fresh(_session(_asked()))) is None


def test_the_process_is_to_end() -> None:
    world = _asked()
    world.shutting_down.add("w1")
    found = guards.first_result(_session(world))
    assert found is not None
    assert (found.effect, found.refusal.code) == ("leave", "worker_stopping")


@pytest.mark.parametrize(("reason", "end"), [("", "UTC."), ("too slow", "UTC: too slow.")])
def test_a_stop_names_who_and_why(reason, end) -> None:
    world = _asked()
    session = _session(world)
    world.control("stop", reason)
    world.control("resume")  # a stop is not taken back
    session.refresh()
    found = guards.first_result(session)
    assert found is not None
    assert (found.effect, found.refusal.code) == ("end", "stopped")
    assert found.refusal.sentence == f"bob stopped the run at 12:00:00 {end}"


def test_the_lease_is_lost() -> None:
    world = _asked()
    session = _session(world)
    world.holder = "thief"
    found = guards.first_result(session)
    assert found is not None
    assert (found.effect, found.refusal.code) == ("leave", "lease_lost")
    assert "no longer holds zookeeper 127.0.0.1:2181/trimtab/writer" in found.refusal.sentence


def test_a_cluster_that_became_read_only_ends_the_run() -> None:
    world = _asked()
    session = _session(world)
    world.is_read_only = True
    found = guards.first_result(session)
    assert found is not None
    assert (found.effect, found.refusal.code) == ("end", "read_only")


def test_an_excluded_namespace_is_skipped_and_no_other() -> None:
    world = _asked()
    session = _fresh(_session(world))
    world.exclusions = ("globex/*",)
    assert guards.first_result(session) is None
    world.exclusions = ("globex/*", "acme/*")
    found = guards.first_result(session)
    assert found is not None
    assert (found.effect, found.refusal.code) == ("skip", "excluded")
    assert "matches acme/*" in found.refusal.sentence


def test_a_snapshot_grows_old() -> None:
    world = _asked()
    session = _fresh(_session(world))
    world.pass_time(60.0)
    assert guards.first_result(session) is None
    world.pass_time(0.1)
    found = guards.first_result(session)
    assert found is not None
    assert found.effect == "renew"


def test_the_days_moves_are_spent() -> None:
    world = _asked(pace_per_min=600)
    world.moves_per_day = 2
    world.work()
    assert [step.state for step in world.view.steps] == ["DONE", "DONE", "SKIPPED"]
    result = world.view.steps[2].result
    assert result is not None
    assert result.code == "moves_per_day"
    assert result.sentence == "2 steps started on fleet within 24 h; moves_per_day is 2."
    assert world.view.state == "FAILED"


def test_the_pace_is_kept_and_told() -> None:
    world = _asked(pace_per_min=6)
    session = _session(world)
    session.record(StepStarted(step=0, observed=Observation(exists=True, holder=OWNERS[FIRST])))
    write_result(
        session, session.view.steps[0], StepResult(state="DONE", code="landed", sentence=".")
    )
    world.pass_time(4.0)
    found = guards.pace(session)
    assert found is not None
    assert (found.effect, found.wait_s) == ("wait", 6.0)
    assert found.refusal.sentence == (
        "Rate: 6 steps/min. The next step starts 10.0 s after the previous one, in 6.0 s."
    )
    world.clock_off_s = -1000.0  # a clock that is set back: time goes on all the same
    back = guards.pace(session)
    assert back is not None
    assert back.wait_s == 6.0
    ahead = guards.pace(_session(world))  # to another worker the one before was ahead
    assert ahead is not None
    assert ahead.wait_s == 10.0


def test_the_pace_is_the_clusters_whichever_run_began_the_step_before() -> None:
    world = _asked(pace_per_min=6)
    begun = StepStarted(step=0, observed=Observation(exists=True, holder=OWNERS[FIRST]))
    other = RunId("20261121-115900-00000f")
    world.put(Record(run_id=other, cluster="fleet", at=world.moment, actor="w0", event=begun))
    world.pass_time(4.0)
    found = guards.pace(_session(world))
    assert found is not None
    assert found.wait_s == 6.0
    world.pass_time(6.0)
    assert guards.pace(_session(world)) is None


def test_nothing_is_left_whose_namespace_could_be_excluded() -> None:
    world = _asked()
    world.work()
    assert guards.exclusions(Session(RUN, Worker(world, "w1").ports)) is None
