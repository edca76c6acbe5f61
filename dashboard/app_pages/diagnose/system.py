"""What a system declares to the Diagnose page."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from core.diagnosis.model import Cause


class DiagnoseSystem(Protocol):
    """One system, as the Diagnose page uses it."""

    @property
    def subject(self) -> str:
        """What moves, as a label."""

    def draw_actions(self, page: Any, cause: Cause) -> None:
        """Draw the buttons that lead on from a cause: to try its fix, to plan it."""

    def command(self, cause: Cause, cluster: str) -> str:
        """Return the command line that makes a plan of a fix; empty: there is none."""

    def links(self, page: Any) -> None:
        """Draw links to the pages that have the details."""
