"""Compare and Cost of the Rebalance page: effect and cost of candidates, cost of the plan."""

from __future__ import annotations

from typing import TYPE_CHECKING

import streamlit as st

from dashboard.app_pages.pulsar.rebalance import queries
from dashboard.charts.efficiency import efficiency_lines
from dashboard.components import figures, frame, tables, words
from dashboard.presenters.pulsar import rebalance as presenter
from dashboard.presenters.pulsar import rebalance_plan

if TYPE_CHECKING:
    from core.optimize import Proposal
    from core.pulsar.plan.preview import Preview
    from dashboard.app_pages.pulsar.rebalance.candidates import CandidateChoice


def draw_compared(
    choice: CandidateChoice, lines: list[presenter.StrategyRow], target_ratio: float
) -> None:
    """Draw the effect of each candidate against its moved traffic, and its settings."""
    left, right = frame.columns([0.45, 0.55], key="compare")
    with left:
        efficiency_curves = presenter.efficiency_curves(lines, choice.optimal, queries.OPTIMIZER)
        if efficiency_curves:
            figures.chart(
                efficiency_lines(efficiency_curves, goal_ratio=target_ratio),
                key="rebalance_ways",
                alt="Deviation vs. traffic moved, one line per candidate",
            )
        else:
            st.caption("No moves, or rounds not simulated.")
    with right:
        rows = presenter.table(lines, choice.optimal, queries.OPTIMIZER)
        tables.table(
            rows,
            {
                "candidate": tables.words("Strategy", width_px=150),
                "mark": tables.words("Status", width_px=76),
                "now": tables.whole("Next round", "Bundles unloaded in the next round."),
                "one": tables.percent("1 round (±)", "Deviation band after one round."),
                "after": tables.percent("Converged (±)", "Deviation band at convergence."),
                "flaps": tables.whole("Returned", "Bundles that return to a previous broker."),
            },
            key="compared",
            alt="Candidates round by round",
            missing="-",
        )
        picked = tables.table(
            rows.assign(settings=tables.shortened(rows["settings"], 24)),
            {
                "candidate": tables.words("Strategy", width_px=150),
                "placement": tables.words("Placement strategy", width_px=168),
                "pair": tables.words("Pair", "AvgShedder requires both strategies.", width_px=70),
                "settings": tables.words("Settings", "Select a row to show all settings."),
            },
            key="compared_settings",
            alt="Candidates with placement strategy and settings",
            missing="-",
            selection="single-row",
        )
        for row in picked:
            st.caption(words.plain(rows["settings"].iloc[row] or "No settings."))
        failed = {line.name: line.simulated for line in lines if isinstance(line.simulated, str)}
        words.notes([f"{name}: {why}" for name, why in failed.items()])


def draw_cost(preview: Preview, optimal: Proposal | None) -> None:
    """Draw the cost of the moves for clients, and the traffic between brokers.

    Args:
        preview: Of the plan.
        optimal: The optimal plan, where it is the one: with what no plan can undercut.
    """
    figures.key_figures(
        [
            figures.KeyFigure(label=label, value=value)
            for label, value in rebalance_plan.cost_figures(preview.clients, optimal)
        ],
        key="cost",
    )
    tables.table(
        rebalance_plan.transfers(preview),
        {
            "from": tables.words("From"),
            "to": tables.words("To", "Most probable destination."),
            "bundles": tables.whole("Bundles"),
            "traffic": tables.megabytes("Traffic"),
            "clients": tables.whole("Clients"),
            "topics": tables.whole("Topics"),
        },
        key="transfers",
        alt="Moves by source and destination broker",
    )
    words.notes(preview.notes)
