"""The cluster's own shedding is off during the run that asks for it, and as before after it."""

from __future__ import annotations

import pytest
from actions_world import MOVABLE, RUN, SHEDDING, Worker, World, unknown

from core.actions.apply import restore_settings
from core.actions.balancer import LATE_WITHIN_S
from core.actions.events import SettingChanged, SettingRestored, SettingSaved
from core.actions.model import RunOptions

QUIET = RunOptions(pace_per_min=600, verify_within_s=5.0, pause_balancer=True)


def _asked() -> World:
    world = World()
    world.ask(bundles=MOVABLE[:2], options=QUIET)
    return world


def _restored(world: World) -> list[SettingRestored]:
    return [e for e in world.events(SettingRestored) if isinstance(e, SettingRestored)]


@pytest.mark.parametrize("before", [None, "true"])
def test_it_is_off_while_the_run_acts_and_as_before_afterwards(before) -> None:
    world = _asked()
    if before:
        world.settings[SHEDDING] = before
    seen = []
    world.on_cross = lambda where: where == "before send" and seen.append(dict(world.settings))
    assert world.work() == "DONE"
    assert seen == [{SHEDDING: "false"}] * 2
    assert world.settings.get(SHEDDING) == before
    assert [e.result for e in _restored(world)] == ["restored"]
    was = before or "not set dynamically"
    assert _restored(world)[0].sentence == f"{SHEDDING} was restored from false to {was}."


def test_what_is_off_already_is_left_so() -> None:
    world = _asked()
    world.settings[SHEDDING] = "false"
    assert world.work() == "DONE"
    assert world.settings == {SHEDDING: "false"}
    assert not world.events(SettingSaved)


def test_what_others_set_meanwhile_is_theirs() -> None:
    world = _asked()
    world.at(0.6, lambda: world.settings.update({SHEDDING: "true"}))
    assert world.work() == "DONE"
    assert world.settings == {SHEDDING: "true"}
    assert [e.result for e in _restored(world)] == ["changed_by_others"]
    assert "changed externally during" in _restored(world)[0].sentence


def test_a_cluster_that_refuses_the_pause_ends_the_run_before_its_first_step() -> None:
    world = _asked()
    world.is_setting_refused = True
    assert world.work() == "FAILED"
    assert not world.sends
    result = world.view.steps[0].result
    assert result is not None
    assert result.code == "balancer_not_paused"
    assert "broker answered 401" in result.sentence
    assert [e.result for e in _restored(world)] == ["restored"]
    assert f"{SHEDDING} is unchanged from before the run" in _restored(world)[0].sentence


def _unanswered(world: World, comes_after_s: float) -> None:
    """Let the next setting be heard by nobody, and be carried out after a while."""

    def swallow(where: str) -> None:
        if where == "before setting":
            world.on_cross = None
            world.at(
                world.now_s + comes_after_s, lambda: world.settings.update({SHEDDING: "false"})
            )
            raise unknown("No answer within 5 s.")

    world.on_cross = swallow


def test_a_pause_without_an_answer_is_looked_for_before_it_counts_as_not_there() -> None:
    world = _asked()
    _unanswered(world, LATE_WITHIN_S - 2.0)
    assert world.work() == "DONE"
    assert [e.result for e in _restored(world)] == ["restored"]
    assert world.settings == {}


def test_a_pause_that_never_comes_ends_the_run_and_nothing_is_changed() -> None:
    world = _asked()
    _unanswered(world, 9999.0)
    world.work()
    assert world.settings == {}
    assert not world.view.outstanding_settings


def test_what_a_run_has_changed_is_put_back_without_going_on_with_it() -> None:
    world = _asked()
    world.at(0.5, lambda: setattr(world, "is_setting_refused", True))
    assert world.work() == "RUNNING"
    entries = len(world.entries)
    world.holder = "w2"
    assert not restore_settings(RUN, Worker(world, "w2").ports)
    world.is_setting_refused = False
    assert restore_settings(RUN, Worker(world, "w2").ports)
    assert world.settings == {}
    assert not world.view.is_ended
    kinds = [type(entry.record.event).__name__ for entry in world.entries[entries:]]
    assert kinds == ["RunClaimed", "SettingRestored"]


