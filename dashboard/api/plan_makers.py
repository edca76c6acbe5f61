"""Plans that can be made over HTTP: the request of each, and the builder that commands call."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from core.optimize import optimize
from core.optimize.request import OptimizeRequest
from core.pegasus.even.request import EvenRequest
from core.pegasus.plan.build import (
    RequestedMove,
    change_plan,
    gpid_of,
    level_plan,
    moves_plan,
    setting_plan,
)
from core.pegasus.plan.even import even_plan, even_search
from core.pegasus.plan.maintenance import (
    MAX_UNDER_REPLICATED,
    OFFLINE_RATE_MB_PER_S,
    REBALANCE_RATE_MB_PER_S,
    drain_plan,
    migrate_plan,
    offline_plan,
    rebalance_plan,
    rolling_update_plan,
)
from core.pegasus.proposal import Change, Move
from core.pegasus.server_settings import changeable
from core.plan.model import Diagnostic, Plan
from core.plan.options import PlanOptions
from core.pulsar.plan.build import build_unload_plan
from core.pulsar.plan.policy.build import DesiredPolicy, build_policy_plan
from core.pulsar.plan.setting import build_setting_plan
from core.pulsar.plan.split import SplitSpec, build_split_plan
from core.request import Annotated, Request, param

Reason = Annotated[str, param("Reason (recorded in the plan)")]


class UnloadRequest(Request, frozen=True, kw_only=True):
    """Bundles to unload."""

    bundles: Annotated[tuple[str, ...], param("Bundles, tenant/namespace/0xLOW_0xHIGH")]
    destination: Annotated[str | None, param("Destination broker; null: the cluster's choice")] = (
        None
    )
    reason: Reason = ""


class OptimizePlanRequest(OptimizeRequest, frozen=True, kw_only=True):
    """The fewest moves that balance the cluster."""

    all_moves: Annotated[
        bool, param("Also plan moves that do not narrow the deviation band any further")
    ] = False
    reason: Reason = ""


class SetRequest(Request, frozen=True, kw_only=True):
    """Dynamic settings to change."""

    settings: Annotated[
        dict[str, str | None], param("Value by key, as in broker.conf; null removes a value")
    ]
    reason: Reason = ""


class SplitRequest(Request, frozen=True, kw_only=True):
    """Bundles to split."""

    bundles: Annotated[tuple[str, ...], param("Bundles, tenant/namespace/0xLOW_0xHIGH")]
    algorithm: Annotated[str | None, param("Split algorithm; null: the brokers'")] = None
    positions: Annotated[
        tuple[int, ...], param("Positions for specified_positions_divide, of one bundle")
    ] = ()
    unload: Annotated[bool, param("Also unload the new bundles")] = False
    reason: Reason = ""


class PolicyRequest(Request, frozen=True, kw_only=True):
    """A policy to set or to delete."""

    kind: Annotated[str, param("Kind of policy, such as isolation or publish_rate")]
    name: Annotated[str, param("Name of the policy, or of its namespace or bundle")]
    value: Annotated[str | None, param("JSON document or text; null deletes the policy")]
    reason: Reason = ""


class MoveRequest(Request, frozen=True, kw_only=True):
    """A primary to move, or a replica to copy."""

    partition: Annotated[str, param("Partition, such as 2.7 or temp.7")]
    kind: Annotated[Move, param("Kind of move")]
    source: Annotated[str, param("Source node, host:port")]
    destination: Annotated[str, param("Destination node, host:port")]
    steady: Annotated[bool, param("Keep the level at steady during the run")] = False
    reason: Reason = ""


class MigrateRequest(Request, frozen=True, kw_only=True):
    """A node whose primaries move to other nodes."""

    node: Annotated[str, param("Registered name, host:port")]
    reason: Reason = ""


class DrainRequest(Request, frozen=True, kw_only=True):
    """Nodes to drain, one by one."""

    nodes: Annotated[tuple[str, ...], param("Registered names, host:port", min_length=1)]
    max_under_replicated: Annotated[
        int, param("Max partitions that lack a replica at the same time", ge=1)
    ] = MAX_UNDER_REPLICATED
    reason: Reason = ""


class ProposeRequest(Request, frozen=True, kw_only=True):
    """One safe change of a partition."""

    partition: Annotated[str, param("Partition, such as 2.7 or temp.7")]
    change: Annotated[Change, param("Kind of change")]
    node: Annotated[str, param("Node that changes its role, host:port")]
    reason: Reason = ""


class OfflineRequest(DrainRequest, frozen=True, kw_only=True):
    """Nodes to take out of service."""

    rate: Annotated[int, param("Copy rate per disk (MB/s); 0: no limit", ge=0)] = (
        OFFLINE_RATE_MB_PER_S
    )


class RollingUpdateRequest(Request, frozen=True, kw_only=True):
    """Nodes to restart, one by one."""

    nodes: Annotated[tuple[str, ...], param("Nodes in restart order; none: all alive nodes")] = ()
    reason: Reason = ""


class RebalanceRequest(Request, frozen=True, kw_only=True):
    """A run of the meta server's balancer."""

    only_move_primary: Annotated[bool, param("Copy no primaries during the run")] = False
    rate: Annotated[int, param("Copy rate per disk (MB/s); 0: no limit", ge=0)] = (
        REBALANCE_RATE_MB_PER_S
    )
    reason: Reason = ""


