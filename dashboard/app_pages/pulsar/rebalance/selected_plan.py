"""The selected candidate of the Rebalance page: its moves as a plan to edit and to apply."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

import streamlit as st

from core.errors import InputError
from core.optimize import Proposal
from core.plan.model import Plan
from core.pulsar.plan.preview import Preview
from core.units import pluralize
from dashboard import state
from dashboard.app_pages.pulsar.rebalance import queries
from dashboard.app_pages.pulsar.rebalance.candidates import forget_edits
from dashboard.components import words
from dashboard.components.pulsar import moves_plan
from dashboard.components.pulsar.applying import PulsarDialog
from dashboard.legible import option
from dashboard.presenters.pulsar import rebalance_plan

if TYPE_CHECKING:
    from dashboard.components.pulsar.page import PulsarPage

Moves = tuple[tuple[str, str | None], ...]


@dataclass(frozen=True, kw_only=True)
class Selection:
    """What the chosen way moves.

    Attributes:
        name: Of the way.
        moves: All of its moves, in the order in which they are made.
        reason: Stored with the plan.
        nothing: What is said when there is no plan.
        round: In which round it moves them; 0: it does not go by rounds, or moves nothing.
    """

    name: str
    moves: Moves
    reason: str
    nothing: str
    round: int = 0

    @classmethod
    def of_strategy(cls, candidate: queries.Candidate) -> Selection:
        """The first round of a strategy that moves something."""
        done = queries.decided(candidate)
        acting = done.acting or done.first
        return cls(
            name=candidate.strategy,
            moves=queries.moves_of(done.acting) if done.acting else (),
            reason=f"{candidate.strategy}: {acting.decision.sentence}",
            nothing=done.first.decision.sentence,
            round=done.number,
        )

    @classmethod
    def of_optimal(cls, name: str, optimal: Proposal | None) -> Selection:
        """The optimal plan; ``None``: it is being computed."""
        if optimal is None:
            return cls(name=name, moves=(), reason="", nothing="They are being sought.")
        return cls(
            name=name,
            moves=tuple(optimal.destinations.items()),
            reason=f"{name}: {optimal.goal}",
            nothing=optimal.sentence,
        )


@dataclass(frozen=True, kw_only=True)
class Shown:
    """A way with the plan that is shown for it.

    Attributes:
        selection: The way.
        made: Plan and preview; ``None``: there is none.
        nothing: Why there is none.
        limit: Most moves of one plan.
    """

    selection: Selection
    made: tuple[Plan, Preview] | None
    nothing: str
    limit: int


def planned(page: PulsarPage, selection: Selection) -> Shown:
    """Return the plan of a way, as it was edited."""
    first = queries.first_moves(page.stored, selection.moves, page.cluster.apply.max_steps)
    made, nothing = None, selection.nothing
    if first:
        request = queries.PlanRequest(
            stored=page.stored,
            moves=first,
            edits=edits(),
            exclusions=tuple(page.cluster.exclusions),
            reason=selection.reason,
        )
        try:
            made = queries.rebalance_preview(request)
        except InputError as error:
            nothing = f"{error.message} {error.hint}"
    dialog = state.open_dialog()
    # behind an open dialog stands what it is about
    if isinstance(dialog, PulsarDialog):
        made = dialog.plan, dialog.preview
    return Shown(selection=selection, made=made, nothing=nothing, limit=len(first))


def draw_answer(shown: Shown) -> None:
    """Say what the plan does, before and after."""
    selection = shown.selection
    words.section("The plan", selection.name)
    if shown.made is None:
        st.info(words.plain(shown.nothing), icon=":material/check:")
        return
    st.markdown(words.plain(rebalance_plan.answer(*shown.made)))
    if selection.round > 1:
        st.caption(f"These are the moves of round {selection.round}: it does not act before.")
    if shown.limit < len(selection.moves):
        st.caption(
            f"{selection.name} has {pluralize(len(selection.moves), 'move')}; the plan holds the "
            f"first {shown.limit:,}, in the order in which they are made. That is as many as one "
            "plan of this page takes: apply them, then look again."
        )
    moves_plan.draw_bars(shown.made[1])


def draw_plan(page: PulsarPage, shown: Shown) -> None:
    """Draw the moves, their editor, and what to do with the plan."""
    edits_panel()
    if shown.made is None:
        return
    plan, preview = shown.made
    moves_plan.draw_remarks(plan)
    if not preview.steps:
        return
    words.section("Moves", preview.clients.sentence())
    moves_plan.draw_moves(preview)
    editor(page, preview)
    sentence = rebalance_plan.answer(plan, preview)
    moves_plan.draw_apply(page, plan, preview, sentence=sentence)


def draw_supposed(selection: Selection) -> None:
    """Say what the way would do on a fleet that does not exist."""
    words.section("What it would do", selection.name)
    if not selection.moves:
        st.info(words.plain(selection.nothing), icon=":material/check:")
        return
    when = (
        f"in round {selection.round}, the first in which it acts"
        if selection.round > 1
        else "at once"
    )
    moves = pluralize(len(selection.moves), "bundle")
    st.markdown(f"{words.plain(selection.name)} would move {moves} {when}.")
    st.caption("No plan is made of it: this fleet does not exist.")


PLACED: Final = "where the cluster places it"
_ARROW: Final = " → "
_LABELS: Final = {
    state.DROP: "Left out: not part of the plan",
    state.PIN: "Pinned: stays; the round is computed without it",
    state.RETARGET: "Destination changed by hand",
}


def edits() -> queries.Edits:
    """Return what was left out and sent elsewhere; unreadable parts of the address are ignored."""
    pairs = [one.split(_ARROW) for one in state.listed(state.RETARGET)]
    return queries.Edits(
        left_out=state.listed(state.DROP),
        retargets=tuple(
            (pair[0], None if pair[1] == PLACED else pair[1]) for pair in pairs if len(pair) == 2
        ),
    )


def edits_panel() -> None:
    """Draw what was edited; taking a chip away takes the edit back."""
    held = {key: state.listed(key) for key in _LABELS}
    if not any(held.values()):
        return
    with st.container(horizontal=True, vertical_alignment="bottom"):
        for key, values in held.items():
            if values:
                st.multiselect(
                    _LABELS[key],
                    list(values),
                    default=None if key in st.session_state else list(values),
                    format_func=option,
                    key=key,
                    select_all=False,
                    on_change=partial(_chips_changed, key),
                )
        st.button(
            "As it was",
            icon=":material/undo:",
            type="tertiary",
            on_click=_forget_all,
            key="_edits_reset",
            help="Take all edits back.",
        )


def editor(page: PulsarPage, preview: Preview) -> None:
    """Draw the line with which one move is edited."""
    steps = {one.step.bundle: one.step for one in preview.steps}
    with st.container(horizontal=True, vertical_alignment="bottom"):
        bundle = st.selectbox(
            "Edit a move",
            list(steps),
            format_func=option,
            key=state.STEP,
            bind="query-params",
            width=340,
        )
        allowed = queries.allowed_destinations((page.stored, bundle))
        now = steps[bundle].destination or PLACED
        options = list(dict.fromkeys([now, PLACED, *allowed]))
        key = f"_target_{bundle}"
        _keep_choice(key, options, now)
        target = st.selectbox(
            "Goes to",
            options,
            format_func=option,
            key=key,
            width=240,
            help=f"{len(allowed)} brokers may take it: policies, anti-affinity, version and "
            "drained brokers are looked at.",
        )
        st.button(
            "Send it there",
            icon=":material/forward:",
            disabled=target == now,
            help="Choose another destination first." if target == now else None,
            on_click=partial(_retarget, bundle, target),
            key="_send",
        )
        st.button(
            "Leave out",
            icon=":material/remove_circle_outline:",
            on_click=partial(_add, state.DROP, bundle),
            key="_leave_out",
            help="The other moves stay as they are.",
        )
        st.button(
            "Pin",
            icon=":material/keep:",
            on_click=partial(_add, state.PIN, bundle),
            key="_pin",
            help="The bundle stays where it is; the round is computed again without it.",
        )


def _keep_choice(key: str, options: list[str], now: str) -> None:
    """Keep what was chosen when a refresh makes the plan again; what was not follows the plan."""
    held, was = st.session_state.get(key), st.session_state.get(f"{key}_was")
    st.session_state[key] = held if held in options and held != was else now
    st.session_state[f"{key}_was"] = now


def _retarget(bundle: str, target: str) -> None:
    others = [
        one for one in state.listed(state.RETARGET) if not one.startswith(f"{bundle}{_ARROW}")
    ]
    state.keep_list(state.RETARGET, [*others, f"{bundle}{_ARROW}{target}"])


def _add(key: str, bundle: str) -> None:
    state.keep_list(key, [*state.listed(key), bundle])


def _chips_changed(key: str) -> None:
    state.keep_list(key, st.session_state[key])


def _forget_all() -> None:
    forget_edits()
    state.keep_list(state.PIN, [])
