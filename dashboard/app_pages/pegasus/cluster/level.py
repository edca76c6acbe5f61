"""The level of a Pegasus cluster as a five-step switch: what each allows, and setting another."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import streamlit as st

from core.pegasus.levels import FunctionLevel
from core.pegasus.steps.level import LEVEL_KEY
from dashboard import state
from dashboard.app_pages.pegasus.cluster import model
from dashboard.components import tables, words
from dashboard.components.pegasus import plan as pegasus_plan
from dashboard.components.pegasus.past import level_past
from dashboard.queries.pegasus.plans import LevelRequest, level_plan_of

if TYPE_CHECKING:
    from dashboard.components.pegasus.page import PegasusPage

WISH: Final = "level"
"""Query parameter: the level that is looked at, when it is not the stored one."""

_AGAIN: Final = "_level_again"


def level_switch(page: PegasusPage) -> bool:
    """Draw the switch, the preview of the chosen level, and what every level allows.

    Returns:
        Whether a level is previewed: then its plan is the one that the page can apply.
    """
    facts = page.facts
    words.section(
        "Level", "How much the meta server does by itself. Choosing another opens its preview."
    )
    wanted = _choose(page)
    is_again = bool(st.session_state.get(_AGAIN)) and wanted is facts.stored_level
    is_previewed = wanted is not None and (wanted is not facts.stored_level or is_again)
    if wanted is not None and is_previewed:
        _preview(page, wanted)
    rows = model.allowances_frame(facts)
    tables.table(
        rows,
        {
            "allows": st.column_config.TextColumn("The meta server …", width=215),
            **{name: st.column_config.TextColumn(name) for name in rows.columns[1:]},
        },
        key="level_allowances",
        alt="What each level allows; stored and effective level are marked",
    )
    words.notes(model.level_remarks(facts))
    level_past(page)
    if wanted is not None and not is_previewed and model.may_clear(wanted):
        st.button(
            f"Set {wanted.word} again…",
            icon=":material/clear_all:",
            type="tertiary",
            help="Discards every pending proposal: stops a running round.",
            on_click=_ask_again,
            key="_set_again",
        )
    return is_previewed


def _ask_again() -> None:
    st.session_state[_AGAIN] = True


def _choose(page: PegasusPage) -> FunctionLevel | None:
    """Draw the five steps; return the one that is looked at, ``None`` when nothing is."""
    stored = page.facts.stored_level
    known = [level.word for level in FunctionLevel]
    unknown = state.unknown_in_address(WISH, [*known, *(one.upper() for one in known)])
    words.tell_unknown("level", unknown, known)
    named = st.query_params.get(WISH, "").upper()
    shown = FunctionLevel[named] if named in FunctionLevel.__members__ else stored
    # another stored level: what was chosen against the former one does not count any more
    key = f"_level_at_{model.word_of(stored)}"
    chosen = st.segmented_control(
        "Level",
        list(FunctionLevel),
        format_func=lambda level: model.step_label(page.facts, level),
        default=shown,
        key=key,
        on_change=_keep_wish,
        args=(key, stored),
        label_visibility="collapsed",
    )
    return FunctionLevel(chosen) if chosen is not None else None


def _keep_wish(key: str, stored: FunctionLevel | None) -> None:
    chosen = st.session_state.get(key)
    st.session_state.pop(_AGAIN, None)
    if chosen is None or chosen is stored:
        st.query_params.pop(WISH, None)
    else:
        st.query_params[WISH] = FunctionLevel(chosen).word


def _preview(page: PegasusPage, wanted: FunctionLevel) -> None:
    request = LevelRequest(stored=page.stored, level=wanted.word)
    made = level_plan_of(request)
    plan = pegasus_plan.in_dialog(made)
    if not all(step.subject == LEVEL_KEY for step in plan.steps):
        plan = made
    with st.container(border=True):
        words.section(f"Preview: set the level to {wanted.word}")
        words.notes(model.change_sentences(page.facts, wanted))
        st.code(model.shell_line(wanted), language="bash")
        pegasus_plan.draw_plan(page, plan)
