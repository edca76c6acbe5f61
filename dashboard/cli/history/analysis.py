"""``trimtab history trends`` and ``trimtab history flaps``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Final

import pyarrow.compute as pc
import typer

from core.history.analysis.flaps.flaps import FlapAnswer
from core.history.analysis.flaps.job import flaps_here
from core.history.analysis.requests import FlapsRequest, RecordScope, TrendsRequest
from core.history.analysis.trends.answer import Trends
from core.history.analysis.trends.job import trends_here
from core.history.analysis.trends.registry import SUBJECT_OF_KIND
from core.units import format_age, format_deviation, format_ratio, ms_to_datetime, pluralize
from dashboard import services
from dashboard.cli.engine import is_spark, spark_session, write_tables
from dashboard.cli.history import From, To, Uri
from dashboard.cli.history.moments import span
from dashboard.cli.history.recorded import CommandHistory
from dashboard.cli.options import Config, EngineName, Json, OutTables
from dashboard.cli.output import Answer, emit, print_line, table
from dashboard.cli.progress import STATUS
from dashboard.cli.requests import takes

_MOST_SHOWN: Final = 20
_MOST_RANKED: Final = 10

Rows = list[dict[str, Any]]
app = typer.Typer()

Recorded = Annotated[
    list[str] | None,
    typer.Argument(metavar="CLUSTER...", help="Cluster names; default: all recorded."),
]


def _scope(
    past: CommandHistory, clusters: Sequence[str], from_time: str | None, to_time: str | None
) -> RecordScope:
    """Return the part of a history to read.

    Raises:
        UsageFaultError: A time that cannot be read.
    """
    start, end = span(from_time, to_time, services.now())
    minute_s = past.config.history.minute_s
    return RecordScope(clusters=tuple(clusters), start=start, end=end, minute_s=minute_s)


@app.command()
@takes(TrendsRequest)
def trends(
    request: TrendsRequest,
    clusters: Recorded = None,
    from_time: From = None,
    to_time: To = None,
    out: OutTables = None,
    uri: Uri = None,
    engine: EngineName = "local",
    config: Config = None,
    as_json: Json = False,
) -> int:
    """Show trends of brokers, bundles, nodes and tables.

    Shows load, changes and deviation.
    """
    past = CommandHistory.of(uri, config)
    on_spark = is_spark(engine)
    scope = _scope(past, clusters or (), from_time, to_time)
    if on_spark:
        from core.spark.jobs.trends import trends_on_spark  # noqa: PLC0415  # seconds, only here

        spark = spark_session(past.config)
        found = trends_on_spark(spark, past.store, request, scope, STATUS)
    else:
        found = trends_here(past.store, request, scope, STATUS)
    tables = found.tables()
    write_tables(out, tables)
    body: dict[str, Any] = {
        "answer": found.sentence,
        "period": request.period,
        "source": found.source,
    }
    body |= {name: one.to_pylist() for name, one in tables.items()}
    return emit(Answer(body, lambda: _show_trends(found)), as_json=as_json)


def _show_trends(found: Trends) -> None:
    print_line(found.sentence)
    parts = (found.gaps, found.movers, found.hot)
    names = list(dict.fromkeys(name for one in parts for name in one["cluster"].to_pylist()))
    for name in names:
        print_line()
        if len(names) > 1:
            print_line(f"== {name}")
        gaps, movers, hot = (one.filter(pc.equal(one["cluster"], name)) for one in parts)
        _show_gaps(gaps.to_pylist())
        _show_movers(movers.to_pylist())
        _show_hot(hot.to_pylist())


def _show_gaps(rows: Rows) -> None:
    table(
        ("from", "busiest", "least loaded", "deviation", "max", "minutes over 20%"),
        [
            (
                _time(row["starts_at"]),
                row["busiest"],
                row["idlest"],
                format_ratio(row["deviation"]),
                format_ratio(row["deviation_max"]),
                format_ratio(row["uneven_share"]),
            )
            for row in rows[-_MOST_SHOWN:]
        ],
    )
    _print_rest(rows, _MOST_SHOWN, "earlier periods")


def _show_movers(rows: Rows) -> None:
    print_line()
    if not rows:
        print_line("The largest changes need two periods; shorten them with --by.")
        return
    table(
        ("changed most", "before", "after", "change"),
        [
            (
                row["subject"],
                _flow(row, "before"),
                _flow(row, "after"),
                "new" if row["change_ratio"] is None else format_deviation(row["change_ratio"]),
            )
            for row in rows[:_MOST_RANKED]
        ],
    )
    _print_rest(rows, _MOST_RANKED, "smaller changes")


def _show_hot(rows: Rows) -> None:
    print_line()
    table(
        ("hottest", "mean", "max", "share"),
        [
            (row["subject"], _flow(row, "mean"), _flow(row, "max"), format_ratio(row["share"]))
            for row in rows[:_MOST_RANKED]
        ],
    )
    _print_rest(rows, _MOST_RANKED, "more")


def _print_rest(rows: Rows, shown: int, what: str) -> None:
    """Print the number of rows that a table omits."""
    if len(rows) > shown:
        print_line(f"... and {len(rows) - shown:,} {what}; --json lists all.")


def _flow(row: dict[str, Any], name: str) -> str:
    return SUBJECT_OF_KIND[row["kind"]].flow_words(row[name])


def _time(taken_at: int) -> str:
    return f"{ms_to_datetime(taken_at):%Y-%m-%d %H:%M}"


@app.command()
@takes(FlapsRequest)
def flaps(
    request: FlapsRequest,
    clusters: Recorded = None,
    from_time: From = None,
    to_time: To = None,
    out: OutTables = None,
    uri: Uri = None,
    engine: EngineName = "local",
    config: Config = None,
    as_json: Json = False,
) -> int:
    """Show flapping bundles and moves without effect."""
    past = CommandHistory.of(uri, config)
    on_spark = is_spark(engine)
    scope = _scope(past, clusters or (), from_time, to_time)
    if on_spark:
        from core.spark.jobs.flaps import flaps_on_spark  # noqa: PLC0415  # seconds, only here

        spark = spark_session(past.config)
        found = flaps_on_spark(spark, past.store, request, scope, STATUS)
    else:
        found = flaps_here(past.store, request, scope, STATUS)
    tables = found.tables()
    write_tables(out, tables)
    body: dict[str, Any] = {"answer": found.sentence}
    body |= {name: one.to_pylist() for name, one in tables.items()}
    return emit(Answer(body, lambda: _show_flaps(found)), as_json=as_json)


def _outcome(row: dict[str, Any]) -> str:
    if row["other_moves"]:
        return f"unknown: {pluralize(row['other_moves'], 'other move')}"
    return {True: "yes", False: "no", None: "unknown"}[row["helped"]]


def _show_flaps(flap_answer: FlapAnswer) -> None:
    flaps, rounds = flap_answer.flaps.to_pylist(), flap_answer.rounds.to_pylist()
    print_line(flap_answer.sentence)
    print_line()
    table(
        ("cluster", "back at", "bundle", "home", "away", "for", "by"),
        [
            (
                row["cluster"],
                _time(row["returned_at"]),
                row["subject"],
                row["home"],
                row["away"],
                format_age(row["dwell_ms"] / 1000),
                row["returned_by"] or "unknown",
            )
            for row in flaps[:_MOST_SHOWN]
        ],
        spare=("cluster", "away"),
    )
    _print_rest(flaps, _MOST_SHOWN, "more")
    print_line()
    table(
        ("cluster", "moved at", "by", "moves", "before", "after", "helped"),
        [
            (
                row["cluster"],
                _time(row["taken_at"]),
                row["by"] or "unknown",
                f"{row['moves']}",
                format_ratio(row["deviation_before"]),
                format_ratio(row["deviation_after"]),
                _outcome(row),
            )
            for row in rounds[:_MOST_SHOWN]
        ],
        spare=("cluster",),
    )
    _print_rest(rounds, _MOST_SHOWN, "more")
