"""The wished changes of isolation: who may serve what before and after, where bundles go, apply."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import streamlit as st

from core.errors import OpsError
from core.plan.policy_moves import PolicyOutlook
from dashboard import state
from dashboard.components import moves_plan, policy_changes, tables, words
from dashboard.components.applying import in_dialog
from dashboard.isolating import ChangeAnswer, ChangeRequest, change_of
from dashboard.presenters import isolation_change as presenter
from dashboard.presenters import policy_wishes

if TYPE_CHECKING:
    from dashboard.components.frame import PageContext


def draw_changes(page: PageContext) -> None:
    """Draw what is wished and what it does; nothing without wishes."""
    texts = state.listed(state.CHANGE)
    if not texts:
        return
    words.section("Changes", "Nothing is set until a plan is applied.")
    policy_changes.draw_wishes(texts)
    try:
        wishes = tuple(policy_wishes.parsed_wish(text) for text in texts)
        ask = partial(
            ChangeRequest,
            shelved=page.shelved,
            wishes=wishes,
            exclusions=tuple(page.cluster.exclusions),
        )
        answer = change_of(ask())
        if _wants_unloads(answer.change):
            answer = change_of(ask(with_unloads=True))
    except OpsError as error:
        words.failed(error, what="These changes cannot be planned")
        return
    _draw(page, answer)


def _wants_unloads(change: PolicyOutlook) -> bool:
    if change.impact is None or not change.impact.astray or change.plan.errored:
        return False
    count = len(change.impact.astray)
    return st.checkbox(
        f"And unload what lies wrong then: {count:,} bundle{'' if count == 1 else 's'} that "
        "brokers leave where they are",
        key=state.UNLOADS,
        bind="query-params",
        help="The policy is set first, so that the leader places them by it; one after the other.",
    )


def _draw(page: PageContext, answer: ChangeAnswer) -> None:
    change = answer.change
    plan, preview = in_dialog() or (change.plan, answer.preview)
    if not plan.errored:
        st.markdown(f"**{words.plain(presenter.impact_sentence(change))}**")
    moves_plan.draw_remarks(plan)
    policy_changes.draw_difference(plan, key="isolation_difference")
    _draw_namespaces(change)
    _draw_course(change)
    if not preview.others or plan.errored:
        return
    moves_plan.draw_apply(page, plan, preview)
    with st.expander("The brokers' own lines", icon=":material/terminal:"):
        st.code("\n".join(other.command for other in preview.others), language="bash")


def _draw_namespaces(change: PolicyOutlook) -> None:
    impact = change.impact
    if impact is None or not impact.changes:
        return
    more = len(impact.changes) - presenter.MAX_ROWS
    note = f"The first {presenter.MAX_ROWS} of {len(impact.changes):,}." if more > 0 else ""
    words.section("Who may serve what, before and after", note)
    rows = presenter.namespace_table(impact)
    tables.table(
        rows,
        {
            "namespace": tables.words("Namespace", pinned=True),
            "before": tables.words("Before"),
            "after": tables.words("After"),
            "added": tables.whole("Added", "Brokers that may serve it then and may not now."),
            "dropped": tables.whole("Dropped", "Brokers that may serve it now and may not then."),
            "bundles": tables.whole("Bundles"),
            "misplaced": tables.whole("Must move", "Bundles on brokers that may not have them."),
        },
        key="isolation_impact",
        alt="Namespaces whose candidates change",
        height=min(330, tables.height_of(len(rows))),
    )


def _draw_course(change: PolicyOutlook) -> None:
    if change.course is None:
        return
    words.section("Where they are expected", presenter.course_note(change))
    warning = presenter.overload(change.course)
    if warning:
        st.warning(words.plain(warning), icon=":material/warning:")
    rows = presenter.destinations(change.course)
    tables.table(
        rows,
        {
            "broker": tables.words("Broker", pinned=True),
            "leave": tables.whole("Leave", "Bundles that are unloaded from it."),
            "come": st.column_config.NumberColumn(
                "Come, expected", format="%.1f", help="Bundles, by placement's own odds."
            ),
            "before": tables.megabytes("Traffic now"),
            "after": tables.megabytes("Then"),
            "usage_before": tables.percent("Usage now"),
            "usage_after": tables.percent("Usage then"),
        },
        key="isolation_course",
        alt="What each broker is expected to lose and to get",
        height=min(330, tables.height_of(len(rows))),
    )
    if not change.course.is_exact:
        st.caption("Sampled: there are too many ways in which it may end.")
