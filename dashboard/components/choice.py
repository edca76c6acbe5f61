"""Choices whose address says the option, not the words that stand for it on the page.

Streamlit binds a parameter to the words that a widget shows. Where these are for people, and so
may change or hold a figure, the address is written here instead, with the option's own name.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import streamlit as st

from dashboard import state
from dashboard.components import words


def segmented(
    label: str,
    options: Sequence[str],
    *,
    key: str,
    format_func: Callable[[str], str],
    default: str = "",
    has_label: bool = False,
) -> str:
    """Draw options next to each other; return the chosen one.

    Args:
        label: What is chosen.
        options: Their names in the address; at least one.
        key: Of the parameter.
        format_func: Returns the label of an option.
        default: Is left out of the address; blank: the first.
        has_label: Whether the label is drawn.
    """
    first = _begin(label, options, key, default)
    chosen = st.segmented_control(
        label,
        list(options),
        format_func=format_func,
        required=True,
        wrap=True,
        key=key,
        label_visibility="visible" if has_label else "collapsed",
    )
    return _end(chosen, key, first)


def selected(
    label: str,
    options: Sequence[str],
    *,
    key: str,
    format_func: Callable[[str], str],
    width: int = 320,
    has_label: bool = True,
) -> str:
    """Draw options as a list to open; return the chosen one, the first until one is.

    Args:
        label: What is chosen.
        options: Their names in the address; at least one.
        key: Of the parameter.
        format_func: Returns the label of an option.
        width: Of the list.
        has_label: Whether the label is drawn.
    """
    first = _begin(label, options, key, "")
    chosen = st.selectbox(
        label,
        list(options),
        format_func=format_func,
        key=key,
        width=width,
        label_visibility="visible" if has_label else "collapsed",
    )
    return _end(chosen, key, first)


def _begin(label: str, options: Sequence[str], key: str, default: str) -> str:
    first = default or options[0]
    unknown = state.unknown_in_address(key, options)
    words.report_unknown(label.lower(), unknown, options)
    state.begin_choice(key, options, first)
    return first


def _end(chosen: str | None, key: str, first: str) -> str:
    value = first if chosen is None else chosen
    state.end_choice(key, value, default=first)
    return value
