"""Jobs on disk: what was asked, how far it is, what came of it; one folder a job.

``<state_dir>/jobs/<id>/``: ``request.json`` (written once, before the folder has its name),
``status.json`` (replaced whole by the server), ``stop`` (a person asked for its end), ``result/``
(Parquet, one file or folder a table), ``answer.json`` (written last, before the state says done).
Pages and commands read it; only the server writes a status.
"""

from __future__ import annotations

import contextlib
import re
import secrets
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final, Literal, TypeVar

import msgspec

from connectors.config.model import TrimtabConfig
from core.errors import ComputeError, InputError, UnknownNameError

State = Literal["queued", "running", "done", "failed", "stopped"]
ENDED: Final[frozenset[State]] = frozenset({"done", "failed", "stopped"})

MAX_JOBS: Final = 200
MAX_AGE: Final = timedelta(days=30)
"""Ended jobs beyond these are dropped, the oldest first."""

REQUEST: Final = "request.json"
STATUS: Final = "status.json"
ANSWER: Final = "answer.json"
STOP: Final = "stop"
RESULT: Final = "result"

_ID: Final = re.compile(r"\d{8}T\d{9}-[0-9a-f]{6}\Z")
_TABLE: Final = re.compile(r"[A-Za-z0-9_-]{1,64}\Z")
S = TypeVar("S", bound=msgspec.Struct)


class Request(msgspec.Struct, kw_only=True, frozen=True):
    """What was asked.

    Attributes:
        kind: Name of the kind of job.
        asked: What its model takes.
        actor: Who asked.
        asked_at: When, ISO 8601, UTC.
    """

    kind: str
    asked: dict[str, Any]
    actor: str
    asked_at: str


class Status(msgspec.Struct, kw_only=True, frozen=True):
    """How far a job is. Times are ISO 8601, UTC.

    Attributes:
        state: What it is.
        done: Parts that are done.
        total: Parts in all; 0: unknown.
        words: What is being done, in a few words.
        started_at: When the server began with it.
        updated_at: When this was written.
        ended_at: When it ended.
        rate_per_s: Parts a second so far.
        eta_s: Seconds that are left at that rate.
        error: ``{"code", "message", "hint"}`` of what made it fail.
    """

    state: State = "queued"
    done: int = 0
    total: int = 0
    words: str = ""
    started_at: str = ""
    updated_at: str = ""
    ended_at: str | None = None
    rate_per_s: float | None = None
    eta_s: float | None = None
    error: dict[str, str] | None = None


class Answer(msgspec.Struct, kw_only=True, frozen=True):
    """What a job found; see :class:`connectors.jobs.model.JobAnswer`."""

    sentence: str
    tables: dict[str, str]
    facts: dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Job:
    """A job as it stands on disk.

    Attributes:
        id: Its name.
        folder: Where it is.
        request: What was asked; ``None``: it cannot be read, ``problem`` says so.
        status: How far it is.
        answer: What it found, once it is done.
        is_stopping: A person asked for its end.
        problem: What is damaged, in one sentence; empty: nothing.
    """

    id: str
    folder: Path
    request: Request | None
    status: Status
    answer: Answer | None = None
    is_stopping: bool = False
    problem: str = ""

    @property
    def state(self) -> State:
        """What it is."""
        return self.status.state

    @property
    def is_ended(self) -> bool:
        """Whether nothing will change any more."""
        return self.state in ENDED

    @property
    def kind(self) -> str:
        """Name of its kind; empty when the request cannot be read."""
        return self.request.kind if self.request else ""

    def table(self, name: str) -> Path:
        """Return where a result table is: a Parquet file, or a folder of them.

        Raises:
            UnknownNameError: The job has no such table.
            ComputeError: Its file is gone.
        """
        known = self.answer.tables if self.answer else {}
        if name not in known or not _TABLE.match(name):
            raise UnknownNameError.of("result table", name, known, place=f"job {self.id}")
        path = self.folder / RESULT / f"{name}.parquet"
        if not path.exists():
            raise ComputeError(
                f"The result table {name} of job {self.id} is not there any more.",
                hint="Start the job again.",
            )
        return path


def jobs_dir(config: TrimtabConfig) -> Path:
    """Return where the jobs of a configuration are."""
    return config.state_dir / "jobs"


def add(
    config: TrimtabConfig, kind: str, asked: Mapping[str, Any], actor: str, now: datetime
) -> str:
    """Put a job into the queue and return its name.

    Raises:
        ComputeError: The state directory cannot be written.
    """
    moment = now.astimezone(UTC)
    job_id = f"{_stamp(moment)}-{secrets.token_hex(3)}"
    request = Request(
        kind=kind,
        asked=dict(asked),
        actor=actor,
        asked_at=moment.isoformat(timespec="milliseconds"),
    )
    folder = jobs_dir(config) / job_id
    aside = folder.with_name(f".{job_id}")
    try:
        aside.mkdir(parents=True)
        (aside / REQUEST).write_bytes(msgspec.json.encode(request))
        aside.rename(folder)  # a server never sees half a request
    except OSError as exc:
        raise ComputeError(
            f"The job cannot be put into {folder.parent}: {exc.strerror or exc}.",
            hint="Check the owner, the mode and the free space of the state directory.",
        ) from exc
    return job_id


