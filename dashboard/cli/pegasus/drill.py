"""``trimtab drill`` of a Pegasus cluster: failures of nodes."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from core.pegasus.snapshot import PegasusFacts
from core.planning.drill.pegasus import drill_pegasus
from core.planning.drill.request import DrillRequest
from core.units import format_ratio
from dashboard.cli.config import read_config
from dashboard.cli.engine import spark_session, write_tables
from dashboard.cli.output import Answer, emit, print_line, table
from dashboard.cli.pegasus.live import pegasus_snapshot
from dashboard.cli.progress import STATUS

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
    """Simulate each failure and show which partitions lose their primary or may not write.

    Args:
        request: Which failures.
        source: Snapshot directory or cluster.
        settings: Not used: nothing here depends on them.
        release: Likewise.
        out: Folder for the result table.
        config: What ``--config`` says.
        on_spark: Compute on Spark.
        as_json: Print one JSON object.
    """
    del settings, release
    facts = PegasusFacts(pegasus_snapshot(source, config))
    spark = spark_session(read_config(config)) if on_spark else None
    started = time.perf_counter()
    if spark is not None:
        from core.spark.pegasus.jobs.drill import drill_pegasus_on_spark  # noqa: PLC0415  # takes seconds

        done = drill_pegasus_on_spark(spark, facts, STATUS, only=request.only)
    else:
        done = drill_pegasus(facts, STATUS, only=request.only)
    elapsed_ms = (time.perf_counter() - started) * 1000
    write_tables(out, {"nodes": done.failures})
    body: dict[str, Any] = {
        "answer": done.sentence,
        "nodes": done.failures.to_pylist(),
        "elapsed_ms": round(elapsed_ms, 3),
    }

    def show() -> None:
        print_line(done.sentence)
        print_line()
        table(
            (
                "failure",
                "primaries",
                "no primary",
                "no writes",
                "one replica",
                "busiest",
                "above mean",
            ),
            [
                (
                    row["node"],
                    f"{row['primaries']:,}",
                    f"{row['without_primary']:,}",
                    f"{row['without_writes']:,}",
                    f"{row['single']:,}",
                    row["busiest"] or "no node",
                    format_ratio(row["deviation_after"]),
                )
                for row in done.failures.slice(0, _MAX_SHOWN).to_pylist()
            ],
        )
        if done.failures.num_rows > _MAX_SHOWN:
            print_line(f"... and {done.failures.num_rows - _MAX_SHOWN:,} more; --json lists all.")

    return emit(Answer(body, show), as_json=as_json)
