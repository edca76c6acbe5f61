"""Contract of a system with the Diagnose page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from core.diagnosis.model import Cause
    from core.snapshot.store import CachedSnapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class NextPage:
    """A page that leads on from a cause, with the change filled in.

    Attributes:
        label: Verb and object.
        page: Its name.
        params: Of its address.
        icon: Material symbol.
        help: One sentence.
    """

    label: str
    page: str
    params: Mapping[str, str | list[str]]
    icon: str
    help: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class OptimalPlan:
    """Result of the optimizer, next to what the causes' fixes achieve.

    Attributes:
        moves: Of the plan.
        deviation: Max deviation after all moves, share of the mean; ``None``: unknown.
        next_page: Where the plan is previewed.
    """

    moves: int
    deviation: float | None
    next_page: NextPage


class DiagnoseSystem(Protocol):
    """One system, as the Diagnose page uses it."""

    @property
    def subject(self) -> str:
        """The noun for what moves, as a label."""

    def next_pages(self, page: Any, cause: Cause) -> Sequence[NextPage]:
        """Return at most two pages where a fix is tried and planned, the recommended one first."""

    def is_planning(self, page: Any, stored: CachedSnapshot) -> bool:
        """Return whether the optimal plan is being computed; the first call begins that."""

    def optimal(self, page: Any, stored: CachedSnapshot) -> OptimalPlan | None:
        """Return the optimal plan.

        Args:
            page: The page.
            stored: The snapshot that is diagnosed.
        Returns:
            ``None`` while it is computed, and where there is none.
        """

    def links(self, page: Any) -> None:
        """Draw links to the pages that have the details."""
