"""Forms of the page of isolation: each adds to the wished changes, nothing is sent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import streamlit as st

from core.errors import OpsError
from core.plan.policy import PolicyWish
from core.plan.policy_scope import SCOPE_WORDS, SCOPES, has_scope
from core.plan.policy_state import policies_of
from dashboard import state
from dashboard.components import policy_changes, words
from dashboard.presenters import isolation_change as presenter

if TYPE_CHECKING:
    from dashboard.components.frame import PageContext
    from dashboard.isolating import Isolation

NEW: Final = "a new one"
_LISTS: Final = ("namespaces", "primary", "secondary")
_NOT_SAID: Final = "not said"


def edit_policy(name: str) -> None:
    """Fill in the form with a policy; for callbacks."""
    st.session_state[state.VIEW] = "policies"
    st.session_state[state.POLICY] = name


def edit_domains() -> None:
    """Show the failure domains; for callbacks."""
    st.session_state[state.VIEW] = "domains"


def edit_domain(name: str) -> None:
    """Fill in the form with a domain; for callbacks."""
    edit_domains()
    st.session_state[state.DOMAIN] = name


def take(wishes: Sequence[PolicyWish], policy: str) -> None:
    """Put suggested changes into the wished ones, and the policy into its form; for callbacks."""
    _wish(*wishes)
    if policy:
        edit_policy(policy)


def _chosen(label: str, known: list[str], key: str) -> str:
    """Draw the choice between what there is and a new one; blank: a new one without a name."""
    chosen = st.selectbox(label, [NEW, *known], key=key, bind="query-params", width=260)
    if chosen in (None, NEW):
        return (st.text_input("Its name", key=f"_{key}_name", width=260) or "").strip()
    return str(chosen)


def policy_form(page: PageContext) -> None:
    """Draw the form of an isolation policy."""
    words.section("Change a policy", "Previewed first; nothing is sent from here.")
    stored = policies_of(page.reading.snapshot, "isolation")
    with st.container(horizontal=True, vertical_alignment="bottom"):
        name = _chosen("Policy", list(stored), state.POLICY)
    begun = policy_changes.wished("isolation", name) or stored.get(name)
    at = f"{name if name in stored else ''}_{begun or ''}"
    fields = presenter.stored_fields(begun)
    entered = _expressions(page, at, fields)
    entered |= _numbers(page, at, fields)
    _advise_ports(entered)
    with st.container(horizontal=True):
        _submit("isolation", name, presenter.isolation_body(entered), is_new=name not in stored)
        _remove("isolation", name, is_there=name in stored)
    policy_changes.draw_fault()


def _expressions(page: PageContext, at: str, fields: dict[str, Any]) -> dict[str, Any]:
    view = page.reading.view
    hosts = presenter.host_expressions(view.brokers)
    offered = {
        "namespaces": presenter.namespace_expressions(view.namespaces),
        "primary": hosts,
        "secondary": hosts,
    }
    labels = {
        "namespaces": ("Namespaces", "Regular expressions over tenant/namespace, matched whole."),
        "primary": ("Primary brokers", "Over the host of a broker, without its port."),
        "secondary": ("Secondary brokers", "Serve while fewer primaries than min_limit are there."),
    }
    return {
        key: st.multiselect(
            f"{labels[key][0]} ({key})",
            list(dict.fromkeys([*fields[key], *offered[key]])),
            default=fields[key],
            key=f"_iso_{key}_{at}",
            accept_new_options=True,
            select_all=False,
            help=labels[key][1],
            placeholder="Choose, or write a regular expression",
        )
        for key in _LISTS
    }


def _numbers(page: PageContext, at: str, fields: dict[str, Any]) -> dict[str, Any]:
    with st.container(horizontal=True, vertical_alignment="bottom"):
        entered: dict[str, Any] = {
            "min_limit": st.number_input(
                "Fewest primaries (min_limit)",
                min_value=0,
                max_value=100_000,
                value=fields["min_limit"],
                key=f"_iso_min_{at}",
                width=190,
            ),
            "usage_threshold": st.number_input(
                "usage_threshold, %",
                min_value=0,
                max_value=100,
                value=fields["usage_threshold"],
                key=f"_iso_usage_{at}",
                width=160,
                help="Stored; placement does not use it.",
            ),
        }
        if has_scope(page.reading.view):
            scope = st.selectbox(
                "Unload when set (unload_scope)",
                [_NOT_SAID, *SCOPES],
                index=[_NOT_SAID, *SCOPES].index(fields["unload_scope"] or _NOT_SAID)
                if fields["unload_scope"] in ("", *SCOPES)
                else 0,
                key=f"_iso_scope_{at}",
                width=220,
                help="\n\n".join(f"{key}: {text}." for key, text in SCOPE_WORDS.items())
                + "\n\nNot said means changed.",
            )
            entered["unload_scope"] = "" if scope in (None, _NOT_SAID) else scope
    return entered


def _advise_ports(entered: dict[str, Any]) -> None:
    wrong = [
        (old, new)
        for key in ("primary", "secondary")
        for old, new in zip(entered[key], presenter.without_ports(entered[key]), strict=True)
        if old != new
    ]
    for old, new in wrong:
        st.warning(
            words.plain(f"{old} names a port, which placement never compares: write {new}."),
            icon=":material/warning:",
        )


def group_form(page: PageContext) -> None:
    """Draw the form that puts a namespace into a group, or takes it out."""
    words.section("Change a namespace's group", "Previewed first; nothing is sent from here.")
    stored = policies_of(page.reading.snapshot, "anti_affinity")
    view = page.reading.view
    with st.container(horizontal=True, vertical_alignment="bottom"):
        namespace = st.selectbox(
            "Namespace",
            list(view.namespaces),
            key=state.NAMESPACE,
            bind="query-params",
            index=None,
            placeholder="Choose a namespace",
            width=300,
        )
        held = stored.get(namespace or "")
        group = st.selectbox(
            "Group",
            list(dict.fromkeys([*([held] if held else []), *sorted(set(stored.values()))])),
            index=0 if held else None,
            key=f"_group_{namespace or ''}",
            accept_new_options=True,
            placeholder="Choose, or write a new one",
            width=240,
        )
        _submit("anti_affinity", namespace or "", (group or "").strip(), is_new=held is None)
        _remove("anti_affinity", namespace or "", is_there=held is not None)
    policy_changes.draw_fault()


def domain_form(page: PageContext, found: Isolation) -> None:
    """Draw the form of a failure domain."""
    words.section("Change a domain", "Previewed first; nothing is sent from here.")
    with st.container(horizontal=True, vertical_alignment="bottom"):
        name = _chosen("Domain", list(found.domains), state.DOMAIN)
    held = list(found.domains.get(name, ()))
    taken = {one for domain, members in found.domains.items() if domain != name for one in members}
    free = [one for one in page.reading.view.brokers if one not in taken]
    brokers = st.multiselect(
        "Brokers",
        list(dict.fromkeys([*held, *free])),
        default=held,
        key=f"_domain_brokers_{name if name in found.domains else ''}",
        accept_new_options=True,
        select_all=False,
        help="host:port, as brokers call themselves; one that is in another domain is not offered.",
        placeholder="Choose brokers",
    )
    with st.container(horizontal=True):
        is_new = name not in found.domains
        _submit("failure_domain", name, presenter.domain_body(brokers), is_new=is_new)
        _remove("failure_domain", name, is_there=not is_new)
    policy_changes.draw_fault()


def _submit(kind: str, name: str, value: str, *, is_new: bool) -> None:
    st.button(
        "Preview the new one" if is_new else "Preview the change",
        icon=":material/preview:",
        type="primary",
        key=f"_submit_{kind}",
        disabled=not name or not value,
        help=None if name and value else "Choose or name it first",
        on_click=_wish,
        args=(PolicyWish(kind, name, value),),
    )


def _remove(kind: str, name: str, *, is_there: bool) -> None:
    if is_there:
        st.button(
            "Preview taking it out" if kind == "anti_affinity" else "Preview deleting it",
            icon=":material/delete:",
            key=f"_remove_{kind}",
            on_click=_wish,
            args=(PolicyWish(kind, name, None),),
        )


def _wish(*wishes: PolicyWish) -> None:
    try:
        policy_changes.wish(wishes)
    except OpsError as error:
        policy_changes.refuse(error)
