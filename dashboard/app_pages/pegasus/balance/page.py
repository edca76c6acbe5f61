"""Replica balance: candidates and their cost, the plan of the chosen one, and its actions."""

from __future__ import annotations

from dataclasses import replace

import streamlit as st

from core.errors import IncompleteSnapshotError
from core.pegasus.balance.model import BalancePlan
from core.pegasus.even.request import EvenRequest
from core.pegasus.plan.build import RequestedMove, requested_moves
from core.pegasus.plan.preview import preview_pegasus
from dashboard import state
from dashboard.app_pages.pegasus.balance import candidates, model, moves, switches
from dashboard.app_pages.pegasus.balance.changes import PlanList
from dashboard.app_pages.pegasus.balance.hand import requested_move
from dashboard.components import figures, frame, words
from dashboard.components.pegasus import plan as pegasus_plan
from dashboard.components.pegasus.page import PegasusPage
from dashboard.presenters.pegasus import cluster
from dashboard.presenters.pegasus import plan as presenter
from dashboard.queries.pegasus import balance as queries
from dashboard.queries.pegasus.plans import MovesRequest, moves_plan_of

page = frame.open_page("Replica balance", PegasusPage)
words.title("Replica balance", cluster.subtitle(page.facts))
try:
    with st.spinner("Reading partitions"):
        basis = queries.basis(page.stored)
except IncompleteSnapshotError as error:
    words.answer("Balance unknown.")
    words.failed(error, what="Incomplete snapshot")
    st.stop()

own = switches.cluster_settings(page)
effective = switches.CLUSTER if own.here.policy == "cluster" else switches.APP
figures.key_figures(cluster.key_figures(page.facts), key="balance")
answer = st.container()
with st.container(key="workbench"):
    left, right = st.columns([1.5, 1], gap="medium")
with left:
    words.section("Candidates")
    candidates_here = st.container()
    with st.container(horizontal=True, vertical_alignment="center"):
        measure = switches.measure_choice()
        adjust = st.popover("Adjust settings", icon=":material/tune:", key="adjust")
settings = own
even_run = queries.EvenRun(
    stored=page.stored, request=EvenRequest(measure=queries.MEASURE_OF[measure])
)
expected = switches.expected_rate(page, basis)
unadjusted = candidates.CandidateComparison(
    page=page, basis=basis, settings=own, even_run=even_run, rate=expected, followed=(effective,)
)
pick = candidates.picked(candidates.best_of(unadjusted))
with adjust:
    if pick in switches.POLICIES:
        settings = switches.draw_settings(page, own, switches.POLICIES[pick])
    elif pick == switches.EVEN:
        even_run = switches.even_run(page, measure)
    rate = switches.copy_rate(expected)
compared = candidates.CandidateComparison(
    page=page,
    basis=basis,
    settings=settings,
    even_run=even_run,
    rate=rate,
    followed=(effective, pick),
)
lines = candidates.lines_of(compared)
first = queries.first_round(own.candidate(page, own.here.policy))
with answer:
    if pick == switches.EVEN:
        words.answer(
            model.even_answer(
                compared.even(), candidates.effect_of(compared, pick), page.facts.target_ratio
            )
        )
    else:
        shown = pick if pick in switches.POLICIES else effective
        described = replace(compared, settings=own) if shown == effective else compared
        words.answer(
            model.answer(
                page.facts,
                basis,
                described.first(shown),
                described.run(shown),
                candidates.effect_of(described, shown),
                switches.POLICIES[shown],
            )
        )
with candidates_here:
    candidates.draw_table(lines, measure, page.facts.target_ratio, pick)
    candidates.draw_progress(compared)

before, after, listed, rest_gain = basis.view, basis.view, PlanList((), ()), ""
is_known, part = True, ""
with right:
    words.section("Nodes before and after", pick)
    with st.container(horizontal=True, vertical_alignment="bottom"):
        quantity = moves.quantity_choice()
        number_here = st.container(width=170)
