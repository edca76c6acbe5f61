"""Next pages of a cause on a Pulsar cluster."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import streamlit as st

from core.diagnosis.pulsar.advice import values_of
from core.diagnosis.pulsar.trials import SHEDDING
from core.errors import OpsError
from core.optimize import OptimizeRequest, Proposal
from core.pulsar.settings import effective_settings, parse_set_options
from core.pulsar.shedding.registry import active_shedding_strategy
from dashboard import state
from dashboard.app_pages.diagnose.system import DiagnoseSystem, NextPage, OptimalPlan
from dashboard.app_pages.pulsar.rebalance import queries

if TYPE_CHECKING:
    from core.diagnosis.model import Cause
    from core.snapshot.store import CachedSnapshot
    from dashboard.components.pulsar.page import PulsarPage


_ISOLATION: Final = (
    NextPage(
        label="Open isolation",
        page="isolation",
        params={},
        icon=":material/account_tree:",
        help="Brokers and namespaces of each isolation policy.",
    ),
)


class PulsarDiagnose:
    """Pulsar; see :class:`dashboard.app_pages.diagnose.system.DiagnoseSystem`."""

    subject = "Bundle"

    def next_pages(self, page: PulsarPage, cause: Cause) -> Sequence[NextPage]:
        """Return Rebalance and Settings with the change filled in; of a policy its page."""
        changes = changes_of(cause)
        if not changes:
            return _ISOLATION if cause.code.startswith("policy_") else ()
        manager = page.reading.snapshot.manifest.load_manager
        values = parse_set_options(changes)
        settings = effective_settings(page.reading.snapshot, overrides=values)
        shown = [change for change in changes if not change.startswith(f"{SHEDDING}=")]
        return (
            NextPage(
                label="Simulate fix",
                page="rebalance",
                params={
                    state.SET: shown,
                    state.PICK: active_shedding_strategy(manager, settings).name,
                },
                icon=":material/balance:",
                help="Open Rebalance with this change.",
            ),
            NextPage(
                label="Plan fix",
                page="settings",
                params={state.SET: changes},
                icon=":material/tune:",
                help="Open Settings with this change.",
            ),
        )

    def is_planning(self, page: PulsarPage, stored: CachedSnapshot) -> bool:
        """Return whether the optimal plan is being computed."""
        return _planned(page, stored) is None

    def optimal(self, page: PulsarPage, stored: CachedSnapshot) -> OptimalPlan | None:
        """Return the plan that the page Rebalance opens with."""
        found = _planned(page, stored)
        if not isinstance(found, Proposal) or not found.moves:
            return None
        return OptimalPlan(
            moves=found.needed,
            deviation=found.deviation_after,
            next_page=NextPage(
                label="Preview optimal plan",
                page="rebalance",
                params={state.PICK: queries.OPTIMIZER},
                icon=":material/balance:",
                help="Open Rebalance with this plan: unloads only, no change of a setting.",
            ),
        )

    def links(self, page: PulsarPage) -> None:
        """Draw the links to Rebalance, Settings, and the job that simulates every cluster."""
        del page
        with st.container(horizontal=True, width="content"):
            for label, name in (("Rebalance", "rebalance"), ("Settings", "settings")):
                st.button(label, type="tertiary", on_click=state.go, args=(name,))
            st.button(
                "Simulate all clusters…",
                type="tertiary",
                help="Background job: all strategy pairs on all clusters.",
                on_click=state.go,
                args=("jobs",),
                kwargs={state.KIND: "what_if"},
            )


def _planned(page: PulsarPage, stored: CachedSnapshot) -> Proposal | str | None:
    """Return the optimal plan as Rebalance asks for it, its error, or ``None`` if not there yet."""
    request = OptimizeRequest(
        within=round(page.reading.measures.target.bound * 100) / 100,
        measure="throughput",
        max_moves=page.cluster.apply.max_steps,
        exclusions=tuple(page.cluster.exclusions),
    )
    try:
        return queries.proposed_in_background(queries.Optimization(stored=stored, request=request))
    except OpsError as error:
        return str(error)


def changes_of(cause: Cause) -> list[str]:
    """Return a fix as ``KEY=VALUE``, VALUE being JSON."""
    return [f"{key}={json.dumps(value)}" for key, value in values_of(cause.fix).items()]


PULSAR: Final[DiagnoseSystem] = PulsarDiagnose()
