"""The bar at the bottom of a page while a plan is open: what will happen in four figures, and how.

A page draws it last, from its script (not from a dialog or the sidebar)::

    action_bar.show(
        [
            action_bar.PlanFigure(label="Moves", value="8", note="lower bound 7"),
            action_bar.PlanFigure(label="Moved traffic", value="128 MB/s"),
            action_bar.PlanFigure(label="Clients", value="274", note="reconnect"),
            action_bar.PlanFigure(label="Max deviation", value="+24%", note="-97 points"),
        ],
        [
            action_bar.Button(label="Copy command", on_click=copy),
            action_bar.Button(label="Preview", on_click=preview, shortcut="p"),
            action_bar.Button(label="Apply plan…", on_click=open_apply, is_primary=True),
        ],
        key="rebalance",
    )
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import streamlit as st

from dashboard.components import words


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanFigure:
    """One figure of the plan in the bar.

    Attributes:
        label: What it is.
        value: As :mod:`core.units` writes it.
        note: One to three words under it.
    """

    label: str
    value: str
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Button:
    """One thing to do with the plan.

    Attributes:
        label: Verb and object; ``…`` at its end where a dialog follows.
        on_click: Called with ``args``.
        args: Of the call.
        is_primary: The one that a person mostly wants.
        is_disabled: It cannot be done now; ``help`` says why.
        help: One sentence.
        icon: Material symbol.
        shortcut: Key that presses it.
        key: Of the widget; empty: by its place in the bar.
    """

    label: str
    on_click: Callable[..., None]
    args: tuple[Any, ...] = ()
    is_primary: bool = False
    is_disabled: bool = False
    help: str = ""
    icon: str | None = None
    shortcut: str | None = None
    key: str = ""


def show(
    effects: Sequence[PlanFigure], buttons: Sequence[Button], *, key: str, caveat: str = ""
) -> None:
    """Show the bar at the bottom of the window, over the page as it scrolls.

    Args:
        effects: Moves, traffic, clients and effect, in this order; at most four.
        buttons: The primary one last.
        key: Unique on the page.
        caveat: What the plan does not achieve, in a few words; empty: nothing to warn of.
    """
    with (
        st.bottom,
        st.container(
            horizontal=True, vertical_alignment="center", gap="medium", key=f"action_bar_{key}"
        ),
    ):
        draw_effects(effects)
        if caveat:
            st.badge(words.plain(caveat), icon=":material/warning:", color="orange")
        st.space("stretch")
        with st.container(  # where there is no room the buttons go to the next line together
            horizontal=True, vertical_alignment="center", gap="small", width="content"
        ):
            for at, button in enumerate(buttons):
                _draw(button, button.key or f"_{key}_action_{at}")


def draw_effects(effects: Sequence[PlanFigure]) -> None:
    """Draw the figures alone, for the dialog that the bar opens."""
    for effect in effects:
        st.metric(
            words.plain(effect.label),
            words.plain(effect.value),
            words.plain(effect.note) or None,
            delta_color="off",
            delta_arrow="off",
            width="content",
        )


def _draw(button: Button, key: str) -> None:
    st.button(
        words.plain(button.label),
        key=key,
        type="primary" if button.is_primary else "secondary",
        on_click=button.on_click,
        args=button.args,
        disabled=button.is_disabled,
        help=words.plain(button.help) or None,
        icon=button.icon,
        shortcut=button.shortcut,
    )
