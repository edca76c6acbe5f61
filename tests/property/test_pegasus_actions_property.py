"""Runs on a Pegasus cluster: whoever dies when, nothing is sent twice and settings go back.

Runs in virtual time over the world of ``pegasus_world``; what has to hold at the very moment of a
send (a durable intent, the lease, a saved setting, what was set before still set) is asserted
there; what has to hold at the end is asserted here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pytest
from actions_world import RUN, Faults, Worker
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pegasus_world import FLOW, LIMIT, N1, N2, N3, N4, PegasusWorld, batch, move, pegasus_plan
from sampled import examples

from core.actions.apply import execute_run, reconcile_run
from core.actions.model import RunOptions
from core.actions.views import RunView
from core.pegasus.steps.base import PegasusStep
from core.pegasus.steps.level import LEVEL_KEY, SetMetaLevel
from core.pegasus.steps.setting import SetServerSetting
from core.pegasus.steps.wait import AwaitState

CAREFUL = RunOptions(pace_per_min=60, max_failures=2, verify_within_s=4.0)

HOLD_STEADY = SetMetaLevel(before="lively", level="steady", is_restored=True)
GO_LIVELY = SetMetaLevel(before="steady", level="lively", is_restored=True)
NO_MORE = SetServerSetting(key=LIMIT, before="10", value="0", is_restored=True)
MORE = SetServerSetting(key=LIMIT, before="0", value="100", is_restored=True)
LIMITED = SetServerSetting(key=FLOW, before="false", value="true", is_restored=True)

DRAIN: tuple[PegasusStep, ...] = (
    HOLD_STEADY,
    NO_MORE,
    move("2.0", N1, N3),
    batch(N1, p1=N2, p2=N3, p3=N2),
    AwaitState(state="no_primaries", node=N1, within_s=30.0),
    MORE,
    move("2.0", N3, N1),
)
REBALANCE: tuple[PegasusStep, ...] = (
    LIMITED,
    GO_LIVELY,
    AwaitState(state="balanced"),
    move("2.1", N1, N4),
)
IN_VAIN: tuple[PegasusStep, ...] = (
    HOLD_STEADY,
    AwaitState(state="no_primaries", node=N1, within_s=3.0),
    move("2.0", N1, N3),
)


@dataclass(frozen=True)
class Story:
    """A world's faults, and what happens when."""

    name: str
    prepare: Callable[[PegasusWorld], None] = lambda _world: None
    steps: tuple[PegasusStep, ...] = DRAIN
    level: str = "lively"


def _answers(**by_subject: Faults) -> Callable[[PegasusWorld], None]:
    names = {"level": LEVEL_KEY, "limit": LIMIT, "batch": N1, "move": "2.0"}
    return lambda world: world.faults.update({names[key]: by_subject[key] for key in by_subject})


def _happens(*when: tuple[float, Callable[[PegasusWorld], None]]) -> Callable[[PegasusWorld], None]:
    def prepare(world: PegasusWorld) -> None:
        for at_s, happening in when:
            world.at(at_s, lambda happening=happening: happening(world))

    return prepare


def _control(word: str) -> Callable[[PegasusWorld], None]:
    return lambda world: world.control(word)


def _flip(name: str, *, to: bool) -> Callable[[PegasusWorld], None]:
    return lambda world: setattr(world, name, to)


STORIES = [
    Story("all is well"),
    Story("rebalanced", steps=REBALANCE, level="steady"),
    Story("answers are lost", _answers(level=Faults("lost"), batch=Faults("lost"))),
    Story("nothing is done", _answers(limit=Faults("swallowed"), move=Faults("swallowed"))),
    Story("refused", _answers(limit=Faults("refused"), batch=Faults("not_sent"))),
    Story("slow", _answers(batch=Faults(after_s=4.0), move=Faults(after_s=3.0))),
    Story("never carried out", _answers(batch=Faults(after_s=1000.0))),
    Story("paused", _happens((3.2, _control("pause")), (9.0, _control("resume")))),
    Story(
        "paused at lively",
        _happens((2.0, _control("pause")), (9.0, _control("resume"))),
        REBALANCE,
        "steady",
    ),
    Story("stopped", _happens((3.7, _control("stop")))),
    Story("a new leader", _happens((3.0, PegasusWorld.fail_over))),
    Story("a new leader at lively", _happens((2.0, PegasusWorld.fail_over)), REBALANCE, "steady"),
    Story("others set the level", _happens((3.0, lambda one: one.level_by_others("freezed")))),
    Story("moved by others", _happens((1.0, lambda one: one.move_primary_by_others("2.1")))),
    Story("dark", _happens((2.5, _flip("is_dark", to=True)), (30.0, _flip("is_dark", to=False)))),
    Story("waits in vain", steps=IN_VAIN),
    Story("told to end", _happens((4.0, lambda world: world.shutting_down.add(world.current)))),
]


def _world_of(story: Story) -> PegasusWorld:
    world = PegasusWorld(level=story.level, level_before=story.level)
    if story.level == "lively":
        world.lively_since_s = 0.0
    story.prepare(world)
    world.ask(plan=pegasus_plan(world, story.steps), options=CAREFUL)
    return world


def _settled(world: PegasusWorld, *, deaths: Sequence[int] = ()) -> RunView:
    """Live through it, let the world heal, settle what is open, and check everything."""
    world.at(300.0, lambda: _heal(world))
    world.outlive(deaths=deaths)
    world.pass_time(1500.0)
    world.outlive()
    world.holder = "last"
    view = reconcile_run(RUN, Worker(world, "last").ports)
    world.holder = None
    _check(world, view)
    return view


