"""Columns and panels of what brokers expose as metrics."""

from __future__ import annotations

import streamlit as st

from dashboard.components import tables, words


def columns() -> dict[str, tables.Column]:
    """Return the columns of the brokers table that metrics fill."""
    return {
        "told_traffic": tables.megabytes(
            "Traffic (metrics)", "In plus out by the metrics; Traffic is by the load report."
        ),
        "gc": tables.percent("GC", "Share of the time in pauses of garbage collection."),
        "heap": tables.percent("Heap", "Heap in use; it goes up and down with each collection."),
        "write_p99": _milliseconds(
            "Write p99", "99th percentile of storage writes of the last minute."
        ),
        "publish_p99": _milliseconds("Publish p99", "99th percentile of publishes."),
        "lookups_pending": tables.whole("Lookups", "Lookups that wait for an answer."),
    }


def panel(facts: dict[str, str], broker: str) -> None:
    """Show what the metrics tell of one broker; nothing where there are none."""
    if not facts:
        return
    words.section("Metrics", "What the broker exposes in addition to its load report.")
    st.table(
        {name: words.plain(text) for name, text in facts.items()},
        border="horizontal",
        alt=f"Metrics of {broker}",
    )


def source_line(source: str, counted: str) -> None:
    """Say what the balancer counted; where the columns come from is its help."""
    st.caption(counted or source, help=source if counted else None)


def _milliseconds(label: str, help_text: str) -> tables.Column:
    return st.column_config.NumberColumn(f"{label} ms", format="%,.1f", help=help_text)
