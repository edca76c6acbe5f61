"""Runs as text: progress, duration, result of each step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

import pandas as pd

from core.actions.describe import EMPTY, describe_value, waits_for, why_nothing_lasts
from core.actions.model import Control, Observation, RunState, StepState
from core.actions.pace import pace_of
from core.actions.views import RunView, StepView
from core.plan import describe as plan_words
from core.plan.describe import things
from core.units import format_age, format_ratio, pluralize
from dashboard.presenters.figures import KeyFigure, Status
from dashboard.presenters.freshness import Badge, Tone
from dashboard.presenters.run_steps import has_waits_to_come, is_waiting, waiting_step, waiting_word
from dashboard.presenters.step_text import step_text

RUN_WORDS: Final[dict[RunState, str]] = {
    "QUEUED": "○ queued",
    "RUNNING": "◐ running",
    "PAUSED": "‖ paused",
    "DONE": "● done",
    "STOPPED": "■ stopped",
    "FAILED": "✖ failed",
    "REFUSED": "⊘ refused",
}
STEP_WORDS: Final[dict[StepState, str]] = {
    "PENDING": "○ pending",
    "RUNNING": "◐ in progress",
    "DONE": "● done",
    "FAILED": "✖ failed",
    "UNKNOWN": "? unknown",
    "SKIPPED": "» skipped",
}
_TONES: Final[dict[RunState, Tone]] = {
    "QUEUED": "gray",
    "RUNNING": "blue",
    "PAUSED": "orange",
    "DONE": "green",
    "STOPPED": "gray",
    "FAILED": "red",
    "REFUSED": "red",
}
_ICONS: Final[dict[RunState, str]] = {
    "QUEUED": ":material/hourglass_empty:",
    "RUNNING": ":material/progress_activity:",
    "PAUSED": ":material/pause_circle:",
    "DONE": ":material/check_circle:",
    "STOPPED": ":material/stop_circle:",
    "FAILED": ":material/error:",
    "REFUSED": ":material/block:",
}

NONE: Final = "\N{EN DASH}"
"""Stands for a figure that there is not."""

RATE_STEPS: Final = 3
RATE_SPAN_S: Final = 60.0
"""Fewer starts, or starts within less time, give no rate: the pause between two is what counts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgressDescription:
    """Progress of a run.

    Attributes:
        finished: Steps whose outcome is known, skipped ones included.
        total: Steps of the plan.
        ratio: 0..1.
        text: Count, rate and time to go, for people.
    """

    finished: int
    total: int
    ratio: float
    text: str


def running_badge(view: RunView, now: datetime) -> Badge:
    """Return the run that has not ended, for the header: a few words and how far it is."""
    done = progress(view, now)
    return Badge(
        text=f"run: {done.finished} of {done.total}",
        icon=_ICONS[view.state],
        tone=_TONES[view.state],
        help=f"Run {view.run_id} of {view.requested_by} is {view.state.lower()}: {view.reason}",
    )


def answer(view: RunView, now: datetime, ahead: RunView | None = None) -> str:
    """Return the state of the run, as one sentence; the figures are not repeated.

    Args:
        now: The moment.
        ahead: The run that has to end before this one begins; ``None``: there is none.
    """
    if view.state == "QUEUED" and ahead is not None:
        return waits_for(ahead)
    if view.state == "QUEUED":
        return f"Waiting for a worker: {things(view.plan.steps)} on {view.cluster}."
    if view.state == "REFUSED":
        return f"Refused: {view.sentence}"
    if view.is_ended:
        return view.sentence
    text = _under_way(view, now)
    return text[:1].upper() + text[1:]


def _under_way(view: RunView, now: datetime) -> str:
    if view.putting_back:
        return view.putting_back
    if view.state == "PAUSED":
        return f"paused. {view.sentence}"
    at_work = next((step for step in view.steps if step.state == "RUNNING"), None)
    if at_work is not None:
        seconds = _seconds(at_work.begun_at, now)
        how = f"in progress for {format_age(seconds)}" if seconds >= 1 else "in progress"
        return f"step {at_work.index + 1} {how}: {at_work.step.describe()}."
    if view.unresolved:
        return f"{plan_words.whether(view.unresolved[0].step)}: result unknown."
    return _following(view, now)


