"""SQL of a tier: samples of the minutes, partial results of a period, and its rows.

One text for every engine. It uses what DuckDB and Spark define in the same way: sums of whole
numbers, one operation on doubles at a time, and bins by shifting bits. Only quoting and lists
differ (:class:`Dialect`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from core.history.store.layout import DAY_MS, FIRST_MONDAY_MS, HOUR_MS, WEEK_MS
from core.history.tiers.model import (
    BAND,
    BIN_BITS,
    CLUSTER_KIND,
    PERCENTILES,
    EventCount,
    Measure,
    SystemTiers,
    TierSubject,
)

MINUTE_MS: Final = 60_000
_MOST: Final = 10**14
"""Samples of so many or more (100 GB/s) are not measured but wrong: unknown."""

_KEY: Final = "cluster, starts_at, subject"


@dataclass(frozen=True, slots=True)
class Dialect:
    """What engines write differently.

    Attributes:
        quote: Of names.
        listed: Returns SQL of a column's values in the order of another, from both.
        spread: Returns SQL of a query with a row for each place of two lists, from the relation,
            the columns that stay, and the lists; they are called ``b`` and ``c``.
    """

    quote: str
    listed: Callable[[str, str], str]
    spread: Callable[[str, str, str, str], str]

    def query(self, sql: str) -> str:
        """Return a text in the form of the engine."""
        return sql if self.quote == '"' else sql.replace('"', self.quote)


def views(system: SystemTiers, dialect: Dialect) -> Iterator[tuple[str, str]]:
    """Yield the relations that hours are made from, by name, each after those that it reads.

    They read ``tier_minutes`` (cluster, taken_at, segment), ``tier_events`` and a relation
    ``tier_rows_<kind>`` for each subject with rows.
    """
    yield "tier_numbered", _NUMBERED
    yield "tier_recorded", _RECORDED
    for subject in system.subjects:
        if subject.rows:
            is_filled = subject.rows.endswith("_loads")
            spans = dialect.query(_spans(subject, is_filled=is_filled))
            yield f"tier_spans_{subject.kind}", spans
            yield f"tier_samples_{subject.kind}", _samples(subject, is_filled=is_filled)
        else:
            yield (
                f"tier_names_{subject.kind}",
                (
                    f"SELECT subject, {subject.key} AS parent FROM "  # noqa: S608  # names of ours
                    f"(SELECT DISTINCT subject FROM tier_samples_{subject.of}) names"
                ),
            )
            yield f"tier_samples_{subject.kind}", _sums(subject)
    yield "tier_load", _load(system)
    yield f"tier_samples_{CLUSTER_KIND}", _fleet(system)


_NUMBERED: Final = f"""
SELECT cluster, taken_at, segment, taken_at - taken_at % {HOUR_MS} AS starts_at,
  taken_at - taken_at % {MINUTE_MS} AS minute,
  row_number() OVER (PARTITION BY cluster, segment ORDER BY taken_at) AS n,
  count(*) OVER (PARTITION BY cluster, segment) AS last_n,
  row_number() OVER (PARTITION BY cluster, taken_at - taken_at % {MINUTE_MS}
    ORDER BY taken_at DESC, segment DESC) = 1 AS is_counted
FROM (SELECT DISTINCT cluster, taken_at, segment FROM tier_minutes) minutes"""  # noqa: S608  # numbers of ours
"""Snapshots with their place in their segment; the last one of a minute is the minute."""


_RECORDED: Final = """
SELECT cluster, starts_at, CAST(count(*) AS BIGINT) AS recorded FROM tier_numbered
WHERE is_counted GROUP BY cluster, starts_at"""


def _fixed(measure: Measure) -> str:
    limit = _MOST // measure.scale
    return (
        f"CASE WHEN ({measure.sql}) >= 0e0 AND ({measure.sql}) < {limit}e0 THEN "
        f"CAST(floor(({measure.sql}) * {measure.scale}e0 + 0.5e0) AS BIGINT) END"
    )


def _spans(subject: TierSubject, *, is_filled: bool) -> str:
    """Rows with the snapshots in which they hold: a missing row means that nothing changed."""
    loads = ", ".join(f"{_fixed(one)} AS {one.name}" for one in subject.measures)
    until = (
        "coalesce(lead(n) OVER (PARTITION BY cluster, segment, subject ORDER BY n), last_n + 1)"
        if is_filled
        else "n + 1"
    )
    gone = "coalesce(gone, false)" if is_filled else "false"
    where = f"AND ({subject.where})" if subject.where else ""
    return f"""
