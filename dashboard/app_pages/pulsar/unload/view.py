"""Widgets of the unload preview: each move, other changes, who gets a bundle."""

from __future__ import annotations

import pyarrow as pa
import streamlit as st

from core.plan.model import Plan
from core.pulsar.plan.preview import Preview
from core.pulsar.steps.base import policy_change_of
from dashboard import state
from dashboard.components import action_bar, frame, tables, words
from dashboard.components.pulsar import policy_changes
from dashboard.components.pulsar.placement import placement_panel
from dashboard.legible import option
from dashboard.presenters.pulsar import unload as presenter


def draw_hottest(bundles: pa.Table) -> None:
    """Draw the hottest bundles to choose from.

    Args:
        bundles: Those that can move.
    """
    rows = presenter.hottest_table(bundles)
    names = rows["bundle"].tolist()

    def choose() -> None:
        click = st.session_state.get("_unload_choose")
        if click is not None:
            st.session_state[state.BUNDLES] = [names[click["row"]]]

    words.section("Hottest bundles")
    tables.table(
        rows,
        {
            "bundle": tables.opener("Bundle", "_hot_bundle", frame.bundle_link),
            "owner": tables.opener("Broker", "_hot_owner", frame.broker_link, is_pinned=False),
            "throughput": tables.megabytes("Traffic"),
            "msg_rate": tables.rate("Rate"),
            "topics": tables.whole("Topics"),
            "clients": tables.whole("Clients"),
            "action": st.column_config.ButtonColumn(
                "", on_click=choose, key="_unload_choose", width=90
            ),
        },
        key="unload_hottest",
        alt="Bundles with broker, hottest first",
        height=tables.height_of(len(rows)),
    )


def draw_moves(preview: Preview) -> None:
    """Draw each move."""
    rows = presenter.steps_table(preview)
    tables.table(
        rows,
        {
            "bundle": tables.opener("Bundle", "_step_bundle", frame.bundle_link, is_pinned=False),
            "from": tables.opener("From", "_step_owner", frame.broker_link, is_pinned=False),
            "to": tables.words("To", "Most probable destination and its probability."),
            "traffic": tables.megabytes("Traffic"),
            "clients": tables.whole("Clients"),
            "topics": tables.whole("Topics"),
        },
        key="unload_steps",
        alt="Steps of the plan",
        height=min(360, tables.height_of(len(rows))),
    )


def draw_changes(plan: Plan, preview: Preview) -> None:
    """Draw the other changes of the plan."""
    policy_changes.draw_difference(plan, key="undo_difference")
    others = [one.step for one in preview.others if policy_change_of(one.step) is None]
    words.notes([f"{step.describe()}." for step in others])


def draw_candidates(preview: Preview) -> None:
    """Draw the destination of a bundle, and why no other broker is chosen."""
    names = [step.step.bundle for step in preview.steps]
    chosen = names[0]
    if len(names) == 1 or st.query_params.get(state.STEP, chosen) not in names:
        st.query_params.pop(state.STEP, None)  # of a plan before this one
        st.session_state.pop(state.STEP, None)
    if len(names) > 1:
        chosen = (
            st.selectbox("Step", names, format_func=option, key=state.STEP, bind="query-params")
            or names[0]
        )
    step = preview.steps[names.index(chosen)]
    placement_panel(step.placement, key="unload")


def effects(preview: Preview) -> list[action_bar.PlanFigure]:
    """Return the figures of a plan without unloads; empty: those of its unloads are shown."""
    if preview.steps:
        return []
    return [
        action_bar.PlanFigure(label="Changes", value=f"{len(preview.others):,}", note="planned")
    ]
