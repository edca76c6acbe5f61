"""``trimtab history fleet``: all clusters by day."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import pyarrow as pa
import typer

from core.history.analysis.trends.job import chosen_clusters
from core.units import format_ratio, ms_to_datetime, pluralize
from dashboard import services
from dashboard.cli.engine import write_tables
from dashboard.cli.history import To, Uri
from dashboard.cli.history.analysis import Recorded
from dashboard.cli.history.moments import span
from dashboard.cli.history.recorded import CommandHistory
from dashboard.cli.options import Config, Json, OutTables
from dashboard.cli.output import Answer, emit, print_line, table
from dashboard.services.fleet_days import MEASURES, facts_of, targets_of

app = typer.Typer()


@app.command()
def fleet(
    clusters: Recorded = None,
    from_time: Annotated[
        str,
        typer.Option("--from", metavar="TIME", help="Start: ISO 8601 (UTC), or -30d, -1w."),
    ] = "-14d",
    to_time: To = None,
    out: OutTables = None,
    uri: Uri = None,
    config: Config = None,
    as_json: Json = False,
) -> int:
    """Show deviation, moves and alerts of all clusters by day.

    Minutes outside are counted against the target of each cluster.
    """
    past = CommandHistory.of(uri, config)
    now = services.now()
    start, end = span(from_time, to_time, now)
    targets = targets_of(past.config, chosen_clusters(past.store, clusters or ()))
    found = facts_of(past.config, past.store, targets, start or now, end or now)
    write_tables(out, {"fleet": found})
    body = {"source": "days", "rows": found.to_pylist()}
    return emit(Answer(body, lambda: _show(found, list(targets))), as_json=as_json)


def _show(found: pa.Table, names: Sequence[str]) -> None:
    print_line(f"{pluralize(len(names), 'cluster')}, by day in UTC.")
    print_line(f"Deviation: {MEASURES}.")
    print_line()
    table(
        ("cluster", "day", "max", "mean", "target", "outside", "moves", "critical", "missing"),
        [
            (
                row["cluster"],
                f"{ms_to_datetime(row['day']):%Y-%m-%d}",
                format_ratio(row["deviation_max"]),
                format_ratio(row["deviation_mean"]),
                format_ratio(row["target"]),
                _outside(row["outside_minutes"], row["deviation_minutes"]),
                f"{row['moves']:,}",
                _minutes(row["unhealthy_minutes"]),
                _minutes(row["minutes_missing"]),
            )
            for row in found.to_pylist()
        ],
        spare=("missing", "mean"),
    )


def _outside(count: int | None, recorded: int) -> str:
    return "unknown" if count is None else f"{count:,} of {recorded:,} min"


def _minutes(count: int | None) -> str:
    return "unknown" if count is None else f"{count:,} min"
