"""Fleet overview: every cluster in one row, and what is wrong on the chosen one."""

from __future__ import annotations

from typing import Any

import streamlit as st

from dashboard.app_pages.fleet import model, view
from dashboard.app_pages.systems import FLEET
from dashboard.components import first_steps, frame, words
from dashboard.components.waiting import no_snapshot

page = frame.open_fleet("Fleet")
chosen = page.choice.cluster
shown = page.page
saved = frame.saved_by_cluster(page.config)
clusters = {kind: page.config.of_kind(kind).clusters for kind in FLEET}
rows: dict[str, Any] = {
    one.name: FLEET[kind].newest(saved[one.name]) for kind in FLEET for one in clusters[kind]
}
system = FLEET[chosen.kind]
if shown is not None:
    rows[chosen.name] = system.summary(shown.stored)
first_steps.draw(page)
words.answer(model.answer(list(rows.items())))
mine = rows[chosen.name]
if len(rows) > 1 and mine is not None:
    st.markdown(words.plain(f"{chosen.name}: {mine.sentence}"))

if shown is not None:
    view.figures(system.figures(shown))

is_mixed = sum(bool(found) for found in clusters.values()) > 1
for kind, one in FLEET.items():
    if clusters[kind]:
        words.section(f"{one.title} clusters" if is_mixed else "Clusters", one.caption)
        one.clusters(page.config, clusters[kind], saved, rows)

if shown is None:
    no_snapshot(page.config, page.choice, is_answer=False)
    st.stop()
left, right = st.columns([0.6, 0.4], gap="medium")
with left:
    words.section(f"Findings on {chosen.name}", "Worst first.")
    view.finding_list(shown.reading.findings, system, key="findings")
with right:
    words.section("Moved")
    system.moved(shown)
