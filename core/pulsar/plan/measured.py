"""The effect of a run on brokers, measured on a snapshot some time after its end."""

from __future__ import annotations

from core.actions.events import Measured, RunMeasured
from core.actions.model import RunId
from core.actions.views import RunView
from core.pulsar.measures import measure
from core.snapshot import PulsarSnapshot


def measured(
    view: RunView, snapshot: PulsarSnapshot, disturbed_by: RunId | None = None
) -> RunMeasured:
    """Return what ``snapshot`` shows of the brokers that the run touched.

    Args:
        view: A run that has ended.
        snapshot: Taken some time after its end.
        disturbed_by: Another run of the cluster that began a step in between; ``None``: none did.
    """
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
        after = step.result.after if step.result else None
        holders = (step.step.owner, after.holder if after else None)
        names += [name for name in holders if name is not None]
    return list(dict.fromkeys(names))
