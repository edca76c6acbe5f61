"""A plan for a Pulsar cluster on a page: before and after, what to know, what to do with it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

import numpy as np
import streamlit as st
from numpy.typing import NDArray

from core.plan.model import Plan
from core.pulsar.plan.preview import Preview
from core.pulsar.steps.base import policy_change_of
from core.units import (
    UNKNOWN,
    format_band,
    format_bytes_per_s,
    format_deviation,
    format_ratio,
    pluralize,
)
from dashboard import state
from dashboard.charts.bars import before_after_bars
from dashboard.charts.dumbbell import MAX_A_SIDE, deviation_dumbbells, pairs_of
from dashboard.components import action_bar, applying, figures, words
from dashboard.components.pulsar.applying import PulsarDialog
from dashboard.presenters.applying import remarks
from dashboard.presenters.pulsar import unload as presenter
from dashboard.presenters.pulsar.settings import is_shedding
from dashboard.services import config_option

if TYPE_CHECKING:
    from core.findings.measures import Spread
    from dashboard.components.pulsar.page import PulsarPage

_ICONS: Final = {
    "error": ":material/error:",
    "warning": ":material/warning:",
    "info": ":material/info:",
}


def draw_bars(preview: Preview) -> None:
    """Draw the brokers before and after, by the quantity that a person chooses."""
    quantity = st.segmented_control(
        "Quantity",
        list(presenter.QUANTITIES),
        default="traffic",
        required=True,
        key=state.QUANTITY,
        label_visibility="collapsed",
    )
    figures.chart(
        before_after_bars(presenter.before_after(preview, quantity or "traffic")),
        key="plan_before_after",
        alt=f"{quantity} by broker before and after the moves",
    )
    if quantity == "usage" and (note := presenter.usage_note(preview)):
        st.caption(words.plain(note))
    _draw_excluded(preview.measures_after.throughput)


def _draw_excluded(spread: Spread) -> None:
    if spread.excluded:
        st.caption(words.plain(f"Not compared: {spread.excluded}."))


def draw_deviations(
    before: Spread,
    after: Spread | None,
    target_ratio: float,
    *,
    scenario: Spread | None = None,
    key: str,
    height: int = 0,
) -> None:
    """Draw every broker's deviation now and after, the worst of each side on a large fleet.

    Args:
        before: Of all brokers.
        after: Likewise; ``None``: not known.
        target_ratio: Half width of the target band.
        scenario: Likewise, of the changed brokers before any move; ``None``: no scenario.
        key: Of the chart.
        height: Pixels at most; 0: of its rows.
    """
    spreads = [one for one in (before, scenario, after) if one is not None]
    brokers = list(dict.fromkeys(broker for one in spreads for broker in one.brokers))
    pairs = pairs_of(
        brokers,
        _deviations_of(before, brokers),
        _deviations_of(after, brokers),
        None if scenario is None else _deviations_of(scenario, brokers),
    )
    figure = deviation_dumbbells(pairs, target_ratio)
    if height and figure.layout.height > height:
        with st.container(height=height, border=False):
            figures.chart(figure, key=key, alt=_DEVIATIONS)
    else:
        figures.chart(figure, key=key, alt=_DEVIATIONS)
    if pairs.left_out:
        st.caption(
            f"The {MAX_A_SIDE} highest and lowest; {pluralize(pairs.left_out, 'broker')} omitted."
        )
    _draw_excluded(before)


def _deviations_of(spread: Spread | None, brokers: Sequence[str]) -> NDArray[np.float64]:
    """Return the deviations of these brokers, NaN where a broker has none."""
    known = {} if spread is None else dict(zip(spread.brokers, spread.deviations, strict=True))
    return np.array([known.get(broker, np.nan) for broker in brokers])


_DEVIATIONS: Final = "Deviation of the brokers from the mean, now and after"


def draw_remarks(plan: Plan, severities: Collection[str] = tuple(_ICONS)) -> None:
    """Render the remarks about the plan, of these severities."""
    show = {"error": st.error, "warning": st.warning, "info": st.info}
    found = {one: sentences for one, sentences in remarks(plan).items() if one in severities}
    for severity, sentences in found.items():
        mark = "- " if len(sentences) > 1 else ""
        show[severity](
            "\n".join(mark + words.plain(sentence) for sentence in sentences), icon=_ICONS[severity]
        )


def draw_apply(page: PulsarPage, plan: Plan, preview: Preview, *, sentence: str = "") -> None:
    """Draw the actions on the plan; ``sentence`` describes its effects."""
    name = applying.draw_choices(dialog_of(page, plan, preview, sentence=sentence), page.now)
    with st.expander("Commands", icon=":material/terminal:"):
        _draw_commands(page, name, preview)


def dialog_of(
    page: PulsarPage, plan: Plan, preview: Preview, *, sentence: str = "", caveat: str = ""
) -> PulsarDialog:
    """Return the dialog of a plan.

    Args:
        preview: Of the plan.
        sentence: What it would do.
        caveat: Why it should rather not be applied.
    """
    return PulsarDialog(
        config=page.config,
        cluster=page.cluster,
        plan=plan,
        preview=preview,
        is_past=page.is_past,
        is_shedding=is_shedding(page.reading.settings),
        sentence=sentence,
        caveat=caveat,
    )


def draw_bar(
    page: PulsarPage,
    dialog: PulsarDialog,
    *,
    key: str,
    effects: Sequence[action_bar.PlanFigure] = (),
    more: Sequence[action_bar.Button] = (),
    preview: action_bar.Button | None = None,
    is_preview: bool = False,
    part: str = "",
    caveat: str = "",
) -> None:
    """Draw the action bar of a plan: its effects in four figures, and its actions.

    Args:
        dialog: The plan.
        key: Of the bar.
        effects: Instead of those of the unloads.
        more: Buttons before the others.
        preview: Opens the page's own preview; ``None``: a dialog with before and after.
        is_preview: The page is a preview itself: there is no button for one.
        part: Which part of all moves the plan has: ``next round``; empty: they are all.
        caveat: What the plan does not achieve, in a few words; empty: nothing to warn of.
    """
    shown = action_bar.Button(label="Preview", on_click=_show, args=(_PREVIEW,), shortcut="p")
    previews = [] if is_preview else [preview or shown]
    action_bar.show(
        effects or _effects(dialog.preview, part),
        [
            *more,
            action_bar.Button(label="Copy pulsar-admin", on_click=_show, args=(_COMMANDS,)),
            *previews,
            applying.apply_action(dialog),
        ],
        key=key,
        caveat=caveat,
    )
    applying.draw_dialog()
    if state.open_dialog() is None:
        _draw_shown(page, dialog)


_VISIBLE: Final = 0.005
"""A band that is wider by less is written as the same."""


def _compared(now: Spread, after: Spread | None) -> str:
    """Return the deviation that a plan starts from, whether it gets worse, and a wider band."""
    start = now.max_deviation_ratio
    end = None if after is None else after.max_deviation_ratio
    is_higher = start is not None and end is not None and end > start
    note = f"{'higher than now' if is_higher else 'now'} {format_deviation(start)}"
    # the busiest broker does not say that another is idle
    is_wider = after is not None and end is not None and (after.band_ratio or 0.0) > end + _VISIBLE
    return f"{note} · band {format_band(after.band_ratio)}" if after and is_wider else note


def _effects(preview: Preview, part: str) -> list[action_bar.PlanFigure]:
    """Return the four figures of the unloads: moves, traffic, clients, deviation."""
    clients, before = preview.clients, preview.measures_before.throughput
    sources = len({step.step.owner for step in preview.steps})
    moved = clients.throughput_bytes_per_s
    share = None if moved is None or not before.total else moved / before.total
    is_known = all(step.placement.is_known for step in preview.steps)
    after = preview.measures_after.throughput if is_known else None
    return [
        action_bar.PlanFigure(
            label="Moves",
            value=f"{len(preview.steps):,}",
            note=part or f"from {pluralize(sources, 'broker')}",
        ),
        action_bar.PlanFigure(
            label="Moved traffic",
            value=format_bytes_per_s(moved),
            note=f"{format_ratio(share)} of all",
        ),
        action_bar.PlanFigure(
            label="Clients",
            value=UNKNOWN if clients.clients is None else f"{clients.clients:,}",
            note="reconnect",
        ),
        action_bar.PlanFigure(
            label="Max deviation",
            value=format_deviation(None if after is None else after.max_deviation_ratio),
            note=_compared(before, after),
        ),
    ]


_COMMANDS: Final = "Commands"
_PREVIEW: Final = "Preview"
_SHOWN: Final = "_plan_shown"


def _show(which: str) -> None:
    st.session_state[_SHOWN] = (state.page(), which)
    state.set_dialog_open(is_open=True)


def _hide() -> None:
    st.session_state.pop(_SHOWN, None)
    state.set_dialog_open(is_open=False)


def _draw_shown(page: PulsarPage, dialog: PulsarDialog) -> None:
    """Draw the panel opened from the bar; nothing else draws the page again meanwhile."""
    at, which = st.session_state.get(_SHOWN, ("", ""))
    if at != state.page():
        return
    body = partial(_preview_body, dialog) if which == _PREVIEW else partial(_by_hand, page, dialog)
    st.dialog(which, width="large", on_dismiss=_hide)(body)()


def _preview_body(dialog: PulsarDialog) -> None:
    dialog.draw_effects()
    draw_remarks(dialog.plan)
    if dialog.preview.steps:
        draw_bars(dialog.preview)
    words.notes(dialog.preview.notes)
    action = applying.apply_action(dialog)
    if st.button(
        action.label,
        icon=action.icon,
        type="primary" if action.is_primary else "secondary",
        disabled=action.is_disabled,
        help=words.plain(action.help) or None,
        on_click=_hide_and,
        args=(action,),
        key="_preview_apply",
    ):
        st.rerun()  # a click within a dialog draws the dialog alone


def _hide_and(action: action_bar.Button) -> None:
    _hide()
    action.on_click(*action.args)


def _by_hand(page: PulsarPage, dialog: PulsarDialog) -> None:
    name = applying.draw_download(dialog)
    _draw_commands(page, name, dialog.preview)


def _draw_commands(page: PulsarPage, name: str, preview: Preview) -> None:
    """Draw the lines that do the same: of ours with the plan's file, then of the brokers' tools."""
    line = f'trimtab apply {name} --reason "..."{config_option(page.config)}'
    st.code(line, language="bash")
    moves = [(step.command, step.rest) for step in preview.steps]
    changes = [(one.command, one.rest) for one in preview.others]
    is_change_first = bool(changes) and policy_change_of(preview.others[0].step) is not None
    lines = [*changes, *moves] if is_change_first else [*moves, *changes]
    for column in zip(*lines, strict=True):
        st.code("\n".join(one for one in column if one), language="bash")
