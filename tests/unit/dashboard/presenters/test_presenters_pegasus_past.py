"""Runs of a Pegasus cluster as its pages tell them: who set what, and what is newer."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from journal_entries import NOON, RUN, plan_of

from core.access import Identity
from core.actions.model import Observation, RunId, RunOptions, StepResult
from core.actions.views import RunView, StepView
from core.pegasus.steps.level import SetMetaLevel
from core.pegasus.steps.setting import SetServerSetting
from core.pegasus.steps.wait import AwaitState
from dashboard.presenters.pegasus.run_history import (
    LevelMoment,
    level_changes,
    newer_sentence,
    settings_past,
)

LEVEL = SetMetaLevel(before="steady", level="lively")
SETTING = SetServerSetting(key="meta.lb.only_move_primary", before="false", value="true")


def view(*steps, run_id=RUN, done_after_s=5, state="DONE"):
    """A run that did its steps so long after noon."""
    moment = NOON + timedelta(seconds=done_after_s)
    return RunView(
        run_id=RunId(run_id),
        cluster="peg",
        plan=replace(plan_of(1), steps=steps),
        options=RunOptions(),
        reason="evening out",
        requested_by="ann",
        requester=Identity(name="ann"),
        requested_at=NOON,
        undoes=None,
        steps=tuple(
            StepView(
                index=at,
                step=step,
                state=state,
                before=Observation(exists=True, value="steady"),
                result=StepResult(
                    state=state,
                    code="set",
                    sentence="Set.",
                    after=Observation(exists=True, value="lively"),
                ),
                begun_at=moment,
                ended_at=moment,
            )
            for at, step in enumerate(steps)
        ),
        last_seq=1,
        last_at=moment,
    )


def test_level_and_settings_are_told_with_who_why_and_what_was():
    rows = settings_past([view(LEVEL, SETTING, AwaitState(state="healthy"))])
    assert rows["what"].tolist() == ["meta level", "meta.lb.only_move_primary"]
    assert rows.loc[0, ["from", "to", "who", "why"]].tolist() == [
        "steady",
        "lively",
        "ann",
        "evening out",
    ]


def test_no_run_leaves_the_list_with_its_columns_and_no_rows():
    rows = settings_past([])
    assert rows.empty
    assert "what" in rows.columns


def test_run_that_changed_something_after_the_snapshot_is_named():
    said = newer_sentence([view(LEVEL)], NOON)
    assert said.startswith(
        f"Runs with changes since this snapshot: {RUN} (latest change 12:00:05 UTC)"
    )
    assert RUN in said


def test_run_before_the_snapshot_or_without_effect_is_no_news():
    assert newer_sentence([view(LEVEL)], NOON + timedelta(minutes=1)) == ""
    assert newer_sentence([view(LEVEL, state="FAILED")], NOON) == ""
    assert newer_sentence([view()], NOON) == ""
    assert newer_sentence([], NOON) == ""


def seen(*pairs):
    """Leader and stored level, a minute apart."""
    return [LevelMoment(NOON + timedelta(minutes=at), *pair) for at, pair in enumerate(pairs)]


def test_level_lost_with_its_leader_is_told_as_such():
    (said,) = level_changes(seen(("m1", "500"), ("m2", "400")))
    assert said == (
        "Between 12:00:00 UTC and 12:01:00 UTC: leader changed from m1 to m2, level from "
        "lively to steady."
    )


def test_changes_of_the_level_are_told_newest_first_and_quiet_times_not_at_all():
    told = level_changes(seen(("m1", "400"), ("m1", "500"), ("m1", "500"), ("m1", "300")))
    assert [one.partition("level")[2] for one in told] == [
        " changed from lively to freezed.",
        " changed from steady to lively.",
    ]
    assert level_changes(seen(("m1", "400"), ("m1", "400"))) == []


def test_snapshots_that_do_not_tell_are_passed_over():
    told = level_changes(seen(("m1", "400"), (None, None), ("m2", "400"), ("m2", "450")))
    assert told[1].endswith("leader changed from m1 to m2; level unchanged (steady).")
    assert told[0].endswith("from steady to unknown (450).")