def _following(view: RunView, now: datetime) -> str:
    """Return the next or waiting step of a run without a current step."""
    waits = waiting_step(view)
    if waits is not None:
        lasts = format_age(_seconds(waits.waiting_since, now))
        return f"step {waits.index + 1} waiting for {lasts}: {waits.waiting}"
    following = next((step for step in view.steps if step.state == "PENDING"), None)
    if following is None:
        return "all steps have ended; closing the run."
    return f"step {following.index + 1} is next."


def progress(view: RunView, now: datetime) -> ProgressDescription:
    """Return the progress of a run: counts, rate and remaining time."""
    total = len(view.steps)
    finished = sum(step.state in ("DONE", "FAILED", "SKIPPED") for step in view.steps)
    parts = [f"{finished} of {total} finished"]
    end = view.ended_at or now
    rate = _steps_per_min(view)
    if rate is not None:
        parts.append(f"{rate:.1f} steps/min")
    if view.is_ended and view.started_at is not None:
        parts.append(f"duration {format_age(_seconds(view.started_at, end))}")
    elif waiting_step(view) is not None:
        parts.append("wait time unknown")
    elif view.state == "RUNNING" and has_waits_to_come(view):
        parts.append("wait times unknown")
    elif (left_s := _known_left_s(view)) is not None:
        parts.append(f"approx. {format_age(left_s)} left")
    return ProgressDescription(
        finished=finished,
        total=total,
        ratio=finished / total if total else 1.0,
        text=", ".join(parts),
    )


def _steps_per_min(view: RunView) -> float | None:
    """Steps begun a minute, from the first to the last start; ``None`` for too few, too soon."""
    begun = [step.begun_at for step in view.steps if step.begun_at is not None]
    if len(begun) < RATE_STEPS:
        return None
    span_s = _seconds(min(begun), max(begun))
    return (len(begun) - 1) * 60.0 / span_s if span_s >= RATE_SPAN_S else None


def _known_left_s(view: RunView) -> float | None:
    """Seconds until a run that goes on is done; ``None``: nothing says how long."""
    left = sum(step.state not in ("DONE", "FAILED", "SKIPPED") for step in view.steps)
    is_open = view.counts.get("UNKNOWN") or waiting_step(view) or has_waits_to_come(view)
    return None if view.state != "RUNNING" or not left or is_open else _left_s(view, left)


def _left_s(view: RunView, left: int) -> float | None:
    """Seconds until the rest is done: the pace or the steps' own time, whichever is slower.

    Only further steps wait for their turn; of a single step nothing is known until it is done.
    """
    took = [step.took_ms / 1000 for step in view.steps if step.took_ms is not None]
    if not took and left == 1:
        return None
    own_s = sum(took) / len(took) if took else 1.0
    return own_s + (left - 1) * max(own_s, 60.0 / pace_of(view).per_min)


def pace_words(view: RunView) -> str:
    """Return the pace of a run against its limit."""
    pace = pace_of(view)
    if not pace.why or view.is_ended:
        return f"limit {pace.limit_per_min:g} steps/min"
    return f"now {pace.per_min:g} of {pace.limit_per_min:g} steps/min"


_STATUSES: Final[dict[RunState, Status]] = {
    "PAUSED": "warning",
    "DONE": "ok",
    "STOPPED": "warning",
    "FAILED": "bad",
    "REFUSED": "bad",
}


_ALSO: Final[dict[StepState, str]] = {"UNKNOWN": "unknown", "SKIPPED": "skipped"}
"""What the figure of failed steps names as well."""


