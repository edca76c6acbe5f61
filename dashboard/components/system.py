"""Contract of a system with the parts that every page has: header, waiting, run controls."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import pandas as pd

    from core.actions.views import RunView
    from core.snapshot import Manifest
    from core.snapshot.store import CachedSnapshot
    from core.systems import KnownSystem
    from dashboard.components.page import AnyPage
    from dashboard.presenters.finding_counts import Counts
    from dashboard.presenters.findings import FindingLinks
    from dashboard.presenters.freshness import Badge
    from dashboard.presenters.search import Hit
    from dashboard.services import Config


@dataclass(frozen=True, slots=True, kw_only=True)
class StepsTable:
    """Column widths of the table of a run's steps, in pixels.

    Attributes:
        ends: Of the columns "From" and "To".
        asked: Of what was requested.
        order: Returns the columns to show, of the rows; ``None``: all, as they come.
    """

    ends: int
    asked: int
    order: Callable[[pd.DataFrame], Sequence[str]] | None = None


class PageSystem(Protocol):
    """One system, as header, frame and runs use it."""

    @property
    def system(self) -> KnownSystem:
        """The system itself: its name is the ``kind`` of its clusters in the configuration."""

    @property
    def page(self) -> type[AnyPage]:
        """The context of its pages, which can read its snapshots."""

    @property
    def example(self) -> str:
        """Lines of ``trimtab.toml`` that name a cluster."""

    @property
    def actions(self) -> Sequence[Hit]:
        """The actions on its clusters in the command palette."""

    @property
    def undo_page(self) -> str:
        """The page that shows the plan to undo a run."""

    @property
    def finding_links(self) -> FindingLinks:
        """The targets of its findings."""

    @property
    def steps_table(self) -> StepsTable:
        """The layout of the table of a run's steps."""

    def search(self, stored: CachedSnapshot, query: str) -> list[Hit]:
        """Return the objects of a snapshot that a query names.

        Raises:
            SnapshotError: It is damaged, or was dropped meanwhile.
        """

    def badges(self, manifest: Manifest, stored: CachedSnapshot) -> list[Badge]:
        """Return the coverage and the other badges of a snapshot."""

    def count_findings(self, config: Config, stored: CachedSnapshot) -> Counts:
        """Return the number of findings per page; it may take seconds.

        Raises:
            SnapshotError: It is damaged, or was dropped meanwhile.
        """

    def subject_page(self, view: RunView, subject: str) -> tuple[str, dict[str, str]] | None:
        """Return the page of a step's subject, with its parameters; ``None`` if there is none.

        Args:
            subject: As the table of steps shows it.
        """
