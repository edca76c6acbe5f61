"""Widgets of the isolation page: what is wrong, who may serve what, groups, domains, changes."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import streamlit as st

from core.errors import OpsError, UnknownNameError
from core.pulsar.plan.policy.build import DesiredPolicy
from core.pulsar.plan.policy.moves import PolicyOutlook
from core.pulsar.plan.policy.state import policies_of
from core.pulsar.plan.policy.unload_scope import SCOPE_WORDS, SCOPES, has_scope
from core.pulsar.plan.preview import overload_limit
from core.units import by_name, pluralize
from dashboard import state
from dashboard.app_pages.pulsar.isolation import model
from dashboard.app_pages.pulsar.isolation.queries import ChangeAnswer, ChangeRequest, change_of
from dashboard.components import action_bar, findings, frame, tables, words
from dashboard.components.pulsar import moves_plan, policy_changes
from dashboard.components.pulsar.applying import in_dialog
from dashboard.legible import option
from dashboard.presenters.pulsar import policy_edits, unload
from dashboard.presenters.pulsar.isolation_words import (
    NO_POLICY,
    Violation,
    destinations_note,
    impact_sentence,
    who_serves,
)

if TYPE_CHECKING:
    from core.pulsar.settings import EffectiveSettings
    from dashboard.app_pages.pulsar.isolation.queries import Isolation
    from dashboard.components.pulsar.page import PulsarPage


# -- violations, policies, groups, domains ---------------------------------------------------------

_IN_SIGHT: Final = 4


def opened_by(params: Collection[str]) -> str:
    """Return the tab of the object that an address without a tab names.

    Args:
        params: Names of its parameters.
    """
    if state.CHANGE in params:
        return policy_changes.TAB
    if state.DOMAIN in params:
        return model.DOMAINS
    return model.EDITOR if state.POLICY in params else model.POLICIES


def draw_violations(page: PulsarPage, wrong: Sequence[Violation]) -> None:
    """Render the current violations, each with its fix."""
    by_finding = {id(one.finding): one for one in wrong}
    findings.show(
        findings.of_cluster(page, [one.finding for one in wrong]),
        key="isolation",
        moment=page.stored.taken_at,
        title="Findings and fixes",
        more=lambda finding: _fix(by_finding[id(finding)]),
        max_rows=_IN_SIGHT,
        scope=page.reading.cluster_verdict.elsewhere(("policies",)),
    )


def _fix(violation: Violation) -> None:
    for rank, fix in enumerate(violation.fixes):
        st.caption(words.plain(fix.why))
        st.button(
            fix.label,
            key=f"_fix_{rank}",
            icon=":material/build:",
            help="Adds the fix to the changes; no request is sent.",
            on_click=take,
            args=(fix.desired, violation.policy),
        )
    if not violation.fixes:
        _by_hand(violation)


def _by_hand(violation: Violation) -> None:
    if violation.bundles:
        st.button(
            f"Preview unload of {pluralize(len(violation.bundles), 'bundle')}",
            key="_fix_unload",
            icon=":material/swap_horiz:",
            on_click=frame.unload_link,
            args=(list(violation.bundles),),
        )
    elif violation.policy or violation.is_domain:
        st.button(
            "Edit domains" if violation.is_domain else "Edit policy",
            key="_fix_edit",
            icon=":material/edit:",
            on_click=edit_domains if violation.is_domain else edit_policy,
            args=() if violation.is_domain else (violation.policy,),
        )


def draw_policies(page: PulsarPage, isolation: Isolation) -> None:
    """Draw the matrix of policies and brokers with their roles."""
    serving = isolation.serving
    contains = (
        st.text_input(
            "Contains",
            live=tables.TYPING_PAUSE,
            key=state.CONTAINS,
            bind="query-params",
            placeholder="Policy, namespace or broker",
            label_visibility="collapsed",
            width=300,
        )
        or ""
    ).strip()
    rows = model.matrix(serving, contains)
    classes = [name for name in rows.columns if name not in model.FIXED]
    tables.table(
        rows,
        {
            "policy": tables.opener("Policy", "_iso_policy", _choose_policy),
            "namespaces": tables.words("Namespaces"),
            "bundles": tables.whole("Bundles"),
            "misplaced": tables.whole("Misplaced", "Bundles on brokers that are not allowed."),
            **{name: tables.words(name, model.class_help(serving, name)) for name in classes},
        },
        key="isolation_matrix",
        alt="Policies by brokers: primary, secondary, shared or not",
        height=min(420, tables.height_of(len(rows))),
    )
    words.notes([model.matrix_note(serving), model.ROLES_NOTE])
    _one_namespace(page, isolation)


def _choose_policy(name: str) -> None:
    if name != NO_POLICY:
        edit_policy(name)


def _one_policy(isolation: Isolation) -> None:
    name = state.text(state.POLICY)
    known = [policy.name for policy in isolation.serving.view.policies]
    words.section("Current")
    if fault := isolation.serving.view.unreadable_policies.get(name):
        st.caption(words.plain(f"Invalid policy: {fault}. Affected namespaces are unknown."))
        return
    if name not in known:
        st.caption("New policy.")
        return
    facts = model.policy_facts(isolation.serving, name)
    st.table(
        {words.plain(key): words.plain(text) for key, text in facts.items()},
        border="horizontal",
        alt=f"Facts about {name}",
    )


def _one_namespace(page: PulsarPage, isolation: Isolation) -> None:
    """Render the candidates of a namespace that a person enters."""
    view = isolation.serving.view
    words.section("Eligible brokers of a namespace")
    with st.container(horizontal=True, vertical_alignment="bottom"):
        name = (
            st.text_input(
                "Namespace",
                key=state.NAMESPACE,
                bind="query-params",
                placeholder="tenant/namespace",
                width=300,
            )
            or ""
        ).strip()
        if not name:
            return
        if name in view.namespace_index:
            st.markdown(words.plain(who_serves(isolation.serving, name)))
            st.button(
                "Bundles",
                icon=":material/donut_small:",
                type="tertiary",
                on_click=_bundles_of,
                args=(name,),
            )
            return
    place = f"the snapshot of {page.name}"
    unknown = UnknownNameError.of("namespace", name, view.namespaces, place=place)
    words.failed(unknown, what="Unknown namespace")


def _bundles_of(name: str) -> None:
    state.go("bundles", namespace=name)


def draw_groups(page: PulsarPage, isolation: Isolation) -> None:
    """Draw the anti-affinity groups with their members, and the form that changes one."""
    note = (
        "Members are separated by failure domain, then by broker."
        if isolation.spread.by_domain
        else "Members are separated by broker: failureDomainsEnabled is off, or there are no "
        "domains."
    )
    st.caption(note)
    rows = model.groups_table(isolation.spread, isolation.collisions)
    if rows.empty:
        st.caption("No namespaces in a group.")
    else:
        tables.table(
            rows,
            {
                "group": tables.words("Group"),
                "namespace": tables.opener("Namespace", "_member", _edit_member, is_pinned=False),
                "bundles": tables.whole("Bundles"),
                "brokers": tables.words("On brokers"),
                "domains": tables.words("In domains"),
                "mark": tables.words("State"),
            },
            key="isolation_groups",
            alt="Members of anti-affinity groups with brokers and domains",
            height=min(420, tables.height_of(len(rows))),
        )
        tables.downloads(rows, cluster=page.name, what="groups", moment=page.stored.taken_at)
    group_form(page)


def _edit_member(namespace: str) -> None:
    st.session_state[state.NAMESPACE] = namespace


def draw_domains(page: PulsarPage, isolation: Isolation) -> None:
    """Draw the failure domains with their load, and the form that changes one."""
    st.caption("Brokers that fail together. Used by anti-affinity if failureDomainsEnabled is on.")
    rows = model.domains_table(isolation.serving, isolation.domains)
    if rows.empty:
        st.caption("No failure domains.")
    else:
        tables.table(
            rows,
            {
                "domain": tables.opener("Domain", "_domain_row", edit_domain),
                "brokers": tables.words("Brokers"),
                "count": tables.whole("Brokers"),
                "registered": tables.whole("Registered", "Brokers registered in the cluster."),
                "traffic": tables.megabytes("Traffic"),
                "share": tables.percent("Traffic share"),
            },
            key="isolation_domains",
            alt="Failure domains with brokers",
            height=min(330, tables.height_of(len(rows))),
        )
    domain_form(page, isolation)


# -- the changes: before and after, destinations, plan ---------------------------------------------


def planned(page: PulsarPage) -> ChangeAnswer | None:
    """Return the pending changes seen through; ``None``: there are none, or they cannot be planned.

    Draws why they cannot, and whether bundles are unloaded that would be misplaced.
    """
    texts = state.listed(state.CHANGE)
    if not texts:
        return None
    try:
        desired = tuple(policy_edits.parse_change(text) for text in texts)
        ask = partial(
            ChangeRequest,
            stored=page.stored,
            desired=desired,
            exclusions=tuple(page.cluster.exclusions),
        )
        answer = change_of(ask())
        return change_of(ask(with_unloads=True)) if _wants_unloads(answer.change) else answer
    except OpsError as error:
        words.failed(error, what="Could not create a plan")
        return None


def _wants_unloads(change: PolicyOutlook) -> bool:
    if change.impact is None or not change.impact.astray or change.plan.errored:
        return False
    return st.checkbox(
        f"Unload misplaced bundles ({len(change.impact.astray)})",
        key=state.UNLOADS,
        bind="query-params",
        help="Brokers do not unload these bundles. The plan sets the policy first, then unloads "
        "them one by one.",
    )


def effects(change: PolicyOutlook) -> list[action_bar.PlanFigure]:
    """Return the effects of the pending changes, for the action bar."""
    impact = change.impact
    if impact is None:
        return []
    return [
        action_bar.PlanFigure(
            label="Namespaces", value=f"{len(impact.changes):,}", note="other candidates"
        ),
        action_bar.PlanFigure(
            label="Must move",
            value=pluralize(len(impact.misplaced), "bundle"),
            note=f"{impact.staying:,} stay",
        ),
        action_bar.PlanFigure(
            label="Brokers unload", value=pluralize(len(impact.unloaded), "bundle")
        ),
    ]


def sentence(answer: ChangeAnswer) -> str:
    """Return the effects of the pending changes, for the dialog that applies them."""
    planned = unload.answer(answer.change.plan, answer.preview)
    return f"{impact_sentence(answer.change)} {planned}"


def draw_changes(page: PulsarPage, answer: ChangeAnswer | None) -> None:
    """Draw the effects of the pending changes.

    Args:
        answer: The changes seen through; ``None``: there are none.
    """
    if answer is None:
        st.caption(policy_changes.NOTHING)
        return
    change = answer.change
    plan, preview = in_dialog() or (change.plan, answer.preview)
    if not plan.errored:
        st.markdown(f"**{words.plain(impact_sentence(change))}**")
    moves_plan.draw_remarks(plan)
    policy_changes.draw_difference(plan, key="isolation_difference")
    _draw_namespaces(change)
    _draw_destinations(change, page.reading.settings)
    if not plan.errored:
        policy_changes.draw_commands(preview)


def _draw_namespaces(change: PolicyOutlook) -> None:
    impact = change.impact
    if impact is None or not impact.changes:
        return
    more = len(impact.changes) - model.MAX_ROWS
    note = f"First {model.MAX_ROWS} of {len(impact.changes):,}." if more > 0 else ""
    words.section("Eligible brokers, before and after", note)
    rows = model.namespace_table(impact)
    tables.table(
        rows,
        {
            "namespace": tables.words("Namespace"),
            "before": tables.words("Before"),
            "after": tables.words("After"),
            "added": tables.whole("Added", "Newly eligible brokers."),
            "dropped": tables.whole("Removed", "Brokers no longer eligible."),
            "bundles": tables.whole("Bundles"),
            "misplaced": tables.whole("Must move", "Bundles on brokers that are not eligible."),
            "staying": tables.whole("Unchanged", "Bundles that neither move nor are unloaded."),
        },
        key="isolation_impact",
        alt="Namespaces with changed candidates",
        height=min(330, tables.height_of(len(rows))),
    )


def _draw_destinations(change: PolicyOutlook, settings: EffectiveSettings) -> None:
    if change.preview is None:
        return
    words.section("Expected destinations", destinations_note(change))
    rows = model.destinations(change.preview, overload_limit(settings))
    columns = {
        "broker": tables.words("Broker"),
        "limit": tables.words("Limit", "▲: expected usage above the overload limit."),
        "leave": tables.whole("Unloaded", "Bundles unloaded from the broker."),
        "come": st.column_config.NumberColumn(
            "Gained (expected)",
            format="%.1f",
            help="Expected number of bundles, from placement probabilities.",
        ),
        "before": tables.megabytes("Traffic now"),
        "after": tables.megabytes("Expected"),
        "usage_before": tables.percent("Usage now"),
        "usage_after": tables.percent("Expected", "Above 100%: demand over the capacity."),
    }
    if not rows["limit"].any():
        del columns["limit"]
    tables.table(
        rows,
        columns,
        key="isolation_course",
        alt="Expected change of bundles and load by broker",
        height=min(330, tables.height_of(len(rows))),
    )
    if not change.preview.is_exact:
        st.caption("Sampled, because there are too many possible results.")


# -- the forms -------------------------------------------------------------------------------------

_LISTS: Final = ("namespaces", "primary", "secondary")
_NOT_SAID: Final = "default"


def edit_policy(name: str) -> None:
    """Fill in the form with a policy; for callbacks."""
    st.session_state[state.VIEW] = model.EDITOR
    st.session_state[state.POLICY] = name


def edit_domains() -> None:
    """Show the failure domains; for callbacks."""
    st.session_state[state.VIEW] = model.DOMAINS


def edit_domain(name: str) -> None:
    """Fill in the form with a domain; for callbacks."""
    edit_domains()
    st.session_state[state.DOMAIN] = name


def take(desired: Sequence[DesiredPolicy], policy: str) -> None:
    """Add suggested changes, and put the policy into its form; for callbacks."""
    _add(*desired)
    if policy:
        edit_policy(policy)


def _chosen(label: str, known: list[str], key: str) -> str:
    """Draw the choice between the stored objects and a new one; blank: a new one without a name."""
    new = f"New {label.lower()}"
    chosen = st.selectbox(
        label, [new, *known], format_func=option, key=key, bind="query-params", width=260
    )
    if chosen in (None, new):
        return (st.text_input("Name", key=f"_{key}_name", width=260) or "").strip()
    return str(chosen)


def policy_form(page: PulsarPage, isolation: Isolation) -> None:
    """Draw the form of an isolation policy, and the policy as it is."""
    left, right = frame.columns([0.6, 0.4], key="policy")
    with left:
        _policy_form(page)
    with right:
        _one_policy(isolation)


def _policy_form(page: PulsarPage) -> None:
    stored = policies_of(page.reading.snapshot, "isolation")
    with st.container(horizontal=True, vertical_alignment="bottom"):
        name = _chosen("Policy", list(stored), state.POLICY)
    begun = policy_changes.pending_value("isolation", name) or stored.get(name)
    at = f"{name if name in stored else ''}_{begun or ''}"
    fields = model.stored_fields(begun)
    entered = _expressions(page, at, fields)
    entered |= _numbers(page, at, fields)
    _advise_ports(entered)
    with st.container(horizontal=True):
        _submit("isolation", name, model.isolation_body(entered), is_new=name not in stored)
        _remove("isolation", name, is_there=name in stored)
    policy_changes.draw_fault()


def _expressions(page: PulsarPage, at: str, fields: dict[str, Any]) -> dict[str, Any]:
    view = page.reading.view
    hosts = model.host_expressions(view.brokers)
    offered = {
        "namespaces": model.namespace_expressions(view.namespaces),
        "primary": hosts,
        "secondary": hosts,
    }
    labels = {
        "namespaces": ("Namespaces", "Regular expressions for tenant/namespace (full match)."),
        "primary": ("Primary brokers", "Regular expressions for broker hosts, without port."),
        "secondary": ("Secondary brokers", "Active below min_limit primaries."),
    }
    return {
        key: st.multiselect(
            f"{labels[key][0]} ({key})",
            list(dict.fromkeys([*fields[key], *offered[key]])),
            default=fields[key],
            format_func=option,
            key=f"_iso_{key}_{at}",
            accept_new_options=True,
            select_all=False,
            help=labels[key][1],
            placeholder="Select or enter a regular expression",
        )
        for key in _LISTS
    }


def _numbers(page: PulsarPage, at: str, fields: dict[str, Any]) -> dict[str, Any]:
    with st.container(horizontal=True, vertical_alignment="bottom"):
        entered: dict[str, Any] = {
            "min_limit": st.number_input(
                "Min primaries (min_limit)",
                min_value=0,
                max_value=100_000,
                value=fields["min_limit"],
                key=f"_iso_min_{at}",
                width=190,
            ),
            "usage_threshold": st.number_input(
                "usage_threshold (%)",
                min_value=0,
                max_value=100,
                value=fields["usage_threshold"],
                key=f"_iso_usage_{at}",
                width=160,
                help="Stored, but not used by placement.",
            ),
        }
        if has_scope(page.reading.view):
            scope = st.selectbox(
                "Unload scope (unload_scope)",
                [_NOT_SAID, *SCOPES],
                index=[_NOT_SAID, *SCOPES].index(fields["unload_scope"] or _NOT_SAID)
                if fields["unload_scope"] in ("", *SCOPES)
                else 0,
                key=f"_iso_scope_{at}",
                width=220,
                help="\n\n".join(f"{key}: {text}." for key, text in SCOPE_WORDS.items())
                + "\n\ndefault: changed.",
            )
            entered["unload_scope"] = "" if scope in (None, _NOT_SAID) else scope
    return entered


def _advise_ports(entered: dict[str, Any]) -> None:
    wrong = [
        (old, new)
        for key in ("primary", "secondary")
        for old, new in zip(entered[key], model.without_ports(entered[key]), strict=True)
        if old != new
    ]
    for old, new in wrong:
        st.warning(
            words.plain(f"{old} contains a port, which placement ignores. Use {new}."),
            icon=":material/warning:",
        )


def group_form(page: PulsarPage) -> None:
    """Draw the form that puts a namespace into a group, or takes it out."""
    words.section("Change anti-affinity group")
    stored = policies_of(page.reading.snapshot, "anti_affinity")
    view = page.reading.view
    with st.container(horizontal=True, vertical_alignment="bottom"):
        namespace = st.selectbox(
            "Namespace",
            list(view.namespaces),
            format_func=option,
            key=state.NAMESPACE,
            bind="query-params",
            index=None,
            placeholder="Select a namespace",
            width=300,
        )
        held = stored.get(namespace or "")
        group = st.selectbox(
            "Group",
            list(dict.fromkeys([*([held] if held else []), *sorted(set(stored.values()))])),
            index=0 if held else None,
            format_func=option,
            key=f"_group_{namespace or ''}",
            accept_new_options=True,
            placeholder="Select or enter a group",
            width=240,
        )
        _submit("anti_affinity", namespace or "", (group or "").strip(), is_new=held is None)
        _remove("anti_affinity", namespace or "", is_there=held is not None)
    policy_changes.draw_fault()


def domain_form(page: PulsarPage, isolation: Isolation) -> None:
    """Draw the form of a failure domain."""
    words.section("Change domain")
    with st.container(horizontal=True, vertical_alignment="bottom"):
        name = _chosen("Domain", list(isolation.domains), state.DOMAIN)
    held = list(isolation.domains.get(name, ()))
    taken = {
        one for domain, members in isolation.domains.items() if domain != name for one in members
    }
    free = by_name(broker for broker in page.reading.view.brokers if broker not in taken)
    brokers = st.multiselect(
        "Brokers",
        list(dict.fromkeys([*held, *free])),
        default=held,
        format_func=option,
        key=f"_domain_brokers_{name if name in isolation.domains else ''}",
        accept_new_options=True,
        select_all=False,
        help="host:port as registered; brokers of other domains are not listed.",
        placeholder="Select brokers",
    )
    with st.container(horizontal=True):
        is_new = name not in isolation.domains
        _submit("failure_domain", name, model.domain_body(brokers), is_new=is_new)
        _remove("failure_domain", name, is_there=not is_new)
    policy_changes.draw_fault()


def _submit(kind: str, name: str, value: str, *, is_new: bool) -> None:
    st.button(
        "Preview" if is_new else "Preview change",
        icon=":material/preview:",
        type="primary",
        key=f"_submit_{kind}",
        disabled=not name or not value,
        help=None if name and value else "Select or enter a name first",
        on_click=_add,
        args=(DesiredPolicy(kind, name, value),),
    )


def _remove(kind: str, name: str, *, is_there: bool) -> None:
    if is_there:
        st.button(
            "Preview removal",
            icon=":material/delete:",
            key=f"_remove_{kind}",
            on_click=_add,
            args=(DesiredPolicy(kind, name, None),),
        )


def _add(*desired: DesiredPolicy) -> None:
    try:
        policy_changes.add(desired)
    except OpsError as error:
        policy_changes.refuse(error)
        return
    st.session_state[state.VIEW] = policy_changes.TAB
