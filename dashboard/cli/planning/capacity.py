"""What ``trimtab drill`` and ``trimtab topics`` do."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from core.errors import InputError, UnknownNameError
from core.pegasus.snapshot import PegasusFacts
from core.planning.drill import Drill
from core.planning.drill import drill as play
from core.planning.drill_pegasus import drill_pegasus
from core.planning.drill_request import DrillRequest
from core.planning.topic_files import parts_of
from core.planning.topic_ring import TopicRing
from core.planning.topics import TopicLoads, place_topics
from core.pulsar.settings import EffectiveSettings
from core.snapshot import PulsarSnapshot
from core.snapshot.store import load_manifest, load_snapshot
from core.spark.large.size import is_large
from core.units import format_bytes_per_s, format_ratio
from dashboard import services
from dashboard.cli.output import Answer, UsageFaultError, emit, note, say, table
from dashboard.cli.pegasus.live import pegasus_snapshot
from dashboard.cli.snapshots import Assumptions
from dashboard.cli.source import pulsar_snapshot
from dashboard.services import spark as services_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ENGINES: Final = ("local", "spark")
_MOST_SHOWN: Final = 20
_EVERY_S: Final = 0.5


@dataclass(frozen=True)
class Where:
    """Where it is computed, and where whole tables go.

    Attributes:
        engine: ``local`` or ``spark``.
        config: Configuration file, for Spark.
        out: Folder; ``None``: none.
    """

    engine: str
    config: Path | None
    out: Path | None

    @property
    def is_spark(self) -> bool:
        """Whether Spark is asked for.

        Raises:
            UsageFaultError: There is no such engine.
        """
        if self.engine not in ENGINES:
            known = UnknownNameError.of("engine", self.engine, ENGINES)
            raise UsageFaultError(known.message, hint=known.hint)
        return self.engine == "spark"

    def session(self) -> SparkSession:
        """Start Spark."""
        note("Starting Spark ...")
        return services_spark.session(services.load_config(services.config_path(self.config)))


class Line:
    """Progress as one line on a terminal that is written over."""

    def __init__(self) -> None:
        self._shown_at = 0.0

    def step(self, done: int, total: int, words: str) -> None:
        """Tell how far it is."""
        now = time.monotonic()
        is_last = bool(total) and done >= total
        if sys.stderr.isatty() and (is_last or now - self._shown_at >= _EVERY_S):
            self._shown_at = now
            sys.stderr.write(f"\r{words}: {done:,} of {total:,} " + ("\n" if is_last else ""))
            sys.stderr.flush()


def write_tables(out: Path | None, tables: Mapping[str, pa.Table]) -> None:
    """Write whole tables as ``<name>.parquet``.

    Raises:
        InputError: They cannot be written.
    """
    if out is None:
        return
    try:
        out.mkdir(parents=True, exist_ok=True)
        for name, one in tables.items():
            pq.write_table(one, out / f"{name}.parquet", compression="zstd")
    except OSError as exc:
        raise InputError(
            f"{out} cannot be written: {exc.strerror}.", hint="Name another folder."
        ) from exc
    note(f"Whole tables are in {out}.")


def drill(
    source: str, request: DrillRequest, where: Where, assumptions: Assumptions, *, as_json: bool
) -> int:
    """``trimtab drill``."""
    is_spark = where.is_spark
    if _is_pegasus(source, where.config):
        return _drill_pegasus(source, request, where, as_json=as_json)
    if is_spark:
        done, elapsed_ms = _drilled_on_spark(source, request, where, assumptions)
    else:
        snapshot, settings = _drilled(source, where.config, assumptions)
        started = time.perf_counter()
        done = play(snapshot, settings, request, Line())
        elapsed_ms = (time.perf_counter() - started) * 1000
    tables = {"failures": done.failures, "hot": done.hot, "groups": done.groups}
    write_tables(where.out, tables)
    body = {
        "answer": done.sentence,
        "hot_line": request.hot_line,
        "seed": request.seed,
        **{name: one.to_pylist() for name, one in tables.items()},
        "left_out": [one.message for one in done.left_out],
        "elapsed_ms": round(elapsed_ms, 3),
    }
    return emit(Answer(body, lambda: _show_drill(done, request)), as_json=as_json)


def _drilled(
    source: str, config: Path | None, assumptions: Assumptions
) -> tuple[PulsarSnapshot, EffectiveSettings]:
    """Read what is drilled."""
    snapshot = pulsar_snapshot(source, config)
    snapshot.require("brokers", "bundles")
    return snapshot, assumptions.settings_of(snapshot)


def _drilled_on_spark(
    source: str, request: DrillRequest, where: Where, assumptions: Assumptions
) -> tuple[Drill, float]:
    """Play it on Spark: a large snapshot stays where it is; return that, and how long it took."""
    if Path(source).is_dir() and is_large(Path(source)):
        from core.spark.large.cluster import LargeCluster  # noqa: PLC0415  # seconds, only here
        from core.spark.large.drill import large_drill  # noqa: PLC0415  # the same

        cluster = LargeCluster.of(where.session(), Path(source), Line())
        settings = assumptions.settings_of(cluster.skeleton)
        started = time.perf_counter()
        done = large_drill(cluster, settings, request)
    else:
        from core.spark.jobs.drill import drill_on_spark  # noqa: PLC0415  # the same

        snapshot, settings = _drilled(source, where.config, assumptions)
        spark = where.session()
        started = time.perf_counter()
        done = drill_on_spark(spark, snapshot, settings, request, Line())
    return done, (time.perf_counter() - started) * 1000


def _show_drill(done: Drill, request: DrillRequest) -> None:
    say(done.sentence)
    say()
    table(
        (
            "lost",
            "bundles",
            "homeless",
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
                f"{row['unplaced']:,}",
                f"{row['clients']:,}",
                format_bytes_per_s(row["moved_bytes_per_s"]),
                f"{row['newly_hot']}",
                row["pressed"] or "nobody",
                format_ratio(row["pressed_before"]),
                format_ratio(row["pressed_after"]),
            )
            for row in done.failures.slice(0, _MOST_SHOWN).to_pylist()
        ],
    )
    if done.failures.num_rows > _MOST_SHOWN:
        say(f"... and {done.failures.num_rows - _MOST_SHOWN:,} more; --json or --out has them all.")
    for one in done.left_out[:_MOST_SHOWN]:
        say(f"Not played: {one.message} {one.hint}")
    tight = [row for row in done.groups.to_pylist() if not row["has_room"]]
    for row in tight[:_MOST_SHOWN]:
        say(
            f"No room: without {row['failure']} {row['group']} has {row['brokers_left']} of "
            f"{row['brokers_before']} brokers, {row['unplaced']:,} of {row['bundles']:,} bundles "
            f"find none; the coolest is at {format_ratio(row['coolest_usage'])}."
        )
    say(f"Hot is a usage of {format_ratio(request.hot_line)} and more.")


def _is_pegasus(source: str, config: Path | None) -> bool:
    """Whether a snapshot, or a configured cluster, is of Pegasus; what is neither is not."""
    if Path(source).is_dir():
        return load_manifest(Path(source))[1].kind == "pegasus"
    loaded = services.load_config(services.config_path(config))
    return source in [one.name for one in loaded.clusters if one.kind == "pegasus"]


def _drill_pegasus(source: str, request: DrillRequest, where: Where, *, as_json: bool) -> int:
    facts = PegasusFacts(pegasus_snapshot(source, where.config))
    spark = where.session() if where.is_spark else None
    started = time.perf_counter()
    if spark is not None:
        from core.spark.jobs.drill import drill_pegasus_on_spark  # noqa: PLC0415  # takes seconds

        done = drill_pegasus_on_spark(spark, facts, Line(), only=request.only)
    else:
        done = drill_pegasus(facts, Line(), only=request.only)
    elapsed_ms = (time.perf_counter() - started) * 1000
    write_tables(where.out, {"nodes": done.failures})
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
                    row["busiest"] or "nobody",
                    format_ratio(row["deviation_after"]),
                )
                for row in done.failures.slice(0, _MOST_SHOWN).to_pylist()
            ],
        )
        if done.failures.num_rows > _MOST_SHOWN:
            say(f"... and {done.failures.num_rows - _MOST_SHOWN:,} more; --json has them all.")

    return emit(Answer(body, show), as_json=as_json)


def topics(file: Path, directory: Path, top: int, where: Where, *, as_json: bool) -> int:
    """``trimtab topics``."""
    is_spark = where.is_spark
    parts = parts_of(file.absolute())
    ring = TopicRing.of(load_snapshot(directory))
    spark = where.session() if is_spark else None
    started = time.perf_counter()
    if spark is not None:
        from core.spark.jobs.topics import place_topics_on_spark  # noqa: PLC0415  # takes seconds

        done = place_topics_on_spark(spark, ring, parts, Line())
    else:
        done = place_topics(ring, parts, Line())
    elapsed_ms = (time.perf_counter() - started) * 1000
    names = ("bundles", "brokers", "crowded", "spread")
    tables: dict[str, pa.Table] = {name: getattr(done, name) for name in names}
    write_tables(where.out, tables)
    whole = ("brokers", "spread")
    body = {
        "answer": done.sentence,
        "topics": done.topics,
        "homeless": done.homeless,
        "nameless": done.nameless,
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
                row["owner"] or "nobody",
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
                row["broker"] or "nobody",
                f"{row['bundles']:,}",
                f"{row['topics']:,}",
                format_bytes_per_s(row["msg_throughput_in"] + row["msg_throughput_out"]),
            )
            for row in done.brokers.slice(0, top).to_pylist()
        ],
    )
    crowded = [
        row for row in done.crowded.slice(0, top).to_pylist() if row["most_in_one_bundle"] > 1
    ]
    for row in crowded:
        say(
            f"Crowded: {row['most_in_one_bundle']} of {row['partitions']} partitions of "
            f"{row['topic']} are in {row['bundle']}."
        )