class EvenPlanRequest(EvenRequest, frozen=True, kw_only=True):
    """Balance by one measure with few moves."""

    reason: Reason = ""


class LevelRequest(Request, frozen=True, kw_only=True):
    """A function level to set."""

    level: Annotated[str, param("Level: stopped, blind, freezed, steady or lively")]
    reason: Reason = ""


class ServerSettingRequest(Request, frozen=True, kw_only=True):
    """A setting of running servers."""

    key: Annotated[str, param("Remote command or flag")]
    value: Annotated[str, param("Value; clear empties a list")]
    node: Annotated[str | None, param("Only this replica server, host:port")] = None
    reason: Reason = ""


def _unload(snapshot: Any, request: UnloadRequest, options: PlanOptions) -> Plan:
    return build_unload_plan(
        snapshot,
        request.bundles,
        destination=request.destination,
        now=options.now,
        reason=options.reason,
        exclusions=frozenset(options.exclusions),
    )


def _optimize(
    snapshot: Any, request: OptimizePlanRequest, options: PlanOptions
) -> Plan | Diagnostic:
    exclusions = tuple(sorted({*request.exclusions, *options.exclusions}))
    wanted = OptimizeRequest(
        **{name: getattr(request, name) for name in OptimizeRequest.__struct_fields__}
        | {"exclusions": exclusions}
    )
    found = optimize(snapshot, wanted)
    planned = found if request.all_moves else found.first(found.needed)
    if not planned.moves:
        return Diagnostic(severity="info", code="nothing_to_do", sentence=found.sentence)
    return build_unload_plan(
        snapshot,
        planned.destinations,
        destinations=planned.destinations,
        now=options.now,
        reason=options.reason or f"optimize: {found.goal}",
        exclusions=exclusions,
    )


def _set(snapshot: Any, request: SetRequest, options: PlanOptions) -> Plan:
    return build_setting_plan(snapshot, request.settings, options)


def _split(snapshot: Any, request: SplitRequest, options: PlanOptions) -> Plan:
    spec = SplitSpec(
        algorithm=request.algorithm, positions=request.positions, is_unloaded=request.unload
    )
    return build_split_plan(snapshot, request.bundles, spec, options)


def _policy(snapshot: Any, request: PolicyRequest, options: PlanOptions) -> Plan:
    desired = DesiredPolicy(request.kind, request.name, request.value)
    return build_policy_plan(snapshot, [desired], options)


def _move(snapshot: Any, request: MoveRequest, options: PlanOptions) -> Plan:
    gpid = gpid_of(snapshot, request.partition)
    move = RequestedMove(gpid, request.kind, request.source, request.destination)
    return moves_plan(snapshot, [move], options, keep_level=request.steady)


def _migrate(snapshot: Any, request: MigrateRequest, options: PlanOptions) -> Plan:
    return migrate_plan(snapshot, request.node, options)


