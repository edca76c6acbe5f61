"""Widgets of the fleet overview: figures, findings, and what moved."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Final

import streamlit as st

from core.findings.finding import Finding, findings_sentence
from dashboard import state
from dashboard.components import tables, words
from dashboard.presenters.moves import moves_frame

if TYPE_CHECKING:
    from collections.abc import Callable

    from dashboard.app_pages.fleet.system import FleetSystem
    from dashboard.presenters.moves import Move


# -- what the systems share ------------------------------------------------------------------------

HOUR: Final = timedelta(hours=1)
_MOVES_SHOWN: Final = 200
READ_ONLY_HELP: Final = (
    "Configured clusters are read-only unless trimtab.toml says `read_only = false` for them."
)


def open_cluster(page: str, name: str) -> None:
    """Open a page of a cluster."""
    st.session_state[state.CLUSTER] = name
    state.go(page, cluster=name)


def moves_table(moves: Sequence[Move], what: str, open_row: Callable[[str], None]) -> None:
    """Show what moved, newest last.

    Args:
        moves: Oldest first.
        what: What one of them is called, capitalised.
        open_row: Opens the page of one.
    """
    if not moves:
        return
    shown = moves[-_MOVES_SHOWN:]
    tables.table(
        moves_frame(shown),
        {
            "bundle": tables.opener(what, "_moved", open_row),
            "from": tables.words("From"),
            "to": tables.words("To"),
            "mark": tables.words("Mark"),
            "seen_at": st.column_config.DatetimeColumn("Seen (UTC)", format="HH:mm:ss"),
        },
        key="fleet_moves",
        alt=f"{what}s that moved in the last hour",
        height=min(430, tables.height_of(len(shown))),
    )


def figures(found: Sequence[tuple[str, str, str]]) -> None:
    """Show the figures of the chosen cluster in a row."""
    with st.container(horizontal=True, gap="small"):
        for label, value, text in found:
            st.metric(label, value, help=words.plain(text), border=True, width="content")


# -- findings --------------------------------------------------------------------------------------

_ICONS: Final = {
    "error": ":red[:material/error:]",
    "warning": ":orange[:material/warning:]",
    "unknown": ":gray[:material/help:]",
    "info": ":gray[:material/info:]",
}


def finding_list(
    findings: Sequence[Finding], system: FleetSystem, *, key: str, limit: int = 12
) -> None:
    """Show findings; those beyond ``limit`` are shown on request."""
    if not findings:
        st.caption(":material/check_circle: Nothing to report, and nothing is unknown.")
        return
    shown = list(findings)
    if len(findings) > limit:
        text = findings_sentence(tuple(findings))
        if not st.toggle(f"Show all {len(findings)} ({text})", key=f"_{key}_all"):
            shown = shown[:limit]
    for number, finding in enumerate(shown):
        _one(finding, system, key=f"_{key}_{number}")


def _one(finding: Finding, system: FleetSystem, *, key: str) -> None:
    with st.container(horizontal=True, vertical_alignment="center", gap="small", wrap=False):
        text = f"{_ICONS[finding.severity]} {words.plain(finding.sentence)}"
        if finding.hint:
            text += f" :gray[{words.plain(finding.hint)}]"
        st.markdown(text)
        page, parameter = system.subject_pages.get(finding.subject_kind, ("", ""))
        if page and finding.subject:
            st.button(
                "Open",
                key=key,
                type="tertiary",
                icon=":material/arrow_forward:",
                help=words.plain(f"Open {parameter} {finding.subject}"),
                on_click=_go,
                args=(page, parameter, finding.subject),
            )
        elif finding.code in system.code_pages:
            st.button(
                "Open",
                key=key,
                type="tertiary",
                icon=":material/arrow_forward:",
                help="Open the page on which something can be done about it",
                on_click=state.go,
                args=(system.code_pages[finding.code],),
            )


def _go(page: str, parameter: str, subject: str) -> None:
    state.go(page, **{parameter: subject})
