"""Widgets of the policies page: resource groups, rates, quotas, tenants, the form of a policy."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from hashlib import blake2s
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc
import streamlit as st

from core.errors import OpsError
from core.planning.limits.groups import QUANTITIES, GroupUse, enforcement_words, period_of
from core.planning.limits.rates import RATE_KINDS, RateLimit
from core.pulsar.plan.policy.build import DesiredPolicy
from core.pulsar.plan.policy.state import policies_of, stored_policy
from core.pulsar.policy_kinds import DEFAULT_QUOTA_NAME, UNLIMITED, policy_kind
from core.schemas.pulsar import RATES
from dashboard import state
from dashboard.app_pages.pulsar.policies import model
from dashboard.components import choice, findings, frame, tables, words
from dashboard.components.pulsar import policy_changes
from dashboard.components.pulsar.system import PULSAR
from dashboard.legible import option
from dashboard.presenters.finding_counts import COUNTED
from dashboard.presenters.pulsar import policy_edits
from dashboard.queries.pulsar import policies

if TYPE_CHECKING:
    import pandas as pd

    from core.planning.limits.tenants import TenantUse
    from dashboard.components.pulsar.page import PulsarPage


def draw_findings(page: PulsarPage) -> None:
    """Draw the errors and warnings of isolation and ownership, which the navigation counts."""
    listed = PULSAR.findings_of("policies", page.reading.findings)
    urgent = [one for one in listed if one.severity in COUNTED]
    if urgent:
        findings.show(
            findings.of_cluster(page, urgent),
            key="policies",
            moment=page.stored.taken_at,
            max_rows=_FINDINGS_IN_SIGHT,
        )


# -- namespaces ------------------------------------------------------------------------------------

_TABLE_PX: Final = 470
_FINDINGS_IN_SIGHT: Final = 3


def draw_namespaces(page: PulsarPage, limits: policies.ClusterLimits) -> None:
    """Draw every namespace with its use, the nearest limit first; a click changes its limits."""
    holds, _ = enforcement_words(page.reading.settings)
    with st.container(horizontal=True, vertical_alignment="center"):
        shown = choice.segmented("Show", model.SHOWN, key=state.SHOW, format_func=str.capitalize)
        contains = st.text_input(
            "Contains",
            live=tables.TYPING_PAUSE,
            key=state.CONTAINS,
            bind="query-params",
            placeholder="Filter by name",
            label_visibility="collapsed",
            icon=":material/filter_list:",
            width=230,
        )
        st.space("stretch")
        change_here = st.container(width="content")
    rows = model.limits_table(limits, is_enforced=holds, shown=shown, contains=contains or "")
    columns = {
        "namespace": tables.opener("Namespace", "_limits_namespace", _change_limits),
        "state": tables.status("State", model.MARKS.values(), width_px=140),
        "use": tables.share(
            "Use, mean of topics",
            "Use of the limits of all topics together. Single topics may be at their limit below "
            "100%.",
        ),
        "limit": tables.words("Nearest limit", "The limit with the highest use.", width_px=190),
        "msg_rate_in": tables.rate("Publish"),
        "msg_throughput_in": tables.megabytes("Publish"),
        "msg_rate_out": tables.rate("Dispatch"),
        "msg_throughput_out": tables.megabytes("Dispatch"),
        "group": tables.words(
            "Group", "" if holds else "Group limits have no effect on this cluster."
        ),
        "topics": tables.whole("Topics"),
        "bundles": tables.whole("Bundles"),
    }
    if rows.empty:
        st.caption("No namespaces match.")
        return
    change_here.button(
        "Change limit",
        icon=":material/tune:",
        type="primary",
        key="_change_limit",
        help="Opens Rates with the first namespace of the table.",
        on_click=_change_limits,
        args=(rows["namespace"].iloc[0],),
    )
    for name in ("group", "limit"):
        if not rows[name].any():
            columns.pop(name)
    if "limit" not in columns:
        columns.pop("use")
    tables.table(
        rows,
        columns,
        key="limits_table",
        alt="Namespaces with use and nearest limit",
        height=min(_TABLE_PX, tables.height_of(len(rows))),
        missing="",
    )
    tables.downloads(
        rows.assign(state=rows["state"].str[0]),
        cluster=page.name,
        what="namespaces",
        moment=page.stored.taken_at,
    )


def _change_limits(namespace: str) -> None:
    st.session_state[state.NAMESPACE] = namespace
    st.session_state[state.VIEW] = model.RATES_TAB


# -- resource groups -------------------------------------------------------------------------------

NEW: Final = "New group"
_NAME: Final = "_group_name"
_MOST_OFFERED: Final = 2_000


def draw_enforcement(page: PulsarPage) -> None:
    """Render why limits of groups have no effect on this cluster; nothing where they have."""
    holds, sentence = enforcement_words(page.reading.settings)
    if not holds:
        st.warning(words.plain(sentence), icon=":material/power_off:")


def draw_groups(page: PulsarPage, limits: policies.ClusterLimits) -> None:
    """Draw the groups, the chosen one by broker, and its form."""
    draw_enforcement(page)
    if limits.groups:
        _groups_table(page, limits)
    else:
        st.info(
            "No resource groups. A group limits the producers of all attached namespaces over "
            "all brokers.",
            icon=":material/speed:",
        )
    names = [group.name for group in limits.groups]
    chosen = st.selectbox(
        "Group",
        [*names, NEW],
        format_func=option,
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
            words.notes(_GROUP_FACTS)
        else:
            _by_broker(page, group)


_GROUP_FACTS: Final = (
    (
        "A group limits publishing of its namespaces; brokers compute the dispatch limit but "
        "do not apply it."
    ),
    (
        "Brokers exchange usage reports once per interval, if use changed by more than 5% or "
        "five intervals have passed."
    ),
    ("Detach all namespaces before you delete a group. One plan can do both."),
)


def _groups_table(page: PulsarPage, limits: policies.ClusterLimits) -> None:
    rows = model.groups_table(limits.groups)
    columns = {"group": tables.opener("Group", "_group_key", _choose_group)}
    for key, kind in QUANTITIES.items():
        title = kind.title.capitalize()
        columns[f"{key}_used"] = tables.words(title, f"{kind.column}, summed over the bundles.")
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
    tables.downloads(rows, cluster=page.name, what="groups", moment=page.stored.taken_at)


def _choose_group(name: str) -> None:
    st.session_state[state.RESOURCE_GROUP] = name


def _edit(page: PulsarPage, limits: policies.ClusterLimits, group: GroupUse | None) -> None:
    if group is None:
        words.section("New group")
        name = st.text_input("Name", key=_NAME, placeholder="gold", width=320) or ""
        policy_form(page, "resource_group", name.strip(), new=True)
        return
    words.section(f"Change {group.name}")
    policy_form(page, "resource_group", group.name, delete="Delete group")
    _attached(limits, group)


def _attached(limits: policies.ClusterLimits, group: GroupUse) -> None:
    key = f"_attached_{group.name}"
    others = sorted(set(limits.use.namespaces) - set(group.namespaces))[:_MOST_OFFERED]
    wanted = st.multiselect(
        "Attached namespaces",
        [*group.namespaces, *others],
        default=list(group.namespaces),
        format_func=option,
        key=key,
        accept_new_options=True,
        select_all=False,
        placeholder="Select or enter namespaces",
        help="A namespace has at most one group; attaching it here detaches it from another group.",
    )
    gone = [name for name in group.namespaces if name not in wanted]
    come = [name for name in wanted if name not in group.namespaces]
    st.button(
        f"Add to changes (attach {len(come)}, detach {len(gone)})",
        icon=":material/link:",
        disabled=not (gone or come),
        key="_change_attached",
        on_click=partial(_change_attached, group.name, come, gone),
    )


def _change_attached(group: str, come: list[str], gone: list[str]) -> None:
    kind = "namespace_resource_group"
    policy_changes.add(
        [DesiredPolicy(kind, name, None) for name in gone]
        + [DesiredPolicy(kind, name, group) for name in come]
    )


def _by_broker(page: PulsarPage, group: GroupUse) -> None:
    words.section("Broker shares", f"Recomputed every {period_of(page.reading.settings)} s.")
    limited = [key for key in QUANTITIES if group.limits[key] >= 0]
    quantity = choice.segmented(
        "Quantity",
        list(QUANTITIES),
        default=limited[0] if limited else "publish_msgs",
        key=state.QUANTITY,
        format_func=lambda key: QUANTITIES[key].title,
    )
    shared = policies.shared_of((page.stored, group.name, quantity))
    rows = model.shares_table(shared)
    if rows.empty:
        why = "No traffic on any broker." if group.namespaces else "No attached namespaces."
        st.caption(why)
        words.notes(_GROUP_FACTS)
        return
    tables.table(
        rows,
        {
            "broker": tables.opener("Broker", "_share_broker", frame.broker_link),
            "used": tables.words("Use"),
            "part": tables.percent("Use share"),
            "upstream": tables.words("Share (upstream)", "ResourceQuotaCalculatorImpl."),
            "published": tables.words("Share (PIP-82)", "Formula of PIP-82."),
            "mark": tables.words("State"),
        },
        key="shares_table",
        alt="Use and share of the group limit by broker",
        height=min(330, tables.height_of(len(rows))),
    )
    words.notes(model.shares_notes(shared))
    st.button(
        "Open in calculator",
        icon=":material/calculate:",
        type="tertiary",
        on_click=_calculate,
        args=(shared.limit, [round(float(used)) for used in shared.used if used > 0]),
    )


def _calculate(limit: int, usage: list[int]) -> None:
    st.session_state[state.LIMIT] = str(limit)
    st.session_state[state.USAGE] = ",".join(map(str, usage)) or "0"
    st.session_state[state.VIEW] = model.CALCULATOR


# -- rate limits of namespaces ---------------------------------------------------------------------


def draw_rates(page: PulsarPage, limits: policies.ClusterLimits) -> None:
    """Draw the limited namespaces with their use, and the form of one namespace's limit."""
    rows = model.rates_table(limits.rates)
    if rows.empty:
        st.info("No namespaces with rate limits.", icon=":material/speed:")
    else:
        _rates_table(page, rows)
    words.section("Change limit")
    left, right = st.columns([0.5, 0.5], gap="medium")
    with left:
        named = state.text(state.NAMESPACE)
        namespace = st.selectbox(
            "Namespace",
            offered(page.reading.namespaces, named),
            format_func=option,
            key=state.NAMESPACE,
            bind="query-params",
            accept_new_options=True,
            help="Busiest first; or enter a name.",
        )
        kind = choice.segmented(
            "Limit type",
            list(RATE_KINDS),
            key=state.KIND,
            format_func=lambda one: policy_kind(one).title.removesuffix(" of namespace"),
            has_label=True,
        )
        policy_form(page, kind, namespace or "", delete="Remove limit")
    with right:
        words.notes(_RATE_FACTS[kind])
        _live(limits, namespace or "")


