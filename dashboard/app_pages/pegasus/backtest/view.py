"""Widgets of the back-test page for Pegasus clusters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import streamlit as st

from core.errors import InputError, UnknownNameError
from core.history.backtest.pegasus.rules import LEVEL
from dashboard import state
from dashboard.app_pages.backtest import form
from dashboard.app_pages.backtest.system import BacktestPages, GridPreset, GridSystem
from dashboard.app_pages.pegasus.backtest import model
from dashboard.components import words
from dashboard.components.pegasus import plan
from dashboard.queries.pegasus.plans import ServerSettingRequest, server_setting_plan_of
from dashboard.services import config_option

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pandas as pd

    from dashboard.components.pegasus.page import PegasusPage


class PegasusBacktest:
    """Pegasus; see :class:`dashboard.app_pages.backtest.system.BacktestPages`."""

    grid: GridSystem = model.GRID
    values_label = "Switches"

    def subjects(self, page: PegasusPage | None) -> int:
        """Return the number of partitions of the cluster."""
        return 1_000 if page is None else int(page.snapshot.tables["partitions"].num_rows)

    def presets(self, page: PegasusPage | None) -> Sequence[GridPreset]:
        """Return the grids that make sense on every cluster."""
        del page  # they depend on nothing
        return model.PRESETS

    def suggestions(self, page: PegasusPage | None, key: str) -> tuple[str, ...]:
        """Return values of a switch worth trying."""
        del page  # from the default
        return model.suggestions(key)

    def present(self, page: PegasusPage | None, key: str) -> str:
        """Return nothing: servers may differ."""
        del page, key
        return ""

    def strategies(self, page: PegasusPage | None) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Draw the choice of policies."""
        del page  # all can be tried on every cluster
        form.begin_with(form.SHEDDING, model.POLICIES)
        policies = st.multiselect(
            "Policies", model.POLICIES, key=form.SHEDDING, bind="query-params"
        )
        return tuple(policies), ()

    def draw_plan(
        self, page: PegasusPage, changes: pd.DataFrame, wanted: Mapping[str, Any]
    ) -> None:
        """Draw the plan of one switch: each is set by a plan of its own."""
        del changes  # what a plan can change is enough
        keys = list(wanted)
        key = str(st.selectbox("One switch per plan", keys, key="_planned_switch") or keys[0])
        if key == LEVEL:
            st.caption("Change the level on the Cluster page.")
            st.button("Open Cluster", on_click=state.go, args=("pegasus",))
            return
        request = ServerSettingRequest(
            stored=page.stored, key=key, value=model.upstream_text(wanted[key])
        )
        try:
            made = server_setting_plan_of(request)
        except (InputError, UnknownNameError) as error:
            words.failed(error, what="Invalid value")
            return
        with st.container(border=True):
            plan.draw_plan(
                page,
                plan.in_dialog(made),
                key="backtest",
                command=f"trimtab pegasus set {page.name} {key} {request.value}"
                f"{config_option(page.config)}",
            )


PEGASUS: Final[BacktestPages] = PegasusBacktest()
