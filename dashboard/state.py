"""Names of what identifies a view, and typed access to it.

Everything that identifies a view lives in the URL: widgets with these keys are bound to the query
parameter of the same name. What only one session needs (an open dialog, fetched topics) lives in
the session under names that begin with an underscore.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Final, cast

import pyarrow as pa
import streamlit as st
from streamlit.runtime.scriptrunner import get_script_run_ctx

from dashboard.legible import original
from dashboard.sitemap import FILES, kinds_of

if TYPE_CHECKING:
    from streamlit.runtime.scriptrunner import ScriptRunContext

# -- query parameters, shared by every page --------------------------------------------------------
CLUSTER: Final = "cluster"
AT: Final = "at"
LIVE: Final = "now"
"""Value of ``at`` that follows the newest snapshot."""
REFRESH: Final = "refresh"
SHARED: Final = (CLUSTER, AT, REFRESH)
"""They go along from page to page."""
# -- of single pages -------------------------------------------------------------------------------
BROKER: Final = "broker"
CAUSE: Final = "cause"
DIAGNOSED_TAB: Final = "diagnosed"
DIAGNOSED_PERIOD: Final = "diagnosed_period"
DIAGNOSED_NAME: Final = "diagnosed_name"
BUNDLE: Final = "bundle"
NAMESPACE: Final = "namespace"
MEASURE: Final = "measure"
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
RUN: Final = "run"
UNDO: Final = "undo"
JOB: Final = "job"
QUANTITY: Final = "quantity"
VIEW: Final = "view"
OF: Final = "of"
WHO: Final = "who"
STATE: Final = "state"
KIND: Final = "kind"
TEXT: Final = "text"
SINCE: Final = "since"
FROM: Final = "from"
UNTIL: Final = "until"
PICK: Final = "pick"
PLAY: Final = "play"
WITHIN: Final = "within"
MOST: Final = "most"
RELIEF: Final = "relief"
ALL_MOVES: Final = "all_moves"
LOAD: Final = "load"
DROP: Final = "drop"
PIN: Final = "pin"
RETARGET: Final = "retarget"
JOIN: Final = "join"
FAIL: Final = "fail"
FAIL_DOMAIN: Final = "fail_domain"
ALGORITHM: Final = "algorithm"
POSITIONS: Final = "positions"
PARTS: Final = "parts"
SET: Final = "set"
SETTING: Final = "setting"
COMPARE: Final = "compare"
OTHER: Final = "other"
THEN: Final = "then"
PRESET: Final = "preset"
ONLY: Final = "only"
TABLE: Final = "table"
NODE: Final = "node"
PARTITION: Final = "partition"
ROUND: Final = "round"
RANGE: Final = "range"
START: Final = "start"
END: Final = "end"
MINUTE: Final = "minute"
AGAINST: Final = "against"
LANE: Final = "lane"
POLICY: Final = "policy"
DOMAIN: Final = "domain"
UNLOADS: Final = "unloads"
MOVES_BACK: Final = "moves_back"
CHANGE: Final = "change"
RESOURCE_GROUP: Final = "resource_group"
TENANT: Final = "tenant"
LIMIT: Final = "limit"
USAGE: Final = "usage"
STEPS: Final = "steps"
PERIOD: Final = "period"
TOLERANCE: Final = "tolerance"
SELECTED: Final = "selected"
"""Names of the selected rows of a table; of one table of a page."""

MAX_SELECTED: Final = 50
"""So many of them are in the address: more names would make it too long for some servers."""

FROZEN: Final = "_frozen"
"""In the session: by cluster, the snapshot that a page works on until it is left."""

_PAGE: Final = "_page"
_DRAWN: Final = "_drawn"
_SENT: Final = "_sent"


def text(key: str) -> str:
    """Return a widget's (or query parameter's) text, empty when there is none."""
    value = st.session_state.get(key)
    if value is None:
        value = st.query_params.get(key)
    return value.strip() if isinstance(value, str) else ""


def from_address(key: str, allowed: Collection[str] | None = None) -> str:
    """Set an unbound widget to the value of the address, when that has changed.

    A bound parameter is lost when a person opens another page by a link or a button, so the
    header's are written by hand. Call it before the widget is drawn, :func:`keep_in_address` after.

    Args:
        key: Of the widget and of the parameter.
        allowed: Values that the widget has; another one in the address is passed over.
    """
    named, stored = st.query_params.get(key), st.session_state.get(f"_address_{key}")
    if named is not None and named != stored and (allowed is None or named in allowed):
        st.session_state[key] = named
    elif key not in st.session_state and stored is not None:
        st.session_state[key] = stored
    return text(key)


def unknown_in_address(key: str, known: Collection[str]) -> list[str]:
    """Return the unknown names in the address, each once: a widget would drop them silently.

    Call it before the widget is drawn.

    Args:
        key: Of the parameter.
        known: Values that there are.
    """
    reported = st.session_state.setdefault(f"_unknown_{key}", [])
    found = [one for one in st.query_params.get_all(key) if one and one not in {*known, *reported}]
    st.session_state[f"_unknown_{key}"] = [*reported, *found]
    return found


def keep_in_address(key: str, value: str, *, default: str) -> None:
    """Write the value of a widget that is not bound into the address; the default is left out."""
    st.session_state[f"_address_{key}"] = value
    if value != default:
        st.query_params[key] = value
    elif key in st.query_params:
        del st.query_params[key]


def follow_in_address(key: str, value: str) -> None:
    """Keep an address true that names a choice of the session; call it after the widget is drawn.

    It is not written into an address without it: that would be another step of the browser's
    history on every page.
    """
    if key in st.query_params and st.query_params[key] != value:
        st.query_params[key] = value
    st.session_state[f"_address_{key}"] = value


def begin_choice(key: str, options: Collection[str], default: str) -> None:
    """Set the option of an unbound widget: the address's when that changed, else its own.

    Unlike :func:`from_address` this is of one page: what another page chose is forgotten.

    Args:
        key: Of the widget and of the parameter.
        options: What an address may contain.
        default: Option of an address that says nothing.
    """
    written = _choices().get(key)
    named = st.query_params.get(key, default)
    if named not in options:
        named = default
    is_written = written is not None or key in st.query_params  # else a callback set it first
    if key not in st.session_state or (is_written and named != written):
        st.session_state[key] = named
    elif st.session_state[key] not in options:
        st.session_state[key] = default


def end_choice(key: str, value: str, *, default: str) -> None:
    """Write the selection into the address, after the widget is drawn; a default is left out."""
    _choices()[key] = value
    if value == default:
        st.query_params.pop(key, None)
    elif st.query_params.get(key) != value:
        st.query_params[key] = value


def _choices() -> dict[str, str]:
    """Return the values written by :func:`end_choice` on this page."""
    return cast("dict[str, str]", st.session_state.setdefault("_choices", {}))


def last_of_kind(kind: str) -> str:
    """Return the cluster of a kind that was looked at last in this session; empty: none yet."""
    return str(st.session_state.get(f"_last_{kind}", ""))


def note_cluster(kind: str, name: str) -> None:
    """Note which cluster is looked at, so that pages of its kind come back to it."""
    st.session_state[f"_last_{kind}"] = name


def listed(key: str) -> tuple[str, ...]:
    """Return the list of a widget that is not bound and not always drawn; else the address's."""
    held = st.session_state.get(key) or st.query_params.get_all(key)
    return tuple(dict.fromkeys(held))


