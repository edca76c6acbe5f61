"""Jobs: background computations over whole fleets, each with its progress and its result."""

from __future__ import annotations

import streamlit as st

from dashboard.app_pages.jobs import new_job, view
from dashboard.components import figures, frame, jobs, words
from dashboard.presenters import jobs as presenter
from dashboard.services import jobs as services_jobs

page = frame.open_fleet("Jobs", needs_snapshot=False)
config = page.config
kinds = services_jobs.kinds()
server = jobs.server_of(config)
shown = jobs.chosen(config)
jobs.draw_server(server)
if shown is not None:
    words.title(presenter.title_of(shown, kinds), presenter.subtitle(shown))
    with st.container(horizontal=True, vertical_alignment="center"):
        st.button("All jobs", icon=":material/arrow_back:", on_click=jobs.close)
        view.draw_subject(shown)
        new_job.draw_button(shown.kind, "New job from this…")
        if shown.is_ended:
            st.button(
                "Delete job",
                icon=":material/delete:",
                type="tertiary",
                help="Deletes the job and its results from disk.",
                on_click=jobs.leave,
                args=(config, shown.id),
            )
    if not shown.is_ended:
        jobs.draw_under_way(config, [shown.id])
    elif shown.answer is None:
        jobs.draw_failure(shown)
    else:
        words.answer(shown.answer.sentence)
        view.draw_tables(shown)
else:
    found = jobs.listed(config)
    figures.key_figures(presenter.key_figures(found, server=server), key="jobs")
    new_job.draw_start(config, kinds, page.choice.cluster.name)
    if found:
        jobs.draw_list(config, found, key="jobs_list")
    else:
        st.caption("No jobs yet.")
new_job.draw_dialog(config, kinds, page.choice.cluster.name, shown)
