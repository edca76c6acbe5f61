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
from dashboard.cli.config import configured, words_of
from dashboard.cli.output import Answer, UsageFaultError, emit, note, say
from dashboard.cli.pegasus.live import note_problems, pegasus_snapshot
from dashboard.cli.pegasus.preview import preview_json, show_nodes, show_preview
from dashboard.cli.plans import answers
from dashboard.cli.plans.apply import ApplyWish, carry_out
from dashboard.cli.plans.unload import nothing_to_do, refusal, write_plan
from dashboard.services.run_queue import in_the_way

Make = Callable[[PegasusSnapshot, PlanOptions], "Plan | Diagnostic"]
"""Return the plan, or the reason why there is nothing to do."""


@dataclass(frozen=True, kw_only=True)
class PegasusWish:
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

    def checked(self) -> PegasusWish:
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


def act(wish: PegasusWish, make: Make) -> int:
    """Make a plan, show it, and write it or carry it out; return the exit code.

    Raises:
        OpsError: There cannot be such a plan, or the run is refused. A plan without errors and
            without steps is done: there is nothing to do.
    """
    wish = wish.checked()
    snapshot = pegasus_snapshot(wish.source, wish.config)
    plan = make(snapshot, _terms(wish))
    note_problems(snapshot)
    if isinstance(plan, Diagnostic):
        return nothing_to_do([plan], as_json=wish.as_json)
    return _act_on(snapshot, wish, plan)


def _act_on(snapshot: PegasusSnapshot, wish: PegasusWish, plan: Plan) -> int:
    """Show the plan, and write it or request its run."""
    _note_run(wish, plan)
    if errors := plan.by_severity("error"):
        for item in errors[1:]:
            note(f"error: {item.sentence} {item.hint}".rstrip())
        raise refusal(errors)
    if not plan.steps:
        return nothing_to_do(plan.diagnostics, as_json=wish.as_json)
    found = preview_pegasus(snapshot, plan)
    if wish.is_run:
        return _run(wish, plan, found)
    if wish.plan_file is not None:
        write_plan(wish.plan_file, dump_plan(plan))
    body = {
        "plan": answers.plan(plan),
        "preview": preview_json(found),
        "path": str(wish.plan_file) if wish.plan_file else None,
    }

    if wish.reason.strip() and wish.plan_file is None:
        note("Nothing was changed: add --apply to carry it out.")

    def show() -> None:
        show_preview(plan, found)
        _show_next(wish, plan, found)

    return emit(Answer(body, show), as_json=wish.as_json)


def _note_run(wish: PegasusWish, plan: Plan) -> None:
    """Say which run is in the way; where one is asked for that is said then."""
    if Path(wish.source).is_dir() or (wish.is_run and plan.applyable):
        return
    if words := in_the_way(configured(wish.config), wish.source):
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


def _terms(wish: PegasusWish) -> PlanOptions:
    terms = PlanOptions(now=services.now(), reason=wish.reason)
    if Path(wish.source).is_dir():
        return terms
    cluster = configured(wish.config).cluster(wish.source)
    return replace(terms, exclusions=frozenset(cluster.exclusions))


def _run(wish: PegasusWish, plan: Plan, found: PegasusPreview) -> int:
    """Carry it out; what will be done goes to standard error: the answer is the run."""
    show_preview(plan, found, note)
    run = ApplyWish(
        reason=wish.reason,
        is_dry=wish.is_dry,
        is_detached=wish.is_detached,
        as_json=wish.as_json,
    )
    return carry_out(configured(wish.config), plan, wish.source, run)


def _show_next(wish: PegasusWish, plan: Plan, found: PegasusPreview) -> None:
    show_nodes(found)
    if wish.plan_file is None:
        say(
            "Nothing was changed. Carry it out with --apply --reason TEXT, or write it: --plan OUT."
        )
        return
    say(f"Plan {plan.short_id}, good until {plan.expires_at:%H:%M:%S} UTC: {wish.plan_file}.")
    more = "" if Path(wish.source).is_dir() else words_of(configured(wish.config))
    words = f"apply {wish.plan_file} --cluster {plan.cluster} --reason TEXT{more}"
    say(f"Carry it out: trimtab {words}")