def keep_list(key: str, values: Sequence[str]) -> None:
    """Keep the list of a widget that is not bound, there and in the address; from a callback."""
    st.session_state[key] = list(values)
    if values:
        st.query_params[key] = list(values)
    else:
        st.query_params.pop(key, None)


def begin_selection(key: str, names: Sequence[str]) -> list[str]:
    """Select the rows of a table by their names; call it before the table is drawn.

    The browser keeps positions. The names are those of the session; of the address when the table
    appears, and after a step back.

    Args:
        key: Of the table.
        names: Of its rows, each once.
    Returns:
        What the address selects and the table does not have.
    """
    held: Mapping[str, Mapping[str, list[int]]] | None = st.session_state.get(key)
    before = cast("Sequence[str]", st.session_state.get(f"{key}_rows", names))
    st.session_state[f"{key}_rows"] = names
    if held is None:
        rows, wanted = None, list(dict.fromkeys(st.query_params.get_all(SELECTED)))
    else:
        rows = held.get("selection", {}).get("rows", [])
        if before == names:
            return []
        wanted = [before[row] for row in rows if row < len(before)]
    places = {name: row for row, name in enumerate(names)} if wanted else {}
    found = [places[name] for name in wanted if name in places]
    if found != rows:
        st.session_state[key] = {"selection": {"rows": found, "columns": []}}
    return [name for name in wanted if name not in places] if held is None else []


