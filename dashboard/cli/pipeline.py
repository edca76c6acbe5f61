"""``trimtab pipeline``: hours and days that are made of the recorded minutes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from core.errors import OpsError, UnknownNameError
from core.history.store.layout import HistoryError
from core.history.store.reading import between
from core.units import datetime_to_ms, format_bytes, ms_to_datetime, pluralize
from dashboard import services
from dashboard.cli.engine import is_spark, spark_session, write_table
from dashboard.cli.history import From, To, Uri
from dashboard.cli.history.moments import span
from dashboard.cli.history.recorded import CommandHistory, as_iso
from dashboard.cli.options import Config, Json
from dashboard.cli.output import (
    EXIT_DONE,
    EXIT_INCOMPLETE,
    EXIT_REFUSED,
    Answer,
    UsageFaultError,
    emit,
    note,
    print_line,
    table,
)
from dashboard.cli.progress import STATUS

if TYPE_CHECKING:
    from core.history.store.reading import TimeRange
    from core.history.tiers.local import TierEngine

app = typer.Typer()

Clusters = Annotated[
    list[str] | None,
    typer.Argument(metavar="CLUSTER...", help="Cluster names in the history; default: all."),
]

_FORMATS: Final = (".parquet", ".csv")

Engine = Annotated[
    str | None,
    typer.Option(
        help="auto, local or spark; the result is the same. Default: engine of [pipeline]."
    ),
]


@app.command("run")
def run_pipeline(
    clusters: Clusters = None,
    uri: Uri = None,
    engine: Engine = None,
    config: Config = None,
    as_json: Json = False,
) -> int:
    """Roll up the minutes that are not in hours and days yet.

    Collectors do this automatically.
    """
    return _rolled_up(CommandHistory.of(uri, config), clusters, None, engine, as_json=as_json)


@app.command()
def backfill(
    clusters: Clusters = None,
    from_time: From = None,
    to_time: To = None,
    uri: Uri = None,
    engine: Engine = None,
    config: Config = None,
    as_json: Json = False,
) -> int:
    """Roll up a time range again, due or not.

    What minutes are left of an hour replaces what its tier has.
    """
    past = CommandHistory.of(uri, config)
    only = between(*span(from_time, to_time, services.now()))
    return _rolled_up(past, clusters, only, engine, as_json=as_json)


@app.command()
def status(
    clusters: Clusters = None, uri: Uri = None, config: Config = None, as_json: Json = False
) -> int:
    """Show how far hours and days are.

    Due hours are over and have minutes that are not rolled up.
    """
    from core.history.tiers import pipeline  # noqa: PLC0415  # commands start fast

    past = CommandHistory.of(uri, config)
    now_ms = datetime_to_ms(services.now())
    found = {name: pipeline.status(past.store, name, now_ms) for name in _named(past, clusters)}
    body = {
        "history": past.place,
        "clusters": [
            {
                "cluster": name,
                "hours": one.hours,
                "days": one.days,
                "first": None if one.first is None else as_iso(one.first),
                "last": None if one.last is None else as_iso(one.last),
                "due": one.due,
                "position": one.position,
                "bytes": one.bytes,
            }
            for name, one in found.items()
        ],
    }
    rows = [
        (
            *(name, str(one.hours), str(one.days), _hour(one.first), _hour(one.last)),
            *(str(one.due), format_bytes(one.bytes)),
        )
        for name, one in found.items()
    ]

    def show() -> None:
        if not found:
            print_line(f"No history is recorded in {past.place}.")
        table(("cluster", "hours", "days", "first (UTC)", "last (UTC)", "due", "size"), rows)

    return emit(Answer(body, show), as_json=as_json)


@app.command()
def verify(
    clusters: Clusters = None,
    hours: Annotated[
        int, typer.Option("--hours", min=1, metavar="COUNT", help="Hours to compare per cluster.")
    ] = 24,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the sample.")] = 0,
    uri: Uri = None,
    engine: Engine = None,
    config: Config = None,
    as_json: Json = False,
) -> int:
    """Recompute a sample of hours and days and compare.

    Exit code 3: a tier differs from its minutes; `trimtab pipeline backfill` repairs it.
    """
    from core.history.tiers import pipeline  # noqa: PLC0415  # commands start fast

    past = CommandHistory.of(uri, config)
    computed = _computed(past, is_on_spark=_engine(past, engine) == "spark")
    outcomes: list[dict[str, Any]] = []
    for name in _named(past, clusters):
        compared, wrong = pipeline.verify(
            past.store, name, hours, seed, engine=computed, progress=STATUS
        )
        differences = [{"tier": tier, "at": as_iso(start)} for tier, start in wrong]
        outcomes.append({"cluster": name, "compared": len(compared), "differences": differences})
    body = {"history": past.place, "clusters": outcomes}

    def show() -> None:
        for one in outcomes:
            print_line(
                f"{one['cluster']}: {pluralize(one['compared'], 'hour')} compared, "
                f"{pluralize(len(one['differences']), 'difference')}."
            )
        places = [
            (one["cluster"], d["tier"], d["at"]) for one in outcomes for d in one["differences"]
        ]
        if places:
            table(("cluster", "tier", "start (UTC)"), places)

    is_wrong = any(one["differences"] for one in outcomes)
    return emit(Answer(body, show, EXIT_INCOMPLETE if is_wrong else EXIT_DONE), as_json=as_json)


@app.command("export")
def export_(
    cluster: Annotated[str, typer.Argument(metavar="CLUSTER", help="Cluster name in the history.")],
    out: Annotated[Path, typer.Option(help="File to create: NAME.parquet or NAME.csv.")],
    tier: Annotated[
        str, typer.Option(help="hours, days or profiles (of the last 8 weeks, without a range).")
    ] = "days",
    kinds: Annotated[
        list[str] | None,
        typer.Option("--kind", metavar="KIND", help="Only brokers: broker; default: all."),
    ] = None,
    from_time: From = None,
    to_time: To = None,
    uri: Uri = None,
    config: Config = None,
    as_json: Json = False,
) -> int:
    """Write hours, days or profiles to a Parquet or CSV file.

    CSV has no histograms.
    """
    from core.history.tiers import reading  # noqa: PLC0415  # commands start fast
    from core.history.tiers.registry import SYSTEM_TIERS, TIERS  # noqa: PLC0415  # the same

    tiers = {one.name: one for one in TIERS}
    subjects = dict.fromkeys(
        one.kind for system in SYSTEM_TIERS.values() for one in system.everything
    )
    for name, value, known in (
        ("tier", tier, list(tiers)),
        ("format", out.suffix, _FORMATS),
        *(("kind", kind, list(subjects)) for kind in kinds or ()),
    ):
        if value not in known:
            error = UnknownNameError.of(name, value, known)
            raise UsageFaultError(error.message, hint=error.hint)
    if out.exists():
        raise UsageFaultError(f"{out} already exists.", hint="Specify a new file.")
    past = CommandHistory.of(uri, config)
    known_clusters = sorted({*past.store.clusters(), *reading.tier_clusters(past.store)})
    if cluster not in known_clusters:
        raise UnknownNameError.of("recorded cluster", cluster, known_clusters)
    only = between(*span(from_time, to_time, services.now()))
    rows = reading.exported(past.store, tiers[tier], cluster, only, kinds or ())
    if not rows.num_rows:
        raise HistoryError(
            f"No rows of {cluster} match in the {tier}.",
            hint=f"Run: trimtab pipeline status {cluster}",
        )
    write_table(out, rows)
    size = out.stat().st_size
    body = {
        "cluster": cluster,
        "tier": tier,
        "export": str(out),
        "rows": rows.num_rows,
        "bytes": size,
    }

    def show() -> None:
        print_line(
            f"{out}: {pluralize(rows.num_rows, 'row')} of the {tier} of {cluster}, "
            f"{format_bytes(size)}."
        )

    return emit(Answer(body, show), as_json=as_json)


def _rolled_up(
    past: CommandHistory,
    clusters: Sequence[str] | None,
    only: TimeRange | None,
    engine: str | None,
    *,
    as_json: bool,
) -> int:
    from core.history.tiers import pipeline  # noqa: PLC0415  # commands start fast

    chosen, master = _engine(past, engine), past.config.spark.master
    now_ms = datetime_to_ms(services.now())
    outcomes: list[dict[str, Any]] = []
    rows: list[tuple[str, ...]] = []
    for name in _named(past, clusters):
        try:
            is_on_spark = pipeline.is_for_spark(past.store, name, now_ms, only, chosen, master)
            computed = _computed(past, is_on_spark=is_on_spark)
            done = pipeline.roll_up(
                past.store, name, now_ms, only=only, engine=computed, progress=STATUS
            )
        except OpsError as exc:
            note(f"{name}: {exc}")
            outcomes.append({"cluster": name, "error": exc.as_json()})
            continue
        outcomes.append(
            {"cluster": name, "hours": done.hours, "days": done.days, "rows": done.rows}
        )
        rows.append((name, str(done.hours), str(done.days), f"{done.rows:,}"))
    body = {"history": past.place, "clusters": outcomes}

    def show() -> None:
        if not outcomes:
            print_line(f"No history is recorded in {past.place}.")
        table(("cluster", "hours", "days", "rows"), rows)

    failed = any("error" in one for one in outcomes)
    return emit(Answer(body, show, EXIT_REFUSED if failed else EXIT_DONE), as_json=as_json)


def _named(past: CommandHistory, clusters: Sequence[str] | None) -> list[str]:
    for name in clusters or ():
        past.span_of(name)
    return list(clusters) if clusters else past.store.clusters()


def _engine(past: CommandHistory, engine: str | None) -> str:
    """Return the engine of a command, by default that of the configuration.

    Raises:
        UsageFaultError: There is no such engine.
    """
    if engine not in (None, "auto"):
        is_spark(engine)
    return engine or past.config.pipeline.engine


def _computed(past: CommandHistory, *, is_on_spark: bool) -> TierEngine:
    if not is_on_spark:
        from core.history.tiers.local import IN_PROCESS  # noqa: PLC0415  # commands start fast

        return IN_PROCESS
    from core.spark.jobs.tiers import SparkTiers  # noqa: PLC0415  # seconds, only here

    return SparkTiers(spark_session(past.config))


def _hour(start_ms: int | None) -> str:
    return "" if start_ms is None else f"{ms_to_datetime(start_ms):%Y-%m-%d %H:%M}"
