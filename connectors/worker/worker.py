"""The worker: executes requested runs, one thread per cluster.

Several may run, anywhere: the cluster's lease lets one act, the others are on standby. All it knows
of a run is in the journal, so it may be killed at any moment; the next worker continues.
"""

from __future__ import annotations

import logging
import os
import secrets
import socket
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from math import inf
from pathlib import Path
from time import monotonic
from typing import Final

from structlog.contextvars import bound_contextvars

from connectors.access.key import installation_key
from connectors.config.model import ClusterConfig, TrimtabConfig
from connectors.config.private import keep_private
from connectors.connector import OpenCluster
from connectors.journal.anchor import keep_anchored
from connectors.journal.journal import SqlJournal
from connectors.journal.lease import SqlLease
from connectors.systems import open_cluster, open_journal
from connectors.transport.deadline import begun_within, unless, within
from connectors.worker.clock import SystemClock
from connectors.worker.lease import ZooKeeperLease
from connectors.worker.limits import WorkerLimits
from connectors.worker.status import Heartbeat, WorkerStatus, status_path
from core.actions.apply import execute_run, reconcile_run, restore_settings
from core.actions.approval import waits_for_approval
from core.actions.authority import obeyed, refusal_of, signed
from core.actions.events import Event, Record, RunClaimed, RunEnded, RunRequested, StepEnded
from core.actions.model import ENDED_RUNS, Refusal, RunId, StepResult
from core.actions.ports import Lease, Ports
from core.actions.reconcile import RECONCILE_UNTIL_S, needs_reconciling
from core.actions.runs import fold
from core.actions.views import RunView
from core.errors import GivenUpError, InvariantError, OpsError, RemoteError, SnapshotError
from core.plan.describe import whether
from core.plan.model import Plan
from core.snapshot.store import RUN_STARTS, SnapshotStore, Storable, run_starts

_POLL_S: Final = 0.5
_STANDBY_S: Final = 1.0
_LAST_AGAIN_S: Final = 15.0
_MAX_BUGS: Final = 3
_MEASURE_EVERY_S: Final = 2.0
_RECONCILE_EVERY_S: Final = 15.0
_FIRST_RETRY_S: Final = 1.0
_LAST_RETRY_S: Final = 60.0
_LET_GO_WITHIN_S: Final = 1.0
"""How long the lease and the sessions may take to end; they go with the process."""
_log = logging.getLogger("trimtab.worker")

MEASURE_AFTER_S: Final = 20.0
"""Brokers write their load reports some seconds after the load came: measured any earlier, a run
would be held against what was there before it."""

MEASURE_UNTIL_S: Final = 3600.0
"""After that a measurement would say more about what others did than about the run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerEvent:
    """Something a person at the terminal wants to know.

    Attributes:
        cluster: Name.
        kind: ``ready``, ``working``, ``ended``, ``standby``, ``failed`` or ``stopped``.
        sentence: What happened.
    """

    cluster: str
    kind: str
    sentence: str

    def __str__(self) -> str:
        return f"{self.cluster}: {self.sentence}"


@dataclass(slots=True)
class UnexecutableRun:
    """A run that Trimtab cannot execute; what it has changed is restored all the same.

    Attributes:
        bug: Why.
        again_at_s: When it is tried again, on the monotonic clock.
        wait_s: How long the next wait is.
    """

    bug: OpsError
    again_at_s: float = 0.0
    wait_s: float = _FIRST_RETRY_S

    def wait(self, now_s: float) -> None:
        """Let it rest; longer and longer."""
        self.again_at_s = now_s + self.wait_s
        self.wait_s = min(2 * self.wait_s, _LAST_RETRY_S)


class _PolledCondition:
    """A question that is asked every half second at most; once it is true it stays so."""

    def __init__(self, ask: Callable[[], bool]) -> None:
        self._ask = ask
        self._again_at_s = 0.0
        self._is_true = False

    def __call__(self) -> bool:
        if not self._is_true and monotonic() >= self._again_at_s:
            self._again_at_s = monotonic() + _POLL_S
            with suppress(RemoteError):
                self._is_true = self._ask()
        return self._is_true


def as_bug(exc: Exception) -> InvariantError:
    """Return the message of an unexpected exception; the log gets the details."""
    if isinstance(exc, InvariantError):
        return exc
    _log.error("a run failed with an internal error", exc_info=exc)
    return InvariantError(
        f"The run failed with an internal error ({type(exc).__name__}).",
        hint="It is retried; please report it with the worker's log.",
    )


def run_worker(
    config: TrimtabConfig,
    clusters: Sequence[ClusterConfig],
    stop: threading.Event,
    on_event: Callable[[WorkerEvent], None],
) -> None:
    """Execute the runs of ``clusters``, in parallel, until ``stop`` is set.

    Args:
        config: Where journal and state are.
        stop: Set it to end, within about a second: runs stay open, and the step under way, if the
            cluster shows no result at once, is reconciled by the next worker.
        on_event: Called from the working threads.
    """
    keep_private(config.state_dir)
    loops = [_WorkerLoop(config, cluster, stop, on_event) for cluster in clusters]
    threads = [
        threading.Thread(target=loop.run, name=f"work {loop.cluster.name}") for loop in loops
    ]
    if config.audit.anchor_file is not None:
        threads.append(_anchoring(config, config.audit.anchor_file, stop))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _anchoring(config: TrimtabConfig, file: Path, stop: threading.Event) -> threading.Thread:
    """Return the thread that stores hashes of the journal's end elsewhere."""
    key = installation_key(config.access)
    every_s = 60 * config.audit.anchor_every_min
    arguments = (file, every_s, partial(open_journal, config), key, stop)
    return threading.Thread(target=keep_anchored, args=arguments, name="anchors")


