"""Back-test: which settings balance this cluster with the fewest moves, replayed on its history.

The first screen is the newest result of the cluster; the form is in a tab next to it.
"""

from __future__ import annotations

import streamlit as st

from core.errors import OpsError
from dashboard import services, state
from dashboard.app_pages.backtest import form, model, queries, view
from dashboard.app_pages.backtest.system import BacktestPages
from dashboard.components import figures, frame, jobs, words
from dashboard.presenters.jobs import outcome
from dashboard.systems import page_part

_AWAITED = "_backtest_awaited"
RANKING, OVER_TIME, NEW, EARLIER = "Ranking", "Over time", "New back-test", "Earlier back-tests"

page = frame.open_fleet("Back-test", needs_snapshot=False)
config, cluster = page.config, page.choice.cluster
system: BacktestPages = page_part(cluster.kind, "backtest")
every = [job for job in jobs.listed(config) if job.kind == queries.KIND]
newest = queries.newest(every, cluster.name)
shown = jobs.chosen(config) if state.JOB in st.query_params else newest
server = jobs.server_of(config)
span, problem = None, None
try:
    span = queries.span_of(config, cluster.name)
except OpsError as error:
    problem = error
found = view.read(shown) if shown is not None and shown.answer is not None else None

if shown is not None:
    words.title("Back-test", model.subtitle(shown, page.now))
if found is None:
    jobs.draw_server(server)
if problem is not None:
    words.failed(problem, what="Could not read the history")
if found is None:
    figures.key_figures(model.record_figures(span, every), key="backtest_record")
if shown is not None and shown.answer is not None:
    result = None if found is None else view.pick_cluster(shown, found)
    if result is not None:
        figures.key_figures(model.result_figures(result), key="backtest_result")
    words.answer(model.headline(shown.answer.sentence)[0])
    if result is not None:
        words.notes([*filter(None, [model.fidelity(result.ranking, result.nouns)])])
elif shown is not None and shown.is_ended:
    result = None
    words.answer(outcome(shown))
    jobs.draw_failure(shown)
else:
    result = None
    if shown is not None:
        st.session_state[_AWAITED] = shown.id
        words.answer("Replaying the history.")
    elif span is None:
        view.nothing_recorded(config, cluster.name)
jobs.draw_under_way(config, [job.id for job in reversed(every) if not job.is_ended])

if result is not None:
    with st.container(key="backtest_found"):
        left, right = st.columns([0.54, 0.46], gap="medium")
    with left:
        words.section("Moves vs. deviation", "one point per candidate; lower left is better")
        view.draw_pareto(result)
    with right:
        view.draw_change(page, system, result)

labels = [
    *([RANKING, OVER_TIME] if result is not None else []),
    *([NEW] if span is not None else []),
    *([EARLIER] if any(job.is_ended for job in every) else []),
]
opened = {}
if result is not None and shown is not None and st.session_state.get(_AWAITED) == shown.id:
    st.session_state[state.VIEW] = RANKING  # the form is open from before there was a result
    del st.session_state[_AWAITED]
if labels:
    tabs = st.tabs(labels, key=state.VIEW, on_change="rerun", bind="query-params")
    opened = {name: tab for name, tab in zip(labels, tabs, strict=True) if tab.open}
if result is not None and RANKING in opened:
    with opened[RANKING]:
        view.draw_ranking(result)
        if shown is not None and shown.answer is not None:
            view.draw_references(shown.answer.sentence)
if result is not None and OVER_TIME in opened:
    with opened[OVER_TIME]:
        view.draw_timelines(result)
if span is not None and NEW in opened:
    with opened[NEW], st.container(key="backtest_form"):
        if shown is not None and state.JOB in st.query_params:
            target_ratio = services.target_ratio(config, cluster)
            form.refill(shown, cluster.name, system.grid, target_ratio)
        form.draw(form.editing(page, system, span, every))
if EARLIER in opened:
    with opened[EARLIER]:
        if newest is not None and shown is not None and shown.id != newest.id:
            st.button("Open newest result", icon=":material/first_page:", on_click=jobs.close)
        jobs.draw_list(config, [job for job in every if job.is_ended], key="backtest_list")
