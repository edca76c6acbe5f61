"""A diagnosis over recorded time: what moved, why nothing did, causes where it was worst."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from core.diagnosis.model import Diagnosis
from core.diagnosis.request import DiagnoseRequest
from core.diagnosis.systems import system_of
from core.errors import OpsError, SnapshotError
from core.history.analysis.flaps.flaps import EVENT_COLUMNS, MOVE_KINDS, flaps_of
from core.history.analysis.prevention import MIN_BUDGET_S, Prevention, prevention
from core.history.analysis.requests import FlapsRequest
from core.history.analysis.trends.trends import NO_MINUTES
from core.history.backtest.advice import format_minutes
from core.progress import Progress
from core.units import ms_to_datetime, pluralize

if TYPE_CHECKING:
    from core.history.store.store import HistoryStore

SAMPLES: Final = 12
"""Recorded minutes that are read whole, evenly over the period."""

_MAX_MOVES: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class PastMove:
    """One recorded move of the object in question.

    Attributes:
        taken_at: Minute in which it was seen.
        before: Server that it left.
        after: Server that it went to; empty: none yet.
        by: Who moved it, as far as the record shows.
        why: The verdict on it one recorded minute before, a sentence.
    """

    taken_at: datetime
    before: str
    after: str
    by: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PeriodDiagnosis:
    """Diagnosis of a recorded period.

    Attributes:
        start: Of the period, UTC.
        end: Of the period, UTC.
        moves: Recorded moves.
        returned: Of these, moves back to a server that was left before.
        flapping: The names that came back most often, with how often.
        verdicts: Verdict on the cluster to the number of sampled minutes that have it.
        samples: Minutes that were sampled.
        moved: Moves of the object in question, newest first.
        worst_at: The sampled minute with the least even load.
        worst: Its diagnosis.
        prevention: Which setting would have kept the period calm, back-tested.
    """

    start: datetime
    end: datetime
    moves: int
    returned: int
    flapping: tuple[tuple[str, int], ...]
    verdicts: tuple[tuple[str, int], ...]
    samples: int
    moved: tuple[PastMove, ...]
    worst_at: datetime
    worst: Diagnosis
    prevention: Prevention

    @property
    def answer(self) -> str:
        """Events, cause and prevention, one line."""
        length = format_minutes((self.end - self.start).total_seconds() / 60)
        back = f", {self.returned:,} returned" if self.returned else ""
        found = f"Last {length}: {pluralize(self.moves, 'move')}{back}."
        if self.worst.causes:
            cause = self.worst.causes[0]
            found += f" Cause: {cause.title or cause.code.replace('_', ' ')}."
        best = self.prevention.best
        return found if best is None else f"{found} Prevented by: {best.label}."

    @property
    def sentences(self) -> tuple[str, ...]:
        """The answer and everything but the causes, a few short sentences."""
        found = [self.answer, *self.prevention.sentences]
        if self.flapping:
            listed = ", ".join(f"{name} ({count})" for name, count in self.flapping)
            found.append(f"Returned most often: {listed}.")
        for words, count in self.verdicts[:1]:
            found.append(f"In {count} of {pluralize(self.samples, 'sampled minute')}: {words}")
        found += [
            f"{one.taken_at:%H:%M:%S} {one.before} -> {one.after or 'no broker yet'}"
            f"{f' by {one.by}' if one.by else ''}: {one.why}"
            for one in self.moved
        ]
        return tuple(found)


def over_time(
    store: HistoryStore,
    cluster: str,
    period: timedelta,
    request: DiagnoseRequest,
    progress: Progress,
    *,
    minute_s: float = 60.0,
    moved: str = "",
) -> PeriodDiagnosis:
    """Diagnose the last part of what is recorded of a cluster.

    Args:
        cluster: Its name.
        period: How far back from the newest recorded minute.
        request: The object in question, and the time for simulations.
        progress: Where the number of minutes read, of changes tried and of replays goes.
        minute_s: Seconds of the record that count as a minute of the cluster.
        moved: Bundle or partition of which every move is explained; empty: that of the request.
    Raises:
        HistoryError: Nothing is recorded, or it cannot be read.
        UnknownNameError: The object in question is not there.
    """
    minutes = store.minutes(cluster)["taken_at"].to_pylist()
    if not minutes:
        raise SnapshotError(
            f"No history of {cluster} is recorded.",
            hint="Record it with `trimtab collect`, or omit --since to diagnose the current state.",
        )
    end = ms_to_datetime(minutes[-1])
    start = max(end - period, ms_to_datetime(minutes[0]))
    events = store.rows("events", cluster, start, end, columns=EVENT_COLUMNS)
    tables = flaps_of(events, NO_MINUTES, FlapsRequest())
    within = [one for one in minutes if one >= int(start.timestamp() * 1000)]
    step = max(len(within) // SAMPLES, 1)
    snapshots = []
    for done, taken_at in enumerate(within[::-1][::step][:SAMPLES]):
        progress.step(done, SAMPLES, "reading recorded minutes")
        snapshots.append(store.snapshot_at(cluster, ms_to_datetime(taken_at)))
    system = system_of(snapshots[0].manifest.kind)
    worst = max(snapshots, key=lambda one: system.unevenness(one) or 0.0)
    verdicts = Counter(system.verdict(one) for one in snapshots)
    diagnosis = system.diagnose(worst, request, progress, earlier=snapshots[::-1])
    prevented = prevention(
        store,
        cluster,
        (start, end),
        snapshots[0],
        [cause.fix for cause in diagnosis.causes],
        progress,
        budget_s=max(request.budget_s, MIN_BUDGET_S),
        minute_s=minute_s,
    )
    return PeriodDiagnosis(
        start=start,
        end=end,
        moves=_count(events),
        returned=tables["flaps"].num_rows,
        flapping=_flapping(tables["flaps"]),
        verdicts=tuple(verdicts.most_common()),
        samples=len(snapshots),
        moved=_moved(store, cluster, events, moved or request.bundle or request.node or ""),
        worst_at=worst.manifest.taken_at,
        worst=diagnosis,
        prevention=prevented,
    )


def _count(events: pa.Table) -> int:
    return pc.sum(pc.is_in(events["kind"], value_set=pa.array(MOVE_KINDS))).as_py() or 0


def _flapping(flaps: pa.Table) -> tuple[tuple[str, int], ...]:
    return tuple(Counter(flaps["subject"].to_pylist()).most_common(_MAX_MOVES))


def _moved(
    store: HistoryStore, cluster: str, events: pa.Table, bundle: str
) -> tuple[PastMove, ...]:
    mine = events.filter(
        pc.and_(
            pc.is_in(events["kind"], value_set=pa.array(MOVE_KINDS)),
            pc.equal(events["subject"], bundle),
        )
    ).sort_by([("taken_at", "descending")])
    return tuple(
        _past_move(store, cluster, bundle, row) for row in mine.slice(0, _MAX_MOVES).to_pylist()
    )


def _past_move(store: HistoryStore, cluster: str, bundle: str, row: dict[str, Any]) -> PastMove:
    taken_at = ms_to_datetime(row["taken_at"])
    try:
        earlier = store.snapshot_at(cluster, taken_at - timedelta(milliseconds=1))
        why = system_of(earlier.manifest.kind).why(earlier, bundle)
    except OpsError as error:
        why = f"the previous minute cannot be read: {error.message}"
    return PastMove(
        taken_at=taken_at,
        before=row["before"] or "",
        after=row["after"] or "",
        by=row["by"] or "",
        why=why,
    )
