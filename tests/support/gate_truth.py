"""What a gate claims, checked against its own numbers, and what a trace says who sheds."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

import pytest

from core.pulsar.shedding import BrokerTrace, Gate
from core.pulsar.shedding.gates import in_words

Kind = Literal["reach", "exceed", "below", "within"]
"""At least the threshold, more than it, less than it, at most it."""

COUNTED = ("bundles", "rounds")


@dataclass(frozen=True)
class Fact:
    """What a gate has to say, from the columns of the cluster.

    Attributes:
        measured: Value, in the gate's unit.
        threshold: Bound.
        kind: When the gate opens.
    """

    measured: float
    threshold: float
    kind: Kind = "reach"


def opens(gate: Gate, kind: Kind) -> bool:
    """Return whether a gate's own numbers open it."""
    match kind:
        case "reach":
            return gate.measured >= gate.threshold
        case "exceed":
            return gate.measured > gate.threshold
        case "below":
            return gate.measured < gate.threshold
        case "within":
            return gate.measured <= gate.threshold


def check_gate(gate: Gate, fact: Fact) -> None:
    """Fail unless numbers, verdict, distance and sentence of a gate are those of a fact."""
    assert gate.measured == pytest.approx(fact.measured, rel=1e-9, abs=1e-9), gate
    assert gate.threshold == pytest.approx(fact.threshold, rel=1e-9, abs=1e-9), gate
    assert gate.is_open == opens(gate, fact.kind), gate
    sign = 1 if fact.kind in ("reach", "exceed") else -1
    assert gate.distance == sign * (gate.threshold - gate.measured), gate
    assert gate.distance <= 0 if gate.is_open else gate.distance >= 0, gate
    check_words(gate, fact.kind)


def check_words(gate: Gate, kind: Kind) -> None:
    """Fail unless the sentence of a gate has its value and which side of the bound it is on."""
    if gate.unit == "places":
        return
    assert in_words(gate.measured, gate.unit) in gate.sentence, gate
    if gate.unit in COUNTED:
        assert gate.sentence.endswith(f", {int(gate.threshold)} needed"), gate
    elif math.isinf(gate.threshold):
        assert gate.sentence.endswith("the threshold is disabled"), gate
    elif gate.measured == gate.threshold and kind in ("reach", "exceed"):
        verdict = "which counts" if gate.is_open else "which is not enough"
        assert gate.sentence.endswith(verdict), gate
    else:
        is_above = gate.measured >= gate.threshold
        assert f"{'above' if is_above else 'below'} {in_words(gate.threshold, gate.unit)}" in (
            gate.sentence
        ), gate


def is_through(trace: BrokerTrace) -> bool:
    """Return whether the gates let a broker, or the cluster, through: all, and one of several."""
    alternatives = [gate.is_open for gate in trace.gates if gate.is_alternative]
    must = [gate.is_open for gate in trace.gates if not gate.is_alternative]
    return bool(trace.gates) and all(must) and (any(alternatives) or not alternatives)


def who_sheds(traces: Iterable[BrokerTrace]) -> set[str]:
    """Return the brokers that shed by the gates alone."""
    traces = list(traces)
    if not all(is_through(trace) for trace in traces if trace.broker is None):
        return set()
    return {trace.broker for trace in traces if trace.broker is not None and is_through(trace)}


def check_order(trace: BrokerTrace) -> None:
    """Fail unless a shut gate is the last one, but for alternatives."""
    must = [gate for gate in trace.gates if not gate.is_alternative]
    assert all(gate.is_open for gate in must[:-1]), trace
