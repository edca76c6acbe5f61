"""Predicted vs. actual of a run on a Pegasus cluster: each touched node."""

from __future__ import annotations

from functools import partial
from typing import Final

import numpy as np
import streamlit as st

from core.actions.copies import CopyProgress
from core.actions.views import RunView
from core.pegasus.steps.level import LEVEL_KEY
from dashboard import state
from dashboard.app_pages.run.charts import RunOutcome, outcome_bars
from dashboard.app_pages.run.system import OutcomeSystem
from dashboard.components import figures, tables, words
from dashboard.presenters.figures import KeyFigure
from dashboard.presenters.pegasus import outcome

_QUANTITIES: Final = ("primaries", "replicas")
_MAX_BARS: Final = 24


class PegasusOutcome:
    """Pegasus; see :class:`dashboard.app_pages.run.system.OutcomeSystem`."""

    def is_predicted(self, view: RunView) -> bool:
        """Return whether the plan touches nodes, or some were counted."""
        return bool(view.plan.expected.nodes or (view.measured and view.measured.nodes))

    def figures(self, view: RunView) -> list[KeyFigure]:
        """Return the volume copied so far, the volume that the plan predicted, and the rate."""
        if not self.is_predicted(view):
            return []
        labels = {
            "so far": "Copied" if view.is_ended else "Copied so far",
            "predicted": "Copies predicted",
            "rate": "Copy rate",
        }
        progress = CopyProgress.of(view).describe()
        return [KeyFigure(label=labels[name], value=value) for name, value in progress.items()]

    def draw_links(self, view: RunView) -> None:
        """Draw the link to the cluster, whose balancer works at the level of the run."""
        if view.is_ended and any(step.subject == LEVEL_KEY for step in view.plan.steps):
            st.button(
                "Open Cluster",
                icon=":material/schema:",
                on_click=_open_cluster,
                args=(view.cluster,),
                key="_watch_cluster",
            )

    def draw_chart(self, view: RunView) -> None:
        """Draw the primaries or replicas of each touched node."""
        quantity = st.segmented_control(
            "Quantity",
            _QUANTITIES,
            default=_QUANTITIES[0],
            required=True,
            key=state.QUANTITY,
            bind="query-params",
            label_visibility="collapsed",
        )
        rows = outcome.nodes_table(view).head(_MAX_BARS)
        of = str(quantity or _QUANTITIES[0])
        before, expected, came = (
            np.asarray(rows[f"{of}_{when}"], dtype=np.float64)
            for when in ("before", "expected", "came")
        )
        figures.chart(
            outcome_bars(
                RunOutcome(
                    servers=rows["node"].tolist(),
                    before=before,
                    expected=expected,
                    came=came,
                    unit="count",
                )
            ),
            key="run_outcome",
            alt=f"{of.capitalize()} of affected nodes: before, predicted, measured",
        )
        said = outcome.count_note(view)
        if said:
            st.caption(words.plain(said))

    def draw_table(self, view: RunView) -> None:
        """Draw the same numbers, and the volume copied onto each node."""
        rows = outcome.nodes_table(view)
        tables.table(
            rows,
            {
                "node": tables.opener("Node", "_run_node", partial(_open_node, view)),
                **{
                    f"{what}_{when}": tables.whole(f"{what.capitalize()} {label}")
                    for what in _QUANTITIES
                    for when, label in (
                        ("before", "before"),
                        ("expected", "predicted"),
                        ("came", "counted"),
                    )
                },
                "received_mb": tables.size("Copied to node"),
            },
            key="run_nodes",
            alt="Affected nodes: before, predicted, measured",
            height=min(300, tables.height_of(len(rows))),
        )


def _open_node(view: RunView, node: str) -> None:
    st.session_state[state.CLUSTER] = view.cluster
    state.go("pegasus", cluster=view.cluster, node=node)


def _open_cluster(cluster: str) -> None:
    state.go("pegasus", cluster=cluster)


PEGASUS: Final[OutcomeSystem] = PegasusOutcome()
