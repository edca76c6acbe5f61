"""What a Pegasus cluster tells of itself, and the settings that decide repair and balance."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import streamlit as st

from core.errors import OpsError
from core.pegasus.settings import SERVER_SETTING_BY_NAME, SERVER_SETTINGS, checked_value
from dashboard.components import tables, words
from dashboard.presenters import pegasus_cluster_settings as presenter

if TYPE_CHECKING:
    from dashboard.components.frame import PegasusPage

_NAME: Final = "setting"
_NEW: Final = "_new_server_value"
_ROW_PX: Final = 46
"""Two lines of the meaning."""


def settings_list(page: PegasusPage) -> None:
    """Draw every setting with its value, origin, default and meaning."""
    words.section("Balance settings", presenter.settings_sentence(page.facts))
    rows = presenter.settings_frame(page.facts)
    st.dataframe(
        rows,
        hide_index=True,
        column_config={
            "key": tables.opener("Setting", "_server_setting", choose),
            "value": st.column_config.TextColumn("In force", width=95),
            "mark": st.column_config.TextColumn("State", width=80),
            "default": st.column_config.TextColumn("Default", width=75),
            "origin": st.column_config.TextColumn("Read from", width=120),
            "meaning": st.column_config.TextColumn("Meaning", width=640),
        },
        key="server_settings",
        alt="Settings of the meta server that decide repair and balance",
        height=tables.height_of(len(rows), _ROW_PX),
        row_height=_ROW_PX,
    )
    tables.downloads(rows, cluster=page.name, what="settings", moment=page.shelved.taken_at)


def choose(key: str) -> None:
    """Look at another setting; for callbacks."""
    st.session_state[_NAME] = next(one.name for one in SERVER_SETTINGS if one.key == key)
    st.session_state.pop(_NEW, None)


def one_setting(page: PegasusPage) -> None:
    """Draw the way to change a setting: its value, the line by hand, the preview."""
    words.section("Change a setting", "Nothing is set until a plan is applied.")
    with st.container(horizontal=True, vertical_alignment="bottom"):
        name = st.selectbox(
            "Setting",
            list(SERVER_SETTING_BY_NAME),
            key=_NAME,
            bind="query-params",
            format_func=lambda name: SERVER_SETTING_BY_NAME[name].key,
            width=330,
        )
        setting = SERVER_SETTING_BY_NAME[name or SERVER_SETTINGS[0].name]
        now = page.facts.snapshot.settings.get(setting.name)
        text = st.text_input(
            "New value",
            key=_NEW,
            placeholder=presenter.shown(now),
            disabled=not setting.is_mutable,
            width=220,
        )
    st.caption(words.plain(f"{setting.meaning} {setting.note}".strip()))
    if not setting.is_mutable:
        st.caption(":material/block: Fixed while the server runs: it stands in its configuration.")
        return
    if not (text or "").strip():
        return
    try:
        value = checked_value(setting, text or "")
    except OpsError as error:
        words.failed(error, what="This value cannot be set")
        return
    if value == now:
        st.caption(":material/check_circle: It has this value already.")
        return
    st.markdown(words.plain(f"{setting.key}: from {presenter.shown(now)} to {value}."))
    st.code(presenter.shell_line(setting, value), language="bash")


def cluster_info(page: PegasusPage) -> None:
    """Draw what ``cluster_info`` prints."""
    words.section("Cluster info", "As cluster_info prints it.")
    rows = presenter.info_table(page.facts)
    st.table(
        {key: words.plain(value) for key, value in rows.items()},
        border="horizontal",
        alt="Cluster information as the leading meta server told it",
    )
