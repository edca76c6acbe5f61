"""The tab Over time: what moved and came back, why, and what would have prevented it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import streamlit as st

from core.errors import OpsError
from dashboard import state
from dashboard.app_pages.diagnose import model
from dashboard.app_pages.diagnose.queries import over_time, span_end
from dashboard.components import tables, words

if TYPE_CHECKING:
    from core.history.analysis.diagnosis import OverTime
    from dashboard.app_pages.diagnose.system import DiagnoseSystem
    from dashboard.components.frame import FleetContext

_LOOK_EVERY_S: Final = 1.0
_AT_ONCE_S: Final = 0.4
_FROZEN: Final = "_diagnosed_until"
PERIODS: Final = {"1 h": 1, "6 h": 6, "24 h": 24}


def draw(context: FleetContext, system: DiagnoseSystem) -> None:
    """Draw the choice of period and object, and the answer once it is there."""
    cluster = context.choice.cluster.name
    with st.container(horizontal=True, vertical_alignment="bottom"):
        period = st.segmented_control(
            "Period",
            list(PERIODS),
            default="6 h",
            required=True,
            key=state.DIAGNOSED_PERIOD,
            bind="query-params",
        )
        name = st.text_input(
            system.subject,
            key=state.DIAGNOSED_NAME,
            bind="query-params",
            placeholder="Optional: why it moved",
            width=420,
        )
        st.button("Read again", icon=":material/refresh:", type="tertiary", on_click=_again)
    try:
        end = _end(context, cluster)
    except OpsError as error:
        words.failed(error, what="The record cannot be read")
        return
    if end is None:
        st.info(f"Nothing is recorded of {words.plain(cluster)} yet.", icon=":material/history:")
        return
    key = (cluster, PERIODS[str(period)], str(name or "").strip(), end)
    found = over_time.wait(key, _AT_ONCE_S)
    if found is None:
        _wait_for(key)
    elif isinstance(found, str):
        st.error(words.plain(found))
    else:
        _draw_found(found, system, cluster)


def _end(context: FleetContext, cluster: str) -> Any:
    """Return the newest recorded minute; the one that was read first stays until it is left."""
    frozen = st.session_state.get(_FROZEN)
    if frozen is None or frozen[0] != cluster:
        frozen = st.session_state[_FROZEN] = (cluster, span_end(context.config, cluster))
    return frozen[1]


def _again() -> None:
    st.session_state.pop(_FROZEN, None)


@st.fragment(run_every=_LOOK_EVERY_S)
def _wait_for(key: tuple[Any, ...]) -> None:
    """Look until the answer is there, then draw the page with it."""
    if over_time(key) is not None:
        st.rerun()
    st.caption(":material/hourglass_top: The record is being replayed; nothing is sent.")


def _draw_found(found: OverTime, system: DiagnoseSystem, cluster: str) -> None:
    words.answer(found.answer)
    for sentence in found.prevention.sentences:
        st.caption(words.plain(sentence))
    fix = found.prevention.fix
    lines = [*filter(None, [system.command(fix, cluster)]), *fix.lines]
    if lines:
        st.code("\n".join(lines), language="bash", wrap_lines=True)
    left, right = st.columns(2, gap="medium")
    with left:
        words.section("Prevention", "The setting that would have kept the period calm.")
        runs = model.prevention_rows(found.prevention)
        tables.table(
            runs,
            {
                "run": tables.words("Run"),
                "moves": tables.whole("Moves"),
                "back": tables.whole("Back", "Moves to where it had been."),
                "deviation": tables.percent("Deviation p95", "Of the farthest server, by minute."),
            },
            key="prevention",
            alt="Moves, returned moves and deviation: recorded, replayed, with the setting",
            height=tables.height_of(len(runs)),
        )
    with right:
        words.section("Verdicts", f"Of {found.samples} minutes, evenly over the period.")
        verdicts = model.verdict_rows(found)
        tables.table(
            verdicts,
            {"minutes": tables.whole("Minutes"), "verdict": tables.words("Next round")},
            key="verdicts",
            alt="What the balancer would have done next, by number of minutes",
            height=tables.height_of(len(verdicts)),
        )
    events = model.event_rows(found)
    if not events.empty:
        words.section("Moves", "The verdict is that of the minute before.")
        tables.table(
            events,
            {
                "when": st.column_config.DatetimeColumn("When (UTC)", format="HH:mm:ss"),
                "source": tables.words("From"),
                "destination": tables.words("To"),
                "by": tables.words("By"),
                "why": tables.words("Why"),
            },
            key="past_moves",
            alt="Moves of the object in question, with the reason of each",
            height=tables.height_of(len(events)),
        )
    causes = model.rows_of(found.worst)
    words.section("Causes", f"Where it was least even: {found.worst_at:%Y-%m-%d %H:%M} UTC.")
    if causes.empty:
        st.caption(words.plain(found.worst.answer))
        return
    tables.table(
        causes,
        {
            "cause": tables.words("Cause"),
            "objects": tables.words("Object"),
            "now": tables.percent("Then", "Max deviation from the mean, without the fix."),
            "fixed": tables.percent("With the fix"),
            "moves": tables.whole("Moves"),
            "back": tables.whole("Back"),
        },
        key="past_causes",
        alt="Causes in the least even minute, with the effect of the fix of each",
        height=tables.height_of(len(causes)),
    )
