"""The plan of the chosen candidate: before and after, the moves, what to do with it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import streamlit as st

from core.plan.model import Plan
from core.pulsar.plan.preview import Preview
from dashboard.charts.bars import before_after_bars
from dashboard.components import figures, frame, tables, words
from dashboard.components.applying import draw_choices
from dashboard.components.pulsar.applying import PulsarDialog
from dashboard.presenters.applying import remarks
from dashboard.presenters.pulsar import unload as presenter
from dashboard.presenters.pulsar.settings import is_shedding
from dashboard.services import config_option

if TYPE_CHECKING:
    from dashboard.components.pulsar.page import PulsarPage

_ICONS: Final = {
    "error": ":material/error:",
    "warning": ":material/warning:",
    "info": ":material/info:",
}


def draw_bars(preview: Preview) -> None:
    """Draw the brokers before and after."""
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
        key="rebalance_before_after",
        alt=f"{quantity} of the brokers before and after the moves",
    )


def draw_remarks(plan: Plan) -> None:
    """Say what there is to know about the plan."""
    show = {"error": st.error, "warning": st.warning, "info": st.info}
    for severity, sentences in remarks(plan).items():
        mark = "- " if len(sentences) > 1 else ""
        show[severity](
            "\n".join(mark + words.plain(one) for one in sentences), icon=_ICONS[severity]
        )


def draw_moves(preview: Preview) -> None:
    """Draw the moves."""
    rows = presenter.steps_table(preview)
    rows["wanted"] = [
        "requested" if one.step.destination else "placed by the cluster" for one in preview.steps
    ]
    tables.table(
        rows,
        {
            "from": tables.words("From"),
            "to": tables.words("To", "Most probable destination and its probability."),
            "bundle": tables.opener("Bundle", "_move_bundle", frame.bundle_link, is_pinned=False),
            "wanted": tables.words("Destination"),
            "traffic": tables.megabytes("Traffic"),
            "clients": tables.whole("Clients"),
            "topics": tables.whole("Topics"),
        },
        key="moves",
        alt="Moves of the plan",
        height=min(420, tables.height_of(len(rows))),
    )


def draw_apply(page: PulsarPage, plan: Plan, preview: Preview, *, sentence: str = "") -> None:
    """Draw what a person may do with the plan; ``sentence`` says what it would do."""
    name = draw_choices(
        PulsarDialog(
            config=page.config,
            cluster=page.cluster,
            plan=plan,
            preview=preview,
            is_past=page.is_past,
            is_shedding=is_shedding(page.reading.settings),
            sentence=sentence,
        ),
        page.now,
    )
    with st.expander("Do it by hand", icon=":material/terminal:"):
        line = (
            f'trimtab apply {name} --cluster {page.name} --reason "..."{config_option(page.config)}'
        )
        st.code(line, language="bash")
        if preview.steps:
            st.code("\n".join(one.command for one in preview.steps), language="bash")
