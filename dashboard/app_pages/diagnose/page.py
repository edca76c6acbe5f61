"""Diagnose: why the load is uneven or restless, and which change proves it."""

from __future__ import annotations

from typing import Any

import streamlit as st

from core.diagnosis.model import EVEN_RATIO, Diagnosis
from dashboard import state
from dashboard.app_pages.diagnose import model, over_time
from dashboard.app_pages.diagnose.charts import effect_bars
from dashboard.app_pages.diagnose.queries import diagnosed
from dashboard.app_pages.systems import DIAGNOSE
from dashboard.components import figures, frame, tables, words
from dashboard.components.page import ClusterPage
from dashboard.components.waiting import no_snapshot
from dashboard.legible import option

_LOOK_EVERY_S = 1.0
_AT_ONCE_S = 0.4
_FROZEN = "_diagnosed"

context = frame.open_fleet("Diagnose")
page = context.page
if page is None:
    no_snapshot(context.config, context.choice)
    st.stop()
system = DIAGNOSE[page.cluster.kind]
# a search takes longer than the next snapshot: the one that it began with stays until it is left
frozen = st.session_state.get(_FROZEN)
if frozen is None or frozen[0] != page.name or page.is_past:
    frozen = st.session_state[_FROZEN] = (page.name, page.stored)
key = (page.cluster.kind, frozen[1])


def again() -> None:
    """Diagnose the newest snapshot."""
    st.session_state.pop(_FROZEN, None)


@st.fragment(run_every=_LOOK_EVERY_S)
def wait_for_it() -> None:
    """Look until the diagnosis is there, then draw the page with it."""
    if diagnosed(key) is not None:
        st.rerun()
    st.caption(
        ":material/hourglass_top: Changes are being simulated on this snapshot; nothing is sent."
    )


def draw(page: ClusterPage[Any], diagnosis: Diagnosis) -> None:
    """Draw the causes, what each fix changes, and one of them in full."""
    words.answer(diagnosis.answer)
    with st.container(horizontal=True, vertical_alignment="center"):
        taken_at = key[1].taken_at.strftime("%H:%M:%S")
        st.caption(words.plain(f"{model.tried_words(diagnosis)} Snapshot of {taken_at} UTC."))
        if key[1].taken_at != page.stored.taken_at:
            st.button(
                "Diagnose again",
                icon=":material/refresh:",
                type="tertiary",
                help="On the newest snapshot.",
                on_click=again,
            )
    if not diagnosis.causes:
        system.links(page)
        return
    rows = model.rows_of(diagnosis)
    words.section("Causes", "Best first. Each fix is simulated until nothing moves any more.")
    tables.table(
        rows,
        {
            "cause": tables.words("Cause"),
            "objects": tables.words("Object"),
            "measured": tables.words("Measured"),
            "limit": tables.words("Limit"),
            "now": tables.percent("Now", "Max deviation from the mean, as it is."),
            "fixed": tables.percent("With the fix", "The same, simulated with the fix."),
            "moves": tables.whole("Moves", "With the fix."),
            "back": tables.whole("Back", "Moves to where a bundle or replica had been."),
            "converges": tables.words("At rest", "When nothing moves any more, with the fix."),
        },
        key="causes",
        alt="Causes of uneven load, with the effect of the fix of each",
        height=tables.height_of(len(rows)),
    )
    left, right = st.columns(2, gap="medium")
    with right:
        words.section("Effect", "Max deviation from the mean; the dotted line is the target.")
        figures.chart(
            effect_bars(diagnosis, EVEN_RATIO),
            key="cause_effects",
            alt="Deviation now and with the fix of each cause",
        )
    with left:
        draw_cause(page, diagnosis)


def draw_cause(page: ClusterPage[Any], diagnosis: Diagnosis) -> None:
    """Draw one cause in full, and what leads on from it."""
    names = [model.title_of(cause) for cause in diagnosis.causes]
    picked = 0
    if len(names) > 1:
        picked = names.index(
            st.segmented_control(
                "Cause",
                names,
                default=names[0],
                required=True,
                key=state.CAUSE,
                bind="query-params",
                format_func=option,
                label_visibility="collapsed",
            )
            or names[0]
        )
    cause = diagnosis.causes[picked]
    words.section(model.title_of(cause), cause.summary)
    st.markdown(words.plain(cause.hint))
    with st.container(horizontal=True):
        system.draw_actions(page, cause)
    lines = [*filter(None, [system.command(cause, page.name)]), *cause.fix.lines]
    if lines:
        st.code("\n".join(lines), language="bash", wrap_lines=True)
    if cause.fix.restart:
        st.caption("It is read when a server starts: restart them one by one.")


def draw_now(page: ClusterPage[Any]) -> None:
    """Draw the diagnosis of the newest snapshot."""
    found = diagnosed.wait(key, _AT_ONCE_S)
    if found is None:
        words.answer("Looking for causes.")
        wait_for_it()
    elif isinstance(found, str):
        words.answer("This snapshot cannot be diagnosed.")
        st.error(words.plain(found))
    else:
        draw(page, found)


now, past = st.tabs(
    ["Now", "Over time"], key=state.DIAGNOSED_TAB, on_change="rerun", bind="query-params"
)
if past.open:
    with past:
        over_time.draw(context, system)
else:
    with now:
        draw_now(page)
