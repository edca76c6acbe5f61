"""The queue of jobs: a table in the journal's database; result tables are files.

A server claims the oldest queued job with one ``UPDATE`` that only one of several servers can win.
From then on every write names the claim's token: a server whose job was taken from it changes
nothing any more. A state directory has a queue of its own, because its result tables are in it:
``<state_dir>/jobs/<id>/result`` (Parquet, one file or folder per table).
"""

from __future__ import annotations

import contextlib
import secrets
import shutil
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final, TypeVar

import filelock
import msgspec
import sqlalchemy as sa
from pydantic import SecretStr
from sqlalchemy import exc
from sqlalchemy.dialects import mysql

from connectors.config.model import TrimtabConfig
from connectors.jobs.record import ENDED, RESULT, Answer, Job, JobRequest, State, Status
from connectors.journal.engine import Database
from connectors.journal.errors import translated
from connectors.journal.lease import SqlLease
from core.errors import ComputeError, ConfigError, InputError, UnknownNameError
from core.files import write_whole
from core.progress import JobStoppedError
from core.snapshot.clock import clock_jump

MAX_JOBS: Final = 200
MAX_AGE: Final = timedelta(days=30)
"""Ended jobs beyond these are removed, the oldest first."""

LEASE_S: Final = 10.0
"""After so long without renewal another server takes over."""

FORMAT: Final = 1
"""Version of the rows in these tables; a queue of another one is refused."""

_QUEUE_ID: Final = "queue-id"
_LOCK_S: Final = 15.0
_TEXT: Final = sa.Text().with_variant(mysql.MEDIUMTEXT(), "mysql", "mariadb")

METADATA: Final = sa.MetaData()

QUEUES: Final = sa.Table(
    "trimtab_job_queues",
    METADATA,
    sa.Column("id", sa.String(32), primary_key=True),
    sa.Column("format", sa.Integer, nullable=False),
)
"""One row per state directory."""

JOBS: Final = sa.Table(
    "trimtab_jobs",
    METADATA,
    sa.Column("id", sa.String(32), primary_key=True),
    sa.Column("queue", sa.String(32), primary_key=True),
    sa.Column("state", sa.String(16), nullable=False),
    sa.Column("request", _TEXT, nullable=False),  # JSON of JobRequest
    sa.Column("status", _TEXT, nullable=False),  # JSON of Status
    sa.Column("answer", _TEXT),  # JSON of Answer
    sa.Column("is_stopping", sa.Boolean, nullable=False),
    sa.Column("token", sa.String(32)),  # of the claim, while the job is running
    sa.Index("trimtab_jobs_in_order", "queue", "state", "id"),
)
"""One row per job."""

S = TypeVar("S", bound=msgspec.Struct)


class LostClaimError(JobStoppedError):
    """The job was taken from this server: ended, removed or claimed by another one."""


def jobs_dir(config: TrimtabConfig) -> Path:
    """Return the directory of the jobs' result tables."""
    return config.state_dir / "jobs"


def queue_of(config: TrimtabConfig) -> JobQueue:
    """Return the queue of a configuration's state directory; close it when it is not needed."""
    return JobQueue(jobs_dir(config), config.journal_address)


