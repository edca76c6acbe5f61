"""Plans for Pegasus clusters for the pages, made once a request and again before they expire."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, assert_never

from core.errors import InputError
from core.pegasus.plan.build import RequestedMove, level_plan, moves_plan, setting_plan
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
from core.plan.model import Plan
from core.plan.options import CopyRate, PlanOptions
from core.snapshot.store import CachedSnapshot
from dashboard import services
from dashboard.queries.cache import cached
from dashboard.queries.pegasus.snapshots import pegasus_reading

_RENEW_AFTER_S: Final = 300


def _period() -> int:
    return int(services.now().timestamp()) // _RENEW_AFTER_S


@dataclass(frozen=True, slots=True, kw_only=True)
class MovesRequest:
    """Moves of replicas; equal requests on the same snapshot have the same answer.

    Attributes:
        stored: The snapshot.
        moves: The moves, in order.
        keep_level: Hold the level at steady while the run lasts.
        exclusions: Tables that the configuration keeps out of plans.
        reason: Where the moves come from.
        copy_rate: How fast copies are; ``None``: unknown.
    """

    stored: CachedSnapshot
    moves: tuple[RequestedMove, ...]
    keep_level: bool = False
    exclusions: tuple[str, ...] = ()
    reason: str = ""
    copy_rate: CopyRate | None = None


def moves_plan_of(request: MovesRequest) -> Plan:
    """Return the plan of some moves.

    Raises:
        InputError: Nothing was requested.
    """
    return _moves((request, _period()))


def _made(key: tuple[MovesRequest, int]) -> Plan:
    request, _ = key
    terms = PlanOptions(
        now=services.now(),
        reason=request.reason,
        exclusions=frozenset(request.exclusions),
        copy_rate=request.copy_rate,
    )
    snapshot = pegasus_reading(request.stored).snapshot
    return moves_plan(snapshot, request.moves, terms, keep_level=request.keep_level)


_moves = cached(_made, max_entries=32)

MaintenanceOperation = Literal["migrate", "drain", "offline", "rolling-update", "rebalance"]


@dataclass(frozen=True, slots=True, kw_only=True)
class MaintenanceRequest:
    """Requested maintenance; equal requests on the same snapshot have the same answer.

    Attributes:
        stored: The snapshot.
        operation: Its name on the command line.
        nodes: Registered names, in order; none for a rebalance.
        rate_mb_per_s: Limit of the copy rate per disk; ``None`` where it does not apply.
        max_under_replicated: Limit of partitions that lack a replica at a time; ``None`` where
            it does not apply.
        only_move_primary: Of a rebalance.
        exclusions: Tables that the configuration keeps out of plans.
        copy_rate: Measured copy rate; ``None`` if unknown.
    """

    stored: CachedSnapshot
    operation: MaintenanceOperation
    nodes: tuple[str, ...] = ()
    rate_mb_per_s: int | None = None
    max_under_replicated: int | None = None
    only_move_primary: bool = False
    exclusions: tuple[str, ...] = ()
    copy_rate: CopyRate | None = None


def maintenance_plan_of(request: MaintenanceRequest) -> Plan:
    """Return the plan of a maintenance operation.

    Raises:
        InputError: No node was named, or no such rate.
        UnknownNameError: There is no such node.
    """
    return _maintenance_plans((request, _period()))


def _maintained(key: tuple[MaintenanceRequest, int]) -> Plan:
    request, _ = key
    snapshot = pegasus_reading(request.stored).snapshot
    terms = PlanOptions(
        now=services.now(),
        reason=f"{request.operation}, prepared on the Maintenance page",
        exclusions=frozenset(request.exclusions),
        copy_rate=request.copy_rate,
    )
    limit = (
        MAX_UNDER_REPLICATED
        if request.max_under_replicated is None
        else request.max_under_replicated
    )
    match request.operation:
        case "migrate":
            if len(request.nodes) != 1:
                raise InputError("Select one node at a time.", hint="Select one node.")
            return migrate_plan(snapshot, request.nodes[0], terms)
        case "drain":
            return drain_plan(snapshot, request.nodes, terms, max_under_replicated=limit)
        case "offline":
            rate = OFFLINE_RATE_MB_PER_S if request.rate_mb_per_s is None else request.rate_mb_per_s
            return offline_plan(
                snapshot, request.nodes, terms, rate_mb_per_s=rate, max_under_replicated=limit
            )
        case "rolling-update":
            return rolling_update_plan(snapshot, request.nodes, terms)
        case "rebalance":
            rate = (
                REBALANCE_RATE_MB_PER_S if request.rate_mb_per_s is None else request.rate_mb_per_s
            )
            return rebalance_plan(
                snapshot, terms, only_move_primary=request.only_move_primary, rate_mb_per_s=rate
            )
        case _:
            assert_never(request.operation)


_maintenance_plans = cached(_maintained, max_entries=16)


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelRequest:
    """A requested level; equal requests on the same snapshot have the same plan.

    Attributes:
        stored: The snapshot.
        level: One of the five words.
    """

    stored: CachedSnapshot
    level: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSettingRequest:
    """A requested setting.

    Attributes:
        stored: The snapshot.
        key: Upstream's.
        value: As written.
    """

    stored: CachedSnapshot
    key: str
    value: str


def level_plan_of(request: LevelRequest) -> Plan:
    """Return the plan that sets a level; made again before it expires."""
    return _levels((request, _period()))


def server_setting_plan_of(request: ServerSettingRequest) -> Plan:
    """Return the plan that changes a setting; made again before it expires.

    Raises:
        InputError: The setting does not take the value.
        UnknownNameError: There is no such setting.
    """
    return _settings((request, _period()))


def _level(key: tuple[LevelRequest, int]) -> Plan:
    request, _ = key
    terms = PlanOptions(now=services.now(), reason="The level switch of the Cluster page")
    return level_plan(pegasus_reading(request.stored).snapshot, request.level, terms)


def _setting(key: tuple[ServerSettingRequest, int]) -> Plan:
    request, _ = key
    terms = PlanOptions(now=services.now(), reason="The settings of the Cluster page")
    snapshot = pegasus_reading(request.stored).snapshot
    return setting_plan(snapshot, request.key, request.value, terms)


_levels = cached(_level, max_entries=32)
_settings = cached(_setting, max_entries=32)
