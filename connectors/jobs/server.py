"""The process that carries jobs out, one after the other, beside the pages.

One server a state directory; a second one stands by. The job computes in a thread of its own; this
one follows it, writes its status about once a second, and looks for what a person asked. A server
that is told to end puts the job under way back into the queue. One that was killed leaves the job
``running``: the next one marks it as failed, because the job itself may have been what killed it.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import filelock

from connectors.config.model import TrimtabConfig
from connectors.config.private import keep_private
from connectors.jobs import folder as jobs
from connectors.jobs.catalogue import checked, kind_of
from connectors.jobs.model import JobAnswer, JobContext, JobKind
from connectors.worker.status import Heartbeat, WorkerStatus
from core.errors import ComputeError, InvariantError, OpsError
from core.progress import JobStoppedError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from core.history.store.store import HistoryStore

SERVER_STATUS: Final = "server.json"
_SERVING_LOCK: Final = "serving.lock"
_POLL_S: Final = 0.25
_STANDBY_S: Final = 1.0
_WRITE_S: Final = 1.0
_END_WITHIN_S: Final = 5.0
"""How long a job may take to notice that the server ends; its supervisor waits 8 s."""

_log = logging.getLogger("trimtab.jobs")


@dataclass(frozen=True, kw_only=True)
class Tools:
    """What jobs compute with.

    Attributes:
        spark: Returns the warm session.
        history: Returns the history store.
    """

    spark: Callable[[], SparkSession]
    history: Callable[[], HistoryStore]


def serve(
    config: TrimtabConfig,
    kinds: Mapping[str, JobKind],
    tools: Tools,
    stop: threading.Event,
    tell: Callable[[str], None],
) -> None:
    """Carry out jobs until ``stop`` is set.

    Args:
        config: Where they are.
        kinds: By name.
        tools: What they compute with.
        stop: Set it to end.
        tell: Called with sentences for the terminal.
    Raises:
        ComputeError: The state directory cannot be written.
    """
    keep_private(config.state_dir)
    home = jobs.jobs_dir(config)
    lock = filelock.FileLock(home / _SERVING_LOCK)
    try:
        home.mkdir(parents=True, exist_ok=True)
        if not _locked(lock, stop, lambda: tell(f"Standing by: another one serves {home}.")):
            return
    except OSError as exc:
        raise ComputeError(
            f"The jobs cannot be kept in {home}: {exc.strerror or exc}.",
            hint="Check the owner and mode of the state directory.",
        ) from exc
    try:
        _Server(config, kinds, tools, stop, tell).run()
    finally:
        lock.release()


def _locked(
    lock: filelock.BaseFileLock, stop: threading.Event, stand_by: Callable[[], None]
) -> bool:
    """Wait for the lock; return whether it was taken before the stop."""
    has_told = False
    while not stop.is_set():
        try:
            lock.acquire(timeout=0)
        except filelock.Timeout:
            if not has_told:
                stand_by()
            has_told = True
            stop.wait(_STANDBY_S)
        else:
            return True
    return False


class _Following:
    """Progress of the job under way: told by its thread, read by the server's."""

    def __init__(self) -> None:
        self.done = 0
        self.total = 0
        self.words = "Starting."
        self.should_end = threading.Event()
        self._first: tuple[float, int] | None = None

    def step(self, done: int, total: int, words: str) -> None:
        """Note how far it is.

        Raises:
            JobStoppedError: Somebody asked for its end.
        """
        self.done, self.total, self.words = done, total, words
        if self._first is None or done < self._first[1]:  # it begins another kind of parts
            self._first = (time.monotonic(), done)
        if self.should_end.is_set():
            raise JobStoppedError("The job was stopped.", hint="Start it again when it is wanted.")

    def rate_per_s(self) -> float | None:
        """Return parts a second since the first ones; ``None``: none were done yet."""
        first = self._first
        if first is None or self.done <= first[1]:
            return None
        passed_s = time.monotonic() - first[0]
        return (self.done - first[1]) / passed_s if passed_s > 0 else None


