"""``trimtab topics``: topics of a file by bundle and broker."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import pyarrow as pa
import typer

from core.planning.topics.distribution import TopicLoads, place_topics
from core.planning.topics.files import parts_of
from core.planning.topics.ring import TopicRing
from core.snapshot.store import load_snapshot
from core.units import format_bytes_per_s, format_ratio
from dashboard.cli.config import read_config
from dashboard.cli.engine import is_spark, spark_session, write_tables
from dashboard.cli.options import Config, EngineName, Json, OutTables
from dashboard.cli.output import Answer, emit, print_line, table
from dashboard.cli.progress import STATUS

app = typer.Typer()


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
    """Map topics of a file to bundles and brokers.

    Also finds crowded partitions.
    """
    on_spark = is_spark(engine)
    parts = parts_of(file.absolute())
    ring = TopicRing.of(load_snapshot(directory))
    spark = spark_session(read_config(config)) if on_spark else None
    started = time.perf_counter()
    if spark is not None:
        from core.spark.jobs.topics import place_topics_on_spark  # noqa: PLC0415  # takes seconds

        done = place_topics_on_spark(spark, ring, parts, STATUS)
    else:
        done = place_topics(ring, parts, STATUS)
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
    print_line(done.sentence)
    print_line()
    table(
        ("bundle", "owner", "topics", "traffic", "namespace share"),
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
    print_line()
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
        print_line(
            f"Crowded: {row['most_in_one_bundle']} of {row['partitions']} partitions of "
            f"{row['topic']} are in {row['bundle']}."
        )
