"""Order of runs: a cluster executes one at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from core.actions.describe import describe_open_run
from core.actions.views import RunView
from core.errors import OpsError
from dashboard import services

if TYPE_CHECKING:
    from dashboard.services import Config


def preceding_run(config: Config, view: RunView) -> RunView | None:
    """Return the open run of the same cluster that a queued one waits for, if there is one.

    Raises:
        RemoteError: The journal cannot be read.
    """
    if view.state != "QUEUED":
        return None
    first = next_run(config, view.cluster)
    return None if first is None or first.run_id == view.run_id else first


def next_run(config: Config, cluster: str) -> RunView | None:
    """Return the oldest open run of a cluster, without those that wait for approval.

    Raises:
        RemoteError: The journal cannot be read.
    """
    for view in services.open_views(config, cluster):
        if not services.awaits_approval(config, view):
            return view
    return None


def in_the_way(config: Config, cluster: str) -> str:
    """Return the sentence about the open run of a cluster, with how to stop it; or empty.

    Only a hint: a journal that cannot be read is reported where it is used.
    """
    try:
        going = next_run(config, cluster)
        return describe_open_run(going, services.config_option(config)) if going else ""
    except OpsError:
        return ""