_RATE_FACTS = {
    "publish_rate": (
        "The limit applies per topic of the namespace; each partition is a topic.",
        "Above the limit, the broker stops reading from the producer until the next second.",
    ),
    "dispatch_rate": (
        "The limit applies per topic and period, to all subscriptions together.",
        "Throttled messages stay in the backlog.",
    ),
    "subscription_dispatch_rate": (
        "The limit applies per subscription and period.",
        "The topic's limit (dispatch rate) applies as well.",
    ),
    "replicator_dispatch_rate": (
        "The limit applies per topic, remote cluster and period.",
        "Throttled messages wait in the replicator's backlog, which counts toward retention.",
    ),
    "subscribe_rate": (
        "The limit applies per consumer and period; further attempts are rejected.",
        "Protects brokers from clients that reconnect in a loop, for example after an unload.",
    ),
}


def _rates_table(page: PulsarPage, rows: pd.DataFrame) -> None:
    tables.table(
        rows,
        {
            "namespace": tables.opener("Namespace", "_rate_namespace", _choose_namespace),
            "kind": tables.words("Limit type"),
            "state": tables.words("State"),
            "limit": tables.words("Limit"),
            "live": tables.words("Namespace rate", "Summed over the bundles."),
            "mean": tables.words("Mean rate", "Mean per topic; lower bound per subscription."),
            "holders": tables.whole("Holders", "Topics or consumers with this limit."),
        },
        key="rates_table",
        alt="Rate limits of namespaces and live rates",
        height=min(420, tables.height_of(len(rows))),
    )
    tables.downloads(rows, cluster=page.name, what="rates", moment=page.stored.taken_at)


