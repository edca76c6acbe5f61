"""Inputs of the advisors: each with its upstream name and whether it is live or assumed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import streamlit as st

from dashboard.components import words
from dashboard.presenters.advisors_inputs import Knob, Live, Number, live_value

_WIDTH_PX: Final = 208
_REMEMBERED: Final = 8


def draw(knobs: Sequence[Knob], live: Mapping[str, Live]) -> dict[str, Number]:
    """Draw the inputs in rows that wrap, and return what they hold by key.

    What nobody has changed follows the cluster from snapshot to snapshot.

    Args:
        knobs: In their order.
        live: What the cluster gives, by key.
    """
    with st.container(horizontal=True, gap="small"):
        return {knob.key: _draw(knob, live) for knob in knobs}


def _draw(knob: Knob, live: Mapping[str, Live]) -> Number:
    begin, origin = live_value(knob, live)
    _follow(knob.key, begin)
    with st.container(gap=None, width=_WIDTH_PX):
        given = st.number_input(
            knob.label,
            value=begin,
            step=knob.step,
            format=None if isinstance(begin, int) else "%g",
            key=knob.key,
            bind="query-params",
            help=knob.help or None,
        )
        value = begin if given is None else given
        mark = "◇ yours; " if value != begin else ""
        name = f":small[{words.plain(knob.key)}] · " if knob.is_upstream else ""
        st.caption(f"{name}{mark}{words.plain(origin)}")
    return value


def _follow(key: str, begin: Number) -> None:
    """Move an input on with the cluster, unless somebody has changed it.

    A browser that is behind sends what a measured input began with some snapshots ago: nobody
    chose that.
    """
    seen = f"_began_{key}"
    before: tuple[Number, ...] = st.session_state.get(seen, ())
    if st.session_state.get(key) in before:
        st.session_state[key] = begin
    elif before and before[-1] == begin:
        return
    kept = _REMEMBERED if isinstance(begin, float) else 1
    st.session_state[seen] = (*[one for one in before if one != begin], begin)[-kept:]


def preset(values: Mapping[str, Number]) -> None:
    """Put values into inputs; from a callback."""
    for key, value in values.items():
        st.session_state[key] = value
