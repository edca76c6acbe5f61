"""The header's time control: live, or a point in time; and the bar of every page that is not live.

The address holds the point in time as ``at``: a time in UTC, or how long ago (``-1h``), which
becomes a time when the page is opened.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Final

import streamlit as st

from core.errors import InputError, OpsError, SnapshotError
from core.units import format_ago
from dashboard import services, state
from dashboard.components import unknown_params, words
from dashboard.presenters.moments import ago_of, parse_stamp, short_stamp, stamp, typed_moment
from dashboard.queries.history import first_after, latest_before, nearest

if TYPE_CHECKING:
    from core.snapshot.store import CachedSnapshot
    from dashboard.queries.snapshots import SavedSnapshots
    from dashboard.services import Cluster, Config

AGO: Final[Mapping[str, str]] = {
    "-15min": "15 min ago",
    "-1h": "1 h ago",
    "-6h": "6 h ago",
    "-24h": "24 h ago",
}
"""What the control offers before single snapshots: value of the address to label."""

MAX_TIMES: Final = 400
_STEP: Final = timedelta(minutes=1)
_PICKED: Final = "_past_minute"
_WIDTH_PX: Final = 172


def pick_time(
    config: Config, cluster: Cluster, saved: SavedSnapshots
) -> tuple[SavedSnapshots, CachedSnapshot | None, bool]:
    """Draw the control; return the saved snapshots, the chosen one, and whether it is past."""
    by_text = {stamp(entry.taken_at): entry for entry in saved.entries}
    named = state.from_address(state.AT)
    if named.lower() in (state.LIVE, "live"):
        named = st.session_state[state.AT] = state.LIVE
    problem: OpsError | str = ""
    if named and named != state.LIVE and named not in by_text:
        past, problem = _recorded(config, cluster, saved, named)
        if isinstance(problem, OpsError) and st.query_params.get(state.AT) == named:
            unknown_params.report(state.AT, problem)
            problem = ""
        if past is not None and stamp(past.taken_at) not in by_text:
            saved = saved.joined_by(past)
            by_text[stamp(past.taken_at)] = past
        st.session_state[state.AT] = state.LIVE if past is None else stamp(past.taken_at)
    offered = list(reversed(by_text))[:MAX_TIMES]
    chosen_text = state.text(state.AT)
    more = [chosen_text] if chosen_text in by_text and chosen_text not in offered else []
    midnight = services.now().replace(hour=0, minute=0, second=0, microsecond=0)
    is_past = chosen_text in by_text
    with st.container(key="time_past" if is_past else "time_live", width=_WIDTH_PX):
        text = st.selectbox(
            "Time (UTC)",
            [state.LIVE, *AGO, *more, *offered],
            format_func=lambda one: _label(str(one), midnight),
            key=state.AT,
            accept_new_options=True,
            label_visibility="collapsed",
            width=_WIDTH_PX,
            icon=":material/history:" if is_past else ":material/sensors:",
            help="Live or a point in time. Enter 14:03 (UTC), a date, or -90min.",
        )
    state.keep_in_address(state.AT, text or state.LIVE, default=state.LIVE)
    if problem:
        st.toast(words.plain(str(problem)), duration="long")
    chosen = by_text.get(text or state.LIVE)
    return (saved, chosen, True) if chosen is not None else (saved, saved.latest, False)


@lru_cache(maxsize=4_096)  # hundreds of options, the same in every run of a page
def _label(value: str, midnight: datetime) -> str:
    """Return the label of an option on the day that begins at ``midnight``, UTC."""
    if value == state.LIVE:
        return "Live"
    moment = parse_stamp(value)
    return AGO.get(value, value) if moment is None else short_stamp(moment, midnight)


def _recorded(
    config: Config, cluster: Cluster, saved: SavedSnapshots, named: str
) -> tuple[CachedSnapshot | None, OpsError | str]:
    """Return the snapshot of the time that the address names, and a note."""
    typed = typed_moment(named, services.now())
    if typed is None and (error := unknown_params.time_error(state.AT, named)) is not None:
        return None, error
    moment = typed or parse_stamp(named)
    try:
        past = None if moment is None else nearest(config, cluster, saved, moment)
    except SnapshotError as exc:
        message = (
            f"Could not read the snapshot of {named}: {exc.message} The newest snapshot is shown."
        )
        return None, InputError(message, hint=exc.hint)
    if past is None:
        message = f"No saved snapshot of {cluster.name} at {named}. The newest snapshot is shown."
        return None, InputError(message, hint="Choose another time under Time.")
    if ago_of(named) is not None or moment is None or stamp(past.taken_at) == stamp(moment):
        return past, ""
    return past, f"Nearest snapshot to {stamp(moment)}: {stamp(past.taken_at)} UTC."


def draw_bar(
    config: Config, cluster: Cluster, saved: SavedSnapshots, stored: CachedSnapshot
) -> None:
    """Draw the bar of a page that is not live: which moment, earlier, later, back to live.

    Args:
        config: The configuration.
        cluster: The chosen one.
        stored: The snapshot that the page shows.
    """
    moment, now = stored.taken_at, services.now()
    st.session_state[_PICKED] = moment.astimezone(UTC).replace(tzinfo=None, second=0, microsecond=0)
    with st.container(key="past", horizontal=True, vertical_alignment="center", gap="small"):
        age = format_ago((now - moment).total_seconds())
        st.markdown(
            f":material/history: **Not live:** {stamp(moment)} UTC · {age}", width="content"
        )
        st.space("stretch")
        st.datetime_input(
            "Point in time (UTC)",
            max_value=max(now, moment).astimezone(UTC).replace(tzinfo=None, microsecond=0),
            step=60,
            format="YYYY-MM-DD",
            key=_PICKED,
            label_visibility="collapsed",
            width=215,
            on_change=_take_picked,
        )
        for label, key, step in (("Earlier", "j", -_STEP), ("Later", "k", _STEP)):
            st.button(
                label,
                key=f"_{label.lower()}",
                shortcut=key,
                help=f"One minute {label.lower()}",
                on_click=_step,
                args=(config, cluster, saved, moment, step),
            )
        st.button("Back to live", key="_back_to_live", shortcut="l", on_click=_to_newest)


def _to_newest() -> None:
    st.session_state[state.AT] = state.LIVE


def _take_picked() -> None:
    picked = st.session_state.get(_PICKED)
    if isinstance(picked, datetime):
        st.session_state[state.AT] = stamp(picked.replace(tzinfo=UTC))


def _step(
    config: Config, cluster: Cluster, saved: SavedSnapshots, moment: datetime, step: timedelta
) -> None:
    """Show the snapshot a step before or after a moment; behind the newest one is live."""
    try:
        if step > timedelta(0):
            at = first_after(config, cluster, saved, moment + step)
        else:
            past = latest_before(config, cluster, saved, moment + step)
            at = None if past is None else past.taken_at
            if at is None:
                st.toast("No earlier snapshot recorded.")
                return
    except SnapshotError as error:
        st.toast(words.plain(str(error)), duration="long")
        return
    st.session_state[state.AT] = state.LIVE if at is None else stamp(at)
