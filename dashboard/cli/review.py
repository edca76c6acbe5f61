"""``trimtab review``: look at a run that waits for approval, and decide on it."""

from __future__ import annotations

from typing import Annotated

import typer

from core.plan.describe import expected_effect
from core.plan.model import Plan
from dashboard import services
from dashboard.cli import plan_answers
from dashboard.cli.config import configured_journal
from dashboard.cli.options import Config, Json
from dashboard.cli.output import Answer, UsageFaultError, emit, print_line
from dashboard.services import access

app = typer.Typer()


@app.command()
def review(
    run: Annotated[str, typer.Argument(metavar="RUN", help="Run id from `trimtab runs`.")],
    approve: Annotated[bool, typer.Option("--approve", help="Approve the run.")] = False,
    reject: Annotated[
        bool, typer.Option("--reject", help="Reject the run; requires --comment.")
    ] = False,
    comment: Annotated[str, typer.Option(help="Comment (recorded in the audit log).")] = "",
    config_file: Config = None,
    as_json: Json = False,
) -> int:
    """Show a run that waits for approval; approve or reject it.

    Users cannot approve their own runs.
    """
    if approve and reject:
        raise UsageFaultError(
            "--approve and --reject cannot be combined.", hint="Pass one of them."
        )
    config = configured_journal(config_file)
    if approve or reject:
        by = access.command_identity(config)
        services.decide(config, run, by, comment, is_approved=approve)
    view = services.run_view(config, run)
    is_waiting = services.awaits_approval(config, view)

    def show() -> None:
        print_line(f"Run {run} of {view.requested_by} on {view.cluster}: {view.reason}")
        _show_plan(view.plan)
        if view.decision is not None:
            done = "Approved" if view.decision.is_approved else "Rejected"
            more = f": {view.decision.comment}" if view.decision.comment else ""
            print_line(f"{done} by {view.decision.decided_by}{more}.")
            if sentence := services.approval(config, view):
                print_line(sentence)
        elif is_waiting:
            rules = config.cluster(view.cluster).approval.rules()
            print_line(f"It waits for approval until {rules.until(view):%H:%M} UTC.")
        else:
            print_line(f"It is {view.state} and needs no approval.")

    decision = view.decision
    body = {
        "run_id": run,
        "requested_by": view.requested_by,
        "plan": plan_answers.plan(view.plan),
        "is_waiting": is_waiting,
        "decision": None
        if decision is None
        else {
            "is_approved": decision.is_approved,
            "by": decision.decided_by,
            "comment": decision.comment,
        },
    }
    return emit(Answer(body, show), as_json=as_json)


def _show_plan(plan: Plan) -> None:
    plan_answers.show_plan(plan)
    if effect := expected_effect(plan.expected):
        print_line(effect)
    for step in plan.steps:
        print_line(f"  {step.describe_prediction()}")
