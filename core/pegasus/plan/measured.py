"""The effect of a run on nodes, measured on a snapshot some time after its end."""

from __future__ import annotations

from core.actions.events import MeasuredNode, RunMeasured
from core.actions.model import RunId
from core.actions.views import RunView
from core.pegasus.snapshot import PegasusFacts
from core.snapshot import PegasusSnapshot


def measured(
    view: RunView, snapshot: PegasusSnapshot, disturbed_by: RunId | None = None
) -> RunMeasured:
    """Return what ``snapshot`` shows of the nodes that the run touched.

    Args:
        view: A run that has ended.
        snapshot: Taken some time after its end.
        disturbed_by: Another run of the cluster that began a step in between; ``None``: none did.
    """
    return RunMeasured(
        snapshot_id=snapshot.snapshot_id,
        taken_at=snapshot.manifest.taken_at,
        usage_deviation=None,
        throughput_deviation=None,
        disturbed_by=disturbed_by,
        nodes=_measured_nodes(view, snapshot),
    )


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