def run_figures(view: RunView, now: datetime) -> list[KeyFigure]:
    """Return state, steps done, steps failed, time and rate of a run."""
    counts, total = view.counts, len(view.steps)
    bad = counts.get("FAILED", 0) + counts.get("UNKNOWN", 0)
    parts = [f"{counts[state]} {word}" for state, word in _ALSO.items() if counts.get(state)]
    moment = view.ended_at if view.is_ended else view.started_at or view.requested_at
    verb = "ended" if view.is_ended else "started" if view.started_at else "requested"
    left_s = _known_left_s(view)
    rate = _steps_per_min(view)
    differing = ", ".join(f"{count:,} {word}" for word, count in view.differing.items())
    return [
        KeyFigure(
            label="State",
            value=view.state.lower(),
            note=f"{verb} {ago(moment, now)}",
            status=_STATUSES.get(view.state, ""),
        ),
        KeyFigure(
            label="Done",
            value=f"{counts.get('DONE', 0)} of {total}",
            note=differing or plan_words.things_done(view.plan.steps).partition(" ")[2],
            status="warning" if differing else "",
        ),
        KeyFigure(
            label="Failed",
            value=str(bad),
            note=", ".join(parts) or ("no failed steps" if view.is_ended else ""),
            status="bad" if bad else "ok" if view.is_ended else "",
        ),
        KeyFigure(
            label="Elapsed",
            value=format_age(took_s(view, now)) if view.started_at else NONE,
            note="" if left_s is None else f"approx. {format_age(left_s)} left",
        ),
        KeyFigure(
            label="Rate",
            value=NONE if rate is None else f"{rate:.1f} steps/min",
            note=pace_words(view),
            help="" if view.is_ended else f"Allowed: {pace_of(view).sentence}.",
        ),
    ]


def steps_frame(view: RunView, now: datetime) -> pd.DataFrame:
    """Return one row a step: state, bundle, owner before and after, elapsed, result."""
    return pd.DataFrame(
        [
            {
                "no": step.index + 1,
                "state": step_words(step),
                "bundle": step.step.subject,
                "before": before_words(step),
                "after": after_words(step),
                "asked": _asked(step),
                "predicted": predicted_label(step),
                "result": result_words(step),
                "elapsed_s": elapsed_s(step, now),
                "sentence": what_happened(step),
            }
            for step in view.steps
        ],
        columns=[
            *("no", "state", "bundle", "before", "after", "asked"),
            *("predicted", "result", "elapsed_s", "sentence"),
        ],
    )


def step_words(step: StepView) -> str:
    """Return the state of a step with its sign; a landing elsewhere stands out."""
    if step.unserved:
        return f"▲ {step.unserved}"
    if step.state == "DONE" and step.result and step.step.flags_of(step.result.code).differs:
        return f"▲ done, {step.result.code.replace('_', ' ').removeprefix('landed ')}"
    return waiting_word(step) if is_waiting(step) else STEP_WORDS[step.state]


def landed(step: StepView) -> str | None:
    """Return the owner of the bundle after the step; ``None`` if unknown or none."""
    after = step.result.after if step.result else None
    return after.holder if after is not None else None


def _asked(step: StepView) -> str:
    if step.step.is_placed_by_cluster:
        return step.step.destination or "any"
    own = step_text(step.step)
    return step.step.describe() if own is None else own.requested()


def predicted_label(step: StepView) -> str:
    """Return the predicted destination of the bundle, and whether it was the actual one."""
    likely = step.step.likely
    if not likely:
        return "unknown" if step.step.is_placed_by_cluster else ""
    chance, probability = likely[0], step.step.predicted[likely[0]]
    if step.step.destination is None or probability < 1:  # a request alone is no prediction
        chance += f" ({format_ratio(probability)})"
    where = landed(step)
    if step.state != "DONE" or where is None:
        return chance
    if where == likely[0]:  # the column "To" names it
        return f"✓ {chance.removeprefix(where).strip(' ()')}".strip()
    given = step.step.predicted.get(where)
    return f"≠ {chance}; actual: {format_ratio(given)}" if given else f"≠ {chance}"


