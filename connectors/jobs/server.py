"""The job server: runs queued jobs, one after the other.

One server of a state directory is active, others are on standby: a lease in the journal's database
decides. A job computes in a thread of its own; the server's thread writes its progress once a
second and looks for a requested stop. A server that shuts down requeues its job. One that was
killed leaves the job ``running``: the next one marks it as failed, because the job itself may have
killed it.
"""

from __future__ import annotations

import logging
import os
import secrets
import socket
import threading
import time
from collections.abc import Callable, Mapping
from contextvars import copy_context
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from structlog.contextvars import bound_contextvars

from connectors.config.model import TrimtabConfig
from connectors.config.private import keep_private
from connectors.jobs.catalogue import checked, kind_of
from connectors.jobs.model import JobAnswer, JobContext, JobKind
from connectors.jobs.queue import Claim, LostClaimError, jobs_dir, moment_of, queue_of
from connectors.jobs.record import Answer, State, Status
from connectors.journal.lease import SqlLease
from connectors.worker.status import Heartbeat, WorkerStatus
from core.errors import ComputeError, InvariantError, OpsError, RemoteError
from core.progress import JobStoppedError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from core.history.store.store import HistoryStore

SERVER_STATUS: Final = "server.json"
_POLL_S: Final = 0.25
_STANDBY_S: Final = 1.0
_WRITE_S: Final = 1.0
_END_WITHIN_S: Final = 0.75
"""How long a job may take to notice that the server ends; it begins again with the next one."""

_log = logging.getLogger("trimtab.jobs")


@dataclass(frozen=True, kw_only=True)
class JobResources:
    """Resources of jobs.

    Attributes:
        spark: Returns the warm session.
        history: Returns the history store.
    """

    spark: Callable[[], SparkSession]
    history: Callable[[], HistoryStore]


def serve(
    config: TrimtabConfig,
    kinds: Mapping[str, JobKind],
    tools: JobResources,
    stop: threading.Event,
    report: Callable[[str], None],
) -> None:
    """Run jobs until ``stop`` is set.

    Args:
        config: State directory and journal.
        kinds: By name.
        tools: What they compute with.
        stop: Set it to end.
        report: Called with sentences for the terminal.
    Raises:
        ComputeError: The state directory cannot be written.
        ConfigError: The journal is not usable by this version, or its driver is not installed.
    """
    keep_private(config.state_dir)
    _Server(config, kinds, tools, stop, report).run()


class _Progress:
    """Progress of the running job: written by its thread, read by the server's."""

    def __init__(self) -> None:
        self.done = 0
        self.total = 0
        self.activity = "Starting."
        self.should_end = threading.Event()
        self._first: tuple[float, int] | None = None

    def step(self, done: int, total: int, words: str) -> None:
        """Note the progress.

        Raises:
            JobStoppedError: A person or the server's end stops it.
        """
        self.done, self.total, self.activity = done, total, words
        if self._first is None or done < self._first[1]:  # it begins another kind of parts
            self._first = (time.monotonic(), done)
        if self.should_end.is_set():
            raise JobStoppedError("The job was stopped.", hint="Start it again if needed.")

    def rate_per_s(self) -> float | None:
        """Return parts per second since the first ones; ``None`` before the second one."""
        first = self._first
        if first is None or self.done <= first[1]:
            return None
        passed_s = time.monotonic() - first[0]
        return (self.done - first[1]) / passed_s if passed_s > 0 else None

    def status(self, started_at: str) -> Status:
        """Return it as the queue stores it."""
        rate = self.rate_per_s()
        left = self.total - self.done
        return Status(
            state="running",
            done=self.done,
            total=self.total,
            activity=self.activity,
            started_at=started_at,
            updated_at=moment_of(_now()),
            rate_per_s=rate,
            eta_s=left / rate if rate and self.total and left >= 0 else None,
        )


class _JobThread(threading.Thread):
    """The thread of one job: computes, and holds the answer or the error."""

    def __init__(self, kind: JobKind, request: Any, context: JobContext) -> None:
        super().__init__(name=f"job {kind.name}", daemon=True)
        self._kind, self._request, self._context = kind, request, context
        self._logged_as = copy_context()  # a thread begins without what its log lines are about
        self.answer: JobAnswer | None = None
        self.error: OpsError | None = None

    def run(self) -> None:
        self._logged_as.run(self._compute)

    def _compute(self) -> None:
        try:
            self.answer = self._kind.run(self._context, self._request)
        except OpsError as exc:
            self.error = exc
        except Exception as exc:  # noqa: BLE001  # no failure of a job may end the server
            _log.error("a job of kind %s failed", self._kind.name, exc_info=exc)
            self.error = InvariantError(
                f"The job failed with an internal error ({type(exc).__name__}: "
                f"{str(exc).partition(chr(10))[0][:200]}).",
                hint="Please report it with the log of the job server.",
            )