def _choose_namespace(namespace: str) -> None:
    st.session_state[state.NAMESPACE] = namespace


def _live(limits: policies.ClusterLimits, namespace: str) -> None:
    row = limits.use.row_of(namespace)
    if row < 0:
        return
    facts = model.namespace_facts(limits.use, row)
    st.table(
        {name: words.plain(text) for name, text in facts.items()},
        border="horizontal",
        alt=f"Current traffic of {namespace}",
    )
    st.button(
        "Open bundles",
        icon=":material/donut_small:",
        type="tertiary",
        on_click=_bundles,
        args=(namespace,),
        key="_rate_bundles",
    )


def _bundles(namespace: str) -> None:
    state.go("bundles", namespace=namespace)


# -- resource quotas of bundles --------------------------------------------------------------------

_QUOTA_FACTS: Final = (
    (
        "Quotas do not limit clients. The modular load manager uses a bundle's quota as its "
        "load until averages are stored, for example after a split or leader change."
    ),
    "The default quota has no such effect; brokers return it for bundles without a quota.",
    "Reset removes the quota of a bundle; the default applies again.",
)
_EXTENSIBLE: Final = "The extensible load manager does not use quotas."


def draw_quotas(page: PulsarPage, limits: policies.ClusterLimits) -> None:
    """Draw the quotas and the form of one."""
    del limits
    snapshot = page.reading.snapshot
    quotas = policies_of(snapshot, "resource_quota")
    own = len(quotas) - (DEFAULT_QUOTA_NAME in quotas)
    words.section(
        "Resource quotas of bundles",
        f"{own:,} set for single bundles",
    )
    if DEFAULT_QUOTA_NAME not in quotas:
        st.caption(
            ":material/help: No default quota stored or read; brokers use the built-in default."
        )
    if quotas:
        _quotas_table(page, quotas)
    left, right = st.columns([0.5, 0.5], gap="medium")
    with left:
        words.section("Change quota")
        named = state.text(state.BUNDLE)
        name = st.selectbox(
            "Bundle",
            offered([DEFAULT_QUOTA_NAME, *quotas, *page.reading.hottest], named),
            format_func=option,
            key=state.BUNDLE,
            bind="query-params",
            accept_new_options=True,
            help=f"{DEFAULT_QUOTA_NAME}: all bundles without a quota.",
        )
        policy_form(page, "resource_quota", name or "", delete="Reset")
    with right:
        notes = list(_QUOTA_FACTS)
        if snapshot.manifest.load_manager == "extensible":
            notes.insert(0, _EXTENSIBLE)
        words.notes(notes)


