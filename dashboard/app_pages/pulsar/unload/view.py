"""Widgets of the unload preview: what the moves change, each of them, who gets a bundle."""

from __future__ import annotations

import streamlit as st

from core.pulsar.plan.preview import Preview
from dashboard import state
from dashboard.charts.bars import before_after_bars
from dashboard.components import figures, frame, tables, words
from dashboard.components.pulsar.placement import placement_panel
from dashboard.legible import option
from dashboard.presenters.pulsar import unload as presenter


def draw_moves(preview: Preview) -> None:
    """Draw what the unloads change, and each of them."""
    words.section("Before and after", "Grey: now. Diamond: expected after; the bar its range.")
    quantity = st.segmented_control(
        "Quantity",
        list(presenter.QUANTITIES),
        default="traffic",
        required=True,
        key="quantity",
        bind="query-params",
        label_visibility="collapsed",
    )
    figures.chart(
        before_after_bars(presenter.before_after(preview.before_after, quantity or "traffic")),
        key="unload_before_after",
        alt=f"{quantity} of the brokers before and after the unload",
    )

    words.section("Steps", f"Clients affected: {preview.clients.sentence()}")
    rows = presenter.steps_table(preview)
    tables.table(
        rows,
        {
            "from": tables.words("From"),
            "to": tables.words("To", "Most probable destination and its probability."),
            "bundle": tables.opener("Bundle", "_step_bundle", frame.bundle_link, is_pinned=False),
            "clients": tables.whole("Clients"),
            "traffic": tables.megabytes("Traffic"),
            "topics": tables.whole("Topics"),
        },
        key="unload_steps",
        alt="Steps of the plan",
    )
    with st.container(horizontal=True, gap="small"):
        for owner in list(dict.fromkeys(step.step.owner for step in preview.steps))[:3]:
            st.button(
                words.plain(f"Open {owner}"),
                icon=":material/dns:",
                type="tertiary",
                key=f"_owner_{owner}",
                on_click=frame.broker_link,
                args=(owner,),
            )


def draw_takers(preview: Preview) -> None:
    """Draw who gets a bundle, and why no other broker does."""
    words.section("Placement candidates")
    names = [step.step.bundle for step in preview.steps]
    chosen = names[0]
    if len(names) > 1:
        chosen = (
            st.selectbox("Step", names, format_func=option, key=state.STEP, bind="query-params")
            or names[0]
        )
    step = preview.steps[names.index(chosen)]
    placement_panel(step.placement, key="unload")
