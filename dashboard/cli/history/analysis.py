"""What ``trimtab history trends`` and ``trimtab history flaps`` say."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from core.errors import UnknownNameError
from core.history.flaps import FlapAnswer, FlapWish
from core.history.flaps_job import FlapsWish, flaps_here
from core.history.trends import PERIOD_MS, Period
from core.history.trends_answer import Trends
from core.history.trends_job import KIND_OF, TrendWish, trends_here
from core.units import format_age, format_bytes_per_s, format_ratio, ms_to_datetime
from dashboard import services
from dashboard.cli.moments import span
from dashboard.cli.output import Answer, UsageFaultError, emit, note, say, table
from dashboard.cli.planning.capacity import ENGINES, Line, write_tables
from dashboard.services import spark as services_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from dashboard.cli.history.recorded import Past

_MOST_SHOWN: Final = 20
_PERIODS: Final[dict[str, Period]] = {"minute": "minute", "hour": "hour", "day": "day"}
Range = tuple[str | None, str | None]


@dataclass(frozen=True)
class TrendsCommand:
    """What is asked of ``trimtab history trends``; see :class:`TrendWish`."""

    clusters: tuple[str, ...]
    range: Range
    by: str
    subjects: tuple[str, ...]


@dataclass(frozen=True)
class FlapsCommand:
    """What is asked of ``trimtab history flaps``; see :class:`FlapsWish`."""

    clusters: tuple[str, ...]
    range: Range
    side_minutes: float
    settle_minutes: float


def _known(kind: str, name: str, known: tuple[str, ...]) -> str:
    if name not in known:
        unknown = UnknownNameError.of(kind, name, known)
        raise UsageFaultError(unknown.message, hint=unknown.hint)
    return name


def _spark(past: Past, engine: str) -> SparkSession | None:
    if _known("engine", engine, ENGINES) == "local":
        return None
    note("Starting Spark ...")
    return services_spark.session(past.config)


def trends(
    past: Past, wish: TrendsCommand, where: tuple[str, Path | None], *, as_json: bool
) -> int:
    """``trimtab history trends``."""
    engine, out = where
    period = _PERIODS[_known("period", wish.by, tuple(PERIOD_MS))]
    named = tuple(_known("subject", one, tuple(KIND_OF)) for one in wish.subjects)
    start, end = span(*wish.range, services.now())
    asked = TrendWish(wish.clusters, start, end, period, named or tuple(KIND_OF))
    spark = _spark(past, engine)
    if spark is None:
        found = trends_here(past.store, asked, Line())
    else:
        from core.spark.jobs.trends import trends_on_spark  # noqa: PLC0415  # seconds, only here

        found = trends_on_spark(spark, past.store, asked, Line())
    tables = found.tables()
    write_tables(out, tables)
    body: dict[str, Any] = {"answer": found.sentence, "period": period}
    body |= {name: one.to_pylist() for name, one in tables.items()}
    return emit(Answer(body, lambda: _show_trends(found)), as_json=as_json)


def _show_trends(found: Trends) -> None:
    say(found.sentence)
    say()
    gaps = found.gaps.slice(max(found.gaps.num_rows - _MOST_SHOWN, 0)).to_pylist()
    table(
        ("cluster", "from", "busiest", "idlest", "off the mean", "at worst", "uneven minutes"),
        [
            (
                row["cluster"],
                _time(row["starts_at"]),
                row["busiest"],
                row["idlest"],
                format_ratio(row["deviation"]),
                format_ratio(row["deviation_max"]),
                format_ratio(row["uneven_share"]),
            )
            for row in gaps
        ],
    )
    say()
    movers = found.movers.slice(0, _MOST_SHOWN).to_pylist()
    if movers:
        table(
            ("cluster", "changed most", "before", "after"),
            [
                (row["cluster"], row["subject"], _flow(row, "before"), _flow(row, "after"))
                for row in movers
            ],
        )
    else:
        say("What changed most shows once there are two periods; shorter ones by --by.")
    say()
    table(
        ("cluster", "hot", "mean", "most", "share"),
        [
            (
                row["cluster"],
                row["subject"],
                _flow(row, "mean"),
                _flow(row, "max"),
                format_ratio(row["share"]),
            )
            for row in found.hot.slice(0, _MOST_SHOWN).to_pylist()
        ],
    )


def _flow(row: dict[str, Any], name: str) -> str:
    is_requests = row["kind"] in ("node", "table")
    return f"{row[name]:,.0f} req/s" if is_requests else format_bytes_per_s(row[name])


def _time(taken_at: int) -> str:
    return f"{ms_to_datetime(taken_at):%Y-%m-%d %H:%M}"


def flaps(past: Past, wish: FlapsCommand, where: tuple[str, Path | None], *, as_json: bool) -> int:
    """``trimtab history flaps``."""
    engine, out = where
    start, end = span(*wish.range, services.now())
    judged = FlapWish(
        side_minutes=wish.side_minutes,
        settle_minutes=wish.settle_minutes,
        minute_s=past.config.history.minute_s,
    )
    asked = FlapsWish(wish.clusters, start, end, judged)
    spark = _spark(past, engine)
    if spark is None:
        found = flaps_here(past.store, asked, Line())
    else:
        from core.spark.jobs.flaps import flaps_on_spark  # noqa: PLC0415  # seconds, only here

        found = flaps_on_spark(spark, past.store, asked, Line())
    tables = found.tables()
    write_tables(out, tables)
    body: dict[str, Any] = {"answer": found.sentence}
    body |= {name: one.to_pylist() for name, one in tables.items()}
    return emit(Answer(body, lambda: _show_flaps(found)), as_json=as_json)


def _outcome(row: dict[str, Any]) -> str:
    if row["other_moves"]:
        return f"cannot tell: {row['other_moves']:,} other moves"
    return {True: "yes", False: "no", None: "unknown"}[row["helped"]]


def _show_flaps(found: FlapAnswer) -> None:
    say(found.sentence)
    say()
    table(
        ("cluster", "back at", "bundle", "home", "away", "for", "by"),
        [
            (
                row["cluster"],
                _time(row["back_at"]),
                row["subject"],
                row["home"],
                row["away"],
                format_age(row["dwell_ms"] / 1000),
                row["back_by"] or "unknown",
            )
            for row in found.flaps.slice(0, _MOST_SHOWN).to_pylist()
        ],
    )
    say()
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
            for row in found.rounds.slice(0, _MOST_SHOWN).to_pylist()
        ],
    )
