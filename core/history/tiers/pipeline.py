"""The pipeline: minutes that came since the last turn become hours, and those become days.

A period is made again when its **revision** differs: for an hour the committed minutes that it is
made from, for a day its hours. The revision is in the row of the cluster, so it is in the commit
that has the rows: a pipeline killed anywhere goes on where its last commit was, and makes nothing
twice. The commit also has the version of ``minutes`` that was read as an application transaction
named by the cluster: of two pipelines that commit at once, the second fails and reads again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from core.history.store.layout import DAY_MS, HOUR_MS, MINUTES, WEEK_MS, HistoryError, day_of
from core.history.store.reading import TimeRange, where
from core.history.store.retention import added_files, sizes, tidied
from core.history.store.tables import ConflictingCommitError, Tables
from core.history.tiers.local import IN_PROCESS, TierEngine, days_here, ordered, tier_columns
from core.history.tiers.model import CLUSTER_KIND, PROFILE_WEEKS
from core.history.tiers.partitions import (
    condition,
    hour_of_week,
    partition_end,
    partition_start,
    tier_booked,
)
from core.history.tiers.registry import (
    DAYS,
    FORMAT,
    HOURS,
    PROFILES,
    SYSTEM_TIERS,
    TIERS,
    tier_tables,
)
from core.progress import NoProgress, Progress
from core.snapshot.record import SEGMENT, TAKEN_AT, Kind

if TYPE_CHECKING:
    from deltalake import DeltaTable

    from core.history.store.store import HistoryStore

CLOSED_AFTER_MS: Final = 300_000
"""An hour is made this long after its end: a slow writer may still be at its last minute."""

SPARK_BYTES: Final = 4 * 1024**3
"""Minutes to read from which Spark is worth its start: an estimate, not measured."""

MERGED_ROWS: Final = 250_000
"""Rows of a merged file, at most. Of 100 brokers x 10,000 bundles, a month is two files."""

_PROFILED_ROWS: Final = 250_000
"""Rows of hours that are read at once to make profiles."""

_ATTEMPTS: Final = 5


@dataclass(frozen=True, slots=True)
class Period:
    """An hour or a day, and what it is made from.

    Attributes:
        start: ms.
        system: Of the cluster in it.
        snapshots: Committed in it, of that system.
        revision: Number that other minutes or hours do not have.
    """

    start: int
    system: str
    snapshots: int
    revision: int


@dataclass(frozen=True, slots=True)
class PipelineResult:
    """Result of a turn.

    Attributes:
        hours: Hours that were made.
        days: Days that were made.
        rows: Rows that were written.
    """

    hours: int = 0
    days: int = 0
    rows: int = 0

    def plus(self, other: PipelineResult) -> PipelineResult:
        """Return the sum of two."""
        return PipelineResult(
            self.hours + other.hours, self.days + other.days, self.rows + other.rows
        )


@dataclass(frozen=True, slots=True)
class PipelineStatus:
    """State of the tiers of a cluster.

    Attributes:
        hours: Hours that are there.
        days: Days that are there.
        first: Start of the first hour, ms; ``None``: there is none.
        last: Start of the last one.
        due: Hours with minutes that are not in the tiers yet; the open hour is none of them.
        due_from: Start of the first of them, ms; ``None``: none is due.
        position: Version of ``minutes`` at the last commit; ``None``: there was none.
        bytes: Size of both tiers.
    """

    hours: int
    days: int
    first: int | None
    last: int | None
    due: int
    due_from: int | None
    position: int | None
    bytes: int


def roll_up(
    store: HistoryStore,
    cluster: str,
    now_ms: int,
    *,
    only: TimeRange | None = None,
    engine: TierEngine = IN_PROCESS,
    progress: Progress | None = None,
) -> PipelineResult:
    """Make the hours and days that are due.

    Args:
        store: The history.
        cluster: Its name.
        now_ms: Now; hours that ended five minutes before are closed.
        only: Make the hours with minutes in it again, due or not.
        engine: Computes the rows.
        progress: Receives the hours done; stops between two commits.
    Raises:
        HistoryError: Something cannot be read or written; all other days were made.
        JobStoppedError: A stop was requested.
    """
    tiers = tier_tables(store)
    total = PipelineResult()
    for _ in range(_ATTEMPTS):
        try:
            failure = None
            for result in _turn(
                store, tiers, cluster, now_ms, only, engine, progress or NoProgress()
            ):
                if isinstance(result, HistoryError):
                    failure = failure or result
                else:
                    total = total.plus(result)
            if failure is not None:
                raise failure
        except ConflictingCommitError:  # another pipeline was faster: what is left is read again
            continue
        return total
    raise HistoryError(
        f"Too many pipelines roll up {cluster!r} at the same time.", hint="Try again in a minute."
    )


def _turn(
    store: HistoryStore,
    tiers: Tables,
    cluster: str,
    now_ms: int,
    only: TimeRange | None,
    engine: TierEngine,
    progress: Progress,
) -> Iterator[PipelineResult | HistoryError]:
    """Yield the result of each commit, or why there is none."""
    # before all that is read: of two pipelines the second one to commit finds the first one's
    basis = tiers.fresh(HOURS)
    version, periods = _due(store, tiers, cluster, now_ms, only, basis)
    done = 0
    for system, of_day in _batches(periods):
        progress.step(done, len(periods), f"hours of {cluster}")
        done += len(of_day)
        try:
            rows = engine.hours(store, cluster, SYSTEM_TIERS[system], [one.start for one in of_day])
        except HistoryError as exc:  # a damaged day must not stop those after it
            yield exc
            continue
        yield _commit(tiers, HOURS, cluster, rows, of_day, version, basis)
    basis = tiers.fresh(DAYS)
    made = _made(tiers, DAYS, cluster, basis)
    for day, hours in _days(_made(tiers, HOURS, cluster)):
        before = made.get(day.start)
        # fewer where old hours were dropped and a late minute came: the day keeps what it has
        is_whole = before is None or only is not None or day.snapshots >= before.snapshots
        if before != day and is_whole:
            rows = _day_rows(tiers, cluster, day, hours)
            yield _commit(tiers, DAYS, cluster, rows, [day], version, basis)
    yield from _profiled(store, tiers, cluster, engine, version)


def _profiled(
    store: HistoryStore, tiers: Tables, cluster: str, engine: TierEngine, version: int
) -> Iterator[PipelineResult]:
    """Make the weekly profiles of which an hour came, changed or is too old; a commit each."""
    basis = tiers.fresh(PROFILES)
    made, hours = _made(tiers, PROFILES, cluster, basis), _made(tiers, HOURS, cluster)
    of_week = _hours_of_week(hours)
    gone = sorted(set(made) - set(of_week))
    if gone:
        nothing = tier_columns(PROFILES).empty_table()
        yield _commit(
            tiers, PROFILES, cluster, nothing, [made[one] for one in gone], version, basis
        )
    due = [(one, starts) for one, starts in of_week.values() if made.get(one.start) != one]
    rows_of_hour = pc.sum(added_files(tiers, HOURS, cluster)["rows"]).as_py() or 1
    rows_of_hour = -(-rows_of_hour // max(len(hours), 1))
    size = max(_PROFILED_ROWS // (rows_of_hour * PROFILE_WEEKS), 1)
    for at in range(0, len(due), size):
        some = due[at : at + size]
        system = SYSTEM_TIERS[some[0][0].system]
        starts = [start for _, of_slot in some for start in of_slot]
        rows = engine.profiles(store, cluster, system, starts)
        periods = [period for period, _ in some]
        yield _commit(tiers, PROFILES, cluster, rows, periods, version, basis)


def _hours_of_week(made: Mapping[int, Period]) -> dict[int, tuple[Period, list[int]]]:
    """Return each hour of the week with the hours of the last weeks that its profile is made of.

    Hours of another system than the newest one do not count.
    """
    found: dict[int, list[Period]] = {}
    newest = max(made, default=0)
    for start in sorted(made):
        if start > newest - PROFILE_WEEKS * WEEK_MS and made[start].system == made[newest].system:
            found.setdefault(hour_of_week(start), []).append(made[start])
    return {
        start: (
            Period(
                start,
                hours[-1].system,
                sum(one.snapshots for one in hours),
                _revision(np.array([[one.start, one.revision] for one in hours], np.int64)),
            ),
            [one.start for one in hours],
        )
        for start, hours in sorted(found.items())
    }


def status(store: HistoryStore, cluster: str, now_ms: int) -> PipelineStatus:
    """Return the state of a cluster's tiers.

    Raises:
        HistoryError: They cannot be read.
    """
    tiers = tier_tables(store)
    hours, days = (sorted(_made(tiers, kind, cluster)) for kind in (HOURS, DAYS))
    table = tiers.table(HOURS.name)
    due = _due(store, tiers, cluster, now_ms, None)[1]
    return PipelineStatus(
        hours=len(hours),
        days=len(days),
        first=hours[0] if hours else None,
        last=hours[-1] if hours else None,
        due=len(due),
        due_from=due[0].start if due else None,
        position=None if table is None else table.transaction_version(cluster),
        bytes=sum(size.bytes for size in sizes(tiers, cluster).values()),
    )


def is_for_spark(
    store: HistoryStore, cluster: str, now_ms: int, only: TimeRange | None, engine: str, master: str
) -> bool:
    """Return whether Spark makes the hours of a turn.

    Args:
        store: The history.
        cluster: Its name.
        now_ms: Now.
        only: As in :func:`roll_up`.
        engine: ``local``, ``spark``, or ``auto``: Spark for :data:`SPARK_BYTES` of minutes and more
            if ``master`` is more than this machine.
        master: Of Spark.
    Raises:
        HistoryError: The minutes cannot be read.
    """
    if engine != "auto" or master.startswith("local"):
        return engine == "spark"
    due = sum(one.snapshots for one in _due(store, tier_tables(store), cluster, now_ms, only)[1])
    recorded = sum(one.snapshots for one in _recorded(store, cluster, TimeRange()))
    size = sum(one.bytes for one in store.sizes(cluster).values())
    return due > 0 and due * size >= SPARK_BYTES * recorded


def keep_in_order(
    store: HistoryStore, cluster: str, now_ms: int, hours_max_age_days: float
) -> list[str]:
    """Drop old hours, merge the files of closed days and months, and remove replaced files.

    Hours are dropped only where the tier of days has exactly them, by revision.

    Args:
        store: The history.
        cluster: Its name.
        now_ms: Now.
        hours_max_age_days: Age from which hours are dropped, by whole days.
    Returns:
        The days whose hours were dropped, oldest first.
    Raises:
        HistoryError: Something cannot be read or written.
    """
    tiers = tier_tables(store)
    oldest = int(now_ms - hours_max_age_days * DAY_MS)
    dropped = _drop_hours(store, tiers, cluster, oldest)
    for kind in TIERS:
        _merge(tiers, kind, cluster, now_ms)
        tidied(tiers, kind)
    return dropped


def _drop_hours(store: HistoryStore, tiers: Tables, cluster: str, oldest: int) -> list[str]:
    """Drop the hours of whole days before a time; return the days."""
    basis = tiers.fresh(HOURS)
    position = basis.transaction_version(cluster) or 0  # what the tier has seen stays
    made, of_days = _made(tiers, HOURS, cluster, basis), _made(tiers, DAYS, cluster)
    # hours that still have minutes would be made again
    recorded = {one.start for one in _recorded(store, cluster, TimeRange(end=oldest))}
    dropped: list[str] = []
    for day, _ in _days({start: one for start, one in made.items() if start < oldest}):
        starts = [start for start in made if day.start <= start < day.start + DAY_MS]
        is_old = day.start + DAY_MS <= oldest and of_days.get(day.start) == day
        if not is_old or not recorded.isdisjoint(starts):
            continue
        nothing = tier_booked(HOURS, cluster, tier_columns(HOURS).empty_table())
        whole = _of(HOURS, cluster, starts)
        try:
            tiers.replace(HOURS, nothing, whole, basis, only_one=cluster, version=position)
        except ConflictingCommitError:  # a pipeline is at it: the next turn does it
            break
        dropped.append(day_of(day.start))
    return dropped


def _merge(tiers: Tables, kind: Kind, cluster: str, now_ms: int) -> None:
    """Merge the files of closed partitions, so that the rows of an object are next to each other.

    A file has :data:`MERGED_ROWS` at most, of periods that follow each other.
    """
    basis = tiers.fresh(kind)
    position = basis.transaction_version(cluster) or 0
    added = added_files(tiers, kind, cluster)
    firsts, rows = (pc.fill_null(added[one], 0).to_numpy() for one in ("first", "rows"))
    made = sorted(_made(tiers, kind, cluster, basis))
    for first, periods in groupby(made, key=lambda start: partition_start(kind, start)):
        end = partition_end(kind, first)
        mine = (firsts >= first) & (firsts < end)
        starts = list(periods)
        needed = min(-(-int(rows[mine].sum()) // MERGED_ROWS), len(starts))
        if kind is PROFILES:  # each hour writes to the present day of the week
            is_open = first <= hour_of_week(now_ms - CLOSED_AFTER_MS) < end
        else:
            is_open = end + CLOSED_AFTER_MS > now_ms
        if is_open or int(mine.sum()) <= needed:
            continue
        for places in np.array_split(np.arange(len(starts)), needed):
            some = [starts[place] for place in places.tolist()]
            merged = tier_booked(kind, cluster, tier_rows(tiers, kind, cluster, some))
            whole = _of(kind, cluster, some)
            try:
                tiers.replace(kind, merged, whole, basis, only_one=cluster, version=position)
            except ConflictingCommitError:  # a pipeline is at it: the next turn does it
                return


def verify(
    store: HistoryStore,
    cluster: str,
    count: int,
    seed: int,
    *,
    engine: TierEngine = IN_PROCESS,
    progress: Progress | None = None,
) -> tuple[list[Period], list[tuple[str, int]]]:
    """Compare drawn hours with their minutes, and their days and profiles with the hours.

    Args:
        store: The history.
        cluster: Its name.
        count: Hours, at most.
        seed: Of the draw.
        engine: Computes the rows.
        progress: Receives the hours done.
    Returns:
        The hours that were compared, and for each difference the tier and the start of the period.
        An hour whose minutes were dropped or changed since is not compared.
    Raises:
        HistoryError: Something cannot be read.
    """
    tiers = tier_tables(store)
    made = _made(tiers, HOURS, cluster)
    same = [one for one in _recorded(store, cluster, TimeRange()) if made.get(one.start) == one]
    places = np.random.default_rng(seed).permutation(len(same))[:count]
    chosen = [same[at] for at in sorted(places.tolist())]
    wrong: list[tuple[str, int]] = []
    for done, one in enumerate(chosen):
        (progress or NoProgress()).step(done, len(chosen), f"hours of {cluster}")
        again = _stamped(engine.hours(store, cluster, SYSTEM_TIERS[one.system], [one.start]), [one])
        if not again.equals(tier_rows(tiers, HOURS, cluster, [one.start])):
            wrong.append((HOURS.name, one.start))
    drawn = {one.start // DAY_MS * DAY_MS for one in chosen}
    of_days = _made(tiers, DAYS, cluster)
    for day, hours in _days(made):
        if day.start in drawn and of_days.get(day.start) == day:
            again = _stamped(_day_rows(tiers, cluster, day, hours), [day])
            if not again.equals(tier_rows(tiers, DAYS, cluster, [day.start])):
                wrong.append((DAYS.name, day.start))
    drawn = {hour_of_week(one.start) for one in chosen}
    wrong += [(PROFILES.name, one) for one in _wrong_profiles(store, cluster, drawn, made, engine)]
    return chosen, wrong


def _wrong_profiles(
    store: HistoryStore,
    cluster: str,
    drawn: AbstractSet[int],
    hours: Mapping[int, Period],
    engine: TierEngine,
) -> Iterator[int]:
    """Yield those of some hours of the week whose stored profile is not that of its hours."""
    tiers = tier_tables(store)
    made = _made(tiers, PROFILES, cluster)
    for period, starts in _hours_of_week(hours).values():
        if period.start in drawn and made.get(period.start) == period:
            rows = engine.profiles(store, cluster, SYSTEM_TIERS[period.system], starts)
            stored = tier_rows(tiers, PROFILES, cluster, [period.start])
            if not _stamped(rows, [period]).equals(stored):
                yield period.start


def tier_rows(tiers: Tables, kind: Kind, cluster: str, starts: Sequence[int]) -> pa.Table:
    """Return all rows of some periods, by kind, subject and time."""
    if not starts:
        return tier_columns(kind).empty_table()
    return ordered(tiers.scan(kind, tier_columns(kind).names, _of(kind, cluster, starts)))


def _of(kind: Kind, cluster: str, starts: Sequence[int]) -> str:
    """SQL of the rows of some periods."""
    whole = condition(kind, cluster, TimeRange(min(starts), max(starts)))
    return f"{whole} AND {TAKEN_AT} IN ({', '.join(str(one) for one in starts)})"


def _due(
    store: HistoryStore,
    tiers: Tables,
    cluster: str,
    now_ms: int,
    only: TimeRange | None,
    basis: DeltaTable | None = None,
) -> tuple[int, list[Period]]:
    """Return the version of ``minutes`` and the closed hours that have to be made, oldest first."""
    minutes = store.tables.table(MINUTES.name)
    if minutes is None:
        return 0, []
    version = int(minutes.version())  # before the minutes: what comes later is due again
    closed = open_hour(now_ms)
    made = _made(tiers, HOURS, cluster, basis)
    periods = []
    for one in _recorded(store, cluster, _whole_hours(only or TimeRange())):
        before = made.get(one.start)
        # fewer than were seen is a loss of minutes: the tier keeps what it has of them
        is_due = before is None or (before != one and one.snapshots >= before.snapshots)
        if one.start < closed and (is_due or only is not None):
            periods.append(one)
    return version, periods


def open_hour(now_ms: int) -> int:
    """Return the start of the first hour that is not closed, ms."""
    return (now_ms - CLOSED_AFTER_MS) // HOUR_MS * HOUR_MS


def _whole_hours(span: TimeRange) -> TimeRange:
    """Return the hours that a time range touches: an hour is made of all its minutes or not."""
    return TimeRange(
        None if span.start is None else span.start // HOUR_MS * HOUR_MS,
        None if span.end is None else span.end // HOUR_MS * HOUR_MS + HOUR_MS - 1,
    )


def _recorded(store: HistoryStore, cluster: str, span: TimeRange) -> list[Period]:
    """Return the hours that have minutes, oldest first."""
    columns = (TAKEN_AT, SEGMENT, "system")
    found = store.tables.scan(MINUTES, columns, where(cluster, span))
    found = found.filter(pc.is_in(found["system"], value_set=pa.array(list(SYSTEM_TIERS))))
    found = found.sort_by([(TAKEN_AT, "ascending"), (SEGMENT, "ascending")])
    times = found[TAKEN_AT].to_numpy()
    segments = pc.fill_null(found[SEGMENT], 0).to_numpy()
    systems = found["system"].to_numpy(zero_copy_only=False)
    starts, first = np.unique(times // HOUR_MS * HOUR_MS, return_index=True)
    ends = np.append(first, times.size)[1:]
    periods = []
    for start, low, high in zip(starts.tolist(), first.tolist(), ends.tolist(), strict=True):
        # a cluster that was built again as another system counts as what it is at the end
        system = str(systems[high - 1])
        mine = systems[low:high] == system
        content = np.stack([times[low:high][mine], segments[low:high][mine]])
        periods.append(Period(start, system, int(mine.sum()), _revision(content)))
    return periods


def _revision(content: NDArray[np.int64]) -> int:
    """Return a number of 62 bits that other content does not have."""
    raw = np.ascontiguousarray(content.astype("<i8")).tobytes()
    digest = hashlib.blake2b(raw, digest_size=8, key=str(FORMAT).encode()).digest()
    return int.from_bytes(digest, "little") >> 2


def _made(
    tiers: Tables, kind: Kind, cluster: str, basis: DeltaTable | None = None
) -> dict[int, Period]:
    """Return the periods that are there by start."""
    columns = (TAKEN_AT, "system", "snapshots", "revision")
    of_cluster = where(cluster, TimeRange(), f"kind = '{CLUSTER_KIND}'")
    found = tiers.scan(kind, columns, of_cluster, basis).to_pylist()
    return {row[TAKEN_AT]: Period(*(row[name] for name in columns)) for row in found}


def _days(made: Mapping[int, Period]) -> Iterator[tuple[Period, list[int]]]:
    """Yield each day with the hours that it is made from."""
    for day, starts in groupby(sorted(made), key=lambda start: start // DAY_MS * DAY_MS):
        hours = [made[start] for start in starts]
        system = hours[-1].system
        mine = [one for one in hours if one.system == system]
        content = np.array([[one.start, one.revision] for one in mine], np.int64)
        snapshots = sum(one.snapshots for one in mine)
        yield Period(day, system, snapshots, _revision(content)), [one.start for one in mine]


def _day_rows(tiers: Tables, cluster: str, day: Period, hours: Sequence[int]) -> pa.Table:
    rows = tier_rows(tiers, HOURS, cluster, hours)
    return days_here(cluster, SYSTEM_TIERS[day.system], rows)


def _batches(periods: Sequence[Period]) -> Iterator[tuple[str, list[Period]]]:
    """Yield the hours of one day and system, which are one commit."""
    for (_, system), of_day in groupby(periods, key=lambda one: (one.start // DAY_MS, one.system)):
        yield system, list(of_day)


def _stamped(rows: pa.Table, periods: Sequence[Period]) -> pa.Table:
    """Return rows with what they are made from in those of the cluster."""
    starts = pa.array([one.start for one in periods], pa.int64())
    at = pc.index_in(rows[TAKEN_AT], value_set=starts)
    at = pc.if_else(pc.equal(rows["kind"], CLUSTER_KIND), at, pa.scalar(None, at.type))
    given = {
        "system": pa.array([one.system for one in periods], pa.string()),
        "snapshots": pa.array([one.snapshots for one in periods], pa.int32()),
        "revision": pa.array([one.revision for one in periods], pa.int64()),
    }
    for name, values in given.items():
        place = rows.schema.get_field_index(name)
        rows = rows.set_column(place, rows.schema.field(place), values.take(at.combine_chunks()))
    return rows


def _commit(
    tiers: Tables,
    kind: Kind,
    cluster: str,
    rows: pa.Table,
    periods: Sequence[Period],
    version: int,
    basis: DeltaTable,
) -> PipelineResult:
    """Replace whole periods in one commit.

    Raises:
        ConflictingCommitError: Another pipeline committed since ``basis``.
    """
    stamped = tier_booked(kind, cluster, _stamped(rows, periods))
    predicate = _of(kind, cluster, [one.start for one in periods])
    tiers.replace(kind, stamped, predicate, basis, only_one=cluster, version=version)
    made = len(periods)
    return PipelineResult(
        hours=made if kind is HOURS else 0, days=made if kind is DAYS else 0, rows=rows.num_rows
    )
