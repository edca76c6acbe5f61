"""Plans over HTTP: make and preview them. A plan changes nothing; ``POST runs`` requests its run.

A plan is made on the newest saved snapshot, as at the pages, and signed: only a plan of this
installation can be requested.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, Final, NamedTuple

import msgspec
from starlette.responses import Response

from core.actions.views import RunView
from core.errors import InputError
from core.pegasus.ids import gpid_text, parse_gpid
from core.pegasus.plan.build import RequestedMove, moves_plan
from core.pegasus.plan.maintenance import MAX_UNDER_REPLICATED, drain_plan, migrate_plan
from core.pegasus.proposal import Move
from core.plan.codec import load_plan
from core.plan.model import Plan
from core.plan.options import PlanOptions
from core.pulsar.plan.build import build_unload_plan
from core.pulsar.plan.setting import build_setting_plan
from core.request import Annotated, Request, param
from core.systems import STEPS
from dashboard import services
from dashboard.api.operations import CLUSTER, newest
from dashboard.api.resource import Call, Resource, json_response
from dashboard.api.schema import TEXT
from dashboard.cli import plan_answers, systems
from dashboard.queries.snapshots import saved_snapshots
from dashboard.services import access

MADE: Final[Mapping[str, Any]] = {
    "type": "object",
    "properties": {
        "verdict": {"enum": ["ready", "nothing_to_do"]},
        "answer": TEXT | {"description": "What the plan does, in words."},
        "plan": {
            "type": ["object", "null"],
            "description": "The plan file, signed; null: nothing to do.",
        },
    },
    "required": ["verdict", "answer", "plan"],
}
_PLACE: Final = "The plan of the request"
_REASON = Annotated[str, param("Reason (recorded in the plan)")]


class UnloadRequest(Request, frozen=True, kw_only=True):
    """Bundles to unload."""

    bundles: Annotated[tuple[str, ...], param("Bundles, tenant/namespace/0xLOW_0xHIGH")]
    destination: Annotated[str | None, param("Destination broker; null: the cluster's choice")] = (
        None
    )
    reason: _REASON = ""


class SetRequest(Request, frozen=True, kw_only=True):
    """Dynamic settings to change."""

    settings: Annotated[
        dict[str, str | None], param("Value by key, as in broker.conf; null removes a value")
    ]
    reason: _REASON = ""


class MoveRequest(Request, frozen=True, kw_only=True):
    """A primary to move, or a replica to copy."""

    partition: Annotated[str, param("Partition, such as 2.7")]
    kind: Annotated[Move, param("Kind of move")]
    source: Annotated[str, param("Source node, host:port")]
    destination: Annotated[str, param("Destination node, host:port")]
    steady: Annotated[bool, param("Keep the level at steady during the run")] = False
    reason: _REASON = ""


class MigrateRequest(Request, frozen=True, kw_only=True):
    """A node whose primaries move to other nodes."""

    node: Annotated[str, param("Registered name, host:port")]
    reason: _REASON = ""


class DrainRequest(Request, frozen=True, kw_only=True):
    """Nodes to drain, one by one."""

    nodes: Annotated[tuple[str, ...], param("Registered names, host:port", min_length=1)]
    max_under_replicated: Annotated[
        int, param("Max partitions that lack a replica at the same time", ge=1)
    ] = MAX_UNDER_REPLICATED
    reason: _REASON = ""


class PlanRequest(Request, frozen=True, kw_only=True):
    """A plan to preview."""

    plan: Annotated[dict[str, Any], param("Plan file")]


class Undo(Request, frozen=True, kw_only=True):
    """How a run is undone."""

    with_moves: Annotated[bool, param("Also move back all moves since the run began")] = False
    reason: _REASON = ""


def _unload(snapshot: Any, request: UnloadRequest, options: PlanOptions) -> Plan:
    return build_unload_plan(
        snapshot,
        request.bundles,
        destination=request.destination,
        now=options.now,
        reason=options.reason,
        exclusions=frozenset(options.exclusions),
    )


def _set(snapshot: Any, request: SetRequest, options: PlanOptions) -> Plan:
    return build_setting_plan(snapshot, request.settings, options)


def _move(snapshot: Any, request: MoveRequest, options: PlanOptions) -> Plan:
    gpid = gpid_text(*parse_gpid(request.partition))
    move = RequestedMove(gpid, request.kind, request.source, request.destination)
    return moves_plan(snapshot, [move], options, keep_level=request.steady)


def _migrate(snapshot: Any, request: MigrateRequest, options: PlanOptions) -> Plan:
    return migrate_plan(snapshot, request.node, options)


def _drain(snapshot: Any, request: DrainRequest, options: PlanOptions) -> Plan:
    most = request.max_under_replicated
    return drain_plan(snapshot, request.nodes, options, max_under_replicated=most)


class Maker(NamedTuple):
    """How a plan is made.

    Attributes:
        kind: System of the clusters.
        summary: One sentence.
        request: What is requested.
        make: Makes it, of the snapshot, the request and the options.
        example: A request.
    """

    kind: str
    summary: str
    request: type[Request]
    make: Callable[[Any, Any, PlanOptions], Plan]
    example: Mapping[str, Any]


_NODE: Final = "localhost:34801"
MAKERS: Final[Mapping[str, Maker]] = {
    "unload": Maker(
        "pulsar",
        "Plan an unload of bundles.",
        UnloadRequest,
        _unload,
        {"bundles": ["acme/orders/0x00000000_0x40000000"]},
    ),
    "set": Maker(
        "pulsar",
        "Plan a change of dynamic settings.",
        SetRequest,
        _set,
        {"settings": {"loadBalancerSheddingEnabled": "true"}},
    ),
    "move": Maker(
        "pegasus",
        "Plan the move of a primary, or the copy of a replica.",
        MoveRequest,
        _move,
        {
            "partition": "2.7",
            "kind": "move_pri",
            "source": _NODE,
            "destination": "localhost:34802",
        },
    ),
    "migrate": Maker(
        "pegasus",
        "Plan to move every primary off a node.",
        MigrateRequest,
        _migrate,
        {"node": _NODE},
    ),
    "drain": Maker(
        "pegasus", "Plan to drain nodes one by one.", DrainRequest, _drain, {"nodes": [_NODE]}
    ),
}


def resources() -> Iterator[Resource]:
    """Yield the resources."""
    for name, maker in MAKERS.items():
        yield Resource(
            path=f"plans/{{cluster}}/{name}",
            method="POST",
            name=f"plan_{name}",
            summary=f"{maker.summary} Nothing is sent.",
            details=f"For {maker.kind.capitalize()} clusters.",
            request=maker.request,
            example=maker.example,
            answer=MADE,
            respond=partial(_made, maker),
            names=CLUSTER,
            errors=(404, 409, 500),
        )
    yield Resource(
        path="plans/{cluster}/preview",
        method="POST",
        name="preview_plan",
        summary="Preview a plan: destinations, load, clients, commands.",
        details="On the snapshot of the plan if it is still saved, else on the newest.",
        request=PlanRequest,
        answer={"type": "object"},
        respond=_preview,
        names=CLUSTER,
        errors=(404, 409),
    )


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
        now=services.now(), reason=request.reason, exclusions=frozenset(cluster.exclusions)
    )
    plan = maker.make(snapshot, request, options)
    return _answer(call, plan, system.preview(snapshot, plan) if plan.steps else "")


def _answer(call: Call, plan: Plan, sentence: str) -> Response:
    """Return a plan with its signature, or that there is nothing to do.

    Raises:
        PlanError: The plan has errors.
    """
    if errors := plan.by_severity("error"):
        raise plan_answers.refusal(errors)
    if not plan.steps:
        words = " ".join(one.sentence for one in plan_answers.done_already(plan.diagnostics))
        return json_response({"verdict": "nothing_to_do", "answer": words, "plan": None})
    content = json.loads(access.plan_file(call.config, plan))
    return json_response({"verdict": "ready", "answer": sentence, "plan": content})


def _preview(call: Call, request: PlanRequest) -> Response:
    plan = load_plan(msgspec.json.encode(request.plan), STEPS, _PLACE)
    name = call.cluster.name
    stored = saved_snapshots(services.snapshot_store(call.config), name).find(plan.snapshot_id)
    directory = (stored or newest(call, name)).path
    return json_response(systems.preview(directory, plan).body)
