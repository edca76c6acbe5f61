"""The tabs of the page of one broker; each is computed when it is opened."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import streamlit as st

from dashboard.app_pages.pulsar.broker import model
from dashboard.components import frame, tables, words
from dashboard.components.activity import past_of
from dashboard.components.pulsar import explain, metrics
from dashboard.presenters.moves import moves_frame, moves_sentence
from dashboard.presenters.pulsar.metrics import facts as metric_facts
from dashboard.queries.pulsar.explanations import likely_destinations
from dashboard.queries.pulsar.snapshots import bundle_trends
from dashboard.queries.snapshots import thinned

if TYPE_CHECKING:
    from datetime import timedelta

    import pandas as pd
    import pyarrow as pa

    from core.pulsar.measures import Measures
    from core.snapshot.store import CachedSnapshot
    from dashboard.components.pulsar.page import PulsarPage
    from dashboard.presenters.moves import ObservedMove

_MAX_ROWS: Final = 500
_MAX_DETAILED: Final = 40
"""The hottest bundles have a trend and a likely destination; the others have neither."""

_TREND_POINTS: Final = 12
_IN_SIGHT: Final = 12
_MAX_LISTED: Final = 16


def draw_brokers(measures: Measures) -> None:
    """Draw the brokers, the one with most traffic first; a click opens one."""
    words.section("Brokers by traffic", "Click one to open it.")
    rows = model.brokers_table(measures)
    tables.table(
        rows,
        {
            "broker": tables.opener("Broker", "_broker_listed", frame.broker_link, width_px=260),
            "traffic": tables.megabytes("Traffic"),
            "deviation": st.column_config.TextColumn("Deviation vs. mean", alignment="right"),
            "usage": tables.share("Usage"),
            "bundles": tables.whole("Bundles"),
        },
        key="brokers_to_open",
        alt="Brokers by traffic; click a broker to open it",
        height=tables.height_within(len(rows), _MAX_LISTED),
        missing="unknown",
    )


def bundles_tab(
    page: PulsarPage, broker: str, mine: pa.Table, entries: Sequence[CachedSnapshot]
) -> list[str]:
    """Show the broker's bundles, and return the selected ones.

    Args:
        page: Of the cluster.
        broker: Its id.
        mine: Its bundles, hottest first.
        entries: Saved snapshots of the last hours, oldest first.
    """
    if mine.num_rows == 0:
        st.info("No movable bundles.", icon=":material/inbox:")
        return []
    hottest = mine["bundle"].slice(0, _MAX_DETAILED).to_pylist()
    rows = model.bundle_rows(
        mine.slice(0, _MAX_ROWS),
        page.reading.measures.throughput.value_of(broker),
        bundle_trends(thinned(entries, _TREND_POINTS), hottest),
        likely_destinations((page.stored, tuple((name, broker) for name in hottest))),
    )
    names = rows["bundle"].tolist()

    def unload() -> None:
        click = st.session_state.get("_broker_unload")
        if click is not None:
            frame.unload_link([names[click["row"]]])

    shared = model.shared_destination(rows)
    likely = tables.words("Likely destination", "Most probable destination for an unload now.")
    if shared:
        st.caption(words.plain(f"Likely destination of each bundle: {shared}."))
    picked = tables.table(
        rows,
        {
            "bundle": tables.opener("Bundle", "_broker_bundle", frame.bundle_link),
            "part": tables.share(
                "Share of broker",
                width_px=116,
            ),
            "throughput": tables.megabytes("Traffic", width_px=88),
            "trend": tables.sparkline(
                "Trend", "Traffic of the hottest bundles in saved snapshots."
            ),
            "clients": tables.whole("Clients", width_px=62),
            **({} if shared else {"likely": likely}),
            "action": st.column_config.ButtonColumn(
                "", on_click=unload, key="_broker_unload", width=84
            ),
        },
        key="broker_bundles",
        alt=f"Bundles of {broker}, hottest first",
        height=tables.height_within(len(rows), _IN_SIGHT),
        selection="multi-row",
        names=names,
    )
    tables.downloads(
        rows.drop(columns=["trend", "action"]),
        cluster=page.name,
        what=f"bundles-of-{broker}",
        moment=page.stored.taken_at,
    )
    return [names[at] for at in picked]


def shedding_tab(page: PulsarPage, broker: str) -> None:
    """Draw the shedding decision of the broker, and the times of its reports."""
    explain.shedding_panel(page, broker)
    explain.reports_panel(page, broker)


def latency_tab(page: PulsarPage, broker: str) -> None:
    """Render the metrics of the broker."""
    facts = metric_facts(page.reading.snapshot, broker)
    if not facts:
        st.info(
            "No metrics of this broker. Configure a source under [clusters.prometheus] in "
            "trimtab.toml.",
            icon=":material/query_stats:",
        )
        return
    metrics.panel(facts, broker)


def events_tab(
    page: PulsarPage,
    broker: str,
    moves: Sequence[ObservedMove],
    span: timedelta,
    usage: pd.DataFrame,
    row: int,
) -> None:
    """Show gains and losses, runs, and the chart's figures.

    Args:
        page: Of the cluster.
        broker: Its id.
        moves: To and from it in the range.
        span: The range.
        usage: The chart as a table.
        row: Of the broker.
    """
    words.section("Gains and losses", moves_sentence(moves, span.total_seconds() / 60))
    if moves:
        tables.table(
            moves_frame(moves),
            {
                "seen_at": st.column_config.DatetimeColumn(
                    "Seen (UTC)", format="YYYY-MM-DD HH:mm:ss"
                ),
                "bundle": tables.opener("Bundle", "_moved_bundle", frame.bundle_link),
                "from": tables.words("From"),
                "to": tables.words("To"),
                "mark": tables.words("Flapping"),
            },
            key="broker_moves",
            alt=f"Bundles gained or lost by {broker}",
            height=tables.height_of(min(len(moves), _IN_SIGHT)),
        )
    if reported := model.reported_moves(page.reading.snapshot, row):
        st.caption(reported)
    past_of(page.config, page.name, broker, key="broker")
    words.section("Usage over time")
    tables.table(
        usage,
        {
            "at": st.column_config.DatetimeColumn("UTC", format="YYYY-MM-DD HH:mm:ss"),
            "usage": tables.percent("Usage"),
            "mean": tables.percent("Cluster mean"),
            "traffic": tables.megabytes("Traffic"),
        },
        key="broker_usage_table",
        alt=f"Usage of {broker} and the cluster's mean over time",
        height=tables.height_of(min(len(usage), _IN_SIGHT)),
    )


def settings_tab(page: PulsarPage, broker: str, row: int) -> None:
    """Show the settings that differ from other brokers', and the addresses."""
    differing = model.own_settings(page.reading.settings, broker)
    words.section("Different settings", "" if len(differing) else "None.")
    if len(differing):
        tables.grid(differing, hide_index=True, key="broker_settings", alt="Different settings")
    found = model.facts(page.reading.snapshot, row)
    facts = {name: words.plain(text) for name, text in found.items()}
    st.table(facts, border="horizontal", alt=f"Facts about {broker}")
