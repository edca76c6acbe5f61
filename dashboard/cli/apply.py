"""``trimtab apply``, ``undo`` and ``worker``: execute plans.

A run is requested in the journal. Where a worker serves the cluster it claims the run and the
command follows the journal; where none does, the command is the worker itself until the run has
ended, under the same lease.
"""

from __future__ import annotations

import contextlib
import re
import signal
import threading
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Final

import typer

from core.access import Identity
from core.actions.describe import waits_for
from core.actions.dry_run import Rehearsal
from core.actions.model import RunOptions
from core.actions.undo import is_left, not_brought_back
from core.actions.views import RunView, StepView
from core.plan.describe import expected_effect, tally
from core.plan.model import Diagnostic, Plan
from core.units import pluralize, severity_label
from dashboard import services
from dashboard.cli import plan_answers, run_answers
from dashboard.cli.clusters import chosen_clusters
from dashboard.cli.config import configured
from dashboard.cli.options import Config, Json
from dashboard.cli.output import (
    EXIT_DONE,
    EXIT_REFUSED,
    Answer,
    UsageFaultError,
    confirm,
    emit,
    note,
    print_line,
    require_terminal,
    table,
)
from dashboard.cli.plan_answers import refusal, write_plan
from dashboard.cli.served import SERVED, check_reads
from dashboard.cli.supervisor import end_with_parent, shutting_down
from dashboard.presenters.applying import must_type_name
from dashboard.presenters.run_steps import purpose_words, same_reason
from dashboard.services import access
from dashboard.services.run_queue import in_the_way, preceding_run

app = typer.Typer()

Reason = Annotated[
    str, typer.Option(help="Reason (recorded in the audit log); required unless --dry-run.")
]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Show what would be sent now; change nothing.")
]
Pace = Annotated[
    str | None,
    typer.Option(
        metavar="STEPS/min",
        help="Rate limit (steps/min), for example 10/min; default: the cluster's limit.",
    ),
]
Canary = Annotated[
    float | None,
    typer.Option(
        metavar="SECONDS",
        min=0,
        help="Observe the cluster for this time (s) after the first step.",
    ),
]
MaxUnassigned = Annotated[
    int | None,
    typer.Option(
        metavar="BUNDLES",
        min=1,
        help="Number of unassigned bundles that pauses the run; default: the cluster's limit.",
    ),
]
PauseBalancer = Annotated[
    bool,
    typer.Option("--pause-balancer", help="Disable the cluster's load shedding during the run."),
]
Detach = Annotated[
    bool, typer.Option("--detach", help="Request the run and return; a worker executes it.")
]
Yes = Annotated[
    bool,
    typer.Option("--yes", help="Apply without confirmation; needed where there is no terminal."),
]

_MAX_STEPS_SHOWN: Final = 10
_LOOK_S: Final = 0.25
_PACE: Final = re.compile(r"(\d+(?:\.\d+)?)\s*(?:/\s*(s|sec|min|m|h))?\Z")
_PER_MIN: Final = {"s": 60.0, "sec": 60.0, "min": 1.0, "m": 1.0, "h": 1 / 60, None: 1.0}
_AFTER_A_LOST_WORKER_S: Final = 15.0


@app.command()
def worker(
    clusters: Annotated[
        list[str] | None, typer.Argument(metavar="CLUSTER...", help="Cluster names; default: all.")
    ] = None,
    config_file: Config = None,
) -> int:
    """Execute requested runs on clusters, until Ctrl-C."""
    end_with_parent()
    config, chosen = chosen_clusters(config_file, clusters or ())
    with shutting_down(threading.Event()) as stop:
        services.run_worker(config, chosen, stop, note)
    return EXIT_DONE


@app.command()
def apply(
    plan_file: Annotated[Path, typer.Argument(metavar="PLAN", help="Plan file.")],
    cluster: Annotated[
        str,
        typer.Option(
            metavar="NAME", help="Refuse a plan for another cluster; default: the plan's cluster."
        ),
    ] = "",
    reason: Reason = "",
    yes: Yes = False,
    dry_run: DryRun = False,
    pace: Pace = None,
    canary: Canary = None,
    max_unassigned: MaxUnassigned = None,
    pause_balancer: PauseBalancer = False,
    detach: Detach = False,
    config_file: Config = None,
    as_json: Json = False,
) -> int:
    """Apply a plan: check, send and verify, step by step.

    Prompts for a yes, or for the cluster name if the impact is large.
    """
    config = configured(config_file)
    if cluster:
        config.cluster(cluster)
    check_can_confirm(yes=yes, dry_run=dry_run, as_json=as_json)
    plan = access.read_plan(config, plan_file)
    cluster = cluster or config.cluster(plan.cluster).name
    if not dry_run and reason.strip():
        show_plan(f"Plan {plan.short_id}: {tally(plan.steps)}.", plan)
    return execute(
        config,
        plan,
        cluster,
        reason=reason,
        yes=yes,
        pace=pace,
        canary_s=canary,
        max_unassigned=max_unassigned,
        pause_balancer=pause_balancer,
        dry_run=dry_run,
        detach=detach,
        as_json=as_json,
    )


