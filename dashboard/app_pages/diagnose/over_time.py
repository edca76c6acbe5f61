"""The tab Over time: flapping and its reasons, and the setting that prevents it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import streamlit as st

from core.diagnosis.systems import system_of
from core.errors import OpsError
from dashboard import state
from dashboard.app_pages.diagnose import model
from dashboard.app_pages.diagnose.queries import over_time, search_over_time, span_end
from dashboard.components import tables, words

if TYPE_CHECKING:
    from core.history.analysis.diagnosis import PeriodDiagnosis
    from dashboard.app_pages.diagnose.system import DiagnoseSystem
    from dashboard.components.frame import FleetContext
    from dashboard.services import Cluster

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
            placeholder="Object (optional)",
            width=420,
        )
        st.button("Reload", icon=":material/refresh:", type="tertiary", on_click=_again)
    try:
        end = _end(context, cluster)
    except OpsError as error:
        words.failed(error, what="Could not read the history")
        return
    if end is None:
        st.info(f"No history of {words.plain(cluster)} yet.", icon=":material/history:")
        return
    key = (cluster, PERIODS[str(period)], str(name or "").strip(), end)
    found = over_time.wait(key, _AT_ONCE_S)
    if found is None:
        _wait_for(key)
    elif isinstance(found, str):
        st.error(words.plain(found))
    else:
        _draw_found(found, context.choice.cluster)


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
    share, label = model.replay_progress(search_over_time.of(key))
    st.progress(share, text=f":material/hourglass_top: {words.plain(label)}")


def _draw_found(diagnosis: PeriodDiagnosis, cluster: Cluster) -> None:
    words.answer(diagnosis.answer)
    for sentence in diagnosis.prevention.sentences:
        st.caption(words.plain(sentence))
    fix = diagnosis.prevention.fix
    command = system_of(cluster.kind).fix_command(fix, cluster.name)
    lines = [*filter(None, [command]), *fix.lines]
    if lines:
        st.code("\n".join(lines), language="bash", wrap_lines=True)
    left, right = st.columns(2, gap="medium")
    with left:
        words.section("Prevention", "Actual, replayed, with the best setting")
        runs = model.prevention_rows(diagnosis.prevention)
        tables.table(
            runs,
            {
                "run": tables.words("Run"),
                "moves": tables.whole("Moves"),
                "back": tables.whole("Returned", "Moves back to a previous broker or node."),
                "deviation": tables.percent(
                    "Deviation p95", "Max deviation, p95 over the minutes."
                ),
            },
            key="prevention",
            alt="Moves, returned moves and deviation: recorded, replayed and with the setting",
            height=tables.height_of(len(runs)),
        )
    with right:
        words.section("Verdicts", f"{diagnosis.samples} minutes sampled")
        verdicts = model.verdict_rows(diagnosis)
        tables.table(
            verdicts,
            {"minutes": tables.whole("Minutes"), "verdict": tables.words("Next round")},
            key="verdicts",
            alt="Next shedding decision by number of minutes",
            height=tables.height_of(len(verdicts), tables.WRAPPED_ROW_PX),
            row_px=tables.WRAPPED_ROW_PX,
        )
    events = model.event_rows(diagnosis)
    if not events.empty:
        words.section("Moves", "with the verdict of the previous minute")
        tables.table(
            events,
            {
                "when": st.column_config.DatetimeColumn("Time (UTC)", format="HH:mm:ss"),
                "source": tables.words("From"),
                "destination": tables.words("To"),
                "by": tables.words("By"),
                "why": tables.words("Reason"),
            },
            key="past_moves",
            alt="Moves of the object with reasons",
            height=tables.height_of(len(events)),
        )
    causes = model.rows_of(diagnosis.worst)
    words.section("Causes", f"at the max deviation, {diagnosis.worst_at:%Y-%m-%d %H:%M} UTC")
    if causes.empty:
        st.caption(words.plain(diagnosis.worst.answer))
        return
    tables.table(
        causes,
        {
            "cause": tables.words("Cause"),
            "objects": tables.words("Object"),
            "now": tables.percent("Deviation", "Max deviation from the mean without the fix."),
            "fixed": tables.percent("With the fix"),
            "moves": tables.whole("Moves"),
            "back": tables.whole("Returned"),
        },
        key="past_causes",
        alt="Causes at the max deviation with the effect of each fix",
        height=tables.height_of(len(causes)),
    )
