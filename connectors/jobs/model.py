"""What a job is: a name, what it may be asked for, and the function that does it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel

from connectors.config import TrimtabConfig
from core.progress import Progress

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from core.history.store import HistoryStore


@dataclass(frozen=True, kw_only=True)
class JobContext:
    """What a job works with.

    Attributes:
        config: Clusters, state directory, history, Spark.
        out: Empty directory for its result tables, ``<name>.parquet``.
        progress: Told after each part; raises when the job shall stop.
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
    """What a job found.

    Attributes:
        sentence: The answer in words, with numbers.
        tables: What each result table in ``out`` holds, by its name, in one sentence.
        facts: Figures that a page shows beside the tables; JSON values only.
    """

    sentence: str
    tables: Mapping[str, str]
    facts: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class JobKind:
    """One kind of job.

    Attributes:
        name: ``backtest``, ``trends`` ...; part of file names.
        title: For people.
        answers: The question that it answers.
        asks: Model of what it may be asked for; validates what a person gave. Its field ``engine``
            is ``local`` or ``spark`` where it has both.
        system: Of the clusters that it is about, ``pulsar`` or ``pegasus``; ``None``: of both.
        run: Does it; writes result tables as Parquet.
    """

    name: str
    title: str
    answers: str
    asks: type[BaseModel]
    run: Callable[[JobContext, Any], JobAnswer]
    system: Literal["pulsar", "pegasus"] | None = None
