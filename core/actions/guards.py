"""What is checked before a step is begun, in order; every "no" names limit, value and bound.

A guard looks at the session and answers with a :class:`GuardResult` or with ``None``. The first
result is obeyed and all guards are run again, so that a step begins only when all agree at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from fnmatch import fnmatchcase
from typing import Final, Literal

from core.actions.canary import gate_of, is_read_since, verdict
from core.actions.describe import describe_unserved
from core.actions.model import Refusal, StepResult
from core.actions.pace import pace_of
from core.actions.preconditions import read_only_refusal
from core.actions.session import Session
from core.actions.views import StepView
from core.actions.windows import window_refusal
from core.step import Step
from core.units import format_age, pluralize

FRESH_FOR_S: Final = 60.0
"""Steps are checked again on a new snapshot when the one they were checked on is older."""

UNSETTLED_FOR_S: Final = 60.0
"""How long the cluster is observed for a step of unknown outcome before the run ends."""

_SERVED_AGAIN: Final = "The reason for the pause is gone; the run resumes."

BUDGET_SPAN: Final = timedelta(hours=24)

Effect = Literal[
    "wait", "report", "pause", "resume", "skip", "end", "leave", "renew", "quiet", "keep"
]
"""``report``: wait, and put on record why. ``skip``: this step. ``end``: all that is pending, then
the run. ``leave``: stop acting, leave the run to whoever takes it over. ``renew``: take a new
snapshot. ``quiet``: pause the balancer. ``keep``: set again what the run's steps have set for its
time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardResult:
    """Reason the next step does not start now, and its consequence.

    Attributes:
        effect: What is to be done about it.
        refusal: The reason, for people.
        wait_s: For ``wait``: how long it will take at least.
    """

    effect: Effect
    refusal: Refusal
    wait_s: float = 0.0


Guard = Callable[[Session], GuardResult | None]


def shutting_down(session: Session) -> GuardResult | None:
    """Leave when this process is to end."""
    session.idle(0.0)
    if not session.is_shutting_down:
        return None
    return _result("leave", "worker_stopping", f"Worker {session.ports.worker} is shutting down.")


def stop_flag(session: Session) -> GuardResult | None:
    """End when a person requested it."""
    if session.stop is None:
        return None
    event = session.stop.event
    why = getattr(event, "reason", "")
    return _result(
        "end",
        "stopped",
        f"{session.stop.actor} stopped the run at {session.stop.at:%H:%M:%S} UTC"
        + (f": {why}." if why else "."),
        "Plan the remaining steps on a fresh snapshot.",
    )


def serving(session: Session) -> GuardResult | None:
    """Pause while too much that the run has unloaded is unserved, unless a person resumed it."""
    if session.turn is None:
        return None  # nothing is left to begin
    view = session.view
    unserved = [step for step in view.unserved if step.index not in view.resumed_over]
    bound = max(view.options.max_unassigned, 1)
    if len(unserved) < bound:
        return None
    first = unserved[0]
    why = f" The first: {first.result.sentence}" if first.result else ""
    what = describe_unserved(unserved)
    sentence = (
        f"{what[:1].upper()}{what[1:]}; the run pauses at {bound}.{why} The run resumes when "
        "fewer are left, or on request."
    )
    hint = first.result.hint if first.result else ""
    return _result(_pausing(session), "unassigned", sentence, hint, wait_s=1.0)


def _pausing(session: Session) -> Effect:
    """Pause, or wait where nothing is left to do for the pause."""
    is_at_rest = session.view.state == "PAUSED" and not session.view.outstanding_settings
    return "wait" if is_at_rest else "pause"


def pause_flag(session: Session) -> GuardResult | None:
    """Wait while a person wants a pause."""
    request = session.view.control
    is_paused = session.view.state == "PAUSED"
    if request is not None and request.control == "pause":
        why = f": {request.reason}." if request.reason else "."
        sentence = f"{request.requested_by} paused the run{why}"
        return _result(_pausing(session), "paused", sentence, "Resume or stop it.", wait_s=1.0)
    if is_paused:
        is_asked = request is not None and request.control == "resume"
        why = f"{request.requested_by} resumed the run." if is_asked and request else _SERVED_AGAIN
        return _result("resume", "resumed", why)
    return None


def lease_held(session: Session) -> GuardResult | None:
    """Leave when another worker may be writing."""
    if session.is_ours():
        return None
    lease = session.ports.lease
    return _result(
        "leave",
        "lease_lost",
        f"{session.ports.worker} no longer holds {lease.place}; another worker may be acting on "
        f"{session.view.cluster}.",
    )


def backoff(session: Session) -> GuardResult | None:
    """Wait before a cluster that could not be read is read again."""
    left_s = session.retry_at_s - session.ports.clock.monotonic()
    if left_s <= 0:
        return None
    sentence = f"{session.view.cluster} could not be read; next attempt in {left_s:.1f} s."
    return _result("wait", "breather", sentence, wait_s=left_s)


