"""Rebalance: what the cluster's balancer would do, what would be better, and doing it."""

from __future__ import annotations

import streamlit as st

from core.errors import InputError
from core.optimize import Proposal
from dashboard import rebalancing as kernel
from dashboard import state
from dashboard.components import (
    candidates,
    dials,
    frame,
    moves_editor,
    moves_plan,
    why_moves,
    words,
)
from dashboard.components.applying import in_dialog
from dashboard.presenters import rebalance_plan

page = frame.open_page("Rebalance")
reading = page.reading
if reading.movable.num_rows == 0:
    words.nothing("No bundle is in this snapshot", reading.snapshot.manifest)
    st.stop()
in_force = candidates.strategy_in_force(page)
names = candidates.known_strategies(page)
pinned = state.listed(state.PIN)

answer = st.container()
words.section("Side by side", "Every way on this snapshot. Click one to choose it.")
compared = st.container()
playing = st.container(horizontal=True, vertical_alignment="center")
with playing:
    is_played = candidates.play_switch(page)
words.section("Choose a way", "Turn its settings: the answer follows at once.")
pick = st.segmented_control(
    "Way",
    [kernel.LEAST, *names],
    default=kernel.LEAST,
    required=True,
    key=state.PICK,
    bind="query-params",
    label_visibility="collapsed",
    on_change=candidates.forget_edits,
)
left, right = st.columns([0.5, 0.5], gap="medium")
with left:
    is_least = pick not in names
    wish = None
    if is_least:
        wish = dials.wished(page, pinned)
        chosen = None
    else:
        chosen = kernel.Candidate(
            shelved=page.shelved,
            strategy=str(pick),
            assumed=dials.turned(str(pick), reading.settings),
            pinned=pinned,
        )


def proposal() -> Proposal | None:
    """Return the smallest plan; on a huge fleet only when it is chosen, computed beside."""
    exclusions = tuple(page.cluster.exclusions)
    asked = wish or kernel.LeastWish(
        shelved=page.shelved, max_moves=page.cluster.apply.max_steps, exclusions=exclusions
    )
    if reading.view.bundles.size <= kernel.SYNC_BUNDLES:
        with answer, st.spinner("Looking for the smallest set of moves"):
            return kernel.proposed(asked)
    return kernel.proposed_later(asked) if is_least else None


least = proposal()
choice = candidates.Choice(
    page=page,
    names=names,
    in_force=in_force,
    chosen=chosen,
    least=least,
    is_played=is_played,
    ground=candidates.played_on(page),
)
lines = candidates.lines_of(choice)
with answer:
    candidates.draw_answer(choice, lines)
with compared:
    candidates.draw_table(choice, lines)
with playing:
    candidates.draw_progress(choice)
with left:
    words.section("What each achieves", "For the traffic it moves, round by round.")
    goal = wish.within if wish and wish.relief is None else None
    candidates.draw_ways(choice, lines, goal)

if chosen is not None:
    done = kernel.decided(chosen)
    moves = kernel.moves_of(done.acting) if done.acting else ()
    reason = f"{chosen.strategy}: {(done.acting or done.first).decision.sentence}"
    nothing = done.first.decision.sentence
else:
    moves = tuple(least.destinations.items()) if least else ()
    reason = f"Smallest moves: {least.goal}" if least else ""
    nothing = least.sentence if least else "The smallest set of moves is being sought."
    if least is None and wish is not None:
        candidates.wait_for_least(wish)

made = None
if moves:
    request = kernel.PlanRequest(
        shelved=page.shelved,
        moves=moves,
        edits=moves_editor.edits(),
        exclusions=tuple(page.cluster.exclusions),
        reason=reason,
    )
    try:
        made = kernel.rebalance_preview(request)
    except InputError as error:
        nothing = f"{error.message} {error.hint}"
made = in_dialog() or made

with right:
    words.section("The plan", str(pick))
    if made is None:
        st.info(words.plain(nothing), icon=":material/check:")
    else:
        st.markdown(words.plain(rebalance_plan.answer(*made)))
        if chosen is not None and done.number > 1:
            st.caption(f"These are the moves of round {done.number}: it does not act before.")
        moves_plan.draw_bars(made[1])
moves_editor.edits_panel()
if made is not None:
    plan, preview = made
    moves_plan.draw_remarks(plan)
    if preview.steps:
        words.section("Moves", preview.clients.sentence())
        moves_plan.draw_moves(preview)
        moves_editor.editor(page, preview)
        moves_plan.draw_apply(page, plan, preview, sentence=rebalance_plan.answer(plan, preview))
if chosen is not None:
    why_moves.why_strategy(page, chosen)
elif least is not None:
    why_moves.why_least(least)
