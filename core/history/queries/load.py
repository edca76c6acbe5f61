"""Load of one object over time, from the coarsest records that answer it.

A range of :data:`DAYS_FROM_MS` and more is answered from days, one of :data:`HOURS_FROM_MS` and
more from hours, a shorter one from minutes. Where finer records are gone, the coarser ones answer.
Periods that are not rolled up yet (the current one, late minutes) are computed from finer records,
by the rules of the pipeline itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from core.errors import UnknownNameError
from core.history.analysis.trends.registry import SUBJECT_OF_KIND
from core.history.queries.tier_reader import TierReader
from core.history.store.layout import DAY_MS, HOUR_MS, HistoryError
from core.history.store.reading import TimeRange
from core.history.store.reading import minutes as minutes_in
from core.history.tiers.local import completed, days_here, subject_hours, subject_minutes
from core.history.tiers.model import CLUSTER_KIND, Measure, SystemTiers, TierSubject
from core.history.tiers.registry import DAYS, HOURS, SYSTEM_TIERS
from core.snapshot.record import TAKEN_AT, Kind

if TYPE_CHECKING:
    from core.history.store.store import HistoryStore

Source = Literal["minutes", "hours", "days"]
Times = NDArray[np.int64]

MINUTE_MS: Final = 60_000
DAYS_FROM_MS: Final = 60 * DAY_MS
HOURS_FROM_MS: Final = 2 * DAY_MS
STEP_MS: Final[dict[Source, int]] = {"minutes": MINUTE_MS, "hours": HOUR_MS, "days": DAY_MS}
SOURCES: Final[tuple[Source, ...]] = ("minutes", "hours", "days")

MAX_MINUTE_HOURS: Final = 26
"""Hours that a question computes from minutes, at most: the newest ones. The others are named as
not rolled up."""


@dataclass(frozen=True, kw_only=True)
class LoadRequest:
    """Question about the load of one object.

    Attributes:
        cluster: Name of the cluster.
        kind: ``cluster``, ``broker``, ``bundle``, ``namespace``, ``tenant``, ``node``, ``table`` or
            ``partition``.
        subject: Name of the object, as the tiers have it; empty for ``cluster``.
        span: Time range with both ends. It is widened to whole periods.
        source: Records to answer from; ``None``: the coarsest that answer.
        is_whole: All measures of the object; else those with percentiles, which takes half as long.
    """

    cluster: str
    kind: str
    subject: str
    span: TimeRange
    source: Source | None = None
    is_whole: bool = False


@dataclass(frozen=True, eq=False)
class LoadSeries:
    """Load of one object over time.

    Attributes:
        request: The question.
        system: Of the cluster.
        source: Length of a row: ``minutes``, ``hours`` or ``days``.
        rows: ``taken_at`` (start of the period, ms), ``minutes_seen``, ``minutes_missing``, and of
            each measure its mean ``<measure>``, ``<measure>_max`` and, of those with percentiles,
            ``<measure>_p95``; events by their names, null in minutes. Oldest first; a period
            without a row was not recorded, or the object did not exist in it.
        from_finer: Rows computed from finer records, as their period is not rolled up.
        hours_not_rolled_up: Recorded hours that have no answer here: too many to read.
    """

    request: LoadRequest
    system: str
    source: Source
    rows: pa.Table
    from_finer: int = 0
    hours_not_rolled_up: int = 0

    @property
    def step_ms(self) -> int:
        """Length of a period, ms."""
        return STEP_MS[self.source]

    @property
    def measures(self) -> tuple[Measure, ...]:
        """Measures of the answer."""
        return _measures(subject_of(self.system, self.request.kind), self.request.is_whole)

    @property
    def flow(self) -> str:
        """Measure by which the object is busy."""
        return SYSTEM_TIERS[self.system].flow

    def as_json(self) -> dict[str, Any]:
        """Return what the rows are, as JSON."""
        return {
            "cluster": self.request.cluster,
            "kind": self.request.kind,
            "subject": self.request.subject,
            "source": self.source,
            "step_ms": self.step_ms,
            "from_finer": self.from_finer,
            "hours_not_rolled_up": self.hours_not_rolled_up,
        }

    def describe_source(self) -> str:
        """Return the records that answered: ``from days, 2 computed from minutes``."""
        words = f"from {self.source}"
        if self.from_finer:
            words += f", {self.from_finer:,} computed from finer records"
        if self.hours_not_rolled_up:
            words += f"; {self.hours_not_rolled_up:,} recorded hours are not rolled up"
        return words


def subject_of(system: str, kind: str) -> TierSubject:
    """Return a kind of object of a system.

    Raises:
        UnknownNameError: The system has no such kind.
    """
    known = {one.kind: one for one in SYSTEM_TIERS[system].everything}
    if kind not in known:
        raise UnknownNameError.of("kind of object", kind, list(known))
    return known[kind]


def source_for(span_ms: int) -> Source:
    """Return the records that answer a range of some length."""
    if span_ms >= DAYS_FROM_MS:
        return "days"
    return "hours" if span_ms >= HOURS_FROM_MS else "minutes"


def load_over(store: HistoryStore, request: LoadRequest) -> LoadSeries:
    """Return the load of an object over time.

    Raises:
        UnknownNameError: The system of the cluster has no such kind of object.
        HistoryError: Nothing of the cluster was recorded in that time, or it cannot be read.
    """
    return _Question(store, request).answer()


def subject_id(store: HistoryStore, cluster: str, kind: str, name: str) -> str:
    """Return the name that the tiers have for an object: of Pegasus tables their id.

    Args:
        store: The history.
        cluster: Name of the cluster.
        kind: Kind of the object.
        name: A name, an id, or for a partition ``table.index``.
    Raises:
        HistoryError: The names cannot be read.
    """
    of, dot, rest = name.rpartition(".") if kind == "partition" else (name, "", "")
    subject = SUBJECT_OF_KIND.get("table" if kind == "partition" else kind)
    if subject is None or subject.names is None:
        return name
    ids = {text: one for one, text in subject.names(store, cluster).items()}
    return f"{ids.get(of, of)}{dot}{rest}"


def subject_names(store: HistoryStore, cluster: str, subjects: Mapping[str, str]) -> dict[str, str]:
    """Return the names of objects by those that the tiers have: of Pegasus tables their id.

    Args:
        store: The history.
        cluster: Name of the cluster.
        subjects: Kinds by the names in the tiers.
    Raises:
        HistoryError: The names cannot be read.
    """
    tables = SUBJECT_OF_KIND["table"].names
    if tables is None or not {"table", "partition"} & set(subjects.values()):
        return {one: one for one in subjects}
    names = tables(store, cluster)
    found = {}
    for subject in subjects:
        table, dot, index = subject.partition(".")
        found[subject] = f"{names.get(table, table)}{dot}{index}"
    return found


class _Question:
    """One question, with what it has read so far."""

    def __init__(self, store: HistoryStore, request: LoadRequest) -> None:
        self._store = store
        self._request = request
        self._reader = TierReader(store, request.cluster)
        start, end = request.span.start, request.span.end
        if start is None or end is None:
            raise ValueError("A question about load has both ends.")
        self._start, self._end = start, end
        self._recorded: Times | None = None
        self._systems: dict[int, str] = {}

    def answer(self) -> LoadSeries:
        source = self._request.source or source_for(self._end - self._start)
        for one in SOURCES[SOURCES.index(source) :]:
            is_last = one == "days" or self._request.source is not None
            found = self._answer_from(one, is_last=is_last)
            if found is not None:
                return found
        raise AssertionError(source)

    def _answer_from(self, source: Source, *, is_last: bool) -> LoadSeries | None:
        """Return the answer from some records; ``None`` if coarser ones have more of the range."""
        if source == "minutes":
            return self._from_minutes(is_last=is_last)
        return self._from_tier(source, is_last=is_last)

    # -- what is recorded --------------------------------------------------------------------------

    def _span(self, step: int) -> TimeRange:
        return TimeRange(self._start // step * step, self._end // step * step + step - 1)

    def _minutes(self) -> Times:
        """Return ``taken_at`` of the recorded snapshots in the range, widened to whole days."""
        if self._recorded is None:
            found = minutes_in(self._store.tables, self._request.cluster, self._span(DAY_MS))
            self._recorded = np.asarray(found[TAKEN_AT].to_numpy(), np.int64)
            systems = found["system"].to_pylist()
            hours = self._recorded // HOUR_MS * HOUR_MS
            self._systems = dict(zip(hours.tolist(), systems, strict=True))
        return self._recorded

    def _hours_with_minutes(self, span: TimeRange) -> dict[int, int]:
        """Return the recorded snapshots by hour in a range."""
        taken = self._minutes()
        taken = taken[(taken >= (span.start or 0)) & (taken <= (span.end or 0))]
        starts, counts = np.unique(taken // HOUR_MS * HOUR_MS, return_counts=True)
        return dict(zip(starts.tolist(), counts.tolist(), strict=True))

    def _system(self, rolled_up: Sequence[str]) -> SystemTiers:
        """Return the tiers of the system that the cluster has at the end of the range."""
        of_minutes = [self._systems[one] for one in sorted(self._systems)]
        names = [*rolled_up, *of_minutes]
        known = [one for one in names if one in SYSTEM_TIERS]
        if not known:
            raise HistoryError(
                f"No load of {self._request.cluster} is recorded in this range.",
                hint=f"See `trimtab pipeline status {self._request.cluster}`.",
            )
        return SYSTEM_TIERS[known[-1]]

    # -- minutes -----------------------------------------------------------------------------------

    def _from_minutes(self, *, is_last: bool) -> LoadSeries | None:
        span = self._span(MINUTE_MS)
        hours = self._hours_with_minutes(span)
        if not is_last and self._has_more(HOURS, set(hours)):
            return None
        system = self._system(())
        subject_of(system.system, self._request.kind)
        whole, skipped = _newest(sorted(hours), 2 * MAX_MINUTE_HOURS)
        rows = subject_minutes(
            *(self._store, self._request.cluster, system, whole),
            *(self._request.kind, self._request.subject),
        )
        rows = rows.filter((pc.field(TAKEN_AT) >= span.start) & (pc.field(TAKEN_AT) <= span.end))
        size = rows.num_rows
        subject = subject_of(system.system, self._request.kind)
        columns: dict[str, pa.Array | pa.ChunkedArray] = {
            TAKEN_AT: rows[TAKEN_AT].cast(pa.int64()),
            "minutes_seen": pa.array(np.ones(size, np.int32)),
            "minutes_missing": pa.array(np.zeros(size, np.int32)),
        }
        for one in _measures(subject, self._request.is_whole):
            columns[one.name] = columns[f"{one.name}_max"] = rows[one.name]
            if one.is_binned:
                columns[f"{one.name}_p95"] = rows[one.name]
        columns |= {one.name: pa.nulls(size, pa.int32()) for one in subject.counts}
        return LoadSeries(
            self._request, system.system, "minutes", pa.table(columns), hours_not_rolled_up=skipped
        )

    def _has_more(self, kind: Kind, hours: set[int]) -> bool:
        """Return whether a tier has a period of the range of which finer records are gone."""
        step = STEP_MS[_source_of(kind)]
        found = self._reader.ask(
            f"SELECT DISTINCT taken_at FROM rows WHERE kind = '{CLUSTER_KIND}'",  # noqa: S608  # names of ours
            kind,
            self._span(step),
        )
        starts = [] if found is None else found[TAKEN_AT].to_pylist()
        finer = {one // step * step for one in hours}
        return any(start not in finer for start in starts)

    # -- hours and days ----------------------------------------------------------------------------

    def _from_tier(self, source: Source, *, is_last: bool) -> LoadSeries | None:
        kind, step = _KIND_OF[source], STEP_MS[source]
        span = self._span(step)
        found = self._tier_rows(kind, span, _narrow(self._request))
        recorded = self._hours_with_minutes(span)
        complete = _complete(found, recorded, step)
        if not is_last and self._has_more(DAYS, {*complete, *recorded}):
            return None
        system = self._system([row for row in found["system"].to_pylist() if row])
        subject = subject_of(system.system, self._request.kind)
        open_hours = {one for one in recorded if one // step * step not in complete}
        if source == "hours":
            made, computed, skipped = self._computed_hours(system, open_hours)
        else:
            made, computed, skipped = self._computed_days(system, open_hours)
        # a period that cannot be computed now keeps what its tier has of it
        mine = self._of_subject(found)
        mine = mine.filter(pc.invert(pc.is_in(mine[TAKEN_AT], value_set=pa.array(computed))))
        wanted = _columns(subject, self._request.is_whole)
        rows = pa.concat_tables([mine.select(wanted), self._of_subject(made).select(wanted)])
        return LoadSeries(
            self._request,
            system.system,
            source,
            _renamed(rows.sort_by(TAKEN_AT)),
            from_finer=len(computed),
            hours_not_rolled_up=skipped,
        )

    def _tier_rows(self, kind: Kind, span: TimeRange, columns: Sequence[str]) -> pa.Table:
        """Return rows of the object and of the cluster; all columns of the tier, others null."""
        selected = f"SELECT {', '.join(columns)} FROM rows WHERE"  # noqa: S608  # names of ours
        sql, given = f"{selected} kind = '{CLUSTER_KIND}'", {}
        if self._request.kind != CLUSTER_KIND:  # not OR: row groups of neither are passed over
            sql += f" UNION ALL {selected} kind = $kind AND subject = $subject"
            given = {"kind": self._request.kind, "subject": self._request.subject}
        found = self._reader.ask(f"{sql} ORDER BY taken_at", kind, span, **given)
        return completed(kind, pa.table({}) if found is None else found)

    def _of_subject(self, rows: pa.Table) -> pa.Table:
        return rows.filter(
            (pc.field("kind") == self._request.kind)
            & (pc.field("subject") == self._request.subject)
        )

    def _computed_hours(
        self, system: SystemTiers, hours: set[int]
    ) -> tuple[pa.Table, list[int], int]:
        """Return hours computed from minutes, their starts, and how many were not read."""
        whole, skipped = _newest(sorted(hours), MAX_MINUTE_HOURS)
        whole = [one for one in whole if self._systems.get(one) == system.system]
        if not whole:
            return completed(HOURS, pa.table({})), [], skipped
        rows = subject_hours(
            *(self._store, self._request.cluster, system, whole),
            *(self._request.kind, self._request.subject),
        )
        return rows, whole, skipped

    def _computed_days(
        self, system: SystemTiers, open_hours: set[int]
    ) -> tuple[pa.Table, list[int], int]:
        """Return days that are not rolled up, computed from hours and minutes."""
        starts = sorted({one // DAY_MS * DAY_MS for one in open_hours})
        if not starts:
            return completed(DAYS, pa.table({})), [], 0
        of_tier = self._tier_rows(
            HOURS,
            TimeRange(starts[0], starts[-1] + DAY_MS - 1),
            _wide(system.narrowed(self._request.kind)),
        )
        of_days = pc.is_in(
            pa.array(np.asarray(of_tier[TAKEN_AT].to_numpy(), np.int64) // DAY_MS * DAY_MS),
            value_set=pa.array(starts, pa.int64()),
        )
        of_tier = of_tier.filter(of_days)
        recorded = {
            one: count
            for one, count in self._hours_with_minutes(self._span(DAY_MS)).items()
            if one in open_hours
        }
        whole = _complete(of_tier, recorded, HOUR_MS)
        made, computed, skipped = self._computed_hours(system, set(recorded) - whole)
        if skipped:  # a day without some of its hours would be another number
            unread = {one // DAY_MS * DAY_MS for one in set(recorded) - whole - set(computed)}
            starts = [one for one in starts if one not in unread]
        left = of_tier.filter(pc.invert(pc.is_in(of_tier[TAKEN_AT], value_set=pa.array(computed))))
        hours = pa.concat_tables([left, made])
        at = np.asarray(hours[TAKEN_AT].to_numpy(), np.int64) // DAY_MS * DAY_MS
        hours = hours.filter(pc.is_in(pa.array(at), value_set=pa.array(starts, pa.int64())))
        rows = days_here(self._request.cluster, system.narrowed(self._request.kind), hours)
        return rows, starts, skipped


def _newest(hours: Sequence[int], limit: int) -> tuple[list[int], int]:
    """Return the newest of some hours, and the number of the others."""
    return list(hours[-limit:]), max(len(hours) - limit, 0)


def _complete(rows: pa.Table, recorded: dict[int, int], step: int) -> set[int]:
    """Return the periods of which a tier has every recorded snapshot."""
    counts: dict[int, int] = {}
    for hour, count in recorded.items():
        start = hour // step * step
        counts[start] = counts.get(start, 0) + count
    whole = rows.filter(pc.field("kind") == CLUSTER_KIND)
    return {
        start
        for start, snapshots in zip(
            whole[TAKEN_AT].to_pylist(), whole["snapshots"].to_pylist(), strict=True
        )
        if (snapshots or 0) >= counts.get(start, 0)
    }


_KIND_OF: Final[dict[Source, Kind]] = {"hours": HOURS, "days": DAYS}
_BOOKS: Final = (TAKEN_AT, "kind", "subject", "minutes_seen", "minutes_missing")


def _source_of(kind: Kind) -> Source:
    return "hours" if kind is HOURS else "days"


def _measures(subject: TierSubject, is_whole: bool) -> tuple[Measure, ...]:  # noqa: FBT001  # of a request
    return tuple(one for one in subject.measures if is_whole or one.is_binned)


def _columns(subject: TierSubject, is_whole: bool) -> list[str]:  # noqa: FBT001  # of a request
    """Return the columns of a tier that an answer has."""
    names = [*_BOOKS]
    for one in _measures(subject, is_whole):
        names += [f"{one.name}_mean", f"{one.name}_max"]
        names += [f"{one.name}_p95"] if one.is_binned else []
    names += [one.name for one in subject.counts]
    return names + (["outside_minutes"] if subject.has_band else [])


def _narrow(request: LoadRequest) -> list[str]:
    """Return the columns that a question reads of a tier, of whichever system the cluster is."""
    subjects = [
        one
        for system in SYSTEM_TIERS.values()
        for one in system.everything
        if one.kind == request.kind
    ]
    names = [name for one in subjects for name in _columns(one, request.is_whole)]
    return list(dict.fromkeys([*_BOOKS, "system", "snapshots", *names]))


def _wide(system: SystemTiers) -> list[str]:
    """Return the columns that days are made of."""
    names = [one.name for subject in system.everything for one in subject.columns_of_tier()]
    return list(dict.fromkeys([*_BOOKS, "system", "snapshots", *names]))


def _renamed(rows: pa.Table) -> pa.Table:
    rows = rows.drop_columns(["kind", "subject"])
    return rows.rename_columns([one.removesuffix("_mean") for one in rows.column_names])