def end_selection(names: Sequence[str]) -> None:
    """Write the names of the selected rows into the address, after their table is drawn."""
    kept = list(names[:MAX_SELECTED])
    if st.query_params.get_all(SELECTED) == kept:
        return
    if kept:
        st.query_params[SELECTED] = kept
    else:
        st.query_params.pop(SELECTED, None)
    _note_drawn()


def go(page: str, **params: str | list[str]) -> None:
    """Open a page of this session with exactly these parameters; call it from a callback.

    The header's choices (cluster, time, refresh) stay as they are.

    Args:
        page: Its name in the sitemap.
        params: Query parameter to value; empty ones are left out.
    """
    chosen = {
        key: original(value) if isinstance(value, str) else [original(one) for one in value]
        for key, value in params.items()
        if value
    }
    if st.session_state.get(_PAGE) == page:  # its widgets hold these parameters already
        for key, value in chosen.items():
            if key in (RUN, UNDO, JOB):  # no widget has these
                st.query_params[key] = value
            else:
                st.session_state[key] = value
        return
    if CLUSTER in st.query_params:
        chosen.setdefault(CLUSTER, st.query_params[CLUSTER])
    _stop_ticks()
    _switch(page, chosen)


def leave_undo() -> None:
    """Show the unload preview without the run that was to be taken back."""
    st.query_params.pop(UNDO, None)


def note_page(page: str) -> None:
    """Note which page is drawn: its name in the sitemap; give it the parameters that are its own.

    Call it before any widget is drawn.
    """
    _, left = st.session_state.get(_DRAWN, ("", {}))
    was_sent = st.session_state.pop(_SENT, False)
    context = get_script_run_ctx()
    if context is not None and context.is_history_navigation:
        _restore(context, left, page)
    elif st.session_state.get(_PAGE, page) != page:
        _forget(left, is_in_address=not was_sent)
    if st.session_state.get(_PAGE) != page:
        note_ticked(is_any=False)
        set_dialog_open(is_open=False)
        set_dialog(None)
        _choices().clear()
        st.session_state.pop(FROZEN, None)
        _stop_ticks()
    st.session_state[_PAGE] = page
    _note_drawn()


def _note_drawn() -> None:
    """Note the page of this run with its parameters."""
    params = {key: st.query_params.get_all(key) for key in st.query_params}
    st.session_state[_DRAWN] = (_page_of_this_run(), params)


def _restore(context: ScriptRunContext, left: Mapping[str, list[str]], page: str) -> None:
    """Restore the address after a step back or forward: the session belongs to the former page.

    Streamlit drops parameters that a widget of the other page has, too, and from the browser's
    address as well: they are written again.
    """
    known = set(st.query_params)
    with context.session_state.query_params() as held:
        held.populate_from_query_string(context.query_string)
        held.set_initial_query_params(context.query_string)
    dropped = {key: st.query_params.get_all(key) for key in {*st.query_params} - known}
    if dropped:
        st.query_params.update(dropped)
    _forget({**left, **{key: [] for key in st.query_params}}, is_in_address=False)
    if REFRESH in st.session_state:  # of the session, whatever an older address names
        st.session_state[f"_address_{REFRESH}"] = st.query_params.get(REFRESH)
    for key in (CLUSTER, AT):
        if key not in st.query_params:  # the default, which addresses leave out
            st.session_state.pop(key, None)
            st.session_state.pop(f"_address_{key}", None)
    if CLUSTER not in st.query_params:
        for kind in kinds_of(page):
            st.session_state.pop(f"_last_{kind}", None)


def _forget(left: Mapping[str, list[str]], *, is_in_address: bool) -> None:
    """Forget the widgets of the page that was left: another page may use their names.

    Args:
        left: Its parameters, with their values; one with a default is in no address.
        is_in_address: Whether those with the same values are dropped from the address as well.
    """
    held = (key for key in st.session_state if not str(key).startswith("_"))
    for key in {*left, *map(str, held)} - {*SHARED}:
        st.session_state.pop(key, None)
        values = left.get(key)
        if is_in_address and key in st.query_params and st.query_params.get_all(key) == values:
            del st.query_params[key]