class JobQueue:
    """The queue of one state directory.

    Its database is opened at the first call that needs it.

    Args:
        home: ``<state_dir>/jobs``; result tables are in it.
        address: URL of the journal's database.
    """

    def __init__(self, home: Path, address: SecretStr) -> None:
        self.home = home
        self._address = address
        self._lock = threading.Lock()
        self._opened: tuple[Database, str] | None = None

    def close(self) -> None:
        """Give back every connection."""
        with self._lock:
            if self._opened is not None:
                self._opened[0].close()
            self._opened = None

    # -- for people -----------------------------------------------------------------------------

    def add(self, kind: str, parameters: Mapping[str, Any], actor: str, now: datetime) -> str:
        """Queue a job and return its name.

        Raises:
            ComputeError: The state directory cannot be written.
            RemoteError: The database cannot be written.
        """
        moment = now.astimezone(UTC)
        job_id = f"{_stamp(moment)}-{secrets.token_hex(3)}"
        request = JobRequest(
            kind=kind,
            parameters=dict(parameters),
            actor=actor,
            requested_at=moment.isoformat(timespec="milliseconds"),
        )
        row = {
            "id": job_id,
            "state": "queued",
            "request": _encoded(request),
            "status": _encoded(Status()),
            "is_stopping": False,
        }
        _, queue = self._open()
        with self._writing("queue a job") as connection:
            connection.execute(JOBS.insert().values(queue=queue, **row))
        return job_id

    def find(self, job_id: str) -> Job:
        """Return a job.

        Raises:
            UnknownNameError: There is none of that name.
            RemoteError: The database cannot be read.
        """
        rows = self._rows(JOBS.c.id == job_id)
        if not rows:
            names = [row["id"] for row in self._rows()]
            raise UnknownNameError.of("job", job_id, names, place=str(self.home))
        return self._job(rows[0])

    def jobs(self) -> list[Job]:
        """Return all jobs, the newest first; damaged ones have a ``problem``. One query.

        Raises:
            RemoteError: The database cannot be read.
        """
        return [self._job(row) for row in self._rows()]

    def stop(self, job_id: str, now: datetime) -> None:
        """Cancel a job: it ends after the part in progress, a queued one at once.

        Raises:
            UnknownNameError: There is none of that name.
            InputError: It has ended.
            RemoteError: The database cannot be written.
        """
        job = self.find(job_id)
        if job.is_ended:
            raise InputError(f"Job {job_id} is already {job.state}.", hint="Nothing to stop.")
        stopped = JobStoppedError("Stopped before it started.")
        status = _ended(job.status, "stopped", now, stopped.as_json())
        with self._writing("stop a job") as connection:
            change = JOBS.update().where(*self._one(job_id))
            queued = connection.execute(
                change.where(JOBS.c.state == "queued").values(
                    state="stopped", status=_encoded(status), is_stopping=True
                )
            )
            if not queued.rowcount:
                connection.execute(change.where(JOBS.c.state == "running").values(is_stopping=True))

    def drop(self, job_id: str) -> None:
        """Remove an ended job with its results.

        Raises:
            UnknownNameError: There is none of that name.
            InputError: It has not ended.
            RemoteError: The database cannot be written.
        """
        job = self.find(job_id)
        if not job.is_ended:
            raise InputError(f"Job {job_id} is {job.state}.", hint="Stop it first.")
        self._remove([job_id])

    def drop_old(self, now: datetime) -> list[str]:
        """Remove ended jobs that are too many or too old; return their names.

        Age does not count until the clock has run on for a day after a gap that a jump of it
        explains as well.

        Raises:
            RemoteError: The database cannot be written.
        """
        ended = [job for job in self.jobs() if job.is_ended]
        moments = [moment for job in ended if (moment := _moment(job.id)) is not None]
        jump = clock_jump(moments, now, MAX_AGE, usual=timedelta(0))
        oldest = _stamp((now - MAX_AGE).astimezone(UTC)) if jump is None else ""
        gone = [job.id for rank, job in enumerate(ended) if rank >= MAX_JOBS or job.id < oldest]
        if gone:
            self._remove(gone)
        return gone

    # -- for the server -------------------------------------------------------------------------

    def lease(self, holder: str) -> SqlLease:
        """Return the lease that the one active server of this queue holds.

        Raises:
            ComputeError: The state directory cannot be written.
            RemoteError: The database cannot be opened.
        """
        database, queue = self._open()
        return SqlLease(database, f"jobs/{queue}", holder, lifetime_s=LEASE_S)

    def next_id(self) -> str | None:
        """Return the oldest queued job; ``None`` if there is none.

        Raises:
            RemoteError: The database cannot be read.
        """
        database, queue = self._open()
        query = sa.select(sa.func.min(JOBS.c.id)).where(
            JOBS.c.queue == queue, JOBS.c.state == "queued"
        )
        with database.reading("claim a job") as connection:
            found: str | None = connection.execute(query).scalar()
        return found

    def claim(self, job_id: str, now: datetime) -> Claim | None:
        """Claim a queued job; ``None`` if another server was faster or it was stopped.

        Raises:
            RemoteError: The database cannot be written.
        """
        token = secrets.token_hex(16)
        begun = Status(state="running", activity="Starting.", started_at=moment_of(now))
        one = self._one(job_id)
        with self._writing("claim a job") as connection:
            claimed = connection.execute(
                JOBS.update()
                .where(*one, JOBS.c.state == "queued")
                .values(state="running", status=_encoded(begun), token=token)
            )
            if claimed.rowcount != 1:
                return None
            row = connection.execute(sa.select(JOBS).where(*one)).mappings().one()
        return Claim(self, self._job(dict(row)), token)

    def fail_running(self, error: ComputeError, now: datetime) -> list[str]:
        """End the jobs of a server that was killed; only the holder of the lease may call it.

        Raises:
            RemoteError: The database cannot be written.
        """
        left = self._rows(JOBS.c.state == "running")
        with self._writing("end jobs") as connection:
            for job in map(self._job, left):
                status = _ended(job.status, "failed", now, error.as_json())
                connection.execute(
                    JOBS.update()
                    .where(*self._one(job.id), JOBS.c.state == "running")
                    .values(state="failed", status=_encoded(status), token=None)
                )
        return [row["id"] for row in left]

    # -- the database ---------------------------------------------------------------------------

    def write(self, job_id: str, claim: str, /, **values: Any) -> None:
        """Change a claimed job; for its :class:`Claim`.

        Raises:
            LostClaimError: The claim is lost.
            RemoteError: The database cannot be written.
        """
        with self._writing("record a job") as connection:
            changed = connection.execute(
                JOBS.update().where(*self._one(job_id), JOBS.c.token == claim).values(**values)
            )
        if changed.rowcount != 1:
            raise LostClaimError(f"Job {job_id} was claimed by another server or removed.")

    def is_stop_requested(self, job_id: str, token: str) -> bool:
        """Return whether a claimed job should end; for its :class:`Claim`.

        Raises:
            LostClaimError: The claim is lost.
            RemoteError: The database cannot be read.
        """
        rows = self._rows(JOBS.c.id == job_id, JOBS.c.token == token)
        if not rows:
            raise LostClaimError(f"Job {job_id} was claimed by another server or removed.")
        return bool(rows[0]["is_stopping"])

    def _one(self, job_id: str) -> tuple[sa.ColumnElement[bool], ...]:
        _, queue = self._open()
        return (JOBS.c.queue == queue, JOBS.c.id == job_id)

    def _rows(self, *conditions: sa.ColumnElement[bool]) -> Sequence[Mapping[str, Any]]:
        """Return rows, the newest first."""
        if self._opened is None and not self.home.is_dir():
            return []  # nothing was ever queued: do not make a database for that
        database, queue = self._open()
        query = sa.select(JOBS).where(JOBS.c.queue == queue, *conditions).order_by(JOBS.c.id.desc())
        with database.reading("read jobs") as connection:
            return [dict(row) for row in connection.execute(query).mappings()]

    @contextlib.contextmanager
    def _writing(self, operation: str) -> Iterator[sa.Connection]:
        database, _ = self._open()
        with translated(database.place, operation), database.writing() as connection:
            yield connection

    def _open(self) -> tuple[Database, str]:
        with self._lock:
            if self._opened is None:
                queue = _queue_id(self.home)
                database = Database(self._address)
                try:
                    database.add_tables(METADATA)
                    self._register(database, queue)
                except BaseException:
                    database.close()
                    raise
                self._opened = database, queue
            return self._opened

    def _register(self, database: Database, queue: str) -> None:
        """Register the queue once, or refuse one whose rows have another format."""
        query = sa.select(QUEUES.c.format).where(QUEUES.c.id == queue)
        with database.reading("read the queue's format") as connection:
            found = connection.execute(query).scalar()
        if found is None:
            try:
                with database.writing() as connection:
                    connection.execute(QUEUES.insert().values(id=queue, format=FORMAT))
            except exc.IntegrityError:  # another process registered it meanwhile
                return
            except exc.SQLAlchemyError:
                with translated(database.place, "register the queue"):
                    raise
        elif found != FORMAT:
            raise ConfigError(
                f"The jobs in {database.place} have format {found}; this version of Trimtab "
                f"reads {FORMAT}.",
                hint="Use the version of Trimtab that wrote them, or set another journal_url.",
            )

    def _remove(self, job_ids: Sequence[str]) -> None:
        _, queue = self._open()
        with self._writing("remove jobs") as connection:
            connection.execute(JOBS.delete().where(JOBS.c.queue == queue, JOBS.c.id.in_(job_ids)))
        for job_id in job_ids:
            folder = self.home / job_id
            aside = folder.with_name(f".gone-{job_id}")
            with contextlib.suppress(OSError):
                folder.rename(aside)  # out of sight at once
            shutil.rmtree(aside, ignore_errors=True)

    def _job(self, row: Mapping[str, Any]) -> Job:
        job_id = row["id"]
        request, damage = _decoded(row["request"], JobRequest, f"The request of job {job_id}")
        status, damaged = _decoded(row["status"], Status, f"The status of job {job_id}")
        answer = None
        if status is not None and status.state == "done":
            what = f"The result of job {job_id}"
            answer, damaged = _decoded(row["answer"] or "", Answer, what)
        damage = damage or damaged
        if damage or status is None:
            hint = "Drop this job and start it again."
            error = {"code": "file", "message": damage, "hint": hint}
            status = Status(state="failed", error=error)
        return Job(
            id=job_id,
            folder=self.home / job_id,
            request=request,
            status=status,
            answer=answer,
            is_stopping=bool(row["is_stopping"]) and status.state not in ENDED,
            problem=damage,
        )


