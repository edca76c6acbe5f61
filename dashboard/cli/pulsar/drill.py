"""``trimtab drill`` of a Pulsar cluster: failures of brokers and of failure domains."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from core.planning.drill.pulsar import Drill
from core.planning.drill.pulsar import drill as drill_cluster
from core.planning.drill.request import DrillRequest
from core.pulsar.settings import EffectiveSettings
from core.snapshot import PulsarSnapshot
from core.spark.pulsar.large.size import is_large
from core.units import format_bytes_per_s, format_ratio
from dashboard.cli.config import read_config
from dashboard.cli.engine import spark_session, write_tables
from dashboard.cli.output import Answer, emit, print_line, table
from dashboard.cli.progress import STATUS
from dashboard.cli.pulsar.snapshots import Assumptions
from dashboard.cli.pulsar.source import pulsar_snapshot

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_MAX_SHOWN: Final = 20


def drill(
    request: DrillRequest,
    source: str,
    settings: Sequence[str] | None,
    release: str | None,
    out: Path | None,
    config: Path | None,
    *,
    on_spark: bool,
    as_json: bool,
) -> int:
    """Simulate each failure and show which brokers get hot.

    Args:
        request: Which failures.
        source: Snapshot directory or cluster.
        settings: To assume, as ``KEY=VALUE``.
        release: To assume.
        out: Folder for the result tables.
        config: What ``--config`` says.
        on_spark: Compute on Spark.
        as_json: Print one JSON object.
    """
    assumptions = Assumptions.of(None, settings, release)
    if on_spark:
        done, elapsed_ms = _drill_on_spark(source, request, assumptions, config)
    else:
        snapshot, effective = _snapshot_and_settings(source, config, assumptions)
        started = time.perf_counter()
        done = drill_cluster(snapshot, effective, request, STATUS)
        elapsed_ms = (time.perf_counter() - started) * 1000
    tables = {"failures": done.failures, "hot": done.hot, "groups": done.groups}
    write_tables(out, tables)
    body = {
        "answer": done.sentence,
        "hot_threshold": request.hot_threshold,
        "seed": request.seed,
        **{name: one.to_pylist() for name, one in tables.items()},
        "skipped": [one.message for one in done.skipped],
        "elapsed_ms": round(elapsed_ms, 3),
    }
    return emit(Answer(body, lambda: _show_drill(done, request)), as_json=as_json)


def _snapshot_and_settings(
    source: str, config: Path | None, assumptions: Assumptions
) -> tuple[PulsarSnapshot, EffectiveSettings]:
    """Return the snapshot and its settings."""
    snapshot = pulsar_snapshot(source, config)
    snapshot.require("brokers", "bundles")
    return snapshot, assumptions.settings_of(snapshot)


def _drill_on_spark(
    source: str, request: DrillRequest, assumptions: Assumptions, config: Path | None
) -> tuple[Drill, float]:
    """Drill on Spark, a large snapshot without loading it; return the drill and its time in ms."""
    if Path(source).is_dir() and is_large(Path(source)):
        from core.spark.pulsar.large.cluster import LargeCluster  # noqa: PLC0415  # seconds, only here
        from core.spark.pulsar.large.drill import large_drill  # noqa: PLC0415  # the same

        cluster = LargeCluster.of(_session(config), Path(source), STATUS)
        settings = assumptions.settings_of(cluster.skeleton)
        started = time.perf_counter()
        done = large_drill(cluster, settings, request)
    else:
        from core.spark.pulsar.jobs.drill import drill_on_spark  # noqa: PLC0415  # the same

        snapshot, settings = _snapshot_and_settings(source, config, assumptions)
        spark = _session(config)
        started = time.perf_counter()
        done = drill_on_spark(spark, snapshot, settings, request, STATUS)
    return done, (time.perf_counter() - started) * 1000


def _session(config: Path | None) -> SparkSession:
    return spark_session(read_config(config))


def _show_drill(done: Drill, request: DrillRequest) -> None:
    print_line(done.sentence)
    print_line()
    table(
        (
            "failure",
            "bundles",
            "unassigned",
            "clients",
            "traffic",
            "newly hot",
            "largest increase",
            "from",
            "to",
        ),
        [
            (
                row["failure"],
                f"{row['bundles']:,}",
                f"{row['unassigned']:,}",
                f"{row['clients']:,}",
                format_bytes_per_s(row["moved_bytes_per_s"]),
                f"{row['newly_hot']}",
                row["pressed"] or "no broker",
                format_ratio(row["pressed_before"]),
                format_ratio(row["pressed_after"]),
            )
            for row in done.failures.slice(0, _MAX_SHOWN).to_pylist()
        ],
        spare=("clients", "traffic", "unassigned"),
    )
    if done.failures.num_rows > _MAX_SHOWN:
        print_line(
            f"... and {done.failures.num_rows - _MAX_SHOWN:,} more; --json or --out lists all."
        )
    for one in done.skipped[:_MAX_SHOWN]:
        print_line(f"Not simulated: {one.message} {one.hint}")
    tight = [row for row in done.groups.to_pylist() if not row["has_room"]]
    for row in tight[:_MAX_SHOWN]:
        print_line(
            f"Insufficient capacity: without {row['failure']}, {row['group']} has "
            f"{row['brokers_left']} of {row['brokers_before']} brokers, {row['unassigned']:,} of "
            f"{row['bundles']:,} bundles cannot be placed; the least loaded broker is at "
            f"{format_ratio(row['coolest_usage'])}."
        )
    print_line(f"Hot threshold: usage of {format_ratio(request.hot_threshold)}.")