def _quotas_table(page: PulsarPage, quotas: dict[str, str]) -> None:
    bundles = page.reading.snapshot.bundles
    named = bundles.filter(pc.is_in(bundles["bundle"], pa.array(list(quotas), pa.string())))
    live = {row["bundle"]: row for row in named.select(["bundle", *RATES]).to_pylist()}
    rows = model.quotas_table(quotas, live)
    tables.table(
        rows,
        {
            "bundle": tables.opener("Bundle", "_quota_bundle", _choose_bundle),
            "msg_in": tables.rate("In"),
            "msg_out": tables.rate("Out"),
            "mb_in": tables.megabytes("In"),
            "mb_out": tables.megabytes("Out"),
            "memory": tables.whole("Memory (MB)"),
            "dynamic": tables.words("Dynamic", "Used by the simple load manager only."),
            "live_in": tables.rate("Current in", "Reported by the owner."),
            "live_out": tables.rate("Current out", "Reported by the owner."),
        },
        key="quotas_table",
        alt="Resource quotas and live rates",
        height=min(330, tables.height_of(len(rows))),
        missing="",
    )
    tables.downloads(rows, cluster=page.name, what="quotas", moment=page.stored.taken_at)


def _choose_bundle(name: str) -> None:
    st.session_state[state.BUNDLE] = name


# -- tenants ---------------------------------------------------------------------------------------

_TENANT_FACTS: Final = (
    (
        "Pulsar has no tenant limits. The sum over the namespaces is shown: rate limit times "
        "topics, capped by the resource group."
    ),
    "A tenant with a namespace without rate limit and group is unlimited.",
    "Storage is known for topics fetched on a Bundle page.",
)


def draw_tenants(page: PulsarPage, limits: policies.ClusterLimits) -> None:
    """Draw every tenant, and the namespaces of the chosen one."""
    st.caption(words.plain(model.tenants_answer(limits.tenants)))
    if not limits.tenants:
        return
    rows = model.tenants_table(limits.tenants)
    columns = {
        "tenant": tables.opener("Tenant", "_tenant_key", _choose_tenant),
        "share": tables.percent("Traffic share", "Share of the bytes in and out of all tenants."),
        "msg_rate_in": tables.rate("In"),
        "msg_rate_out": tables.rate("Out"),
        "msg_throughput_in": tables.megabytes("In"),
        "msg_throughput_out": tables.megabytes("Out"),
        "msgs_limit": tables.words("Publish limit", "Combined limit of the namespaces, messages."),
        "msgs_ratio": tables.percent("used", "msg_rate_in relative to the publish limit."),
        "bytes_limit": tables.words("Publish limit, bytes"),
        "bytes_ratio": tables.percent("used"),
        "namespaces": tables.whole("Namespaces"),
        "bundles": tables.whole("Bundles"),
        "topics": tables.whole("Topics"),
    }
    for key in model.idle_columns(rows):
        columns.pop(key)
    if rows["groups"].any():
        columns["groups"] = tables.words("Groups")
    if rows["unlimited"].any():
        columns["unlimited"] = tables.words("Unlimited namespaces")
    if rows["silent"].any():
        columns["silent"] = tables.whole("Not reported", "Bundles without a traffic report.")
    if rows["storage"].notna().any():
        columns["storage"] = tables.whole("Storage (MB)", "Fetched topics only.")
    tables.table(
        rows,
        columns,
        key="tenants_table",
        alt="Tenants with traffic and combined limits",
        height=min(420, tables.height_of(len(rows))),
        missing="",
    )
    tables.downloads(rows, cluster=page.name, what="tenants", moment=page.stored.taken_at)
    words.notes(_TENANT_FACTS)
    _one_tenant(limits)