def read_only(session: Session) -> GuardResult | None:
    """End when the configuration forbids every action."""
    cluster = session.ports.cluster
    if not cluster.is_read_only:
        return None
    return GuardResult(effect="end", refusal=read_only_refusal(cluster.name))


def open_window(session: Session) -> GuardResult | None:
    """End when the cluster is frozen, or its maintenance window is over."""
    cluster, now = session.ports.cluster, session.ports.clock.now()
    refusal = window_refusal(cluster.windows, cluster.name, now)
    return None if refusal is None else GuardResult(effect="end", refusal=refusal)


def not_overdue(session: Session) -> GuardResult | None:
    """End a run that was paused or taken over after its plan had expired.

    A plan with waits is made to last: each of its steps is checked again after the wait before it.
    """
    since = session.interrupted_at
    if since is None or not session.plan.is_expired(since):
        return None
    if any(step.wait is not None for step in session.plan.steps):
        return None
    age_s = (since - session.plan.expires_at).total_seconds()
    return _result(
        "end",
        "plan_expired",
        f"The run was interrupted and resumed {format_age(age_s)} after its plan expired at "
        f"{session.plan.expires_at:%Y-%m-%d %H:%M:%S} UTC; pending steps are not executed.",
        "Plan the remaining steps on a fresh snapshot.",
    )


def exclusions(session: Session) -> GuardResult | None:
    """Skip a step of a namespace, or a table, that plans never touch."""
    for step in session.steps_in("PENDING")[:1]:
        for scope in step.step.scopes:
            pattern = _matching(scope, session.ports.cluster.exclusions)
            if pattern is not None:
                return _result(
                    "skip",
                    "excluded",
                    f"{step.step.subject} is excluded: {scope} matches {pattern} in `exclusions` "
                    "of Trimtab's configuration.",
                    "Remove the entry from `exclusions` first.",
                )
    return None


def pace(session: Session) -> GuardResult | None:
    """Wait until the next step may begin; the step before may have been another run's."""
    if not _is_move(session):
        return None
    pace_now = pace_of(session.view)
    interval_s = 60.0 / pace_now.per_min
    now = session.ports.clock.now()
    earliest = now - timedelta(seconds=interval_s)
    last = session.ports.journal.last_begun(session.view.cluster, earliest)
    own = [step.begun_at for step in session.view.steps if step.step.is_paced]
    begun = [at for at in (last, *own) if at is not None]
    left_s = max((interval_s - session.age_s(at) for at in begun), default=0.0)
    if left_s <= 0:
        return None
    return _result(
        "wait",
        "pace",
        f"Rate: {pace_now.sentence}. The next step starts {interval_s:.1f} s after the previous "
        f"one, in {left_s:.1f} s.",
        wait_s=left_s,
    )


def in_flight(session: Session) -> GuardResult | None:
    """Wait for a step of unknown outcome, and end when that lasts."""
    unknown = session.steps_in("UNKNOWN")
    if session.turn is not None:  # what is unserved is not under way: `serving` judges it
        unknown = [step for step in unknown if not step.unserved]
    if not unknown:
        return None
    last = unknown[-1]
    for_s = 0.0 if last.ended_at is None else session.age_s(last.ended_at)
    sentence = (
        f"Step {last.index + 1} ({last.step.subject}) has had an unknown result for "
        f"{format_age(for_s)}. At most 1 step may be in progress; the run waits "
        f"{format_age(UNSETTLED_FOR_S)} for its result."
    )
    if for_s < UNSETTLED_FOR_S:
        return _result("wait", "in_flight", sentence, wait_s=1.0)
    return _result(
        "end",
        "result_unknown",
        sentence,
        "Check the step manually before you plan the remaining steps.",
    )


def failures(session: Session) -> GuardResult | None:
    """End when as many steps have failed as the run's options allow."""
    failed = session.steps_in("FAILED")  # while one is unknown, in_flight holds already
    bound = max(session.view.options.max_failures, 1)
    if len(failed) < bound:
        return None
    last = failed[-1]
    why = f" The last: {last.result.sentence}" if last.result else ""
    return _result(
        "end",
        "max_failures",
        f"{pluralize(len(failed), 'step')} failed; the run stops at {bound}.{why}",
        "Fix the cause, then plan the remaining steps again.",
    )


def footing(session: Session) -> GuardResult | None:
    """End when what the rest of the run relies on did not come, whatever the options allow."""
    for step in session.steps_in("FAILED", "SKIPPED"):
        result = step.result
        if result is None or step.step.flags_of(result.code).is_needless:
            continue
        found = _lost_footing(session, step, result)
        if found is not None:
            code, what = found
            hint = result.hint or "Fix the cause, then plan the remaining steps again."
            return _result("end", code, f"{what}: {result.sentence}", hint)
    return None


