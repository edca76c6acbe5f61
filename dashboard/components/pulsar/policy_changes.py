"""Requested changes of policies: collected by forms, previewed as one plan, applied.

Pages that change policies call :func:`add` from their forms and :func:`changes` once.
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
from core.units import pluralize
from dashboard import state
from dashboard.components import tables, words
from dashboard.components.pulsar import moves_plan
from dashboard.components.pulsar.applying import PulsarDialog
from dashboard.presenters.pulsar import policy_edits as presenter
from dashboard.queries.pulsar import policies

if TYPE_CHECKING:
    from dashboard.components.pulsar.page import PulsarPage

_FAULT: Final = "_change_fault"
_MOST_SHOWN: Final = 30


def add(desired: Sequence[DesiredPolicy]) -> None:
    """Add changes to the pending ones; for callbacks. Of one policy the last one counts."""
    st.session_state.pop(_FAULT, None)
    _store(presenter.joined(_held(), desired))
    st.toast("Added: Changes, on this page, says what it would do.", icon=":material/add:")


def refuse(error: OpsError) -> None:
    """Keep why a form could not be taken, until the next one is; for callbacks."""
    st.session_state[_FAULT] = error


def draw_fault() -> None:
    """Say why the last form was not taken."""
    fault = st.session_state.get(_FAULT)
    if isinstance(fault, OpsError):
        words.failed(fault, what="This was not added to the changes")


def _held() -> list[DesiredPolicy]:
    """Return the readable changes; :func:`changes` says which are not."""
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


def announce() -> None:
    """Say at the head of a page that changes wait at its end."""
    count = len(state.listed(state.CHANGE))
    if count:
        verb = "waits" if count == 1 else "wait"
        st.info(
            f"{pluralize(count, 'change')} {verb} at the end of this page, with the plan. Nothing "
            "is set yet.",
            icon=":material/edit_note:",
        )


def changes(page: PulsarPage) -> policies.PolicyAnswer | None:
    """Draw the pending changes and their plan; return the plan, ``None`` where there is none.

    Without changes nothing is drawn.
    """
    texts = state.listed(state.CHANGE)
    if not texts:
        return None
    words.section("Changes", "Nothing is set until a plan is applied.")
    draw_pending(texts)
    try:
        desired = tuple(presenter.parse_change(text) for text in texts)
        answer = policies.policy_preview(
            policies.PolicyRequest(
                stored=page.stored, desired=desired, exclusions=tuple(page.cluster.exclusions)
            )
        )
    except OpsError as error:
        words.failed(error, what="These changes cannot be planned")
        return None
    _draw_plan(page, answer)
    return answer


def draw_pending(texts: Sequence[str]) -> None:
    """Draw the pending changes, each with a button that removes it."""
    with st.container(horizontal=True, gap="small"):
        for text in texts[:_MOST_SHOWN]:
            st.button(
                words.plain(_short(text)),
                icon=":material/close:",
                key=f"_drop_{text}",
                help=words.plain(f"{text}: take this change out"),
                on_click=partial(_drop, text),
            )
        if len(texts) > _MOST_SHOWN:
            st.caption(f"and {len(texts) - _MOST_SHOWN:,} more")
        st.button(
            "Take all out",
            icon=":material/undo:",
            type="tertiary",
            on_click=_clear,
            key="_drop_all",
        )


def _short(text: str) -> str:
    parts = text.split(" ", 3)
    if len(parts) < 3:
        return text[:60]
    return f"{parts[0]} {parts[1].replace('_', ' ')} {parts[2]}"


def _draw_plan(page: PulsarPage, answer: policies.PolicyAnswer) -> None:
    plan, preview = _shown(answer)
    draw_difference(plan, key="policy_difference")
    if plan.steps:
        words.notes(answer.effects)
    moves_plan.draw_remarks(plan)
    if not preview.others:
        return
    with st.expander("The brokers' own lines", icon=":material/terminal:", expanded=True):
        st.code("\n".join(other.command for other in preview.others), language="bash")
    moves_plan.draw_apply(page, plan, preview, sentence=presenter.plan_sentence(plan.steps))


def draw_difference(plan: Plan, *, key: str) -> None:
    """Draw what the plan changes of policies, a row a field; nothing where it changes none."""
    rows = presenter.difference(policy_changes(plan.steps))
    if rows.empty:
        return
    tables.table(
        rows,
        {
            "policy": tables.words("Policy"),
            "of": tables.words("Of"),
            "field": tables.words("Field"),
            "now": tables.words("Now"),
            "then": tables.words("Then"),
        },
        key=key,
        alt="What the plan changes, field by field",
        height=min(330, tables.height_of(len(rows))),
    )


def _shown(answer: policies.PolicyAnswer) -> tuple[Plan, Preview]:
    """Return the plan; behind an open dialog stands what it is about."""
    dialog = state.open_dialog()
    if isinstance(dialog, PulsarDialog):
        return dialog.plan, dialog.preview
    return answer.plan, answer.preview
