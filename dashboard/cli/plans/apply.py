"""``trimtab apply`` and ``trimtab worker``: carry out plans.

A run is asked for in the journal. Where a worker serves the cluster it takes the run up and the
command follows the journal; where none does, the command is the worker itself until the run has
ended, under the same lease.
"""

from __future__ import annotations

import contextlib
import re
import signal
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import msgspec

from core.actions.describe import waits_for
from core.actions.dry_run import Rehearsal
from core.actions.model import RunOptions
from core.actions.views import RunView, StepView
from core.plan.codec import load_plan
from core.plan.model import Plan
from core.systems import STEPS
from core.units import pluralize
from dashboard import services
from dashboard.cli.cluster.live import chosen_clusters
from dashboard.cli.config import configured, words_of
from dashboard.cli.output import (
    EXIT_DONE,
    EXIT_REFUSED,
    Answer,
    UsageFaultError,
    emit,
    note,
    say,
    table,
)
from dashboard.cli.plans import run_answers
from dashboard.cli.supervisor import end_with_parent, shutting_down
from dashboard.presenters.skipped_steps import same_reason
from dashboard.services.run_queue import in_the_way, run_ahead

_LOOK_S: Final = 0.25
_PACE: Final = re.compile(r"(\d+(?:\.\d+)?)\s*(?:/\s*(s|sec|min|m|h))?\Z")
_PER_MIN: Final = {"s": 60.0, "sec": 60.0, "min": 1.0, "m": 1.0, "h": 1 / 60, None: 1.0}
_AFTER_A_LOST_WORKER_S: Final = 15.0


@dataclass(frozen=True, kw_only=True)
class ApplyRequest:
    """How a plan is to be carried out, as a person said it.

    Attributes:
        reason: Why; kept in the journal.
        pace: ``10/min``; ``None``: the cluster's limit.
        pause_balancer: Whether the cluster's own shedding is off meanwhile.
        is_dry: Only say what would be sent.
        is_detached: Only ask for it.
        as_json: One JSON object on standard output.
    """

    reason: str = ""
    pace: str | None = None
    pause_balancer: bool = False
    is_dry: bool = False
    is_detached: bool = False
    as_json: bool = False


def worker(config_file: Path | None, names: Sequence[str]) -> int:
    """``trimtab worker``: carry out what is asked of clusters, until told to end."""
    end_with_parent()
    config, clusters = chosen_clusters(config_file, names)
    with shutting_down(threading.Event()) as stop:
        services.run_worker(config, clusters, stop, note)
    return EXIT_DONE


def apply(config_file: Path | None, plan_file: Path, cluster: str, request: ApplyRequest) -> int:
    """``trimtab apply``: exactly that plan, or a refusal."""
    config = configured(config_file)
    config.cluster(cluster)
    return carry_out(config, load_plan(plan_file, STEPS), cluster, request)


def carry_out(config: services.Config, plan: Plan, cluster: str, request: ApplyRequest) -> int:
    """Rehearse a plan, or ask for it and follow the run to its end; return the exit code.

    Raises:
        OpsError: It is refused, or the journal or (for a rehearsal) the cluster cannot be used.
    """
    options = _options(config, cluster, request)
    if not request.is_dry and not request.reason.strip():
        raise UsageFaultError("A run needs a reason.", hint="Give --reason TEXT: it is kept.")
    if ahead := in_the_way(config, cluster):
        note(ahead)
    if request.is_dry:
        return _show_rehearsal(plan, services.rehearse(config, cluster, plan, options), request)
    run_id = services.request_run(config, cluster, plan, request.reason, options, services.actor())
    has_worker = services.is_worker_alive(config, cluster)
    steps = pluralize(len(plan.steps), "step")
    note(f"Run {run_id} asked for: plan {plan.short_id}, {steps} on {cluster}.")
    if request.is_detached:
        if not has_worker:
            note(
                f"No worker serves {cluster} here; it waits for one: "
                f"`trimtab worker {cluster}{words_of(config)}`."
            )
    else:
        _follow(config, cluster, run_id, has_worker=has_worker)
    return _show_run(config, _look(config, run_id), request)


# -- following -------------------------------------------------------------------------------------


class _Presses:
    """How often a person pressed Ctrl-C; SIGTERM counts as many."""

    def __init__(self) -> None:
        self.count = 0

    def on_interrupt(self, *_: object) -> None:
        self.count += 1

    def on_terminate(self, *_: object) -> None:
        self.count += 2


@contextlib.contextmanager
def _presses() -> Iterator[_Presses]:
    presses = _Presses()
    before = {
        signal.SIGINT: signal.signal(signal.SIGINT, presses.on_interrupt),
        signal.SIGTERM: signal.signal(signal.SIGTERM, presses.on_terminate),
    }
    try:
        yield presses
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _follow(config: services.Config, cluster: str, run_id: str, *, has_worker: bool) -> None:
    """Tell what happens until the run has ended; without a worker, be it.

    The first Ctrl-C asks to stop after the step under way, the second one leaves the run open.
    """
    stop = threading.Event()
    own: threading.Thread | None = None
    said = RunTeller()
    pause, asked = threading.Event(), False
    silent_s = 0.0
    with _presses() as presses:
        try:
            while not (view := said.tell(_look(config, run_id))).is_ended:
                if own is None and (not has_worker or silent_s > _AFTER_A_LOST_WORKER_S):
                    own = _be_the_worker(config, cluster, run_id, stop)
                is_served = services.is_worker_alive(config, cluster)
                silent_s = 0.0 if is_served else silent_s + _LOOK_S
                if presses.count > 1:
                    more = words_of(config)
                    note(f"Left open: `trimtab runs {run_id}{more}` says how it stands.")
                    return
                if presses.count and not asked:
                    note("Stopping after the step under way; Ctrl-C again leaves the run open.")
                    services.ask_control(
                        config, view.run_id, "stop", services.actor(), "Ctrl-C at the command line"
                    )
                    asked = True
                pause.wait(_LOOK_S)
        finally:
            stop.set()
            if own is not None:
                own.join()


