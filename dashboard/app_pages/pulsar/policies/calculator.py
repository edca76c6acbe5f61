"""The quota calculator: shares of a limit by both formulas, and their values over time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import streamlit as st

from core.errors import OpsError
from core.planning.limits.groups import PERIOD, QUANTITIES, period_of
from dashboard import state
from dashboard.app_pages.pulsar.policies import model
from dashboard.app_pages.pulsar.policies.charts import MAX_LINES, timeline_figure
from dashboard.components import figures, tables, words
from dashboard.legible import option
from dashboard.queries.pulsar import policies

if TYPE_CHECKING:
    import pandas as pd

    from dashboard.components.pulsar.page import PulsarPage

_LIMIT: Final = "100"
_USAGE: Final = "10,50,30"
_STEPS: Final = "5:10,50,30; 10:80,50,30; 15:80,0,30"
_TOLERANCE: Final = "5"

_FACTS: Final = (
    (
        "Upstream: ResourceQuotaCalculatorImpl, share = own + (limit - total) * own / total, "
        "single precision, truncated, min 1. PIP-82: the same, not truncated."
    ),
    (
        "Shares follow the last reports. Changes within the tolerance are reported after at "
        "most five intervals; a drop to zero alone is not reported."
    ),
    "The last report of a failed broker remains included.",
    "Brokers compute dispatch shares as well but do not apply them; only publishers are throttled.",
)


def draw_calculator(page: PulsarPage, limits: policies.ClusterLimits) -> None:
    """Draw the calculator and the simulation; both are wholly in the address."""
    _from_cluster(page, limits)
    with st.container(horizontal=True, vertical_alignment="bottom"):
        limit = _text("Group limit (1/s)", state.LIMIT, _LIMIT, width=240)
        usage = _text("Use per broker (1/s)", state.USAGE, _USAGE, width=420)
    try:
        rows = model.calculated(limit, usage)
        st.markdown(words.plain(model.calculated_answer(rows, limit)))
        _table(rows)
    except OpsError as error:
        words.failed(error, what="Calculation failed")
    words.notes(_FACTS)
    _draw_timeline(page, limit)


def _text(label: str, key: str, default: str, *, width: int, help_text: str = "") -> str:
    value = st.text_input(
        label, value=default, key=key, bind="query-params", width=width, help=help_text or None
    )
    return value or ""


def _from_cluster(page: PulsarPage, limits: policies.ClusterLimits) -> None:
    if not limits.groups:
        st.caption("No resource groups on this cluster. Example values from PIP-82.")
        return
    with st.container(horizontal=True, vertical_alignment="bottom"):
        name = st.selectbox(
            "Live values",
            [group.name for group in limits.groups],
            format_func=option,
            key="_calculator_group",
            width=240,
        )
        quantity = st.selectbox(
            "Quantity",
            list(QUANTITIES),
            format_func=lambda key: QUANTITIES[key].title,
            key="_calculator_quantity",
            width=200,
        )
        st.button(
            "Copy values",
            icon=":material/download:",
            on_click=_take,
            args=(page, name, quantity),
        )


def _take(page: PulsarPage, name: str, quantity: str) -> None:
    shared = policies.shared_of((page.stored, name, quantity))
    used = [f"{value:.0f}" for value in shared.used if value > 0]
    st.session_state[state.LIMIT] = str(shared.limit)
    st.session_state[state.USAGE] = ",".join(used) or "0"


def _table(rows: pd.DataFrame) -> None:
    tables.table(
        rows,
        {
            "broker": tables.words("Broker"),
            "used": tables.whole("Use"),
            "upstream": tables.whole("Share (upstream)", "-1: no limit."),
            "published": st.column_config.NumberColumn("Share (PIP-82)", format="%,.2f"),
            "room": st.column_config.NumberColumn("Headroom", format="%+,.1f"),
        },
        key="calculator_table",
        alt="Use and share of each broker by both formulas",
    )


def _draw_timeline(page: PulsarPage, limit: str) -> None:
    words.section("Over time", "Circles: reports. Lines: shares per interval.")
    with st.container(horizontal=True, vertical_alignment="bottom"):
        steps = _text(
            "Client demand (PERIODS:A,B,C; …)",
            state.STEPS,
            _STEPS,
            width=420,
            help_text="Demand per broker (1/s) for a number of periods.",
        )
        period = _text(
            "Report interval (s)",
            state.PERIOD,
            str(period_of(page.reading.settings)),
            width=150,
            help_text=f"{PERIOD}; default: value of this cluster.",
        )
        tolerance = _text(
            "Tolerance (%)",
            state.TOLERANCE,
            _TOLERANCE,
            width=120,
            help_text="Smaller changes of use are not reported; fixed at 5 in brokers.",
        )
    try:
        data, timeline = model.timeline_data(limit, steps, period=period, tolerance=tolerance)
    except OpsError as error:
        words.failed(error, what="Simulation failed")
        return
    sentence = model.timeline_answer(data, timeline)
    st.markdown(words.plain(sentence))
    figures.chart(timeline_figure(data), key="share_course", alt=sentence)
    if len(data.brokers) > MAX_LINES:
        st.caption(f"First {MAX_LINES} of {len(data.brokers)} brokers are drawn.")
    tables.downloads(
        model.timeline_table(data, timeline),
        cluster=page.name,
        what="course",
        moment=page.stored.taken_at,
    )
