"""Rebalance: candidates and their cost, the plan of the chosen one, and its actions."""

from __future__ import annotations

import streamlit as st

from core.optimize import Proposal
from dashboard import state
from dashboard.app_pages.pulsar.rebalance import (
    candidates,
    compare,
    queries,
    reasons,
    selected_plan,
    settings_plan,
    strategy_settings,
    what_if,
)
from dashboard.components import frame, words
from dashboard.components.pulsar import frozen, leader_round, moves_plan
from dashboard.components.pulsar.page import PulsarPage
from dashboard.components.waiting import until
from dashboard.presenters.pulsar import rebalance as presenter

CHART_PX = 330

live = frame.open_page("Rebalance", PulsarPage)
page = frozen.frozen(live)
reading = page.reading
names = candidates.known_strategies(page)
is_huge = reading.snapshot.bundles.num_rows > queries.HUGE_BUNDLES


def are_decided() -> bool:
    """Return whether every strategy has decided with the cluster's own settings, or failed."""
    plain = [queries.StrategyCandidate(stored=page.stored, strategy=name) for name in names]
    return None not in [queries.decision(one) for one in plain]  # each is requested


if is_huge and not are_decided():
    until(are_decided, candidates.DECIDING)
    st.stop()
if reading.movable.num_rows == 0:
    words.nothing("No bundles in this snapshot", reading.snapshot.manifest)
    st.stop()
off = reading.settings.shedding_off
words.title("Rebalance", " · ".join([frozen.facts(page), *(f"{key} is false" for key in off[:1])]))
banner_place = st.container()
verdict_place = st.container()
with st.container(key="workbench"):
    left, right = st.columns([1.5, 1], gap="medium")
with left, st.container(horizontal=True, vertical_alignment="center"):
    st.header("Candidates", anchor=False, width="content")
    st.caption("simulated round by round", width="content")
    st.space("stretch")
    frozen.draw_recompute(live, page)
    fleet = what_if.control(page)
with banner_place:
    what_if.banner(page, fleet)
effective = candidates.strategy_in_force(page)
pinned = state.listed(state.PIN)
pick = candidates.picked(names)

with left:
    compared = st.container()
    with st.container(horizontal=True, vertical_alignment="bottom"):
        objective = strategy_settings.objective(page)
        adjust = st.popover("Adjust settings", icon=":material/tune:", key="adjust")
    waiting = st.container()
with adjust:
    relief = None
    chosen = None
    if pick == queries.OPTIMIZER:
        relief = strategy_settings.relief()
    else:
        chosen = queries.StrategyCandidate(
            stored=page.stored,
            strategy=pick,
            assumed=strategy_settings.adjusted(pick, reading.settings),
            pinned=pinned,
            fleet=fleet,
        )
    is_simulated = strategy_settings.simulation_switch(page)
optimization = queries.Optimization(
    stored=page.stored,
    request=objective.request(page, relief, pinned if chosen is None else ()),
    fleet=fleet,
)
with waiting, st.spinner("Computing the optimal plan"):
    proposal = queries.proposal(optimization, is_chosen=chosen is None)
whole = proposal if isinstance(proposal, Proposal) else None
if whole is not None and not selected_plan.are_all_selected():
    proposal = whole.first(whole.needed)
optimal = proposal if isinstance(proposal, Proposal) else None
choice = candidates.CandidateChoice(
    page=page,
    names=names,
    effective=effective,
    chosen=chosen,
    optimal=optimal,
    is_simulated=is_simulated,
    fleet=fleet,
)
lines = candidates.lines_of(choice)
if optimal is not None and optimal.verdict == "best_effort":
    with verdict_place:
        sentence = presenter.missed_target_sentence(optimal, objective.target_ratio)
        st.warning(words.plain(sentence), icon=":material/warning:")
with compared:
    candidates.draw_table(choice, lines, objective.target_ratio)
with waiting:
    candidates.wait_for_decisions(choice, lines)
    candidates.wait_for_rounds(choice, lines)
    if isinstance(proposal, str):
        st.warning(words.plain(proposal), icon=":material/error:")
    elif chosen is None and proposal is None:
        until(
            lambda: queries.proposal(optimization, is_chosen=True) is not None,
            "Computing the optimal plan.",
        )
    if chosen is not None:
        candidates.warn_of_unpaired(chosen)

if chosen is not None:
    selection = selected_plan.Selection.of_strategy(chosen)
else:
    selection = selected_plan.Selection.of_optimal(proposal)
shown = selected_plan.planned(page, selection, fleet)
if shown.awaited is not None:
    request = shown.awaited
    with waiting:
        until(lambda: queries.rebalance_preview(request) is not None, "Computing the plan.")
with right:
    words.section(
        "Deviation per broker", f"{selection.name}, next round" if chosen else selection.name
    )
    now, scenario, after = selected_plan.deviations(page, shown, fleet, objective.measure)
    moves_plan.draw_deviations(
        now,
        after,
        objective.target_ratio,
        scenario=scenario,
        key="rebalance_deviations",
        height=CHART_PX,
    )

plan_tab, compare_tab, why_tab, cost_tab = st.tabs(
    ["Plan", "Compare", "Why", "Cost"], key=state.VIEW, on_change="rerun", bind="query-params"
)
if plan_tab.open:
    with plan_tab:
        if chosen is None and whole is not None:
            selected_plan.draw_rest(whole)
        if fleet.is_real:
            selected_plan.draw_plan(page, shown)
        else:
            selected_plan.draw_supposed(shown)
if compare_tab.open:
    with compare_tab:
        compare.draw_compared(choice, lines, objective.target_ratio)
if why_tab.open:
    with why_tab:
        if chosen is not None:
            reasons.why_strategy(page, chosen)
        elif optimal is not None:
            reasons.why_optimal(optimal)
        leader_round.next_round(live)
if cost_tab.open:
    with cost_tab:
        if shown.made is not None and shown.made[1].steps:
            compare.draw_cost(shown.made[1], optimal if chosen is None else None)
        elif shown.awaited is None and selection.is_known:
            st.caption("No moves, no cost.")

if fleet.is_real:
    settings = settings_plan.dialog_of(page, chosen, effective)
    missed = ""
    if chosen is None and optimal is not None:
        missed = presenter.missed_target(optimal, objective.target_ratio)
    selected_plan.draw_bar(page, shown, settings, missed)
