"""What came of a run, measured on a fresh snapshot some time after its end."""

from __future__ import annotations

from core.actions.events import Measured, RunMeasured
from core.actions.views import RunView
from core.health.measures import Measures, measure
from core.snapshot import PulsarSnapshot

SETTLED_AFTER_S = 20.0
"""Seconds from the end of a run until its effect is measured: brokers report again meanwhile."""


def measured(view: RunView, snapshot: PulsarSnapshot) -> RunMeasured:
    """Return the deviations over all brokers, and the values of those that the run touched.

    Args:
        view: An ended run.
        snapshot: Taken after it.
    """
    found = measure(snapshot)
    return RunMeasured(
        snapshot_id=snapshot.snapshot_id,
        taken_at=snapshot.manifest.taken_at,
        usage_deviation=found.usage.max_deviation_ratio,
        throughput_deviation=found.throughput.max_deviation_ratio,
        brokers=tuple(_of(broker, found) for broker in sorted(_touched(view))),
    )


def _of(broker: str, found: Measures) -> Measured:
    is_there = broker in found.brokers
    return Measured(
        broker=broker,
        usage_ratio=found.usage.value_of(broker) if is_there else None,
        throughput_bytes_per_s=found.throughput.value_of(broker) if is_there else None,
    )


def _touched(view: RunView) -> set[str]:
    names = {item.broker for item in view.plan.expected.brokers}
    for step in view.steps:
        after = step.ending.after if step.ending else None
        names |= {step.step.owner, step.step.destination or "", (after and after.holder) or ""}
    return names - {""}
