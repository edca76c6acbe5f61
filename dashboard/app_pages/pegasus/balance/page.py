"""Balance: what the cluster's own balancer would do, and what would be better."""

from __future__ import annotations

from dataclasses import replace

import streamlit as st

from core.errors import IncompleteSnapshotError
from core.pegasus.balance.model import BalancePlan
from core.pegasus.even.request import EvenRequest
from core.pegasus.plan.build import RequestedMove, requested_moves
from dashboard import state
from dashboard.app_pages.pegasus.balance import candidates, model, moves, switches
from dashboard.app_pages.pegasus.balance.changes import Listed
from dashboard.app_pages.pegasus.balance.hand import asked_move
from dashboard.components import frame, words
from dashboard.components.pegasus import plan as pegasus_plan
from dashboard.components.pegasus.page import PegasusPage
from dashboard.queries.pegasus import balance as queries
from dashboard.queries.pegasus.plans import MovesRequest, moves_plan_of

page = frame.open_page("Replica balance", PegasusPage)
try:
    with st.spinner("Reading the partitions"):
        basis = queries.basis(page.stored)
except IncompleteSnapshotError as error:
    words.answer("Whether this cluster is balanced cannot be said.")
    words.failed(error, what="The snapshot is not whole")
    st.stop()

own = switches.own_dials(page)
effective = switches.CLUSTER if own.here.policy == "cluster" else switches.APP
answer = st.container()
words.section("Side by side", "Every candidate on this snapshot. Click one to choose it.")
measure, rate = switches.comparing(basis)
compared_here = st.container()
words.section("Strategy", "Adjust its switches.")
state.rename_in_address(state.PICK, {"Smallest moves": switches.EVEN})
pick = st.segmented_control(
    "Candidate",
    switches.WAYS,
    default=effective,
    required=True,
    key=state.PICK,
    bind="query-params",
    label_visibility="collapsed",
)
left, right = st.container(), st.container()
if pick != switches.HAND:
    left, right = st.columns([0.44, 0.56], gap="medium")
turned = own
evening = queries.EvenRun(
    stored=page.stored, request=EvenRequest(measure=queries.MEASURE_OF[measure])
)
with left:
    if pick in switches.POLICIES:
        turned = switches.policy_dials(page, own, switches.POLICIES[pick])
    elif pick == switches.EVEN:
        evening = switches.even_run(page, measure)
compared = candidates.Compared(
    page=page, basis=basis, dials=turned, even_run=evening, rate=rate, followed=(effective, pick)
)
with answer:
    first = queries.first_round(own.candidate(page, own.here.policy))
    run = replace(compared, dials=own).run(effective)
    words.answer(model.answer(page.facts, basis, first, run, own.here.policy))
    reasons = model.why_not(page.facts, basis, first, own.here)
    if reasons:
        st.info(
            "\n".join(f"- {words.plain(one)}" for one in reasons), title="Why nothing moves now"
        )
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        words.badge(model.verdict_badge(page.reading.verdict))
        st.caption(words.plain(model.forecast(page.facts)), width="content")
    if first.plans:
        switches.draw_node_order(page, basis, own)
with compared_here:
    candidates.draw_table(compared)
    candidates.draw_progress(compared)

requested: tuple[RequestedMove, ...] = ()
before, listed = None, Listed((), ())
if pick in switches.POLICIES:
    candidate = turned.candidate(page, switches.POLICIES[pick])
    chosen, following = compared.first(pick), compared.run(pick)
    rounds: tuple[tuple[BalancePlan, ...], ...] = (chosen.plans,)
    before, after = chosen.before, chosen.after
    with right:
        if following is not None and len(following.rounds) > 1:
            number = moves.round_choice(len(following.rounds))
            after, rounds = queries.state_after((candidate, number)), following.rounds[:number]
        moves.draw_bars(before, after, basis)
    with left:
        candidates.draw_remarks(compared, pick)
    listed = Listed.of(rounds)
elif pick == switches.EVEN:
    found = compared.even()
    with right:
        if found is None:
            st.info("The optimal plan is being computed in the background.")
        else:
            before, after, listed = basis.view, found.end, Listed.of([found.steps])
            st.markdown(words.plain(model.even_answer(found, measure)))
            moves.draw_bars(before, after, basis)
else:
    with left:
        one = asked_move(page)
        requested = () if one is None else (one,)

if before is not None and not listed.plans:
    st.info(model.nothing_here(basis), icon=":material/check:")
if before is not None and listed.plans:
    words.section("Changes", "Tick some to take only those; otherwise all listed ones are taken.")
    listed = listed.of_table(before, moves.table_choice(before, listed))
    evened = measure if pick == switches.EVEN else ""
    picked = moves.choose_moves(page, before, basis, listed, evened)
    moves.draw_cost(before, basis, picked, rate)
    with st.expander("Tables that change", icon=":material/table_rows:"):
        moves.draw_tables(before, after, basis, listed)
    limit = page.cluster.apply.max_steps - 1
    if len(picked.plans) > limit:
        st.caption(f"One run here may have {limit + 1:,} steps: the first {limit:,} are planned.")
    requested = tuple(requested_moves(before, picked.plans[:limit]))

is_held = False
if requested:
    words.section("The plan", "What a run of it would do, checked along its steps.")
    is_held = st.toggle(
        "Hold the level at steady while the run lasts",
        value=True,
        key="hold",
        bind="query-params",
        help="So that the balancer keeps out. The level is put back however the run ends.",
    )
    plan = moves_plan_of(
        MovesRequest(
            stored=page.stored,
            moves=requested,
            keep_level=is_held,
            exclusions=tuple(page.cluster.exclusions),
            reason=f"{pick}, chosen on the Balance page",
        )
    )
    pegasus_plan.draw_plan(page, pegasus_plan.in_dialog(plan))

candidates.draw_terminal(compared, pick, requested, is_held=is_held)
