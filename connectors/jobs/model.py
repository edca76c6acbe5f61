"""What a job is: a name, its scope and request, and the function that runs it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from pydantic import BaseModel

from connectors.config.model import TrimtabConfig
from core.access import Role
from core.progress import Progress
from core.request import Request, schema_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from core.history.store.store import HistoryStore


@dataclass(frozen=True, kw_only=True)
class JobContext:
    """Context of a job.

    Attributes:
        config: Clusters, state directory, history, Spark.
        out: Empty directory for its result tables, ``<name>.parquet``.
        progress: Called after each part; raises when the job must stop.
        spark: Returns the process's one session, made at the first call, which takes seconds.
        history: Returns the history store of the configuration.
    """

    config: TrimtabConfig
    out: Path
    progress: Progress
    spark: Callable[[], SparkSession]
    history: Callable[[], HistoryStore]


@dataclass(frozen=True, kw_only=True)
class JobAnswer:
    """Result of a job.

    Attributes:
        sentence: The answer in words, with numbers.
        tables: What each result table in ``out`` holds, by its name, in one sentence.
        facts: Figures that a page shows next to the tables; JSON values only.
    """

    sentence: str
    tables: Mapping[str, str]
    facts: Mapping[str, Any]


@dataclass(frozen=True)
class ScopedRequest:
    """A request and its scope: clusters, time, engine."""

    scope: Any
    request: Any

    def model_dump(self, **how: Any) -> dict[str, Any]:
        """Return the flat JSON of both."""
        return {**self.scope.model_dump(**how), **msgspec.to_builtins(self.request)}


@dataclass(frozen=True, kw_only=True)
class JobKind:
    """One kind of job.

    Attributes:
        name: ``backtest``, ``trends`` ...; part of file names.
        title: For people.
        answers: The question that it answers, for people.
        scope: Model of clusters, time and engine; its field ``engine`` is ``local`` or ``spark``
            where it has both.
        request: What is computed on each cluster. A job's JSON has the fields of both.
        system: Of the clusters that it is about; ``None`` for all.
        run: Does it; writes result tables as Parquet.
        role: That a person needs on its clusters.
    """

    name: str
    title: str
    answers: str
    scope: type[BaseModel]
    run: Callable[[JobContext, Any], JobAnswer]
    system: str | None = None
    request: type[Request] | None = None
    role: Role = "operator"

    def schema(self) -> dict[str, Any]:
        """Return the JSON schema of all that it takes."""
        schema = self.scope.model_json_schema(by_alias=True)
        if self.request is not None:
            schema["properties"] |= schema_of(self.request)["properties"]
        return schema
