"""Plans for Pegasus clusters for the pages, each made once a request and anew before it expires."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from core.plan.bare import Terms
from core.plan.model import Plan
from core.plan.pegasus_build import AskedMove, moves_plan
from core.snapshot.store import Shelved
from dashboard import services
from dashboard.memo import Memo
from dashboard.reading_pegasus import pegasus_reading

_RENEW_AFTER_S: Final = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class MovesRequest:
    """Moves of replicas; equal requests on the same snapshot have the same answer.

    Attributes:
        shelved: The snapshot.
        asked: The moves, in order.
        keep_level: Hold the level at steady while the run lasts.
        exclusions: Tables that the configuration keeps out of plans.
        reason: Where the moves come from.
    """

    shelved: Shelved
    asked: tuple[AskedMove, ...]
    keep_level: bool = False
    exclusions: tuple[str, ...] = ()
    reason: str = ""


def moves_plan_of(request: MovesRequest) -> Plan:
    """Return the plan of some moves.

    Raises:
        InputError: Nothing was asked for.
    """
    return _moves((request, int(services.now().timestamp()) // _RENEW_AFTER_S))


def _made(key: tuple[MovesRequest, int]) -> Plan:
    request, _ = key
    terms = Terms(
        now=services.now(), reason=request.reason, exclusions=frozenset(request.exclusions)
    )
    snapshot = pegasus_reading(request.shelved).snapshot
    return moves_plan(snapshot, request.asked, terms, keep_level=request.keep_level)


_moves = Memo(_made, max_entries=32)