def page() -> str:
    """Return the page that is drawn: its name in the sitemap."""
    return str(st.session_state.get(_PAGE, ""))


def is_new_in_address(key: str) -> bool:
    """Return whether the address names a value that :func:`keep_in_address` did not write."""
    named = st.query_params.get(key)
    return bool(named) and named != st.session_state.get(f"_address_{key}")


def _stop_ticks() -> None:
    """Forget every fragment: late requests of the page that is left are refused."""
    context = get_script_run_ctx()
    if context is not None:
        context.fragment_storage.clear()


def _page_of_this_run() -> str:
    context = get_script_run_ctx()
    return "" if context is None else context.page_script_hash


def stay() -> None:
    """Go back to the page that is drawn, where a late tick names the one that was left.

    A busy browser sends a tick of the old page after the new one was sent, and before it has
    looked. Streamlit then takes the page for changed and drops everything: the window is white
    until it is reloaded. Call it from the fragment that ticks on every page.
    """
    drawn, params = st.session_state.get(_DRAWN, ("", {}))
    if drawn and drawn != _page_of_this_run():
        _switch(st.session_state[_PAGE], params)


def _switch(page: str, params: Mapping[str, str | list[str]]) -> None:
    """Open a page; a parameter that a widget of the page that is left holds is let go first."""
    context = get_script_run_ctx()
    if context is not None:
        with context.session_state.query_params() as held:
            for key in params:
                binding = held.get_binding_for_param(key)
                if binding is not None:
                    held.unbind_widget(binding.widget_id)
    st.session_state[_SENT] = True
    st.switch_page(FILES[page], query_params=params)


def is_busy() -> bool:
    """Return whether a person is in the middle of something that drawing again would disturb."""
    return bool(
        st.session_state.get("_dialog_open")
        or st.session_state.get("_ticked")
        or st.session_state.get("_asking")
    )


def open_dialog() -> object | None:
    """Return the content of the open apply dialog; ``None`` if none is open."""
    return st.session_state.get("_asking")


def is_past() -> bool:
    """Return whether a moment of the past is selected; call it anywhere in a run."""
    return text(AT).lower() not in ("", LIVE, "live")


def ticking(every_s: float | None) -> float | None:
    """Return the refresh interval of a fragment: ``None`` behind an open dialog of an apply.

    The dialog leads to another page. A tick of the page that is left, sent before the browser
    knows of the new one, names the old page: the browser then drops the new page's elements, and
    what is drawn into them next leaves the window white.

    Args:
        every_s: Seconds, outside of a dialog; ``None``: never.
    """
    return None if open_dialog() is not None else every_s


def set_dialog(dialog: object | None) -> None:
    """Store the plan of the apply dialog, so that the next rerun opens the dialog again."""
    st.session_state["_asking"] = dialog


def note_ticked(*, is_any: bool) -> None:
    """Note whether rows of a table are ticked: they are identified by their place in it."""
    st.session_state["_ticked"] = is_any


def set_dialog_open(*, is_open: bool) -> None:
    """Note that a dialog was opened or closed."""
    st.session_state["_dialog_open"] = is_open


@dataclass(frozen=True, slots=True, eq=False)
class ReadTopics:
    """Topics of a bundle as its owner named them, and when."""

    table: pa.Table
    read_at: datetime


def topics_of(cluster: str, bundle: str) -> ReadTopics | None:
    """Return the topics fetched in this session for the bundle, ``None`` when none were."""
    stored = cast("dict[tuple[str, str], ReadTopics]", st.session_state.get("_topics", {}))
    return stored.get((cluster, bundle))


def keep_topics(cluster: str, bundle: str, topics: ReadTopics) -> None:
    """Keep fetched topics for this session, whatever the snapshot; of the last eight bundles."""
    stored = cast("dict[tuple[str, str], ReadTopics]", st.session_state.setdefault("_topics", {}))
    stored.pop((cluster, bundle), None)
    stored[(cluster, bundle)] = topics
    while len(stored) > 8:
        stored.pop(next(iter(stored)))
