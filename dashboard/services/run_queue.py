"""Which run another one waits for: a cluster carries out one at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from core.actions.describe import describe_open_run
from core.actions.views import RunView
from core.errors import OpsError
from dashboard import services

if TYPE_CHECKING:
    from dashboard.services import Config


def run_ahead(config: Config, view: RunView) -> RunView | None:
    """Return the open run of the same cluster that a queued one waits for, if there is one.

    Raises:
        RemoteError: The journal cannot be read.
    """
    if view.state != "QUEUED":
        return None
    first = next(iter(services.journal(config).open_runs(view.cluster)), view.run_id)
    return None if first == view.run_id else services.run_view(config, first)


def in_the_way(config: Config, cluster: str) -> str:
    """Return the sentence about the open run of a cluster, with how to stop it; or empty.

    Only a hint: a journal that cannot be read is reported where it is used.
    """
    try:
        going = services.journal(config).open_runs(cluster)
        if not going:
            return ""
        return describe_open_run(
            services.run_view(config, going[0]), services.config_option(config)
        )
    except OpsError:
        return ""
