"""Columns and panels of what brokers expose as metrics."""

from __future__ import annotations

import streamlit as st

from dashboard.components import tables, words


def columns() -> dict[str, tables.Column]:
    """Return the columns of the brokers table that metrics fill."""
    return {
        "told_traffic": tables.megabytes(
            "Traffic (metrics)", "In plus out, from the metrics; Traffic is from the load report."
        ),
        "gc": tables.percent("GC", "Share of time in garbage collection pauses."),
        "heap": tables.percent("Heap", "Used heap, before or after a collection."),
        "write_p99": _milliseconds("Write p99", "p99 of storage writes in the last minute."),
        "publish_p99": _milliseconds("Publish p99", "p99 of publish latency."),
        "lookups_pending": tables.whole("Lookups", "Pending lookups."),
    }


def panel(facts: dict[str, str], broker: str) -> None:
    """Render the metrics of one broker; nothing where there are none."""
    if not facts:
        return
    words.section("Metrics", "Metrics exposed in addition to the load report.")
    st.table(
        {name: words.plain(text) for name, text in facts.items()},
        border="horizontal",
        alt=f"Metrics of {broker}",
    )


def source_line(source: str, counted: str) -> None:
    """Render the counters of the balancer; the source of the columns is the help."""
    st.caption(counted or source, help=source if counted else None)


def _milliseconds(label: str, help_text: str) -> tables.Column:
    return st.column_config.NumberColumn(f"{label} ms", format="%,.1f", help=help_text)