def work_on(
    config: TrimtabConfig,
    cluster: ClusterConfig,
    run_id: RunId,
    stop: threading.Event,
    on_event: Callable[[WorkerEvent], None],
) -> None:
    """Be the worker of one cluster until one run has ended, or ``stop`` is set."""
    keep_private(config.state_dir)
    _WorkerLoop(config, cluster, stop, on_event, until=run_id).run()


class _WorkerLoop:
    """One cluster's working thread."""

    def __init__(
        self,
        config: TrimtabConfig,
        cluster: ClusterConfig,
        stop: threading.Event,
        on_event: Callable[[WorkerEvent], None],
        until: RunId | None = None,
    ) -> None:
        self.cluster = cluster
        self._config = config
        self._stop = stop
        self._on_event = on_event
        self._until = until
        self._clock = SystemClock(stop)
        self._name = f"{socket.gethostname()}/{os.getpid()}/{secrets.token_hex(3)}"
        self._status = WorkerStatus(cluster=cluster.name, worker=self._name)
        self._journal: SqlJournal | None = None
        self._lease: Lease | None = None
        self._open: OpenCluster | None = None
        self._again_s = _FIRST_RETRY_S
        self._bugs: dict[RunId, int] = {}
        self._broken: dict[RunId, UnexecutableRun] = {}
        self._closed: set[RunId] = set()
        self._ended: set[RunId] = set()  # whatever the list of open runs says: none opens again
        self._limits = WorkerLimits(config, cluster, lambda text: self._report("failed", text))
        self._measures_at_s = 0.0
        self._reconciles_at_s = 0.0
        self._reported = ""

    # -- life -----------------------------------------------------------------------------------

    def run(self) -> None:
        """Work until the stop; no failure ends it."""
        path = status_path(self._config, self.cluster.name)
        beat = Heartbeat(path, self._status, lambda text: self._report("failed", text))
        beat.start()
        try:
            with unless(self._clock.has_ended):
                while not self._stop.is_set() and not self._is_over():
                    self._turn_safely()
        finally:
            with within(_LET_GO_WITHIN_S):
                self._let_go()
            if self._journal is not None:
                self._journal.close()
            beat.close()
            self._report("stopped", "The worker ended.")

    def _turn_safely(self) -> None:
        try:
            rest_s = self._turn()
        except GivenUpError:
            pass  # for a run that is there now, or because the process ends
        except OpsError as exc:
            self._failed(exc)
        except Exception as exc:  # noqa: BLE001  # one bug must not end the work for a cluster
            self._failed(as_bug(exc))
        else:
            self._again_s = _FIRST_RETRY_S
            self._status.last_error = None
            self._stop.wait(rest_s)

    def _failed(self, exc: OpsError) -> None:
        """Say so, and try again after a while; longer and longer while it lasts."""
        self._status.last_error = exc.as_json()
        self._doing(f"Retrying: {exc.message}")
        self._report("failed", str(exc))
        self._stop.wait(self._again_s)
        self._again_s = min(2 * self._again_s, _LAST_AGAIN_S)

    def _is_over(self) -> bool:
        if self._until is None or self._journal is None:
            return False
        try:
            return fold(self._journal.entries(run_id=self._until)).is_ended
        except OpsError:
            return False

    # -- one turn -------------------------------------------------------------------------------

    def _turn(self) -> float:
        """Do what is there to do; return how long to rest, seconds.

        Raises:
            OpsError: Journal, ZooKeeper or cluster cannot be used right now.
        """
        journal = self._open_journal()
        open_runs = self._due_runs(journal)
        if not open_runs:
            self._let_go()
            with unless(_PolledCondition(lambda: bool(self._due_runs(journal)))):
                self._measure_due(journal)
            self._doing("Waiting for runs.")
            self._report_once("ready", "Waiting for runs.")
            return _POLL_S
        lease = self._lease = self._lease or self._new_lease(journal)
        if not lease.acquire():
            holder = lease.holder() or "another worker"
            self._doing(f"Standby: {holder} is active on this cluster.")
            self._report_once("standby", f"Standby for {holder}.")
            return _STANDBY_S
        with bound_contextvars(cluster=self.cluster.name, run=open_runs[0]):
            self._execute(journal, lease, open_runs[0])
        return 0.0 if len(open_runs) > 1 else _POLL_S

    def _execute(self, journal: SqlJournal, lease: Lease, run_id: RunId) -> None:
        self._status.run_id, self._status.lease = run_id, lease.place
        self._doing(f"Executing {run_id}.")
        self._report_once("working", f"Executing {run_id}.")
        cluster = self._opened(journal)
        ports = self._ports(journal, cluster, lease)
        try:
            if run_id in self._broken:
                self._end_broken(run_id, ports)
                return
            state = execute_run(run_id, ports)
        except OpsError as exc:
            if not isinstance(exc, RemoteError):  # nothing out there that could get better
                self._count_bug(run_id, exc, ports)
            raise
        except Exception as exc:
            bug = as_bug(exc)
            self._count_bug(run_id, bug, ports)
            raise bug from exc
        finally:
            self._status.run_id = None
        if state in ENDED_RUNS:
            self._ended.add(run_id)
            view = fold(journal.entries(run_id=run_id))
            self._report("ended", f"{run_id} is {state}. {view.sentence}")

    def _ports(self, journal: SqlJournal, cluster: OpenCluster, lease: Lease) -> Ports:
        return Ports(
            journal=journal,
            cluster=cluster,
            lease=lease,
            clock=self._clock,
            worker=self._name,
            refusal_of=self._refusal_of,
            sign=self._signed,
            keep_start=self._keep_start,
            within=within,
            begun_within=begun_within,
            unless=unless,
        )

    def _keep_start(self, plan: Plan, snapshot: Storable) -> None:
        """Store the snapshot on which a run begins, if others may move something because of it."""
        if not any(step.lets_others_move for step in plan.steps):
            return
        try:
            run_starts(self._config.state_dir).put(snapshot, RUN_STARTS)
        except (SnapshotError, OSError) as exc:  # an undo then says that it does not know
            self._report("start", f"The snapshot at the start of the run is not saved: {exc}")

    def _signed(self, record: Record) -> Record:
        return signed(record, installation_key(self._limits.access()))

    def _refusal_of(self, record: Record) -> Refusal | None:
        """Return the refusal of an entry, by the current roles and key."""
        access = self._limits.access()
        approver = self._limits.now().approval.role
        key = installation_key(access)
        return refusal_of(record, key, access.rules(), approver, self._plan_of)

    def _plan_of(self, run_id: RunId) -> Plan | None:
        """Return the plan of a run; ``None`` if the journal has no request of it."""
        events = (entry.record.event for entry in self._open_journal().entries(run_id=run_id))
        return next((event.plan for event in events if isinstance(event, RunRequested)), None)

    def _count_bug(self, run_id: RunId, bug: OpsError, ports: Ports) -> None:
        """End a run that can never be executed; it must not block the others."""
        self._bugs[run_id] = self._bugs.get(run_id, 0) + 1
        if self._bugs[run_id] >= _MAX_BUGS:
            self._broken[run_id] = UnexecutableRun(bug=bug)
            self._end(run_id, ports)

    def _due_runs(self, journal: SqlJournal) -> list[RunId]:
        """Return the runs that there is something to do for, oldest first."""
        return [
            run_id
            for run_id in journal.open_runs(self.cluster.name)
            if run_id not in self._ended
            and self._is_due(run_id)
            and not self._waits(journal, run_id)
        ]

    def _is_due(self, run_id: RunId) -> bool:
        broken = self._broken.get(run_id)
        return broken is None or self._clock.monotonic() >= broken.again_at_s

    def _waits(self, journal: SqlJournal, run_id: RunId) -> bool:
        """Return whether a run waits for approval; it must not block the others."""
        rules = self._limits.now().approval.rules()
        if rules.needed == "never":
            return False
        try:
            view = fold(obeyed(journal.entries(run_id=run_id), self._refusal_of))
        except InvariantError:
            return False  # its execution says what is wrong
        return waits_for_approval(view, rules, self._clock.now())

    def _end_broken(self, run_id: RunId, ports: Ports) -> None:
        """Put back what a broken run has left changed, and end it then; again and again."""
        self._broken[run_id].wait(self._clock.monotonic())  # also when it raises
        if restore_settings(run_id, ports):
            self._end(run_id, ports)

    def _end(self, run_id: RunId, ports: Ports) -> None:
        broken = self._broken[run_id]
        broken.wait(self._clock.monotonic())
        if end_as_broken(run_id, ports, broken.bug):
            broken.again_at_s = inf
            self._report("ended", f"{run_id} could not be executed. {broken.bug}")

    # -- measuring ------------------------------------------------------------------------------

    def _measure_due(self, journal: SqlJournal) -> None:
        """Measure what came of the runs that ended a while ago, whoever carried them out."""
        now_s = self._clock.monotonic()
        if self._until is not None or now_s < self._measures_at_s:
            return
        self._measures_at_s = now_s + _MEASURE_EVERY_S
        now = self._clock.now()
        since = now - timedelta(seconds=max(RECONCILE_UNTIL_S, MEASURE_UNTIL_S))
        recent = journal.runs_ended(self.cluster.name, since)
        views = [self._view(journal, run_id) for run_id in recent if run_id not in self._closed]
        open_ends = [view.run_id for view in views if view and needs_reconciling(view, now)]
        if open_ends:
            self._reconcile(journal, open_ends)
        due = [view for view in views if view and is_to_be_measured(view, now)]
        if due:
            self._measure(journal, due)

    def _reconcile(self, journal: SqlJournal, run_ids: Sequence[RunId]) -> None:
        """Look once more at what runs left unknown; the next turn gives the lease back."""
        now_s = self._clock.monotonic()
        if now_s < self._reconciles_at_s:
            return
        self._reconciles_at_s = now_s + _RECONCILE_EVERY_S
        lease = self._lease = self._lease or self._new_lease(journal)
        if not lease.acquire():
            return
        cluster = self._opened(journal)
        for run_id in run_ids:
            reconcile_run(run_id, self._ports(journal, cluster, lease))

    def _measure(self, journal: SqlJournal, views: Sequence[RunView]) -> None:
        lease = self._lease = self._lease or self._new_lease(journal)
        if not lease.acquire():  # whoever has it measures; the next turn gives it back
            return
        cluster = open_cluster(self._config, self.cluster)
        try:
            snapshot = cluster.snapshot()
        finally:
            cluster.close()
        SnapshotStore(self._config.state_dir / "snapshots").put(
            snapshot, self._config.keep.retention()
        )
        for view in views:
            since = view.ended_at or snapshot.manifest.taken_at
            acting = journal.runs_acting(view.cluster, since, snapshot.manifest.taken_at)
            other = next((run_id for run_id in acting if run_id != view.run_id), None)
            if fold(journal.entries(run_id=view.run_id)).measured is not None:
                continue  # by another worker, since it was looked at
            record = Record(
                run_id=view.run_id,
                cluster=view.cluster,
                at=self._clock.now(),
                actor=self._name,
                event=cluster.system.measure(view, snapshot, other),
            )
            journal.append(self._signed(record))

    def _view(self, journal: SqlJournal, run_id: RunId) -> RunView | None:
        """Return a run that may have to be measured; one that never has to is not read again."""
        try:
            view = fold(journal.entries(run_id=run_id))
        except InvariantError:  # damaged: `trimtab runs --verify` says where
            self._closed.add(run_id)
            return None
        moment = self._clock.now() + timedelta(seconds=MEASURE_AFTER_S)
        is_reconciled = not needs_reconciling(view, moment)
        if view.is_ended and is_reconciled and not is_to_be_measured(view, moment):
            self._closed.add(run_id)
        return view

    # -- what it holds --------------------------------------------------------------------------

    def _open_journal(self) -> SqlJournal:
        if self._journal is None:
            self._journal = open_journal(self._config)
        return self._journal

    def _new_lease(self, journal: SqlJournal) -> Lease:
        if self.cluster.zookeeper is not None:
            return ZooKeeperLease(self.cluster, self._name)
        return SqlLease(journal.database, self.cluster.name, self._name)

    def _opened(self, journal: SqlJournal) -> OpenCluster:
        if self._open is None:
            self._open = open_cluster(self._config, self.cluster, self._limits.now, journal)
        return self._open

    def _let_go(self) -> None:
        """Give the lease back and close what was open on the cluster."""
        lease, self._lease = self._lease, None
        cluster, self._open = self._open, None
        if lease is not None:
            lease.release()
        if cluster is not None:
            cluster.close()
        self._status.lease = ""

    # -- words ----------------------------------------------------------------------------------

    def _doing(self, sentence: str) -> None:
        self._status.doing = sentence

    def _report(self, kind: str, sentence: str) -> None:
        self._reported = sentence
        self._on_event(WorkerEvent(cluster=self.cluster.name, kind=kind, sentence=sentence))

    def _report_once(self, kind: str, sentence: str) -> None:
        if sentence != self._reported:
            self._report(kind, sentence)