@dataclass(frozen=True)
class Claim:
    """A job that this server runs; every method raises LostClaimError once it is lost.

    Attributes:
        queue: Where it is.
        job: As it was claimed.
        token: Of this claim.
    """

    queue: JobQueue
    job: Job
    token: str

    def report(self, status: Status) -> None:
        """Write the progress."""
        self.queue.write(self.job.id, self.token, status=_encoded(status))

    def is_stop_requested(self) -> bool:
        """Return whether a person requested its end."""
        return self.queue.is_stop_requested(self.job.id, self.token)

    def requeue(self, activity: str) -> None:
        """Give it back: the next server starts it again."""
        status = Status(activity=activity)
        self.queue.write(
            self.job.id, self.token, state="queued", status=_encoded(status), token=None
        )

    def end(
        self,
        status: Status,
        state: State,
        now: datetime,
        *,
        answer: Answer | None = None,
        error: dict[str, str] | None = None,
    ) -> None:
        """Write how it ended, and its answer with it.

        Raises:
            TypeError: The answer holds what JSON does not have.
        """
        text = None if answer is None else _encoded(answer)
        ended = _ended(status, state, now, error)
        self.queue.write(
            self.job.id,
            self.token,
            state=state,
            status=_encoded(ended),
            answer=text,
            token=None,
        )

    def empty_result(self) -> Path:
        """Return the empty directory of its result tables; an earlier try's are removed."""
        out = self.job.folder / RESULT
        shutil.rmtree(out, ignore_errors=True)
        out.mkdir(parents=True)
        return out


