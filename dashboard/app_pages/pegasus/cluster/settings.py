"""What a Pegasus cluster tells of itself, and the settings that decide repair and balance."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import streamlit as st

from core.errors import InputError, UnknownNameError
from core.pegasus.steps.level import LEVEL_KEY
from core.plan.model import Plan
from dashboard import state
from dashboard.app_pages.pegasus.cluster import model
from dashboard.components import tables, words
from dashboard.components.pegasus import plan as pegasus_plan
from dashboard.queries.pegasus.plans import ServerSettingRequest, server_setting_plan_of

if TYPE_CHECKING:
    from dashboard.components.pegasus.page import PegasusPage

_NEW: Final = "_new_server_value"
_ROW_PX: Final = tables.WRAPPED_PX


def settings_list(page: PegasusPage) -> None:
    """Draw every setting with its value, origin, default and meaning."""
    words.section("Balance settings", model.settings_sentence(page.facts))
    rows = model.settings_frame(page.facts)
    tables.grid(
        rows,
        hide_index=True,
        column_config={
            "key": tables.opener("Setting", "_server_setting", choose, width_px=280),
            "value": st.column_config.TextColumn("Effective", width=95),
            "mark": st.column_config.TextColumn("State", width=80),
            "default": st.column_config.TextColumn("Default", width=75),
            "origin": st.column_config.TextColumn("Read from", width=120),
            "meaning": st.column_config.TextColumn("Meaning", width=410),
        },
        key="server_settings",
        alt="Settings of the servers that decide repair and balance",
        height=tables.height_of(len(rows), _ROW_PX),
        row_height=_ROW_PX,
    )
    tables.downloads(rows, cluster=page.name, what="settings", moment=page.stored.taken_at)


def choose(key: str) -> None:
    """Look at another setting; for callbacks."""
    st.session_state[state.SETTING] = key
    st.session_state.pop(_NEW, None)


def _forget_value() -> None:
    st.session_state.pop(_NEW, None)


def one_setting(page: PegasusPage, *, may_plan: bool) -> None:
    """Draw the way to change a setting: its value, what it means, the plan.

    Args:
        page: The page.
        may_plan: No other plan stands on the page.
    """
    words.section("Change a setting", "Nothing is set until a plan is applied.")
    with st.container(horizontal=True, vertical_alignment="bottom"):
        key = st.selectbox(
            "Setting",
            list(model.SETTING_BY_KEY),
            key=state.SETTING,
            bind="query-params",
            on_change=_forget_value,
            width=330,
        )
        setting = model.SETTING_BY_KEY[key or next(iter(model.SETTING_BY_KEY))]
        now = model.values_of(page.facts)[setting.key]
        text = st.text_input(
            "New value",
            key=_NEW,
            placeholder=f"now {model.shown(now)}",
            disabled=not setting.is_mutable,
            width=220,
        )
    st.caption(words.plain(f"{setting.meaning} {setting.note}".strip()))
    if not setting.is_mutable:
        st.caption(":material/block: Fixed while the server runs: it is in its configuration file.")
        return
    value = (text or "").strip()
    if not value:
        return
    if not may_plan:
        st.caption(
            ":material/block: One plan at a time: the level above is being previewed. Choose the "
            "stored level there first."
        )
        return
    _plan(page, setting.key, value)


def _plan(page: PegasusPage, key: str, value: str) -> None:
    request = ServerSettingRequest(stored=page.stored, key=key, value=value)
    try:
        made = server_setting_plan_of(request)
    except (InputError, UnknownNameError) as error:
        words.failed(error, what="This value cannot be set")
        return
    plan = pegasus_plan.in_dialog(made)
    if not _is_of_settings(plan):
        plan = made
    with st.container(border=True):
        pegasus_plan.draw_plan(page, plan)


def _is_of_settings(plan: Plan) -> bool:
    return all(step.setting is not None and step.subject != LEVEL_KEY for step in plan.steps)


def cluster_info(page: PegasusPage) -> None:
    """Draw what ``cluster_info`` prints."""
    words.section("Cluster info", "As cluster_info prints it.")
    rows = model.info_table(page.facts)
    st.table(
        {key: words.plain(value) for key, value in rows.items()},
        border="horizontal",
        alt="Cluster information of the leading meta server",
    )
