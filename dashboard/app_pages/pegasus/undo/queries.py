"""Plans that take runs on Pegasus clusters back, each made once a request."""

from __future__ import annotations

from typing import Final

from core.pegasus.plan.undo import UndoContext, undo_plan
from core.plan.model import Plan
from dashboard import services
from dashboard.queries.cache import cached
from dashboard.queries.pegasus.snapshots import pegasus_reading
from dashboard.queries.runs import UndoRequest

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
    )
    return undo_plan(request.view, basis)


_undos = cached(_undone, max_entries=16)