def check_can_confirm(
    *, yes: bool, dry_run: bool, as_json: bool, more: str = "--yes, or --dry-run"
) -> None:
    """Check, before anything is read, that a person can be asked for confirmation.

    Args:
        yes: No confirmation is needed.
        dry_run: Nothing is changed.
        as_json: The answer is for a program.
        more: Options that make a confirmation needless.
    Raises:
        UsageFaultError: It is needed, and there is no terminal.
    """
    if not (yes or dry_run):
        require_terminal(as_json=as_json, hint=f"Add {more}.")


def _confirm(config: services.Config, plan: Plan) -> None:
    """Ask for the confirmation of the pages: the cluster's name for a large impact, else a yes."""
    why = must_type_name(plan, config.cluster(plan.cluster).environment)
    if why is None:
        confirm(f"Apply it to {plan.cluster}?")
    else:
        confirm(f"{why[0].upper()}{why[1:]}. Apply it to {plan.cluster}?", plan.cluster)


def execute(
    config: services.Config,
    plan: Plan,
    cluster: str,
    *,
    reason: str,
    yes: bool = False,
    pace: str | None = None,
    canary_s: float | None = None,
    max_unassigned: int | None = None,
    pause_balancer: bool = False,
    dry_run: bool = False,
    detach: bool = False,
    as_json: bool = False,
) -> int:
    """Dry-run a plan, or request its run and follow it to its end; return the exit code.

    Args:
        config: The configuration.
        plan: What is sent.
        cluster: Name of the plan's cluster.
        reason: Recorded in the journal; not empty unless ``dry_run``.
        yes: Do not ask for confirmation.
        pace: Rate limit such as ``10/min``; ``None``: the cluster's limit.
        canary_s: Seconds for which the cluster is observed after the first step; ``None``: the
            cluster's own.
        max_unassigned: Unassigned bundles at which the run pauses; ``None``: the cluster's limit.
        pause_balancer: Disable the cluster's own shedding during the run.
        dry_run: Only show what would be sent.
        detach: Only request the run.
        as_json: Print one JSON object on standard output.

    Raises:
        OpsError: It is refused, or the journal or (for a dry run) the cluster cannot be used.
    """
    by = access.command_identity(config)
    options = _options(config, cluster, pace, canary_s, max_unassigned)
    options = replace(options, pause_balancer=pause_balancer)
    if not dry_run and not reason.strip():
        raise UsageFaultError("A run needs a reason.", hint="Pass --reason TEXT; it is recorded.")
    if ahead := in_the_way(config, cluster):
        note(ahead)
    if dry_run:
        check_reads(cluster, "dry-run this plan")
        found = services.rehearse(config, cluster, plan, options)
        return _show_dry_run(plan, found, as_json=as_json)
    if not yes:
        services.check_run(config, cluster, plan, reason, options, by)  # before a person is asked
        _confirm(config, plan)
    run_id = services.request_run(config, cluster, plan, reason, options, by)
    has_worker = services.is_worker_alive(config, cluster)
    steps = pluralize(len(plan.steps), "step")
    note(f"Run {run_id} requested: plan {plan.short_id}, {steps} on {cluster}.")
    view = services.run_view(config, run_id)
    detach = detach or SERVED.get() is not None or services.awaits_approval(config, view)
    if services.awaits_approval(config, view):
        until = config.cluster(cluster).approval.rules().until(view)
        note(
            f"It waits until {until:%H:%M} UTC for another person's `trimtab review {run_id} "
            f"--approve{services.config_option(config)}`."
        )
    elif detach:
        if not has_worker:
            note(
                f"No worker serves {cluster} here. Start one: `trimtab worker "
                f"{cluster}{services.config_option(config)}`."
            )
    else:
        _follow(config, cluster, run_id, by, has_worker=has_worker)
    return _show_run(config, _look(config, run_id), is_detached=detach, as_json=as_json)


