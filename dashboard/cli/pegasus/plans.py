"""The commands that act on a Pegasus cluster: plan, preview, write or carry out.

Every one of them captures the cluster (or reads a snapshot directory, to plan only), makes a plan,
and shows it. With ``--plan`` it is written, with ``--apply`` a run is asked for and followed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from core.errors import UnknownNameError
from core.pegasus.ids import gpid_text, parse_gpid
from core.pegasus.plan.preview import PegasusPreview, preview_pegasus
from core.pegasus.snapshot import PegasusFacts
from core.plan.codec import dump_plan
from core.plan.model import Diagnostic, Plan
from core.plan.options import PlanOptions
from core.snapshot.pegasus import PegasusSnapshot
from dashboard import services
from dashboard.cli import plan_answers
from dashboard.cli.apply import execute
from dashboard.cli.config import configured, words_of
from dashboard.cli.output import Answer, UsageFaultError, emit, note, say
from dashboard.cli.pegasus.live import note_problems, pegasus_snapshot
from dashboard.cli.pegasus.preview import preview_json, show_nodes, show_preview
from dashboard.cli.plan_answers import nothing_to_do, refusal, write_plan
from dashboard.services.run_queue import in_the_way

Make = Callable[[PegasusSnapshot, PlanOptions], "Plan | Diagnostic"]
"""Return the plan, or the reason why there is nothing to do."""


@dataclass(frozen=True, kw_only=True)
class PegasusPlanRequest:
    """What is to be done with the plan.

    Attributes:
        source: A cluster of the configuration, or a snapshot directory to plan on.
        config: The configuration; ``None``: the usual one.
        reason: Why; kept in the plan and in the journal.
        plan_file: Where the plan goes; ``None``: nowhere.
        is_applied: Ask for a run and follow it.
        is_dry: Say what would be sent.
        is_detached: Only ask for the run.
        as_json: One JSON object on standard output.
    """

    source: str
    config: Path | None = None
    reason: str = ""
    plan_file: Path | None = None
    is_applied: bool = False
    is_dry: bool = False
    is_detached: bool = False
    as_json: bool = False

    @property
    def is_run(self) -> bool:
        """Whether the executor is needed."""
        return self.is_applied or self.is_dry or self.is_detached

    def checked(self) -> PegasusPlanRequest:
        """Return it, if it fits together.

        Raises:
            UsageFaultError: It asks for two things at once, or a run lacks its reason.
        """
        if self.plan_file is not None and self.is_run:
            raise UsageFaultError(
                "A plan is either written or carried out.",
                hint="Leave out --plan, or --apply, --detach and --dry-run.",
            )
        if self.is_run and not self.is_dry and not self.reason.strip():
            raise UsageFaultError("A run needs a reason.", hint="Give --reason TEXT: it is kept.")
        if self.is_run and Path(self.source).is_dir():
            raise UsageFaultError(
                f"{self.source} is a snapshot: nothing can be changed there.",
                hint="Name a cluster of the configuration, or write a plan with --plan OUT.",
            )
        return self


def act(request: PegasusPlanRequest, make: Make) -> int:
    """Make a plan, show it, and write it or carry it out; return the exit code.

    Raises:
        OpsError: There cannot be such a plan, or the run is refused. A plan without errors and
            without steps is done: there is nothing to do.
    """
    request = request.checked()
    snapshot = pegasus_snapshot(request.source, request.config)
    plan = make(snapshot, _terms(request))
    note_problems(snapshot)
    if isinstance(plan, Diagnostic):
        return nothing_to_do([plan], as_json=request.as_json)
    return _act_on(snapshot, request, plan)


def _act_on(snapshot: PegasusSnapshot, request: PegasusPlanRequest, plan: Plan) -> int:
    """Show the plan, and write it or request its run."""
    _note_run(request, plan)
    if errors := plan.by_severity("error"):
        for item in errors[1:]:
            note(f"error: {item.sentence} {item.hint}".rstrip())
        raise refusal(errors)
    if not plan.steps:
        return nothing_to_do(plan.diagnostics, as_json=request.as_json)
    found = preview_pegasus(snapshot, plan)
    if request.is_run:
        return _run(request, plan, found)
    if request.plan_file is not None:
        write_plan(request.plan_file, dump_plan(plan))
    body = {
        "plan": plan_answers.plan(plan),
        "preview": preview_json(found),
        "path": str(request.plan_file) if request.plan_file else None,
    }

    if request.reason.strip() and request.plan_file is None:
        note("Nothing was changed: add --apply to carry it out.")

    def show() -> None:
        show_preview(plan, found)
        _show_next(request, plan, found)

    return emit(Answer(body, show), as_json=request.as_json)


def _note_run(request: PegasusPlanRequest, plan: Plan) -> None:
    """Say which run is in the way; where one is asked for that is said then."""
    if Path(request.source).is_dir() or (request.is_run and plan.applyable):
        return
    if words := in_the_way(configured(request.config), request.source):
        note(words)


def gpid_of(snapshot: PegasusSnapshot, text: str) -> str:
    """Return a partition written as ``2.7``, or with its table's name as ``temp.7``.

    Raises:
        InputError: It is neither.
        UnknownNameError: There is no such table; the hint has near ones.
    """
    name, _, index = text.strip().rpartition(".")
    if not name or name.lstrip("-").isdigit() or not index.isdecimal():
        return gpid_text(*parse_gpid(text.strip()))
    ids = {table.name: app_id for app_id, table in PegasusFacts(snapshot).tables.items()}
    if name not in ids:
        raise UnknownNameError.of("table", name, sorted(ids))
    return gpid_text(ids[name], int(index))


def _terms(request: PegasusPlanRequest) -> PlanOptions:
    terms = PlanOptions(now=services.now(), reason=request.reason)
    if Path(request.source).is_dir():
        return terms
    cluster = configured(request.config).cluster(request.source)
    return replace(terms, exclusions=frozenset(cluster.exclusions))


def _run(request: PegasusPlanRequest, plan: Plan, found: PegasusPreview) -> int:
    """Carry it out; what will be done goes to standard error: the answer is the run."""
    show_preview(plan, found, note)
    return execute(
        configured(request.config),
        plan,
        request.source,
        reason=request.reason,
        dry_run=request.is_dry,
        detach=request.is_detached,
        as_json=request.as_json,
    )


def _show_next(request: PegasusPlanRequest, plan: Plan, found: PegasusPreview) -> None:
    show_nodes(found)
    if request.plan_file is None:
        say(
            "Nothing was changed. Carry it out with --apply --reason TEXT, or write it: --plan OUT."
        )
        return
    say(f"Plan {plan.short_id}, good until {plan.expires_at:%H:%M:%S} UTC: {request.plan_file}.")
    more = "" if Path(request.source).is_dir() else words_of(configured(request.config))
    words = f"apply {request.plan_file} --cluster {plan.cluster} --reason TEXT{more}"
    say(f"Carry it out: trimtab {words}")
