"""Names of what identifies a view, and typed access to it.

Everything that identifies a view lives in the URL: widgets with these keys are bound to the query
parameter of the same name. What only one session needs (an open dialog, fetched topics) lives in
the session under names that begin with an underscore.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, cast

import pyarrow as pa
import streamlit as st

# -- query parameters, shared by every page --------------------------------------------------------
CLUSTER: Final = "cluster"
AT: Final = "at"
REFRESH: Final = "refresh"
# -- of single pages -------------------------------------------------------------------------------
BROKER: Final = "broker"
BUNDLE: Final = "bundle"
NAMESPACE: Final = "namespace"
MEASURE: Final = "measure"
WINDOW: Final = "window"
GROUP: Final = "group"
CONTAINS: Final = "contains"
OWNER: Final = "owner"
SORT: Final = "sort"
SHOW: Final = "show"
BUNDLES: Final = "bundles"
TO: Final = "to"
STRATEGY: Final = "strategy"
STEP: Final = "step"
TOPIC: Final = "topic"
PLACE: Final = "place"

_PAGE: Final = "_page"

PAGES: Final[Mapping[str, str]] = {
    "fleet": "app_pages/fleet.py",
    "brokers": "app_pages/brokers.py",
    "broker": "app_pages/broker.py",
    "bundles": "app_pages/bundles.py",
    "bundle": "app_pages/bundle.py",
    "unload": "app_pages/unload.py",
    "lookup": "app_pages/lookup.py",
}


def text(key: str) -> str:
    """Return a widget's (or query parameter's) text, empty when there is none."""
    value = st.session_state.get(key)
    if value is None:
        value = st.query_params.get(key)
    return value.strip() if isinstance(value, str) else ""


def go(page: str, **params: str | list[str]) -> None:
    """Open a page of this session with exactly these parameters; call it from a callback.

    The header's choices (cluster, time, refresh) stay as they are.

    Args:
        page: Key of :data:`PAGES`.
        params: Query parameter to value; empty ones are left out.
    """
    chosen = {key: value for key, value in params.items() if value}
    if st.session_state.get(_PAGE) == page:  # its widgets hold these parameters already
        for key, value in chosen.items():
            st.session_state[key] = value
        return
    st.switch_page(PAGES[page], query_params=chosen)


def note_page(page: str) -> None:
    """Note which page is drawn: key of :data:`PAGES`."""
    if st.session_state.get(_PAGE) != page:
        note_ticked(is_any=False)
        set_dialog_open(is_open=False)
    st.session_state[_PAGE] = page


def is_busy() -> bool:
    """Return whether a person is in the middle of something that drawing again would disturb."""
    return bool(st.session_state.get("_dialog_open") or st.session_state.get("_ticked"))


def note_ticked(*, is_any: bool) -> None:
    """Note whether rows of a table are ticked: they are told by their place in it."""
    st.session_state["_ticked"] = is_any


def set_dialog_open(*, is_open: bool) -> None:
    """Note that a dialog was opened or closed."""
    st.session_state["_dialog_open"] = is_open


def topics_of(bundle: str, snapshot_id: str) -> pa.Table | None:
    """Return the topics fetched in this session for the bundle, ``None`` when none were."""
    kept = cast("dict[tuple[str, str], pa.Table]", st.session_state.get("_topics", {}))
    return kept.get((bundle, snapshot_id))


def keep_topics(bundle: str, snapshot_id: str, topics: pa.Table) -> None:
    """Keep fetched topics for this session; the last eight bundles are kept."""
    kept = cast("dict[tuple[str, str], pa.Table]", st.session_state.setdefault("_topics", {}))
    kept[(bundle, snapshot_id)] = topics
    while len(kept) > 8:
        kept.pop(next(iter(kept)))
