"""The box of requested settings, ``KEY=VALUE``, in which every setting can be found."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import streamlit as st

from core.pulsar.settings import SETTING_BY_KEY
from dashboard import state
from dashboard.legible import option

_HELD: Final = "_changes_held"
"""In the session: the entries of the box when it was last drawn."""


def draw(
    *,
    label: str,
    help_text: str,
    on_pick: Callable[[str], None],
    is_bare: bool,
    on_change: Callable[[str], None] | None = None,
) -> list[str]:
    """Draw the box; return the requested changes, each ``KEY=VALUE``.

    The list holds every setting, found by any part of its name, meaning or effect. One that is
    picked has no value yet: it leaves the box again, and ``on_pick`` asks for its value.

    Args:
        label: Of the box.
        help_text: How a value is written.
        on_pick: Called with the key of the setting that was picked.
        is_bare: The label is not shown.
        on_change: Called with the key of the setting whose change was typed.
    """
    named = st.query_params.get_all(state.SET) or st.session_state.get(state.SET) or []
    # the browser writes what was picked into the address before it is taken out again
    requested = [entry for entry in named if entry.partition(":")[0] not in SETTING_BY_KEY]
    requests = st.multiselect(
        label,
        list(dict.fromkeys([*requested, *SETTING_BY_KEY])),
        format_func=describe,
        key=state.SET,
        bind="query-params",
        accept_new_options=True,
        filter_mode="contains",
        select_all=False,
        placeholder="Add a change: setting, or KEY=VALUE",
        help=help_text,
        label_visibility="collapsed" if is_bare else "visible",
        on_change=_take_out,
        args=(on_pick, on_change),
    )
    st.session_state[_HELD] = requests
    return requests


def describe(entry: str) -> str:
    """Return the description of an entry of the list: of a setting its key, meaning and effect."""
    setting = SETTING_BY_KEY.get(entry)
    if setting is None:
        return option(entry)
    return f"{setting.key}: {setting.meaning} {setting.effect}".strip()


def newest(entries: Sequence[str]) -> list[str]:
    """Return the last entry of each setting, the newest last."""
    last: dict[str, str] = {}
    for entry in entries:
        key = entry.partition("=")[0].strip()
        last.pop(key, None)
        last[key] = entry
    return list(last.values())


def _take_out(on_pick: Callable[[str], None], on_change: Callable[[str], None] | None) -> None:
    """Take the settings without a value and replaced values out of the box; open the last one."""
    entries = st.session_state[state.SET]
    picked = [entry for entry in entries if entry in SETTING_BY_KEY]
    st.session_state[state.SET] = newest([entry for entry in entries if entry not in picked])
    held = st.session_state.get(_HELD, ())
    typed = [entry.partition("=")[0].strip() for entry in entries if entry not in held]
    known = [key for key in typed if key in SETTING_BY_KEY]
    if picked:
        on_pick(picked[-1])
    elif known and on_change is not None:
        on_change(known[-1])
