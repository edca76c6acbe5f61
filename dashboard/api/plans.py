"""Plans over HTTP: make and preview them. A plan changes nothing; ``POST runs`` requests its run.

A plan is made on the newest saved snapshot, as at the pages, and signed: only a plan of this
installation can be requested.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final

import msgspec
from starlette.responses import Response

from core.actions.views import RunView
from core.errors import InputError
from core.plan.codec import load_plan
from core.plan.describe import tally
from core.plan.model import Diagnostic, Plan
from core.plan.options import PlanOptions
from core.request import Annotated, Request, param
from core.systems import STEPS
from dashboard import services
from dashboard.api.operations import CLUSTER, newest
from dashboard.api.plan_makers import MAKERS, Maker, Reason
from dashboard.api.resource import Call, Resource, json_response
from dashboard.api.schema import object_schema
from dashboard.cli import plan_answers, systems
from dashboard.queries.pegasus.copies import measured_rate
from dashboard.queries.snapshots import saved_snapshots
from dashboard.services import access
from trimtab.bodies import KnownPlanJson, MadeJson, PreviewJson

_PLACE: Final = "The plan of the request"


class PlansRequest(Request, frozen=True, kw_only=True):
    """The plans to list."""

    cluster: Annotated[str | None, param("Only plans of this cluster")] = None
    last: Annotated[int, param("Number of runs whose plans are listed", ge=1, le=400)] = 20


class PlanRequest(Request, frozen=True, kw_only=True):
    """A plan to preview."""

    plan: Annotated[dict[str, Any], param("Plan file")]


class Undo(Request, frozen=True, kw_only=True):
    """How a run is undone."""

    with_moves: Annotated[bool, param("Also move back all moves since the run began")] = False
    reason: Reason = ""


_GROUP: Final = "Plans"


def resources() -> Iterator[Resource]:
    """Yield the resources."""
    yield Resource(
        path="plans",
        name="plans",
        group=_GROUP,
        summary="List the plans of the latest runs: waiting, executed, refused.",
        details="A plan whose run was not requested is known to its maker only.",
        request=PlansRequest,
        answer={
            "type": "object",
            "properties": {"plans": {"type": "array", "items": object_schema(KnownPlanJson)}},
            "required": ["plans"],
        },
        respond=_plans,
        errors=(400, 404, 502),
    )
    for name, maker in MAKERS.items():
        yield Resource(
            path=f"plans/{{cluster}}/{name}",
            method="POST",
            name=f"plan_{name}",
            group=_GROUP,
            summary=f"{maker.summary} Nothing is sent.",
            details=f"For {maker.kind.capitalize()} clusters.",
            request=maker.request,
            example=maker.example,
            answer=object_schema(MadeJson),
            respond=partial(_made, maker),
            names=CLUSTER,
            errors=(404, 409, 500),
        )
    yield Resource(
        path="plans/{cluster}/preview",
        method="POST",
        name="preview_plan",
        group=_GROUP,
        summary="Preview a plan: destinations, load, clients, commands.",
        details="On the snapshot of the plan if it is still saved, else on the newest.",
        request=PlanRequest,
        answer=object_schema(PreviewJson),
        respond=_preview,
        names=CLUSTER,
        errors=(404, 409),
    )


def _plans(call: Call, request: PlansRequest) -> Response:
    if request.cluster is not None:
        call.cluster_named(request.cluster)
    by_plan: dict[str, list[RunView]] = {}
    for view in services.runs(call.config, request.cluster, request.last):
        by_plan.setdefault(view.plan.plan_id, []).append(view)
    return json_response({"plans": [_known(call, views) for views in by_plan.values()]})


def _known(call: Call, views: Sequence[RunView]) -> KnownPlanJson:
    """Return a plan with its runs, the newest first."""
    plan = views[0].plan
    return {
        "plan_id": plan.plan_id,
        "cluster": plan.cluster,
        "answer": tally(plan.steps),
        "steps": len(plan.steps),
        "created_at": plan.created_at.isoformat(),
        "expires_at": plan.expires_at.isoformat(),
        "undoes": plan.undoes,
        "is_waiting": any(services.awaits_approval(call.config, view) for view in views),
        "runs": [{"run_id": view.run_id, "state": view.state} for view in views],
    }


def plan_in(call: Call, content: Mapping[str, Any]) -> Plan:
    """Return the plan of a request: it must have been made by this installation.

    Raises:
        UnusablePlanError: It is damaged, or this installation did not make it.
    """
    return access.own_plan(call.config, msgspec.json.encode(content), _PLACE)


def inverse(call: Call, view: RunView, request: Undo) -> Response:
    """Return the plan that undoes a run."""
    plan, sentence = services.inverse_plan(
        call.config, view, request.reason, with_moves=request.with_moves
    )
    return _answer(call, plan, sentence)


def _made(maker: Maker, call: Call, request: Any) -> Response:
    cluster = call.cluster
    if cluster.kind != maker.kind:
        raise InputError(
            f"{cluster.name} is a {cluster.kind.capitalize()} cluster; this plan is for "
            f"{maker.kind.capitalize()} clusters.",
            hint="/api lists the plans.",
        )
    system = services.system_of(call.config, cluster)
    snapshot = system.record.load(newest(call, cluster.name).path)
    options = PlanOptions(
        now=services.now(),
        reason=request.reason,
        exclusions=frozenset(cluster.exclusions),
        copy_rate=measured_rate(call.config, cluster.name) if maker.kind == "pegasus" else None,
    )
    plan = maker.make(snapshot, request, options)
    if isinstance(plan, Diagnostic):
        return _nothing_to_do([plan])
    return _answer(call, plan, system.preview(snapshot, plan) if plan.steps else "")


def _answer(call: Call, plan: Plan, sentence: str) -> Response:
    """Return a plan with its signature, or that there is nothing to do.

    Raises:
        PlanError: The plan has errors.
    """
    if errors := plan.by_severity("error"):
        raise plan_answers.refusal(errors)
    if not plan.steps:
        return _nothing_to_do(plan.diagnostics)
    content = json.loads(access.plan_file(call.config, plan))
    return json_response({"verdict": "ready", "answer": sentence, "plan": content})


def _nothing_to_do(diagnostics: Sequence[Diagnostic]) -> Response:
    words = " ".join(one.sentence for one in plan_answers.done_already(diagnostics))
    return json_response({"verdict": "nothing_to_do", "answer": words, "plan": None})


def _preview(call: Call, request: PlanRequest) -> Response:
    plan = load_plan(msgspec.json.encode(request.plan), STEPS, _PLACE)
    name = call.cluster.name
    stored = saved_snapshots(services.snapshot_store(call.config), name).find(plan.snapshot_id)
    directory = (stored or newest(call, name)).path
    return json_response(systems.preview(directory, plan).body)
