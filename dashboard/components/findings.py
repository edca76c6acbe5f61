"""Findings on a page: worst first, each with what to do and a way to its subject."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import streamlit as st

from core.health.answer import findings_sentence
from core.health.findings import Finding
from dashboard import state
from dashboard.components import words

_ICONS: Final = {
    "error": ":red[:material/error:]",
    "warning": ":orange[:material/warning:]",
    "unknown": ":gray[:material/help:]",
    "info": ":gray[:material/info:]",
}
_PAGES: Final = {
    "broker": ("broker", "broker"),
    "bundle": ("bundle", "bundle"),
    "namespace": ("bundles", "namespace"),
    "node": ("pegasus", "node"),
    "pegasus_table": ("pegasus_tables", "table"),
}
"""By kind of subject: the page that shows it, and the parameter that names it there."""

_PAGES_OF_CODES: Final = {
    "not_balanced": "pegasus_balance",
    "balance_unknown": "pegasus_balance",
    "level_low": "pegasus",
    "level_unknown": "pegasus",
}
"""Of findings on a whole cluster: the page on which something can be done about them."""


def finding_list(findings: Sequence[Finding], *, key: str, limit: int = 12) -> None:
    """Show findings; those beyond ``limit`` are shown when asked for."""
    if not findings:
        st.caption(":material/check_circle: Nothing to report, and nothing is unknown.")
        return
    shown = list(findings)
    if len(findings) > limit:
        text = findings_sentence(tuple(findings))
        if not st.toggle(f"Show all {len(findings)} ({text})", key=f"_{key}_all"):
            shown = shown[:limit]
    for number, finding in enumerate(shown):
        _one(finding, key=f"_{key}_{number}")


def _one(finding: Finding, *, key: str) -> None:
    with st.container(horizontal=True, vertical_alignment="center", gap="small", wrap=False):
        text = f"{_ICONS[finding.severity]} {words.plain(finding.sentence)}"
        if finding.hint:
            text += f" :gray[{words.plain(finding.hint)}]"
        st.markdown(text)
        page, parameter = _PAGES.get(finding.subject_kind, ("", ""))
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
        elif finding.code in _PAGES_OF_CODES:
            st.button(
                "Open",
                key=key,
                type="tertiary",
                icon=":material/arrow_forward:",
                help="Open the page on which something can be done about it",
                on_click=state.go,
                args=(_PAGES_OF_CODES[finding.code],),
            )


def _go(page: str, parameter: str, subject: str) -> None:
    state.go(page, **{parameter: subject})