def test_a_dark_moment_before_the_pause_is_waited_for() -> None:
    world = _asked()
    world.on_cross = lambda where: where == "before setting" and _go_dark(world)
    assert world.work() == "DONE"
    assert len(world.events(SettingSaved)) == 1


def _go_dark(world: World) -> None:
    world.on_cross = None
    world.is_dark = True
    world.at(world.now_s + 3.0, lambda: setattr(world, "is_dark", False))


def test_somebody_sets_it_while_the_pause_is_being_tried_again() -> None:
    world = _asked()
    world.on_cross = lambda where: where == "before setting" and _go_dark(world)
    world.at(1.0, lambda: world.settings.update({SHEDDING: "true"}))
    assert world.work() == "DONE"
    assert [e.result for e in _restored(world)] == ["changed_by_others", "restored"]
    assert world.settings == {SHEDDING: "true"}


@pytest.mark.parametrize("before", [None, "true"])
def test_what_cannot_be_put_back_keeps_the_run_open_and_names_the_remedy(before) -> None:
    world = _asked()
    if before:
        world.settings[SHEDDING] = before
    world.at(0.5, lambda: setattr(world, "is_setting_refused", True))
    assert world.work() == "RUNNING"
    assert world.work() == "RUNNING"
    failed = _restored(world)
    assert [e.result for e in failed] == ["failed"]  # said once, however often it is tried
    assert world.view.sentence.startswith(
        f"All steps are done; {SHEDDING} is being restored (attempt failed: {SHEDDING} of fleet"
    )
    remedy = "update-dynamic-config" if before else "delete-dynamic-config"
    assert f"manually: pulsar-admin brokers {remedy} --config {SHEDDING}" in failed[0].sentence
    assert world.view.outstanding_settings
    world.is_setting_refused = False
    assert world.work("w2") == "DONE"
    assert world.settings.get(SHEDDING) == before


def test_a_pause_of_the_run_puts_it_back_for_that_time() -> None:
    world = _asked()
    world.at(0.4, lambda: world.control("pause"))
    at_rest = []
    world.at(10.0, lambda: at_rest.append(dict(world.settings)))
    world.at(20.0, lambda: world.control("resume"))
    assert world.work() == "DONE"
    assert at_rest == [{}]
    assert world.settings == {}
    assert len(world.events(SettingChanged)) == 2


def test_a_pause_that_cannot_put_it_back_tries_on() -> None:
    world = _asked()
    world.at(0.4, lambda: world.control("pause"))
    world.at(0.5, lambda: setattr(world, "is_setting_refused", True))
    world.at(60.0, lambda: setattr(world, "is_setting_refused", False))
    at_rest = []
    world.at(90.0, lambda: at_rest.append((world.view.state, dict(world.settings))))
    world.at(100.0, lambda: world.control("resume"))
    assert world.work() == "DONE"
    assert at_rest == [("PAUSED", {})]


def test_a_worker_without_the_lease_puts_nothing_back() -> None:
    world = _asked()
    world.at(0.6, lambda: setattr(world, "holder", "thief"))
    assert world.work() == "RUNNING"
    assert world.settings == {SHEDDING: "false"}
    world.holder = None
    assert world.work("w2") == "DONE"
    assert world.settings == {}


def test_a_lease_lost_right_before_the_end_leaves_it_to_the_next() -> None:
    world = _asked()
    steal = {"before append SettingRestored"}
    world.on_cross = lambda where: where in steal and setattr(world, "holder", "thief")
    assert world.work() == "RUNNING"
    world.on_cross = world.holder = None
    assert world.work("w2") == "DONE"
    assert world.settings == {}