def moment_of(now: datetime) -> str:
    """Return a moment as jobs store it."""
    return now.astimezone(UTC).isoformat(timespec="milliseconds")


def _ended(status: Status, state: State, now: datetime, error: dict[str, str] | None) -> Status:
    at = moment_of(now)
    done = status.total if state == "done" and status.total else status.done
    return msgspec.structs.replace(
        status, state=state, done=done, updated_at=at, ended_at=at, eta_s=None, error=error
    )


def _stamp(moment: datetime) -> str:
    """Return the start of a job's name; names sort by time."""
    return f"{moment:%Y%m%dT%H%M%S}{moment.microsecond // 1000:03d}"


def _moment(job_id: str) -> datetime | None:
    """Return the queue time of a job from its name, or ``None`` for another form."""
    try:
        text = f"{job_id.partition('-')[0]}+0000"
        return datetime.strptime(text, "%Y%m%dT%H%M%S%f%z")
    except ValueError:
        return None


def _queue_id(home: Path) -> str:
    """Return the identity of a state directory's queue; it moves with the directory.

    Raises:
        ComputeError: It cannot be read or made.
    """
    path = home / _QUEUE_ID
    try:
        if not path.exists():
            home.mkdir(parents=True, exist_ok=True)
            with filelock.FileLock(f"{path}.lock", timeout=_LOCK_S):
                if not path.exists():
                    write_whole(path, secrets.token_hex(16).encode())
        return path.read_text().strip()[:32]
    except (OSError, filelock.Timeout, UnicodeDecodeError) as error:
        raise ComputeError(
            f"The job queue in {home} cannot be opened: {error}.",
            hint="Check the owner, the mode and the free space of the state directory.",
        ) from error


def _encoded(value: msgspec.Struct) -> str:
    return msgspec.json.encode(value).decode()


def _decoded(text: str, kind: type[S], what: str) -> tuple[S | None, str]:
    """Return the value and an empty sentence, or ``None`` and what is wrong with it."""
    if not text:
        return None, f"{what} is missing."
    try:
        return msgspec.json.decode(text, type=kind), ""
    except (msgspec.MsgspecError, RecursionError) as error:
        return None, f"{what} is damaged: {str(error).partition(chr(10))[0]}."
