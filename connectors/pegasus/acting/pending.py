"""What the journal has of proposals that may still be executed."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

from connectors.journal.journal import SqlJournal
from core.actions.model import RunId
from core.actions.reconcile import RECONCILE_UNTIL_S
from core.actions.runs import fold
from core.actions.views import RunView
from core.errors import InvariantError
from core.pegasus.plan.pending import cleared_at, pending_partitions


class PendingProposals:
    """Partitions of one cluster that must not be proposed for; read again before every proposal.

    Args:
        journal: Of all runs.
        cluster: Trimtab's name of the cluster.
    """

    def __init__(self, journal: SqlJournal, cluster: str) -> None:
        self._journal = journal
        self._cluster = cluster
        self._judged: dict[RunId, RunView] = {}

    def __call__(self) -> frozenset[str]:
        """Return them by gpid.

        Raises:
            RemoteError: The journal cannot be read.
        """
        now = datetime.now(UTC)
        since = now - timedelta(seconds=RECONCILE_UNTIL_S)
        ended = self._views(self._journal.runs_ended(self._cluster, since))
        if not any(view.unresolved for view in ended):  # nearly always: nothing more has to be read
            return frozenset()
        views = [*ended, *self._views(self._journal.open_runs(self._cluster))]
        moments = [at for view in views if (at := cleared_at(view)) is not None]
        return pending_partitions(ended, max(moments, default=None), now)

    def _views(self, run_ids: Iterable[RunId]) -> list[RunView]:
        found = []
        for run_id in run_ids:
            view = self._judged.get(run_id)
            if view is None:
                try:
                    view = fold(self._journal.entries(run_id=run_id))
                except InvariantError:  # damaged: `trimtab runs --verify` says where
                    continue
                if view.is_ended and not view.unresolved:  # nothing of it changes any more
                    self._judged[run_id] = view
            if not view.is_request_forged:  # no worker executes it: nothing of it was sent
                found.append(view)
        return found
