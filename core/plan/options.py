"""What plans of every system have in common while they are made: their options, their findings."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, NamedTuple

from core.ids import PlanId
from core.plan.model import DEFAULT_LIFETIME_S, Diagnostic

_ORDER: Final = ("error", "warning", "info")


class CopyRate(NamedTuple):
    """Assumed rate of one copy between nodes.

    Attributes:
        mb_per_s: Above 0.
        basis: What says so, a noun: ``the last 8 copies here``, ``limit per disk``.
        is_limit: No copy was measured; copies take the estimated time or longer.
    """

    mb_per_s: float
    basis: str
    is_limit: bool = False

    def describe(self) -> str:
        """Return ``98 MB/s per copy (the last 8 copies here)``."""
        return f"{self.mb_per_s:,.3g} MB/s per copy ({self.basis})"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanOptions:
    """On what terms a plan is made.

    Attributes:
        now: The moment of planning, aware UTC.
        reason: Why, recorded in the plan.
        lifetime_s: How long it may be applied.
        exclusions: Namespaces that the configuration keeps out of every plan.
        undoes: The run that it undoes.
        derived_from: Id of the plan that it was edited from.
        copy_rate: How fast copies of the cluster were; ``None`` if unknown.
    """

    now: datetime
    reason: str = ""
    lifetime_s: float = DEFAULT_LIFETIME_S
    exclusions: Collection[str] = field(default_factory=frozenset)
    undoes: str | None = None
    derived_from: PlanId | None = None
    copy_rate: CopyRate | None = None


def in_order(found: Iterable[Diagnostic]) -> tuple[Diagnostic, ...]:
    """Return diagnostics as a plan holds them: each once, errors first."""
    return tuple(sorted(dict.fromkeys(found), key=lambda item: _ORDER.index(item.severity)))
