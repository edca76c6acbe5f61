"""Plans that take runs on Pegasus clusters back, each made once a request."""

from __future__ import annotations

from typing import Final

from core.pegasus.plan.undo import UndoContext, undo_plan
from core.pegasus.system import PEGASUS
from core.plan.model import Plan
from core.snapshot.pegasus import load_pegasus_snapshot
from dashboard import services
from dashboard.queries.cache import cached
from dashboard.queries.pegasus.snapshots import pegasus_reading
from dashboard.queries.runs import UndoRequest, saved_start

_RENEW_AFTER_S: Final = 300


def undo_plan_of(request: UndoRequest) -> Plan:
    """Return the plan that takes a run back; made again before it expires.

    Raises:
        PlanConflictError: Nothing of the run can be taken back.
    """
    return _undos((request, int(services.now().timestamp()) // _RENEW_AFTER_S))


def _undone(key: tuple[UndoRequest, int]) -> Plan:
    request, _ = key
    basis = UndoContext(
        snapshot=pegasus_reading(request.stored).snapshot,
        now=services.now(),
        exclusions=frozenset(request.exclusions),
        start=saved_start(request.start, load_pegasus_snapshot),
        max_moves=request.max_moves,
    )
    return undo_plan(request.view, basis)


_undos = cached(_undone, max_entries=16)


def _moved(request: UndoRequest) -> int:
    start = saved_start(request.start, load_pegasus_snapshot)
    now = pegasus_reading(request.stored).snapshot
    return 0 if start is None else PEGASUS.count_moved(request.view, start, now)


count_moved = cached(_moved, max_entries=16)
"""How many partitions have other members than when a run began, by no step of it."""
