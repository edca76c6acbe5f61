"""Growth of what servers carry, and when the cluster is full.

Of Pulsar those are tenants, namespaces and bundles, of Pegasus tables and partitions. Trends are
Theil-Sen slopes over weekly means of days. Weeks end with the last whole day of the range, so that
each has every weekday once.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from core.history.queries.load import subject_names
from core.history.queries.slopes import Slopes, medians, slopes_of
from core.history.queries.tier_reader import TierReader
from core.history.store.layout import DAY_MS, HistoryError, quoted
from core.history.store.reading import TimeRange
from core.history.tiers.model import CLUSTER_KIND, SystemTiers
from core.history.tiers.registry import DAYS, SYSTEM_TIERS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from core.history.store.store import HistoryStore
    from core.history.tiers.model import GrowthContext

Floats = NDArray[np.float64]
State = Literal["date", "reached", "beyond", "steady", "unknown"]

WEEK_DAYS: Final = 7
MONTH_DAYS: Final = 30
MIN_WEEKS: Final = 6
"""Fewer weeks have no trend."""
MIN_DAYS: Final = 5
"""A week with fewer recorded days does not count."""
MIN_RATIO: Final = 0.01
"""What changes by less than this share of its load in a month is steady: of many objects with a
steady load, some have a slope that is above 0 by chance."""
HORIZON_DAYS: Final = 730
"""Dates farther ahead are not given."""

GROWTH: Final = pa.schema(
    [
        pa.field("kind", pa.string(), nullable=False),
        pa.field("subject", pa.string(), nullable=False),
        pa.field("weeks", pa.int64(), nullable=False),
        pa.field("now", pa.float64(), nullable=False),
        pa.field("per_month", pa.float64(), nullable=False),
        pa.field("per_month_low", pa.float64(), nullable=False),
        pa.field("per_month_high", pa.float64(), nullable=False),
        pa.field("ratio_per_month", pa.float64(), metadata={"unit": "ratio"}),
    ]
)
"""Trend of each object with enough weeks: ``now`` is the trend's level at the end of the range,
``per_month`` the slope in 30 days with its interval of 95%, ``ratio_per_month`` its share of
``now``, null without load. The largest slopes are first."""


@dataclass(frozen=True, slots=True)
class KindCounts:
    """Number of objects of a kind by trend.

    Attributes:
        kind: The kind.
        growing: The interval of the slope is above 0, by at least :data:`MIN_RATIO`.
        shrinking: The same below 0.
        steady: The others.
        too_short: Fewer than :data:`MIN_WEEKS` weeks.
    """

    kind: str
    growing: int
    shrinking: int
    steady: int
    too_short: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """When a trend reaches a limit.

    Attributes:
        state: ``date``; ``reached``: already; ``beyond``: in more than :data:`HORIZON_DAYS`;
            ``steady``: the trend does not lead there; ``unknown``: see ``reason``.
        limit: The limit, ratio; ``None`` if there is none.
        limit_key: Setting that has it; empty: the target of the cluster.
        subject: The server; empty: all of them.
        now: Level of the trend at the end of the range, ratio; ``None`` if it is unknown.
        per_month: Its slope in 30 days, ratio.
        at_ms: The date.
        earliest_ms: By the steepest slope of the interval.
        latest_ms: By the flattest one.
        reason: Why it is unknown.
    """

    state: State
    limit: float | None = None
    limit_key: str = ""
    subject: str = ""
    now: float | None = None
    per_month: float | None = None
    at_ms: int | None = None
    earliest_ms: int | None = None
    latest_ms: int | None = None
    reason: str = ""

    def as_json(self) -> dict[str, Any]:
        """Return it as JSON."""
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(frozen=True, eq=False, kw_only=True)
class Growth:
    """Growth of a cluster.

    Attributes:
        cluster: Its name.
        system: Its system.
        span: The range: whole weeks.
        weeks: Weeks with enough recorded days.
        rows: Table of :data:`GROWTH`.
        counts: By kind, the largest objects first.
        full: When the mean usage of the servers reaches the limit.
        outside: When the first server leaves the target band if nothing moves.
        not_rated: Objects on a server that have too few weeks, and count as steady there.
    """

    cluster: str
    system: str
    span: TimeRange
    weeks: int
    rows: pa.Table
    counts: tuple[KindCounts, ...]
    full: Forecast
    outside: Forecast
    not_rated: int

    @property
    def measure(self) -> str:
        """Measure of the load."""
        return SYSTEM_TIERS[self.system].flow

    @property
    def weeks_missing(self) -> int:
        """Weeks that have to be recorded until there is a trend."""
        return max(MIN_WEEKS - self.weeks, 0)

    def growing(self, kind: str, limit: int) -> pa.Table:
        """Return the objects of a kind that grow, the largest slopes first."""
        is_growing = (pc.field("per_month_low") > 0) & (pc.field("ratio_per_month") >= MIN_RATIO)
        return self.rows.filter((pc.field("kind") == kind) & is_growing).slice(0, limit)

    def as_json(self) -> dict[str, Any]:
        """Return everything but the rows, as JSON."""
        return {
            "cluster": self.cluster,
            "source": DAYS.name,
            "measure": self.measure,
            "start_ms": self.span.start,
            "end_ms": self.span.end,
            "weeks": self.weeks,
            "weeks_missing": self.weeks_missing,
            "counts": [{name: getattr(one, name) for name in one.__slots__} for one in self.counts],
            "full": self.full.as_json(),
            "outside": self.outside.as_json(),
            "not_rated": self.not_rated,
        }


def growth(
    store: HistoryStore, cluster: str, span: TimeRange, context: GrowthContext, target_ratio: float
) -> Growth:
    """Return what grows in a cluster, and when it is full.

    Args:
        store: The history.
        cluster: Name of the cluster.
        span: Range with both ends; it is cut to whole weeks that end with its last whole day.
        context: Owners, and the limit of a server.
        target_ratio: Deviation from the mean that a server may have.
    Raises:
        HistoryError: No day of the cluster is in the range, or the days cannot be read.
    """
    found = _Question(store, cluster, span, target_ratio).answer(context)
    kinds = dict(zip(*(found.rows[one].to_pylist() for one in ("subject", "kind")), strict=True))
    names = subject_names(store, cluster, kinds)
    place = found.rows.schema.get_field_index("subject")
    named = pa.array([names[one] for one in found.rows["subject"].to_pylist()], pa.string())
    rows = found.rows.set_column(place, found.rows.schema.field(place), named)
    return replace(
        found, rows=rows.sort_by([("per_month", "descending"), ("subject", "ascending")])
    )


class _Question:
    """One question, with the weeks that answer it."""

    def __init__(
        self, store: HistoryStore, cluster: str, span: TimeRange, target_ratio: float
    ) -> None:
        if span.start is None or span.end is None:
            raise ValueError("A question about growth has both ends.")
        end = (span.end + 1) // DAY_MS * DAY_MS
        whole = (end - span.start) // (WEEK_DAYS * DAY_MS)
        self._reader = TierReader(store, cluster)
        self._cluster, self._target, self._end = cluster, target_ratio, end
        self._span = TimeRange(end - whole * WEEK_DAYS * DAY_MS, end - 1)
        self._system, self._weeks = self._recorded()
        # the middle of a week, in weeks from the end of the range
        self._times = np.asarray(self._weeks, np.float64) - 0.5

    def answer(self, context: GrowthContext) -> Growth:
        kinds = [one.kind for one in reversed(self._system.subjects) if not one.is_server]
        parts, counts = [], []
        outside, not_rated = self._unknown(""), 0
        loads = self._loads(kinds)
        for kind in kinds:
            subjects, values = self._by_week(loads.filter(pc.field("kind") == kind))
            slopes = self._slopes(values)
            parts.append(_rows(kind, subjects, slopes))
            counts.append(_counts(kind, slopes))
            if kind == self._system.unit.kind:
                outside, not_rated = self._outside(subjects, values, slopes, context.owners)
        return Growth(
            cluster=self._cluster,
            system=self._system.system,
            span=self._span,
            weeks=len(self._weeks),
            rows=pa.concat_tables(parts),
            counts=tuple(counts),
            full=self._full(context),
            outside=outside,
            not_rated=not_rated,
        )

    # -- weeks -------------------------------------------------------------------------------------

    def _recorded(self) -> tuple[SystemTiers, list[int]]:
        """Return the system, and the weeks with enough days; 0 is the last one, -1 before it."""
        found = self._ask(
            f"SELECT {_WEEK} AS week, count(*) AS days, max_by(system, taken_at) AS system "  # noqa: S608  # names of ours
            f"FROM rows WHERE kind = '{CLUSTER_KIND}' GROUP BY week ORDER BY week"
        )
        systems = [one for one in found["system"].to_pylist() if one in SYSTEM_TIERS]
        if not systems:
            raise HistoryError(
                f"No day of {self._cluster} is rolled up in this range.",
                hint=f"See `trimtab pipeline status {self._cluster}`.",
            )
        weeks = found.filter(pc.field("days") >= MIN_DAYS)["week"].to_pylist()
        return SYSTEM_TIERS[systems[-1]], weeks

    def _ask(self, sql: str) -> pa.Table:
        found = self._reader.ask(sql, DAYS, self._span, end=self._end)
        return _NOTHING if found is None else found

    def _loads(self, kinds: Sequence[str]) -> pa.Table:
        """Return the mean load of each object by week."""
        mean, minutes = (f"{self._system.flow}_{one}" for one in ("mean", "minutes"))
        return self._ask(
            f"SELECT kind, subject, {_WEEK} AS week, "  # noqa: S608  # names of ours
            f"sum({mean} * {minutes}) / sum({minutes}) AS load FROM rows "
            f"WHERE kind IN ({', '.join(map(quoted, kinds))}) AND {minutes} > 0 GROUP BY ALL"
        )

    def _by_week(self, loads: pa.Table) -> tuple[pa.Array, Floats]:
        """Return the objects of a kind, and their load by week; NaN is unknown."""
        coded = pc.dictionary_encode(loads["subject"].combine_chunks())
        values = np.full((len(coded.dictionary), len(self._weeks)), np.nan)
        weeks = loads["week"].to_numpy()
        known = np.flatnonzero(np.isin(weeks, self._weeks))
        rows = coded.indices.to_numpy(zero_copy_only=False)[known]
        values[rows, np.searchsorted(self._weeks, weeks[known])] = loads["load"].to_numpy()[known]
        return coded.dictionary, values

    def _slopes(self, values: Floats) -> Slopes:
        return slopes_of(self._times, values, 0.0, MIN_WEEKS)

    # -- forecasts ---------------------------------------------------------------------------------

    def _unknown(self, reason: str, limit: float | None = None, key: str = "") -> Forecast:
        return Forecast(state="unknown", reason=reason, limit=limit, limit_key=key)

    def _full(self, context: GrowthContext) -> Forecast:
        limit, key = context.limit_ratio, context.limit_key
        if not self._system.usage:
            return self._unknown(f"The days have no usage of a {self._system.server.kind}.")
        if limit is None:
            return self._unknown("No snapshot of the cluster has its settings.")
        if len(self._weeks) < MIN_WEEKS:
            return self._unknown(_too_few(len(self._weeks)), limit, key)
        mean, minutes = (f"{self._system.usage}_{one}" for one in ("mean", "minutes"))
        found = self._ask(
            f"SELECT {_WEEK} AS week, sum({mean} * {minutes}) / sum({minutes}) AS load "  # noqa: S608  # names of ours
            f"FROM rows WHERE kind = {quoted(self._system.server.kind)} AND {minutes} > 0 "
            "GROUP BY week"
        )
        by_week = dict(zip(found["week"].to_pylist(), found["load"].to_pylist(), strict=True))
        values = np.array([[by_week.get(one, np.nan) for one in self._weeks]])
        size = int(np.isfinite(values).sum())
        if size < MIN_WEEKS:
            return self._unknown(_too_few(size), limit, key)
        return self._forecasts(values - limit, values, np.array([limit]), [""], key)[0]

    def _outside(
        self, subjects: pa.Array, values: Floats, slopes: Slopes, owners: pa.Table | None
    ) -> tuple[Forecast, int]:
        """Return when the first server leaves the band, with the load of where everything is now.

        Objects with too few weeks count with their median in every week: a bundle of a split would
        else be growth of its broker.
        """
        if owners is None:
            return self._unknown("No snapshot of the cluster has owners.", self._target), 0
        if len(self._weeks) < MIN_WEEKS:
            return self._unknown(_too_few(len(self._weeks)), self._target), 0
        at = pc.index_in(owners["subject"], value_set=subjects)
        mine = owners.append_column("at", at).filter(pc.is_valid(at))
        rows = mine["at"].to_numpy()
        servers = pc.dictionary_encode(mine["server"].combine_chunks())
        size = len(servers.dictionary)
        if size <= 1:
            server, unit = self._system.server.kind, self._system.unit.kind
            reason = f"Fewer than two {server}s have {unit}s with days."
            return self._unknown(reason, self._target), 0
        level = medians(values)
        is_short = slopes.size < MIN_WEEKS
        steady = np.where(np.isfinite(values) & ~is_short[:, None], values, level[:, None])
        steady = np.nan_to_num(steady)[rows]
        place = servers.indices.to_numpy(zero_copy_only=False)
        loads = np.stack([np.bincount(place, week, minlength=size) for week in steady.T], axis=1)
        mean = loads.mean(axis=0)
        with np.errstate(divide="ignore", invalid="ignore"):
            deviation = loads / mean - 1
        names = servers.dictionary.to_pylist()
        above = self._forecasts(
            loads - (1 + self._target) * mean, deviation, np.full(size, self._target), names, ""
        )
        below = self._forecasts(
            (1 - self._target) * mean - loads, deviation, np.full(size, -self._target), names, ""
        )
        first = min(above + below, key=_urgency)
        return first, int(is_short[rows].sum()) + owners.num_rows - mine.num_rows

    def _forecasts(
        self, series: Floats, shown: Floats, limits: Floats, subjects: Sequence[str], key: str
    ) -> list[Forecast]:
        """Return when each series reaches 0 from below.

        Args:
            series: Shape ``(n, w)``: what has a linear trend.
            shown: The ratio that a limit is of, of the same shape.
            limits: Shape ``(n,)``.
            subjects: Of the same length.
            key: The setting of the limits.
        """
        trends, ratios = self._slopes(series), self._slopes(shown)
        month = MONTH_DAYS / WEEK_DAYS
        with np.errstate(divide="ignore", invalid="ignore"):
            weeks = -trends.level / np.stack([trends.slope, trends.high, trends.low])
        horizon = HORIZON_DAYS / WEEK_DAYS
        states = np.select(
            [~np.isfinite(ratios.slope), trends.level >= 0, trends.low <= 0, weeks[0] > horizon],
            ["unknown", "reached", "steady", "beyond"],
            "date",
        ).tolist()
        found = []
        for row, subject in enumerate(subjects):
            state: State = states[row]
            dates: list[int | None] = [None] * 3
            if state == "date":
                ahead = [float(one) for one in weeks[:, row]]
                dates = [
                    int(self._end + one * WEEK_DAYS * DAY_MS) if one <= horizon else None
                    for one in ahead
                ]
            found.append(
                Forecast(
                    state=state,
                    limit=float(limits[row]),
                    limit_key=key,
                    subject=subject,
                    now=_known(ratios.level[row]),
                    per_month=_known(ratios.slope[row] * month),
                    at_ms=dates[0],
                    earliest_ms=dates[1],
                    latest_ms=dates[2],
                    reason="The load is 0." if state == "unknown" else "",
                )
            )
        return found


_WEEK: Final = f"CAST(-(($end - taken_at - 1) // {WEEK_DAYS * DAY_MS}) AS BIGINT)"
_NOTHING: Final = pa.table(
    {
        "kind": pa.array([], pa.string()),
        "subject": pa.array([], pa.string()),
        "week": pa.array([], pa.int64()),
        "load": pa.array([], pa.float64()),
        "days": pa.array([], pa.int64()),
        "system": pa.array([], pa.string()),
    }
)


def _urgency(one: Forecast) -> tuple[int, float]:
    """Return an order: what is reached first, by distance from the target, then by date."""
    rank = ("reached", "date", "beyond", "steady", "unknown").index(one.state)
    return rank, -abs(one.now or 0.0) if one.at_ms is None else float(one.at_ms)


def _too_few(weeks: int) -> str:
    missing = MIN_WEEKS - weeks
    return (
        f"A trend needs {MIN_WEEKS} weeks with {MIN_DAYS} recorded days each; "
        f"{missing} {'is' if missing == 1 else 'are'} missing."
    )


def _rows(kind: str, subjects: pa.Array, slopes: Slopes) -> pa.Table:
    known = np.flatnonzero(np.isfinite(slopes.slope))
    month = MONTH_DAYS / WEEK_DAYS
    now, slope = slopes.level[known], slopes.slope[known] * month
    ratio = np.divide(slope, now, out=np.full(known.size, np.nan), where=now > 0)
    return pa.table(
        [
            pa.repeat(pa.scalar(kind), known.size),
            subjects.take(pa.array(known)),
            slopes.size[known],
            now,
            slope,
            slopes.low[known] * month,
            slopes.high[known] * month,
            pa.array(ratio, from_pandas=True),
        ],
        schema=GROWTH,
    )


def _counts(kind: str, slopes: Slopes) -> KindCounts:
    known = np.isfinite(slopes.slope)
    least = MIN_RATIO * slopes.level * WEEK_DAYS / MONTH_DAYS
    is_large = (np.abs(slopes.slope) >= least) & (slopes.level > 0)
    growing = int(((slopes.low > 0) & is_large).sum())
    shrinking = int(((slopes.high < 0) & is_large).sum())
    return KindCounts(
        kind=kind,
        growing=growing,
        shrinking=shrinking,
        steady=int(known.sum()) - growing - shrinking,
        too_short=int((~known).sum()),
    )


def _known(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None