SELECT *, {until} AS until FROM (
  SELECT r.cluster AS cluster, m.starts_at AS starts_at, m.minute AS minute, m.segment AS segment,
    m.n AS n, m.last_n AS last_n, m.is_counted AS is_counted, {gone} AS is_gone,
    {subject.key} AS subject, {loads}
  FROM tier_rows_{subject.rows} r JOIN tier_numbered m
    ON m.cluster = r.cluster AND m.segment = r.segment AND m.taken_at = r.taken_at
  WHERE coalesce(r.copy, 0) = 0 {where}) held"""  # noqa: S608  # names of ours


def _samples(subject: TierSubject, *, is_filled: bool) -> str:
    """One row a subject and minute, ``members`` is 1."""
    loads = ", ".join(f"s.{one.name} AS {one.name}" for one in subject.measures)
    spans = f"tier_spans_{subject.kind} s"
    alone = (
        "SELECT s.cluster AS cluster, s.starts_at AS starts_at, s.subject AS subject, "  # noqa: S608  # names of ours
        f"s.minute AS minute, {loads} FROM {spans} "
        "WHERE s.is_counted AND NOT s.is_gone AND s.until = s.n + 1"
    )
    if not is_filled:
        return alone
    return (
        f"{alone} UNION ALL "  # noqa: S608  # names of ours
        "SELECT s.cluster, m.starts_at, s.subject, m.minute, "
        f"{loads} FROM {spans} JOIN tier_numbered m "
        "ON m.cluster = s.cluster AND m.segment = s.segment "
        "WHERE m.n >= s.n AND m.n < s.until AND s.until > s.n + 1 "
        "AND m.is_counted AND NOT s.is_gone"
    )


def _sums(subject: TierSubject) -> str:
    """Samples of what others come to together; unknown where none of them is known."""
    own = ", ".join(
        f"CAST(sum(s.{one.name}) AS BIGINT) AS {one.name}"
        if one.sql
        else f"CAST(count(*) AS BIGINT) AS {one.name}"
        for one in subject.measures
    )
    return f"""
SELECT s.cluster AS cluster, s.starts_at AS starts_at, p.parent AS subject,
  s.minute AS minute, {own}
FROM tier_samples_{subject.of} s JOIN tier_names_{subject.kind} p ON p.subject = s.subject
GROUP BY s.cluster, s.starts_at, p.parent, s.minute"""  # noqa: S608  # names of ours


def _load(system: SystemTiers) -> str:
    """Load of the servers by minute, as doubles of whole numbers: every engine has the same."""
    flow = f"s.{system.flow}"
    return f"""
SELECT t.cluster AS cluster, t.minute AS minute, t.total AS total, t.known AS known,
  t.servers AS servers,
  max(abs(CAST({flow} AS DOUBLE) * t.known - CAST(t.total AS DOUBLE))) AS largest
FROM tier_samples_{system.server.kind} s JOIN (
  SELECT cluster, minute, CAST(sum({system.flow}) AS BIGINT) AS total,
    CAST(count({system.flow}) AS DOUBLE) AS known, CAST(count(*) AS BIGINT) AS servers
  FROM tier_samples_{system.server.kind} GROUP BY cluster, minute) t
  ON t.cluster = s.cluster AND t.minute = s.minute
GROUP BY t.cluster, t.minute, t.total, t.known, t.servers"""  # noqa: S608  # names of ours


def _fleet(system: SystemTiers) -> str:
    ratio = "l.largest / CAST(l.total AS DOUBLE)"
    return f"""
SELECT m.cluster AS cluster, m.starts_at AS starts_at, '' AS subject, m.minute AS minute,
  l.total AS {system.flow}, coalesce(l.servers, 0) AS servers,
  CASE WHEN l.total > 0 THEN CAST(floor({ratio} * 1000000e0 + 0.5e0) AS BIGINT) END AS deviation,
  CASE WHEN l.total > 0 THEN CASE WHEN l.largest > {BAND}e0 * CAST(l.total AS DOUBLE)
    THEN 1 ELSE 0 END END AS outside
