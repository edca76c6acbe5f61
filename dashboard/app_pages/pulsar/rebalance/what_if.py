"""The what-if of the Rebalance page: brokers join or fail, and everything is compared on that."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import streamlit as st

from core.pulsar.isolation import parse_failure_domains
from dashboard import state
from dashboard.app_pages.pulsar.rebalance import fleets, model, queries
from dashboard.components import words
from dashboard.components.waiting import until
from dashboard.legible import option

if TYPE_CHECKING:
    from dashboard.components.pulsar.page import PulsarPage

_MOST_JOINING: Final = 1_000


def control(page: PulsarPage) -> fleets.FleetChange:
    """Draw the scenario: joining and failing brokers; return the fleet."""
    snapshot = page.reading.snapshot
    brokers = page.reading.brokers
    named = {name for name in snapshot.brokers["failure_domain"].to_pylist() if name}
    domains = sorted(named | set(parse_failure_domains(snapshot.policies).values()))
    for key, known, what in (
        (state.FAIL, brokers, "broker"),
        (state.FAIL_DOMAIN, domains, "failure domain"),
    ):
        words.report_unknown(what, state.unknown_in_address(key, known), known)
        held = st.session_state.get(key)
        if held:  # a broker may have gone since it was chosen
            st.session_state[key] = [one for one in held if one in known]
    label = model.scenario_label(
        joining=int(st.session_state.get(state.JOIN) or 0),
        failing=len(st.session_state.get(state.FAIL) or ()),
        domains=len(st.session_state.get(state.FAIL_DOMAIN) or ()),
    )
    with st.popover(label, icon=":material/science:", key="scenario"):
        joining = st.number_input(
            "Joining brokers",
            min_value=0,
            max_value=_MOST_JOINING,
            key=state.JOIN,
            bind="query-params",
            help="Empty brokers of the most common size.",
        )
        failing = st.multiselect(
            "Failing brokers",
            brokers,
            format_func=option,
            key=state.FAIL,
            bind="query-params",
            select_all=False,
            help="The placement strategy reassigns their bundles.",
        )
        failed = st.multiselect(
            "Failing failure domains",
            domains,
            format_func=option,
            key=state.FAIL_DOMAIN,
            bind="query-params",
            select_all=False,
            disabled=not domains,
            help="All brokers of the domains."
            if domains
            else "No failure domains on this cluster.",
        )
        st.caption("Applies to this page only.")
    return fleets.FleetChange(
        joining=int(joining or 0), failing=tuple(failing), domains=tuple(failed)
    )


def back() -> None:
    """Suppose nothing any more; for callbacks."""
    st.session_state[state.JOIN] = 0
    st.session_state[state.FAIL] = []
    st.session_state[state.FAIL_DOMAIN] = []


def banner(page: PulsarPage, fleet: fleets.FleetChange) -> None:
    """Render the notice of a simulated fleet and its start; stop if it cannot be computed."""
    if fleet.is_real:
        return
    found = _found(page, fleet)
    with st.container(border=True):
        st.markdown(
            f":material/science: **Scenario: {words.plain(model.supposition(fleet))}.** "
            "Simulation only."
        )
        if isinstance(found, str):
            st.error(words.plain(found), title="Simulation failed")
        elif found is not None:
            st.caption(words.plain(model.beginning(found)))
        else:
            until(
                lambda: _found(page, fleet) is not None,
                "Placing bundles of failed brokers.",
            )
        st.button("Reset scenario", icon=":material/undo:", on_click=back, key="_real")
    if not isinstance(found, fleets.FleetScenario):
        st.stop()


def _found(page: PulsarPage, fleet: fleets.FleetChange) -> fleets.FleetScenario | str | None:
    """Return the changed fleet, the reason for its absence, or ``None`` while it is computed."""
    key = (page.stored, fleet)
    if page.reading.view.bundles.size <= queries.SYNC_BUNDLES:
        return fleets.scenarios(key)
    return fleets.scenarios_in_background(key)
