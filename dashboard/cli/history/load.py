"""``trimtab history load``: the load of one object over time."""

from __future__ import annotations

from typing import Annotated, Any, Final

import typer

from core.errors import UnknownNameError
from core.history.queries.compared import SHIFT_DAYS, LoadComparison, Shift, compare
from core.history.queries.load import (
    SOURCES,
    LoadRequest,
    LoadSeries,
    Source,
    load_over,
    subject_id,
)
from core.history.store.layout import HistoryError
from core.history.store.reading import TimeRange
from core.history.tiers.model import CLUSTER_KIND
from core.history.tiers.reading import tier_clusters
from core.units import datetime_to_ms, format_deviation, pluralize
from dashboard import services
from dashboard.cli.engine import write_tables
from dashboard.cli.history import Cluster, To, Uri
from dashboard.cli.history.moments import moment
from dashboard.cli.history.recorded import CommandHistory, clock
from dashboard.cli.options import Config, Json, OutTables
from dashboard.cli.output import Answer, UsageFaultError, emit, print_line, table
from dashboard.presenters.load import format_load, label_of

_MOST_SHOWN: Final = 31
app = typer.Typer()


@app.command()
def load(
    cluster: Cluster,
    kind: Annotated[
        str,
        typer.Argument(
            metavar="KIND",
            help="cluster, broker, bundle, namespace, tenant, node, table or partition.",
        ),
    ] = "cluster",
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="Name of the object; none for the cluster.")
    ] = "",
    from_time: Annotated[
        str,
        typer.Option("--from", metavar="TIME", help="Start: ISO 8601 (UTC), or -90d, -2h."),
    ] = "-30d",
    to_time: To = None,
    by: Annotated[
        str | None,
        typer.Option(
            metavar="RECORDS",
            help="minutes, hours or days; default: the coarsest that answers the range.",
        ),
    ] = None,
    against: Annotated[
        str | None,
        typer.Option(
            "--compare", metavar="SHIFT", help="week, month (28 days) or quarter (91 days) before."
        ),
    ] = None,
    out: OutTables = None,
    uri: Uri = None,
    config: Config = None,
    as_json: Json = False,
) -> int:
    """Show the load of one object over time, up to a year.

    From days, hours or minutes; names the records that answered.
    """
    past = CommandHistory.of(uri, config)
    request = _request(past, cluster, kind, name, (from_time, to_time), by)
    shift = _shift(against)
    compared = None if shift is None else compare(past.store, request, shift)
    found = load_over(past.store, request) if compared is None else compared.now
    if not found.rows.num_rows:
        raise HistoryError(
            f"No load of {kind} {name} is recorded in this range.".replace("  ", " "),
            hint=f"See `trimtab pipeline status {cluster}`, and check the name.",
        )
    body: dict[str, Any] = {**found.as_json(), "rows": found.rows.to_pylist()}
    if compared is not None:
        body["compared"] = compared.as_json()
    write_tables(out, {"load": found.rows})
    return emit(Answer(body, lambda: _show(found, compared)), as_json=as_json)


def _request(
    past: CommandHistory,
    cluster: str,
    kind: str,
    name: str,
    ends: tuple[str, str | None],
    by: str | None,
) -> LoadRequest:
    """Return the question.

    Raises:
        UsageFaultError: A time, a name or the records cannot be read.
        UnknownNameError: Nothing of the cluster is recorded.
    """
    now = services.now()
    start, end = moment(ends[0], now), now if ends[1] is None else moment(ends[1], now)
    if end < start:
        raise UsageFaultError("The range ends before it begins.", hint="Swap --from and --to.")
    if by is not None and by not in SOURCES:
        error = UnknownNameError.of("kind of records", by, SOURCES)
        raise UsageFaultError(error.message, hint=error.hint)
    if (kind == CLUSTER_KIND) == bool(name):
        raise UsageFaultError(
            f"A {kind} has no name." if name else f"The name of the {kind} is missing.",
            hint="Example: trimtab history load prod tenant acme",
        )
    known = sorted({*past.store.clusters(), *tier_clusters(past.store)})
    if cluster not in known:
        raise UnknownNameError.of("recorded cluster", cluster, known, place=past.place)
    source: Source | None = next((one for one in SOURCES if one == by), None)
    return LoadRequest(
        cluster=cluster,
        kind=kind,
        subject=subject_id(past.store, cluster, kind, name),
        span=TimeRange(datetime_to_ms(start), datetime_to_ms(end)),
        source=source,
        is_whole=True,
    )


def _shift(against: str | None) -> Shift | None:
    if against is None:
        return None
    for one in SHIFT_DAYS:
        if one == against:
            return one
    error = UnknownNameError.of("time to compare with", against, list(SHIFT_DAYS))
    raise UsageFaultError(error.message, hint=error.hint)


def _show(found: LoadSeries, compared: LoadComparison | None) -> None:
    request = found.request
    print_line(
        f"{request.kind} {request.subject}".strip()
        + f" of {request.cluster}: {pluralize(found.rows.num_rows, found.source[:-1])}, "
        f"{found.describe_source()}."
    )
    print_line()
    if compared is not None:
        _show_comparison(compared)
        return
    measures = [one for one in found.measures if one.is_binned]
    rows = found.rows.slice(max(found.rows.num_rows - _MOST_SHOWN, 0)).to_pylist()
    heads = [head for one in measures for head in (label_of(one.name), "max", "p95")]
    table(
        ("from (UTC)", *heads, "minutes"),
        [
            (
                clock(row["taken_at"])[:-3],
                *(
                    format_load(one.name, row[column])
                    for one in measures
                    for column in (one.name, f"{one.name}_max", f"{one.name}_p95")
                ),
                f"{row['minutes_seen']:,}",
            )
            for row in rows
        ],
    )


def _show_comparison(compared: LoadComparison) -> None:
    days = SHIFT_DAYS[compared.shift]
    unit = compared.now.source[:-1]
    print_line(
        f"Compared with {days} days before: {compared.compared:,} of "
        f"{pluralize(compared.periods, unit)} recorded both times."
    )
    table(
        ("measure", "now", "before", "change", "max now", "max before"),
        [
            (
                label_of(one.measure),
                format_load(one.measure, one.now),
                format_load(one.measure, one.before),
                format_deviation(one.change_ratio),
                format_load(one.measure, one.now_max),
                format_load(one.measure, one.before_max),
            )
            for one in compared.changes
        ],
    )
