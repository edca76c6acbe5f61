"""What ``trimtab history trends`` and ``trimtab history flaps`` say."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from core.errors import UnknownNameError
from core.history.analysis.flaps.flaps import FlapAnswer
from core.history.analysis.flaps.job import flaps_here
from core.history.analysis.requests import FlapsRequest, RecordScope, TrendsRequest
from core.history.analysis.trends.answer import Trends
from core.history.analysis.trends.job import trends_here
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
Range = tuple[str | None, str | None]


@dataclass(frozen=True)
class Where:
    """What is read, and where the work is done and written.

    Attributes:
        past: The history.
        scope: Clusters and time.
        engine: ``local`` or ``spark``.
        out: Directory for the whole tables; ``None``: none are written.
    """

    past: Past
    scope: RecordScope
    engine: str
    out: Path | None

    @classmethod
    def of(
        cls, past: Past, clusters: Sequence[str], range_: Range, to: tuple[str, Path | None]
    ) -> Where:
        """Return it from what the options give.

        Raises:
            UsageFaultError: No such engine, or a time that cannot be read.
        """
        engine, out = to
        if engine not in ENGINES:
            unknown = UnknownNameError.of("engine", engine, ENGINES)
            raise UsageFaultError(unknown.message, hint=unknown.hint)
        start, end = span(*range_, services.now())
        minute_s = past.config.history.minute_s
        scope = RecordScope(clusters=tuple(clusters), start=start, end=end, minute_s=minute_s)
        return cls(past, scope, engine, out)

    def session(self) -> SparkSession | None:
        """Return the Spark session; ``None``: this process does the work."""
        if self.engine == "local":
            return None
        note("Starting Spark ...")
        return services_spark.session(self.past.config)


def trends(request: TrendsRequest, where: Where, *, as_json: bool) -> int:
    """``trimtab history trends``."""
    spark, store, scope = where.session(), where.past.store, where.scope
    if spark is None:
        found = trends_here(store, request, scope, Line())
    else:
        from core.spark.jobs.trends import trends_on_spark  # noqa: PLC0415  # seconds, only here

        found = trends_on_spark(spark, store, request, scope, Line())
    tables = found.tables()
    write_tables(where.out, tables)
    body: dict[str, Any] = {"answer": found.sentence, "period": request.period}
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


def flaps(request: FlapsRequest, where: Where, *, as_json: bool) -> int:
    """``trimtab history flaps``."""
    spark, store, scope = where.session(), where.past.store, where.scope
    if spark is None:
        found = flaps_here(store, request, scope, Line())
    else:
        from core.spark.jobs.flaps import flaps_on_spark  # noqa: PLC0415  # seconds, only here

        found = flaps_on_spark(spark, store, request, scope, Line())
    tables = found.tables()
    write_tables(where.out, tables)
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