def _look(config: services.Config, run_id: str) -> RunView:
    """Return the run; one that waits for another one says so."""
    view = services.run_view(config, run_id)
    ahead = run_ahead(config, view)
    return view if ahead is None else replace(view, sentence=waits_for(ahead))


def _be_the_worker(
    config: services.Config, cluster: str, run_id: str, stop: threading.Event
) -> threading.Thread:
    note(f"No worker serves {cluster} here: this command carries it out.")
    own = threading.Thread(
        target=services.work_on,
        args=(config, cluster, run_id, stop, note),
        name=f"work {cluster}",
    )
    own.start()
    return own


class RunTeller:
    """Prints what is new about a run, each thing once."""

    def __init__(self) -> None:
        self._steps: dict[int, str] = {}
        self._set_again: dict[str, int] = {}
        self._waiting: dict[int, str] = {}
        self._sentence = ""

    def tell(self, view: RunView) -> RunView:
        """Tell what is new; return the view."""
        for setting in view.settings:
            for sentence in setting.set_again[self._set_again.get(setting.key, 0) :]:
                note(sentence)
            self._set_again[setting.key] = len(setting.set_again)
        new = [one for one in view.steps if one.state != self._steps.get(one.index, "PENDING")]
        skipped = same_reason(new)
        for step in view.steps:
            if step in new and step.index not in skipped.repeated:
                note(_line(step, len(view.steps)))
            self._steps[step.index] = step.state
            self._tell_waiting(step, len(view.steps))
        for sentence in skipped.sentences:
            note(sentence)
        if view.sentence != self._sentence and not view.is_ended:
            note(view.sentence)
        self._sentence = view.sentence
        return view

    def _tell_waiting(self, step: StepView, count: int) -> None:
        """Tell what a step waits for, and at first what a person has to do for it."""
        if not step.waiting or step.waiting == self._waiting.get(step.index):
            return
        first = step.index not in self._waiting
        self._waiting[step.index] = step.waiting
        note(f"{step.index + 1}/{count} WAITING {step.waiting}")
        if first and step.step.wait is not None and step.step.wait.needs_operator:
            note(f"  {step.step.reason}".rstrip())


def _line(step: StepView, count: int) -> str:
    place = f"{step.index + 1}/{count}"
    if step.result is None:
        return f"{place} {step.state} {step.step.describe()}."
    return f"{place} {step.state} {step.result.sentence} {step.result.hint}".rstrip()


# -- answers ---------------------------------------------------------------------------------------


def _options(config: services.Config, cluster: str, request: ApplyRequest) -> RunOptions:
    """Return the cluster's own options, with what the person asked for.

    Raises:
        UsageFaultError: The pace is none.
    """
    options = services.default_options(config, cluster)
    if request.pace is not None:
        options = replace(options, pace_per_min=pace_per_min(request.pace))
    return replace(options, pause_balancer=request.pause_balancer)


def pace_per_min(text: str) -> float:
    """Return steps a minute of ``10/min``, ``1/s``, ``100/h`` or a bare number.

    Raises:
        UsageFaultError: It is none of these.
    """
    match = _PACE.match(text.strip())
    if match is None or float(match[1]) <= 0:
        raise UsageFaultError(f"{text!r} is not a pace.", hint="Write 10/min.")
    return float(match[1]) * _PER_MIN[match[2]]


def _show_run(config: services.Config, view: RunView, request: ApplyRequest) -> int:
    def show() -> None:
        say(f"Run {view.run_id} is {view.state}. {view.sentence}")
        say(f"See `trimtab runs {view.run_id}{words_of(config)}`.")

    code = EXIT_DONE if view.state == "DONE" or request.is_detached else EXIT_REFUSED
    body = {"run": run_answers.whole(view)}
    return emit(Answer(body, show, code), as_json=request.as_json)


def _show_rehearsal(plan: Plan, found: Rehearsal, request: ApplyRequest) -> int:
    def show() -> None:
        say(f"Plan {plan.short_id} would end {found.state}. {found.sentence}")
        if found.refusal is not None and found.refusal.hint:
            say(found.refusal.hint)
        rows = [
            [str(item.index + 1), f"{item.after_s:.0f} s", item.code, item.sentence]
            for item in found.steps
        ]
        table(("step", "after", "verdict", "what would happen"), rows)
        for key, value in found.settings:
            say(f"{key} would be set to {value}." if value else f"{key} would be taken away.")
        say("Nothing was changed.")

    code = EXIT_DONE if found.state == "DONE" else EXIT_REFUSED
    return emit(Answer(_rehearsal_body(plan, found), show, code), as_json=request.as_json)


def _rehearsal_body(plan: Plan, found: Rehearsal) -> dict[str, Any]:
    return {
        "dry_run": {
            "plan_id": plan.plan_id,
            "state": found.state,
            "sentence": found.sentence,
            "refusal": msgspec.to_builtins(found.refusal),
            "requests": found.requests,
            "steps": [
                {
                    "index": item.index,
                    "kind": item.step.kind,
                    "subject": item.step.subject,
                    "would_send": item.would_send,
                    "code": item.code,
                    "sentence": item.sentence,
                    "hint": item.hint,
                    "after_s": round(item.after_s, 3),
                }
                for item in found.steps
            ],
            "settings": [{"key": key, "value": value} for key, value in found.settings],
        }
    }
