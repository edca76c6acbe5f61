"""Resource groups: limits beside live use, shares by broker, and changing them."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

import streamlit as st

from core.plan.policy import PolicyWish
from core.planning.group_use import QUANTITIES, GroupUse, enforcement_words, period_of
from dashboard import planning_policies as kernel
from dashboard import state
from dashboard.components import choice, frame, policies_form, policy_changes, tables, words
from dashboard.presenters import policies as presenter

if TYPE_CHECKING:
    from dashboard.components.frame import PageContext

NEW: Final = "a new group"
_NAME: Final = "_group_name"
_MOST_OFFERED: Final = 2_000


def draw_enforcement(page: PageContext) -> None:
    """Say whether limits of groups hold on this cluster."""
    holds, sentence = enforcement_words(page.reading.settings)
    if holds:
        st.caption(f":material/check_circle: {words.plain(sentence)}")
    else:
        st.warning(words.plain(sentence), icon=":material/power_off:")


def draw_groups(page: PageContext, limits: kernel.Limits) -> None:
    """Draw the groups, the chosen one by broker, and its form."""
    draw_enforcement(page)
    words.section("Resource groups", "A limit is for all attached namespaces and brokers together.")
    if limits.groups:
        _table(page, limits)
    else:
        st.info(
            "There is no resource group. Make one below, attach namespaces to it, and preview the "
            "plan: their producers share its limit over all brokers.",
            icon=":material/speed:",
        )
    names = [group.name for group in limits.groups]
    chosen = st.selectbox(
        "Group",
        [*names, NEW],
        key=state.RESOURCE_GROUP,
        bind="query-params",
        width=320,
    )
    group = next((one for one in limits.groups if one.name == chosen), None)
    left, right = st.columns([0.5, 0.5], gap="medium")
    with left:
        _edit(page, limits, group)
    with right:
        if group is None:
            words.notes(_FACTS)
        else:
            _by_broker(page, group)


_FACTS: Final = (
    (
        "A group limits what its namespaces publish; brokers compute the dispatch limit as well "
        "and do not apply it."
    ),
    (
        "Brokers tell each other what they used once an interval, and only when it changed by more "
        "than 5 % or five intervals have passed."
    ),
    (
        "A group that a namespace is attached to cannot be deleted: detach it first. One plan "
        "can do both."
    ),
)


def _table(page: PageContext, limits: kernel.Limits) -> None:
    rows = presenter.groups_table(limits.groups)
    columns = {"group": tables.opener("Group", "_group_key", _choose)}
    for key, kind in QUANTITIES.items():
        title = kind.title.capitalize()
        columns[f"{key}_used"] = tables.words(title, f"{kind.column}, summed over its bundles.")
        columns[f"{key}_limit"] = tables.words("of", kind.field)
        if kind.is_enforced:
            columns[f"{key}_ratio"] = tables.percent("used")
    columns["namespaces"] = tables.whole("Namespaces")
    columns["members"] = tables.words("Attached")
    if rows["note"].any():
        columns["note"] = tables.words("Note")
    tables.table(
        rows,
        columns,
        key="groups_table",
        alt="Resource groups with limits and live use",
        height=min(330, tables.height_of(len(rows))),
        missing="",
    )
    tables.downloads(rows, cluster=page.name, what="groups", moment=page.shelved.taken_at)


def _choose(name: str) -> None:
    st.session_state[state.RESOURCE_GROUP] = name


def _edit(page: PageContext, limits: kernel.Limits, group: GroupUse | None) -> None:
    if group is None:
        words.section("Make a group")
        name = st.text_input("Name", key=_NAME, placeholder="gold", width=320) or ""
        policies_form.policy_form(page, "resource_group", name.strip(), new=True)
        return
    words.section(f"Change {group.name}")
    policies_form.policy_form(page, "resource_group", group.name, delete="Delete the group")
    _attached(limits, group)


def _attached(limits: kernel.Limits, group: GroupUse) -> None:
    key = f"_attached_{group.name}"
    others = sorted(set(limits.use.namespaces) - set(group.namespaces))[:_MOST_OFFERED]
    wanted = st.multiselect(
        "Attached namespaces",
        [*group.namespaces, *others],
        default=list(group.namespaces),
        key=key,
        accept_new_options=True,
        select_all=False,
        placeholder="Choose namespaces, or type a name",
        help="A namespace is in one group at most: attaching it here detaches it elsewhere.",
    )
    gone = [name for name in group.namespaces if name not in wanted]
    come = [name for name in wanted if name not in group.namespaces]
    st.button(
        f"Add to the changes: attach {len(come)}, detach {len(gone)}",
        icon=":material/link:",
        disabled=not (gone or come),
        key="_wish_attached",
        on_click=partial(_wish_attached, group.name, come, gone),
    )


def _wish_attached(group: str, come: list[str], gone: list[str]) -> None:
    kind = "namespace_resource_group"
    policy_changes.wish(
        [PolicyWish(kind, name, None) for name in gone]
        + [PolicyWish(kind, name, group) for name in come]
    )


def _by_broker(page: PageContext, group: GroupUse) -> None:
    words.section(
        "Each broker's share", f"Shared out anew every {period_of(page.reading.settings)} s."
    )
    limited = [key for key in QUANTITIES if group.limits[key] >= 0]
    quantity = choice.segmented(
        "Limit of",
        list(QUANTITIES),
        default=limited[0] if limited else "publish_msgs",
        key=state.QUANTITY,
        say=lambda key: QUANTITIES[key].title,
    )
    shared = kernel.shared_of((page.shelved, group.name, quantity))
    rows = presenter.shares_table(shared)
    if rows.empty:
        why = "carries anything of its namespaces now" if group.namespaces else "is concerned"
        end = "" if group.namespaces else ": no namespace is attached to it"
        st.caption(f"No broker {why}{end}.")
        words.notes(_FACTS)
        return
    tables.table(
        rows,
        {
            "broker": tables.opener("Broker", "_share_broker", frame.broker_link),
            "used": tables.words("Uses now"),
            "part": tables.percent("Part"),
            "upstream": tables.words("May (upstream)", "As ResourceQuotaCalculatorImpl counts."),
            "published": tables.words("May (PIP-82)", "The formula of the published design."),
            "mark": tables.words("State"),
        },
        key="shares_table",
        alt="What each broker uses of the group's limit, and may use",
        height=min(330, tables.height_of(len(rows))),
    )
    words.notes(presenter.shares_notes(shared))
    st.button(
        "Try it in the calculator",
        icon=":material/calculate:",
        type="tertiary",
        on_click=_calculate,
        args=(shared.limit, [round(float(used)) for used in shared.used if used > 0]),
    )


def _calculate(limit: int, usage: list[int]) -> None:
    st.session_state[state.LIMIT] = str(limit)
    st.session_state[state.USAGE] = ",".join(map(str, usage)) or "0"
    st.session_state[state.VIEW] = "calculator"
