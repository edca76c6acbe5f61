"""``trimtab history growth``: what grows, and when the cluster is full."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from core.errors import UnknownNameError
from core.history.store.reading import TimeRange
from core.history.tiers.reading import tier_clusters
from core.units import datetime_to_ms, format_deviation, ms_to_datetime, pluralize
from dashboard import services
from dashboard.cli.engine import write_tables
from dashboard.cli.history import Cluster, To, Uri
from dashboard.cli.history.moments import span
from dashboard.cli.history.recorded import CommandHistory
from dashboard.cli.options import Config, Json, OutTables
from dashboard.cli.output import Answer, emit, print_line, table
from dashboard.presenters.growth import (
    describe_forecast,
    describe_limit,
    format_forecast,
    format_interval,
    format_slope,
)
from dashboard.presenters.load import format_load
from dashboard.services.growth import growth_of

if TYPE_CHECKING:
    from core.history.queries.growth import Growth

app = typer.Typer()


@app.command()
def growth(
    cluster: Cluster,
    from_time: Annotated[
        str,
        typer.Option("--from", metavar="TIME", help="Start: ISO 8601 (UTC), or -26w, -365d."),
    ] = "-26w",
    to_time: To = None,
    limit: Annotated[
        int, typer.Option(min=1, metavar="N", help="Objects shown of each kind.")
    ] = 10,
    out: OutTables = None,
    uri: Uri = None,
    config: Config = None,
    as_json: Json = False,
) -> int:
    """Show what grows, and when the cluster is full.

    Trends of weekly means, from days; six weeks at least.
    """
    past = CommandHistory.of(uri, config)
    now = services.now()
    start, end = span(from_time, to_time, now)
    known = sorted({*past.store.clusters(), *tier_clusters(past.store)})
    if cluster not in known:
        raise UnknownNameError.of("recorded cluster", cluster, known, place=past.place)
    ends = TimeRange(datetime_to_ms(start or now), datetime_to_ms(end or now))
    found = growth_of(past.config, past.store, cluster, ends)
    write_tables(out, {"growth": found.rows})
    body = {**found.as_json(), "rows": found.rows.to_pylist()}
    return emit(Answer(body, lambda: _show(found, limit)), as_json=as_json)


def _show(found: Growth, limit: int) -> None:
    last = ms_to_datetime(found.span.end or 0)
    print_line(f"{found.cluster}: {pluralize(found.weeks, 'week')} to {last:%Y-%m-%d}, from days.")
    if found.weeks_missing:
        print_line(f"Trends need {pluralize(found.weeks_missing, 'more week')}.")
    print_line()
    table(
        ("forecast", "limit", "date", "details"),
        [
            (
                label,
                describe_limit(one, has_key=False),
                format_forecast(one),
                describe_forecast(one),
            )
            for label, one in (
                ("mean usage at the limit", found.full),
                ("first server outside the target", found.outside),
            )
        ],
    )
    if found.full.limit_key:
        print_line(f"Limit of usage: {found.full.limit_key}.")
    print_line()
    table(
        ("kind", "growing", "shrinking", "steady", "too few weeks"),
        [
            (one.kind, *(f"{n:,}" for n in (one.growing, one.shrinking, one.steady, one.too_short)))
            for one in found.counts
        ],
    )
    for one in found.counts:
        rows = found.growing(one.kind, limit).to_pylist()
        if not rows:
            continue
        print_line()
        table(
            (one.kind, "now", "a month", "interval (95%)", "share"),
            [
                (
                    row["subject"],
                    format_load(found.measure, row["now"]),
                    format_slope(found.measure, row["per_month"]),
                    format_interval(found.measure, row["per_month_low"], row["per_month_high"]),
                    format_deviation(row["ratio_per_month"]),
                )
                for row in rows
            ],
        )
        if one.growing > len(rows):
            print_line(f"{one.growing - len(rows):,} more; --limit shows them.")