def is_to_be_measured(view: RunView, now: datetime) -> bool:
    """Return whether an ended run has changes and its measurement is due."""
    if view.ended_at is None or view.measured is not None:
        return False
    is_time = (
        timedelta(seconds=MEASURE_AFTER_S)
        <= now - view.ended_at
        <= timedelta(seconds=MEASURE_UNTIL_S)
    )
    return is_time and any(step.begun_at is not None for step in view.steps)


def end_as_broken(run_id: RunId, ports: Ports, why: OpsError) -> bool:
    """End a run as ``FAILED``; steps that were begun stay unknown, the others are skipped.

    A run with a setting that is not put back is left open: the next worker has to see to it.

    Args:
        run_id: A run that cannot be executed.
        ports: The world; the lease is held.
        why: The fault.
    Returns:
        Whether it is ended now.
    Raises:
        OpsError: The journal cannot be written, or makes no sense.
    """
    view = fold(ports.journal.entries(run_id=run_id))
    if view.is_ended:
        return True
    if view.outstanding_settings or not ports.lease.is_held():
        return False
    for event in _last_words(view, ports, why):
        record = Record(
            run_id=run_id,
            cluster=view.cluster,
            at=ports.clock.now(),
            actor=ports.worker,
            event=event,
        )
        ports.journal.append(ports.sign(record))
    return True


def _last_words(view: RunView, ports: Ports, why: OpsError) -> list[Event]:
    words: list[Event] = []
    if view.worker != ports.worker:
        is_takeover = bool(view.worker)
        words.append(
            RunClaimed(worker=ports.worker, lease=ports.lease.place, is_takeover=is_takeover)
        )
    for step in view.steps:
        if step.state == "RUNNING":
            question = whether(step.step)
            sentence = f"{question[:1].upper()}{question[1:]} is unknown: {why.message}"
            result = StepResult(state="UNKNOWN", code="timed_out", sentence=sentence, hint=why.hint)
        elif step.state == "PENDING":
            result = StepResult(state="SKIPPED", code="invariant", sentence=why.message)
        else:
            continue
        words.append(StepEnded(step=step.index, result=result))
    sentence = f"It could not be executed: {why.message} {why.hint}".strip()
    return [*words, RunEnded(state="FAILED", sentence=sentence)]
