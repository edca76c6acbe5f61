"""The level of a Pegasus cluster as a five-step switch: what each allows, and setting another."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import streamlit as st

from core.pegasus.levels import FunctionLevel
from dashboard.components import tables, words
from dashboard.presenters import pegasus_cluster_level as presenter

if TYPE_CHECKING:
    from dashboard.components.frame import PegasusPage

WISH: Final = "level"
"""Query parameter: the level that is looked at, when it is not the stored one."""

_HELP: Final = "Nothing is set by choosing: it opens the preview."


def level_switch(page: PegasusPage) -> None:
    """Draw the switch, what every level allows, and the preview of the chosen one."""
    facts = page.facts
    words.section("Level", "How much the meta server does by itself.")
    wanted = _choose(page)
    left, right = st.columns([0.6, 0.4], gap="medium")
    with left:
        rows = presenter.allowances_frame(facts)
        tables.table(
            rows,
            {
                "allows": st.column_config.TextColumn("The meta server …", width=215),
                **{name: st.column_config.TextColumn(name) for name in rows.columns[1:]},
            },
            key="level_allowances",
            alt="What each level allows; stored and effective level are marked",
        )
    with right:
        if wanted is not None and wanted is not facts.stored_level:
            _preview(page, wanted)
        else:
            words.notes(presenter.level_remarks(facts))
            st.code("get_meta_level", language="bash")


def _choose(page: PegasusPage) -> FunctionLevel | None:
    """Draw the five steps; return the one that is looked at, ``None`` when nothing is."""
    stored = page.facts.stored_level
    named = st.query_params.get(WISH, "").upper()
    shown = FunctionLevel[named] if named in FunctionLevel.__members__ else stored
    # another stored level begins anew: what was chosen against the former one is no wish any more
    key = f"_level_at_{presenter.word_of(stored)}"
    chosen = st.segmented_control(
        "Level",
        list(FunctionLevel),
        format_func=lambda level: presenter.step_label(page.facts, level),
        default=shown,
        key=key,
        on_change=_keep_wish,
        args=(key, stored),
        help=_HELP,
        label_visibility="collapsed",
    )
    return FunctionLevel(chosen) if chosen is not None else None


def _keep_wish(key: str, stored: FunctionLevel | None) -> None:
    chosen = st.session_state.get(key)
    if chosen is None or chosen is stored:
        st.query_params.pop(WISH, None)
    else:
        st.query_params[WISH] = FunctionLevel(chosen).word


def _preview(page: PegasusPage, wanted: FunctionLevel) -> None:
    st.markdown(f"**Preview: set the level to `{wanted.word}`**")
    words.notes(presenter.change_sentences(page.facts, wanted))
    st.code(presenter.shell_line(wanted), language="bash")
    st.button(
        "Apply…",
        icon=":material/rocket_launch:",
        disabled=True,
        help="Not from here yet: the shell line does it.",
        key="_apply_level",
    )
