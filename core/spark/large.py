"""Questions to a fleet some of whose clusters are too large for one task."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import SparkSession

from core.errors import OpsError
from core.progress import JobStoppedError, Progress
from core.snapshot.store import load_manifest
from core.spark.fleet import (
    Answers,
    FleetRequest,
    InDirectory,
    Source,
    answer_on_spark,
    gathered,
    problem_of,
)
from core.spark.pulsar.large.answers import spread_by_broker

LargeAnswer = Callable[[SparkSession, Progress], Mapping[str, pa.Table]]

_SPREAD_OF: Final[Mapping[str, Callable[[Path, FleetRequest[Any]], LargeAnswer | None]]] = {
    "pulsar": spread_by_broker,
}
"""By the kind of the snapshot: what spreads a request over tasks. An operation that cannot be
spread stays with one task."""


def answer_fleet(
    spark: SparkSession,
    sources: Mapping[str, Source],
    request: FleetRequest[Any],
    progress: Progress,
) -> Answers:
    """Answer for all clusters: small ones by a task each, large ones by their brokers if possible.

    Args:
        spark: Session; its executors must be able to read the sources.
        sources: By cluster name.
        request: The request.
        progress: Receives the tasks done.
    Raises:
        JobStoppedError: A person stopped it.
        ComputeError: Spark failed.
    """
    spread = {name: _spread_over(source, request) for name, source in sources.items()}
    small = {name: source for name, source in sources.items() if spread[name] is None}
    found = (
        answer_on_spark(spark, small, request, progress) if small else gathered(request.tables, [])
    )
    parts: list[tuple[str, Mapping[str, pa.Table]]] = []
    for name, answer in sorted(spread.items()):
        if answer is not None:
            parts.append((name, _answered(partial(answer, spark, progress))))
    more = gathered(request.tables, parts)
    whole = {key: pa.concat_tables([found[key], more[key]]) for key in found}
    return {key: _by_cluster(table) for key, table in whole.items()}


def _spread_over(source: Source, request: FleetRequest[Any]) -> LargeAnswer | None:
    """Return the distributed operation of a cluster too large for one task, or ``None``."""
    if not isinstance(source, InDirectory) or not Path(source.path).is_dir():
        return None
    directory = Path(source.path)
    spread = _SPREAD_OF.get(load_manifest(directory)[1].kind)
    return None if spread is None else spread(directory, request)


def _answered(answer: Callable[[], Mapping[str, pa.Table]]) -> Mapping[str, pa.Table]:
    try:
        return answer()
    except JobStoppedError:
        raise
    except OpsError as exc:
        return problem_of(exc)


def _by_cluster(table: pa.Table) -> pa.Table:
    """Sort by cluster; rows of one cluster keep their order."""
    place = pa.array(range(table.num_rows), pa.int64())
    keys = pa.table({"cluster": table["cluster"], "place": place})
    return table.take(keys.sort_by([("cluster", "ascending"), ("place", "ascending")])["place"])
