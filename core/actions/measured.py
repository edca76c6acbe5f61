"""What came of a run: read from a snapshot some time after its end, to stand beside the promise."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from core.actions.events import Measured, MeasuredNode, RunMeasured
from core.actions.model import RunId
from core.actions.views import RunView
from core.health.measures import measure
from core.pegasus.snapshot import PegasusFacts
from core.snapshot import AnySnapshot, PegasusSnapshot

MEASURE_AFTER_S: Final = 20.0
"""Brokers write their load reports some seconds after the load came: measured any earlier, a run
would be held against what was there before it."""

MEASURE_UNTIL_S: Final = 3600.0
"""After that a measurement would say more about what others did than about the run."""


def is_to_be_measured(view: RunView, now: datetime) -> bool:
    """Return whether a run has ended, did something, and it is time to see what came of it."""
    if view.ended_at is None or view.measured is not None:
        return False
    is_time = (
        timedelta(seconds=MEASURE_AFTER_S)
        <= now - view.ended_at
        <= timedelta(seconds=MEASURE_UNTIL_S)
    )
    return is_time and any(step.begun_at is not None for step in view.steps)


def measured(
    view: RunView, snapshot: AnySnapshot, disturbed_by: RunId | None = None
) -> RunMeasured:
    """Return what ``snapshot`` shows of the brokers or nodes that the run touched.

    Args:
        view: A run that has ended.
        snapshot: Taken some time after its end.
        disturbed_by: Another run of the cluster that began a step in between; ``None``: none did.
    """
    if isinstance(snapshot, PegasusSnapshot):
        return RunMeasured(
            snapshot_id=snapshot.snapshot_id,
            taken_at=snapshot.manifest.taken_at,
            usage_deviation=None,
            throughput_deviation=None,
            disturbed_by=disturbed_by,
            nodes=_measured_nodes(view, snapshot),
        )
    found = measure(snapshot)
    return RunMeasured(
        snapshot_id=snapshot.snapshot_id,
        taken_at=snapshot.manifest.taken_at,
        usage_deviation=found.usage.max_deviation_ratio,
        throughput_deviation=found.throughput.max_deviation_ratio,
        disturbed_by=disturbed_by,
        brokers=tuple(
            Measured(
                broker=broker,
                usage_ratio=found.usage.value_of(broker),
                throughput_bytes_per_s=found.throughput.value_of(broker),
            )
            for broker in _touched(view)
        ),
    )


def _touched(view: RunView) -> list[str]:
    """Brokers that the plan spoke of, then those that really had a hand in it."""
    names = [item.broker for item in view.plan.expected.brokers]
    for step in view.steps:
        if step.begun_at is None:
            continue
        after = step.ending.after if step.ending else None
        holders = (step.step.owner, after.holder if after else None)
        names += [name for name in holders if name is not None]
    return list(dict.fromkeys(names))


def _measured_nodes(view: RunView, snapshot: PegasusSnapshot) -> tuple[MeasuredNode, ...]:
    """Count what the nodes that the plan spoke of lead and serve; all of them if it named none."""
    columns = PegasusFacts(snapshot).columns
    leads = columns.counts(primaries_only=True).sum(axis=0)
    serves = columns.counts(primaries_only=False).sum(axis=0)
    places = {node: place for place, node in enumerate(columns.nodes)}
    named = [item.node for item in view.plan.expected.nodes] or list(columns.nodes)
    return tuple(
        MeasuredNode(
            node=node, primaries=int(leads[places[node]]), replicas=int(serves[places[node]])
        )
        for node in dict.fromkeys(named)
        if node in places
    )
