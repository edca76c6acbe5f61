"""The parts of an operation: a request, how clusters of each system answer it, and the answer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, Generic, Self, TypeVar

import msgspec
import pyarrow as pa

from core.errors import InputError, OpsError
from core.progress import Progress
from core.request import Request
from core.table import Column, Table

if TYPE_CHECKING:
    from datetime import datetime

    from core.facts import Assumed
    from core.findings.starts import Spans
    from core.snapshot.store import Selection

R = TypeVar("R", bound=Request)
A = TypeVar("A", bound="Answer")
MAX_ROWS: Final = 20


class Prose(str):
    """A line that wraps on a terminal, whatever it ends with."""

    __slots__ = ()


class Aged(str):
    """A line with ``{age}``: the age of the snapshot, such as ``taken 3 min ago``."""

    __slots__ = ()


class Aside(str):
    """A line about the input, for standard error."""

    __slots__ = ()


@dataclass(frozen=True)
class Listing:
    """Rows of a table in the text of an answer.

    Attributes:
        rows: The table.
        columns: The columns that are shown.
        spare: The columns to omit first on a narrow terminal.
        most: Rows that are shown.
        rest: Where all rows are; empty: the text names no rest.
    """

    rows: pa.Table
    columns: Mapping[str, Column]
    spare: tuple[str, ...] = ()
    most: int = MAX_ROWS
    rest: str = "--json lists all."


@dataclass(frozen=True)
class Cells:
    """Rows of an answer that is no table, as they are shown.

    Attributes:
        head: Headings.
        rows: Texts by row.
        rest: Number of rows that are not shown.
        wide: Headings of the columns for which a terminal has no room.
    """

    head: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    rest: int = 0
    wide: tuple[str, ...] = ()


Line = str | Listing | Cells


class Answer:
    """Base of every answer: a frozen dataclass whose fields are the keys of its JSON, in order."""

    def body(self) -> Mapping[str, Any]:
        """Return the JSON object; tables and dataclasses in it are written by :func:`plain`."""
        return {one.name: getattr(self, one.name) for one in fields(self)}  # type: ignore[arg-type]

    def text(self, request: Any) -> Iterable[Line]:
        """Return the text for people, line by line.

        Args:
            request: The request that it answers.
        """
        raise NotImplementedError

    def with_words(self, more: str) -> Self:
        """Return the answer with further words of its command lines, such as the configuration."""
        del more
        return self

    def dated(self, spans: Spans | None, moment: datetime) -> Self:
        """Return the answer with the time since when its findings hold, where it has any.

        Args:
            spans: Stored spans of the cluster's findings, if any.
            moment: Time of the snapshot.
        """
        del spans, moment
        return self

    @property
    def tables(self) -> Mapping[str, pa.Table]:
        """The tables by name."""
        return {name: one for name, one in self.body().items() if isinstance(one, pa.Table)}

    @property
    def problems(self) -> tuple[OpsError, ...]:
        """The parts without an answer, with the reason of each."""
        return ()

    @property
    def warnings(self) -> tuple[str, ...]:
        """Parts of the request that were ignored, with the reason."""
        return ()


@dataclass(frozen=True, eq=False)
class Rows(Answer):
    """An answer that is tables and nothing else.

    Attributes:
        rows: The tables by name.
    """

    rows: Mapping[str, pa.Table]

    def body(self) -> Mapping[str, Any]:
        """Return the JSON object: a list of rows per table."""
        return self.rows


def plain(answer: Answer) -> dict[str, Any]:
    """Return the JSON values of an answer, its warnings last."""
    values: dict[str, Any] = msgspec.to_builtins(dict(answer.body()), enc_hook=_plain)
    warnings = [*values.pop("warnings", ()), *answer.warnings]
    return values | ({"warnings": warnings} if warnings else {})


def _plain(value: Any) -> Any:
    if isinstance(value, pa.Table):
        return value.to_pylist()
    if isinstance(value, OpsError):
        return value.message
    raise NotImplementedError


Tables = Mapping[str, pa.Table]


@dataclass(frozen=True)
class JobSummary:
    """Result of a job over all clusters.

    Attributes:
        sentence: The answer in words.
        figures: Shown next to the tables; JSON values only.
        tables: Further result tables, over all clusters.
    """

    sentence: str
    figures: Mapping[str, Any]
    tables: Tables = field(default_factory=dict)


@dataclass(frozen=True)
class CountedSummary:
    """A summary with the number of clusters that were answered for.

    Attributes:
        first: Name of the table with a row of each such cluster.
        words: Returns labels with their numbers: ``plans: 6; moves: 12``.
    """

    first: str
    words: Callable[[Tables], str]

    def __call__(self, found: Tables) -> JobSummary:
        """Return the summary over the tables of all clusters."""
        answered = len(set(found[self.first]["cluster"].to_pylist()))
        figures = {"clusters": answered, "failed": found["problems"].num_rows}
        if not answered:
            return JobSummary("No result.", figures)
        return JobSummary(f"Clusters: {answered:,}; {self.words(found)}.", figures)


@dataclass(frozen=True, kw_only=True)
class Job:
    """An operation as a job on many clusters; their tables are put together.

    Attributes:
        title: For people.
        question: The question that it answers, for people.
        tables: Content of each result table, in one sentence.
        summary: Returns the summary over the tables of all clusters.
        kind: Name of the kind of job; empty: that of the operation.
        part: Noun of a part that may lack an answer, see :attr:`Answer.problems`.
        schemas: Schemas of result tables that only files have.
    """

    title: str
    question: str
    tables: Mapping[str, str]
    summary: Callable[[Tables], JobSummary]
    kind: str = ""
    part: str = "part"
    schemas: Mapping[str, pa.Schema] = field(default_factory=dict)


Spread = Callable[[Any, str, "Assumed", Any, Progress], Any]
"""Answers for one snapshot directory with its bundles spread over Spark: called with the session,
the directory, the assumptions, the request and the progress."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Operation(Generic[R, A]):
    """One operation; it only reads.

    Attributes:
        name: Of the command, the route and, unless it names another, the job.
        module: Where it is declared; it is pickled by that.
        help: Of the command: a summary, and after a blank line the details.
        request: The request.
        answers: The function of each system, of the facts, the request and the progress.
        columns: The columns of the result tables.
        is_timed: Whether its JSON ends with the time that it took.
        is_many: Whether its command takes several clusters.
        can_assume: Whether settings and a release can be assumed.
        reads_earlier: By system whose answers need saved snapshots before the one in question:
            which of them.
        job: The job; ``None``: none.
        spread: By system, ``module:function`` of the :data:`Spread` for a cluster that no task
            should hold.
    """

    name: str
    module: str
    help: str
    request: type[R]
    answers: Mapping[str, Callable[[Any, R, Progress], A]]
    columns: Mapping[str, Table] = field(default_factory=dict)
    is_timed: bool = True
    is_many: bool = False
    can_assume: bool = False
    reads_earlier: Mapping[str, Selection] = field(default_factory=dict)
    job: Job | None = None
    spread: Mapping[str, str] = field(default_factory=dict)

    def __reduce__(self) -> tuple[Callable[[str], Operation[Any, Any]], tuple[str]]:
        return operation_in, (self.module,)

    def answer(self, facts: Any, request: R, progress: Progress) -> A:
        """Return the answer of one cluster.

        Args:
            facts: The facts of its system, from one snapshot.
            request: The request.
            progress: Called after each part.
        Raises:
            InputError: Clusters of its system have no answer.
            OpsError: It cannot be answered for this cluster.
        """
        manifest = facts.snapshot.manifest
        self.check_kind(manifest.cluster, manifest.kind)
        return self.answers[manifest.kind](facts, request, progress)

    def check_kind(self, cluster: str, kind: str) -> None:
        """Refuse a cluster whose system has no answer.

        Args:
            cluster: Its name.
            kind: Its system.
        Raises:
            InputError: Its system has no answer.
        """
        if kind not in self.answers:
            raise InputError(
                f"{cluster} is of system {kind!r}, which this operation does not support.",
                hint=f"Specify clusters of {' or '.join(map(str.capitalize, self.answers))}.",
            )

    @property
    def job_kind(self) -> str:
        """Name of the kind of job."""
        return (self.job.kind if self.job else "") or self.name

    @property
    def schemas(self) -> Mapping[str, pa.Schema]:
        """Schemas of the result tables."""
        schemas = {} if self.job is None else self.job.schemas
        return {name: one.schema for name, one in self.columns.items()} | dict(schemas)

    def spread_of(self, kind: str) -> Spread | None:
        """Return the function that spreads one cluster of a system over Spark; ``None``: none."""
        place = self.spread.get(kind)
        if place is None:
            return None
        module, _, name = place.partition(":")
        function: Spread = getattr(import_module(module), name)
        return function


def operation_in(module: str) -> Operation[Any, Any]:
    """Return the operation that a module declares."""
    operation: Operation[Any, Any] = import_module(module).OPERATION
    return operation