@app.command()
def undo(
    run: Annotated[str, typer.Argument(metavar="RUN", help="Run id from `trimtab runs`.")],
    reason: Reason = "",
    plan_file: Annotated[
        Path | None,
        typer.Option(
            "--plan", metavar="OUT", help="Write the inverse plan to a file; send nothing."
        ),
    ] = None,
    with_moves: Annotated[
        bool,
        typer.Option("--with-moves", help="Also move back all moves since the run began."),
    ] = False,
    yes: Yes = False,
    dry_run: DryRun = False,
    pace: Pace = None,
    max_unassigned: MaxUnassigned = None,
    pause_balancer: PauseBalancer = False,
    detach: Detach = False,
    config_file: Config = None,
    as_json: Json = False,
) -> int:
    """Undo a run: move bundles back and restore settings.

    Reverts each bundle and setting that is still as the run left it, and lists the others. Prompts
    for confirmation like `apply`.
    """
    config = configured(config_file)
    view = services.run_view(config, run)
    cluster = config.cluster(view.cluster)
    is_written = plan_file is not None
    check_can_confirm(
        yes=yes or is_written, dry_run=dry_run, as_json=as_json, more="--yes, --plan or --dry-run"
    )
    check_reads(view.cluster, "plan an undo, which reads the cluster")
    plan, sentence = services.inverse_plan(config, view, reason, with_moves=with_moves)
    if errors := plan.by_severity("error"):
        raise refusal(errors)
    show_plan(sentence, plan)
    if plan_file is not None:
        write_plan(plan_file, plan)
        note(f"Written to {plan_file}.")
        body = {"plan": plan_answers.plan(plan), "path": str(plan_file)}
        return emit(Answer(body), as_json=as_json)
    return execute(
        config,
        plan,
        cluster.name,
        reason=reason,
        yes=yes,
        pace=pace,
        max_unassigned=max_unassigned,
        pause_balancer=pause_balancer,
        dry_run=dry_run,
        detach=detach,
        as_json=as_json,
    )


# -- following -------------------------------------------------------------------------------------


class _Interrupts:
    """Number of Ctrl-C presses; SIGTERM counts as several."""

    def __init__(self) -> None:
        self.count = 0

    def on_interrupt(self, *_: object) -> None:
        self.count += 1

    def on_terminate(self, *_: object) -> None:
        self.count += 2


@contextlib.contextmanager
def _presses() -> Iterator[_Interrupts]:
    presses = _Interrupts()
    before = {
        signal.SIGINT: signal.signal(signal.SIGINT, presses.on_interrupt),
        signal.SIGTERM: signal.signal(signal.SIGTERM, presses.on_terminate),
    }
    try:
        yield presses
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _follow(
    config: services.Config, cluster: str, run_id: str, by: Identity, *, has_worker: bool
) -> None:
    """Print the events until the run has ended; without a worker, execute it.

    The first Ctrl-C asks to stop after the step under way, the second one leaves the run open.
    """
    stop = threading.Event()
    own: threading.Thread | None = None
    progress = RunProgress()
    pause, is_stopping = threading.Event(), False
    silent_s = 0.0
    with _presses() as presses:
        try:
            while not (view := progress.note_new(_look(config, run_id))).is_ended:
                if own is None and (not has_worker or silent_s > _AFTER_A_LOST_WORKER_S):
                    own = _execute_here(config, cluster, run_id, stop)
                is_served = services.is_worker_alive(config, cluster)
                silent_s = 0.0 if is_served else silent_s + _LOOK_S
                if presses.count > 1:
                    more = services.config_option(config)
                    note(f"The run stays open; see `trimtab runs {run_id}{more}`.")
                    return
                if presses.count and not is_stopping:
                    note(
                        "Stopping after the current step. Press Ctrl-C again to leave the run open."
                    )
                    services.ask_control(
                        config, view.run_id, "stop", by, "Ctrl-C on the command line"
                    )
                    is_stopping = True
                pause.wait(_LOOK_S)
        finally:
            stop.set()
            if own is not None:
                own.join()


def _look(config: services.Config, run_id: str) -> RunView:
    """Return the run; one that waits for another one says so."""
    view = services.run_view(config, run_id)
    ahead = preceding_run(config, view)
    return view if ahead is None else replace(view, sentence=waits_for(ahead))


def _execute_here(
    config: services.Config, cluster: str, run_id: str, stop: threading.Event
) -> threading.Thread:
    note(f"No worker serves {cluster} here; this command executes the run.")
    own = threading.Thread(
        target=services.work_on,
        args=(config, cluster, run_id, stop, note),
        name=f"work {cluster}",
    )
    own.start()
    return own


class RunProgress:
    """Prints the news of a run, each once."""

    def __init__(self) -> None:
        self._steps: dict[int, str] = {}
        self._set_again: dict[str, int] = {}
        self._waiting: dict[int, str] = {}
        self._sentence = ""

    def note_new(self, view: RunView) -> RunView:
        """Print the news; return the view."""
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
            self._note_waiting(step, len(view.steps))
        for sentence in skipped.sentences:
            note(sentence)
        if view.sentence != self._sentence and not view.is_ended:
            note(view.sentence)
        self._sentence = view.sentence
        return view

    def _note_waiting(self, step: StepView, count: int) -> None:
        """Print the pending wait of a step, and once the action an operator has to take."""
        if not step.waiting or step.waiting == self._waiting.get(step.index):
            return
        first = step.index not in self._waiting
        self._waiting[step.index] = step.waiting
        note(f"{step.index + 1}/{count} WAITING {step.waiting}")
        if first and step.step.wait is not None and step.step.wait.needs_operator:
            note(f"  {step.step.reason}".rstrip())


