"""Rebalance: what the cluster's balancer would do, what would be better, and doing it."""

from __future__ import annotations

import streamlit as st

from core.optimize import OptimizeRequest, Proposal
from dashboard import state
from dashboard.app_pages.pulsar.rebalance import (
    candidates,
    queries,
    reasons,
    selected_plan,
    strategy_settings,
    what_if,
)
from dashboard.components import frame, words
from dashboard.components.pulsar import leader_round
from dashboard.components.pulsar.page import PulsarPage

page = frame.open_page("Rebalance", PulsarPage)
reading = page.reading
if reading.movable.num_rows == 0:
    words.nothing("No bundle is in this snapshot", reading.snapshot.manifest)
    st.stop()
effective = candidates.strategy_in_force(page)
names = candidates.known_strategies(page)
pinned = state.listed(state.PIN)

leader_round.next_round(page)
supposed = st.container()
answer = st.container()
words.section("Side by side", "Every candidate on this snapshot. Click one to choose it.")
compared = st.container()
simulating = st.container(horizontal=True, vertical_alignment="center")
with simulating:
    is_simulated = candidates.simulation_switch(page)
    fleet = what_if.control(page)
with supposed:
    what_if.banner(page, fleet)
words.section("Strategy", "Adjust its settings.")
state.rename_in_address(state.PICK, {"Smallest moves": queries.OPTIMIZER})
pick = st.segmented_control(
    "Candidate",
    [queries.OPTIMIZER, *names],
    default=queries.OPTIMIZER,
    required=True,
    key=state.PICK,
    bind="query-params",
    label_visibility="collapsed",
    on_change=candidates.forget_edits,
)
left, right = st.columns([0.5, 0.5], gap="medium")
with left:
    is_least = pick not in names
    optimization = None
    if is_least:
        optimization = strategy_settings.optimization(page, pinned, fleet)
        chosen = None
    else:
        chosen = queries.Candidate(
            stored=page.stored,
            strategy=str(pick),
            assumed=strategy_settings.turned(str(pick), reading.settings),
            pinned=pinned,
            fleet=fleet,
        )
        candidates.warn_of_unpaired(chosen)


def proposal() -> Proposal | None:
    """Return the optimal plan; on a huge fleet only when it is chosen, in the background."""
    run = optimization or queries.Optimization(
        stored=page.stored,
        request=OptimizeRequest(
            max_moves=page.cluster.apply.max_steps, exclusions=tuple(page.cluster.exclusions)
        ),
        fleet=fleet,
    )
    if reading.view.bundles.size <= queries.SYNC_BUNDLES:
        with answer, st.spinner("Looking for the smallest set of moves"):
            return queries.proposed(run)
    return queries.proposed_in_background(run) if is_least else None


optimal = proposal()
choice = candidates.Choice(
    page=page,
    names=names,
    effective=effective,
    chosen=chosen,
    optimal=optimal,
    is_simulated=is_simulated,
    origin=candidates.played_on(page),
    fleet=fleet,
)
lines = candidates.lines_of(choice)
with answer:
    candidates.draw_answer(choice, lines)
with compared:
    candidates.draw_table(choice, lines)
with simulating:
    candidates.draw_progress(choice)
with left:
    words.section("Deviation vs. traffic moved", "Round by round.")
    optimizer = optimization.request if optimization else None
    goal = optimizer.within if optimizer and optimizer.relief is None else None
    candidates.draw_ways(choice, lines, goal)

if chosen is not None:
    selection = selected_plan.Selection.of_strategy(chosen)
else:
    selection = selected_plan.Selection.of_optimal(queries.OPTIMIZER, optimal)
    if optimal is None and optimization is not None:
        candidates.wait_for_least(optimization)
if fleet.is_real:
    shown = selected_plan.planned(page, selection)
    with right:
        selected_plan.draw_answer(shown)
    selected_plan.draw_plan(page, shown)
else:
    with right:
        selected_plan.draw_supposed(selection)
if chosen is not None:
    reasons.why_strategy(page, chosen)
elif optimal is not None:
    reasons.why_optimal(optimal)
