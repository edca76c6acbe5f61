"""What a run waits for, what it holds, what lasts of it: told for pages and command line alike."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from journal_entries import NOON, chain_of, claimed, plan_of, requested

from core.actions.apply import closing
from core.actions.describe import describe_open_run, describe_value, why_nothing_lasts
from core.actions.events import (
    Event,
    RunEnded,
    SettingChanged,
    SettingRestored,
    SettingSaved,
    StepEnded,
    StepStarted,
    StepWaiting,
)
from core.actions.model import Observation, StepResult, StepState
from core.actions.runs import fold
from core.actions.views import RunView
from core.pegasus.steps.base import PegasusStep
from core.pegasus.steps.close import CloseReplicas
from core.pegasus.steps.level import LEVEL_KEY, SetMetaLevel
from core.pegasus.steps.setting import SetServerSetting
from core.pegasus.steps.wait import AwaitState
from core.plan.describe import things, things_done
from core.plan.model import sealed
from dashboard.presenters import run_steps, runs
from dashboard.presenters.runs import after_words, before_words, why_no_undo

NODE = "db1:34801"
LIST = SetServerSetting(key="meta.lb.black_list", before="", value=NODE)
CLOSE = CloseReplicas(node=NODE, partitions=("2.0",))
RESTART = AwaitState(state="restarted", node=NODE, reason="Restart it now, with the new version.")
CALM = AwaitState(state="balanced")
LIVELY = SetMetaLevel(before="steady", level="lively", is_restored=True)
LATER = NOON + timedelta(minutes=3)


def run_of(steps: tuple[PegasusStep, ...], *events: Event) -> RunView:
    plan = sealed(replace(plan_of(1), steps=steps))
    return fold(chain_of([requested(plan=plan), claimed(), *events]))


def done(step: int, state: StepState = "DONE", code: str = "set", value: str = "") -> StepEnded:
    after = Observation(exists=True, value=value)
    return StepEnded(
        step=step,
        took_ms=None,
        result=StepResult(state=state, code=code, sentence="It is so already.", after=after),
    )


def begun(step: int, value: str | None = None) -> StepStarted:
    return StepStarted(step=step, observed=Observation(exists=True, value=value))


def held(*, is_back: bool) -> tuple[Event, ...]:
    saved = SettingSaved(key=LEVEL_KEY, before="steady", during="lively")
    back = SettingRestored(key=LEVEL_KEY, result="restored", sentence="It was put back.")
    return (saved, SettingChanged(key=LEVEL_KEY), *((back,) if is_back else ()))


WAITS = run_of(
    (LIST, CLOSE, RESTART),
    *(begun(0, ""), done(0, value=NODE), begun(1), done(1, code="closed")),
    StepWaiting(step=2, sentence="It is still the process that started at 10:00."),
)


def test_a_step_that_waits_for_a_person_says_so_with_what_to_do():
    found = run_steps.notice(WAITS)
    assert found is not None
    assert found.title == "Action required: step 3 of 3"
    assert "still the process" in found.text
    assert "new version" in found.text
    assert found.demo == f"trimtab sandbox-node {NODE} restart"
    assert runs.steps_frame(WAITS, LATER)["state"].tolist()[2] == "◔ action required"


def test_a_wait_for_the_cluster_is_nobody_s_task():
    view = run_of((CALM,), StepWaiting(step=0, sentence="The balancer counts 3 changes."))
    assert run_steps.notice(view) is None
    assert "waiting for" in runs.answer(view, LATER)
    assert runs.answer(view, LATER).endswith(": The balancer counts 3 changes.")
    assert runs.step_words(view.steps[0]) == "◔ waiting"


def test_no_end_is_foreseen_while_a_wait_is_to_come():
    view = run_of((LIST, CLOSE, RESTART), begun(0, ""), done(0))
    assert run_steps.notice(view) is None
    assert "to go" not in runs.progress(view, LATER).text
    assert "to go" not in runs.progress(WAITS, LATER).text


def test_steps_of_one_node_are_counted_as_steps():
    done = next(one for one in runs.run_figures(WAITS, LATER) if one.label == "Done")
    assert (done.value, done.note) == ("2 of 3", "steps done")
    assert things([CLOSE, CLOSE]) == "2 steps"
    assert things_done([CLOSE, CLOSE]) == "2 steps done"
    assert things_done([CLOSE]) == "1 node closed"
    assert things_done([LIST, CLOSE, RESTART]) == "3 steps done"


def test_nothing_goes_from_or_to_a_node_that_is_closed_and_an_empty_list_was_empty():
    assert [before_words(step) for step in WAITS.steps] == ["empty", "", ""]
    assert [after_words(step) for step in WAITS.steps] == [NODE, "", ""]
    assert before_words(run_of((LIST,)).steps[0]) == "empty"


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (None, ""),
        ("10", "10"),
        ('{"db1:1": "10", "db2:1": "0"}', "10 on db1:1, 0 on db2:1"),
        ('{"a": "1", "b": "1", "c": "1", "d": ""}', "1 on 3 servers, empty on d"),
        ('{"a": "1", "b": "1"}', "1 on all 2 servers"),
        ('{"items": {"2.0": {}}, "reign": "meta1"}', "see the description"),
    ],
)
def test_values_of_many_servers_are_told_in_words(value, words):
    assert describe_value(value) == words


def test_a_run_whose_goal_was_met_already_ends_done():
    end = closing(run_of((LIST, CLOSE), *(done(at, "SKIPPED", "already_set") for at in (0, 1))), 2)
    assert end.state == "DONE"
    assert end.sentence == ("Nothing to do: It is so already. The same holds for 1 more step.")


def test_a_run_that_could_not_do_anything_still_fails():
    steps = (done(0, "SKIPPED", "already_set"), done(1, "SKIPPED", "changed_meanwhile"))
    assert closing(run_of((LIST, CLOSE), *steps), 2).state == "FAILED"


def test_an_open_run_names_what_it_holds_and_how_it_is_stopped():
    words = describe_open_run(run_of((LIVELY, CALM), *held(is_back=False)), " --config a.toml")
    assert "not ended (running)" in words
    assert f"Temporary settings: {LEVEL_KEY} at lively (to be restored to steady)." in words
    assert words.endswith("--stop --config a.toml`.")


def test_what_the_meta_server_moved_meanwhile_is_no_step_and_its_moves_back_can_be_planned():
    steps = (begun(0, "steady"), done(0, value="lively"), begun(1), done(1, code="reached"))
    ended = RunEnded(state="DONE", sentence="2 of 2 steps done.")
    view = run_of((LIVELY, CALM), *held(is_back=False), *steps, *held(is_back=True)[2:], ended)
    assert "Moves that the meta server made" in why_nothing_lasts(view)
    assert why_nothing_lasts(view).startswith("The temporary settings were restored. ")
    assert why_no_undo(view, None) is None


def test_a_setting_that_stays_can_be_taken_back():
    view = run_of((LIST,), begun(0, ""), done(0), RunEnded(state="DONE", sentence="1 of 1."))
    assert not why_nothing_lasts(view)
    assert why_no_undo(view, None) is None
