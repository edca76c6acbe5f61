"""Which run another one waits for: a cluster carries out one at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from core.actions.views import RunView
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
