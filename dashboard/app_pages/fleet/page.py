"""Fleet overview: every cluster in one row, and what is wrong on the chosen one."""

from __future__ import annotations

import streamlit as st

from dashboard.app_pages.fleet import model, view
from dashboard.components import frame, words
from dashboard.components.waiting import no_snapshot
from dashboard.queries import snapshots
from dashboard.queries.pegasus import snapshots as pegasus_snapshots

page = frame.open_fleet("Fleet overview")
chosen = page.choice.cluster
of_pulsar = page.config.of_kind("pulsar").clusters
of_pegasus = page.config.of_kind("pegasus").clusters
saved = frame.saved_by_cluster(page.config)
pulsar = {one.name: snapshots.newest_summary(saved[one.name]) for one in of_pulsar}
pegasus = {one.name: pegasus_snapshots.newest_summary(saved[one.name]) for one in of_pegasus}
if page.pulsar is not None:
    pulsar[chosen.name] = snapshots.cluster_summary(page.pulsar.shelved)
if page.pegasus is not None:
    pegasus[chosen.name] = pegasus_snapshots.cluster_summary(page.pegasus.shelved)
rows = {**pulsar, **pegasus}
words.answer(model.answer(list(rows.items())))
mine = rows[chosen.name]
if len(rows) > 1 and mine is not None:
    st.markdown(words.plain(f"{chosen.name}: {mine.sentence}"))

if page.pulsar is not None:
    of_chosen = page.pulsar.reading
    view.figures(model.key_figures(of_chosen.measures, of_chosen.movable))
if page.pegasus is not None:
    view.figures(model.pegasus_figures(page.pegasus.facts))

if of_pulsar:
    head = "Pulsar clusters" if of_pegasus else "Clusters"
    words.section(head, "Click a cluster to open its brokers.")
    view.pulsar_clusters(page.config, of_pulsar, saved, pulsar)
if of_pegasus:
    head = "Pegasus clusters" if of_pulsar else "Clusters"
    words.section(head, "Click a cluster to open its level, nodes and settings.")
    view.pegasus_clusters(page.config, of_pegasus, pegasus)

if page.choice.shelved is None:
    no_snapshot(page.config, page.choice, is_answer=False)
    st.stop()
left, right = st.columns([0.6, 0.4], gap="medium")
with left:
    words.section(f"Findings on {chosen.name}", "Worst first.")
    if page.pulsar is not None:
        view.finding_list(page.pulsar.reading.findings, key="findings")
    if page.pegasus is not None:
        view.finding_list(page.pegasus.reading.findings, key="findings")
with right:
    words.section("Moved")
    if page.pulsar is not None:
        view.moved_bundles(page.pulsar)
    if page.pegasus is not None:
        view.moved_primaries(page.pegasus)
