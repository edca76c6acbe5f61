"""Back-test: which settings would have kept this cluster balanced, replayed from its own record."""

from __future__ import annotations

import streamlit as st

from core.errors import OpsError
from dashboard.app_pages.backtest import form, model, queries, view
from dashboard.app_pages.systems import BACKTEST
from dashboard.components import frame, jobs, words
from dashboard.presenters.jobs import outcome
from dashboard.services import config_option

page = frame.open_fleet("Back-test", needs_snapshot=False)
config, cluster = page.config, page.choice.cluster
system = BACKTEST[cluster.kind]
every = [job for job in jobs.listed(config) if job.kind == queries.KIND]
shown = jobs.chosen(config)
server = jobs.server_of(config)
span, problem = None, None
try:
    span = queries.span_of(config, cluster.name)
except OpsError as error:
    problem = error

if shown is not None and shown.answer is not None:
    words.answer(shown.answer.sentence)
elif shown is not None and not shown.is_ended:
    words.answer("The history is being replayed; the answer appears here.")
elif shown is not None:
    words.answer(outcome(shown))
else:
    words.answer(model.record_words(cluster.name, span))
if problem is not None:
    words.failed(problem, what="The record cannot be read")
if not server.is_alive:
    jobs.draw_server(server)
jobs.draw_under_way(config, [job.id for job in reversed(every) if not job.is_ended])

if shown is not None and shown.is_ended:
    with st.container(horizontal=True, vertical_alignment="center"):
        st.caption(words.plain(model.asked_words(queries.asked_grid(shown))))
        st.button("Close", icon=":material/close:", type="tertiary", on_click=jobs.close)
    if shown.answer is None:
        jobs.draw_failure(shown)
    else:
        chosen = view.shown(shown)
        if chosen is not None:
            with st.container(key="backtest_found"):
                left, right = st.columns([0.54, 0.46], gap="medium")
            with left:
                words.section("Fewer moves, or more even?", "Each mark is one candidate.")
                view.draw_pareto(chosen)
            with right:
                view.draw_change(page, system, chosen)
            words.section(
                "Ranking",
                "First what meets the target, fewest moves first; then what misses it least, by "
                "the worse of the two as a multiple of its target. Click one to see it over time.",
            )
            view.draw_ranking(chosen)
            view.draw_timelines(chosen)

words.section("A new back-test", "No cluster is changed: the history is replayed.")
if span is None:
    st.info(
        f"Nothing is recorded of {words.plain(cluster.name)} yet. The collector records a minute "
        "with every snapshot; a record of another machine can be brought in.",
        icon=":material/history:",
    )
    more = config_option(config)
    st.code(f"trimtab collect {cluster.name}{more}\ntrimtab history import FILE{more}", "bash")
else:
    if shown is not None:
        form.refill(shown, cluster.name, system.grid)
    with st.container(key="backtest_form"):
        form.draw(form.editing(page, system, span, every))

ended = [job for job in every if job.is_ended]
if ended:
    words.section("Back-tests so far", "Click one to read what it found.")
    jobs.draw_list(ended, key="backtest_list")