if pick in switches.POLICIES:
    candidate = settings.candidate(page, switches.POLICIES[pick])
    chosen, following = compared.first(pick), compared.run(pick)
    rounds: tuple[tuple[BalancePlan, ...], ...] = (chosen.plans,)
    before, after = chosen.before, chosen.after
    if following is not None and len(following.rounds) > 1:
        with number_here:
            number = moves.round_choice(len(following.rounds))
        part = f"round {number} of {len(following.rounds)}"
        if number > 1:
            part = f"rounds 1 to {number} of {len(following.rounds)}"
        after, rounds = queries.state_after((candidate, number)), following.rounds[:number]
    listed = PlanList.of(rounds)
elif pick == switches.EVEN:
    found = compared.even()
    is_known = found is not None
    if found is not None:
        after, listed, rest_gain = found.end, PlanList.of([found.steps]), found.rest_gain
with right:
    if is_known:
        moves.draw_bars(before, after, basis, quantity)
    else:
        st.caption(":material/progress_activity: Computing the optimal plan in the background.")

limit = page.cluster.apply.max_steps - 1
requested: tuple[RequestedMove, ...] = ()
plan_tab, compare_tab, why_tab, cost_tab = st.tabs(
    ["Plan", "Compare", "Why", "Cost"], key=state.VIEW, on_change="rerun", bind="query-params"
)
if pick == switches.HAND:
    with plan_tab:
        one = requested_move(page)
        requested = () if one is None else (one,)
else:
    if plan_tab.open:
        with plan_tab:
            listed = listed.of_table(before, moves.table_choice(before, listed))
            if rest_gain:
                st.caption(words.plain(f"{rest_gain} See All moves under Adjust settings."))
            if listed.plans:
                moves.choose_moves(page, before, basis, listed)
            elif is_known:
                st.info(model.nothing_here(basis), icon=":material/check:")
    else:
        listed = listed.of_table(before, state.text(state.TABLE))
    picked = moves.taken(listed)
    requested = tuple(requested_moves(before, picked.plans[:limit]))
    if cost_tab.open:
        with cost_tab:
            moves.draw_cost(before, basis, picked, rate)
            moves.draw_tables(before, after, basis, listed)

plan = preview = None
is_held = False
if requested:
    with plan_tab:
        is_held = st.toggle(
            "Keep level steady during the run",
            value=True,
            key="hold",
            bind="query-params",
            help="Pauses the balancer; the level is restored when the run ends.",
        )
    plan = pegasus_plan.in_dialog(
        moves_plan_of(
            MovesRequest(
                stored=page.stored,
                moves=requested,
                keep_level=is_held,
                exclusions=tuple(page.cluster.exclusions),
                copy_rate=rate,
                reason=f"{pick}, selected on the Balance page",
            )
        )
    )
    preview = preview_pegasus(page.snapshot, plan)
    with plan_tab:
        if len(listed.plans) > limit:
            st.caption(
                f"Max steps of a run: {limit + 1:,}. The plan has the first {limit:,} moves."
            )
        pegasus_plan.draw_remarks(plan)
        with st.expander(f"Plan steps: {len(plan.steps):,}", icon=":material/checklist:"):
            pegasus_plan.draw_steps(preview)
            st.caption(words.plain(presenter.restored_words(preview)))
if compare_tab.open:
    with compare_tab:
        candidates.draw_compared(lines)
        if plan is not None and preview is not None:
            pegasus_plan.draw_nodes(plan, preview)
if why_tab.open:
    with why_tab:
        words.notes(model.why_not(page.facts, basis, first, own.here))
        if pick in switches.POLICIES:
            candidates.draw_remarks(compared, pick)
        moves.draw_reasons(before, listed, is_policy=pick in switches.POLICIES)
        if first.plans:
            switches.draw_node_order(page, basis, own)
if plan is not None and preview is not None:
    pegasus_plan.draw_bar(
        page,
        plan,
        preview,
        key="balance",
        part=part,
        command=candidates.command(compared, pick, requested, is_held=is_held),
    )