FROM tier_numbered m LEFT JOIN tier_load l ON l.cluster = m.cluster AND l.minute = m.minute
WHERE m.is_counted"""  # noqa: S608  # names of ours


def _with_band(system: SystemTiers, subject: TierSubject) -> str:
    """Samples of servers with whether each is outside the band."""
    if subject.kind == CLUSTER_KIND or not subject.is_server:
        return f"tier_samples_{subject.kind}"
    off = f"abs(CAST(s.{system.flow} AS DOUBLE) * l.known - CAST(l.total AS DOUBLE))"
    return (
        f"(SELECT s.*, CASE WHEN l.total > 0 THEN CASE WHEN {off} > {BAND}e0 * "  # noqa: S608  # names of ours
        f"CAST(l.total AS DOUBLE) THEN 1 ELSE 0 END END AS outside "
        f"FROM tier_samples_{subject.kind} s JOIN tier_load l "
        "ON l.cluster = s.cluster AND l.minute = s.minute)"
    )


def hour_query(system: SystemTiers, subject: TierSubject, dialect: Dialect) -> str:
    """Return the query of a subject's hours, over the relations of :func:`views`."""
    loads = [
        f"CAST(sum({one.name}) AS BIGINT) AS {one.name}_sum, count({one.name}) AS "
        f"{one.name}_minutes, max({one.name}) AS {one.name}_top"
        for one in subject.measures
    ]
    if subject.has_band:
        loads.append("CAST(sum(outside) AS BIGINT) AS outside_minutes")
    partial = (
        f"SELECT {_KEY}, count(*) AS minutes_seen, {', '.join(loads)} "  # noqa: S608  # names of ours
        f"FROM {_with_band(system, subject)} samples GROUP BY {_KEY}"
    )
    bins = {
        one.name: f"SELECT {_KEY}, {_BIN} AS b, count(*) AS c FROM "  # noqa: S608  # names of ours
        f"(SELECT {_KEY}, v, {_EXPONENT} AS e FROM (SELECT {_KEY}, {one.name} AS v, "
        f"CAST(floor(log2(CAST(greatest({one.name}, {1 << BIN_BITS}) AS DOUBLE))) AS INT) AS guess "
        f"FROM tier_samples_{subject.kind} WHERE {one.name} IS NOT NULL) raw) exact "
        f"GROUP BY {_KEY}, {_BIN}"
        for one in subject.measures
        if one.is_binned
    }
    counts = {one.name: dialect.query(_counted(one)) for one in subject.counts}
    return _finished(subject, dialect, partial, bins, counts, "tier_recorded", 60)


def minute_query(subject: TierSubject) -> str:
    """Return the query of the minutes of ``$name``, over the relations of :func:`views`.

    For DuckDB only: a question about minutes is about one subject.
    """
    loads = ", ".join(
        f"CAST({one.name} AS DOUBLE) / {one.scale}e0 AS {one.name}" for one in subject.measures
    )
    return (
        f"SELECT minute AS taken_at, {loads} FROM tier_samples_{subject.kind} "  # noqa: S608  # names of ours
        "WHERE subject = $name ORDER BY minute"
    )


_ONE: Final = "CAST(1 AS BIGINT)"
_EXPONENT: Final = (
    f"CASE WHEN ({_ONE} << guess) > v AND guess > {BIN_BITS} THEN guess - 1 "
    f"WHEN ({_ONE} << (guess + 1)) <= v THEN guess + 1 ELSE guess END"
)
"""Place of the leading bit, exact where the logarithm is rounded across a power of two."""

_BIN: Final = f"CAST((e - {BIN_BITS}) * {1 << BIN_BITS} + (v >> (e - {BIN_BITS})) AS INT)"


_SHIFT: Final = f"greatest((b >> {BIN_BITS}) - 1, 0)"
_MIDDLE: Final = (
    f"CAST(CASE WHEN b < {2 << BIN_BITS} THEN CAST(b AS BIGINT) "
    f"ELSE (2 * CAST(b - {1 << BIN_BITS} * {_SHIFT} AS BIGINT) + 1) "
    f"<< greatest((b >> {BIN_BITS}) - 2, 0) END AS DOUBLE)"
)
"""The whole number in the middle of a bin."""


def _counted(count: EventCount) -> str:
    kinds = ", ".join(f"'{one}'" for one in count.kinds)
    where = f"AND {count.where}" if count.where else ""
    return (
        f"SELECT cluster, starts_at, subject, count(*) AS c FROM (SELECT cluster, taken_at - "  # noqa: S608  # names of ours
        f"taken_at % {HOUR_MS} AS starts_at, {count.key} AS subject FROM tier_events "
        f'WHERE "kind" IN ({kinds}) {where}) events GROUP BY {_KEY}'
    )