def _stamp(moment: datetime) -> str:
    """Return what a job's name begins with, so that names sort by time."""
    return f"{moment:%Y%m%dT%H%M%S}{moment.microsecond // 1000:03d}"


def find(config: TrimtabConfig, job_id: str) -> Job:
    """Return a job.

    Raises:
        UnknownNameError: There is none of that name.
    """
    folder = jobs_dir(config) / job_id
    if not _ID.match(job_id) or not folder.is_dir():
        raise UnknownNameError.of("job", job_id, _names(config), place=str(jobs_dir(config)))
    return _read(folder)


def listed(config: TrimtabConfig) -> list[Job]:
    """Return all jobs, the newest first; damaged ones say so."""
    return [_read(jobs_dir(config) / name) for name in reversed(_names(config))]


def waiting(config: TrimtabConfig) -> list[Job]:
    """Return the jobs that are not ended, the oldest first."""
    return [job for job in reversed(listed(config)) if not job.is_ended]


def ask_stop(config: TrimtabConfig, job_id: str) -> None:
    """Ask for a job's end; one that waits will never begin.

    Raises:
        UnknownNameError: There is none of that name.
        InputError: It has ended.
        ComputeError: The state directory cannot be written.
    """
    job = find(config, job_id)
    if job.is_ended:
        raise InputError(f"Job {job_id} is {job.state} already.", hint="There is nothing to stop.")
    try:
        (job.folder / STOP).touch()
    except OSError as exc:
        raise ComputeError(
            f"The stop of job {job_id} cannot be noted in {job.folder}: {exc.strerror or exc}.",
            hint="Check the owner and mode of the state directory.",
        ) from exc


def write(folder: Path, name: str, value: msgspec.Struct) -> None:
    """Replace one of a job's files whole; a reader sees the old or the new one."""
    aside = folder / f".{name}"
    aside.write_bytes(msgspec.json.encode(value))
    aside.replace(folder / name)


def empty_result(folder: Path) -> Path:
    """Return the empty folder of a job's result tables; what an earlier try left is removed."""
    out = folder / RESULT
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir()
    (folder / ANSWER).unlink(missing_ok=True)
    return out


def drop(config: TrimtabConfig, job_id: str) -> None:
    """Remove an ended job with its results.

    Raises:
        UnknownNameError: There is none of that name.
        InputError: It has not ended.
    """
    job = find(config, job_id)
    if not job.is_ended:
        raise InputError(f"Job {job_id} is {job.state}.", hint="Stop it first.")
    _remove(job.folder)


def drop_old(config: TrimtabConfig, now: datetime) -> list[str]:
    """Remove ended jobs that are too many or too old; return their names."""
    ended = [job for job in listed(config) if job.is_ended]
    oldest = _stamp((now - MAX_AGE).astimezone(UTC))
    gone = [job for rank, job in enumerate(ended) if rank >= MAX_JOBS or job.id < oldest]
    for job in gone:
        _remove(job.folder)
    return [job.id for job in gone]


def _remove(folder: Path) -> None:
    """Take the folder out of sight at once, then remove it."""
    aside = folder.with_name(f".gone-{folder.name}")
    with contextlib.suppress(OSError):
        folder.rename(aside)
    shutil.rmtree(aside, ignore_errors=True)


def _names(config: TrimtabConfig) -> Sequence[str]:
    try:
        found = [path.name for path in jobs_dir(config).iterdir() if path.is_dir()]
    except OSError:  # nobody ever asked for one
        return []
    return sorted(name for name in found if _ID.match(name))


def _read(folder: Path) -> Job:
    request, problem = _decoded(folder / REQUEST, Request)
    status, damaged = _decoded(folder / STATUS, Status)
    is_stopping = (folder / STOP).exists()
    answer = None
    if status is None and not damaged:
        status = Status(state="stopped" if is_stopping else "queued")
    elif status is None:
        status = Status(state="failed", error=_broken(damaged))
    if request is None:
        status = Status(state="failed", error=_broken(problem or f"{folder / REQUEST} is gone."))
    elif status.state == "done":
        answer, damaged = _decoded(folder / ANSWER, Answer)
        if answer is None:
            status = Status(state="failed", error=_broken(damaged or "Its answer is gone."))
    return Job(
        id=folder.name,
        folder=folder,
        request=request,
        status=status,
        answer=answer,
        is_stopping=is_stopping and status.state not in ENDED,
        problem=status.error["message"] if status.error and status.error["code"] == "file" else "",
    )


def _broken(sentence: str) -> dict[str, str]:
    return {"code": "file", "message": sentence, "hint": "Start the job again; drop this one."}


def _decoded(path: Path, kind: type[S]) -> tuple[S | None, str]:
    """Return what a file holds and an empty sentence, or nothing and what is wrong with it."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind), ""
    except FileNotFoundError:
        return None, ""
    except OSError as exc:
        return None, f"{path} cannot be read: {exc.strerror or exc}."
    except (msgspec.MsgspecError, UnicodeDecodeError) as exc:
        return None, f"{path} is damaged: {str(exc).partition(chr(10))[0]}."
