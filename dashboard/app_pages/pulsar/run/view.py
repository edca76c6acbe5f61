"""Predicted vs. actual of a run on a Pulsar cluster: each touched broker."""

from __future__ import annotations

import streamlit as st

from core.actions.views import RunView
from dashboard import state
from dashboard.app_pages.pulsar.run import model
from dashboard.app_pages.pulsar.run.charts import outcome_bars
from dashboard.components import figures, frame, tables, words


def draw_outcome(view: RunView) -> None:
    """Show each touched broker before, as expected and as measured, if bundles were placed."""
    if not view.plan.is_placed_by_cluster:
        return
    words.section("Predicted vs. actual", "Grey: before. Diamond: expected. Circle: measured.")
    quantity = st.segmented_control(
        "Quantity",
        list(model.QUANTITIES),
        default="traffic",
        required=True,
        key=state.QUANTITY,
        bind="query-params",
        label_visibility="collapsed",
    )
    _draw_brokers(view, quantity or "traffic")


def _draw_brokers(view: RunView, quantity: str) -> None:
    data = model.outcome(view, quantity)
    st.caption(words.plain(model.outcome_sentence(view)))
    if data.brokers:
        figures.chart(
            outcome_bars(data),
            key="run_outcome",
            alt=f"{quantity} of the touched brokers: before, expected, measured",
        )
        rows = model.outcome_table(view)
        tables.table(
            rows,
            {
                "broker": tables.opener("Broker", "_run_broker", frame.broker_link),
                **{
                    f"{what}_{when}": tables.words(f"{what.capitalize()} {label}")
                    for what in model.QUANTITIES
                    for when, label in (
                        ("before", "before"),
                        ("expected", "expected"),
                        ("came", "measured"),
                    )
                },
            },
            key="run_brokers",
            alt="Touched brokers before, as expected and as measured",
            height=min(300, tables.height_of(len(rows))),
        )
