"""Placement candidates of a bundle, shown in the same way everywhere."""

from __future__ import annotations

import streamlit as st

from core.pulsar.placement import Placement
from core.units import pluralize
from dashboard.charts.bars import distribution_bars
from dashboard.components import figures, frame, tables, words
from dashboard.presenters.pulsar import unload as presenter


def placement_panel(placement: Placement, *, key: str) -> None:
    """Draw the distribution, its explanation, and the reasons against every other broker."""
    names, chances = presenter.ranked_distribution(placement)
    left, right = frame.columns([0.26, 0.74], key=f"{key}_placement")
    with left:
        st.markdown(f"**Destination** · {words.plain(placement.strategy)}")
        if names:
            figures.chart(
                distribution_bars(names, chances),
                key=f"{key}_distribution",
                alt=f"Most probable: {names[0]} with {chances[0] * 100:.3g} percent",
            )
            more = len(placement.distribution) - len(names)
            if more > 0:
                st.caption(f"{pluralize(more, 'other possible broker')}.")
        else:
            title = "No broker" if placement.is_known else "Unknown"
            st.warning(words.plain(placement.why), title=title, icon=":material/block:")
        if names and placement.why:
            st.caption(words.plain(placement.why))
        words.notes(placement.notes)
    with right:
        st.markdown("**Excluded brokers**")
        st.caption(words.plain(presenter.ruled_out_note(placement)))
        rows = presenter.ruled_out_table(placement)
        if len(rows):
            score = st.column_config.NumberColumn(
                "Score", format="%,.4g", help=placement.score_label or None, width=70
            )
            has_scores = bool(rows["score"].notna().any())
            tables.table(
                rows,
                {
                    "broker": tables.words("Broker"),
                    **({"score": score} if has_scores else {}),
                    "why": tables.words("Reason"),
                },
                missing="",
                key=f"{key}_ruled_out",
                alt="Excluded brokers with reasons",
                height=min(352, tables.height_of(len(rows))),
            )