class _Server:
    def __init__(
        self,
        config: TrimtabConfig,
        kinds: Mapping[str, JobKind],
        tools: JobResources,
        stop: threading.Event,
        report: Callable[[str], None],
    ) -> None:
        self._config = config
        self._kinds = kinds
        self._tools = tools
        self._stop = stop
        self._report = report
        self._reported = ""
        self._queue = queue_of(config)
        self._lease: SqlLease | None = None
        self._is_active = False
        self._has_recovered = False
        self._about = WorkerStatus(cluster="", worker="jobs", doing="Waiting for jobs.")
        self._heartbeat: Heartbeat | None = None

    def run(self) -> None:
        """Serve until ``stop`` is set; a database or disk that fails is tried again."""
        try:
            while not self._stop.is_set():
                try:
                    rest_s = self._turn()
                except (RemoteError, OSError) as exc:
                    self._has_recovered = False  # a claim may be in the table unnoticed
                    self._failed(exc)
                    rest_s = _STANDBY_S
                self._stop.wait(rest_s)
        finally:
            if self._lease is not None:
                self._lease.release()
            if self._heartbeat is not None:
                self._heartbeat.close()
                self._report("The job server ended.")
            self._queue.close()

    def _turn(self) -> float:
        """Run the next job if there is one; return how long to rest, seconds.

        Raises:
            RemoteError: The database cannot be used now.
            OSError: The disk cannot.
        """
        lease = self._lease = self._lease or self._queue.lease(_server_name())
        if not self._is_active:
            if not lease.acquire():
                self._report_once(f"Standby: another job server serves {self._queue.home}.")
                return _STANDBY_S
            self._activate()
        job_id = self._queue.next_id()
        if self._has_recovered and job_id is None:
            self._about.last_error = None
            return _POLL_S
        if not lease.is_held():  # this process was suspended, and another server took over
            lease.release()
            self._is_active = False
            return 0.0
        if not self._has_recovered:
            self._fail_left_ones()
        claim = None if job_id is None else self._queue.claim(job_id, _now())
        if claim is not None:
            self._run(claim)
            for name in self._queue.drop_old(_now()):
                self._report(f"{name} was dropped: too old.")
        self._about.last_error = None
        return 0.0

    def _activate(self) -> None:
        self._is_active, self._has_recovered = True, False
        if self._heartbeat is None:
            path = server_status_path(self._config)
            self._heartbeat = Heartbeat(path, self._about, self._report)
            self._heartbeat.start()
        self._report_once("Waiting for jobs.")

    def _fail_left_ones(self) -> None:
        """End the jobs that an earlier server was killed over."""
        error = ComputeError(
            "The job's process died.",
            hint="Start it again. If it fails again, reduce the size of the job.",
        )
        for name in self._queue.fail_running(error, _now()):
            self._report(f"{name}: its process died.")
        self._has_recovered = True

    # -- one job --------------------------------------------------------------------------------

    def _run(self, claim: Claim) -> None:
        """Run a job to its end, or requeue it if the server ends first.

        Raises:
            RemoteError: The database was away until the server ended.
            OSError: The disk is full, for example; the job is queued again.
        """
        job = claim.job
        self._about.doing, self._about.run_id = f"Running {job.id}.", job.id
        with bound_contextvars(job=job.id):
            self._report(f"{job.id}: {job.kind} for {job.request.actor if job.request else '?'}.")
            try:
                self._run_claimed(claim, _Progress())
            except LostClaimError as exc:
                self._report(str(exc))
            finally:
                self._about.doing, self._about.run_id = "Waiting for jobs.", None

    def _run_claimed(self, claim: Claim, progress: _Progress) -> None:
        try:
            work = self._prepared(claim, progress)
        except OSError as exc:
            self._requeue(claim, f"Waiting: {exc.strerror or exc}.")
            raise
        except OpsError as exc:
            self._end(claim, progress, exc)
            return
        work.start()
        is_stop_requested = self._follow(claim, work, progress)
        is_server_end = self._stop.is_set() and not is_stop_requested
        if work.is_alive() or (is_server_end and isinstance(work.error, JobStoppedError)):
            self._requeue(claim, "Queued again: the job server ended; the next one starts the job.")
        elif work.error is not None:
            self._end(claim, progress, work.error)
        elif work.answer is not None:
            self._store_answer(claim, progress, work.answer)

    def _prepared(self, claim: Claim, progress: _Progress) -> _JobThread:
        if claim.job.is_stopping:
            raise JobStoppedError("Stopped before it started.")
        request = claim.job.request
        if request is None:
            raise ComputeError(claim.job.problem or "The request of the job cannot be read.")
        kind = kind_of(request.kind, self._kinds)
        model = checked(kind, request.parameters)
        context = JobContext(
            config=self._config,
            out=claim.empty_result(),
            progress=progress,
            spark=self._tools.spark,
            history=self._tools.history,
        )
        return _JobThread(kind, model, context)

    def _follow(self, claim: Claim, work: _JobThread, progress: _Progress) -> bool:
        """Write the progress until the job ends, or the server has to.

        Returns:
            Whether a person stopped the job.
        Raises:
            LostClaimError: Another server took over, or the job was removed.
        """
        written_s, ends_at_s, is_stop_requested = time.monotonic(), None, False
        while work.is_alive():
            work.join(_POLL_S)
            now_s = time.monotonic()
            try:
                is_stop_requested = is_stop_requested or claim.is_stop_requested()
                if now_s - written_s >= _WRITE_S:
                    written_s = now_s
                    claim.report(progress.status(claim.job.status.started_at))
            except RemoteError as exc:  # the job goes on: the database may be back before it ends
                self._failed(exc)
            except LostClaimError:
                progress.should_end.set()
                work.join(_END_WITHIN_S)
                raise
            if is_stop_requested or self._stop.is_set():
                progress.should_end.set()
            if self._stop.is_set():
                ends_at_s = ends_at_s or now_s + _END_WITHIN_S
                if now_s > ends_at_s:
                    break
        return is_stop_requested

    def _store_answer(self, claim: Claim, progress: _Progress, found: JobAnswer) -> None:
        answer = Answer(sentence=found.sentence, tables=dict(found.tables), facts=dict(found.facts))
        try:
            self._finish(claim, progress, "done", answer=answer)
        except TypeError as exc:  # what JSON does not have
            message = f"The result of job {claim.job.id} cannot be stored: {exc}."
            self._end(claim, progress, InvariantError(message))
        else:
            self._report(f"{claim.job.id} is done. {found.sentence}")

    def _end(self, claim: Claim, progress: _Progress, error: OpsError) -> None:
        state: State = "stopped" if isinstance(error, JobStoppedError) else "failed"
        self._finish(claim, progress, state, error=error.as_json())
        self._report(f"{claim.job.id}: {error}")

    def _finish(
        self,
        claim: Claim,
        progress: _Progress,
        state: State,
        *,
        answer: Answer | None = None,
        error: dict[str, str] | None = None,
    ) -> None:
        status = progress.status(claim.job.status.started_at)
        self._persist(lambda: claim.end(status, state, _now(), answer=answer, error=error))

    def _requeue(self, claim: Claim, activity: str) -> None:
        self._persist(lambda: claim.requeue(activity))
        self._report(f"{claim.job.id} is queued again.")

    # -- trouble --------------------------------------------------------------------------------

    def _persist(self, write: Callable[[], None]) -> None:
        """Write a job's end; a database that is away is tried again until the server ends.

        Raises:
            RemoteError: It was away until then: the next server marks the job as failed.
        """
        while True:
            try:
                write()
            except RemoteError as exc:
                self._failed(exc)
                if self._stop.wait(_STANDBY_S):
                    raise
            else:
                return

    def _failed(self, exc: RemoteError | OSError) -> None:
        """Report a database or disk that fails; once in a row."""
        if isinstance(exc, OSError):
            sentence = f"Jobs cannot run now: {exc.strerror or exc} ({exc.filename})."
            self._about.last_error = {"code": "file", "message": sentence, "hint": ""}
        else:
            sentence = f"Jobs cannot run now: {exc.message}"
            self._about.last_error = exc.as_json() | {"message": sentence}
        self._report_once(sentence)

    def _report_once(self, sentence: str) -> None:
        if sentence != self._reported:
            self._report(sentence)
        self._reported = sentence


def _server_name() -> str:
    return f"{socket.gethostname()}/{os.getpid()}/{secrets.token_hex(3)}"


def _now() -> datetime:
    return datetime.now(UTC)


def server_status_path(config: TrimtabConfig) -> Path:
    """Return the server's heartbeat file, in the format of a worker's."""
    return jobs_dir(config) / SERVER_STATUS
