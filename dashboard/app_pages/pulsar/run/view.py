"""Predicted vs. actual of a run on a Pulsar cluster: each touched broker."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import streamlit as st

from core.actions.views import RunView
from dashboard import state
from dashboard.app_pages.pulsar.run import model
from dashboard.app_pages.run.charts import outcome_bars
from dashboard.app_pages.run.system import OutcomeSystem
from dashboard.components import figures, frame, tables, words

if TYPE_CHECKING:
    from dashboard.presenters.figures import KeyFigure


class PulsarOutcome:
    """Pulsar; see :class:`dashboard.app_pages.run.system.OutcomeSystem`."""

    def is_predicted(self, view: RunView) -> bool:
        """Return whether the run unloads bundles, which the cluster places."""
        return view.plan.is_placed_by_cluster

    def figures(self, view: RunView) -> list[KeyFigure]:
        """Return the max deviation, measured, predicted and before."""
        return [model.deviation_figure(view)] if self.is_predicted(view) else []

    def draw_links(self, view: RunView) -> None:
        """Nothing goes on after its end."""

    def draw_chart(self, view: RunView) -> None:
        """Draw each touched broker before, as predicted and as measured."""
        quantity = st.segmented_control(
            "Quantity",
            list(model.QUANTITIES),
            default="traffic",
            required=True,
            key=state.QUANTITY,
            bind="query-params",
            label_visibility="collapsed",
        )
        data = model.outcome(view, quantity or "traffic")
        figures.chart(
            outcome_bars(data), key="run_outcome", alt=words.plain(model.outcome_sentence(view))
        )
        doubt = model.doubt(view)
        if doubt:
            st.caption(words.plain(doubt))

    def draw_table(self, view: RunView) -> None:
        """Draw the same numbers, traffic and usage."""
        rows = model.outcome_table(view)
        tables.table(
            rows,
            {
                "broker": tables.opener("Broker", "_run_broker", frame.broker_link),
                **{
                    f"{what}_{when}": st.column_config.TextColumn(
                        f"{what.capitalize()} {label}", alignment="right"
                    )
                    for what in model.QUANTITIES
                    for when, label in (
                        ("before", "before"),
                        ("expected", "predicted"),
                        ("came", "measured"),
                    )
                },
            },
            key="run_brokers",
            alt="Affected brokers: before, predicted, measured",
            height=min(300, tables.height_of(len(rows))),
        )


PULSAR: Final[OutcomeSystem] = PulsarOutcome()
