"""Runs and the journal over HTTP: list, show, request, approve and control runs.

Every request goes through :mod:`dashboard.services`, as those of commands and pages do: roles,
scopes, limits, windows, approvals and signatures are decided there, and again by the worker.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, cast

import msgspec
from starlette.responses import Response

from core.actions.authority import check_plan
from core.actions.model import Control, RunId, RunOptions
from core.actions.views import RunView
from core.errors import UnknownNameError
from core.request import Annotated, Request, param
from dashboard import services
from dashboard.api.plans import Undo, inverse, plan_in
from dashboard.api.resource import ROOT, Call, NoParameters, Resource, json_response, missing
from dashboard.api.schema import TEXT, object_schema
from dashboard.cli import plan_answers, run_answers
from dashboard.services import verifications
from trimtab.bodies import DryRunJson, MadeJson, SummaryJson, VerifiedJson, WholeRunJson

if TYPE_CHECKING:
    from trimtab.bodies import PlanJson

_RUN: Final = {"run": "Id of the run."}
_TEXTS: Final = {"type": "array", "items": TEXT}
_CONTROLS: Final[dict[Control, str]] = {
    "pause": "Pause a run after the current step.",
    "resume": "Resume a run.",
    "stop": "Stop a run after the current step.",
}


class RunsRequest(Request, frozen=True, kw_only=True):
    """The runs to list."""

    cluster: Annotated[str | None, param("Only runs of this cluster")] = None
    last: Annotated[int, param("Number of runs", ge=1, le=400)] = 20


class NewRun(Request, frozen=True, kw_only=True):
    """A run to request, or to try without a change."""

    cluster: Annotated[str, param("Cluster of the plan")]
    plan: Annotated[dict[str, Any], param("Plan of this installation, with its signature")]
    reason: Annotated[str, param("Reason (recorded in the audit log)")] = ""
    pace_per_min: Annotated[
        Annotated[float, msgspec.Meta(gt=0)] | None,
        param("Rate limit (steps/min); null: the cluster's limit"),
    ] = None
    canary_s: Annotated[
        Annotated[float, msgspec.Meta(ge=0)] | None,
        param("Observe the cluster for this time (s) after the first step"),
    ] = None
    max_unassigned: Annotated[
        Annotated[int, msgspec.Meta(ge=1)] | None,
        param("Number of unassigned bundles that pauses the run"),
    ] = None
    pause_balancer: Annotated[bool, param("Disable the cluster's load shedding during the run")] = (
        False
    )
    dry_run: Annotated[bool, param("Only return what would be sent now")] = False


class Reason(Request, frozen=True, kw_only=True):
    """Why."""

    reason: Annotated[str, param("Reason (recorded in the audit log)")] = ""


class Comment(Request, frozen=True, kw_only=True):
    """A comment."""

    comment: Annotated[str, param("Comment (recorded in the audit log)")] = ""


_GROUP: Final = "Runs"


def resources() -> Iterator[Resource]:
    """Yield the resources."""
    run = object_schema(WholeRunJson)
    summaries = {"type": "array", "items": object_schema(SummaryJson)}
    yield Resource(
        path="runs",
        name="runs",
        group=_GROUP,
        summary="List the latest runs.",
        answer={
            "type": "object",
            "properties": {"runs": summaries, "problems": _TEXTS},
            "required": ["runs", "problems"],
        },
        respond=_runs,
        request=RunsRequest,
        errors=(400, 404, 502),
    )
    yield Resource(
        path="runs",
        method="POST",
        name="request_run",
        group=_GROUP,
        summary="Request the run of a plan, or try it with `dry_run`.",
        details="A worker of the cluster executes it; where approvals are configured, another "
        "person approves it first.",
        request=NewRun,
        example={"cluster": "sandbox", "plan": {}, "reason": "hot broker"},
        answer={"anyOf": [run, object_schema(DryRunJson)]},
        status=HTTPStatus.CREATED,
        headers={"Location": "The run."},
        respond=_request,
        errors=(404, 409, 502),
    )
    yield Resource(
        path="runs/{run}",
        name="run",
        group=_GROUP,
        summary="Show a run: steps, settings, results and its entries in the journal.",
        answer=run,
        respond=_run,
        names=_RUN,
        errors=(400, 404, 502),
    )
    for control, summary in _CONTROLS.items():
        yield Resource(
            path=f"runs/{{run}}/{control}",
            method="POST",
            name=f"{control}_run",
            group=_GROUP,
            summary=summary,
            request=Reason,
            answer=run,
            status=HTTPStatus.ACCEPTED,
            respond=partial(_control, control),
            names=_RUN,
            errors=(404, 409, 502),
        )
    for is_approved, verb in ((True, "approve"), (False, "reject")):
        yield Resource(
            path=f"runs/{{run}}/{verb}",
            method="POST",
            name=f"{verb}_run",
            group=_GROUP,
            summary=f"{verb.capitalize()} a run that waits for approval.",
            request=Comment,
            answer=run,
            respond=partial(_decide, is_approved=is_approved),
            names=_RUN,
            errors=(404, 409, 502),
        )
    yield Resource(
        path="runs/{run}/undo",
        method="POST",
        name="undo_run",
        group=_GROUP,
        summary="Make the plan that undoes a run, on a fresh snapshot; request it with POST runs.",
        request=Undo,
        answer=object_schema(MadeJson),
        respond=_undo,
        names=_RUN,
        errors=(404, 409, 502),
    )
    yield Resource(
        path="journal",
        name="journal",
        group=_GROUP,
        summary="Verify the journal: its chain, signatures, anchors and database.",
        details="Once a minute at most; `Trimtab-Verified-At` is its time.",
        headers={"Trimtab-Verified-At": "Time of the verification."},
        answer=object_schema(VerifiedJson),
        respond=_journal,
        errors=(400, 502),
    )


def _visible(call: Call) -> RunView:
    """Return the run that the path names.

    Raises:
        ProblemError: There is none that the caller may view.
    """
    name = call.name("run")
    try:
        view = services.run_view(call.config, name)
    except UnknownNameError as error:
        raise missing(UnknownNameError.of("run", name, (), place="the journal")) from error
    if call.config.access.sign_in != "none":
        known = {cluster.name for cluster in call.config.clusters}
        if view.cluster not in known:
            raise missing(UnknownNameError.of("run", name, (), place="the journal"))
    return view


def _body(call: Call, run_id: str) -> WholeRunJson:
    view = services.run_view(call.config, run_id)
    decision = view.decision
    return {
        **run_answers.of_run(view, services.journal(call.config).entries(run_id=RunId(run_id))),
        "plan": cast("PlanJson", plan_answers.plan(view.plan)),
        "is_waiting": services.awaits_approval(call.config, view),
        "decision": None
        if decision is None
        else {
            "is_approved": decision.is_approved,
            "by": decision.decided_by,
            "comment": decision.comment,
        },
    }


def _runs(call: Call, request: RunsRequest) -> Response:
    if request.cluster is not None:
        call.cluster_named(request.cluster)
    views = services.runs(call.config, request.cluster, request.last)
    body = {
        "runs": [run_answers.summary(view) for view in views],
        "problems": run_answers.problems(services.journal(call.config), views),
    }
    return json_response(body)


def _run(call: Call, _: NoParameters) -> Response:
    return json_response(_body(call, _visible(call).run_id))


def _request(call: Call, request: NewRun) -> Response:
    cluster = call.cluster_named(request.cluster)
    plan = plan_in(call, request.plan)
    options = _options(call, request)
    if request.dry_run:
        check_plan(call.config.access.rules(), call.by, plan, cluster.name, "dry-run this plan")
        found = services.rehearse(call.config, cluster.name, plan, options)
        return json_response(run_answers.dry_run(plan, found))
    run_id = services.request_run(call.config, cluster.name, plan, request.reason, options, call.by)
    headers = {"Location": f"{ROOT}runs/{run_id}"}
    return json_response(_body(call, run_id), HTTPStatus.CREATED, headers)


def _options(call: Call, request: NewRun) -> RunOptions:
    """Return the cluster's options, overridden by the given ones."""
    given = {
        "pace_per_min": request.pace_per_min,
        "canary_s": request.canary_s,
        "max_unassigned": request.max_unassigned,
    }
    options = services.default_options(call.config, request.cluster)
    named: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    return replace(options, pause_balancer=request.pause_balancer, **named)


def _control(control: Control, call: Call, request: Reason) -> Response:
    run_id = _visible(call).run_id
    services.ask_control(call.config, run_id, control, call.by, request.reason)
    return json_response(_body(call, run_id), HTTPStatus.ACCEPTED)


def _decide(call: Call, request: Comment, *, is_approved: bool) -> Response:
    run_id = _visible(call).run_id
    services.decide(call.config, run_id, call.by, request.comment, is_approved=is_approved)
    return json_response(_body(call, run_id))


def _undo(call: Call, request: Undo) -> Response:
    view = _visible(call)
    rules = call.config.access.rules()
    rules.check(call.by, "operator", view.cluster, "plan an undo, which reads the cluster")
    return inverse(call, view, request)


def _journal(call: Call, _: NoParameters) -> Response:
    at, result = verifications.latest(call.config)
    headers = {"Trimtab-Verified-At": at.isoformat()}
    return json_response(run_answers.verified(result), headers=headers)
