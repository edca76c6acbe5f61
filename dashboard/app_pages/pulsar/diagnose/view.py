"""Next pages of a cause on a Pulsar cluster."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import streamlit as st

from core.diagnosis.pulsar.advice import values_of
from core.diagnosis.pulsar.trials import SHEDDING
from core.pulsar.settings import effective_settings, parse_set_options
from core.pulsar.shedding.registry import active_shedding_strategy
from dashboard import state
from dashboard.app_pages.diagnose.system import DiagnoseSystem, NextPage

if TYPE_CHECKING:
    from core.diagnosis.model import Cause
    from dashboard.components.pulsar.page import PulsarPage


class PulsarDiagnose:
    """Pulsar; see :class:`dashboard.app_pages.diagnose.system.DiagnoseSystem`."""

    subject = "Bundle"

    def next_pages(self, page: PulsarPage, cause: Cause) -> Sequence[NextPage]:
        """Return Rebalance and Settings, both with the change filled in."""
        changes = changes_of(cause)
        if not changes:
            return ()
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


def changes_of(cause: Cause) -> list[str]:
    """Return a fix as ``KEY=VALUE``, VALUE being JSON."""
    return [f"{key}={json.dumps(value)}" for key, value in values_of(cause.fix).items()]


PULSAR: Final[DiagnoseSystem] = PulsarDiagnose()
