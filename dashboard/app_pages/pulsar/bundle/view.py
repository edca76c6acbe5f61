"""The tabs of the page of one bundle; each is computed when it is opened."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import streamlit as st

from core.errors import InputError, RemoteError
from dashboard import services, state
from dashboard.app_pages.pulsar.bundle import model
from dashboard.components import frame, tables, words
from dashboard.components.activity import past_of
from dashboard.presenters.moves import moves_frame, moves_sentence
from dashboard.presenters.pulsar.topics import read_words, web_addresses_of
from dashboard.services import pulsar

if TYPE_CHECKING:
    from datetime import datetime

    import pyarrow as pa

    from dashboard.app_pages.pulsar.bundle.model import Row
    from dashboard.charts.lines import LineSeries
    from dashboard.components.pulsar.page import PulsarPage
    from dashboard.presenters.moves import ObservedMove

_IN_SIGHT: Final = 12
_MAX_LISTED: Final = 16


def draw_hottest(bundles: pa.Table, hottest: Sequence[str]) -> None:
    """Draw the bundles with most traffic; a click opens one.

    Args:
        bundles: Of the cluster.
        hottest: Names of bundles, the one with most traffic first.
    """
    rows = model.hottest_table(bundles, hottest[:_MAX_LISTED])
    words.section("Hottest bundles", f"Top {len(rows):,} by traffic; click one to open it.")
    tables.table(
        rows,
        {
            "bundle": tables.opener("Bundle", "_bundle_listed", frame.bundle_link, width_px=360),
            "throughput": tables.megabytes("Traffic"),
            "msg_rate": tables.rate("Message rate"),
            "topic_count": tables.whole("Topics"),
            "owner": tables.words("Broker"),
        },
        key="bundles_to_open",
        alt="Bundles with most traffic; click a bundle to open it",
        height=tables.height_of(max(len(rows), 1)),
        missing="unknown",
    )


def split_link(bundle: str) -> None:
    """Open the splits of a bundle; from a callback."""
    state.go("splits", bundle=bundle)


def load_tab(
    page: PulsarPage,
    bundle: str,
    row: Row,
    times: Sequence[datetime],
    series: Sequence[LineSeries],
) -> None:
    """Show the last report against the averages, and the chart as a table."""
    left, right = st.columns([0.56, 0.44], gap="medium")
    with left:
        words.section("Averages")
        exposed = model.exposed_rates(page.reading.snapshot, row)
        st.table(model.averages_table(row, exposed), border="horizontal", alt=f"Load of {bundle}")
        st.caption(words.plain(model.samples_note(row)))
        if note := model.exposed_note(page.reading.snapshot, exposed, row["owner"]):
            st.caption(words.plain(note))
    with right:
        words.section("Traffic over time")
        rows = model.traffic_table(times, series)
        tables.table(
            rows,
            {
                "at": st.column_config.DatetimeColumn("UTC", format="YYYY-MM-DD HH:mm:ss"),
                **{
                    name: tables.megabytes(name.capitalize())
                    for name in rows.columns
                    if name != "at"
                },
            },
            key="bundle_traffic",
            alt=f"Traffic of {bundle} over time",
            height=tables.height_within(len(rows), _IN_SIGHT),
        )


def topics_tab(page: PulsarPage, bundle: str, owner: str) -> None:
    """Fetch the topics of a bundle from its owner on request, and show them."""
    address = page.cluster.web_address(*web_addresses_of(page.reading.snapshot, owner))
    if st.button("Fetch topics", icon=":material/cloud_download:", disabled=not address):
        try:
            with st.spinner(words.plain(f"Reading topics from {owner}"), show_time=True):
                topics = pulsar.fetch_topics(page.cluster, str(address), bundle)
            state.keep_topics(page.name, bundle, state.ReadTopics(topics, services.now()))
            st.rerun()
        except (RemoteError, InputError) as error:
            words.failed(error, what="Could not read the topics")
    read = state.topics_of(page.name, bundle)
    if read is None:
        st.caption("Topics are not part of a snapshot. They are read from the owner broker.")
        return
    st.caption(f"{model.topics_note(read.table)} {read_words(read.read_at, services.now())}")
    rows = model.topics_table(read.table)
    tables.table(
        rows,
        {
            "topic": tables.words("Topic"),
            "hash": tables.words("Hash", "CRC-32 of the full name: position on the hash ring."),
            "traffic": tables.megabytes("Traffic"),
            "rate": tables.rate("Rate"),
            "producers": tables.whole("Producers"),
            "consumers": tables.whole("Consumers"),
            "subscriptions": tables.whole("Subscriptions"),
            "backlog": tables.whole("Backlog"),
        },
        key="bundle_topics",
        alt=f"Topics of {bundle}",
    )
    tables.downloads(rows, cluster=page.name, what="topics", moment=page.stored.taken_at)


def events_tab(
    page: PulsarPage, bundle: str, moves: Sequence[ObservedMove], minutes: float
) -> None:
    """Render the ownership changes of a bundle and the runs that moved it.

    Args:
        page: Of the cluster.
        bundle: Its name.
        moves: Of that bundle.
        minutes: Span of the snapshots in which they were seen.
    """
    words.section("Moves", moves_sentence(moves, minutes))
    if moves:
        tables.table(
            moves_frame(moves),
            {
                "seen_at": st.column_config.DatetimeColumn(
                    "Seen (UTC)", format="YYYY-MM-DD HH:mm:ss"
                ),
                "from": tables.words("From"),
                "to": tables.words("To"),
                "mark": tables.words("Flapping"),
            },
            key="bundle_moves",
            alt="Owners of the bundle over time",
        )
    past_of(page.config, page.name, bundle, key="bundle")
