"""Editing the moves of a plan: leave one out, pin a bundle, send it elsewhere."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

import streamlit as st

from core.pulsar.plan.preview import Preview
from dashboard import rebalancing as kernel
from dashboard import state
from dashboard.components.candidates import forget_edits
from dashboard.legible import option

if TYPE_CHECKING:
    from dashboard.components.frame import PageContext

PLACED: Final = "where the cluster places it"
_ARROW: Final = " → "
_LABELS: Final = {
    state.DROP: "Left out: not part of the plan",
    state.PIN: "Pinned: stays, and the way was asked again without it",
    state.RETARGET: "Sent elsewhere than the way says",
}


def edits() -> kernel.Edits:
    """Return what was left out and sent elsewhere; unreadable parts of the address are ignored."""
    pairs = [one.split(_ARROW) for one in state.listed(state.RETARGET)]
    return kernel.Edits(
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


def editor(page: PageContext, preview: Preview) -> None:
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
        allowed = kernel.allowed_destinations((page.shelved, bundle))
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
            help="The bundle stays where it is, and the way is asked again without it.",
        )


def _keep_choice(key: str, options: list[str], now: str) -> None:
    """Keep what was chosen when a refresh makes the plan anew; what was not follows the plan."""
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
