"""Runs and the journal for the pages: what is going on, what was done, who asks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Final, TypeVar

import pandas as pd

from core.actions.events import Entry
from core.actions.model import RunId, RunOptions
from core.actions.views import RunView
from core.errors import SnapshotError, UnknownNameError
from core.plan.model import Plan
from core.snapshot.store import CachedSnapshot
from dashboard import services
from dashboard.presenters.journal import Chain, chain_of, entries_frame
from dashboard.presenters.workers import WorkerState, worker_state
from dashboard.queries import access
from dashboard.queries.cache import cached
from dashboard.queries.snapshots import collector_status
from dashboard.services import processes
from dashboard.services.run_queue import next_run

if TYPE_CHECKING:
    from dashboard.services import Config

MAX_ENTRIES: Final = 50_000
"""The newest entries of a journal that the pages hold; the command line writes all to a file."""

MAX_RUNS: Final = 400
"""The newest runs that the Activity page knows; reading them again takes seconds."""

MAX_OF_CLUSTER: Final = 100
_RECENT: Final = 30
S = TypeVar("S")

_REQUESTING: Final = Lock()


@dataclass(frozen=True, slots=True, kw_only=True)
class UndoRequest:
    """A run to take back; equal requests on the same snapshot have the same answer.

    Attributes:
        stored: The snapshot, taken after the run ended.
        run_id: The run.
        last_seq: Its latest entry in the journal.
        view: What is known of it up to there.
        exclusions: Namespaces that the configuration keeps out of plans.
        start: The snapshot of when the run began; ``None``: none is saved.
        max_moves: Most moves back of what no step of the run moved.
    """

    stored: CachedSnapshot
    run_id: str
    last_seq: int
    view: RunView = field(compare=False, repr=False)
    exclusions: tuple[str, ...] = ()
    start: CachedSnapshot | None = None
    max_moves: int = 0


def saved_start(saved: CachedSnapshot | None, load: Callable[[Path], S]) -> S | None:
    """Return the snapshot at the start of a run; ``None`` if none is saved, or it is unreadable."""
    try:
        return None if saved is None else load(saved.path)
    except SnapshotError:  # removed meanwhile: the undo reports that it is unknown
        return None


def worker(config: Config, cluster: str) -> WorkerState:
    """Return whether a worker carries out runs on the cluster."""
    status = collector_status(config.state_dir / "workers" / f"{cluster}.json")
    is_supervised = any(one.name == "worker" for one in processes.supervised())
    return worker_state(
        status,
        cluster=cluster,
        now=services.now(),
        config_words=services.config_option(config),
        is_supervised=is_supervised,
    )


def find(config: Config, run_id: str) -> RunView | None:
    """Return a run, ``None`` when the journal knows none of that name.

    Raises:
        RemoteError: The journal cannot be read.
    """
    try:
        return services.run_view(config, run_id)
    except UnknownNameError:
        return None


def of_cluster(config: Config, cluster: str) -> Sequence[RunView]:
    """Return the latest runs of a cluster, the newest first.

    Raises:
        RemoteError: The journal cannot be read.
    """
    database = services.journal(config).database
    return database.recent(
        ("runs", cluster), partial(services.runs, config, cluster, limit=MAX_OF_CLUSTER)
    )


def every(config: Config) -> Sequence[RunView]:
    """Return the runs of every cluster, the newest first.

    Raises:
        RemoteError: The journal cannot be read.
    """
    names = tuple(cluster.name for cluster in config.clusters)
    database = services.journal(config).database
    return database.recent(("every run", names), partial(services.runs, config, limit=MAX_RUNS))


def open_run(config: Config, cluster: str) -> RunView | None:
    """Return the oldest run of a cluster that has not ended and waits for no approval.

    Raises:
        RemoteError: The journal cannot be read.
    """
    return next_run(config, cluster)


def request(config: Config, plan: Plan, reason: str, options: RunOptions) -> RunId:
    """Request a plan, once: the same plan requested again is the same run.

    Raises:
        InputError: No reason, or options beyond the cluster's limits.
        PlanError: The plan cannot be applied.
        RemoteError: The journal cannot be written.
    """
    with _REQUESTING:
        for view in services.runs(config, plan.cluster, limit=_RECENT):
            if view.plan.plan_id == plan.plan_id and view.state != "REFUSED":
                return view.run_id
        return services.request_run(
            config, plan.cluster, plan, reason, options, access.person(config)
        )


def undone_by(config: Config, view: RunView) -> RunView | None:
    """Return the latest run that was asked to take ``view`` back and was not refused."""
    for other in of_cluster(config, view.cluster):
        if other.undoes == view.run_id and other.state != "REFUSED":
            return other
    return None


def standing_undo(config: Config, view: RunView) -> RunView | None:
    """Return the latest run that was to take ``view`` back, unless that was taken back itself."""
    undo = undone_by(config, view)
    if undo is None:
        return None
    again = standing_undo(config, undo)
    return undo if again is None or again.state != "DONE" else None


def entries_of(config: Config, run_id: RunId) -> Sequence[Entry]:
    """Return the journal entries of one run, in order."""
    return services.journal(config).entries(run_id=run_id)


@dataclass
class _Audit:
    """The entries of one journal as a table, grown as the journal grows."""

    lock: Lock = field(default_factory=Lock)
    frame: pd.DataFrame | None = None
    seq: int = 0


_audits: Callable[[str], _Audit] = cached(lambda _: _Audit(), max_entries=4)


def audit(config: Config) -> pd.DataFrame:
    """Return the newest :data:`MAX_ENTRIES` entries as a table, oldest first; do not change it.

    Raises:
        RemoteError: The journal cannot be read.
    """
    saved = _audits(config.journal_address.get_secret_value())
    journal = services.journal(config)
    with saved.lock:
        if saved.frame is None:
            saved.seq = max(0, journal.newest()[0] - MAX_ENTRIES)
        fresh = journal.entries(after=saved.seq)
        if fresh or saved.frame is None:
            grown = entries_frame(fresh)
            if saved.frame is not None and len(saved.frame):
                grown = pd.concat([saved.frame, grown], ignore_index=True)
            saved.frame = grown.tail(MAX_ENTRIES).reset_index(drop=True)
            saved.seq = fresh[-1].seq if fresh else saved.seq
        return _visible(config, saved.frame)


def _visible(config: Config, entries: pd.DataFrame) -> pd.DataFrame:
    """Return the entries of the clusters that the person may look at."""
    if config.access.sign_in == "none":
        return entries
    names = ["", *(cluster.name for cluster in config.clusters)]  # archives are of no cluster
    return entries[entries["cluster"].isin(names)]


def newest(config: Config) -> tuple[int, str]:
    """Return number and digest of the newest entry; ``(0, ...)`` for an empty journal."""
    return services.journal(config).newest()


_chains: Callable[[tuple[str, int, str]], list[Chain]] = cached(lambda _: [], max_entries=8)


def chain(config: Config, *, is_requested: bool) -> Chain | None:
    """Return the verdict on the journal's chain as it stands, ``None`` when it was not requested.

    Args:
        config: The configuration.
        is_requested: Compute it when it is not known for the newest entry yet.
    Raises:
        RemoteError: The journal cannot be read.
        InputError: The anchors cannot be read, or are not of this installation.
    """
    saved = _chains((config.journal_address.get_secret_value(), *newest(config)))
    if not saved and is_requested:
        found = services.verify_journal(config)
        problems = (*found.problems, *found.unchecked)
        saved.append(chain_of(found.entries, found.newest_digest, problems))
    return saved[0] if saved else None
