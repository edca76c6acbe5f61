"""Next pages of a cause on a Pegasus cluster."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import streamlit as st

from core.pegasus.steps.level import LEVEL_KEY
from dashboard import state
from dashboard.app_pages.diagnose.system import DiagnoseSystem, NextPage

if TYPE_CHECKING:
    from core.diagnosis.model import Cause
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

    def links(self, page: PegasusPage) -> None:
        """Draw the link to the balance page."""
        del page
        st.button("Balance", type="tertiary", on_click=state.go, args=("pegasus_balance",))


PEGASUS: Final[DiagnoseSystem] = PegasusDiagnose()
