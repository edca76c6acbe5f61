"""Reasons for the moves of a candidate: gate by gate, with the turning points."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import streamlit as st

from core.optimize import Proposal
from core.pulsar.shedding import BrokerTrace
from core.units import pluralize
from dashboard import state
from dashboard.app_pages.pulsar.rebalance import queries
from dashboard.components import frame, tables, words
from dashboard.components.pulsar.explain import gate_columns
from dashboard.legible import option
from dashboard.presenters.pulsar import rebalance as presenter

if TYPE_CHECKING:
    from dashboard.components.pulsar.page import PulsarPage

_TRIED_AT_ONCE: Final = 2_000
"""Up to so many bundles turning points are sought, and simulated, unasked."""

_CLUSTER: Final = "the cluster"


def why_optimal(optimal: Proposal) -> None:
    """Draw the measure and the binding constraints of the optimal plan."""
    words.notes([*presenter.bounds_words(optimal), *optimal.notes])


def why_strategy(page: PulsarPage, candidate: queries.StrategyCandidate) -> None:
    """Draw the gates of the chosen strategy on every broker, and of one broker in full."""
    done = queries.decision(candidate)
    if not isinstance(done, queries.StrategyDecision):
        st.caption("Computing the decision." if done is None else words.plain(done))
        return
    decision = done.first.decision
    st.markdown(words.plain(decision.sentence))
    skipped = [f"Skipped: {bundle}: {why}." for bundle, why in done.first.skipped.items()]
    words.notes([*skipped[: presenter.MAX_SENTENCES], *decision.notes])
    traces = presenter.ranked(decision.trace)
    if not traces:
        st.caption("No brokers checked.")
        return
    left, right = frame.columns([0.45, 0.55], key="why")
    with left:
        tables.table(
            presenter.gates_table(traces),
            {
                "broker": tables.opener("Broker", "_why_broker", _open),
                "verdict": tables.words("Verdict", width_px=70),
                **_last_gate(),
            },
            key="why",
            alt="Verdict of the strategy by broker with the last gate",
            height=min(400, tables.height_of(min(len(traces), presenter.MAX_BROKERS))),
            missing="-",
        )
        if len(traces) > presenter.MAX_BROKERS:
            st.caption(f"{presenter.MAX_BROKERS} of {pluralize(len(traces), 'verdict')}.")
    with right:
        _one_broker(page, candidate, traces)


def _last_gate() -> dict[str, tables.Column]:
    """The columns of a gate that there is room for; the table of one broker has them all."""
    columns = gate_columns("Last gate", bar_px=92)
    return {name: columns[name] for name in ("gate", "reached", "distance")}


def _open(broker: str) -> None:
    if broker != _CLUSTER:
        frame.broker_link(broker)


def _one_broker(
    page: PulsarPage, candidate: queries.StrategyCandidate, traces: list[BrokerTrace]
) -> None:
    by_name = {trace.broker or _CLUSTER: trace for trace in traces}
    first = next((trace.broker for trace in traces if trace.broker), _CLUSTER)
    named = state.text(state.BROKER)
    chosen = st.selectbox(
        "Broker",
        list(by_name),
        index=list(by_name).index(named if named in by_name else first),
        format_func=option,
        key=state.BROKER,
        bind="query-params",
        width=320,
    )
    trace = by_name.get(chosen or first)
    if trace is None:
        return
    if trace.gates:
        tables.table(
            presenter.trail_table(trace),
            {**gate_columns("Gate"), "state": tables.words("State", width_px=76)},
            key="trail",
            alt=f"Gates of {chosen} in evaluation order",
            missing="-",
        )
    if trace.broker is not None:
        _turning(page, candidate, trace.broker)


def _turning(page: PulsarPage, candidate: queries.StrategyCandidate, broker: str) -> None:
    """Render the value of a setting at which the verdict turns; tried with the strategy itself."""
    is_small = page.reading.view.bundles.size <= _TRIED_AT_ONCE
    if not is_small and not st.button(
        "Find turning points", icon=":material/tune:", key="_turning", type="tertiary"
    ):
        return
    with st.spinner("Simulating other settings", show_time=True):
        points = queries.turning_points((candidate, broker))
    if points:
        words.notes([point.text for point in points])
    else:
        st.caption("No single setting changes this verdict.")