def day_query(subject: TierSubject, dialect: Dialect) -> str:
    """Return the query of a subject's days, over ``tier_hours``: rows of the tier of hours."""
    mine = (
        f"(SELECT *, taken_at - taken_at % {DAY_MS} AS starts_at FROM tier_hours "  # noqa: S608  # names of ours
        f"WHERE kind = '{subject.kind}')"
    )
    loads = [
        f"CAST(sum(CAST(floor({one.name}_mean * {one.name}_minutes * {one.scale}e0 + 0.5e0) AS "
        f"BIGINT)) AS BIGINT) AS {one.name}_sum, CAST(sum({one.name}_minutes) AS BIGINT) AS "
        f"{one.name}_minutes, CAST(floor(max({one.name}_max) * {one.scale}e0 + 0.5e0) AS BIGINT) "
        f"AS {one.name}_top"
        for one in subject.measures
    ]
    if subject.has_band:
        loads.append("CAST(sum(outside_minutes) AS BIGINT) AS outside_minutes")
    partial = (
        f"SELECT {_KEY}, CAST(sum(minutes_seen) AS BIGINT) AS minutes_seen, {', '.join(loads)} "  # noqa: S608  # names of ours
        f"FROM {mine} hours GROUP BY {_KEY}"
    )
    bins = {
        one.name: f"SELECT {_KEY}, CAST(b AS INT) AS b, CAST(sum(c) AS BIGINT) AS c FROM ("  # noqa: S608  # names of ours
        + dialect.spread(mine, _KEY, f"{one.name}_bins", f"{one.name}_counts")
        + f") spread GROUP BY {_KEY}, CAST(b AS INT)"
        for one in subject.measures
        if one.is_binned
    }
    counts = {
        one.name: f"SELECT {_KEY}, CAST(sum({one.name}) AS BIGINT) AS c FROM {mine} hours "  # noqa: S608  # names of ours
        f"GROUP BY {_KEY}"
        for one in subject.counts
    }
    recorded = (
        f"(SELECT cluster, taken_at - taken_at % {DAY_MS} AS starts_at, "  # noqa: S608  # names of ours
        "CAST(sum(minutes_seen) AS BIGINT) AS recorded FROM tier_hours "
        f"WHERE kind = '{CLUSTER_KIND}' GROUP BY cluster, taken_at - taken_at % {DAY_MS})"
    )
    return _finished(subject, dialect, partial, bins, counts, recorded, 24 * 60)


def _finished(
    subject: TierSubject,
    dialect: Dialect,
    partial: str,
    bins: dict[str, str],
    counts: dict[str, str],
    recorded: str,
    minutes: int,
) -> str:
    """Rows of a tier from sums, bins and counts of events."""
    columns = [
        "p.cluster AS cluster",
        "p.starts_at AS taken_at",
        f"'{subject.kind}' AS kind",
        "p.subject AS subject",
        "CAST(p.minutes_seen AS INT) AS minutes_seen",
        f"CAST({minutes} - r.recorded AS INT) AS minutes_missing",
        *_values(subject.measures),
        *(f"CAST(coalesce(n_{name}.c, 0) AS INT) AS {name}" for name in counts),
    ]
    if subject.has_band:
        columns.append("CAST(p.outside_minutes AS INT) AS outside_minutes")
    joins = [f"JOIN {recorded} r ON r.cluster = p.cluster AND r.starts_at = p.starts_at"]
    joins += [_joined(_distribution(sql, dialect), f"b_{name}") for name, sql in bins.items()]
    joins += [_joined(f"({sql})", f"n_{name}") for name, sql in counts.items()]
    return f"SELECT {', '.join(columns)} FROM ({partial}) p {' '.join(joins)}"  # noqa: S608  # names of ours


def _joined(relation: str, name: str) -> str:
    return (
        f"LEFT JOIN {relation} {name} ON {name}.cluster = p.cluster "
        f"AND {name}.starts_at = p.starts_at AND {name}.subject = p.subject"
    )


def _distribution(bins: str, dialect: Dialect) -> str:
    """Percentiles by nearest rank (the middle of their bin), and the bins as lists."""
    ranks = ", ".join(
        f"min(CASE WHEN upto * 100 >= total * {one} THEN middle END) AS p{one}"
        for one in PERCENTILES
    )
    return (
        f"(SELECT {_KEY}, {ranks}, {dialect.listed('b', 'b')} AS bins, "  # noqa: S608  # names of ours
        f"{dialect.listed('c', 'b')} AS counts FROM (SELECT *, {_MIDDLE} AS middle, "
        f"sum(c) OVER (PARTITION BY {_KEY} ORDER BY b) AS upto, "
        f"sum(c) OVER (PARTITION BY {_KEY}) AS total FROM ({bins}) one) ranked GROUP BY {_KEY})"
    )


