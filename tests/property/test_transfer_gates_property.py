"""Every decision of TransferShedder follows from its gates, which are true of what is published."""

from __future__ import annotations

import math
from typing import Any

import pytest
from extensible_world import cluster
from gate_truth import Fact, check_gate, check_order, is_through
from hypothesis import given, settings
from hypothesis import strategies as st
from random_fleets import extensible_rows, extensible_view
from sampled import examples

from core.ids import namespace_of
from core.pulsar.java.maps import concurrent_order, spread_hashes
from core.pulsar.settings import EffectiveSettings
from core.pulsar.shedding import BrokerTrace, Decision, Gate
from core.pulsar.shedding.transfer_shedder import TransferShedder, TransferState
from core.pulsar.view import LoadView

SWAPPED = "it is swapped for"
SWAP = ", and a swap compensates for it"


@st.composite
def swaps(draw: st.DrawFn) -> dict[str, tuple[float, list[float]]]:
    """Bundles of a busy broker that are too large, and small ones of an idle broker."""
    large = st.lists(st.sampled_from((20.0, 40.0, 45.0, 50.0)), min_size=2, max_size=4).map(sorted)
    small = st.lists(st.sampled_from((2.0, 5.0, 8.0, 10.0)), min_size=1, max_size=5).map(sorted)
    loads = {
        "1:80": (0.9, draw(large)),
        "2:80": (0.8, draw(large)),
        "3:80": (draw(st.sampled_from((0.1, 0.6, 0.6))), draw(small)),
        "4:80": (draw(st.sampled_from((0.2, 0.7))), draw(small)),
    }
    return {name: loads[name] for name in draw(st.sampled_from((("1:80", "3:80"), tuple(loads))))}


@st.composite
def cases(
    draw: st.DrawFn,
) -> tuple[LoadView, EffectiveSettings, TransferState, frozenset[str], Decision]:
    """One round, its memory and its bundles in their grace period."""
    conf = {
        "loadBalancerSheddingConditionHitCountThreshold": draw(st.sampled_from((0, 0, 2))),
        "loadBalancerBrokerLoadTargetStd": draw(st.sampled_from((0.01, 0.25, 0.6))),
        "loadBalancerBrokerOverloadedThresholdPercentage": draw(st.sampled_from((85, 40))),
        "loadBalancerMaxNumberOfBrokerSheddingPerCycle": draw(st.sampled_from((3, 1))),
        "loadBalancerTransferEnabled": draw(st.booleans()),
        "loadBalancerDebugModeEnabled": draw(st.booleans()),
    }
    if draw(st.booleans()):
        conf |= {"loadBalancerTransferEnabled": True, "loadBalancerBrokerLoadTargetStd": 0.01}
        view, effective = cluster(draw(swaps()), **conf)
    else:
        release = draw(st.sampled_from(("3.0.1", "3.2.0", "4.0.0", "4.2.4")))
        view, effective = extensible_view(draw(extensible_rows()), release=release, **conf)
    assert view.extensible is not None
    names = sorted(one.bundle for top in view.extensible.top.values() for one in top)
    recent = frozenset(draw(st.lists(st.sampled_from(names), max_size=2)) if names else ())
    state = TransferState(hits=draw(st.integers(0, 3)))
    strategy = TransferShedder()
    decision, _ = strategy.decide(view, strategy.config(effective), state, recent)
    return view, effective, state, recent, decision


def cluster_facts(view: LoadView, conf: EffectiveSettings, state: TransferState) -> list[Fact]:
    """What the gates on the whole cluster have to say, in their order."""
    loads = view.extensible
    assert loads is not None
    usage, flow = loads.usage, loads.throughput_ema
    mean = float(usage.mean())
    std = math.sqrt(max(float((usage**2).mean()) - mean * mean, 0.0))
    target = conf.number("loadBalancerBrokerLoadTargetStd")
    part = min(0.5, target / 2)
    limit = conf.number("loadBalancerBrokerOverloadedThresholdPercentage") / 100
    low, high = (view.broker_row(name) for name in extremes_of(view))
    least_flow = 1.0 if conf.rules.transfer_counts_bytes else float(flow[high]) * part
    return [
        Fact(std, target, "exceed"),
        Fact(float(usage[low]), mean * part, "below"),
        Fact(float(flow[low]), least_flow, "below"),
        Fact(float(usage[high]), max(limit, mean + target), "exceed"),
    ]


def extremes_of(view: LoadView) -> tuple[str, str]:
    """Return the idlest and the busiest broker; of equal ones as the class has them."""
    names = sorted(view.brokers)
    names = [names[at] for at in concurrent_order(spread_hashes(names))]
    loads = view.extensible
    assert loads is not None
    ranked = sorted(names, key=lambda name: loads.usage[view.broker_row(name)])
    return ranked[0], ranked[-1]


@given(case=cases())
@settings(max_examples=examples(160), deadline=None)
def test_the_gates_on_the_cluster_are_true_and_start_the_round(case: Any) -> None:
    view, conf, state, _, decision = case
    whole = decision.trace[0]
    *conditions, hits = whole.gates
    assert whole.broker is None
    assert all(gate.is_alternative for gate in conditions)
    assert not hits.is_alternative
    for gate, fact in zip(conditions, cluster_facts(view, conf, state), strict=True):
        if abs(fact.measured - fact.threshold) > 1e-9:  # sums that Java adds in its own order
            check_gate(gate, fact)
    is_uneven = any(gate.is_open for gate in conditions)
    rounds = state.hits + 1 if is_uneven else 0
    needed = conf.number("loadBalancerSheddingConditionHitCountThreshold") + 1
    check_gate(hits, Fact(float(rounds), needed))
    assert is_through(whole) == (len(decision.trace) > 1)
    if not is_through(whole):
        assert (decision.reason, decision.moves) == ("hit_count", ())
    elif decision.moves and conditions[0].is_open:
        assert decision.reason == "overloaded"
    elif decision.moves and conditions[1].is_open:
        assert decision.reason == "underloaded"
    assert whole.sheds == bool(decision.moves)


