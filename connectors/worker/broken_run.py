"""The end of a run that Trimtab cannot execute: recorded, with nothing left open."""

from __future__ import annotations

from core.actions.events import Event, Record, RunClaimed, RunEnded, StepEnded
from core.actions.model import RunId, StepResult
from core.actions.ports import Ports
from core.actions.runs import fold
from core.actions.views import RunView
from core.errors import OpsError
from core.plan.describe import whether


def end_as_broken(run_id: RunId, ports: Ports, why: OpsError) -> bool:
    """End a run as ``FAILED``; steps that were begun stay unknown, the others are skipped.

    A run with a setting that is not put back is left open: the next worker has to see to it.

    Args:
        run_id: A run that cannot be executed.
        ports: The world; the lease is held.
        why: The fault.
    Returns:
        Whether it is ended now.
    Raises:
        OpsError: The journal cannot be written, or makes no sense.
    """
    view = fold(ports.journal.entries(run_id=run_id))
    if view.is_ended:
        return True
    if view.outstanding_settings or not ports.lease.is_held():
        return False
    for event in _last_words(view, ports, why):
        ports.journal.append(
            Record(
                run_id=run_id,
                cluster=view.cluster,
                at=ports.clock.now(),
                actor=ports.worker,
                event=event,
            )
        )
    return True


def _last_words(view: RunView, ports: Ports, why: OpsError) -> list[Event]:
    words: list[Event] = []
    if view.worker != ports.worker:
        is_takeover = bool(view.worker)
        words.append(
            RunClaimed(worker=ports.worker, lease=ports.lease.place, is_takeover=is_takeover)
        )
    for step in view.steps:
        if step.state == "RUNNING":
            asked = whether(step.step)
            sentence = f"{asked[:1].upper()}{asked[1:]} is unknown: {why.message}"
            result = StepResult(state="UNKNOWN", code="timed_out", sentence=sentence, hint=why.hint)
        elif step.state == "PENDING":
            result = StepResult(state="SKIPPED", code="invariant", sentence=why.message)
        else:
            continue
        words.append(StepEnded(step=step.index, result=result))
    sentence = f"It could not be executed: {why.message} {why.hint}".strip()
    return [*words, RunEnded(state="FAILED", sentence=sentence)]
