"""Tenants: what each has of the fleet, beside what its limits add up to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import streamlit as st

from core.planning.rate_limits import RateLimit
from dashboard import planning_policies as kernel
from dashboard import state
from dashboard.components import tables, words
from dashboard.presenters import policies as presenter

if TYPE_CHECKING:
    from core.planning.tenants import TenantUse
    from dashboard.components.frame import PageContext

_FACTS: Final = (
    (
        "Pulsar has no limit of a tenant: its limit is what those of its namespaces add up to, "
        "each rate times its topics, capped by the resource group."
    ),
    "A namespace without rate and group is unlimited, and so is its tenant.",
    "Storage is known of topics that were fetched on the page of a bundle.",
)


def draw_tenants(page: PageContext, limits: kernel.Limits) -> None:
    """Draw every tenant, and the namespaces of the chosen one."""
    words.section("Tenants", presenter.tenants_answer(limits.tenants))
    if not limits.tenants:
        return
    rows = presenter.tenants_table(limits.tenants)
    columns = {
        "tenant": tables.opener("Tenant", "_tenant_key", _choose),
        "share": tables.percent("Of the traffic", "Bytes in and out, of all tenants together."),
        "msg_rate_in": tables.rate("In"),
        "msg_rate_out": tables.rate("Out"),
        "msg_throughput_in": tables.megabytes("In"),
        "msg_throughput_out": tables.megabytes("Out"),
        "msgs_limit": tables.words("May publish", "Limits of its namespaces together, messages."),
        "msgs_ratio": tables.percent("used", "msg_rate_in of what it may publish."),
        "bytes_limit": tables.words("May publish, bytes"),
        "bytes_ratio": tables.percent("used"),
        "namespaces": tables.whole("Namespaces"),
        "bundles": tables.whole("Bundles"),
        "topics": tables.whole("Topics"),
    }
    for key in presenter.idle_columns(rows):
        columns.pop(key)
    if rows["groups"].any():
        columns["groups"] = tables.words("Groups")
    if rows["unlimited"].any():
        columns["unlimited"] = tables.words("Unlimited namespaces")
    if rows["silent"].any():
        columns["silent"] = tables.whole("Not told", "Bundles whose traffic nobody reported.")
    if rows["storage"].notna().any():
        columns["storage"] = tables.whole("Storage MB", "Of the topics that were fetched.")
    tables.table(
        rows,
        columns,
        key="tenants_table",
        alt="Tenants with their traffic and the sum of their limits",
        height=min(420, tables.height_of(len(rows))),
        missing="",
    )
    tables.downloads(rows, cluster=page.name, what="tenants", moment=page.shelved.taken_at)
    words.notes(_FACTS)
    _one_tenant(limits)


def _choose(name: str) -> None:
    st.session_state[state.TENANT] = name


def _one_tenant(limits: kernel.Limits) -> None:
    name = st.selectbox(
        "Namespaces of",
        [one.name for one in limits.tenants],
        key=state.TENANT,
        bind="query-params",
        width=320,
    )
    found = next((one for one in limits.tenants if one.name == name), None)
    if found is None:
        return
    _namespaces(found, limits)


def _namespaces(tenant: TenantUse, limits: kernel.Limits) -> None:
    by_namespace: dict[str, list[RateLimit]] = {}
    for limit in limits.rates:
        by_namespace.setdefault(limit.namespace, []).append(limit)
    rows = presenter.namespaces_table(tenant, limits.use, by_namespace)
    tables.table(
        rows,
        {
            "namespace": tables.opener("Namespace", "_tenant_namespace", _bundles),
            "msg_rate_in": tables.rate("In"),
            "msg_rate_out": tables.rate("Out"),
            "msg_throughput_in": tables.megabytes("In"),
            "msg_throughput_out": tables.megabytes("Out"),
            "bundles": tables.whole("Bundles"),
            "topics": tables.whole("Topics"),
            "group": tables.words("Group"),
            "limits": tables.words("Limits"),
        },
        key="tenant_namespaces",
        alt=f"Namespaces of {tenant.name}; a click opens the bundles",
        height=min(330, tables.height_of(len(rows))),
        missing="",
    )


def _bundles(namespace: str) -> None:
    state.go("bundles", namespace=namespace)
