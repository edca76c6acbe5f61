"""Runs as they stand, folded from the journal and brought up to date entry by entry."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from threading import Lock
from typing import Protocol

import msgspec

from core.actions.events import Entry
from core.actions.model import RunId
from core.actions.ports import Journal
from core.actions.runs import RunView, fold
from core.errors import InvariantError, UnknownNameError

MOST_KEPT = 2000
"""Runs in memory; the others are folded again on request."""


class Runs(Journal, Protocol):
    """A journal that can also list its runs."""

    def run_ids(self, *, cluster: str | None = None, limit: int | None = None) -> Sequence[RunId]:
        """Return the runs that were ever requested, newest first."""
        ...

    def newest(self) -> tuple[int, str]:
        """Return place and hash of the last entry."""
        ...


class RunBook:
    """Views of runs, shared by every session of a process; only new entries are read.

    Args:
        journal: Where the entries are.
    """

    def __init__(self, journal: Runs) -> None:
        self._journal = journal
        self._views: dict[RunId, RunView] = {}
        self._seen: int | None = None
        self._lock = Lock()

    def view(self, run_id: RunId) -> RunView:
        """Return a run as it stands.

        Raises:
            UnknownNameError: The journal has no such run.
            RemoteError: The journal cannot be read.
        """
        with self._lock:
            self._begin()
            view = self._brought_up(run_id)
        if view is None:
            known = self._journal.run_ids(limit=500)
            raise UnknownNameError.of("run", run_id, known, place="the journal")
        return view

    def views(self, *, cluster: str | None = None, limit: int | None = None) -> list[RunView]:
        """Return the latest runs, of one cluster or of all, newest first.

        Raises:
            RemoteError: The journal cannot be read.
        """
        wanted = self._journal.run_ids(cluster=cluster, limit=limit)
        with self._lock:
            self._catch_up(self._begin())
            found = [self._views.get(run_id) or self._brought_up(run_id) for run_id in wanted]
        return [view for view in found if view is not None]

    def _begin(self) -> int:
        """Return the first position of the stored views; older runs are read one by one."""
        if self._seen is None:
            self._seen = self._journal.newest()[0]
        return self._seen

    def _catch_up(self, seen: int) -> None:
        """Fold new entries into the stored views; the other runs are read on request."""
        fresh = self._journal.entries(after=seen)
        for entry in fresh:
            view = self._views.get(entry.record.run_id)
            if view is not None and entry.seq > view.last_seq:
                self._views[view.run_id] = grown(view, [entry]) or view
        self._seen = fresh[-1].seq if fresh else seen

    def _brought_up(self, run_id: RunId) -> RunView | None:
        view = self._views.get(run_id)
        fresh = self._journal.entries(run_id=run_id, after=view.last_seq if view else 0)
        view = grown(view, fresh)
        if view is not None:
            self._views.pop(run_id, None)
            self._views[run_id] = view
            while len(self._views) > MOST_KEPT:
                self._views.pop(next(iter(self._views)))
        return view


def grown(view: RunView | None, entries: Iterable[Entry]) -> RunView | None:
    """Fold entries one by one; an invalid one stops it, and the view reports that.

    One damaged run must not take the page of all the others away.
    """
    for entry in entries:
        if view is not None and view.damage:
            return view
        try:
            view = fold([entry], onto=view)
        except InvariantError as error:
            if view is None and entry.damage:  # shown as damaged, rather than not at all
                view = _begun_damaged(entry)
            if view is None:
                return None
            view = replace(view, damage=str(error))
    return view


def _begun_damaged(entry: Entry) -> RunView | None:
    try:
        return fold([msgspec.structs.replace(entry, damage="")])
    except InvariantError:
        return None