def _values(measures: Iterable[Measure]) -> Iterator[str]:
    for one in measures:
        name, scale = one.name, f"{one.scale}e0"
        top = f"CAST(p.{name}_top AS DOUBLE)"
        yield f"CAST(p.{name}_sum AS DOUBLE) / nullif(p.{name}_minutes, 0) / {scale} AS {name}_mean"
        yield f"{top} / {scale} AS {name}_max"
        if one.is_binned:
            for percent in PERCENTILES:
                rank = f"b_{name}.p{percent}"
                yield (
                    f"CASE WHEN {rank} >= {top} THEN {top} ELSE {rank} END / {scale} "
                    f"AS {name}_p{percent}"
                )
        yield f"CAST(p.{name}_minutes AS INT) AS {name}_minutes"
        if one.is_binned:
            yield f"b_{name}.bins AS {name}_bins"
            yield f"b_{name}.counts AS {name}_counts"


MIN_WEEKS: Final = 2
"""Hours of the week that were seen less often have no spread."""

_HOUR_OF_WEEK: Final = (
    f"(taken_at - {FIRST_MONDAY_MS}) % {WEEK_MS} + {FIRST_MONDAY_MS} AS starts_at"
)


def profile_query(subject: TierSubject) -> str:
    """Return the query of a subject's weekly profiles, over ``tier_hours``.

    The hours are those of the weeks that count. Level: median of their means; spread: median
    absolute deviation from it. Both are of the two middle ones, so every engine has the same bits.
    """
    measures = subject.profiled
    means = ", ".join(f"{one.name}_mean" for one in measures)
    mine = (
        f"(SELECT cluster, subject, {_HOUR_OF_WEEK}, {means} FROM tier_hours "  # noqa: S608  # names of ours
        f"WHERE kind = '{subject.kind}')"
    )
    columns = [
        "p.cluster AS cluster",
        "p.starts_at AS taken_at",
        f"'{subject.kind}' AS kind",
        "p.subject AS subject",
        f"CAST(floor((p.starts_at - {FIRST_MONDAY_MS}) / {DAY_MS}e0) AS INT) AS weekday",
        f"CAST(floor(p.starts_at % {DAY_MS} / {HOUR_MS}e0) AS INT) AS hour",
    ]
    joins = []
    for one in measures:
        name = one.name
        values = f"SELECT {_KEY}, {name}_mean AS v FROM {mine} hours WHERE {name}_mean IS NOT NULL"  # noqa: S608  # names of ours
        level = (
            f"(SELECT {_KEY}, {_MEDIAN} AS level, max(k) AS weeks FROM {_ranked(values)} r "  # noqa: S608  # names of ours
            f"GROUP BY {_KEY})"
        )
        off = (
            f"SELECT v.cluster AS cluster, v.starts_at AS starts_at, v.subject AS subject, "  # noqa: S608  # names of ours
            f"abs(v.v - l.level) AS v FROM ({values}) v JOIN {level} l ON l.cluster = v.cluster "
            "AND l.starts_at = v.starts_at AND l.subject = v.subject"
        )
        spread = f"(SELECT {_KEY}, {_MEDIAN} AS spread FROM {_ranked(off)} r GROUP BY {_KEY})"  # noqa: S608  # names of ours
        joins += [_joined(level, f"l_{name}"), _joined(spread, f"s_{name}")]
        columns += [
            f"l_{name}.level AS {name}_level",
            f"CASE WHEN l_{name}.weeks >= {MIN_WEEKS} THEN s_{name}.spread END AS {name}_spread",
            f"CAST(coalesce(l_{name}.weeks, 0) AS INT) AS {name}_weeks",
        ]
    whole = f"(SELECT {_KEY} FROM {mine} hours GROUP BY {_KEY})"  # noqa: S608  # names of ours
    return f"SELECT {', '.join(columns)} FROM {whole} p {' '.join(joins)}"  # noqa: S608  # names of ours


_MEDIAN: Final = (
    "(max(CASE WHEN 2 * n = k OR 2 * n = k + 1 THEN v END) + "
    "max(CASE WHEN 2 * n = k + 1 OR 2 * n = k + 2 THEN v END)) / 2e0"
)


def _ranked(values: str) -> str:
    """Values with their place ``n`` among ``k``."""
    return (
        f"(SELECT *, row_number() OVER (PARTITION BY {_KEY} ORDER BY v) AS n, "  # noqa: S608  # names of ours
        f"count(*) OVER (PARTITION BY {_KEY}) AS k FROM ({values}) one)"
    )
