"""Fleet overview: every cluster in one row, and what is wrong on the chosen one."""

from __future__ import annotations

from datetime import timedelta

import streamlit as st

from dashboard import state
from dashboard.components import frame, tables, words
from dashboard.components.activity import acting_of
from dashboard.components.findings import finding_list
from dashboard.presenters import fleet as presenter
from dashboard.presenters.moves import moves_frame, moves_sentence
from dashboard.reading import (
    broker_history,
    cluster_summary,
    moves_seen,
    newest_summary,
    span_minutes,
    thinned,
    within,
)

READ_ONLY_HELP = (
    "Configured clusters are read-only unless trimtab.toml says `read_only = false` for them."
)

page = frame.open_page("Fleet overview")
reading = page.reading
kept = frame.kept_by_cluster(page.config)
summaries = {name: newest_summary(held) for name, held in kept.items()}
summaries[page.name] = cluster_summary(page.shelved)
words.answer(presenter.answer(list(summaries.items())))

with st.container(horizontal=True, gap="small"):
    for label, value, text in presenter.key_figures(reading.measures, reading.movable):
        st.metric(label, value, help=words.plain(text), border=True, width="content")

words.section("Clusters", "Click a cluster to open its brokers.")
hour = timedelta(hours=1)
rows = [
    (
        one.name,
        one.environment,
        summaries[one.name],
        presenter.deviation_trend(
            broker_history(thinned(within(held.entries, held.latest.taken_at, hour), 40))
            if held.latest is not None
            else []
        ),
    )
    for one in page.config.clusters
    for held in [kept[one.name]]
]
frame_of_clusters = presenter.clusters_table(
    rows, [acting_of(page.config, one) for one in page.config.clusters], page.now
)


def open_cluster(name: str) -> None:
    st.session_state[state.CLUSTER] = name
    state.go("brokers", cluster=name)


tables.table(
    frame_of_clusters,
    {
        "cluster": tables.opener("Cluster", "_open_cluster", open_cluster),
        "environment": tables.words("Kind"),
        "state": tables.words("State", "The worst finding; unknown is never fine."),
        "access": tables.words("Access", READ_ONLY_HELP),
        "run": tables.words("Run", "The run that has not ended: see Activity."),
        "deviation": tables.signed_percent("Deviation", "Busiest broker's traffic over the mean."),
        "trend": st.column_config.LineChartColumn("Deviation, last hour", y_min=0, width=120),
        "worst": tables.words("Busiest broker", "By weighted maximum usage."),
        "brokers": tables.whole("Brokers"),
        "bundles": tables.whole("Bundles", "With an owner, of those that can move."),
        "traffic": tables.megabytes("Traffic"),
        "findings": tables.words("Findings"),
        "balancer": tables.words("Own balancer", "Whether the cluster sheds load by itself."),
        "age": tables.words("Read"),
    },
    key="clusters",
    alt="Clusters with their balance, worst broker and findings",
)

left, right = st.columns([0.6, 0.4], gap="medium")
with left:
    words.section(f"Findings on {page.name}", "Worst first.")
    finding_list(reading.findings, key="findings")
with right:
    words.section("Moved")
    window = thinned(within(page.kept.entries, page.shelved.taken_at, hour), 30)
    moves = moves_seen(window)
    st.caption(moves_sentence(moves, span_minutes(window)) + " Told by comparing kept snapshots.")
    if moves:
        tables.table(
            moves_frame(moves[-200:]),
            {
                "bundle": tables.opener("Bundle", "_moved", frame.bundle_link),
                "from": tables.words("From"),
                "to": tables.words("To"),
                "mark": tables.words("Mark"),
                "seen_at": st.column_config.DatetimeColumn("Seen (UTC)", format="HH:mm:ss"),
            },
            key="fleet_moves",
            alt="Bundles that moved in the last hour",
            height=min(430, tables.height_of(len(moves[-200:]))),
        )
