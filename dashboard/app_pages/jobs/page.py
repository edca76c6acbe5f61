"""Jobs: long computations over whole fleets: requested, followed, read."""

from __future__ import annotations

import streamlit as st

from dashboard.app_pages.jobs import view
from dashboard.components import frame, jobs, words
from dashboard.presenters import jobs as presenter
from dashboard.services import jobs as services_jobs

page = frame.open_fleet("Jobs", needs_snapshot=False)
config = page.config
kinds = services_jobs.kinds()
found = jobs.listed(config)
server = jobs.server_of(config)
shown = jobs.chosen(config)
if shown is not None and shown.answer is not None:
    words.answer(shown.answer.sentence)
else:
    words.answer(presenter.answer(found, len(kinds), server=server))
jobs.draw_server(server)
jobs.draw_under_way(config, [job.id for job in reversed(found) if not job.is_ended])

if shown is not None and shown.is_ended:
    asked_at = shown.request.requested_at[:16].replace("T", " ") if shown.request else ""
    words.section(presenter.title_of(shown, kinds), f"{shown.id}, requested {asked_at} UTC")
    with st.container(horizontal=True):
        st.button("Close", icon=":material/close:", type="tertiary", on_click=jobs.close)
        st.button(
            "Drop it",
            icon=":material/delete:",
            type="tertiary",
            help="Removes the job and its results from disk.",
            on_click=jobs.leave,
            args=(config, shown.id),
        )
    if shown.answer is None:
        jobs.draw_failure(shown)
    else:
        view.draw_tables(shown)

words.section("New job", "Computed in the background; no cluster is changed.")
chosen = view.cards(kinds, shown)
if chosen is not None:
    words.section(chosen.title, chosen.answers)
    filled = shown if shown is not None and shown.kind == chosen.name else None
    view.draw_form(config, chosen, page.choice.cluster.name, filled)

if found:
    words.section("Job history", "Click a job to read its result.")
    jobs.draw_list(found, key="jobs_list")