def elapsed_s(step: StepView, now: datetime) -> float | None:
    """Return the duration of a step, seconds."""
    if step.begun_at is None:
        return None
    if step.took_ms is not None:
        return step.took_ms / 1000
    return _seconds(step.begun_at, step.ended_at or now)


def result_words(step: StepView) -> str:
    """Return the result of a step in a few words; empty: there is none yet."""
    return "" if step.result is None else step.result.code.replace("_", " ")


def what_happened(step: StepView) -> str:
    """Return the result of a step with the next action."""
    if step.result is None:
        if step.state == "PENDING":
            return step.waiting
        what = "new owner" if step.step.is_placed_by_cluster else "effect"
        return f"Waiting for the {what}."
    looked = " Reconciled later." if step.is_reconciled else ""
    own = step_text(step.step)
    read = "" if own is None else own.changed(step)
    return (read or f"{step.result.sentence} {step.result.hint}".strip()) + looked


def notable(view: RunView, limit: int = 3) -> list[str]:
    """Return the full results of steps that did not go as requested, and of changed settings.

    A setting counts as changed when the servers use it; how many do is in its result alone.
    """
    odd = [
        step
        for step in view.steps
        if step.state in ("FAILED", "UNKNOWN") or step_words(step).startswith("▲")
    ]
    found = [f"{step_words(step)}: {what_happened(step)}" for step in odd[:limit]]
    found += [f"{len(odd) - limit} similar steps."] if len(odd) > limit else []
    changed = [
        step
        for step in view.steps
        if step.step.setting and step.state == "DONE" and step not in odd
    ]
    return found + [what_happened(step) for step in changed[:limit]]


def runs_frame(views: Sequence[RunView], now: datetime) -> pd.DataFrame:
    """Return one row a run, in the order given."""
    return pd.DataFrame(
        [
            {
                "run": view.run_id,
                "requested_at": view.requested_at,
                "cluster": view.cluster,
                "who": view.requested_by,
                "state": RUN_WORDS[view.state],
                "done": view.counts.get("DONE", 0),
                "failed": view.counts.get("FAILED", 0) + view.counts.get("UNKNOWN", 0),
                "skipped": view.counts.get("SKIPPED", 0),
                "steps": len(view.steps),
                "took_s": took_s(view, now),
                "why": view.reason,
                "outcome": view.sentence,
                "undoes": view.undoes or "",
                "plan": view.plan.plan_id,
            }
            for view in views
        ],
        columns=[
            *("run", "requested_at", "cluster", "who", "state", "done", "failed", "skipped"),
            *("steps", "took_s", "why", "outcome", "undoes", "plan"),
        ],
    )


def took_s(view: RunView, now: datetime) -> float | None:
    """Return the duration of a run, seconds; ``None`` if it was not started."""
    if view.started_at is None:
        return None
    return _seconds(view.started_at, view.ended_at or now)


def ago(moment: datetime | None, now: datetime) -> str:
    """Return ``12 s ago``."""
    return "at an unknown time" if moment is None else f"{format_age(_seconds(moment, now))} ago"


def _seconds(start: datetime | None, end: datetime) -> float:
    return 0.0 if start is None else max(0.0, (end - start).total_seconds())


def subtitle(view: RunView) -> str:
    """Return the cluster, requester, time, reason, plan and executor of a run."""
    parts = [
        view.cluster,
        view.requested_by,
        f"{view.requested_at.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC",
        f"“{view.reason}”",
        f"plan {view.plan.short_id}",
    ]
    if view.options.pause_balancer:
        parts.append("shedding paused")
    if view.worker:
        parts.append(f"worker {view.worker}")
    if view.takeovers:
        parts.append(f"taken over {pluralize(view.takeovers, 'time')}")
    return " · ".join(parts)


