"""What the pages say of runs: may it be applied, how far is it, what came of it."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import msgspec
import numpy as np
import pytest
from journal_entries import (
    NOON,
    ONE_OF_EACH,
    begun,
    chain_of,
    claimed,
    ended,
    plan_of,
    record_of,
    requested,
)

from core.actions.events import (
    ControlRequested,
    Measured,
    RunEnded,
    RunMeasured,
    RunPaused,
    StepWaiting,
)
from core.actions.runs import fold
from core.pegasus.steps.batch import PartitionProposal, ProposeMany
from core.pegasus.steps.level import SetMetaLevel
from core.pegasus.steps.partition import Partition
from core.plan.model import BrokerExpectation, describe_usage_after
from core.pulsar.steps.setting import SetDynamicSetting
from core.pulsar.steps.split import SplitBundle
from dashboard.app_pages.activity import model as activity
from dashboard.app_pages.pulsar.run import model as outcome
from dashboard.app_pages.run import view as run_view
from dashboard.app_pages.run.charts import outcome_bars
from dashboard.presenters import applying, journal, run_steps, runs, step_history, workers

LATER = NOON + timedelta(minutes=3)
ALIVE = workers.WorkerState(is_alive=True, sentence="Alive.", short="alive")
GONE = workers.WorkerState(is_alive=False, sentence="Gone.", short="no worker", remedy="Start it.")


def view_of(*events):
    return fold(chain_of(record_of(event, second=at) for at, event in enumerate(events)))


QUEUED = (requested(3),)
RUNNING = (*QUEUED, claimed(), begun(0), ended(0), begun(1))
DONE = (
    *RUNNING,
    ended(1, code="landed_elsewhere", broker="b3:8080"),
    begun(2),
    ended(2, state="UNKNOWN", code="timed_out", broker=None),
    RunEnded(state="FAILED", sentence="One is unknown."),
)


# -- may it be applied, and what must be confirmed -------------------------------------------------


def standing(**changes):
    fields = {
        "plan": plan_of(2),
        "now": NOON,
        "is_past": False,
        "is_read_only": False,
        "worker": ALIVE,
        "open_run": None,
        "max_steps": 200,
    }
    return applying.ApplyContext(**(fields | changes))


def test_sound_plan_may_be_applied():
    assert applying.why_not(standing()) is None


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"is_read_only": True}, "read_only = false"),
        ({"is_past": True}, "Choose Live"),
        ({"plan": plan_of(0)}, "no steps"),
        ({"plan": plan_of(1, errored=True, applyable=False)}, "cannot be applied"),
        ({"now": NOON + timedelta(minutes=11)}, "2026-11-21 12:10:00 UTC"),
        ({"max_steps": 1}, "raise max_steps"),
        ({"worker": GONE}, "Gone. Start it."),
        ({"open_run": ("r1", "ann")}, "Run r1 by ann is active"),
    ],
)
def test_every_no_says_why_and_what_to_do(changes, words):
    assert words in (applying.why_not(standing(**changes)) or "")


SPLIT = SplitBundle(bundle="a/b/0x0_0x8", owner="b1:8080", algorithm="range_equally_divide")
THRESHOLD = SetDynamicSetting(key="loadBalancerBrokerOverloadedThresholdPercentage", value="80")
LIVELY = SetMetaLevel(before="steady", level="lively")


def impact_plan(*steps, **expected):
    """A plan of these steps, or of so many unloads, with what is expected of it."""
    plan = plan_of(steps[0]) if isinstance(steps[0], int) else replace(plan_of(1), steps=steps)
    return replace(plan, expected=replace(plan.expected, **expected))


def drained(partitions):
    """The steps of a drain: one node, emptied in a batch."""
    items = tuple(
        PartitionProposal(
            partition=Partition(
                gpid=f"2.{at}", table="t", ballot=1, max_replica_count=3, primary="n1:1"
            ),
            target="n2:1",
        )
        for at in range(partitions)
    )
    return ProposeMany(node="n1:1", verb="move_pri", items=items)


@pytest.mark.parametrize(
    ("plan", "environment", "why"),
    [
        (impact_plan(1), "production", None),
        (impact_plan(2), "demo", None),
        (impact_plan(THRESHOLD), "demo", None),
        (impact_plan(THRESHOLD), "production", None),
        (impact_plan(drained(20)), "demo", None),
        (impact_plan(1, clients=500, moved_bytes_per_s=250e6), "demo", None),
        (impact_plan(2), "production", "2 bundles on a production cluster"),
        (impact_plan(4), "demo", "4 bundles at once"),
        (impact_plan(1, clients=501), "demo", "501 clients to reconnect"),
        (impact_plan(1, moved_bytes_per_s=300e6), "demo", "300 MB/s of moved traffic"),
        (impact_plan(1, copied_mb=200 * 1024), "demo", "205 GB to copy"),
        (impact_plan(drained(206)), "demo", "changes to 206 partitions"),
        (impact_plan(LIVELY), "demo", "balancing of the whole cluster by the meta server"),
        (impact_plan(SPLIT), "demo", "a split cannot be undone"),
    ],
)
def test_the_name_is_asked_for_by_impact(plan, environment, why):
    found = applying.must_type_name(plan, environment)
    assert found is None if why is None else why in (found or "")


@pytest.mark.parametrize(
    ("level", "is_restored", "is_typed"),
    [
        ("steady", False, False),
        ("freezed", False, True),
        ("blind", True, True),
        ("stopped", False, True),
    ],
)
def test_a_level_below_steady_is_confirmed_by_name_even_for_a_while(level, is_restored, is_typed):
    step = SetMetaLevel(before="steady", level=level, is_restored=is_restored)
    why = applying.must_type_name(impact_plan(step), "demo")
    assert (why == f"at level {level} nothing is repaired") is is_typed
    assert (why is None) is not is_typed


def test_more_than_four_brokers_are_confirmed_by_name():
    plan = plan_of(3)
    apart = tuple(
        msgspec.structs.replace(step, owner=f"b{at}:8080", destination=f"b{at + 5}:8080")
        for at, step in enumerate(plan.steps)
    )
    assert applying.must_type_name(replace(plan, steps=apart[:2]), "staging") is None
    wide = replace(plan, steps=apart)
    assert applying.Impact.of(wide).servers == 6
    assert "6 brokers" in (applying.must_type_name(wide, "staging") or "")


@pytest.mark.parametrize(
    ("changed", "is_typed"),
    [
        ({"value": "true", "running": "false"}, True),
        ({"value": "true"}, True),  # what it was is not known
        ({"value": "true", "running": "true"}, False),
        ({"value": "true", "before": "false"}, True),
        ({"value": "false", "before": "true"}, False),
        ({"value": None, "before": "true"}, False),
    ],
)
def test_setting_the_leader_going_is_confirmed_by_name(changed, is_typed):
    step = SetDynamicSetting(key="loadBalancerSheddingEnabled", **changed)
    why = applying.must_type_name(impact_plan(step), "demo")
    assert (why == "the leader then sheds bundles automatically") is is_typed
    assert (why is None) is not is_typed


@pytest.mark.parametrize("step", [SPLIT, THRESHOLD])
def test_step_that_is_no_move_is_shown_in_its_words(step):
    plan = replace(plan_of(1), steps=(step,))
    view = view_of(requested(plan=plan), claimed())
    row = runs.steps_frame(view, LATER).iloc[0]
    assert row["bundle"] == step.subject
    assert step.subject in row["asked"]
    assert not row["predicted"]
    assert "moved" not in runs.answer(view, LATER)


def test_a_changed_setting_has_its_result_and_no_requested_destination():
    plan = replace(plan_of(1), steps=(THRESHOLD,))
    view = view_of(requested(plan=plan), claimed(), begun(0), ended(0, code="set", broker=None))
    assert runs.notable(view) == [runs.what_happened(view.steps[0])]
    assert "asked" not in run_view._columns(view, runs.steps_frame(view, LATER))
    moved = view_of(*RUNNING)
    assert runs.notable(moved) == []


@pytest.mark.parametrize(
    ("reason", "typed", "lacks"),
    [
        (" ", "prod", "Enter a reason"),
        ("hot", "Prod", "Enter the cluster name"),
        ("hot", "prod", None),
    ],
)
def test_reason_and_name_are_asked_for(reason, typed, lacks):
    found = applying.missing(plan_of(4), "demo", applying.Answers(reason=reason, typed_name=typed))
    assert found is None if lacks is None else lacks in (found or "")


@pytest.mark.parametrize(
    ("status", "is_alive", "words"),
    [
        ({}, False, "No worker has run"),
        ({"last_seen_at": "yesterday"}, False, "No worker has run"),
        ({"last_seen_at": "2026-11-21T12:00:00+00:00"}, False, "last seen 3 min ago"),
        ({"last_seen_at": "2026-11-21T12:02:58Z", "doing": "Waiting."}, True, "alive. Waiting."),
        ({"last_seen_at": "2026-11-21T12:02:58", "worker": "w1"}, True, "w1"),
        ({"last_seen_at": "2026-11-21T12:02:58Z", "stopped_at": "x"}, False, "stopped"),
    ],
)
def test_worker_is_alive_only_when_heard_of_a_moment_ago(status, is_alive, words):
    found = workers.worker_state(status, cluster="prod", now=LATER)
    assert found.is_alive is is_alive
    assert words in found.sentence
    assert is_alive or "trimtab worker prod" in found.remedy
    assert workers.worker_badge(found).tone == ("gray" if is_alive else "orange")


# -- a run -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("events", "words"),
    [
        (QUEUED, "Waiting for a worker: 3 bundles on prod."),
        (RUNNING, "Step 2 in progress for "),
        (RUNNING[:-1], "Step 2 is next."),
        ((*RUNNING[:-1], StepWaiting(step=1, sentence="Not yet.")), "Step 2 waiting for "),
        ((*RUNNING[:-1], RunPaused(sentence="Ann wished it.")), "Paused. Ann wished it."),
        (DONE[:-1], "Whether acme/orders/0x00000002_0x00000003 moved: result unknown"),
        (DONE, "One is unknown."),
    ],
)
def test_headline_says_how_the_run_stands(events, words):
    assert words in runs.answer(view_of(*events), LATER)


def test_a_run_whose_steps_have_ended_names_no_next_step():
    view = view_of(*DONE[:-2], ended(2))
    assert runs.answer(view, LATER) == "All steps have ended; closing the run."


def test_figures_of_a_run_are_state_steps_time_and_rate():
    shown = {one.label: one for one in runs.run_figures(view_of(*DONE), LATER)}
    assert (shown["State"].value, shown["State"].status) == ("failed", "bad")
    assert (shown["Done"].value, shown["Done"].note) == (
        "2 of 3",
        "1 moved elsewhere than requested",
    )
    assert shown["Done"].status == "warning"
    assert (shown["Failed"].value, shown["Failed"].note) == ("1", "1 unknown")
    assert shown["Rate"].note.startswith("limit ")
    going = {one.label: one for one in runs.run_figures(view_of(*RUNNING), LATER)}
    assert going["State"].status == ""
    assert "left" in going["Elapsed"].note


def test_progress_counts_finished_steps_and_foresees_the_end():
    done = runs.progress(view_of(*RUNNING), NOON + timedelta(seconds=20))
    assert (done.finished, done.total) == (1, 3)
    assert done.ratio == pytest.approx(1 / 3)
    assert "left" in done.text
    assert "duration" in runs.progress(view_of(*DONE), LATER).text


def test_a_wait_has_no_foreseen_end_and_is_over_when_its_step_began():
    waiting = (*RUNNING[:-1], StepWaiting(step=1, sentence="Not yet."))
    view = view_of(*waiting)
    assert "wait time unknown" in runs.progress(view, LATER).text
    assert run_steps.waiting_step(view).waiting == "Not yet."
    assert run_steps.waiting_step(view_of(*waiting, begun(1))) is None


@pytest.mark.parametrize(
    ("starts_s", "rate"),
    [
        ((0.0, 6.0), None),
        ((0.0, 6.0, 12.0), None),  # three starts say little within some seconds
        ((0.0, 30.0, 60.0), "2.0 steps/min"),
        ((0.0, 6.0, 60.0, 66.0), "2.7 steps/min"),
    ],
)
def test_rate_is_that_of_the_starts_and_needs_three_within_a_minute_or_more(starts_s, rate):
    view = view_of(*DONE)
    first = view.steps[0]
    steps = tuple(replace(first, begun_at=NOON + timedelta(seconds=at)) for at in starts_s)
    said = runs.progress(replace(view, steps=steps), LATER).text
    assert rate in said if rate else "/min" not in said


def test_steps_show_owners_before_and_after_and_the_foreseen_landing():
    rows = runs.steps_frame(view_of(*DONE), LATER)
    assert rows["state"].tolist() == ["● done", "▲ done, elsewhere", "? unknown"]
    assert rows["before"].tolist() == ["b1:8080"] * 3
    assert rows["after"].tolist() == ["b2:8080", "b3:8080", ""]
    assert rows["predicted"].tolist() == [
        "✓ 75%",
        "≠ b2:8080 (75%); actual: 25%",
        "b2:8080 (75%)",
    ]
    assert rows["elapsed_s"].tolist() == [0.8125] * 3


def test_steps_that_did_not_go_as_asked_are_told_in_full():
    said = runs.notable(view_of(*DONE))
    assert [line.split(":")[0] for line in said] == ["▲ done, elsewhere", "? unknown"]
    assert len(runs.notable(view_of(*DONE), limit=1)) == 2


def test_control_that_was_asked_for_is_not_asked_again():
    view = view_of(*RUNNING, ControlRequested(control="stop", reason="enough"))
    assert "requested by ann" in runs.pending_words(view, LATER)
    assert "(enough)" in runs.pending_words(view, LATER)
    assert runs.why_no_control(view, "pause") == "The run is already stopping."
    paused = view_of(*RUNNING, ControlRequested(control="pause"))
    assert runs.why_no_control(paused, "pause") == "Pause was already requested."
    assert runs.why_no_control(paused, "stop") is None
    assert runs.why_no_control(view_of(*QUEUED), "pause") is not None
    assert runs.why_no_control(view_of(*DONE), "stop") == "The run is failed."


def test_undo_is_offered_for_what_was_moved_and_not_twice_at_once():
    assert runs.why_no_undo(view_of(*RUNNING), None) == "The run is active. Stop it first."
    assert runs.why_no_undo(view_of(*DONE), None) is None
    assert "already undoes this run" in (runs.why_no_undo(view_of(*DONE), view_of(*RUNNING)) or "")
    assert runs.why_no_undo(view_of(*DONE), view_of(*DONE)) is None  # that undo failed
    whole = replace(view_of(*DONE), state="DONE")
    assert runs.why_no_undo(view_of(*DONE), whole) == f"Undone by run {whole.run_id}."
    part = replace(whole, plan=replace(whole.plan, complete=False))
    assert runs.why_no_undo(view_of(*DONE), part) is None


@pytest.mark.parametrize(
    ("subject", "count"),
    [("b1:8080", 3), ("b3:8080", 1), ("acme/orders/0x00000001_0x00000002", 1), ("b7:8080", 0)],
)
def test_past_of_an_object_lists_the_steps_that_touched_it(subject, count):
    assert len(step_history.touching([view_of(*DONE)], subject)) == count


# -- predicted against what came -------------------------------------------------------------------


def test_what_was_not_measured_is_unknown_and_never_zero():
    view = view_of(*DONE)
    data = outcome.outcome(view, "usage")
    assert data.servers[0] == "b1:8080"
    assert data.before[0] == 0.9
    assert np.isnan(data.came).all()
    assert set(outcome.outcome_table(view)["usage_came"]) == {"not measured"}
    assert "not measured yet" in outcome.outcome_sentence(view)
    assert "measured" not in [trace.name for trace in outcome_bars(data).data]


def test_measured_stands_beside_expected():
    measured = RunMeasured(
        snapshot_id="feedfeedfeedfeed",
        taken_at=NOON + timedelta(seconds=38),
        usage_deviation=None,
        throughput_deviation=0.125,
        brokers=(Measured(broker="b1:8080", usage_ratio=0.55, throughput_bytes_per_s=2e6),),
    )
    view = view_of(*DONE, measured)
    assert outcome.outcome(view, "usage").came[0] == 0.55
    assert "+40% before, +10% predicted, +12.5% measured" in outcome.outcome_sentence(view)
    table = outcome.outcome_table(view).set_index("broker")
    assert table.loc["b1:8080", "traffic_came"] == "2 MB/s"
    assert "measured" in [
        trace.name for trace in outcome_bars(outcome.outcome(view, "traffic")).data
    ]


@pytest.mark.parametrize(
    ("before", "after", "shown"),
    [(1.0, 0.544, "≥ 54.4%"), (0.9, 0.544, "54.4%"), (1.0, 1.2, "120%"), (None, None, "unknown")],
)
def test_the_usage_predicted_for_a_saturated_broker_is_a_lower_bound(before, after, shown):
    one = BrokerExpectation(broker="b1:8080", usage_before=before, usage_after=after)
    assert one.describe_usage_after() == describe_usage_after(before, after) == shown


def test_what_is_unassigned_is_never_a_deviation_alone():
    names = tuple(f"acme/orders/0x{low:08x}_0x{low + 1:08x}" for low in range(13))
    measured = RunMeasured(
        snapshot_id="feedfeedfeedfeed",
        taken_at=NOON + timedelta(seconds=38),
        usage_deviation=None,
        throughput_deviation=0.0,
        unassigned=names,
    )
    view = view_of(*DONE, measured)
    figure = outcome.deviation_figure(view)
    assert (figure.label, figure.value, figure.status) == ("Unassigned", "13", "bad")
    assert "0%" in figure.note
    said = f"Unassigned: 13 ({', '.join(names[:3])} and 10 more)"
    assert outcome.outcome_sentence(view).startswith(said)
    assert outcome.doubt(view).startswith(said)
    none = view_of(*DONE, msgspec.structs.replace(measured, unassigned=()))
    assert outcome.deviation_figure(none).label == "Measured deviation"


def test_a_step_that_left_its_bundle_unassigned_stands_out():
    (step, *_) = view_of(
        requested(), claimed(), begun(0), ended(0, "UNKNOWN", "unassigned", None)
    ).steps
    assert runs.step_words(step) == "▲ unassigned"


# -- the journal -----------------------------------------------------------------------------------


def test_every_kind_of_entry_is_told_in_words():
    entries = chain_of(record_of(event) for event in ONE_OF_EACH)
    rows = journal.entries_frame(entries)
    assert set(rows["kind"]) == set(activity.KINDS.values())
    assert all(rows["what"])
    assert activity.matching_rows(rows, activity.JournalFilter(kind="measured"))[
        "seq"
    ].tolist() == [len(entries)]


@pytest.mark.parametrize(
    ("wanted", "count"),
    [
        (activity.JournalFilter(), 2),
        (activity.JournalFilter(cluster="prod", person="ann", state="failed"), 1),
        (activity.JournalFilter(cluster="test"), 0),
        (activity.JournalFilter(text="TOO hot"), 2),
        (activity.JournalFilter(text="0x00000002_"), 2),
        (activity.JournalFilter(since=LATER), 0),
        (activity.JournalFilter(until=NOON - timedelta(seconds=1)), 0),
    ],
)
def test_runs_are_filtered(wanted, count):
    assert len(activity.matching_runs([view_of(*DONE), view_of(*RUNNING)], wanted)) == count


def test_figures_of_all_runs_are_of_the_last_day():
    views = [view_of(*DONE), view_of(*RUNNING)]
    shown = {one.label: one.value for one in activity.key_figures(views, LATER)}
    assert shown == {"Runs, 24 h": "2", "Moves, 24 h": "3", "Failed, 24 h": "1", "In progress": "1"}
    later = {one.label: one.value for one in activity.key_figures(views, NOON + timedelta(days=3))}
    assert (later["Runs, 24 h"], later["In progress"]) == ("0", "1")


def test_verdict_on_the_chain_names_its_figures_or_the_first_damage():
    assert journal.chain_of(12_345, "ab" * 32, ()).sentence == (
        "12,345 entries, chain intact, newest digest abababababababab"
    )
    broken = journal.chain_of(6, "ab" * 32, ("The chain breaks at entry 7: its body was changed.",))
    assert not broken.is_sound
    assert "7: its body" in broken.sentence
