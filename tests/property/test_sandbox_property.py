"""Whatever is split and moved, the sandbox's books stay whole."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from sampled import examples

from connectors.sandbox.pulsar.layout import plan_layout
from connectors.sandbox.pulsar.options import SandboxOptions
from connectors.sandbox.pulsar.state import NO_BROKER, Broker, FleetState
from connectors.sandbox.pulsar.workload import Workload
from core.pulsar.ring import topic_hash, validate_boundaries

_OPTIONS = SandboxOptions(brokers=4, bundles=24)
_LAYOUT = plan_layout(_OPTIONS)
_WORKLOAD = Workload(_LAYOUT, seed=7, day_s=60.0)

_PICKS = st.tuples(
    st.sampled_from(["move", "leave", "split", "measure", "report", "sample"]),
    st.integers(0, 10_000),
    st.floats(0.0, 1.0),
)


def _apply(state: FleetState, pick: tuple[str, int, float]) -> None:
    what, number, share = pick
    live = np.flatnonzero(state.is_live)
    row, broker = int(live[number % len(live)]), number % 4
    lower, upper = int(state.lower[row]), int(state.upper[row])
    if what == "move":
        state.owner[row] = broker
    elif what == "leave":
        state.owner[row] = NO_BROKER
    elif what == "split" and state.owner[row] != NO_BROKER and upper - lower > 2:
        state.split(row, [lower + 1 + int(share * (upper - lower - 2))])
    elif what == "measure":
        rates = _WORKLOAD.rates_at(share * 60)
        state.refresh(rates, rates[:, 1].astype(np.int64))
    elif what == "report":
        state.report(broker)
    elif what == "sample":
        state.sample()


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(_PICKS, min_size=1, max_size=40))
def test_books_stay_whole_under_any_moves_splits_and_reports(
    picks: list[tuple[str, int, float]],
) -> None:
    state = FleetState(_LAYOUT, [Broker(row, f"127.0.1.{row}", 1, 2) for row in range(4)])
    state.owner[:] = np.arange(len(state.names)) % 4
    for pick in picks:
        _apply(state, pick)
    rates = _WORKLOAD.rates_at(1.0)
    state.refresh(rates, rates[:, 1].astype(np.int64))

    for row, bounds in enumerate(state.boundaries):
        assert validate_boundaries(bounds.tolist()) is None
        names = [state.names[int(bundle)] for bundle in state.bundles_of[row]]
        assert names == sorted(names)
        assert all(state.live_row(name) is not None for name in names)
    assert (state.owner[~state.is_live] == NO_BROKER).all()
    for topic, name in enumerate(_LAYOUT.topics.names):
        namespace = state.namespaces[int(_LAYOUT.topics.namespace[topic])]
        assert state.find(namespace, topic_hash(name)) == state.topic_bundle[topic]
    owned = state.owner[state.topic_bundle] != NO_BROKER
    assert np.allclose(state.rates.sum(axis=0), rates[owned].sum(axis=0))
    assert np.allclose(state.broker_rates().sum(axis=0), rates[owned].sum(axis=0))
    assert state.counts[:, 0].sum() == owned.sum()
    assert (state.short_samples <= 10).all()
    assert (state.short >= 0).all()
