"""The chosen way of the Rebalance page: what it moves, as a plan that can be edited and applied."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import streamlit as st

from core.errors import InputError
from core.optimize import Proposal
from core.plan.model import Plan
from core.pulsar.plan.preview import Preview
from core.units import counted
from dashboard import rebalancing as kernel
from dashboard import state
from dashboard.components import moves_editor, moves_plan, words
from dashboard.components.applying import Ask
from dashboard.presenters import rebalance_plan

if TYPE_CHECKING:
    from dashboard.components.frame import PageContext

Moves = tuple[tuple[str, str | None], ...]


@dataclass(frozen=True, kw_only=True)
class Way:
    """What the chosen way moves.

    Attributes:
        name: Of the way.
        moves: All of its moves, in the order in which they are made.
        reason: Kept with the plan.
        nothing: What is said when there is no plan.
        round: In which round it moves them; 0: it does not go by rounds, or moves nothing.
    """

    name: str
    moves: Moves
    reason: str
    nothing: str
    round: int = 0

    @classmethod
    def of_strategy(cls, candidate: kernel.Candidate) -> Way:
        """The first round of a strategy that moves something."""
        done = kernel.decided(candidate)
        acting = done.acting or done.first
        return cls(
            name=candidate.strategy,
            moves=kernel.moves_of(done.acting) if done.acting else (),
            reason=f"{candidate.strategy}: {acting.decision.sentence}",
            nothing=done.first.decision.sentence,
            round=done.number,
        )

    @classmethod
    def of_least(cls, name: str, least: Proposal | None) -> Way:
        """The smallest moves; ``None``: they are being sought."""
        if least is None:
            return cls(name=name, moves=(), reason="", nothing="They are being sought.")
        return cls(
            name=name,
            moves=tuple(least.destinations.items()),
            reason=f"{name}: {least.goal}",
            nothing=least.sentence,
        )


@dataclass(frozen=True, kw_only=True)
class Shown:
    """A way with the plan that is shown for it.

    Attributes:
        way: The way.
        made: Plan and preview; ``None``: there is none.
        nothing: Why there is none.
        most: Most moves of one plan.
    """

    way: Way
    made: tuple[Plan, Preview] | None
    nothing: str
    most: int


def planned(page: PageContext, way: Way) -> Shown:
    """Return the plan of a way, as it was edited."""
    first = kernel.first_moves(page.shelved, way.moves, page.cluster.apply.max_steps)
    made, nothing = None, way.nothing
    if first:
        request = kernel.PlanRequest(
            shelved=page.shelved,
            moves=first,
            edits=moves_editor.edits(),
            exclusions=tuple(page.cluster.exclusions),
            reason=way.reason,
        )
        try:
            made = kernel.rebalance_preview(request)
        except InputError as error:
            nothing = f"{error.message} {error.hint}"
    ask = state.asking()
    # behind an open dialog stands what it is about
    if isinstance(ask, Ask) and ask.preview is not None:
        made = ask.plan, ask.preview
    return Shown(way=way, made=made, nothing=nothing, most=len(first))


def draw_answer(shown: Shown) -> None:
    """Say what the plan does, before and after."""
    way = shown.way
    words.section("The plan", way.name)
    if shown.made is None:
        st.info(words.plain(shown.nothing), icon=":material/check:")
        return
    st.markdown(words.plain(rebalance_plan.answer(*shown.made)))
    if way.round > 1:
        st.caption(f"These are the moves of round {way.round}: it does not act before.")
    if shown.most < len(way.moves):
        st.caption(
            f"{way.name} has {counted(len(way.moves), 'move')}; the plan holds the first "
            f"{shown.most:,}, in the order in which they are made. That is as many as one plan "
            "of this page takes: apply them, then look again."
        )
    moves_plan.draw_bars(shown.made[1])


def draw_plan(page: PageContext, shown: Shown) -> None:
    """Draw the moves, their editor, and what to do with the plan."""
    moves_editor.edits_panel()
    if shown.made is None:
        return
    plan, preview = shown.made
    moves_plan.draw_remarks(plan)
    if not preview.steps:
        return
    words.section("Moves", preview.clients.sentence())
    moves_plan.draw_moves(preview)
    moves_editor.editor(page, preview)
    sentence = rebalance_plan.answer(plan, preview)
    moves_plan.draw_apply(page, plan, preview, sentence=sentence)


def draw_supposed(way: Way) -> None:
    """Say what the way would do on a fleet that does not exist."""
    words.section("What it would do", way.name)
    if not way.moves:
        st.info(words.plain(way.nothing), icon=":material/check:")
        return
    when = f"in round {way.round}, the first in which it acts" if way.round > 1 else "at once"
    st.markdown(f"{words.plain(way.name)} would move {counted(len(way.moves), 'bundle')} {when}.")
    st.caption("No plan is made of it: this fleet does not exist.")