class _Work(threading.Thread):
    """The thread of one job: computes, and keeps what came of it."""

    def __init__(self, kind: JobKind, asked: Any, context: JobContext) -> None:
        super().__init__(name=f"job {kind.name}", daemon=True)
        self._kind, self._asked, self._context = kind, asked, context
        self.answer: JobAnswer | None = None
        self.error: OpsError | None = None

    def run(self) -> None:
        try:
            self.answer = self._kind.run(self._context, self._asked)
        except OpsError as exc:
            self.error = exc
        except Exception as exc:  # noqa: BLE001  # whatever a job meets must not end the server
            _log.error("a job of kind %s failed", self._kind.name, exc_info=exc)
            self.error = InvariantError(
                f"The job failed by a fault of Trimtab itself ({type(exc).__name__}: "
                f"{str(exc).partition(chr(10))[0][:200]}).",
                hint="Please report it with the log of the jobs.",
            )


class _Server:
    def __init__(
        self,
        config: TrimtabConfig,
        kinds: Mapping[str, JobKind],
        tools: Tools,
        stop: threading.Event,
        tell: Callable[[str], None],
    ) -> None:
        self._config = config
        self._kinds = kinds
        self._tools = tools
        self._stop = stop
        self._tell = tell
        self._said = ""
        self._about = WorkerStatus(cluster="", worker="jobs")

    def run(self) -> None:
        """Serve until told to end."""
        path = jobs.jobs_dir(self._config) / SERVER_STATUS
        beat = Heartbeat(path, self._about, self._tell)
        self._about.doing = "Waiting for jobs."
        beat.start()
        try:
            self._mark_left_ones()
            self._tell("Waiting for jobs.")
            while not self._stop.is_set():
                if not self._turn():
                    self._stop.wait(_POLL_S)
        finally:
            beat.close()
            self._tell("The job server ended.")

    def _turn(self) -> bool:
        """Do the next job; return whether there was one."""
        try:
            waiting = jobs.waiting(self._config)
            if not waiting:
                return False
            self._do(waiting[0])
            for name in jobs.drop_old(self._config, _now()):
                self._tell(f"{name} was dropped: it is old.")
        except OSError as exc:  # a full disk, for one: say it once, look again
            sentence = f"Jobs cannot be carried out now: {exc.strerror or exc} ({exc.filename})."
            self._about.last_error = {"code": "file", "message": sentence, "hint": ""}
            if sentence != self._said:
                self._tell(sentence)
            self._said = sentence
            self._stop.wait(_STANDBY_S)
        else:
            self._said, self._about.last_error = "", None
        return True

    def _mark_left_ones(self) -> None:
        """End the jobs that an earlier server was killed over."""
        for job in jobs.waiting(self._config):
            if job.state == "running":
                error = ComputeError(
                    "The job ended with its process.",
                    hint="Start it again; if it ends so once more, ask for less at a time.",
                )
                self._end(job, jobs.Status(state="failed", started_at=job.status.started_at), error)
                self._tell(f"{job.id} had ended with its process.")

    def _do(self, job: jobs.Job) -> None:
        """Carry one job out to its end, or put it back when the server ends first."""
        started_at = _stamp()
        begun = jobs.Status(state="running", words="Starting.", started_at=started_at)
        if job.is_stopping:
            self._end(job, begun, JobStoppedError("Stopped before it began."))
            return
        jobs.write(job.folder, jobs.STATUS, begun)
        self._about.doing, self._about.run_id = f"Carrying out {job.id}.", job.id
        self._tell(f"{job.id}: {job.kind} for {job.request.actor if job.request else '?'}.")
        following = _Following()
        try:
            work = self._prepared(job, following)
            work.start()
            self._follow(job, work, following, started_at)
            status = _status(following, "running", started_at)
            if work.is_alive() or (self._stop.is_set() and _is_stop(work.error, job)):
                self._put_back(job)
            elif work.error is not None:
                self._end(job, status, work.error)
            elif work.answer is not None:
                self._keep(job, status, work.answer)
        except OpsError as exc:
            self._end(job, begun, exc)
        finally:
            self._about.doing, self._about.run_id = "Waiting for jobs.", None

    def _prepared(self, job: jobs.Job, following: _Following) -> _Work:
        request = job.request
        if request is None:
            raise ComputeError(f"What was asked of job {job.id} cannot be read.")
        kind = kind_of(request.kind, self._kinds)
        asked = checked(kind, request.asked)
        context = JobContext(
            config=self._config,
            out=jobs.empty_result(job.folder),
            progress=following,
            spark=self._tools.spark,
            history=self._tools.history,
        )
        return _Work(kind, asked, context)

    def _follow(self, job: jobs.Job, work: _Work, following: _Following, started_at: str) -> None:
        """Write how far it is until it ends, or until the server has to."""
        written_s, ends_at_s = time.monotonic(), None
        while work.is_alive():
            work.join(_POLL_S)
            now_s = time.monotonic()
            if (job.folder / jobs.STOP).exists() or self._stop.is_set():
                following.should_end.set()
            if self._stop.is_set():
                ends_at_s = ends_at_s or now_s + _END_WITHIN_S
                if now_s > ends_at_s:
                    return
            if now_s - written_s >= _WRITE_S:
                written_s = now_s
                status = _status(following, "running", started_at)
                jobs.write(job.folder, jobs.STATUS, status)

    def _put_back(self, job: jobs.Job) -> None:
        words = "Put back: the server ended; the next one begins it anew."
        jobs.write(job.folder, jobs.STATUS, jobs.Status(state="queued", words=words))
        self._tell(f"{job.id} is put back into the queue.")

    def _keep(self, job: jobs.Job, status: jobs.Status, found: JobAnswer) -> None:
        answer = jobs.Answer(
            sentence=found.sentence, tables=dict(found.tables), facts=dict(found.facts)
        )
        try:
            jobs.write(job.folder, jobs.ANSWER, answer)
        except TypeError as exc:  # what JSON does not have
            raise InvariantError(f"The answer of job {job.id} cannot be kept: {exc}.") from exc
        self._finish(job, status, state="done", error=None)
        self._tell(f"{job.id} is done. {found.sentence}")

    def _end(self, job: jobs.Job, status: jobs.Status, error: OpsError) -> None:
        is_stopped = isinstance(error, JobStoppedError)
        self._finish(
            job, status, state="stopped" if is_stopped else "failed", error=error.as_json()
        )
        self._tell(f"{job.id}: {error}")

    def _finish(
        self, job: jobs.Job, status: jobs.Status, *, state: jobs.State, error: dict[str, str] | None
    ) -> None:
        ended = jobs.Status(
            state=state,
            done=status.total if state == "done" and status.total else status.done,
            total=status.total,
            words=status.words,
            started_at=status.started_at,
            updated_at=_stamp(),
            ended_at=_stamp(),
            rate_per_s=status.rate_per_s,
            error=error,
        )
        jobs.write(job.folder, jobs.STATUS, ended)


def _is_stop(error: OpsError | None, job: jobs.Job) -> bool:
    """Return whether the server's end, not a person, stopped the job."""
    return isinstance(error, JobStoppedError) and not (job.folder / jobs.STOP).exists()


def _status(following: _Following, state: jobs.State, started_at: str) -> jobs.Status:
    rate = following.rate_per_s()
    left = following.total - following.done
    return jobs.Status(
        state=state,
        done=following.done,
        total=following.total,
        words=following.words,
        started_at=started_at,
        updated_at=_stamp(),
        rate_per_s=rate,
        eta_s=left / rate if rate and following.total and left >= 0 else None,
    )


def _stamp() -> str:
    return _now().isoformat(timespec="milliseconds")


def _now() -> datetime:
    return datetime.now(UTC)


def server_status_path(config: TrimtabConfig) -> Path:
    """Return where the server writes how it is doing, in the form of a worker."""
    return jobs.jobs_dir(config) / SERVER_STATUS
