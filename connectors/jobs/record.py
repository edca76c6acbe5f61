"""A job as the queue stores it: its request, its status, its answer."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

import msgspec

from core.errors import ComputeError, UnknownNameError

State = Literal["queued", "running", "done", "failed", "stopped"]
ENDED: Final[frozenset[State]] = frozenset({"done", "failed", "stopped"})
RESULT: Final = "result"
ANSWER_FILE: Final = "answer.msgpack"
"""In the folder of the result tables: the whole answer of an operation about one snapshot."""
_TABLE: Final = re.compile(r"[A-Za-z0-9_-]{1,64}\Z")


class JobRequest(msgspec.Struct, kw_only=True, frozen=True):
    """Request of a job, with actor and time.

    Attributes:
        kind: Name of the kind of job.
        parameters: JSON that the kind's model validates.
        actor: Who requested it.
        requested_at: ISO 8601, UTC.
    """

    kind: str
    parameters: dict[str, Any]
    actor: str
    requested_at: str


class Status(msgspec.Struct, kw_only=True, frozen=True):
    """Progress of a job. Times are ISO 8601, UTC.

    Attributes:
        state: ``queued``, ``running`` or how it ended.
        done: Parts that are done.
        total: Parts in all; 0 if unknown.
        activity: What is computed now, in a few words.
        started_at: When a server claimed it.
        updated_at: When this was written.
        ended_at: When it ended.
        rate_per_s: Parts per second so far.
        eta_s: Seconds that are left at that rate.
        error: ``{"code", "message", "hint"}`` of the failure.
    """

    state: State = "queued"
    done: int = 0
    total: int = 0
    activity: str = ""
    started_at: str = ""
    updated_at: str = ""
    ended_at: str | None = None
    rate_per_s: float | None = None
    eta_s: float | None = None
    error: dict[str, str] | None = None


class Answer(msgspec.Struct, kw_only=True, frozen=True):
    """Result of a job; see :class:`connectors.jobs.model.JobAnswer`."""

    sentence: str
    tables: dict[str, str]
    facts: dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Job:
    """A job as it was read.

    Attributes:
        id: Its name; names sort by time.
        folder: Directory of its result tables.
        request: ``None`` if it cannot be read; ``problem`` says why.
        status: Its progress.
        answer: What it found, once it is done.
        is_stopping: Whether a person requested its end and it has not ended yet.
        problem: What is damaged, in one sentence; empty if nothing is.
    """

    id: str
    folder: Path
    request: JobRequest | None
    status: Status
    answer: Answer | None = None
    is_stopping: bool = False
    problem: str = ""

    @property
    def state(self) -> State:
        """``queued``, ``running`` or how it ended."""
        return self.status.state

    @property
    def is_ended(self) -> bool:
        """Whether it is final."""
        return self.state in ENDED

    @property
    def kind(self) -> str:
        """Name of its kind; empty if the request cannot be read."""
        return self.request.kind if self.request else ""

    @property
    def answer_file(self) -> Path:
        """Place of the whole answer, see :class:`core.operations.sent.SentAnswer`."""
        return self.folder / RESULT / ANSWER_FILE

    def table(self, name: str) -> Path:
        """Return the location of a result table: a Parquet file, or a folder of them.

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
                f"The result table {name} of job {self.id} no longer exists.",
                hint="Start the job again.",
            )
        return path