def _heal(world: PegasusWorld) -> None:
    world.is_dark = world.is_journal_down = world.is_setting_refused = False
    world.forget()
    asked = world.view.control
    if asked is not None and asked.control == "pause":
        world.control("resume")


def _check(world: PegasusWorld, view: RunView) -> None:
    assert view.is_ended, view.state
    assert view.state in ("DONE", "FAILED", "STOPPED"), view.sentence
    assert not view.outstanding_settings
    # a new leader begins at steady whatever was set: nobody can tell then what others had set
    assert world.level == world.level_before or world.is_forgotten, view.settings
    assert world.values == world.values_before, view.settings
    for step in view.steps:
        assert step.state in ("DONE", "FAILED", "SKIPPED"), (step.state, step.result)
        if isinstance(step.step, AwaitState) and step.state == "DONE":
            looks = [step.before, step.result and step.result.after]
            assert any(look is not None and not look.detail for look in looks), step.result
    assert len(world.sent_steps) == len(world.sent_attempts)
    begun = sorted(step.begun_at for step in view.steps if step.begun_at and step.step.is_paced)
    gap_s = 60.0 / view.options.pace_per_min
    assert all((b - a).total_seconds() >= gap_s - 1e-6 for a, b in pairwise(begun))
    assert view.counts["FAILED"] <= max(view.options.max_failures, 1)


@pytest.mark.parametrize("story", STORIES[:2], ids=lambda story: story.name)
def test_what_is_asked_is_done(story) -> None:
    world = _world_of(story)
    view = _settled(world)
    assert view.state == "DONE", view.sentence
    assert view.counts == {"DONE": len(story.steps)}
    assert {one.primary for one in world.configs.values()} & {N1} or story.steps is REBALANCE


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.name)
def test_a_worker_on_pegasus_may_die_at_any_moment(story) -> None:
    first = _world_of(story)
    first.outlive(lives=1)
    total = len(first.crossings)
    assert total > 20
    place = STORIES.index(story)
    for moment in range(place % 11, total, 11):
        _settled(_world_of(story), deaths=(moment,))
    for moment in range(place % 29, total, 29):
        _settled(_world_of(story), deaths=(moment, moment % 17, moment % 11))


@pytest.mark.parametrize("story", [*STORIES[:4], STORIES[7]], ids=lambda story: story.name)
def test_a_worker_on_pegasus_that_slept_through_its_lease_does_no_harm(story) -> None:
    """Another one does the whole run while the first is asleep; see the property of Pulsar."""
    first = _world_of(story)
    first.outlive(lives=1)
    for moment in range(STORIES.index(story), len(first.crossings), 13):
        if first.crossings[moment] not in ("before send", "before setting"):
            world = _world_of(story)
            _sleeps_at(world, moment)
            _settled(world)


def _sleeps_at(world: PegasusWorld, moment: int) -> None:
    def asleep(_where: str) -> None:
        if len(world.crossings) <= moment:
            return
        world.on_cross = None
        sleeper = world.current
        world.holder = "rival"
        execute_run(RUN, Worker(world, "rival").ports)
        world.holder, world.current = None, sleeper

    world.on_cross = asleep


HAPPENINGS: dict[str, Callable[[PegasusWorld], None]] = {
    "stop": _control("stop"),
    "pause": _control("pause"),
    "resume": _control("resume"),
    "dark": _flip("is_dark", to=True),
    "light": _flip("is_dark", to=False),
    "journal down": _flip("is_journal_down", to=True),
    "journal up": _flip("is_journal_down", to=False),
    "settings refused": _flip("is_setting_refused", to=True),
    "settings allowed": _flip("is_setting_refused", to=False),
    "told to end": lambda world: world.shutting_down.add(world.current),
    "moved by others": lambda world: world.move_primary_by_others("2.2"),
    "a new leader": PegasusWorld.fail_over,
    "level by others": lambda world: world.level_by_others("freezed"),
    "a node dies": lambda world: world.dead.add(N3),
    "it comes back": lambda world: world.dead.discard(N3),
}
FAULTS = st.builds(
    Faults,
    answer=st.sampled_from(["ok", "ok", "refused", "not_sent", "lost", "swallowed"]),
    after_s=st.sampled_from([0.2, 3.0, 7.0, 40.0]),
)
CHAOS = st.fixed_dictionaries(
    {
        "story": st.sampled_from(STORIES[:2]),
        "faults": st.dictionaries(st.sampled_from([LEVEL_KEY, LIMIT, FLOW, N1, "2.0"]), FAULTS),
        "happenings": st.lists(
            st.tuples(st.integers(0, 60), st.sampled_from(sorted(HAPPENINGS))), max_size=6
        ),
        "deaths": st.lists(st.integers(0, 150), max_size=4),
    }
)


@settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(CHAOS)
def test_every_run_on_pegasus_ends_with_nothing_left_open(chaos) -> None:
    _survive(chaos)


@pytest.mark.slow
@settings(max_examples=examples(2000), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(CHAOS)
def test_very_many_runs_on_pegasus_end_with_nothing_left_open(chaos) -> None:
    _survive(chaos)


def _survive(chaos: dict[str, Any]) -> None:
    story = chaos["story"]
    world = PegasusWorld(level=story.level, level_before=story.level, faults=chaos["faults"])
    world.lively_since_s = 0.0 if story.level == "lively" else None
    for quarter, name in chaos["happenings"]:
        world.at(quarter / 4, lambda name=name: HAPPENINGS[name](world))
    world.ask(plan=pegasus_plan(world, story.steps), options=CAREFUL)
    _settled(world, deaths=chaos["deaths"])
