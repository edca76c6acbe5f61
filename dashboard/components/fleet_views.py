"""Views of the fleet on the pages: filters, order, and the saved ones of each person."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

import streamlit as st
from streamlit.runtime.scriptrunner import get_script_run_ctx

from core.errors import OpsError
from core.fleet_views import SORTS, FleetView, Sort
from dashboard import state
from dashboard.components import choice, tables, words
from dashboard.queries import access
from dashboard.services import fleet_views as services_fleet_views

if TYPE_CHECKING:
    from dashboard.services import Config

SAVED: Final = "saved"
"""Parameter that names a saved view of the person at the page."""

_TAG: Final = "tag"
_NAME: Final = "_view_name"
_FAILED: Final = "_view_failed"
_KNOWN: Final = "_views"
_KEYS: Final = {"group": state.GROUP, "tag": _TAG, "contains": state.CONTAINS, "sort": state.SORT}
"""Field of a view to the parameter in the address."""

_SORT_WORDS: Final[dict[str, str]] = {
    "": "Sort: urgency",
    **{one: f"Sort: {one}" for one in SORTS if one},
}
MIN_CLUSTERS: Final = 4
"""Clusters from which filters are offered where no group and no tag is configured."""


def of_person(config: Config, *, is_fresh: bool = False) -> dict[str, FleetView]:
    """Return the saved views of the person at the page; none where they cannot be read.

    Args:
        config: The configuration.
        is_fresh: Read them again.
    """
    known: dict[str, FleetView] | None = st.session_state.get(_KNOWN)
    if known is None or is_fresh:
        try:
            known = services_fleet_views.views(config, access.person(config))
        except OpsError:
            return {}  # the header says why
        if get_script_run_ctx(suppress_warning=True) is not None:
            st.session_state[_KNOWN] = known
    return known


def draw(config: Config) -> FleetView:
    """Draw the filters, the order and the saved views; return the selection.

    Args:
        config: The configuration with the clusters that the person may look at.
    """
    _open_named(config)
    groups = sorted({cluster.group for cluster in config.clusters} - {""})
    tags = sorted({tag for cluster in config.clusters for tag in cluster.tags})
    if len(config.clusters) < MIN_CLUSTERS and not groups and not tags:
        return FleetView()
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small", key="fleet_view"):
        group = _pick("Group", groups, state.GROUP)
        tag = _pick("Tag", tags, _TAG)
        contains = st.text_input(
            "Name contains",
            key=state.CONTAINS,
            bind="query-params",
            live=tables.TYPING_PAUSE,
            placeholder="Name contains",
            label_visibility="collapsed",
            width=160,
        )
        sort = choice.selected(
            "Sort by",
            SORTS,
            key=state.SORT,
            format_func=_SORT_WORDS.__getitem__,
            width=170,
            has_label=False,
        )
        view = FleetView(group=group, tag=tag, contains=contains.strip(), sort=cast("Sort", sort))
        _draw_saved(config, view)
    return view


def _pick(label: str, options: list[str], key: str) -> str:
    """Draw a filter; where the configuration has no value of it, there is none."""
    if not options:
        return ""
    return choice.selected(
        label,
        ["", *options],
        key=key,
        format_func=lambda one: one or f"All {label.lower()}s",
        width=150,
        has_label=False,
    )


def _open_named(config: Config) -> None:
    """Set the filters to the saved view that the address names."""
    name = st.session_state.pop(SAVED, None) or st.query_params.get(SAVED)
    if not name:
        return
    known = of_person(config, is_fresh=True)
    words.report_unknown("view", [] if name in known else [name], list(known))
    st.query_params.pop(SAVED, None)
    if name in known:
        _show(known[name])


def _show(view: FleetView) -> None:
    for field, key in _KEYS.items():
        st.session_state[key] = getattr(view, field)


def _draw_saved(config: Config, view: FleetView) -> None:
    known = of_person(config, is_fresh=True)
    with st.popover("Views", icon=":material/bookmarks:"):
        for name, one in known.items():
            with st.container(horizontal=True, vertical_alignment="center"):
                st.button(
                    words.plain(name),
                    type="tertiary",
                    key=f"_view_{name}",
                    disabled=one == view,
                    on_click=_show,
                    args=(one,),
                    width="stretch",
                )
                st.button(
                    "Delete",
                    icon=":material/delete:",
                    type="tertiary",
                    key=f"_delete_{name}",
                    on_click=_delete,
                    args=(config, name),
                )
        if not known:
            st.caption("No saved view.")
        with st.form("_save_view", border=False):
            st.text_input("Name", key=_NAME, max_chars=60, placeholder="For example: EU")
            st.form_submit_button("Save view", on_click=_save, args=(config, view))
        if failed := st.session_state.pop(_FAILED, ""):
            st.error(words.plain(failed))


def _save(config: Config, view: FleetView) -> None:
    try:
        name = str(st.session_state[_NAME])
        services_fleet_views.save_view(config, access.person(config), name, view)
    except OpsError as error:
        st.session_state[_FAILED] = f"{error.message} {error.hint}".strip()


def _delete(config: Config, name: str) -> None:
    try:
        services_fleet_views.delete_view(config, access.person(config), name)
    except OpsError as error:
        st.session_state[_FAILED] = f"{error.message} {error.hint}".strip()
