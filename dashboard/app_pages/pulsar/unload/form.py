"""Input of the unload preview: selected bundles, or a run to undo."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import streamlit as st

from core.errors import NothingToUndoError, OpsError
from core.plan.model import Plan
from core.pulsar.placement import STRATEGY_NAMES
from core.pulsar.plan.preview import Preview
from dashboard import state
from dashboard.app_pages.pulsar.unload import view
from dashboard.app_pages.pulsar.unload.queries import (
    UnloadPlanRequest,
    count_moved,
    undo_preview,
    unload_preview,
)
from dashboard.components import words
from dashboard.components.activity import run_link
from dashboard.components.undo import is_too_early, request_of, summary_of
from dashboard.legible import option
from dashboard.queries import runs

if TYPE_CHECKING:
    from dashboard.components.pulsar.page import PulsarPage

ACTIVE: Final = "active"
ANY: Final = "any broker"


def picked_plan(page: PulsarPage) -> tuple[Plan, Preview] | None:
    """Draw the pickers, and return the plan for the selection; ``None`` if it is empty."""
    reading = page.reading
    active = reading.settings.text("loadBalancerLoadPlacementStrategy").rpartition(".")[2]
    named = st.query_params.get_all(state.BUNDLES) or st.session_state.get(state.BUNDLES) or []
    bundles = st.multiselect(
        "Bundles to unload",
        list(dict.fromkeys([*named, *reading.hottest])),
        format_func=option,
        key=state.BUNDLES,
        bind="query-params",
        accept_new_options=True,
        select_all=False,  # else it stands first, and Enter takes it
        placeholder="Select a hot bundle or enter a name",
    )
    with st.container(horizontal=True, vertical_alignment="bottom"):
        destination = st.selectbox(
            "Destination",
            [ANY, *reading.brokers],
            format_func=option,
            key=state.TO,
            bind="query-params",
            width=240,
            help=f"{ANY}: placement by the cluster. Otherwise the broker is the requested "
            "destination.",
        )
        strategy = st.selectbox(
            "Placement strategy",
            [ACTIVE, *STRATEGY_NAMES],
            key=state.STRATEGY,
            bind="query-params",
            width=260,
        )
        st.caption(f"{ACTIVE}: {words.plain(active)}")
    if not bundles:
        words.answer("Select bundles to preview their destinations.")
        view.draw_hottest(reading.movable)
        return None
    return unload_preview(
        UnloadPlanRequest(
            stored=page.stored,
            bundles=tuple(bundles),
            destination=None if destination in (None, ANY) else destination,
            strategy=None if strategy in (None, ACTIVE) else strategy,
            exclusions=tuple(page.cluster.exclusions),
        )
    )


def undo_of(page: PulsarPage, run_id: str) -> tuple[Plan, Preview] | None:
    """Render the run to undo and return the plan for it; ``None`` if there is none."""
    with st.container(horizontal=True, vertical_alignment="center"):
        st.markdown(f":material/undo: Undo of run **{words.plain(run_id)}**")
        st.button(
            "Open run",
            icon=":material/history:",
            type="tertiary",
            on_click=run_link,
            args=(run_id,),
        )
        st.button(
            "Select bundles",
            icon=":material/close:",
            type="tertiary",
            on_click=state.leave_undo,
        )
    try:
        view = runs.find(page.config, run_id)
        if view is None:
            words.answer(f"Run {run_id} is not in the journal.")
            return None
        st.caption(words.plain(summary_of(view)))
        if is_too_early(page, view):
            return None
        return undo_preview(request_of(page, view, count_moved, "bundle"))
    except NothingToUndoError as error:
        st.info(words.plain(f"{error.message} {error.hint}".strip()), icon=":material/info:")
    except OpsError as error:
        words.failed(error, what="Could not plan the undo")
    return None
