"""The canary: the first step of a run alone, then a look at the cluster, and only then the rest.

Nothing of it is state of its own: whether the look is due follows from the run's entries, so a
worker that takes the run over looks again.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from core.actions.events import RunMeasured
from core.actions.session import Session
from core.actions.views import RunView, StepView
from core.plan.model import Expected
from core.units import format_age, format_bytes_per_s, format_ratio

RETURNED_SHARE: Final = 0.5
"""Brokers of the plan must carry this share of the traffic that they carried before the run."""

USAGE_MARGIN: Final = 0.1
"""So much busier, as a share of a broker's capacity, than any was to be no broker may be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """State of the cluster check after the first step.

    Attributes:
        step: The first step.
        left_s: Seconds until the look; not above 0: it is due.
    """

    step: StepView
    left_s: float


def gate_of(session: Session) -> Gate | None:
    """Return the gate in front of the next step; ``None`` if there is none, or it was passed."""
    wait_s = session.view.options.canary_s
    turn = session.turn
    if wait_s <= 0 or turn is None or not turn.step.is_paced:
        return None
    begun = [one for one in session.view.steps if one.step.is_paced and one.begun_at is not None]
    if len(begun) != 1 or begun[0].ended_at is None:
        return None
    return Gate(step=begun[0], left_s=wait_s - session.age_s(begun[0].ended_at))


def is_read_since(session: Session, gate: Gate) -> bool:
    """Return whether the snapshot was taken after the observation time of the first step."""
    due_s = session.ports.clock.monotonic() + gate.left_s
    return session.snapshot is not None and session.snapshot_at_s >= due_s


def verdict(view: RunView, gate: Gate, measured: RunMeasured) -> tuple[bool, str]:
    """Return whether the run may continue, and the figures against their limits.

    Args:
        gate: Of its first step.
        measured: The cluster after that step.
    """
    name = f"step {gate.step.index + 1} ({gate.step.step.subject})"
    result = gate.step.result
    if gate.step.state != "DONE":
        why = result.sentence if result else ""
        return False, f"The canary, {name}, is {gate.step.state.lower()}: {why}".rstrip()
    faults = list(_faults(view.plan.expected, measured))
    if faults:
        return False, f"After {name}, the cluster is unhealthy: {faults[0]}."
    watched = format_age(view.options.canary_s)
    return True, f"{watched} after {name}: {_figures(view.plan.expected, measured)}."


def _faults(expected: Expected, measured: RunMeasured) -> Iterator[str]:
    """Return the faults, each with its measured value and its limit."""
    usage = {one.broker: one.usage_ratio for one in measured.brokers}
    for one in expected.brokers:
        if one.usage_before is not None and usage.get(one.broker) is None:
            yield f"broker {one.broker} reports no load"
    before, now = _traffic(expected, measured)
    if before > 0 and now < RETURNED_SHARE * before:
        yield (
            f"its brokers carry {format_bytes_per_s(now)}; expected at least "
            f"{format_bytes_per_s(RETURNED_SHARE * before)}"
        )
    planned = [one.usage_before for one in expected.brokers if one.usage_before is not None]
    planned += [one.usage_after for one in expected.brokers if one.usage_after is not None]
    limit = max(planned, default=0.0) + USAGE_MARGIN
    for one in expected.brokers:
        value = usage.get(one.broker)
        if planned and value is not None and value > limit:
            yield (
                f"broker {one.broker} is at {format_ratio(value)}; expected at most "
                f"{format_ratio(limit)}"
            )
    yield from _lost_replicas(expected, measured)


def _lost_replicas(expected: Expected, measured: RunMeasured) -> Iterator[str]:
    seen = {one.node: one for one in measured.nodes}
    for node in expected.nodes:
        if node.node not in seen:
            yield f"node {node.node} is no longer in the cluster"
    before = sum(one.replicas_before for one in expected.nodes)
    now = sum(seen[one.node].replicas for one in expected.nodes if one.node in seen)
    after = sum(one.replicas_after for one in expected.nodes)
    if expected.nodes and now < min(before, after):
        yield f"its nodes serve {now:,} replicas; expected at least {min(before, after):,}"


def _traffic(expected: Expected, measured: RunMeasured) -> tuple[float, float]:
    """Bytes/s of the plan's brokers before the run and now."""
    seen = {one.broker: one.throughput_bytes_per_s or 0.0 for one in measured.brokers}
    names = [one.broker for one in expected.brokers]
    before = sum(one.throughput_before or 0.0 for one in expected.brokers)
    return before, sum(seen.get(name, 0.0) for name in names)


def _figures(expected: Expected, measured: RunMeasured) -> str:
    before, now = _traffic(expected, measured)
    if before > 0:
        return f"its brokers carry {format_bytes_per_s(now)} (before: {format_bytes_per_s(before)})"
    if measured.nodes:
        replicas = sum(one.replicas for one in measured.nodes)
        return f"its nodes serve {replicas:,} replicas"
    return "no problem observed"
