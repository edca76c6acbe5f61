"""Whatever goes wrong and whoever dies when: nothing is sent twice, nothing is left half known.

Thousands of runs in virtual time over the world of ``actions_world``. What has to hold at the very
moment of a send (a durable intent, the lease, no stop, no pause, not read-only, never twice) is
asserted there; what has to hold at the end is asserted here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pytest
from actions_world import BROKERS, MOVABLE, RUN, SHEDDING, Faults, Worker, World
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sampled import examples

from core.actions.apply import execute_run, reconcile_run
from core.actions.model import RunOptions
from core.actions.views import RunView
from core.errors import RemoteError

FIRST, SECOND, THIRD = MOVABLE[:3]
CAREFUL = RunOptions(pace_per_min=60, max_failures=2, verify_within_s=4.0, pause_balancer=True)


@dataclass(frozen=True)
class Story:
    """A world's faults, and what happens when."""

    name: str
    prepare: Callable[[World], None]
    options: RunOptions = CAREFUL
    destination: str | None = BROKERS[3]


def _all_is_well(_world: World) -> None:
    pass


def _answers(**by_place: Faults) -> Callable[[World], None]:
    def prepare(world: World) -> None:
        for place, faults in by_place.items():
            world.faults[MOVABLE[int(place[1:])]] = faults

    return prepare


def _paused_and_resumed(world: World) -> None:
    world.at(0.6, lambda: world.control("pause"))
    world.at(6.0, lambda: world.control("resume"))


def _stopped(world: World) -> None:
    world.at(1.2, lambda: world.control("stop", "enough"))


def _shedding_was_on(world: World) -> None:
    world.set_by_others("true")


def _others_set_it(world: World) -> None:
    world.at(1.0, lambda: world.set_by_others("true"))


def _dark_for_a_while(world: World) -> None:
    world.at(0.5, lambda: setattr(world, "is_dark", True))
    world.at(15.0, lambda: setattr(world, "is_dark", False))


def _journal_down_for_a_while(world: World) -> None:
    world.at(0.5, lambda: setattr(world, "is_journal_down", True))
    world.at(9.0, lambda: setattr(world, "is_journal_down", False))


def _moved_by_others(world: World) -> None:
    world.at(0.6, lambda: world.move_by_others(THIRD, BROKERS[2]))


def _clock_jumps(hours: float, at_s: float) -> Callable[[World], None]:
    def prepare(world: World) -> None:
        _answers(b0=Faults("lost"), b1=Faults("late", after_s=20.0))(world)
        world.at(at_s, lambda: setattr(world, "clock_off_s", hours * 3600.0))

    return prepare


STORIES = [
    Story("all is well", _all_is_well),
    Story("the hint is lost", _answers(b0=Faults(lands_on=BROKERS[1]))),
    Story("refused and not sent", _answers(b0=Faults("refused"), b2=Faults("not_sent"))),
    Story("the answer is lost", _answers(b0=Faults("lost"), b1=Faults("swallowed"))),
    Story("acted much later", _answers(b1=Faults("late", after_s=20.0))),
    Story("acted after all patience", _answers(b1=Faults("late", after_s=150.0))),
    Story("nobody asks for it", _answers(b0=Faults(is_looked_up=False))),
    Story("nobody asks for it for long", _answers(b0=Faults(after_s=40.0, topics=2))),
    Story("a slow broker", _answers(b0=Faults(after_s=3.0), b1=Faults(after_s=9.0))),
    Story("paused and resumed", _paused_and_resumed),
    Story("stopped", _stopped),
    Story("shedding was on", _shedding_was_on),
    Story("others set it meanwhile", _others_set_it),
    Story("dark for a while", _dark_for_a_while),
    Story("the journal is down for a while", _journal_down_for_a_while),
    Story("moved by others", _moved_by_others, destination=None),
    Story("the clock jumps forward", _clock_jumps(5.0, at_s=1.0)),
    Story("the clock is set back", _clock_jumps(-5.0, at_s=1.0)),
]


def _world_of(story: Story) -> World:
    world = World()
    story.prepare(world)
    world.ask(destination=story.destination, options=story.options)
    return world


def _crossings_of(story: Story) -> list[str]:
    world = _world_of(story)
    world.outlive(lives=1)
    return world.crossings


def _settled(world: World, *, deaths: tuple[int, ...] = ()) -> RunView:
    """Live through it, let the world heal, settle what is open, and check everything."""
    world.at(200.0, lambda: _heal(world))
    world.outlive(deaths=deaths)
    world.pass_time(400.0)
    world.outlive()
    world.holder = "last"
    view = reconcile_run(RUN, Worker(world, "last").ports)
    world.holder = None
    _check(world, view)
    return view


