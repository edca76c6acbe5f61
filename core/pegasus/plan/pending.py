"""Partitions of a Pegasus cluster that proposals of earlier runs may still change.

A queued proposal is executed at any later tick, and the meta server refuses a second one for the
same partition. Those of others cannot be listed: the server's own refusal is the guard there.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from core.actions.reconcile import needs_reconciling
from core.actions.views import RunView


def pending_partitions(
    ended: Iterable[RunView], cleared_at: datetime | None, now: datetime
) -> frozenset[str]:
    """Return the partitions (gpid) of steps whose outcome is not known, of runs that have ended.

    Args:
        ended: Runs of the cluster; those that ended longer ago than steps are looked at count not.
        cleared_at: When pending proposals were last discarded, as far as runs show.
        now: Aware UTC.
    """
    return frozenset(
        gpid
        for view in ended
        if needs_reconciling(view, now)
        for step in view.unresolved
        if step.step.is_queued
        and (cleared_at is None or step.begun_at is None or step.begun_at > cleared_at)
        for gpid in step.step.touched
    )


def cleared_at(view: RunView) -> datetime | None:
    """Return the time at which a run last discarded pending proposals, or ``None``."""
    found = (
        step.ended_at for step in view.steps if step.state == "DONE" and step.step.discards_queued
    )
    return max((at for at in found if at is not None), default=None)
