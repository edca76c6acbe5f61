"""Plans of the unload preview with what they do, each computed once a request."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from core.plan.model import Plan
from core.pulsar.plan.after_run import load_after_run
from core.pulsar.plan.build import build_unload_plan
from core.pulsar.plan.edit import PlanContext
from core.pulsar.plan.preview import Preview, preview_plan
from core.pulsar.plan.undo import undo_plan
from core.pulsar.system import PULSAR
from core.snapshot.store import CachedSnapshot, load_snapshot
from dashboard import services
from dashboard.queries.cache import cached
from dashboard.queries.pulsar.snapshots import reading
from dashboard.queries.runs import UndoRequest, saved_start

_RENEW_AFTER_S: Final = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class UnloadPlanRequest:
    """Requested unloads; equal requests on the same snapshot have the same answer.

    Attributes:
        stored: The snapshot.
        bundles: Names, in order.
        destination: Broker that is asked to take them, or ``None``.
        strategy: Placement strategy to assume, or ``None`` for the one in force.
        exclusions: Namespaces that the configuration keeps out of plans.
    """

    stored: CachedSnapshot
    bundles: tuple[str, ...]
    destination: str | None = None
    strategy: str | None = None
    exclusions: tuple[str, ...] = ()


def unload_preview(request: UnloadPlanRequest) -> tuple[Plan, Preview]:
    """Return the plan and its preview; the plan is made again before it expires.

    Raises:
        InputError: No bundle was named.
        UnknownNameError: No such strategy.
    """
    return _previews((request, int(services.now().timestamp()) // _RENEW_AFTER_S))


def _previewed(key: tuple[UnloadPlanRequest, int]) -> tuple[Plan, Preview]:
    request, _ = key
    snapshot = reading(request.stored).snapshot
    plan = build_unload_plan(
        snapshot,
        request.bundles,
        destination=request.destination,
        strategy=request.strategy,
        exclusions=request.exclusions,
        now=services.now(),
    )
    return plan, preview_plan(snapshot, plan)


_previews = cached(_previewed, max_entries=64)


def undo_preview(request: UndoRequest) -> tuple[Plan, Preview]:
    """Return the plan that takes a run back, and its preview; made again before it expires.

    Raises:
        PlanConflictError: Nothing of the run can be taken back.
    """
    return _undos((request, int(services.now().timestamp()) // _RENEW_AFTER_S))


def _undone(key: tuple[UndoRequest, int]) -> tuple[Plan, Preview]:
    request, _ = key
    snapshot = reading(request.stored).snapshot
    context = PlanContext(
        snapshot=snapshot, now=services.now(), exclusions=frozenset(request.exclusions)
    )
    start = saved_start(request.start, load_snapshot)
    plan = undo_plan(request.view, context, start=start, max_moves=request.max_moves)
    return plan, preview_plan(load_after_run(request.view, snapshot, start).snapshot, plan)


_undos = cached(_undone, max_entries=16)


def _moved(request: UndoRequest) -> int:
    start = saved_start(request.start, load_snapshot)
    now = reading(request.stored).snapshot
    return 0 if start is None else PULSAR.count_moved(request.view, start, now)


count_moved = cached(_moved, max_entries=16)
"""How many bundles are elsewhere than when a run began, by no step of it."""
