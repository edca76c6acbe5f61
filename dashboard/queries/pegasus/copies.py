"""Copy rate of replicas on a cluster, from its own latest runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from core.actions.copies import recent_copy_rate
from core.errors import OpsError
from core.plan.options import CopyRate
from dashboard.queries import runs

if TYPE_CHECKING:
    from dashboard.services import Config


def measured_rate(config: Config, cluster: str) -> CopyRate | None:
    """Return the rate of the latest copies; ``None``: none was made, or the journal is silent."""
    try:
        return recent_copy_rate(runs.of_cluster(config, cluster))
    except OpsError:
        return None
