"""Parts that the pages for the undo of a run share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

import streamlit as st

from core.actions.undo import not_brought_back
from core.plan.model import Plan
from core.units import pluralize
from dashboard import services, state
from dashboard.components import words
from dashboard.presenters.naming import clock
from dashboard.queries.runs import UndoRequest
from dashboard.queries.snapshots import saved_snapshots

if TYPE_CHECKING:
    from core.actions.views import RunView
    from dashboard.components.page import AnyPage
    from dashboard.services import Config

_LOOK_EVERY_S: Final = 2.0
Counter = Callable[[UndoRequest], int]


def summary_of(view: RunView) -> str:
    """Return when, by whom and why a run was requested, and its state."""
    return f"{clock(view.requested_at)} · {view.requested_by} · {view.state} · {view.reason}"


def is_too_early(page: AnyPage, view: RunView) -> bool:
    """Return whether the snapshot is from before the run ended; then wait for the next one."""
    ended = view.ended_at
    if view.cluster != page.name or ended is None or page.stored.taken_at > ended:
        return False
    words.answer(f"The newest snapshot predates the end of run {view.run_id}.")
    if page.is_past:
        st.caption("An earlier snapshot is selected. Choose Live under Time.")
        return True
    st.caption(
        f"Snapshot {clock(page.stored.taken_at)}, end of the run {clock(ended)}. The undo "
        "requires a newer snapshot; the next one is due within "
        f"{page.config.collect_every_s:g} s. This page continues automatically."
    )
    st.fragment(partial(_look, page.config, page), run_every=_LOOK_EVERY_S)()
    return True


def request_of(page: AnyPage, view: RunView, count: Counter, unit: str) -> UndoRequest:
    """Return the request for the undo of a run; renders the switch for the moves back.

    Args:
        count: Returns how many are elsewhere than when the run began, by no step of it.
        unit: What these are, singular: ``bundle``.
    """
    request = UndoRequest(
        stored=page.stored,
        run_id=view.run_id,
        last_seq=view.last_seq,
        view=view,
        exclusions=tuple(page.cluster.exclusions),
        start=services.start_of(page.config, view),
    )
    moved = count(request)
    if not moved:
        return request
    is_wanted = st.toggle(
        f"Also move back {pluralize(moved, unit)} moved since the run started",
        key=state.MOVES_BACK,
        bind="query-params",
        help="Moved by the cluster or a later run.",
    )
    room = services.max_moves_back(page.cluster, view)
    return replace(request, max_moves=room) if is_wanted else request


def draw_left(plan: Plan) -> None:
    """Draw the parts that an undo does not bring back; nothing for any other plan."""
    left = not_brought_back(plan, ("info",))
    if left:
        words.section("Not reverted")
        words.notes(left)


def _look(config: Config, page: AnyPage) -> None:
    latest = saved_snapshots(services.snapshot_store(config), page.name).latest
    if latest is not None and latest.taken_at > page.stored.taken_at:
        st.rerun()
