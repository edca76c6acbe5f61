"""Next pages of a cause on a Pegasus cluster."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import streamlit as st

from core.errors import OpsError
from core.pegasus.even.planner import EvenPlan
from core.pegasus.even.request import EvenRequest
from core.pegasus.steps.level import LEVEL_KEY
from dashboard import state
from dashboard.app_pages.diagnose.system import DiagnoseSystem, NextPage, OptimalPlan
from dashboard.queries.pegasus import balance

if TYPE_CHECKING:
    from core.diagnosis.model import Cause
    from core.snapshot.store import CachedSnapshot
    from dashboard.components.pegasus.page import PegasusPage


class PegasusDiagnose:
    """Pegasus; see :class:`dashboard.app_pages.diagnose.system.DiagnoseSystem`."""

    subject = "Partition"

    def next_pages(self, page: PegasusPage, cause: Cause) -> Sequence[NextPage]:
        """Return the page on which the fix is made."""
        del page
        if LEVEL_KEY not in cause.fix.wanted:
            return ()
        return (
            NextPage(
                label="Set level", page="pegasus_balance", params={}, icon=":material/balance:"
            ),
        )

    def is_planning(self, page: PegasusPage, stored: CachedSnapshot) -> bool:
        """Return whether the optimal plan is being computed."""
        return _planned(page, stored) is None

    def optimal(self, page: PegasusPage, stored: CachedSnapshot) -> OptimalPlan | None:
        """Return the plan with which primaries are even."""
        found = _planned(page, stored)
        if not isinstance(found, EvenPlan) or not found.steps:
            return None
        return OptimalPlan(
            moves=len(found.steps),
            deviation=found.deviation_after,
            next_page=NextPage(
                label="Preview optimal plan",
                page="pegasus_balance",
                params={},
                icon=":material/balance:",
                help="Open Replica balance with this plan.",
            ),
        )

    def links(self, page: PegasusPage) -> None:
        """Draw the link to the balance page."""
        del page
        st.button("Balance", type="tertiary", on_click=state.go, args=("pegasus_balance",))


def _planned(page: PegasusPage, stored: CachedSnapshot) -> EvenPlan | str | None:
    """Return the optimal plan of Replica balance, its error, or ``None`` if not there yet."""
    del page
    request = EvenRequest(measure=balance.MEASURE_OF["primaries"])
    try:
        return balance.even_in_background(balance.EvenRun(stored=stored, request=request))
    except OpsError as error:
        return str(error)


PEGASUS: Final[DiagnoseSystem] = PegasusDiagnose()