def _drain(snapshot: Any, request: DrainRequest, options: PlanOptions) -> Plan:
    most = request.max_under_replicated
    return drain_plan(snapshot, request.nodes, options, max_under_replicated=most)


def _propose(snapshot: Any, request: ProposeRequest, options: PlanOptions) -> Plan:
    gpid = gpid_of(snapshot, request.partition)
    return change_plan(snapshot, gpid, request.change, request.node, options)


def _offline(snapshot: Any, request: OfflineRequest, options: PlanOptions) -> Plan:
    return offline_plan(
        snapshot,
        request.nodes,
        options,
        rate_mb_per_s=request.rate,
        max_under_replicated=request.max_under_replicated,
    )


def _rolling_update(snapshot: Any, request: RollingUpdateRequest, options: PlanOptions) -> Plan:
    return rolling_update_plan(snapshot, request.nodes, options)


def _rebalance(snapshot: Any, request: RebalanceRequest, options: PlanOptions) -> Plan:
    return rebalance_plan(
        snapshot,
        options,
        only_move_primary=request.only_move_primary,
        rate_mb_per_s=request.rate,
    )


def _even(snapshot: Any, request: EvenPlanRequest, options: PlanOptions) -> Plan | Diagnostic:
    measured, found = even_search(snapshot, request)
    return even_plan(snapshot, request, measured, found, options)


def _level(snapshot: Any, request: LevelRequest, options: PlanOptions) -> Plan:
    return level_plan(snapshot, request.level, options)


def _server_setting(snapshot: Any, request: ServerSettingRequest, options: PlanOptions) -> Plan:
    changeable(request.key)
    return setting_plan(snapshot, request.key, request.value, options, server=request.node)


class Maker(NamedTuple):
    """How a plan is made.

    Attributes:
        kind: System of the clusters.
        summary: One sentence.
        request: What is requested.
        make: Makes it, of the snapshot, the request and the options; or returns the reason why
            there is nothing to do.
        example: A request.
    """

    kind: str
    summary: str
    request: type[Request]
    make: Callable[[Any, Any, PlanOptions], Plan | Diagnostic]
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
    "optimize": Maker(
        "pulsar",
        "Plan the fewest moves that balance the cluster.",
        OptimizePlanRequest,
        _optimize,
        {"max_moves": 5},
    ),
    "set": Maker(
        "pulsar",
        "Plan a change of dynamic settings.",
        SetRequest,
        _set,
        {"settings": {"loadBalancerSheddingEnabled": "true"}},
    ),
    "split": Maker(
        "pulsar",
        "Plan a split of bundles.",
        SplitRequest,
        _split,
        {"bundles": ["acme/orders/0x00000000_0x40000000"]},
    ),
    "policy": Maker(
        "pulsar",
        "Plan to set or delete a policy.",
        PolicyRequest,
        _policy,
        {
            "kind": "publish_rate",
            "name": "acme/orders",
            "value": '{"publishThrottlingRateInMsg": 500}',
        },
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
    "propose": Maker(
        "pegasus",
        "Plan one safe change of a partition.",
        ProposeRequest,
        _propose,
        {"partition": "2.7", "change": "ADD_SECONDARY", "node": _NODE},
    ),
    "offline": Maker(
        "pegasus",
        "Plan to take nodes out of service.",
        OfflineRequest,
        _offline,
        {"nodes": [_NODE]},
    ),
    "rolling-update": Maker(
        "pegasus", "Plan to restart nodes one by one.", RollingUpdateRequest, _rolling_update, {}
    ),
    "rebalance": Maker(
        "pegasus",
        "Plan a run of the meta server's balancer.",
        RebalanceRequest,
        _rebalance,
        {"only_move_primary": True},
    ),
    "even": Maker(
        "pegasus",
        "Plan to balance by one measure with few moves.",
        EvenPlanRequest,
        _even,
        {"measure": "disk"},
    ),
    "level": Maker(
        "pegasus", "Plan to set the function level.", LevelRequest, _level, {"level": "lively"}
    ),
    "server-setting": Maker(
        "pegasus",
        "Plan a change of a setting of running servers.",
        ServerSettingRequest,
        _server_setting,
        {"key": "meta.lb.only_move_primary", "value": "true"},
    ),
}
