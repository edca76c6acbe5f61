"""Requested changes of policies: collected by forms, previewed as one plan, applied.

Pages that change policies call :func:`add` from their forms, :func:`draw_pending` above their tabs,
:func:`draw_effects` in the tab :data:`TAB`, and :func:`draw_bar` last.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

import streamlit as st

from core.errors import OpsError
from core.plan.model import Plan
from core.pulsar.plan.policy.build import DesiredPolicy
from core.pulsar.plan.preview import Preview
from core.pulsar.steps.base import policy_changes
from dashboard import state
from dashboard.components import action_bar, tables, words
from dashboard.components.pulsar import moves_plan
from dashboard.components.pulsar.applying import in_dialog
from dashboard.presenters.pulsar import policy_edits as presenter
from dashboard.queries.pulsar import policies

if TYPE_CHECKING:
    from dashboard.components.pulsar.page import PulsarPage

TAB: Final = "Unapplied changes"
"""Tab of a page that shows what the pending changes would do."""

_FAULT: Final = "_change_fault"
_MOST_SHOWN: Final = 30


def add(desired: Sequence[DesiredPolicy]) -> None:
    """Add changes to the pending ones; for callbacks. Of one policy the last one counts."""
    st.session_state.pop(_FAULT, None)
    _store(presenter.joined(_held(), desired))
    st.toast("Added to the changes.", icon=":material/add:")


def refuse(error: OpsError) -> None:
    """Store why a form was refused, until the next one is sent; for callbacks."""
    st.session_state[_FAULT] = error


def draw_fault() -> None:
    """Render why the last form was refused."""
    fault = st.session_state.get(_FAULT)
    if isinstance(fault, OpsError):
        words.failed(fault, what="Change not added")


def _held() -> list[DesiredPolicy]:
    """Return the readable changes; the plan of a page says which are not."""
    found = []
    for text in state.listed(state.CHANGE):
        try:
            found.append(presenter.parse_change(text))
        except OpsError:
            continue
    return found


def pending_value(kind: str, name: str) -> str | None:
    """Return the pending value of a policy; ``None``: no change is pending."""
    found = [one.value for one in _held() if (one.policy, one.name) == (kind, name)]
    return found[-1] if found else None


def _store(desired: Sequence[DesiredPolicy]) -> None:
    state.keep_list(state.CHANGE, [presenter.change_text(one) for one in desired])


def _drop(text: str) -> None:
    state.keep_list(state.CHANGE, [one for one in state.listed(state.CHANGE) if one != text])


def _clear() -> None:
    state.keep_list(state.CHANGE, [])


def planned(page: PulsarPage) -> policies.PolicyAnswer | None:
    """Return the plan of the pending changes; ``None``: there are none, or they cannot be planned.

    Why they cannot is drawn.
    """
    texts = state.listed(state.CHANGE)
    if not texts:
        return None
    try:
        desired = tuple(presenter.parse_change(text) for text in texts)
        return policies.policy_preview(
            policies.PolicyRequest(
                stored=page.stored, desired=desired, exclusions=tuple(page.cluster.exclusions)
            )
        )
    except OpsError as error:
        words.failed(error, what="Could not create a plan")
        return None


def draw_effects(answer: policies.PolicyAnswer | None) -> None:
    """Draw the effects of the pending changes.

    Args:
        answer: The plan; ``None``: there is none.
    """
    if answer is None:
        st.caption(NOTHING)
        return
    plan, preview = in_dialog() or (answer.plan, answer.preview)
    draw_difference(plan, key="policy_difference")
    if plan.steps:
        words.notes(answer.effects)
    moves_plan.draw_remarks(plan)
    draw_commands(preview)


NOTHING: Final = "No changes. Use the forms on this page to add changes."


def draw_commands(preview: Preview) -> None:
    """Draw the lines of the brokers' own tool that do the same."""
    if preview.others:
        with st.expander("REST requests", icon=":material/terminal:"):
            st.code("\n".join(other.command for other in preview.others), language="bash")


def draw_bar(
    page: PulsarPage,
    plan: Plan,
    preview: Preview,
    *,
    effects: Sequence[action_bar.PlanFigure] = (),
    sentence: str = "",
) -> None:
    """Draw the action bar of the pending changes.

    Args:
        plan: Of the changes.
        preview: Of the plan.
        effects: Figures after the number of changes.
        sentence: What the plan would do; empty: by its preview.
    """
    plan, preview = in_dialog() or (plan, preview)
    figures = [
        action_bar.PlanFigure(label="Changes", value=f"{len(policy_changes(plan.steps)):,}"),
        *effects,
    ]
    clear = action_bar.Button(label="Clear", on_click=_clear)
    is_preview = st.session_state.get(state.VIEW) == TAB
    shown = action_bar.Button(label="Preview", on_click=_preview, shortcut="p")
    if not preview.others or plan.errored:
        action_bar.show(figures, [clear] if is_preview else [clear, shown], key="policies")
        return
    dialog = moves_plan.dialog_of(page, plan, preview, sentence=sentence)
    moves_plan.draw_bar(
        page,
        dialog,
        key="policies",
        effects=figures,
        more=[clear],
        preview=shown,
        is_preview=is_preview,
    )


def _preview() -> None:
    st.session_state[state.VIEW] = TAB


def draw_pending() -> None:
    """Draw the pending changes, each with a button that removes it."""
    texts = state.listed(state.CHANGE)
    if not texts:
        return
    with st.container(horizontal=True, gap="small"):
        for text in texts[:_MOST_SHOWN]:
            st.button(
                words.plain(_short(text)),
                icon=":material/close:",
                key=f"_drop_{text}",
                help=words.plain(f"Remove: {text}"),
                on_click=partial(_drop, text),
            )
        if len(texts) > _MOST_SHOWN:
            st.caption(f"and {len(texts) - _MOST_SHOWN:,} more")


def _short(text: str) -> str:
    parts = text.split(" ", 3)
    if len(parts) < 3:
        return text[:60]
    return f"{parts[0]} {parts[1].replace('_', ' ')} {parts[2]}"


def draw_difference(plan: Plan, *, key: str) -> None:
    """Draw the changes of policies in the plan, a row a field; nothing where there are none."""
    rows = presenter.difference(policy_changes(plan.steps))
    if rows.empty:
        return
    tables.table(
        rows,
        {
            "policy": tables.words("Policy"),
            "of": tables.words("Object"),
            "field": tables.words("Field"),
            "now": tables.words("Current"),
            "then": tables.words("Planned"),
        },
        key=key,
        alt="Changes of the plan by field",
        height=min(330, tables.height_of(len(rows))),
    )