def _choose_tenant(name: str) -> None:
    st.session_state[state.TENANT] = name


def _one_tenant(limits: policies.ClusterLimits) -> None:
    name = st.selectbox(
        "Tenant",
        [tenant.name for tenant in limits.tenants],
        format_func=option,
        key=state.TENANT,
        bind="query-params",
        width=320,
    )
    found = next((tenant for tenant in limits.tenants if tenant.name == name), None)
    if found is None:
        return
    _namespaces(found, limits)


def _namespaces(tenant: TenantUse, limits: policies.ClusterLimits) -> None:
    by_namespace: dict[str, list[RateLimit]] = {}
    for limit in limits.rates:
        by_namespace.setdefault(limit.namespace, []).append(limit)
    rows = model.namespaces_table(tenant, limits.use, by_namespace)
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
        alt=f"Namespaces of {tenant.name}; click a row to open its bundles",
        height=min(330, tables.height_of(len(rows))),
        missing="",
    )


# -- the form of one policy ------------------------------------------------------------------------

_COLUMNS: Final = 2


def policy_form(
    page: PulsarPage, kind: str, name: str, *, delete: str = "Remove", new: bool = False
) -> None:
    """Draw the fields of a policy with the stored values, and the buttons that add a change.

    Args:
        kind: Of the policy.
        name: Of the policy, or of the namespace or bundle.
        delete: What taking it away is called.
        new: It is to be made: there is nothing to take away.
    """
    stored = stored_policy(page.reading.snapshot, kind, name) if name else None
    values = policy_edits.field_values(kind, stored)
    keys = {field: _key(kind, name, field, stored) for field in policy_kind(kind).fields}
    columns = st.columns(_COLUMNS, gap="small")
    for rank, (field, default) in enumerate(policy_kind(kind).fields.items()):
        with columns[rank % _COLUMNS]:
            _field(field, default, values.get(field, default), keys[field])
    policy_changes.draw_fault()
    with st.container(horizontal=True, vertical_alignment="center"):
        st.button(
            "Add to changes",
            icon=":material/add:",
            disabled=not name,
            key=f"_set_{kind}",
            on_click=partial(_add, kind, name, keys),
        )
        if not new:
            st.button(
                delete,
                icon=":material/delete:",
                type="tertiary",
                disabled=stored is None,
                help=None if stored else "Not set.",
                key=f"_delete_{kind}",
                on_click=policy_changes.add,
                args=([DesiredPolicy(kind, name, None)],),
            )
        hint = "not set" if stored is None else "current values"
        st.caption(hint if name else "Enter a name first.", width="content")


def _key(kind: str, name: str, field: str, stored: str | None) -> str:
    """Return the key of a field; it has the stored value, or a form would show its first one."""
    at = "" if stored is None else f"_{blake2s(stored.encode(), digest_size=4).hexdigest()}"
    return f"_field_{kind}_{name}_{field}{at}"


def _field(field: str, default: object, value: object, key: str) -> None:
    label = policy_edits.FIELD_WORDS.get(field, field)
    if isinstance(default, bool):
        st.toggle(label, value=bool(value), key=key, help=words.plain(field))
        return
    is_limit = default == UNLIMITED
    st.text_input(
        label,
        value=policy_edits.field_text(value),
        key=key,
        placeholder="no limit" if is_limit else None,
        help=words.plain(f"{field}; blank: no limit" if is_limit else field),
    )


def _add(kind: str, name: str, keys: dict[str, str]) -> None:
    entered = {field: st.session_state.get(key, "") for field, key in keys.items()}
    try:
        value = policy_edits.document(kind, entered)
    except OpsError as error:
        policy_changes.refuse(error)
        return
    policy_changes.add([DesiredPolicy(kind, name.strip(), value)])


def offered(names: Sequence[str], named: str) -> list[str]:
    """Return names to choose from, with the one that the address names."""
    return list(dict.fromkeys([*([named] if named else []), *names]))