def _line(step: StepView, count: int) -> str:
    place = f"{step.index + 1}/{count}"
    if step.state == "PENDING" and step.reopened:
        return f"{place} PENDING again: {step.reopened[-1]}"
    if step.result is None:
        return f"{place} {step.state} {step.step.describe()}."
    return f"{place} {step.state} {step.result.sentence} {step.result.hint}".rstrip()


# -- answers ---------------------------------------------------------------------------------------


def _options(
    config: services.Config,
    cluster: str,
    pace: str | None,
    canary_s: float | None,
    max_unassigned: int | None,
) -> RunOptions:
    """Return the cluster's options, overridden by the given ones."""
    options = services.default_options(config, cluster)
    if pace is not None:
        options = replace(options, pace_per_min=pace_per_min(pace))
    if max_unassigned is not None:
        options = replace(options, max_unassigned=max_unassigned)
    return options if canary_s is None else replace(options, canary_s=canary_s)


def pace_per_min(text: str) -> float:
    """Return steps a minute of ``10/min``, ``1/s``, ``100/h`` or a bare number.

    Raises:
        UsageFaultError: It is none of these.
    """
    match = _PACE.match(text.strip())
    if match is None or float(match[1]) <= 0:
        raise UsageFaultError(f"{text!r} is not a rate.", hint="Use a rate such as 10/min.")
    return float(match[1]) * _PER_MIN[match[2]]


def _show_run(config: services.Config, view: RunView, *, is_detached: bool, as_json: bool) -> int:
    def show() -> None:
        print_line(f"Run {view.run_id} is {view.state}. {view.sentence}")
        if purpose := purpose_words(view):
            print_line(purpose)
        for sentence in not_brought_back(view.plan):
            print_line(f"Not moved back: {sentence}")
        print_line(f"See `trimtab runs {view.run_id}{services.config_option(config)}`.")

    code = EXIT_DONE if view.state == "DONE" or is_detached else EXIT_REFUSED
    body = {"run": run_answers.run(view)}
    return emit(Answer(body, show, code), as_json=as_json)


def _show_dry_run(plan: Plan, rehearsal: Rehearsal, *, as_json: bool) -> int:
    def show() -> None:
        print_line(f"Plan {plan.short_id} would end {rehearsal.state}. {rehearsal.sentence}")
        if rehearsal.refusal is not None and rehearsal.refusal.hint:
            print_line(rehearsal.refusal.hint)
        rows = [
            [str(item.index + 1), f"{item.after_s:.0f} s", item.code, item.sentence]
            for item in rehearsal.steps
        ]
        table(("step", "after", "verdict", "expected result"), rows)
        for key, value in rehearsal.settings:
            print_line(f"{key} would be set to {value}." if value else f"{key} would be removed.")
        print_line("Nothing was changed.")

    code = EXIT_DONE if rehearsal.state == "DONE" else EXIT_REFUSED
    return emit(Answer(run_answers.dry_run(plan, rehearsal), show, code), as_json=as_json)


def show_plan(sentence: str, plan: Plan) -> None:
    """Show a plan on standard error, before it is confirmed: the answer is the run."""
    note(sentence)
    if effect := expected_effect(plan.expected):
        note(effect)
    if len(plan.steps) <= _MAX_STEPS_SHOWN:  # else the sentence counts them
        for step in plan.steps:
            note(f"  {step.describe_prediction()}.")
    else:
        note(f"  {pluralize(len(plan.steps), 'step')} in total; --plan OUT writes all of them.")
    left = [item for item in plan.diagnostics if is_left(item)]
    for item in left:
        note(f"Not reverted: {item.sentence} {item.hint}".rstrip())
    for items in _by_sentence([item for item in plan.diagnostics if not is_left(item)]):
        first, others = items[0], len(items) - 1
        text = f"{severity_label(first.severity)}: {first.sentence} {first.hint}".rstrip()
        more = f" {others:,} more of this kind." if others else ""
        note(text + more)


def _by_sentence(items: Sequence[Diagnostic]) -> Iterable[list[Diagnostic]]:
    """Return remarks of one severity and code together, in the order of their first."""
    found: dict[tuple[str, str], list[Diagnostic]] = {}
    for item in items:
        found.setdefault((item.severity, item.code), []).append(item)
    return found.values()
