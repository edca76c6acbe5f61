"""Parts of the page of isolation: what is wrong, who may serve what, groups, domains."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import streamlit as st

from core.errors import UnknownNameError
from dashboard import state
from dashboard.components import frame, isolation_forms, tables, words
from dashboard.presenters import isolation as presenter
from dashboard.presenters.isolation_words import NO_POLICY, Violation, who_serves

if TYPE_CHECKING:
    from core.planning.isolation_mends import Mend
    from dashboard.components.frame import PageContext
    from dashboard.isolating import Isolation

_ICONS: Final = {
    "error": ":red[:material/error:]",
    "warning": ":orange[:material/warning:]",
    "unknown": ":gray[:material/help:]",
    "info": ":gray[:material/info:]",
}
_FIRST: Final = 8


def draw_violations(found: Sequence[Violation]) -> None:
    """Draw what is wrong now, each with the way to mend it."""
    words.section("What is wrong now")
    if not found:
        st.caption(":material/check_circle: Every bundle lies where it may, and no policy is odd.")
        return
    shown = list(found)
    if len(found) > _FIRST and not st.toggle(f"Show all {len(found)}", key="_violations_all"):
        shown = shown[:_FIRST]
    for number, one in enumerate(shown):
        with st.container(horizontal=True, vertical_alignment="center", gap="small", wrap=False):
            hint = f" :gray[{words.plain(one.hint)}]" if one.hint and not one.mends else ""
            st.markdown(f"{_ICONS[one.severity]} {words.plain(one.sentence)}{hint}")
            if not one.mends:
                _mend(one, f"_mend_{number}")
        for rank, mend in enumerate(one.mends):
            _suggest(one, mend, f"_mend_{number}_{rank}")


def _suggest(one: Violation, mend: Mend, key: str) -> None:
    """Offer a change that mends it, with the reason why it does."""
    with st.container(horizontal=True, vertical_alignment="center", gap="small", wrap=False):
        st.caption(f":material/subdirectory_arrow_right: {words.plain(mend.why)}")
        st.button(
            mend.label,
            key=key,
            type="tertiary",
            icon=":material/build:",
            help="Put into the changes, and into the form: previewed first, nothing is sent",
            on_click=isolation_forms.take,
            args=(mend.wishes, one.policy),
        )


def _mend(one: Violation, key: str) -> None:
    if one.bundles:
        count = len(one.bundles)
        st.button(
            "Preview the unload",
            key=key,
            type="tertiary",
            icon=":material/swap_horiz:",
            help=f"Of {count:,} bundle{'' if count == 1 else 's'}, the busiest first",
            on_click=frame.unload_link,
            args=(list(one.bundles),),
        )
    elif one.policy or one.is_domain:
        st.button(
            "Open the form",
            key=key,
            type="tertiary",
            icon=":material/edit:",
            on_click=isolation_forms.edit_domains if one.is_domain else isolation_forms.edit_policy,
            args=() if one.is_domain else (one.policy,),
        )


def draw_policies(page: PageContext, found: Isolation) -> None:
    """Draw who may serve what, one policy, and the form that changes it."""
    serving = found.serving
    words.section("Who may serve what", presenter.matrix_note(serving))
    contains = (
        st.text_input(
            "Contains",
            key=state.CONTAINS,
            bind="query-params",
            placeholder="Part of a policy, namespace or broker",
            label_visibility="collapsed",
            width=300,
        )
        or ""
    ).strip()
    rows = presenter.matrix(serving, contains)
    classes = [name for name in rows.columns if name not in presenter.FIXED]
    tables.table(
        rows,
        {
            "policy": tables.opener("Policy", "_iso_policy", _choose_policy),
            "namespaces": tables.words("Namespaces"),
            "bundles": tables.whole("Bundles"),
            "misplaced": tables.whole("Lie wrong", "Bundles on brokers that may not serve them."),
            **{name: tables.words(name, presenter.class_help(serving, name)) for name in classes},
        },
        key="isolation_matrix",
        alt="Policies by brokers: primary, secondary, shared or not",
        height=min(420, tables.height_of(len(rows))),
    )
    st.caption(presenter.ROLES_NOTE)
    _one_namespace(page, found)
    left, right = st.columns([0.42, 0.58], gap="medium")
    with right:
        isolation_forms.policy_form(page)
    with left:
        _one_policy(found)


def _choose_policy(name: str) -> None:
    if name != NO_POLICY:
        isolation_forms.edit_policy(name)


def _one_policy(found: Isolation) -> None:
    name = state.text(state.POLICY)
    known = [policy.name for policy in found.serving.view.policies]
    words.section("As it is now")
    if name not in known:
        st.caption("A new policy: there is nothing of it yet.")
        return
    facts = presenter.policy_facts(found.serving, name)
    st.table(
        {words.plain(key): words.plain(text) for key, text in facts.items()},
        border="horizontal",
        alt=f"Facts about {name}",
    )


def _one_namespace(page: PageContext, found: Isolation) -> None:
    """Say who may serve a namespace that a person names."""
    view = found.serving.view
    with st.container(horizontal=True, vertical_alignment="center"):
        name = (
            st.text_input(
                "Namespace",
                key=state.NAMESPACE,
                bind="query-params",
                placeholder="tenant/namespace: who may serve it?",
                label_visibility="collapsed",
                width=300,
            )
            or ""
        ).strip()
        if not name:
            return
        if name in view.namespace_index:
            st.markdown(words.plain(who_serves(found.serving, name)))
            st.button(
                "Its bundles",
                icon=":material/donut_small:",
                type="tertiary",
                on_click=_bundles_of,
                args=(name,),
            )
            return
    place = f"the snapshot of {page.name}"
    unknown = UnknownNameError.of("namespace", name, view.namespaces, place=place)
    words.failed(unknown, what="No such namespace")


def _bundles_of(name: str) -> None:
    state.go("bundles", namespace=name)


def draw_groups(page: PageContext, found: Isolation) -> None:
    """Draw the anti-affinity groups with their members, and the form that changes one."""
    note = (
        "Members are kept apart by failure domain, then by broker."
        if found.spread.by_domain
        else "Members are kept apart by broker: failureDomainsEnabled is off, or no domain is told."
    )
    words.section("Anti-affinity groups", note)
    rows = presenter.groups_table(found.spread, found.crowds)
    if rows.empty:
        st.caption("No namespace is in a group.")
    else:
        tables.table(
            rows,
            {
                "group": tables.words("Group", pinned=True),
                "namespace": tables.opener("Namespace", "_member", _edit_member, is_pinned=False),
                "bundles": tables.whole("Bundles"),
                "brokers": tables.words("On brokers"),
                "domains": tables.words("In domains"),
                "mark": tables.words("State"),
            },
            key="isolation_groups",
            alt="Members of anti-affinity groups and where they lie",
            height=min(420, tables.height_of(len(rows))),
        )
        tables.downloads(rows, cluster=page.name, what="groups", moment=page.shelved.taken_at)
    isolation_forms.group_form(page)


def _edit_member(namespace: str) -> None:
    st.session_state[state.NAMESPACE] = namespace


def draw_domains(page: PageContext, found: Isolation) -> None:
    """Draw the failure domains with what they carry, and the form that changes one."""
    words.section(
        "Failure domains",
        "Brokers that fail together. They only play a part in anti-affinity, and there only with "
        "failureDomainsEnabled.",
    )
    rows = presenter.domains_table(found.serving, found.domains)
    if rows.empty:
        st.caption("No failure domain is set.")
    else:
        tables.table(
            rows,
            {
                "domain": tables.opener("Domain", "_domain_row", isolation_forms.edit_domain),
                "brokers": tables.words("Brokers"),
                "count": tables.whole("In it"),
                "registered": tables.whole("Registered", "Of those, known to the cluster now."),
                "traffic": tables.megabytes("Traffic"),
                "share": tables.percent("Of the fleet"),
            },
            key="isolation_domains",
            alt="Failure domains and their brokers",
            height=min(330, tables.height_of(len(rows))),
        )
    isolation_forms.domain_form(page, found)