def _heal(world: World) -> None:
    world.is_dark = world.is_journal_down = world.is_setting_refused = False
    if world.holder == "thief":
        world.holder = None
    asked = world.view.control
    if asked is not None and asked.control == "pause":
        world.control("resume")


def _check(world: World, view: RunView) -> None:
    assert view.is_ended, view.state
    assert not view.outstanding_settings
    assert world.settings.get(SHEDDING) == world.set_before
    if view.state == "REFUSED":
        assert not world.sends
        return
    for step in view.steps:
        name = step.step.bundle
        if step.unserved:  # by nobody until the very end
            assert (step.state, world.owners[name]) == ("UNKNOWN", None), step.result
            assert world.landed[name] == 1 or name in world.touched
            continue
        assert step.state in ("DONE", "FAILED", "SKIPPED"), (step.state, step.result)
        if name not in world.gone and name not in world.touched:
            assert (step.state == "DONE") == bool(world.landed[name]), step.result
    begun = sorted(step.begun_at for step in view.steps if step.begun_at)
    gap_s = 60.0 / view.options.pace_per_min
    pairs = pairwise(begun)
    # what two workers wrote before and after a jump says nothing of the time between
    if not world.clock_off_s:
        assert all((b - a).total_seconds() >= gap_s - 1e-6 for a, b in pairs)
    assert len(begun) <= world.moves_per_day
    assert view.counts["FAILED"] <= max(view.options.max_failures, 1)
    assert len(world.sends) == len({name for _, _, name in world.sends})


