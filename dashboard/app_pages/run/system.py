"""Contract of a system with the page of a run: predicted and measured results."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from core.actions.views import RunView
    from dashboard.presenters.figures import KeyFigure


class OutcomeSystem(Protocol):
    """One system, as the page of a run uses it."""

    def is_predicted(self, view: RunView) -> bool:
        """Return whether the plan of a run predicts anything that is measured afterwards."""

    def figures(self, view: RunView) -> list[KeyFigure]:
        """Return the predicted and the measured figures of the cluster."""

    def draw_links(self, view: RunView) -> None:
        """Draw the links to the effects of the run, if these go on after its end."""

    def draw_chart(self, view: RunView) -> None:
        """Draw each touched server before, as predicted and as measured."""

    def draw_table(self, view: RunView) -> None:
        """Draw the numbers of the chart."""