def external_frame(view: RunView) -> pd.DataFrame:
    """Return one row a bundle or partition that others moved during the run."""
    return pd.DataFrame(
        [
            {"subject": move.subject, "from": move.source or "", "to": move.destination or ""}
            for move in view.external_changes
        ]
    )


def settings_frame(view: RunView) -> pd.DataFrame:
    """Return the settings that the run changed, with their final state."""
    return pd.DataFrame(
        [
            {
                "setting": setting.key,
                "before": describe_value(setting.before) or "not set",
                "during": setting.during,
                "now": _FATES[setting.result],
                "result": setting.sentence,
            }
            for setting in view.settings
        ]
    )


def before_words(step: StepView) -> str:
    """Return the owner or value before the step; empty: unknown or none."""
    if not step.step.has_before_and_after:
        return ""
    own = step_text(step.step)
    if own is not None:
        return own.before(step)
    known = _held(step.before)
    return (_of_plan(step) if known is None else known) or ""


def _of_plan(step: StepView) -> str | None:
    """Return the former owner or value that the plan has."""
    change = step.step.setting
    if change is not None and not change.is_persistent:
        return EMPTY if change.before == "" else change.before
    return step.step.owner


def after_words(step: StepView) -> str:
    """Return the owner or value after the step; empty: unknown or none."""
    if not step.step.has_before_and_after:
        return ""
    seen = step.result.after if step.result else None
    own = step_text(step.step)
    if own is not None:
        return own.value(seen.value) if seen else ""
    return _held(seen) or ""


def _held(observation: Observation | None) -> str | None:
    if observation is None:
        return None
    return observation.holder or (
        EMPTY if observation.value == "" else describe_value(observation.value)
    )


def about_to_begin(view: RunView) -> str:
    """Return the status of a requested run whose worker is free."""
    return f"Starting: {things(view.plan.steps)} on {view.cluster}."


def pending_words(view: RunView, now: datetime) -> str:
    """Return the pending control request of the run; empty: none."""
    if view.control is None or not view.is_control_pending:
        return ""
    request = view.control
    why = f" ({request.reason})" if request.reason else ""
    return (
        f"{request.control.capitalize()} requested by {request.requested_by} "
        f"{ago(request.requested_at, now)}{why}; takes effect after the current step."
    )


def why_no_control(view: RunView, control: Control) -> str | None:
    """Return the reason why a control is not possible; ``None`` if it is."""
    if view.is_ended:
        return f"The run is {view.state.lower()}."
    if view.is_control_pending and view.control is not None:
        if view.control.control == "stop":
            return "The run is already stopping."
        if view.control.control == control:
            return f"{control.capitalize()} was already requested."
    if control == "pause" and view.state == "QUEUED":
        return "The run has not started. Stop it instead."
    return None


def why_no_undo(view: RunView, undone_by: RunView | None) -> str | None:
    """Return the reason why an undo is not possible; ``None`` if it is.

    Args:
        undone_by: The latest run that was to take it back, if any.
    """
    if not view.is_ended:
        return "The run is active. Stop it first."
    done = [step.step for step in view.steps if step.step.has_taken_effect(step.executed)]
    if not done:
        return "No completed steps to undo."
    is_balanced = any(step.starts_balancer for step in done)  # moves back can be planned
    if not is_balanced and (nothing := why_nothing_lasts(view)):
        return nothing
    if all(step.why_irreversible for step in done):
        return done[0].why_irreversible
    return None if undone_by is None else _why_not_again(undone_by)


def _why_not_again(undo: RunView) -> str | None:
    """Return the reason why a run is not undone once more; ``None`` if that undo was in part."""
    if not undo.is_ended:
        return f"Run {undo.run_id} already undoes this run."
    is_whole = undo.state == "DONE" and undo.plan.complete
    return f"Undone by run {undo.run_id}." if is_whole else None


_FATES: Final = {
    None: "◐ temporary",
    "restored": "● restored",
    "not_restored": "▲ not restored, on purpose",
    "changed_by_others": "▲ changed by others",
    "failed": "✖ not restored yet",
}
