"""``trimtab drill`` and ``trimtab topics``: failures of brokers and nodes, topics by bundle."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import pyarrow as pa
import typer

from core.pegasus.snapshot import PegasusFacts
from core.planning.drill.pegasus import drill_pegasus
from core.planning.drill.pulsar import Drill
from core.planning.drill.pulsar import drill as drill_cluster
from core.planning.drill.request import DrillRequest
from core.planning.topics.distribution import TopicLoads, place_topics
from core.planning.topics.files import parts_of
from core.planning.topics.ring import TopicRing
from core.pulsar.settings import EffectiveSettings
from core.snapshot import PulsarSnapshot
from core.snapshot.store import load_manifest, load_snapshot
from core.spark.pulsar.large.size import is_large
from core.units import format_bytes_per_s, format_ratio
from dashboard.cli.config import read_config
from dashboard.cli.engine import ProgressLine, is_spark, spark_session, write_tables
from dashboard.cli.options import Config, EngineName, Json, OutTables, Release, Settings, Source
from dashboard.cli.output import Answer, emit, say, table
from dashboard.cli.pegasus.live import pegasus_snapshot
from dashboard.cli.requests import takes
from dashboard.cli.snapshots import Assumptions
from dashboard.cli.source import pulsar_snapshot

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

app = typer.Typer()

_MAX_SHOWN: Final = 20


@app.command()
@takes(DrillRequest)
def drill(
    request: DrillRequest,
    source: Source,
    out: OutTables = None,
    settings: Settings = None,
    release: Release = None,
    engine: EngineName = "local",
    config: Config = None,
    as_json: Json = False,
) -> int:
    """Simulate the failure of each broker, failure domain or node: hot brokers, lost capacity."""
    assumptions = Assumptions.of(None, settings, release)
    on_spark = is_spark(engine)
    if _is_pegasus(source, config):
        return _drill_pegasus(source, request, out, config, on_spark=on_spark, as_json=as_json)
    if on_spark:
        done, elapsed_ms = _drill_on_spark(source, request, assumptions, config)
    else:
        snapshot, effective = _snapshot_and_settings(source, config, assumptions)
        started = time.perf_counter()
        done = drill_cluster(snapshot, effective, request, ProgressLine())
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
    """Read what is drilled."""
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

        cluster = LargeCluster.of(_session(config), Path(source), ProgressLine())
        settings = assumptions.settings_of(cluster.skeleton)
        started = time.perf_counter()
        done = large_drill(cluster, settings, request)
    else:
        from core.spark.pulsar.jobs.drill import drill_on_spark  # noqa: PLC0415  # the same

        snapshot, settings = _snapshot_and_settings(source, config, assumptions)
        spark = _session(config)
        started = time.perf_counter()
        done = drill_on_spark(spark, snapshot, settings, request, ProgressLine())
    return done, (time.perf_counter() - started) * 1000


def _session(config: Path | None) -> SparkSession:
    return spark_session(read_config(config))


def _show_drill(done: Drill, request: DrillRequest) -> None:
    say(done.sentence)
    say()
    table(
        (
            "lost",
            "bundles",
            "unassigned",
            "clients",
            "traffic",
            "newly hot",
            "rises most",
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
    )
    if done.failures.num_rows > _MAX_SHOWN:
        say(f"... and {done.failures.num_rows - _MAX_SHOWN:,} more; --json or --out has them all.")
    for one in done.skipped[:_MAX_SHOWN]:
        say(f"Not simulated: {one.message} {one.hint}")
    tight = [row for row in done.groups.to_pylist() if not row["has_room"]]
    for row in tight[:_MAX_SHOWN]:
        say(
            f"No room: without {row['failure']} {row['group']} has {row['brokers_left']} of "
            f"{row['brokers_before']} brokers, {row['unassigned']:,} of {row['bundles']:,} bundles "
            f"find none; the coolest is at {format_ratio(row['coolest_usage'])}."
        )
    say(f"Hot is a usage of {format_ratio(request.hot_threshold)} and more.")


def _is_pegasus(source: str, config: Path | None) -> bool:
    """Whether a snapshot, or a configured cluster, is of Pegasus; what is neither is not."""
    if Path(source).is_dir():
        return load_manifest(Path(source))[1].kind == "pegasus"
    loaded = read_config(config)
    return source in [one.name for one in loaded.clusters if one.kind == "pegasus"]


def _drill_pegasus(
    source: str,
    request: DrillRequest,
    out: Path | None,
    config: Path | None,
    *,
    on_spark: bool,
    as_json: bool,
) -> int:
    facts = PegasusFacts(pegasus_snapshot(source, config))
    spark = _session(config) if on_spark else None
    started = time.perf_counter()
    if spark is not None:
        from core.spark.pegasus.jobs.drill import drill_pegasus_on_spark  # noqa: PLC0415  # takes seconds

        done = drill_pegasus_on_spark(spark, facts, ProgressLine(), only=request.only)
    else:
        done = drill_pegasus(facts, ProgressLine(), only=request.only)
    elapsed_ms = (time.perf_counter() - started) * 1000
    write_tables(out, {"nodes": done.failures})
    body: dict[str, Any] = {
        "answer": done.sentence,
        "nodes": done.failures.to_pylist(),
        "elapsed_ms": round(elapsed_ms, 3),
    }

    def show() -> None:
        say(done.sentence)
        say()
        table(
            ("lost", "primaries", "no primary", "no writes", "one replica", "busiest", "over mean"),
            [
                (
                    row["node"],
                    f"{row['primaries']:,}",
                    f"{row['without_primary']:,}",
                    f"{row['without_writes']:,}",
                    f"{row['single']:,}",
                    row["busiest"] or "no broker",
                    format_ratio(row["deviation_after"]),
                )
                for row in done.failures.slice(0, _MAX_SHOWN).to_pylist()
            ],
        )
        if done.failures.num_rows > _MAX_SHOWN:
            say(f"... and {done.failures.num_rows - _MAX_SHOWN:,} more; --json has them all.")

    return emit(Answer(body, show), as_json=as_json)


@app.command()
def topics(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Topics: .parquet, .csv or .jsonl.")],
    directory: Annotated[
        Path, typer.Option("--snapshot", metavar="DIR", help="Snapshot of the cluster.")
    ],
    top: Annotated[int, typer.Option(min=1, help="Number of bundles and topics to show.")] = 20,
    out: OutTables = None,
    engine: EngineName = "local",
    config: Config = None,
    as_json: Json = False,
) -> int:
    """Map topics of a file to bundles and brokers, and find crowded partitions."""
    on_spark = is_spark(engine)
    parts = parts_of(file.absolute())
    ring = TopicRing.of(load_snapshot(directory))
    spark = _session(config) if on_spark else None
    started = time.perf_counter()
    if spark is not None:
        from core.spark.jobs.topics import place_topics_on_spark  # noqa: PLC0415  # takes seconds

        done = place_topics_on_spark(spark, ring, parts, ProgressLine())
    else:
        done = place_topics(ring, parts, ProgressLine())
    elapsed_ms = (time.perf_counter() - started) * 1000
    names = ("bundles", "brokers", "concentrated", "spread")
    tables: dict[str, pa.Table] = {name: getattr(done, name) for name in names}
    write_tables(out, tables)
    whole = ("brokers", "spread")
    body = {
        "answer": done.sentence,
        "topics": done.topics,
        "unmatched": done.unmatched,
        "invalid": done.invalid,
        **{
            name: (one if name in whole else one.slice(0, top)).to_pylist()
            for name, one in tables.items()
        },
        "elapsed_ms": round(elapsed_ms, 3),
    }
    return emit(Answer(body, lambda: _show_topics(done, top)), as_json=as_json)


def _show_topics(done: TopicLoads, top: int) -> None:
    say(done.sentence)
    say()
    table(
        ("bundle", "owner", "topics", "traffic", "of its namespace"),
        [
            (
                row["bundle"],
                row["owner"] or "no broker",
                f"{row['topics']:,}",
                format_bytes_per_s(row["msg_throughput_in"] + row["msg_throughput_out"]),
                format_ratio(row["namespace_share"]),
            )
            for row in done.bundles.slice(0, top).to_pylist()
        ],
    )
    say()
    table(
        ("broker", "bundles", "topics", "traffic"),
        [
            (
                row["broker"] or "no broker",
                f"{row['bundles']:,}",
                f"{row['topics']:,}",
                format_bytes_per_s(row["msg_throughput_in"] + row["msg_throughput_out"]),
            )
            for row in done.brokers.slice(0, top).to_pylist()
        ],
    )
    concentrated = [
        row for row in done.concentrated.slice(0, top).to_pylist() if row["most_in_one_bundle"] > 1
    ]
    for row in concentrated:
        say(
            f"Crowded: {row['most_in_one_bundle']} of {row['partitions']} partitions of "
            f"{row['topic']} are in {row['bundle']}."
        )
