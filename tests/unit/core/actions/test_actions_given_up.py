"""A cluster that never answers: a stop and a process that ends do not wait for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace

import pytest
from actions_world import MOVABLE, RUN, SHEDDING, Faults, Worker, World

from core.actions.apply import execute_run
from core.actions.events import ControlRequested
from core.actions.model import Refusal, RunOptions, RunState
from core.actions.reconcile import LOOK_WITHIN_S
from core.actions.session import LEAVE_AFTER_S, SLICE_S
from core.errors import GivenUpError, RemoteTimeoutError

FIRST = MOVABLE[0]
OPTIONS = RunOptions(pace_per_min=600, verify_within_s=10.0)
ANSWER_S = 10.0
SLICE_OF_WAIT_S = 0.2
SOON_S = 1.0
REFUSED = Refusal(code="forbidden", sentence="bob may not stop runs.")
PLACES = ["snapshot", "look", "before send", "after send"]


@dataclass
class Hanging:
    """Lets the cluster hang at places, as a client with limits does: until they are over."""

    world: World
    places: set[str] = field(default_factory=set)
    given_up: list[Callable[[], bool]] = field(default_factory=list)
    until_s: list[float] = field(default_factory=list)
    has_hung: bool = False

    @contextmanager
    def unless(self, is_given_up: Callable[[], bool]) -> Iterator[None]:
        self.given_up.append(is_given_up)
        yield
        self.given_up.remove(is_given_up)

    @contextmanager
    def within(self, seconds: float) -> Iterator[None]:
        self.until_s.append(self.world.now_s + seconds)
        yield
        self.until_s.pop()

    def cross(self, where: str) -> None:
        if where not in self.places:
            # no wait begins that is given up already
            if where == "look" and any(is_given_up() for is_given_up in self.given_up):
                raise GivenUpError.at("b-1", where, "not_sent")
            return
        self.has_hung = True
        if "send" in where:
            self.places.add("look")
        outcome = "unknown" if "send" in where else "not_sent"
        ends_s = min([*self.until_s, self.world.now_s + ANSWER_S])
        while self.world.now_s < ends_s:
            if any(is_given_up() for is_given_up in self.given_up):
                raise GivenUpError.at("b-1", where, outcome)
            self.world.pass_time(SLICE_OF_WAIT_S)
        raise RemoteTimeoutError("b-1 is silent.", endpoint="b-1", operation=where, outcome=outcome)


def work(hanging: Hanging, name: str = "w1") -> RunState:
    """Let a worker execute the run, with limits as the real one has; it ends when it is told."""
    world = hanging.world
    world.current = world.holder = name
    world.on_cross = hanging.cross
    worker = Worker(world, name)
    ports = replace(worker.ports, within=hanging.within, unless=hanging.unless)
    ended_s: list[float] = []

    def has_ended() -> bool:
        if name not in world.shutting_down:
            return False
        ended_s.append(world.now_s)
        return world.now_s - ended_s[0] >= LEAVE_AFTER_S

    try:
        with hanging.unless(has_ended):
            return execute_run(RUN, ports)
    finally:
        world.holder = None
        hanging.given_up.clear()
        hanging.until_s.clear()


def asked(**more: object) -> Hanging:
    world = World()
    world.ask(options=replace(OPTIONS, **more))
    return Hanging(world)


def codes(world: World) -> list[str]:
    return [step.result.code if step.result else step.state for step in world.view.steps]


@pytest.mark.parametrize("place", PLACES)
def test_a_stop_acts_within_a_second_wherever_the_cluster_hangs(place: str) -> None:
    hanging = asked()
    world = hanging.world
    hanging.places = {place}
    world.at(3.0, lambda: world.control("stop", "it hangs"))
    assert work(hanging) == "STOPPED"
    assert hanging.has_hung
    assert round(world.now_s, 3) <= 3.0 + SOON_S
    assert codes(world)[1:] == ["stopped", "stopped"]
    assert len(world.sends) <= 1


def test_a_stop_while_a_slow_broker_answers_lets_the_step_end() -> None:
    """The answer is given up; the cluster is well, so its effect is still observed."""
    hanging = asked()
    world = hanging.world
    hanging.places = {"after send"}
    world.at(3.0, lambda: world.control("stop", "enough"))
    world.at(3.0, hanging.places.clear)
    assert work(hanging) == "STOPPED"
    assert codes(world) == ["landed", "stopped", "stopped"]
    assert len(world.sends) == 1


@pytest.mark.parametrize("place", PLACES)
def test_a_process_that_ends_waits_a_second_at_most_wherever_the_cluster_hangs(
    place: str,
) -> None:
    hanging = asked()
    world = hanging.world
    hanging.places = {place}
    world.at(3.0, lambda: world.shutting_down.add("w1"))
    assert work(hanging) not in ("DONE", "FAILED", "STOPPED")
    assert hanging.has_hung
    assert world.now_s <= 3.0 + LEAVE_AFTER_S + 2 * SLICE_OF_WAIT_S
    assert len(world.sends) <= 1
    hanging.places.clear()
    assert work(hanging, "w2") in ("DONE", "FAILED")
    assert sum(bundle == FIRST for *_, bundle in world.sends) <= 1


def test_a_step_that_is_slow_is_left_by_a_process_that_ends_and_reconciled_by_the_next() -> None:
    hanging = asked()
    world = hanging.world
    world.faults[FIRST] = Faults(after_s=8.0)
    world.at(2.0, lambda: world.shutting_down.add("w1"))
    assert work(hanging) == "RUNNING"
    assert world.now_s <= 2.0 + LEAVE_AFTER_S + SLICE_S
    assert codes(world) == ["RUNNING", "PENDING", "PENDING"]
    assert work(hanging, "w2") == "DONE"
    assert [bundle for *_, bundle in world.sends] == list(MOVABLE[:3])


def test_a_step_whose_looks_hang_is_unknown_soon_after_its_time() -> None:
    hanging = asked()
    hanging.places = {"after send", "look"}
    hanging.world.on_cross = hanging.cross
    first_look: list[float] = []

    def only_after_sending(where: str) -> None:
        if where == "look" and not hanging.world.sends:
            return
        if where == "after send":
            first_look.append(hanging.world.now_s)
        if hanging.world.view.steps[0].state == "RUNNING":
            hanging.cross(where)

    hanging.world.on_cross = only_after_sending
    hanging.world.at(60.0, lambda: hanging.world.control("stop"))
    worker = Worker(hanging.world, "w1")
    hanging.world.holder = "w1"
    ports = replace(worker.ports, within=hanging.within, unless=lambda _: nullcontext())
    execute_run(RUN, ports)
    step = hanging.world.view.steps[0]
    assert step.begun_at is not None
    assert step.ended_at is not None
    lasted_s = (step.ended_at - step.begun_at).total_seconds()
    assert lasted_s <= ANSWER_S + OPTIONS.verify_within_s + LOOK_WITHIN_S


def test_a_stop_restores_what_the_run_has_changed_when_the_cluster_answers_again() -> None:
    hanging = asked(pause_balancer=True)
    world = hanging.world
    hanging.places = {"after send", "look"}
    world.on_cross = hanging.cross

    def stop() -> None:
        world.control("stop")
        hanging.places.clear()

    world.at(5.0, stop)
    assert work(hanging) == "STOPPED"
    assert world.settings.get(SHEDDING) == world.set_before
    assert not world.view.outstanding_settings


def test_a_stop_of_a_stranger_gives_up_nothing() -> None:
    hanging = asked()
    world = hanging.world
    world.refusal_of = lambda record: (
        REFUSED if isinstance(record.event, ControlRequested) else None
    )
    world.at(3.0, lambda: world.control("stop"))
    hanging.places = {"snapshot"}
    world.at(6.0, hanging.places.clear)
    assert work(hanging) == "DONE"
    assert world.now_s >= ANSWER_S
