"""Rate limits of namespaces beside live rates, and changing them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import streamlit as st

from core.plan.policy_kinds import policy_kind
from core.planning.rate_limits import RATE_KINDS
from dashboard import planning_policies as kernel
from dashboard import state
from dashboard.components import choice, policies_form, tables, words
from dashboard.presenters import bundles
from dashboard.presenters import policies as presenter

if TYPE_CHECKING:
    import pandas as pd

    from dashboard.components.frame import PageContext


def draw_rates(page: PageContext, limits: kernel.Limits) -> None:
    """Draw who is limited and how near, and the form of one namespace's limit."""
    words.section(
        "Rate limits of namespaces",
        "Brokers apply them to each topic, subscription or consumer, not to the sum.",
    )
    rows = presenter.rates_table(limits.rates)
    if rows.empty:
        st.info("No namespace has a rate limit of its own.", icon=":material/speed:")
    else:
        _table(page, rows)
    words.section("Change a limit")
    left, right = st.columns([0.5, 0.5], gap="medium")
    with left:
        asked = state.text(state.NAMESPACE)
        namespace = st.selectbox(
            "Namespace",
            policies_form.offered(bundles.namespaces_by_load(page.reading.movable), asked),
            key=state.NAMESPACE,
            bind="query-params",
            accept_new_options=True,
            help="The busiest first; a name may be typed.",
        )
        kind = choice.segmented(
            "Limit",
            list(RATE_KINDS),
            key=state.KIND,
            say=lambda one: policy_kind(one).title.removesuffix(" of namespace"),
            has_label=True,
        )
        policies_form.policy_form(page, kind, namespace or "", delete="Take the limit away")
    with right:
        words.notes(_FACTS[kind])
        _live(limits, namespace or "")


_FACTS = {
    "publish_rate": (
        "Each topic of the namespace may publish so much, and each partition is a topic.",
        "A broker stops reading from a producer that is over it until the next second.",
    ),
    "dispatch_rate": (
        "Each topic may hand out so much in a period, to all its subscriptions together.",
        "Messages that are held back stay in the backlog.",
    ),
    "subscription_dispatch_rate": (
        "Each subscription of a topic may get so much in a period.",
        "The limit of the topic (dispatch rate) holds as well.",
    ),
    "replicator_dispatch_rate": (
        "Each topic may send so much in a period to each remote cluster that it is replicated to.",
        "What is held back waits in the replicator's backlog, which retention counts too.",
    ),
    "subscribe_rate": (
        "Each consumer may subscribe so often in a period; more attempts are refused.",
        "It protects brokers from clients that reconnect in a loop, after an unload for one.",
    ),
}


def _table(page: PageContext, rows: pd.DataFrame) -> None:
    tables.table(
        rows,
        {
            "namespace": tables.opener("Namespace", "_rate_namespace", _choose),
            "kind": tables.words("Limit of"),
            "state": tables.words("State"),
            "limit": tables.words("Limit"),
            "live": tables.words("Namespace now", "Summed over its bundles."),
            "mean": tables.words("Mean of each", "Of each topic; of each subscription at least."),
            "holders": tables.whole("Holders", "Topics or consumers that share it."),
            "why": tables.words("Because"),
        },
        key="rates_table",
        alt="Rate limits of namespaces beside live rates",
        height=min(420, tables.height_of(len(rows))),
    )
    tables.downloads(rows, cluster=page.name, what="rates", moment=page.shelved.taken_at)


def _choose(namespace: str) -> None:
    st.session_state[state.NAMESPACE] = namespace


def _live(limits: kernel.Limits, namespace: str) -> None:
    row = limits.use.row_of(namespace)
    if row < 0:
        return
    facts = presenter.namespace_facts(limits.use, row)
    st.table(
        {name: words.plain(text) for name, text in facts.items()},
        border="horizontal",
        alt=f"What {namespace} carries now",
    )
    st.button(
        "Its bundles",
        icon=":material/donut_small:",
        type="tertiary",
        on_click=_bundles,
        args=(namespace,),
        key="_rate_bundles",
    )


def _bundles(namespace: str) -> None:
    state.go("bundles", namespace=namespace)
