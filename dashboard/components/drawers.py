"""What opens over a page: the search, and the drawer of problems."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import streamlit as st

from core.snapshot import Manifest
from dashboard import state
from dashboard.components import words
from dashboard.presenters.search import Hit

_ICONS = {
    "topic": ":material/topic:",
    "broker": ":material/dns:",
    "namespace": ":material/folder:",
    "bundle": ":material/donut_small:",
    "node": ":material/dns:",
    "table": ":material/table_rows:",
    "partition": ":material/donut_small:",
}


@dataclass(frozen=True, eq=False)
class Searching:
    """What is searched.

    Attributes:
        find: Returns what a query names.
        label: Of the field.
        examples: Shown in the empty field.
        advice: What may be asked for, in a sentence.
    """

    find: Callable[[str], list[Hit]]
    label: str
    examples: str
    advice: str


def _closed() -> None:
    state.set_dialog_open(is_open=False)


def _open(hit: Hit) -> None:
    state.set_dialog_open(is_open=False)
    state.go(hit.page, **dict(hit.params))


def search_dialog(searching: Searching) -> None:
    """Open the search over one snapshot."""
    state.set_dialog_open(is_open=True)
    st.dialog("Search", width="medium", icon=":material/search:", on_dismiss=_closed)(
        partial(_search_body, searching)
    )()


def _search_body(searching: Searching) -> None:
    query = st.text_input(
        searching.label,
        key="_search",
        type="search",
        live="200ms",
        placeholder=searching.examples,
    )
    hits = searching.find(query or "")
    if not query:
        st.caption(searching.advice)
    elif not hits:
        st.caption(f"Nothing has that in its name. {searching.advice}")
    for hit in hits:
        st.button(
            f"**{words.plain(hit.name)}** {words.plain(hit.detail)}",
            icon=_ICONS[hit.kind],
            key=f"_hit_{hit.kind}_{hit.name}",
            on_click=_open,
            args=(hit,),
            width="stretch",
            type="tertiary",
            help=f"Open this {hit.kind}",
        )


def problems_drawer(manifest: Manifest) -> None:
    """Open the drawer with everything that could not be read."""
    state.set_dialog_open(is_open=True)
    st.dialog("Problems", width="medium", position="right", on_dismiss=_closed)(
        partial(_problems_body, manifest)
    )()


def _problems_body(manifest: Manifest, limit: int = 100) -> None:
    icons = {"error": ":material/error:", "warning": ":material/warning:"}
    for problem in manifest.problems[:limit]:
        with st.container(border=True, gap="xsmall"):
            st.markdown(
                f"{icons.get(problem.severity, ':material/info:')} {words.plain(problem.what)}"
            )
            if problem.done:
                st.markdown(words.plain(problem.done))
            st.caption(f"{words.plain(problem.place)} · {words.plain(problem.code)}")
    if len(manifest.problems) > limit:
        st.caption(
            f"{len(manifest.problems) - limit:,} more: take the snapshot's manifest for all."
        )
    for sentence in manifest.unavailable:
        st.info(words.plain(sentence), icon=":material/block:")
