"""The guide of a page, and the glossary, in a dialog: they need no network."""

from __future__ import annotations

from typing import Final

import streamlit as st

from dashboard import state
from dashboard.presenters import guides

_OPEN: Final = "_guide"
_CHOSEN: Final = "_guide_name"


def draw(page: str) -> None:
    """Draw the button that opens the guide of a page, and the dialog where it is open.

    Args:
        page: Its name.
    """
    own = guides.GUIDES.get(page, guides.TERMS)
    st.button(
        "Guide",
        icon=":material/menu_book:",
        type="tertiary",
        key="guide",
        on_click=_open,
        args=(page, own),
    )
    if st.session_state.get(_OPEN) == page and state.open_dialog() is None:
        st.dialog("Guide", width="large", icon=":material/menu_book:", on_dismiss=_close)(_body)()


def _open(page: str, name: str) -> None:
    st.session_state[_OPEN] = page
    st.session_state[_CHOSEN] = name
    state.set_dialog_open(is_open=True)


def _close() -> None:
    st.session_state[_OPEN] = ""
    state.set_dialog_open(is_open=False)


def _body() -> None:
    titles = guides.titles()
    name = st.selectbox(
        "Guide",
        list(titles),
        format_func=lambda one: titles[one],
        key=_CHOSEN,
        label_visibility="collapsed",
    )
    st.markdown(guides.body(name or guides.TERMS))
