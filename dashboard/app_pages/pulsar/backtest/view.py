"""Widgets of the back-test page for Pulsar clusters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import streamlit as st

from core.errors import OpsError
from core.history.backtest.model import RECORDED
from core.pulsar.settings import EffectiveSettings
from core.snapshot import LoadManager
from dashboard import state
from dashboard.app_pages.backtest import form
from dashboard.app_pages.backtest.model import set_options
from dashboard.app_pages.backtest.system import BacktestPages, GridPreset, GridSystem
from dashboard.app_pages.pulsar.backtest import model
from dashboard.components import words
from dashboard.components.pulsar import setting_plan
from dashboard.presenters.pulsar.settings import typed

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pandas as pd

    from dashboard.components.pulsar.page import PulsarPage


def _settings(page: PulsarPage | None) -> EffectiveSettings:
    """Return the active settings; class defaults where no snapshot has them."""
    return EffectiveSettings.defaults() if page is None else page.reading.settings


def _manager(page: PulsarPage | None) -> LoadManager:
    """Return the brokers' load manager; modular where no snapshot has it."""
    return "modular" if page is None else page.reading.snapshot.manifest.load_manager


class PulsarBacktest:
    """Pulsar; see :class:`dashboard.app_pages.backtest.system.BacktestPages`."""

    grid: GridSystem = model.GRID
    values_label = "Settings"

    def subjects(self, page: PulsarPage | None) -> int:
        """Return the number of bundles of the cluster."""
        return 1_000 if page is None else int(page.reading.snapshot.bundles.num_rows)

    def presets(self, page: PulsarPage | None) -> Sequence[GridPreset]:
        """Return the grids that make sense with the brokers' load manager."""
        active = model.active_strategy(_settings(page))
        return model.presets(active, is_extensible=_manager(page) == "extensible")

    def suggestions(self, page: PulsarPage | None, key: str) -> tuple[str, ...]:
        """Return values of a setting worth trying, the active one among them."""
        return model.suggestions(key, _settings(page))

    def present(self, page: PulsarPage | None, key: str) -> str:
        """Return the active value of a setting."""
        return words.plain(str(_settings(page).value(key)))

    def strategies(self, page: PulsarPage | None) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Draw the choice of shedding and placement strategies."""
        settings = _settings(page)
        form.begin_with(form.SHEDDING, model.compared_by_default(_manager(page)))
        form.begin_with(form.PLACEMENT, [RECORDED])
        shedding = st.multiselect(
            "Shedding strategies",
            model.SHEDDINGS,
            key=form.SHEDDING,
            bind="query-params",
            format_func=lambda one: model.describe_strategy(str(one), settings, model.SHEDDING_KEY),
            help=model.SHEDDING_KEY,
        )
        placement = st.multiselect(
            "Placement strategies",
            model.PLACEMENTS,
            key=form.PLACEMENT,
            bind="query-params",
            format_func=lambda one: model.describe_strategy(
                str(one), settings, model.PLACEMENT_KEY
            ),
            help=model.PLACEMENT_KEY,
        )
        return tuple(shedding), tuple(placement)

    def draw_plan(self, page: PulsarPage, changes: pd.DataFrame, wanted: Mapping[str, Any]) -> None:
        """Draw the plan that sets the settings, and the link to try them under Settings."""
        with st.container(border=True):
            st.button(
                "Preview under Settings",
                icon=":material/settings:",
                type="tertiary",
                on_click=_open_settings,
                args=(page.name, set_options(changes)),
            )
            try:
                setting_plan.draw_plan(page, typed(wanted))
            except OpsError as error:
                words.failed(error, what="Could not create a plan")


def _open_settings(cluster: str, options: list[str]) -> None:
    state.go("settings", cluster=cluster, set=options)


PULSAR: Final[BacktestPages] = PulsarBacktest()
