"""The one snapshot that a page with a plan works on, until a person has it computed again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

import streamlit as st

from core.errors import OpsError, SnapshotError
from core.pulsar.plan.after_run import unreported_brokers
from core.units import format_age, pluralize
from dashboard import state
from dashboard.presenters.naming import clock
from dashboard.queries import runs

if TYPE_CHECKING:
    from core.actions.views import RunView, StepView
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
    """Return the time of the frozen snapshot, and why a newer one is needed, if so.

    An unload takes seconds and a load report up to minutes: right after a run the load of some
    brokers is from before its moves, which is named.
    """
    taken_at = page.stored.taken_at
    parts = [f"Snapshot {clock(taken_at.astimezone(UTC))}, frozen"]
    age_s = (page.now - taken_at).total_seconds()
    if not page.is_past and age_s > _OLD_S:
        parts.append(f"▲ {format_age(age_s)} old")
    if run_id := _later_run(page):
        parts.append(f"▲ older than the last step of run {run_id}")
    else:
        parts += _unreported(page)
    return " · ".join(parts)


def _unreported(page: PulsarPage) -> Iterator[str]:
    """Yield how many brokers have not reported load since the newest run that moved bundles."""
    moved = (view for view in _runs(page) if any(True for _ in _moments(view.steps)))
    if (view := next(moved, None)) is None:
        return
    if brokers := unreported_brokers(view, page.reading.snapshot):
        count = pluralize(len(brokers), "broker")
        yield f"▲ load of {count} is from before run {view.run_id}"


def _runs(page: PulsarPage) -> Sequence[RunView]:
    """Return the runs of the cluster, newest first; none in the past."""
    if page.is_past:
        return ()
    try:
        return runs.of_cluster(page.config, page.name)
    except OpsError:  # other pages report the journal
        return ()


def _later_run(page: PulsarPage) -> str | None:
    """Return the run that changed the cluster after the snapshot; ``None`` if there is none."""
    taken_at = page.stored.taken_at
    return next(
        (
            view.run_id
            for view in _runs(page)
            if any(taken_at <= moment for moment in _moments(view.steps))
        ),
        None,
    )


def _moments(steps: Iterable[StepView]) -> Iterator[datetime]:
    """Yield when steps that were executed began and ended."""
    for step in steps:
        if step.begun_at is not None:
            yield step.begun_at
            yield step.ended_at or step.begun_at


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
        type="tertiary" if is_newest or _later_run(page) is None else "primary",
        disabled=is_newest,
        help="Already the newest snapshot." if is_newest else "Recompute with the newest snapshot.",
        on_click=forget,
        key="_recompute",
    )


def forget() -> None:
    """Take the newest snapshot from the next run on."""
    st.session_state.pop(state.FROZEN, None)
