"""The tab Now: what each fix achieves, the causes, and the selected one with its actions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import streamlit as st

from core.diagnosis.request import DEFAULT_SECONDS
from core.findings.finding import FREE
from dashboard import state
from dashboard.app_pages.diagnose import model
from dashboard.app_pages.diagnose.queries import diagnosed, search, to_diagnose
from dashboard.charts.dumbbell import deviation_dumbbells
from dashboard.components import figures, frame, jobs, tables, words
from dashboard.components.waiting import until

if TYPE_CHECKING:
    from core.diagnosis.model import Cause, Diagnosis
    from core.operations.diagnose import ClusterDiagnosis
    from core.snapshot.store import CachedSnapshot
    from dashboard.app_pages.diagnose.system import DiagnoseSystem, NextPage, OptimalPlan
    from dashboard.components.page import AnyPage

_LOOK_EVERY_S: Final = 0.5
_JOB_S: Final = 600.0
_AT_ONCE_S: Final = 0.15
_FROZEN: Final = "_diagnosed"
_TABLE: Final = "causes"

Key = tuple[str, "CachedSnapshot"]


def draw_now(page: AnyPage, system: DiagnoseSystem) -> None:
    """Draw the diagnosis of a snapshot, or how far the search for causes is.

    A search takes longer than the next snapshot: the one that it began with stays until it is
    left.
    """
    kind, frozen = page.cluster.kind, st.session_state.get(_FROZEN)
    if page.is_past:
        frozen = (page.name, page.stored)
    elif frozen is None or frozen[0] != page.name:
        frozen = st.session_state[_FROZEN] = (page.name, to_diagnose(page.stored))
    key = (kind, frozen[1])
    words.title("Diagnose", f"{page.name} · snapshot of {key[1].taken_at:%Y-%m-%d %H:%M:%S} UTC")
    system.is_planning(page, key[1])  # computed meanwhile
    found = diagnosed.wait(key, _AT_ONCE_S)
    if found is None:
        words.answer("Searching for causes. No requests are sent to the cluster.")
        _wait_for(key)
    elif isinstance(found, str):
        words.answer("Could not diagnose this snapshot.")
        st.error(words.plain(found))
    else:
        _draw(page, system, key, found)


@st.fragment(run_every=_LOOK_EVERY_S)
def _wait_for(key: Key) -> None:
    """Render the progress of the search; rerun the page when the search is done."""
    if diagnosed(key) is not None:
        st.rerun()
    tried = search.of(key)
    share = 0.0 if tried is None else min(1.0, tried.elapsed_s / DEFAULT_SECONDS)
    st.progress(share, text=f":material/hourglass_top: {model.progress_words(tried)}")


def _again(page: AnyPage) -> None:
    st.session_state[_FROZEN] = (page.name, page.stored)


def _draw(page: AnyPage, system: DiagnoseSystem, key: Key, answer: ClusterDiagnosis) -> None:
    diagnosis = answer.diagnosis
    optimal = system.optimal(page, key[1]) if diagnosis.problem else None
    figures.key_figures(model.key_figures(diagnosis, answer.deviation, optimal), key="diagnose")
    verdict = diagnosis.verdict
    if verdict is not None and diagnosis.is_clear and diagnosis.is_complete:
        words.answer(verdict.headline)
        st.caption(words.plain(verdict.scope))
    else:
        words.answer(diagnosis.answer)
    _draw_best(page, system, key, diagnosis, optimal)
    # without a cause, what was promising and what the time did not allow is the answer
    notes = diagnosis.notes[:1] if diagnosis.causes else diagnosis.notes
    if not diagnosis.causes:
        if notes:
            st.caption(words.plain(" ".join(notes)))
        _actions(page, system, key, diagnosis)
        return
    words.section("Causes")
    _table(diagnosis)
    left, right = frame.columns([0.6, 0.4], key="causes")
    with left:
        pairs = model.effects_of(diagnosis)
        if pairs is not None:
            words.section("Max deviation with each fix", " ".join(notes).rstrip("."))
            figures.chart(
                deviation_dumbbells(pairs, diagnosis.target_ratio),
                key="diagnose_effects",
                alt="Max deviation from the mean, now and with each fix, and the target band",
            )
        _actions(page, system, key, diagnosis)
    with right, st.container(border=True, key="cause_panel"):
        _panel(page, system, answer, _opened(diagnosis))


def _draw_best(
    page: AnyPage,
    system: DiagnoseSystem,
    key: Key,
    diagnosis: Diagnosis,
    optimal: OptimalPlan | None,
) -> None:
    """Draw the way to the preview of what helps most, and to that of the other remedy."""
    if not diagnosis.problem:
        return
    fix, target = diagnosis.best, diagnosis.target_ratio
    best: list[tuple[tuple[float, int], NextPage]] = []
    if fix is not None and fix.effect is not None:
        pages = [
            replace(one, label="Preview best fix") if one.page == "rebalance" else one
            for one in system.next_pages(page, fix)[:1]
        ]
        after = fix.effect.after
        best = [(model.remedy_rank(after.deviation, after.moves, target), one) for one in pages]
    if optimal is not None:
        rank = model.remedy_rank(optimal.deviation, optimal.moves, target)
        best.append((rank, optimal.next_page))
    with st.container(horizontal=True, gap="small"):
        for at, (_, one) in enumerate(sorted(best, key=lambda pair: pair[0])):
            st.button(
                "Preview best fix"
                if optimal is None or one is not optimal.next_page
                else one.label,
                icon=one.icon,
                type="secondary" if at else "primary",
                key=f"_best_go_{at}",
                help=one.help or None,
                on_click=_go,
                args=(one,),
            )
    if optimal is None and system.is_planning(page, key[1]):
        until(lambda: not system.is_planning(page, key[1]), "Computing the optimal plan.")


def _actions(page: AnyPage, system: DiagnoseSystem, key: Key, diagnosis: Diagnosis) -> None:
    """Draw the buttons that continue or repeat the search, and links to other pages."""
    with st.container(horizontal=True, vertical_alignment="center"):
        if not diagnosis.is_complete:
            st.button(
                "Search all causes",
                icon=":material/manage_search:",
                help=f"{diagnosis.progress[:1].upper()}{diagnosis.progress[1:]}. Starts a "
                f"background job, "
                f"up to {_JOB_S / 60:.0f} min.",
                on_click=jobs.start,
                args=(
                    page.config,
                    "diagnose",
                    {"clusters": [page.name], "seconds": _JOB_S},
                    "jobs",
                ),
                key="_search_on",
            )
        if key[1].taken_at != page.stored.taken_at:
            st.button(
                "Diagnose newest snapshot",
                icon=":material/refresh:",
                type="tertiary",
                help="A new search. Until then the causes are those of the snapshot above.",
                on_click=_again,
                args=(page,),
            )
        st.space("stretch")
        system.links(page)
    if not diagnosis.is_complete:
        jobs.draw_refusal()


def _opened(diagnosis: Diagnosis) -> Cause:
    """Return the cause that the address names; else the one whose fix gains most.

    What costs clients something comes before what is uneven.
    """
    named = st.query_params.get(state.CAUSE, "")
    first = diagnosis.causes[0]
    best = first if first.severity == "error" or first.cost != FREE else diagnosis.best or first
    return next((one for one in diagnosis.causes if model.title_of(one) == named), best)


def _table(diagnosis: Diagnosis) -> None:
    causes = diagnosis.by_effect
    rows = model.rows_of(diagnosis)

    def select() -> None:
        picked = st.session_state[_TABLE].selection.rows
        if picked:
            st.query_params[state.CAUSE] = model.title_of(causes[picked[0]])
        else:
            st.query_params.pop(state.CAUSE, None)

    columns = {
        "cause": tables.words("Cause"),
        "objects": tables.words("Object", "Setting, broker, policy or node."),
        "change": st.column_config.TextColumn(
            "Change", help="Value now → with the fix.", alignment="right", width=92
        ),
        "affected": tables.words("Affected", "Affected clients or data."),
        "fixed": tables.percent("With the fix", "Max deviation from the mean, simulated."),
        "moves": tables.whole("Moves", "Moves with the fix."),
        "back": tables.whole("Returned", "Moves back to a previous broker or node."),
        "kind": tables.words("Kind", "Proven: the simulated fix improves it.", width_px=84),
    }
    tables.grid(
        rows,
        hide_index=True,
        column_order=_shown(diagnosis, list(columns)),
        column_config=columns,
        key=_TABLE,
        alt="Causes by priority with the simulated effect of each fix",
        height=tables.height_of(len(rows)),
        row_height=tables.ROW_PX,
        placeholder=model.UNKNOWN,
        on_select=select,
        selection_mode="single-row",
    )


def _shown(diagnosis: Diagnosis, columns: Sequence[str]) -> list[str]:
    """Return the columns that any of the causes fills."""
    hidden: set[str] = set()
    if all(cause.effect is None for cause in diagnosis.causes):
        hidden |= set(model.EFFECT)
    if not any(model.affected_words(cause) for cause in diagnosis.causes):
        hidden.add("affected")
    if not any(model.change_words(cause) for cause in diagnosis.causes):
        hidden.add("change")
    return [column for column in columns if column not in hidden]


def _panel(page: AnyPage, system: DiagnoseSystem, answer: ClusterDiagnosis, cause: Cause) -> None:
    """Show one cause in full: the evidence, the fix, and its commands."""
    st.markdown(f"**{words.plain(model.title_of(cause))}**")
    st.markdown(words.plain(cause.summary))
    facts = model.facts_of(cause)
    if facts:
        words.notes(facts)
    if not model.changes_of(cause):  # they are what to do
        st.markdown(f"**Next:** {words.plain(cause.hint)}")
    with st.container(horizontal=True, gap="small"):
        for at, one in enumerate(system.next_pages(page, cause)):
            st.button(
                one.label,
                icon=one.icon,
                key=f"_cause_go_{at}",
                help=one.help or None,
                on_click=_go,
                args=(one,),
            )
    lines = [*filter(None, [answer.command(cause.fix)]), *cause.fix.lines]
    if lines:
        st.code("\n".join(lines), language="bash", wrap_lines=True)
    if cause.fix.restart:
        st.caption("Takes effect after a restart: restart the servers one by one.")


def _go(next_page: NextPage) -> None:
    state.go(next_page.page, **dict(next_page.params))
