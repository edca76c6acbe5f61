"""Every shedding decision follows from its gates alone, and every gate is true of the cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from gate_truth import Fact, check_gate, check_order, is_through, who_sheds
from hypothesis import given, settings
from hypothesis import strategies as st
from random_fleets import worlds
from sampled import examples
from shedding_world import MB, Broker, Bundle, World

from core.ids import SYSTEM_NAMESPACE
from core.pulsar.settings import EffectiveSettings
from core.pulsar.shedding import BrokerTrace, Decision, Gate, find_shedding_strategy
from core.pulsar.shedding.basis import SheddingBasis
from core.pulsar.view import LoadView

ROUNDS = 3
MIB = 1024.0 * 1024.0
RELEASES = ("2.10.6", "2.11.0", "3.0.1", "3.0.6", "4.0.5", "4.2.4", "4.2.4", "5.0.0")
MODULAR = ("ThresholdShedder", "OverloadShedder", "UniformLoadShedder", "AvgShedder")
every_strategy = pytest.mark.parametrize("strategy", MODULAR)


@dataclass(frozen=True, repr=False)
class Case:
    """One round: what was decided on what, and the memory before it."""

    strategy: str
    view: LoadView
    settings: EffectiveSettings
    recent: frozenset[str]
    state: Any
    decision: Decision

    @property
    def sources(self) -> set[str]:
        return {move.broker for move in self.decision.moves}

    def bundles_of(self, broker: str) -> np.ndarray:
        return np.flatnonzero(self.view.reporter == self.view.broker_row(broker))

    def movable(self, broker: str) -> list[int]:
        """Rows that may leave: neither bound to the broker, nor excluded, nor moved just now."""
        view = self.view
        return [
            row
            for row in self.bundles_of(broker).tolist()
            if not view.is_broker_bound[row]
            and (
                view.sheds_system or view.namespaces[view.bundle_namespace[row]] != SYSTEM_NAMESPACE
            )
            and str(view.bundles[row]) not in self.recent
        ]


@st.composite
def lopsided(draw: st.DrawFn) -> World:
    """One broker far below the others, none far above: what the lower boundary is for."""
    names = "abcdefgh"[: draw(st.integers(4, 8))]
    bundle = st.builds(Bundle, st.sampled_from((0.0, MB, 40 * MB, 400 * MB)))
    most = st.integers(0, 1) if draw(st.integers(0, 4)) == 0 else st.integers(2, 5)
    brokers = {
        name: Broker(
            draw(st.sampled_from((0.0, 2.0) if name == "a" else (40.0, 41.0))),
            draw(st.lists(bundle, min_size=(size := draw(most)), max_size=size)),
        )
        for name in names
    }
    conf = {
        "lowerBoundarySheddingEnabled": True,
        "loadBalancerBundleUnloadMinThroughputThreshold": draw(st.sampled_from((10.0, 0.5))),
    }
    return World(brokers, conf)


@st.composite
def moderate(draw: st.DrawFn) -> World:
    """Brokers so far apart that one sheds, of bundles that just fit into what it sheds, or not."""
    rate = st.sampled_from((0.0, 1.0, 400.0, 999.0, 1_000.0, 1_500.0, 4_000.0)) | st.floats(0, 9e3)
    bundle = st.builds(Bundle, st.sampled_from((0.0, 1.0, MB, 3 * MB, 9 * MB)), rate)
    brokers = {
        name: Broker(cpu, draw(st.lists(bundle, min_size=least, max_size=least + 4)))
        for name, cpu, least in (("a", 80.0, 4), ("b", 30.0, 1), ("c", 20.0, 0), ("d", 75.0, 2))
    }
    conf = {
        "minUnloadMessage": draw(st.sampled_from((1000, 10))),
        "minUnloadMessageThroughput": draw(st.sampled_from((1_048_576, 1000))),
        "loadBalancerAvgShedderHitCountHighThreshold": 1,
        "maxUnloadPercentage": draw(st.sampled_from((0.2, 0.5))),
    }
    return World(brokers, conf)


@st.composite
def cases(draw: st.DrawFn, strategy: str) -> list[Case]:
    """A few rounds of one strategy on the same load, its memory carried on."""
    near = lopsided() if strategy == "ThresholdShedder" else moderate()
    world: World = draw(near if draw(st.booleans()) else worlds())
    release = draw(st.sampled_from(RELEASES))
    conf = {
        "loadBalancerBrokerOverloadedThresholdPercentage": draw(st.sampled_from((85, 50, 40))),
        "loadBalancerAvgShedderLowThreshold": draw(st.sampled_from((15, 5))),
        "loadBalancerAvgShedderHitCountLowThreshold": draw(st.sampled_from((8, 2))),
        "maxUnloadBundleNumPerShedding": draw(st.sampled_from((-1, -1, -1, 0, 1, 2))),
        "loadBalancerMsgRateDifferenceShedderThreshold": draw(st.sampled_from((50.0, 0.0))),
    }
    world = replace(world, release=release).having(**conf)
    snapshot = world.snapshot()
    effective = world.settings(snapshot)
    view = LoadView.of(snapshot, effective)
    names = sorted(view.bundles.tolist())
    picked = st.lists(st.sampled_from(names), max_size=3) if names else st.just([])
    recent = frozenset(draw(picked))
    chosen = find_shedding_strategy(strategy)
    state, found = chosen.initial_state(), []
    for _ in range(ROUNDS):
        decision, after = chosen.decide(view, chosen.config(effective), state, recent)
        found.append(Case(strategy, view, effective, recent, state, decision))
        state = after
    return found


# -- what each gate has to say, from the columns --------------------------------------------------


def reported(case: Case, trace: BrokerTrace) -> Fact:
    return Fact(float(case.bundles_of(str(trace.broker)).size), 2.0)


def movable(case: Case, trace: BrokerTrace) -> Fact:
    return Fact(float(len(case.movable(str(trace.broker)))), 1.0)


def _at(case: Case, trace: BrokerTrace) -> int:
    return case.view.broker_row(str(trace.broker))


def _mean(case: Case) -> float:
    known = case.view.threshold_usage[case.view.has_report]
    return float(known.mean())


def _points(case: Case) -> float:
    return case.settings.number("loadBalancerBrokerThresholdShedderPercentage") / 100


def _least_bytes(case: Case) -> float:
    return case.settings.number("loadBalancerBundleUnloadMinThroughputThreshold") * MIB


def threshold_usage(case: Case, trace: BrokerTrace) -> Fact:
    return Fact(float(case.view.threshold_usage[_at(case, trace)]), _mean(case) + _points(case))


def threshold_amount(case: Case, trace: BrokerTrace) -> Fact:
    row = _at(case, trace)
    flow, usage = case.view.broker_throughput[row], case.view.threshold_usage[row]
    if trace.gates[0].name.startswith("usage of"):  # the lower boundary
        return Fact(float(flow * _points(case) / 2), _least_bytes(case))
    return Fact(float(flow * (usage - _mean(case) - _points(case) + 0.05)), _least_bytes(case))


def lowest_usage(case: Case, _trace: BrokerTrace) -> Fact:
    known = case.view.threshold_usage[case.view.has_report]
    return Fact(float(known.min()), _mean(case) - _points(case), "below")


def spare_broker(case: Case, _trace: BrokerTrace) -> Fact:
    bound = _mean(case) - _points(case)
    above = [
        case.bundles_of(name).size
        for row, name in enumerate(case.view.brokers)
        if case.view.threshold_usage[row] > bound + 1e-12
    ]
    return Fact(float(max(above, default=0)), 2.0)


def average_usage(_case: Case, _trace: BrokerTrace) -> Fact:
    return Fact(0.0, 0.0, "exceed")


def overload_usage(case: Case, trace: BrokerTrace) -> Fact:
    limit = case.settings.number("loadBalancerBrokerOverloadedThresholdPercentage") / 100
    return Fact(float(case.view.overload_usage[_at(case, trace)]), limit)


# -- UniformLoadShedder ---------------------------------------------------------------------------


def _columns(case: Case) -> tuple[list[str], dict[str, list[float]]]:
    """Brokers in the order in which the class looks at them, and both measures of each."""
    view = case.view
    rows = SheddingBasis.of(view).brokers
    if case.settings.rules.uniform_skips_single:
        sizes = SheddingBasis.of(view).bundle_counts
        rows = rows[sizes[rows] > 1]
    both = {"msg/s": view.broker_msg_rate[rows], "bytes/s": view.broker_throughput[rows]}
    return [view.brokers[row] for row in rows], {unit: both[unit].tolist() for unit in both}


def extremes(case: Case, unit: str) -> tuple[str, float, float]:
    """Return the busiest broker by a measure, its value and the lowest one."""
    names, columns = _columns(case)
    own = columns[unit]
    if not case.settings.rules.uniform_is_joint:
        high, least = int(np.argmax(own)), min(*own, 2.0**31 - 1)
        return names[high], own[high], least if abs(least) > 1e-6 else 1.0
    busiest, highest, lowest = "", (-1.0, -1.0), (2.0**31 - 1, 2.0**31 - 1)
    for name, here in zip(
        names, zip(columns["msg/s"], columns["bytes/s"], strict=True), strict=True
    ):
        if here[0] > highest[0] or here[1] > highest[1]:
            busiest, highest = name, here
        if here[0] < lowest[0] or here[1] < lowest[1]:
            lowest = here
    at = int(unit == "bytes/s")
    return busiest, highest[at], lowest[at] if abs(lowest[at]) > 1e-6 else 1.0


def rate_gap(case: Case, _trace: BrokerTrace) -> Fact:
    _, high, low = extremes(case, "msg/s")
    limit = case.settings.number("loadBalancerMsgRateDifferenceShedderThreshold")
    return Fact((high - low) * 100 / low, limit if limit > 0 else np.inf, "exceed")


def flow_gap(case: Case, _trace: BrokerTrace) -> Fact:
    _, high, low = extremes(case, "bytes/s")
    key = "loadBalancerMsgThroughputMultiplierDifferenceShedderThreshold"
    limit = case.settings.number(key)
    return Fact(high / low, limit if limit > 0 else np.inf, "exceed")


def uniform_amount(case: Case, unit: str) -> Fact:
    _, high, low = extremes(case, unit)
    amount = min(int((high - low) * case.settings.number("maxUnloadPercentage")), 2**31 - 1)
    key = "minUnloadMessage" + ("" if unit == "msg/s" else "Throughput")
    return Fact(float(amount), float(int(case.settings.number(key))))


def _weights(case: Case, broker: str, unit: str) -> list[float]:
    view = case.view
    keys = view.bundle_short_rate if unit == "msg/s" else view.bundle_short_throughput
    return [float(keys[row]) for row in case.movable(broker)]


def _uniform_room(case: Case, unit: str) -> float:
    rules = case.settings.rules
    slack = rules.uniform_rate_slack if unit == "msg/s" else rules.uniform_throughput_slack
    return uniform_amount(case, unit).measured + slack


def uniform_room(case: Case, unit: str) -> Fact:
    return Fact(_uniform_room(case, unit), 2.0**31, "below")


def uniform_fits(case: Case, trace: BrokerTrace, gate: Gate) -> Fact:
    smallest = min(_weights(case, str(trace.broker), gate.unit))
    return Fact(_uniform_room(case, gate.unit), smallest)


def highest(case: Case, trace: BrokerTrace, gate: Gate) -> Fact:
    view, row = case.view, _at(case, trace)
    is_rate = case.decision.trace[0].gates[0].is_open
    own = view.broker_msg_rate[row] if is_rate else view.broker_throughput[row]
    most = extremes(case, "msg/s" if is_rate else "bytes/s")[1]
    if own <= most:
        return Fact(float(own), most, "exceed")
    assert case.settings.rules.uniform_is_joint, "who has most is the busiest"
    assert gate.unit == "places"
    return Fact(2.0, 1.0, "within")


# -- AvgShedder -----------------------------------------------------------------------------------


def _score(case: Case, broker: str) -> float:
    return float(case.view.usage[case.view.broker_row(broker)]) * 100


def _partner(trace: BrokerTrace) -> str:
    return trace.gates[0].name.removeprefix("gap to ")


def _own(case: Case, name: str) -> float:
    return case.settings.number(f"loadBalancerAvgShedder{name}")


def pair_gap(case: Case, trace: BrokerTrace) -> Fact:
    gap = _score(case, str(trace.broker)) - _score(case, _partner(trace))
    return Fact(gap, _own(case, "LowThreshold"))


def hits(case: Case, trace: BrokerTrace, *, is_wide: bool) -> Fact:
    held = case.state.high_hits if is_wide else case.state.low_hits
    before = max(held.get(str(trace.broker), 0), held.get(_partner(trace), 0))
    gap = pair_gap(case, trace).measured
    counts = not is_wide or gap >= _own(case, "HighThreshold")
    bound = _own(case, f"HitCount{'High' if is_wide else 'Low'}Threshold")
    return Fact(float(before + 1 if counts else 0), bound)


def pair_amounts(case: Case, trace: BrokerTrace) -> dict[str, Fact]:
    """By unit: what the pair would move, and the least that is worth it."""
    busy, idle = (case.view.broker_row(name) for name in (str(trace.broker), _partner(trace)))
    share = case.settings.number("maxUnloadPercentage")
    rate, flow = case.view.broker_msg_rate, case.view.broker_throughput
    least = case.settings.number("minUnloadMessage")
    least_bytes = case.settings.number("minUnloadMessageThroughput")
    return {
        "msg/s": Fact(float(rate[busy] - rate[idle]) * share, least, "exceed"),
        "bytes/s": Fact(float(flow[busy] - flow[idle]) * share, least_bytes, "exceed"),
    }


def pair_amount(case: Case, trace: BrokerTrace, gate: Gate) -> Fact:
    amounts = pair_amounts(case, trace)
    by_rate = amounts["msg/s"]
    if gate.unit == "bytes/s":
        assert by_rate.measured <= by_rate.threshold, "the rate goes first"
    elif by_rate.measured <= by_rate.threshold:
        by_flow = amounts["bytes/s"]
        assert by_flow.measured <= by_flow.threshold, "the traffic would be enough"
    return amounts[gate.unit]


def pair_fits(case: Case, trace: BrokerTrace, gate: Gate) -> Fact:
    smallest = min(key for key in _weights(case, str(trace.broker), gate.unit) if key > 0)
    return Fact(pair_amounts(case, trace)[gate.unit].measured, smallest)


def source_half(case: Case, trace: BrokerTrace) -> Fact:
    sources = [other for other in case.decision.trace if other.gates[0].name.startswith("gap to")]
    least = min(_score(case, str(source.broker)) for source in sources)
    return Fact(_score(case, str(trace.broker)), least, "exceed")


def avg_place(case: Case, trace: BrokerTrace, gate: Gate) -> Fact:
    traces = list(case.decision.trace)
    place = len(traces) - (traces.index(trace) - len(traces) // 2)
    return Fact(float(place), float(len(traces) // 2), "within")


def loaded(case: Case, trace: BrokerTrace) -> Fact:
    unit = next(one.unit for one in trace.gates if one.name == "amount to shed")
    weights = _weights(case, str(trace.broker), unit)
    return Fact(float(sum(weight > 0 for weight in weights)), 1.0)


def fact_of(case: Case, trace: BrokerTrace, gate: Gate) -> Fact:
    """Return what a gate has to say; the first fact of its strategy that its name begins with."""
    facts = {**FACTS, **FACTS_OF[case.strategy]}
    name = max((start for start in facts if gate.name.startswith(start)), key=len)
    return facts[name](case, trace, gate)


FactOf = Callable[[Case, BrokerTrace, Gate], Fact]
FACTS: Mapping[str, FactOf] = {
    "reported": lambda case, trace, _: reported(case, trace),
    "movable and not recently unloaded": lambda case, trace, _: movable(case, trace),
}
FACTS_OF: Mapping[str, Mapping[str, FactOf]] = {
    "ThresholdShedder": {
        "usage": lambda case, trace, _: threshold_usage(case, trace),
        "usage of ": lambda case, trace, _: lowest_usage(case, trace),
        "amount to shed": lambda case, trace, _: threshold_amount(case, trace),
        "average usage of all brokers": lambda case, trace, _: average_usage(case, trace),
        "brokers above the lower boundary": lambda case, trace, _: spare_broker(case, trace),
    },
    "OverloadShedder": {"usage": lambda case, trace, _: overload_usage(case, trace)},
    "UniformLoadShedder": {
        "excess of the highest": lambda case, trace, _: rate_gap(case, trace),
        "highest throughput over": lambda case, trace, _: flow_gap(case, trace),
        "amount to shed": lambda case, _, gate: uniform_amount(case, gate.unit),
        "amount for the smallest": uniform_fits,
        "amount with slack": lambda case, _, gate: uniform_room(case, gate.unit),
        "allowed in a round": lambda *_: Fact(0.0, 1.0),
        "highest message rate of all": highest,
        "highest throughput of all": highest,
    },
    "AvgShedder": {
        "gap to ": lambda case, trace, _: pair_gap(case, trace),
        "gap of ": lambda case, trace, _: hits(case, trace, is_wide=True),
        "gap counted in": lambda case, trace, _: hits(case, trace, is_wide=False),
        "amount to shed": pair_amount,
        "amount for the smallest": pair_fits,
        "with traffic and not recently": lambda case, trace, _: loaded(case, trace),
        "usage of the source half": lambda case, trace, _: source_half(case, trace),
        "rank by usage": avg_place,
    },
}


@every_strategy
@given(data=st.data())
@settings(max_examples=examples(60), deadline=None)
def test_every_gate_is_true_of_the_cluster(strategy: str, data: st.DataObject) -> None:
    for case in data.draw(cases(strategy)):
        for trace in case.decision.trace:
            check_order(trace)
            assert trace.gates
            for gate in trace.gates:
                check_gate(gate, fact_of(case, trace, gate))


@every_strategy
@given(data=st.data())
@settings(max_examples=examples(60), deadline=None)
def test_the_gates_alone_say_who_sheds(strategy: str, data: st.DataObject) -> None:
    for case in data.draw(cases(strategy)):
        traces = case.decision.trace
        assert who_sheds(traces) == case.sources
        assert {one.broker for one in traces if one.sheds and one.broker} == case.sources
        assert case.decision.reason == reason_of(case)
        assert (case.decision.label == "success") == bool(case.sources)
        for trace in traces:
            assert trace.sheds == is_through(trace)
            if trace.sheds and trace.gates[0].name.startswith("usage of "):
                assert trace.sentence == trace.gates[0].sentence
            elif trace.broker in case.sources and trace.sheds:
                count = sum(move.broker == trace.broker for move in case.decision.moves)
                assert trace.sentence.startswith(f"sheds {count} bundle")
            elif trace.broker is not None and not is_through(trace):
                assert trace.sentence in [one.sentence for one in trace.gates if not one.is_open]


def reason_of(case: Case) -> str:
    """Return the reason of a decision from the gates that its brokers passed."""
    traces = case.decision.trace
    if not case.view.has_report.any():
        return "no_load_data"
    if case.sources:
        is_lower = traces[0].sheds and traces[0].gates[0].name.startswith("usage of ")
        return "underloaded" if is_lower else "overloaded"
    return {"UniformLoadShedder": _uniform_reason, "AvgShedder": _avg_reason}.get(
        case.strategy, _threshold_reason
    )(traces)


def _uniform_reason(traces: Sequence[BrokerTrace]) -> str:
    if not is_through(traces[0]):
        return "balanced"
    shut = next(gate for gate in traces[1].gates if not gate.is_open)
    return "too_small" if shut.name == "amount to shed" else "no_bundles"


def _avg_reason(traces: Sequence[BrokerTrace]) -> str:
    pairs = [_passed(trace) for trace in traces if trace.gates[0].name.startswith("gap to")]
    return ("balanced", "hit_count", "too_small", "no_bundles")[max(pairs, default=0)]


def _threshold_reason(traces: Sequence[BrokerTrace]) -> str:
    if traces[0].gates[0].name == "average usage of all brokers":
        return "no_load_data"
    over = [trace for trace in traces if trace.gates[0].name == "usage" and _passed(trace)]
    if not over:
        return "balanced"
    is_enough = any(trace.gates[-1].name != "amount to shed" for trace in over)
    return "no_bundles" if is_enough else "too_small"


def _passed(trace: BrokerTrace) -> int:
    return sum(gate.is_open for gate in trace.gates)


# -- single bundles -------------------------------------------------------------------------------


def turns(case: Case, broker: str) -> Iterator[tuple[str, Gate | None]]:
    """Yield the bundles of a broker that may move, biggest first, each with its own gate."""
    for row in case.bundles_of(broker).tolist():
        name = str(case.view.bundles[row])
        yield name, case.decision.pick(name)


@every_strategy
@given(data=st.data())
@settings(max_examples=examples(60), deadline=None)
def test_the_bundles_that_go_are_those_whose_gate_is_open(
    strategy: str, data: st.DataObject
) -> None:
    for case in data.draw(cases(strategy)):
        view = case.view
        for broker in case.sources:
            gates = dict(turns(case, broker))
            moved = [move.bundle for move in case.decision.moves if move.broker == broker]
            assert {name for name, gate in gates.items() if gate and gate.is_open} == set(moved)
            free = {str(view.bundles[row]) for row in case.movable(broker)}
            assert {name for name, gate in gates.items() if gate} == free
            check_turns(case, broker, moved, {name: gate for name, gate in gates.items() if gate})


def check_turns(case: Case, broker: str, moved: list[str], gates: Mapping[str, Gate]) -> None:
    """Fail unless the numbers of each bundle's gate are what was left, and what it weighs."""
    trace = next(one for one in case.decision.trace if one.broker == broker and one.sheds)
    view = case.view
    for name, gate in gates.items():
        assert gate.distance == gate.threshold - gate.measured
        assert gate.sentence
        row = view.bundle_row(name)
        if case.strategy in ("ThresholdShedder", "OverloadShedder"):
            flow = view.bundle_short_throughput
            ahead = moved[: moved.index(name)] if name in moved else moved
            before = sum(float(flow[view.bundle_row(one)]) for one in ahead)
            needed = [one.measured for one in trace.gates if one.name == "amount to shed"]
            assert [gate.measured] == (needed or [gate.measured])
            assert gate.is_open == (not ahead or gate.threshold < gate.measured)
            if gate.is_open:
                assert gate.threshold == pytest.approx(before)
                assert gate.sentence.startswith("larger bundles")
            continue
        if gate.unit == "bundles":
            assert len(moved) == case.settings.number("maxUnloadBundleNumPerShedding")
            assert not gate.is_open
            continue
        keys = view.bundle_short_rate if gate.unit == "msg/s" else view.bundle_short_throughput
        if gate.sentence == "it has no traffic":
            assert keys[row] == 0
            assert not gate.is_open
            continue
        assert gate.threshold == keys[row]
        assert gate.is_open == (gate.threshold <= gate.measured)
        if moved[0] == name:
            assert gate.measured == pytest.approx(room_of(case, trace, gate.unit), rel=1e-9)


def room_of(case: Case, trace: BrokerTrace, unit: str) -> float:
    """Return what the first bundle may weigh."""
    if case.strategy == "AvgShedder":
        return pair_amounts(case, trace)[unit].measured
    return _uniform_room(case, unit)