def _each(stories: Sequence[Story]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Every story at each eleventh moment, from another one each; in full only where it is slow."""
    some = [pytest.param(story, place, 11, id=story.name) for place, story in enumerate(stories)]
    whole = [
        pytest.param(story, 0, 1, id=f"{story.name}, every moment", marks=pytest.mark.slow)
        for story in stories
    ]
    return pytest.mark.parametrize(("story", "first", "stride"), some + whole)


@_each(STORIES)
def test_a_worker_may_die_at_any_moment(story, first, stride, record_property) -> None:
    total = len(_crossings_of(story))
    assert total > 20
    moments = range(first % stride, total, stride)
    for moment in moments:
        _settled(_world_of(story), deaths=(moment,))
    # any other figure than 0 has failed above
    figures = {"runs": len(moments), "lost": 0, "twice": 0, "wrong": 0, "tracebacks": 0}
    record_property("fault worker dies at a call, in virtual time", figures)


@_each(STORIES)
def test_a_worker_and_its_heirs_may_all_die(story, first, stride) -> None:
    total = len(_crossings_of(story))
    for moment in range(first % stride, total, stride * 2):
        _settled(_world_of(story), deaths=(moment, moment % 17, moment % 11))


@_each(STORIES)
def test_a_worker_that_slept_through_its_lease_does_no_harm(story, first, stride) -> None:
    """Another one does the whole run while the first is asleep, at every moment of its life.

    Left out: asleep between the last look at the lease and the request itself. No lease can close
    that gap, as the cluster does not know the lease.
    """
    crossings = _crossings_of(story)
    for moment in range(first % stride, len(crossings), stride):
        if crossings[moment] in ("before send", "before setting"):
            continue
        world = _world_of(story)
        _sleeps_at(world, moment)
        _settled(world)


@pytest.mark.slow
@pytest.mark.parametrize("hours", [-30.0, -2.0, 2.0, 30.0])
@_each(STORIES)
def test_clock_that_jumps_at_any_moment_costs_no_time_and_no_step(
    story, first, stride, hours
) -> None:
    calm = _world_of(story)
    calm.outlive(lives=1)
    for moment in range(first % stride, len(calm.crossings), stride):
        world = _world_of(story)
        _jumps_at(world, moment, hours)
        world.outlive(lives=1)
        if world.view.state != "REFUSED" and not story.name.startswith("the clock"):
            assert world.now_s <= calm.now_s + 2 * 60.0 / story.options.pace_per_min, moment
            times = [at for at, _, _ in world.sends]
            gap_s = 60.0 / story.options.pace_per_min
            assert all(b - a >= gap_s - 1e-6 for a, b in pairwise(times)), moment
        _settled(world)


def _jumps_at(world: World, moment: int, hours: float) -> None:
    def jump(_where: str) -> None:
        if len(world.crossings) > moment:
            world.on_cross = None
            world.clock_off_s = hours * 3600.0

    world.on_cross = jump


def _sleeps_at(world: World, moment: int) -> None:
    def asleep(_where: str) -> None:
        if len(world.crossings) <= moment:
            return
        world.on_cross = None
        sleeper, deaths = world.current, world.dies_at
        world.holder, world.dies_at = "rival", None
        with suppress(RemoteError):  # the journal may be down for it, too
            execute_run(RUN, Worker(world, "rival").ports)
        world.holder, world.dies_at, world.current = None, deaths, sleeper

    world.on_cross = asleep


def _steal_the_lease(world: World) -> None:
    world.holder = "thief"


def _give_the_lease_back(world: World) -> None:
    if world.holder == "thief":
        world.holder = None


def _flip(name: str, *, to: bool) -> Callable[[World], None]:
    return lambda world: setattr(world, name, to)


HAPPENINGS: dict[str, Callable[[World], None]] = {
    "stop": lambda world: world.control("stop"),
    "pause": lambda world: world.control("pause"),
    "resume": lambda world: world.control("resume"),
    "dark": _flip("is_dark", to=True),
    "light": _flip("is_dark", to=False),
    "journal down": _flip("is_journal_down", to=True),
    "journal up": _flip("is_journal_down", to=False),
    "setting refused": _flip("is_setting_refused", to=True),
    "setting allowed": _flip("is_setting_refused", to=False),
    "read-only": _flip("is_read_only", to=True),
    "told to end": lambda world: world.shutting_down.add(world.current),
    "lease stolen": _steal_the_lease,
    "lease back": _give_the_lease_back,
    "moved by others": lambda world: world.move_by_others(SECOND, BROKERS[2]),
    "lost its owner": lambda world: world.move_by_others(THIRD, None),
    "split": lambda world: world.gone.add(FIRST),
    "set by others": lambda world: world.set_by_others("true"),
    "excluded": lambda world: setattr(world, "exclusions", ("acme/*",)),
}
FAULTS = st.builds(
    Faults,
    answer=st.sampled_from(["ok", "ok", "refused", "not_sent", "lost", "swallowed", "late"]),
    lands_on=st.sampled_from([None, *BROKERS]),
    is_looked_up=st.booleans(),
    after_s=st.sampled_from([0.2, 3.0, 7.0, 40.0, 150.0]),
    topics=st.sampled_from([0, 0, 2]),
)
OPTIONS = st.builds(
    RunOptions,
    pace_per_min=st.sampled_from([6.0, 60.0, 600.0]),
    max_failures=st.integers(0, 3),
    verify_within_s=st.sampled_from([0.5, 4.0, 30.0]),
    pause_balancer=st.booleans(),
)


CHAOS = st.fixed_dictionaries(
    {
        "options": OPTIONS,
        "faults": st.dictionaries(st.sampled_from(MOVABLE[:5]), FAULTS),
        "happenings": st.lists(
            st.tuples(st.integers(0, 80), st.sampled_from(sorted(HAPPENINGS))), max_size=8
        ),
        "deaths": st.lists(st.integers(0, 150), max_size=4),
        "count": st.integers(1, 5),
        "lifetime_s": st.sampled_from([5.0, 600.0]),
        "moves_per_day": st.sampled_from([2, 500]),
    }
)


@settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(CHAOS)
def test_every_run_ends_with_nothing_left_open(chaos) -> None:
    _survive(chaos)


@pytest.mark.slow
@settings(max_examples=examples(3000), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(CHAOS)
def test_every_one_of_very_many_runs_ends_with_nothing_left_open(chaos) -> None:
    _survive(chaos)


def test_a_bundle_left_unassigned_while_the_cluster_did_not_answer_is_named_later() -> None:
    """Its step stays unknown, and says what is left: the cluster can be read by now."""
    bundle = MOVABLE[0]
    world = World(faults={bundle: Faults(after_s=0.2, topics=2, is_looked_up=False)})
    world.at(0.5, lambda: HAPPENINGS["dark"](world))
    world.ask(
        bundles=[bundle],
        destination=BROKERS[3],
        options=RunOptions(pace_per_min=6.0, max_failures=0, verify_within_s=0.5),
        lifetime_s=5.0,
    )
    view = _settled(world)
    assert world.owners[bundle] is None
    assert [step.unserved for step in view.steps] == ["unassigned"]


def _survive(chaos: dict[str, Any]) -> None:
    world = World(faults=chaos["faults"], moves_per_day=chaos["moves_per_day"])
    for quarter, name in chaos["happenings"]:
        world.at(quarter / 4, lambda name=name: HAPPENINGS[name](world))
    world.ask(
        bundles=MOVABLE[: chaos["count"]],
        destination=BROKERS[3],
        options=chaos["options"],
        lifetime_s=chaos["lifetime_s"],
    )
    if any(faults.topics for faults in chaos["faults"].values()):  # else it is paused for ever
        world.at(900.0, lambda: world.control("stop"))
    _settled(world, deaths=tuple(chaos["deaths"]))
