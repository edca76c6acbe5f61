"""What the pages that plan the undo of a run share."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

import streamlit as st

from dashboard import services
from dashboard.components import words
from dashboard.presenters.naming import clock
from dashboard.queries.snapshots import saved_snapshots

if TYPE_CHECKING:
    from core.actions.views import RunView
    from dashboard.components.page import ClusterPage
    from dashboard.services import Config

_LOOK_EVERY_S: Final = 2.0


def is_too_early(page: ClusterPage[Any], view: RunView) -> bool:
    """Return whether the snapshot is from before the run ended; then wait for the next one."""
    ended = view.ended_at
    if view.cluster != page.name or ended is None or page.stored.taken_at > ended:
        return False
    words.answer(f"The newest snapshot is from before run {view.run_id} ended.")
    if page.is_past:
        st.caption("An earlier snapshot was chosen: choose Now under Time.")
        return True
    st.caption(
        f"It was taken at {clock(page.stored.taken_at)}, the run ended at {clock(ended)}. "
        "The undo is planned on what the cluster looks like now; the next snapshot is due within "
        f"{page.config.collect_every_s:g} s, and this page goes on by itself."
    )
    st.fragment(partial(_look, page.config, page), run_every=_LOOK_EVERY_S)()
    return True


def _look(config: Config, page: ClusterPage[Any]) -> None:
    latest = saved_snapshots(services.snapshot_store(config), page.name).latest
    if latest is not None and latest.taken_at > page.stored.taken_at:
        st.rerun()
