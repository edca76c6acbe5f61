"""Errors in the address, shown in a box until something else is chosen."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

import streamlit as st

from core.errors import InputError, OpsError
from dashboard import services, state
from dashboard.components import words
from dashboard.page_names import NO_PAGE, near_pages
from dashboard.presenters.moments import parse_stamp

_STORED: Final = "_unknown_params"
_PAGE: Final = "_unknown_page"
_FORM: Final = "2026-11-21 14:03:05"
_AHEAD: Final = timedelta(minutes=1)


@dataclass
class _AddressError:
    """One error of the address, its page, and the value shown instead."""

    error: OpsError
    page: str
    shown: object = None
    is_drawn: bool = False


def report(key: str, error: OpsError) -> None:
    """Store the error of a parameter for :func:`draw`.

    Args:
        key: Of the parameter.
        error: What is wrong with it.
    """
    stored: dict[str, _AddressError] = st.session_state.setdefault(_STORED, {})
    stored[key] = _AddressError(error, state.page())


def draw(key: str, shown: object) -> None:
    """Draw the error of a parameter, until its page is left or another value is chosen.

    Args:
        key: Of the parameter.
        shown: What the page shows in its place now.
    """
    stored: dict[str, _AddressError] = st.session_state.get(_STORED, {})
    found = stored.get(key)
    if found is None:
        return
    if found.page != state.page() or (found.is_drawn and found.shown != shown):
        del stored[key]
        return
    found.shown, found.is_drawn = shown, True
    words.failed(found.error, what="Invalid address")


def draw_page() -> None:
    """Render the error of an unknown page, with similar ones, until another page is opened."""
    if named := st.query_params.pop(NO_PAGE, ""):
        st.session_state[_PAGE] = named, state.page()
    name, page = st.session_state.get(_PAGE, ("", ""))
    if page != state.page():
        st.session_state.pop(_PAGE, None)
        return
    near = near_pages(name)
    st.error(
        "Did you mean:" if near else "See the navigation for all pages.",
        title=words.plain(f"Page not found: /{name}"),
        icon=":material/error:",
    )
    with st.container(horizontal=True, gap="small"):
        for one in near:
            st.page_link(one.file, label=one.title, icon=f":material/{one.icon}:")


def time_error(key: str, text: str) -> InputError | None:
    """Return the error for a time of the address that cannot be recorded; ``None`` if valid.

    Args:
        key: Of the parameter.
        text: Its value.
    """
    moment = _moment_of(text)
    if moment is None:
        return InputError(
            f"{key}={text[:60]} is not a valid time.",
            hint=f"Specify {key}={_FORM} (UTC), or omit the parameter.",
        )
    if moment > services.now() + _AHEAD:
        return InputError(
            f"{key}={text} is in the future.",
            hint="Specify a past time (UTC), or omit the parameter.",
        )
    return None


def check_times(*keys: str, may_be_ahead: bool = False) -> None:
    """Report parameters that are no valid times; call it before their widgets are drawn.

    Args:
        keys: Of the parameters.
        may_be_ahead: Whether a time to come will do: the end of a range.
    """
    for key in keys:
        text = st.query_params.get(key)
        if not text:
            continue
        error = time_error(key, text)
        if error is not None and not (may_be_ahead and _moment_of(text)):
            report(key, error)


def _moment_of(text: str) -> datetime | None:
    """Return the time that a text means, in any form that a widget writes (UTC)."""
    try:
        found = parse_stamp(text) or datetime.fromisoformat(text.strip())
    except ValueError:
        return None
    return found if found.tzinfo else found.replace(tzinfo=UTC)