def _lost_footing(session: Session, step: StepView, result: StepResult) -> tuple[str, str] | None:
    """Return the code and sentence of a missing prerequisite, or ``None``."""
    planned = step.step
    value = planned.temporary_value
    if value is not None:
        words = f"The remaining steps need {planned.subject} = {value or 'empty'}, which is not set"
        return "setting_not_set", words
    if planned.wait is not None:
        return "not_awaited", f"The remaining steps wait until {planned.wait.description}"
    if not planned.fails_waits(result.code):
        return None
    later = [item.step for item in session.view.steps[step.index + 1 :]]
    if all(one.wait is None for one in later) or _waits_for_same_node(later[0], step, result):
        return None
    return "not_emptied", f"The remaining steps need {planned.subject} to be drained"


def _waits_for_same_node(later: Step, step: StepView, result: StepResult) -> bool:
    """Return whether the next step waits for the same node, which others may have drained."""
    if later.wait is None or result.state != "SKIPPED":
        return False
    is_its_own = later.wait.emptied_node == step.step.subject
    return is_its_own and step.step.flags_of(result.code).is_external_change


def canary(session: Session) -> GuardResult | None:
    """Observe the cluster after the first step; end when it is not well."""
    gate = gate_of(session)
    if gate is None:
        return None
    if gate.left_s > 0:
        sentence = (
            "The first step is done. The cluster is observed for "
            f"{format_age(session.view.options.canary_s)} before the remaining steps start."
        )
        return _result("report", "canary", sentence, wait_s=gate.left_s)
    if session.snapshot is None or not is_read_since(session, gate):
        return _result("renew", "freshness", "The first step is checked on a fresh snapshot.")
    measured = session.ports.cluster.system.measure(session.view, session.snapshot, None)
    is_well, sentence = verdict(session.view, gate, measured)
    if not is_well:
        hint = "No other step was sent. Find the cause, then plan the remaining steps again."
        return _result("end", "canary_failed", sentence, hint)
    is_told = session.turn is not None and session.turn.waiting == sentence
    return None if is_told else _result("report", "canary", sentence)


def budget(session: Session) -> GuardResult | None:
    """End when the cluster's moves of a day are spent."""
    if not _is_move(session):
        return None
    bound = session.ports.cluster.moves_per_day
    since = session.ports.clock.now() - BUDGET_SPAN
    spent = session.ports.journal.moves_since(session.view.cluster, since)
    if spent < bound:
        return None
    return _result(
        "end",
        "moves_per_day",
        f"{pluralize(spent, 'step')} started on {session.view.cluster} within 24 h; "
        f"moves_per_day is {bound}.",
        "Wait, or raise apply.moves_per_day in Trimtab's configuration.",
    )


def freshness(session: Session) -> GuardResult | None:
    """Ask for a new snapshot when there is none or it is too old to go by."""
    age_s = session.ports.clock.monotonic() - session.snapshot_at_s
    if session.snapshot is not None and age_s <= FRESH_FOR_S:
        return None
    return _result("renew", "freshness", "The steps are checked on a fresh snapshot.")


def balancer(session: Session) -> GuardResult | None:
    """Ask for the cluster's own shedding to be switched off, where the run's options say so."""
    if session.is_quiet or not session.view.options.pause_balancer:
        return None
    return _result("quiet", "balancer", "The cluster's load shedding is paused during the run.")


def settings(session: Session) -> GuardResult | None:
    """Ask for what the run has set for its time to be looked at, and set again where need be."""
    if session.has_checked_settings or not session.view.temporary_values:
        return None
    return _result("keep", "settings", "The run's temporary settings are reapplied.")


GUARDS: Final[tuple[Guard, ...]] = (
    shutting_down,
    lease_held,  # before all that is written: a run that another one may have is not ours to end
    stop_flag,
    serving,
    pause_flag,
    backoff,
    read_only,
    open_window,
    not_overdue,
    exclusions,
    pace,
    in_flight,
    failures,
    footing,
    canary,
    budget,
    freshness,
    balancer,
    settings,
)
"""Before a step is begun."""

WAITING_GUARDS: Final[tuple[Guard, ...]] = (
    shutting_down,
    lease_held,
    stop_flag,
    in_flight,
    backoff,
)
"""While nothing is left to begin: a step is unknown, or what the run is for does not hold yet."""


def first_result(session: Session, guards: tuple[Guard, ...] = GUARDS) -> GuardResult | None:
    """Return the first reason why the next step is not begun now."""
    return next((found for guard in guards if (found := guard(session)) is not None), None)


def _is_move(session: Session) -> bool:
    return session.turn is None or session.turn.step.is_paced


def _matching(namespace: str, patterns: Sequence[str]) -> str | None:
    return next((item for item in patterns if fnmatchcase(namespace, item)), None)


def _result(
    effect: Effect, code: str, sentence: str, hint: str = "", *, wait_s: float = 0.0
) -> GuardResult:
    return GuardResult(
        effect=effect, refusal=Refusal(code=code, sentence=sentence, hint=hint), wait_s=wait_s
    )
