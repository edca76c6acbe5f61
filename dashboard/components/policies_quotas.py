"""Resource quotas of bundles: everybody's and their own, and changing them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc
import streamlit as st

from core.plan.policy_kinds import DEFAULT_QUOTA_NAME
from core.plan.policy_state import policies_of
from core.schemas.pulsar import RATES
from dashboard import planning_policies as kernel
from dashboard import state
from dashboard.components import policies_form, tables, words
from dashboard.presenters import policies as presenter

if TYPE_CHECKING:
    from dashboard.components.frame import PageContext

_FACTS: Final = (
    (
        "A quota limits nobody. The modular load manager takes a bundle's own quota for its load "
        "when no average of the bundle is stored: after a split, or when the leader is new."
    ),
    "The default quota seeds nothing there; brokers answer with it for a bundle that has none.",
    "Resetting a bundle's quota takes its own away, so that the default is told again.",
)
_EXTENSIBLE: Final = "The extensible load manager, which decides here, takes no quota at all."


def draw_quotas(page: PageContext, limits: kernel.Limits) -> None:
    """Draw the quotas and the form of one."""
    del limits
    snapshot = page.reading.snapshot
    quotas = policies_of(snapshot, "resource_quota")
    own = len(quotas) - (DEFAULT_QUOTA_NAME in quotas)
    words.section(
        "Resource quotas of bundles",
        f"{own:,} bundles have their own." if own != 1 else "One bundle has its own.",
    )
    if DEFAULT_QUOTA_NAME not in quotas:
        st.caption(
            ":material/help: The default quota is not stored, or was not read: brokers then take "
            "the one that is built in."
        )
    if quotas:
        _table(page, quotas)
    left, right = st.columns([0.5, 0.5], gap="medium")
    with left:
        words.section("Change a quota")
        asked = state.text(state.BUNDLE)
        name = st.selectbox(
            "Bundle",
            policies_form.offered([DEFAULT_QUOTA_NAME, *quotas, *page.reading.hottest], asked),
            key=state.BUNDLE,
            bind="query-params",
            accept_new_options=True,
            help=f"{DEFAULT_QUOTA_NAME}: of every bundle that has none of its own.",
        )
        policies_form.policy_form(page, "resource_quota", name or "", delete="Reset")
    with right:
        notes = list(_FACTS)
        if snapshot.manifest.load_manager == "extensible":
            notes.insert(0, _EXTENSIBLE)
        words.notes(notes)


def _table(page: PageContext, quotas: dict[str, str]) -> None:
    bundles = page.reading.snapshot.bundles
    named = bundles.filter(pc.is_in(bundles["bundle"], pa.array(list(quotas), pa.string())))
    live = {row["bundle"]: row for row in named.select(["bundle", *RATES]).to_pylist()}
    rows = presenter.quotas_table(quotas, live)
    tables.table(
        rows,
        {
            "bundle": tables.opener("Bundle", "_quota_bundle", _choose),
            "msg_in": tables.rate("In"),
            "msg_out": tables.rate("Out"),
            "mb_in": tables.megabytes("In"),
            "mb_out": tables.megabytes("Out"),
            "memory": tables.whole("Memory MB"),
            "dynamic": tables.words("Dynamic", "Only the simple load manager goes by it."),
            "live_in": tables.rate("In now", "As its owner reports it."),
            "live_out": tables.rate("Out now", "As its owner reports it."),
        },
        key="quotas_table",
        alt="Resource quotas beside live rates",
        height=min(330, tables.height_of(len(rows))),
        missing="",
    )
    tables.downloads(rows, cluster=page.name, what="quotas", moment=page.shelved.taken_at)


def _choose(name: str) -> None:
    st.session_state[state.BUNDLE] = name
