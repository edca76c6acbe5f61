"""Additions of ``health`` and ``preview`` for a Pegasus cluster, next to findings and steps."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from core.plan.model import Plan
from core.snapshot.store import Storable
from dashboard import services
from dashboard.cli.output import Answer, UsageFaultError
from dashboard.cli.pegasus.preview import preview_of_pegasus


def preview(directory: Path, plan: Plan) -> Answer:
    """Return replicas by node before and after, each step, and commands."""
    return preview_of_pegasus(plan, directory)


def with_topics(cluster: services.Cluster, snapshot: Storable, bundles: Sequence[str]) -> Storable:
    """Refuse.

    Raises:
        UsageFaultError: Always: there are no topics.
    """
    del snapshot, bundles
    raise UsageFaultError(
        f"{cluster.name} is not a Pulsar cluster and has no topics.", hint="Omit --topics-of."
    )
