"""The one snapshot that the Rebalance page works on, until a person has it computed again."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC
from typing import TYPE_CHECKING, Final

import streamlit as st

from core.errors import SnapshotError
from core.units import format_age
from dashboard import state
from dashboard.presenters.naming import clock

if TYPE_CHECKING:
    from core.snapshot.store import CachedSnapshot
    from dashboard.components.pulsar.page import PulsarPage

_OLD_S: Final = 600.0
"""Older than this, the age is shown as a warning."""


def frozen(page: PulsarPage) -> PulsarPage:
    """Return the page on the snapshot that it was opened with: every figure is of that one."""
    if page.is_past:
        return page
    held: CachedSnapshot | None = st.session_state.setdefault(state.FROZEN, {}).get(page.name)
    if held is None or held.taken_at > page.stored.taken_at or not _is_readable(page, held):
        held = page.stored
        st.session_state[state.FROZEN][page.name] = held
    return replace(page, stored=held, reading=page.read(held))


def _is_readable(page: PulsarPage, snapshot: CachedSnapshot) -> bool:
    try:
        page.read(snapshot).snapshot  # noqa: B018  # retention may have dropped it meanwhile
    except SnapshotError:
        return False
    return True


def facts(page: PulsarPage) -> str:
    """Return the time of the frozen snapshot, its age if it is old, and whether shedding is off."""
    taken_at, off = page.stored.taken_at, page.reading.settings.shedding_off
    parts = [f"Snapshot {clock(taken_at.astimezone(UTC))}, frozen"]
    age_s = (page.now - taken_at).total_seconds()
    if not page.is_past and age_s > _OLD_S:
        parts.append(f"▲ {format_age(age_s)} old")
    if off:
        parts.append(f"{off[0]} is false")
    return " · ".join(parts)


def draw_recompute(live: PulsarPage, page: PulsarPage) -> None:
    """Draw the button that takes the newest snapshot.

    Args:
        live: The page on the newest snapshot.
        page: The page on the frozen one.
    """
    is_newest = live.stored.snapshot_id == page.stored.snapshot_id
    st.button(
        "Recompute",
        icon=":material/refresh:",
        type="tertiary",
        disabled=is_newest,
        help="Already the newest snapshot." if is_newest else "Recompute with the newest snapshot.",
        on_click=forget,
        key="_recompute",
    )


def forget() -> None:
    """Take the newest snapshot from the next run on."""
    st.session_state.pop(state.FROZEN, None)
