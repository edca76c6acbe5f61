"""How far Spark is with a request, and how a person stops it."""

from __future__ import annotations

import re
import threading
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, cast

from py4j.protocol import Py4JError  # type: ignore[import-untyped]  # it ships no types
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from core.errors import ComputeError, OpsError
from core.progress import Progress

_EVERY_S: Final = 0.5
_OWN_ERROR: Final = re.compile(r"core\.(?:errors|progress)\.\w+: (.+)")
_PYTHON_ERROR: Final = re.compile(r"^(\w[\w.]*(?:Error|Exception)(?:: .+)?)$", re.MULTILINE)
_GROUP: Final = ("spark.jobGroup.id", "spark.job.description", "spark.job.interruptOnCancel")

Tasks = tuple[int, int]
"""Tasks that are done, and tasks in all as far as Spark knows by now."""


class _SparkWatch(Protocol):
    """One kind of session, for as long as it has work."""

    def tasks(self) -> Tasks: ...

    def cancel(self) -> None: ...

    def end(self) -> None: ...


@contextmanager
def followed(spark: SparkSession, progress: Progress, words: str) -> Iterator[None]:
    """Report how many tasks are done while the block runs, and cancel them when a person stops it.

    Everything that the calling thread runs on Spark inside the block counts. ``progress`` is called
    from another thread, twice a second; after a stop each further question to Spark inside the
    block is cancelled as well.

    Args:
        spark: A session of either kind; Spark Connect tells by itself, else its tracker is read.
        progress: Receives the tasks done; raises when the job shall stop.
        words: What is being done, in a few words.
    Raises:
        JobStoppedError: What ``progress`` raised, in place of what Spark says when it is cancelled.
        ComputeError: Spark failed; the message has the cause that its task gave.
    """
    watch: _SparkWatch = _remote(spark) if is_connect(spark) else _Local.begun(spark, words)
    teller = _ProgressThread(watch, progress, words)
    teller.thread.start()
    try:
        yield
    except (PySparkException, Py4JError) as exc:
        raise ComputeError(
            f"Spark failed while {words}: {_cause(str(exc))}",
            hint="See the Spark log for the stage and the task; the job can be started again.",
        ) from exc
    finally:
        teller.finish()
        watch.end()
        if teller.stopped is not None:
            raise teller.stopped
    done, total = teller.last
    progress.step(max(done, total), max(done, total), words)


def is_connect(spark: SparkSession) -> bool:
    """Return whether the session uses a Spark Connect server."""
    return type(spark).__module__.startswith("pyspark.sql.connect")


def _cause(text: str) -> str:
    """Return the error message of a task, else Python's last or Spark's first line."""
    own = _OWN_ERROR.findall(text)
    found = own or _PYTHON_ERROR.findall(text)
    return str(found[-1] if found else text.strip().partition("\n")[0])


@dataclass(eq=False)
class _ProgressThread:
    """The thread that reports progress during the block."""

    watch: _SparkWatch
    progress: Progress
    words: str
    last: Tasks = (0, 0)
    stopped: OpsError | None = None
    ended: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self.thread = threading.Thread(target=self._run, name="spark progress", daemon=True)

    def _run(self) -> None:
        while not self.ended.wait(_EVERY_S):
            try:
                self._report()
            except (Py4JError, PySparkException):
                return  # the session is gone: the block itself will say so

    def _report(self) -> None:
        if self.stopped is None:
            self.last = self.watch.tasks()
            try:
                self.progress.step(*self.last, self.words)
            except OpsError as stopped:
                self.stopped = stopped
        if self.stopped is not None:
            self.watch.cancel()

    def finish(self) -> None:
        self.ended.set()
        self.thread.join()


@dataclass(frozen=True, eq=False)
class _Local:
    """A session whose driver is this process: its jobs form a group."""

    context: Any
    group: str
    before: tuple[str | None, ...]

    @classmethod
    def begun(cls, spark: SparkSession, words: str) -> _Local:
        context, group = spark.sparkContext, f"trimtab-{uuid.uuid4().hex}"
        before = tuple(context.getLocalProperty(name) for name in _GROUP)
        context.setJobGroup(group, words, interruptOnCancel=False)
        return cls(context, group, before)

    def tasks(self) -> Tasks:
        tracker = self.context.statusTracker()
        jobs = map(tracker.getJobInfo, tracker.getJobIdsForGroup(self.group))
        numbers = {number for job in jobs if job is not None for number in job.stageIds}
        stages = [stage for stage in map(tracker.getStageInfo, numbers) if stage is not None]
        return (
            sum(stage.numCompletedTasks for stage in stages),
            sum(stage.numTasks for stage in stages),
        )

    def cancel(self) -> None:
        self.context.cancelJobGroup(self.group)

    def end(self) -> None:
        for name, value in zip(_GROUP, self.before, strict=True):
            self.context.setLocalProperty(name, value)


@dataclass(eq=False)
class _Remote:
    """A session of Spark Connect: its operations have a tag, and tell of their stages."""

    spark: SparkSession
    tag: str
    by_operation: dict[str, Tasks] = field(default_factory=dict)

    def on_progress(
        self,
        stages: Iterable[Any] | None,
        inflight_tasks: int,  # noqa: ARG002  # the handler's arguments go by name
        operation_id: str | None,
        done: bool,  # noqa: ARG002, FBT001  # the same
    ) -> None:
        listed = list(stages or ())
        if listed:
            self.by_operation[operation_id or ""] = (
                sum(stage.num_completed_tasks for stage in listed),
                sum(stage.num_tasks for stage in listed),
            )

    def tasks(self) -> Tasks:
        counts = list(self.by_operation.values())
        return sum(done for done, _ in counts), sum(total for _, total in counts)

    def cancel(self) -> None:
        self.spark.interruptTag(self.tag)

    def end(self) -> None:
        self.spark.removeTag(self.tag)
        self.spark.removeProgressHandler(cast("Any", self.on_progress))


def _remote(spark: SparkSession) -> _Remote:
    watch = _Remote(spark, f"trimtab-{uuid.uuid4().hex}")
    spark.addTag(watch.tag)
    spark.registerProgressHandler(cast("Any", watch.on_progress))
    return watch