def swapped(decision: Decision) -> set[str]:
    """Return the bundles that go the other way."""
    gates = {move.bundle: decision.pick(move.bundle) for move in decision.moves}
    return {name for name, gate in gates.items() if gate and gate.sentence.startswith(SWAPPED)}


@given(case=cases())
@settings(max_examples=examples(160), deadline=None)
def test_the_gates_of_brokers_alone_say_who_sheds(case: Any) -> None:
    view, conf, _, _, decision = case
    back = swapped(decision)
    sources = {move.broker for move in decision.moves if move.bundle not in back}
    own = decision.trace[1:]
    assert {trace.broker for trace in own if is_through(trace)} == sources
    assert {trace.broker for trace in own if trace.sheds} == sources
    assert not own or sorted(trace.broker for trace in own) == sorted(view.brokers)
    turns = [trace for trace in own if len(trace.gates) > 1]
    for place, trace in enumerate(own, start=1):
        check_order(trace)
        last = place if trace in turns else len(turns)
        check_gate(trace.gates[0], Fact(float(place), float(last), "within"))
        for gate in trace.gates[1:]:
            check_broker_gate(view, trace, gate)
    loaded = [one for one in own if one.sheds and "bundles without traffic" not in one.sentence]
    assert len(loaded) <= conf.number("loadBalancerMaxNumberOfBrokerSheddingPerCycle")


def check_broker_gate(view: LoadView, trace: BrokerTrace, gate: Gate) -> None:
    """Fail unless a gate of a broker whose turn came is true of what it published."""
    loads = view.extensible
    assert loads is not None
    top = loads.top.get(str(trace.broker), ())
    if gate.name == "published":
        return check_gate(gate, Fact(float(len(top)), 2.0))
    if gate.name == "with traffic and movable":
        return check_gate(gate, Fact(0.0, 1.0))
    if gate.name == "traffic to shed":
        assert trace.sheds
        assert gate.is_open
        row, idle = (view.broker_row(name) for name in (trace.broker, trace_partner(view, trace)))
        usage = loads.usage
        half = (usage[row] - usage[idle]) / 2
        if not usage[row]:
            assert "usage of both brokers is 0" in gate.sentence
            return None
        assert gate.measured == pytest.approx(float(loads.throughput[row] * half / usage[row]))
        return None
    size = {entry.bundle: entry.throughput for entry in top}
    name = gate.name.removeprefix("amount for ")
    assert gate.threshold == size[name]
    check_gate(gate, Fact(gate.measured, size[name]))
    return None


@given(case=cases())
@settings(max_examples=examples(160), deadline=None)
def test_the_bundles_that_go_are_those_whose_gate_is_open(case: Any) -> None:
    view, conf, _, recent, decision = case
    loads = view.extensible
    back = swapped(decision)
    moved = {move.bundle for move in decision.moves}
    for trace in decision.trace[1:]:
        if not trace.sheds:
            continue
        room = next(gate for gate in trace.gates if gate.name == "traffic to shed").measured
        for entry in loads.top[trace.broker]:
            gate = decision.pick(entry.bundle)
            assert gate is not None
            assert gate.is_open == (entry.bundle in moved)
            is_kept = not entry.is_owned or entry.bundle in recent
            if is_kept or namespace_of(entry.bundle) in conf.excluded_namespaces:
                assert gate.sentence.endswith(f"exclude {trace_partner(view, trace)}")
            elif gate.unit:
                assert gate.threshold == entry.throughput
                assert gate.distance == gate.threshold - gate.measured
                is_swap = gate.sentence.endswith(SWAP)
                assert gate.is_open == (gate.threshold <= gate.measured or is_swap)
                assert not is_swap or (gate.threshold > gate.measured and back)
                assert gate.measured <= room or conf.flag("loadBalancerDebugModeEnabled")
                assert gate.measured == pytest.approx(
                    left_for(decision, trace, loads, conf, entry.bundle)
                )
            elif entry.throughput == 0 and not conf.rules.transfer_moves_idle:
                assert gate.sentence == "it has no traffic"


def trace_partner(view: LoadView, trace: BrokerTrace) -> str:
    """Return the broker that takes what a broker sheds."""
    return next(name for name in view.brokers if f" to {name}" in trace.sentence)


def left_for(
    decision: Decision, trace: BrokerTrace, loads: Any, conf: EffectiveSettings, bundle: str
) -> float:
    """Return what was left when a bundle's turn came: the target less what went before it."""
    size = {one.bundle: one.throughput for top in loads.top.values() for one in top}
    room = next(one.measured for one in trace.gates if one.name == "traffic to shed")
    back = swapped(decision)
    partner = next(move.destination for move in decision.moves if move.broker == trace.broker)
    before: list[str] = []
    swaps: list[str] = []  # what compensates for a bundle precedes it
    for move in decision.moves:
        if move.bundle in back and move.broker == partner:
            swaps.append(move.bundle)
        elif move.broker == trace.broker and move.bundle == bundle:
            break
        elif move.broker == trace.broker:
            before += [*swaps, move.bundle]
            swaps = []
    if not conf.flag("loadBalancerDebugModeEnabled"):
        before = [one for one in before if one not in back]
    return room + sum(size[one] if one in back else -size[one] for one in before)
