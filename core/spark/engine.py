"""One operation on many clusters: in this process, in processes of this machine, or on Spark.

The same function answers everywhere and the answer itself comes back, so that an engine changes how
long an answer takes, never the answer.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from core.errors import OpsError
from core.facts import NOTHING_ASSUMED, Assumed, facts_of
from core.operations.operation import A, Answer, Operation, R, Spread
from core.progress import JobStoppedError, NoProgress, Progress
from core.snapshot.store import load_manifest
from core.spark.fleet import (
    PROBLEMS,
    Answers,
    InDirectory,
    Parts,
    Source,
    each_on_spark,
    gathered,
    problems_of,
)
from core.spark.pool import in_pool
from core.spark.size import is_large
from core.system import Snapshot

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_ANSWER: Final = "answer"


@dataclass(frozen=True)
class InMemory:
    """A snapshot that travels to the task that answers, with those before it."""

    snapshot: Snapshot
    earlier: Sequence[Snapshot] = ()

    def load(self) -> Snapshot:
        """Return it."""
        return self.snapshot

    def load_earlier(self) -> Sequence[Snapshot]:
        """Return the snapshots before it."""
        return self.earlier


@dataclass(frozen=True)
class Engine:
    """Place where operations run.

    Attributes:
        spark: Session; its executors must be able to read the sources. ``None``: this machine.
        workers: Processes of this machine; 0: one a core, 1: this one.
    """

    spark: SparkSession | None = None
    workers: int = 1

    def map(
        self,
        operation: Operation[R, A],
        sources: Mapping[str, Source],
        request: R,
        progress: Progress,
        assumed: Assumed = NOTHING_ASSUMED,
    ) -> Mapping[str, A | OpsError]:
        """Return the answer of each cluster, or the reason that it has none; sorted by name.

        Args:
            operation: The operation.
            sources: By cluster name.
            request: The request.
            progress: Receives the clusters done.
            assumed: Settings and release instead of the clusters' own.
        Raises:
            JobStoppedError: A person stopped it.
            ComputeError: Spark failed, or a process died.
        """
        one = partial(answered, operation, request, assumed)
        if self.spark is None:
            return in_pool(one, dict(sorted(sources.items())), progress, self.workers)
        spread = {
            name: partial(function, self.spark, source.path, assumed, request, progress)
            for name, source in sources.items()
            if isinstance(source, InDirectory) and (function := _spread(operation, source))
        }
        small = {name: source for name, source in sources.items() if name not in spread}

        def pickled(name: str) -> Mapping[str, pa.Table]:
            return {_ANSWER: pa.table({_ANSWER: [pickle.dumps(one(small[name]))]})}

        tasks = each_on_spark(self.spark, small, pickled, progress) if small else []
        packed = {name: tables[_ANSWER][_ANSWER][0].as_py() for name, tables in tasks}
        answers = {name: pickle.loads(held) for name, held in packed.items()}  # noqa: S301  # our tasks' own
        for name, answer in spread.items():
            answers[name] = _answered(answer)
        return dict(sorted(answers.items()))


def answered(
    operation: Operation[R, A],
    request: R,
    assumed: Assumed,
    source: Source,
    progress: Progress | None = None,
) -> A | OpsError:
    """Return the answer of the cluster of a source, or the reason that it has none."""

    def answer() -> A:
        facts = facts_of(source.load(), assumed, source.load_earlier())
        return operation.answer(facts, request, progress or NoProgress())

    return _answered(answer)


def _answered(answer: Callable[[], A]) -> A | OpsError:
    try:
        return answer()
    except JobStoppedError:
        raise
    except OpsError as exc:
        return exc


def is_spread(operation: Operation[Any, Any], source: Source) -> bool:
    """Return whether Spark spreads the cluster of a source over tasks: none should hold it."""
    return _spread(operation, source) is not None


def _spread(operation: Operation[Any, Any], source: Source) -> Spread | None:
    if not isinstance(source, InDirectory) or not Path(source.path).is_dir():
        return None
    directory = Path(source.path)
    spread = operation.spread_of(load_manifest(directory)[1].kind)
    return spread if spread is not None and is_large(directory) else None


def tables_of(operation: Operation[Any, Any], found: Mapping[str, Answer | OpsError]) -> Answers:
    """Return the tables of all clusters together, with the table ``problems``."""
    parts: Parts = []
    for name, one in found.items():
        problems = [one] if isinstance(one, OpsError) else one.problems
        tables = {} if isinstance(one, OpsError) else one.tables
        parts.append((name, {**tables, PROBLEMS: problems_of(problems)}))
    return gathered(operation.schemas, parts)
