"""The settings of a Pegasus cluster that decide repair and balance, and changing one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import streamlit as st

from core.errors import InputError, UnknownNameError
from core.pegasus.plan.preview import preview_pegasus
from core.pegasus.steps.level import LEVEL_KEY
from core.plan.model import Plan
from dashboard import state
from dashboard.app_pages.pegasus.cluster import model
from dashboard.components import frame, tables, words
from dashboard.components.pegasus import plan as pegasus_plan
from dashboard.presenters.pegasus import plan as presenter
from dashboard.queries.pegasus.plans import ServerSettingRequest, server_setting_plan_of

if TYPE_CHECKING:
    from dashboard.components.pegasus.page import PegasusPage

_NEW: Final = "_new_server_value"
_MOST_PX: Final = 330


def draw(page: PegasusPage, *, may_plan: bool) -> None:
    """Draw every setting, the form to change one, and the output of ``cluster_info``.

    Args:
        may_plan: The page has no other plan.
    """
    left, right = frame.columns([0.62, 0.38], key="server_settings")
    with left:
        _list(page)
    with right:
        _change(page, may_plan=may_plan)
    _cluster_info(page)


def _list(page: PegasusPage) -> None:
    """Draw every setting with its value, state, default and origin."""
    rows = model.settings_frame(page.facts)
    tables.table(
        rows,
        {
            "key": tables.opener("Setting", "_server_setting", choose, width_px=290),
            "value": st.column_config.TextColumn("Effective", width=90),
            "mark": st.column_config.TextColumn("State", width=80),
            "default": st.column_config.TextColumn("Default", width=70),
            "origin": st.column_config.TextColumn("Read from", width=116),
        },
        key="server_settings",
        alt="Server settings for repair and balance",
        height=min(_MOST_PX, tables.height_of(len(rows))),
    )
    tables.downloads(rows, cluster=page.name, what="settings", moment=page.stored.taken_at)


def choose(key: str) -> None:
    """Look at another setting; for callbacks."""
    st.session_state[state.SETTING] = key
    st.session_state.pop(_NEW, None)


def _forget_value() -> None:
    st.session_state.pop(_NEW, None)


def _change(page: PegasusPage, *, may_plan: bool) -> None:
    """Draw the way to change a setting: its value, its meaning, the plan."""
    with st.container(horizontal=True, vertical_alignment="bottom"):
        key = st.selectbox(
            "Setting",
            list(model.SETTING_BY_KEY),
            key=state.SETTING,
            bind="query-params",
            on_change=_forget_value,
            width=280,
        )
        setting = model.SETTING_BY_KEY[key or next(iter(model.SETTING_BY_KEY))]
        now = model.values_of(page.facts)[setting.key]
        text = st.text_input(
            "New value",
            key=_NEW,
            placeholder=f"now {model.shown(now)}",
            disabled=not setting.is_mutable,
            width=150,
        )
    st.caption(words.plain(f"{setting.meaning} {setting.note}".strip()))
    if not setting.is_mutable:
        st.caption(":material/block: Configuration file only; requires a restart.")
        return
    value = (text or "").strip()
    if not value:
        return
    if not may_plan:
        st.caption(":material/block: Only one plan at a time. Reset the level selection first.")
        return
    _plan(page, setting.key, value)


def _plan(page: PegasusPage, key: str, value: str) -> None:
    request = ServerSettingRequest(stored=page.stored, key=key, value=value)
    try:
        made = server_setting_plan_of(request)
    except (InputError, UnknownNameError) as error:
        words.failed(error, what="Invalid value")
        return
    plan = pegasus_plan.in_dialog(made)
    if not _is_of_settings(plan):
        plan = made
    preview = preview_pegasus(page.snapshot, plan)
    st.markdown(words.plain(presenter.answer(plan, preview)))
    pegasus_plan.draw_remarks(plan)
    pegasus_plan.draw_bar(page, plan, preview, key="server_setting", label="Set value…")


def _is_of_settings(plan: Plan) -> bool:
    return all(step.setting is not None and step.subject != LEVEL_KEY for step in plan.steps)


def _cluster_info(page: PegasusPage) -> None:
    """Draw the output of ``cluster_info``."""
    with st.expander("Cluster info", icon=":material/info:"):
        rows = model.info_table(page.facts)
        st.table(
            {key: words.plain(value) for key, value in rows.items()},
            border="horizontal",
            alt="Cluster information from the leader meta server",
        )
        st.code("nodes -d -u -q\nserver_stat\ncluster_info", language="bash")
