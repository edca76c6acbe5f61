"""Queries of the history for the pages: each is computed once, until something is recorded."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from core.errors import SnapshotError
from core.history.analysis.accuracy.accuracy import Agreement, agreement
from core.history.queries.compared import LoadComparison, Shift, compare
from core.history.queries.events import EventQueries
from core.history.queries.load import LoadRequest, LoadSeries, load_over
from core.history.queries.profile import Profile, weekly_profile
from core.history.queries.query import (
    Evenness,
    Grid,
    HistoryQueries,
    MinuteRange,
    event_step_of,
    step_of,
)
from core.history.queries.sql import HistoryReader, Period, is_local, local_paths
from core.history.store.layout import DAY_MS
from core.history.store.reading import TimeRange
from core.history.tiers.registry import SYSTEM_TIERS
from core.snapshot.clock import is_ahead
from core.snapshot.store import CachedSnapshot
from core.units import ms_to_datetime
from dashboard import services
from dashboard.presenters.moments import parse_stamp, stamp
from dashboard.queries.cache import cached
from dashboard.queries.snapshots import SavedSnapshots
from dashboard.services import history as services_history
from dashboard.services.growth import growth_of

if TYPE_CHECKING:
    from core.history.queries.growth import Growth
    from core.history.store.store import HistoryStore
    from dashboard.services import Cluster, Config

_REMOTE_S: Final = 15
_LOGS: Final = ("minutes", "events", "shadow")
_MAX_ANSWERS: Final = 64

Weights = tuple[tuple[str, float], ...]


@dataclass(frozen=True)
class ClusterHistory:
    """One cluster's history as it is at one moment.

    Attributes:
        store: The history.
        cluster: Whose.
        system: Name of its system.
        version: Changes whenever something was recorded.
    """

    store: HistoryStore = field(repr=False)
    cluster: str
    system: str
    version: tuple[int, ...]

    def span(self) -> tuple[datetime, datetime] | None:
        """Return the first and the last recorded minute."""
        return _spans(self)

    def damage(self) -> tuple[str, ...]:
        """Return the damaged and missing parts, by names and sizes of its files."""
        return _damage(self)

    def minutes(self, period: Period) -> MinuteRange:
        """Return the recorded minutes of a period."""
        return _minutes((self, period))

    def events(self) -> EventQueries:
        """Return the queries of events."""
        return EventQueries(self.store, self.cluster, _CachedQueries(self))

    def queries(self) -> HistoryQueries:
        """Return the questions about load."""
        return HistoryQueries(self.store, self.cluster, self.system, _CachedQueries(self))


def history_of(config: Config, cluster: Cluster) -> ClusterHistory:
    """Return a cluster's history as it is now."""
    store = services_history.history(config)
    return ClusterHistory(store, cluster.name, cluster.kind, _version(config.history_uri))


def _version(uri: str) -> tuple[int, ...]:
    if not is_local(uri):
        return (int(services.now().timestamp() / _REMOTE_S),)
    root = Path(local_paths([uri])[0])
    return tuple(_changed_at(root / kind / "_delta_log") for kind in _LOGS)


def _changed_at(folder: Path) -> int:
    try:
        return folder.stat().st_mtime_ns
    except OSError:
        return 0


def recorded_since(config: Config, cluster: Cluster, saved: SavedSnapshots) -> datetime | None:
    """Return the time of the first record: in the history or among the saved snapshots.

    Returns:
        ``None`` if nothing is recorded.
    """
    times = [entry.taken_at for entry in saved.entries[:1]]
    try:
        span = history_of(config, cluster).span()
    except SnapshotError:
        span = None  # the History page says why
    return min([*times, *(span or ())[:1]], default=None)


# -- answers, each computed once -------------------------------------------------------------------


@dataclass(frozen=True)
class _Query:
    """The query, of the history as it was then."""

    history: ClusterHistory
    sql: str
    kind: str
    period: Period
    values: tuple[tuple[str, Hashable], ...]


def _ask(question: _Query) -> pa.Table | None:
    reader = HistoryReader(question.history.store, question.history.cluster)
    values = {name: list(one) if isinstance(one, tuple) else one for name, one in question.values}
    return reader.ask(question.sql, question.kind, question.period, **values)


_answers = cached(_ask, max_entries=_MAX_ANSWERS)


class _CachedQueries(HistoryReader):
    """Answers each question once, until something is recorded."""

    def __init__(self, history: ClusterHistory) -> None:
        super().__init__(history.store, history.cluster)
        self._history = history

    def ask(self, sql: str, kind: str, period: Period, **values: object) -> pa.Table | None:
        held = tuple(
            (name, tuple(one) if isinstance(one, list) else one) for name, one in values.items()
        )
        return _answers(_Query(self._history, sql, kind, period, held))


@dataclass(frozen=True, eq=False)
class PredictionComparison:
    """Predictions of the shadow balancer and the actual moves.

    Attributes:
        strategies: The requested ones, sorted.
        effective: Those of them that the cluster was configured with.
        agreement: Of the one that was chosen.
    """

    strategies: tuple[str, ...]
    effective: tuple[str, ...]
    agreement: Agreement


def _predicted(key: tuple[ClusterHistory, Period, str | None]) -> PredictionComparison | None:
    history, period, strategy = key
    span = (history.cluster, period.start, period.end)
    shadow = history.store.rows("shadow", *span)
    if not shadow.num_rows:
        return None
    configured = shadow.filter(shadow["is_configured"])
    return PredictionComparison(
        strategies=tuple(sorted(map(str, shadow["strategy"].unique().to_pylist()))),
        effective=tuple(map(str, configured["strategy"].unique().to_pylist())),
        agreement=agreement(shadow, history.store.rows("events", *span), strategy=strategy),
    )


predicted = cached(_predicted, max_entries=16)
"""What the shadow balancer predicted, by history, period and strategy (``None``: the configured
one); ``None`` where it was not requested."""


def _span_of(history: ClusterHistory) -> tuple[datetime, datetime] | None:
    if not history.version[0]:  # nothing was ever recorded here
        return None
    span = history.store.span(history.cluster)
    now = services.now()
    if span is None or not is_ahead(span[1], now):
        return span
    believed = history.store.minutes(history.cluster, None, now)["taken_at"]
    return (span[0], ms_to_datetime(believed[-1].as_py())) if len(believed) else span


_spans = cached(_span_of, max_entries=_MAX_ANSWERS)


def _damage_of(history: ClusterHistory) -> tuple[str, ...]:
    try:
        return tuple(map(str, history.store.problems(history.cluster, is_deep=False)))
    except SnapshotError:
        return ()  # the page itself says why


_damage = cached(_damage_of, max_entries=_MAX_ANSWERS)


def _minutes_of(key: tuple[ClusterHistory, Period]) -> MinuteRange:
    history, period = key
    return history.queries().minutes(period)


_minutes = cached(_minutes_of, max_entries=_MAX_ANSWERS)


@dataclass(frozen=True)
class HistoryQuery:
    """Scope of a timeline.

    Attributes:
        history: Whose.
        period: When.
        measure: Of the servers.
        even_by: Measure by which the load is called even.
        weights: Of the resources.
    """

    history: ClusterHistory
    period: Period
    measure: str
    even_by: str
    weights: Weights

    @property
    def weighed(self) -> Mapping[str, float]:
        """The weights by resource."""
        return dict(self.weights)


@dataclass(frozen=True, eq=False)
class PeriodLoad:
    """Load and events of a period.

    Attributes:
        minutes: The recorded ones.
        step_ms: Length of the stretches of time; 0: every minute by itself.
        grid: Load by server and time.
        evenness: How even the load was.
        counts: Events by stretch of time, kind and who.
    """

    minutes: MinuteRange
    step_ms: int
    grid: Grid
    evenness: Evenness
    counts: pa.Table


def _period_load(query: HistoryQuery) -> PeriodLoad:
    minutes = query.history.minutes(query.period)
    queries, step_ms = query.history.queries(), step_of(minutes)
    return PeriodLoad(
        minutes=minutes,
        step_ms=step_ms,
        grid=queries.grid(query.measure, query.period, step_ms=step_ms, weights=query.weighed),
        evenness=queries.evenness(query.even_by, query.period, weights=query.weighed),
        counts=query.history.events().counts(query.period, step_ms=event_step_of(query.period)),
    )


period_load = cached(_period_load, max_entries=16)
"""Load and events of a period, for the timeline."""


def _load(key: tuple[ClusterHistory, LoadRequest]) -> LoadSeries:
    history, request = key
    return load_over(history.store, request)


load_of = cached(_load, max_entries=_MAX_ANSWERS)
"""Load of one object over time, by history and question."""


def _profile(key: tuple[ClusterHistory, LoadRequest]) -> Profile | None:
    history, request = key
    flow = SYSTEM_TIERS[history.system].flow
    kind, subject, end = request.kind, request.subject, request.span.end or 0
    return weekly_profile(history.store, history.cluster, kind, subject, end, flow)


profile_of = cached(_profile, max_entries=16)
"""Weekly profile of the main load of an object, by history and question."""


def _compared_load(key: tuple[ClusterHistory, LoadRequest, Shift]) -> LoadComparison:
    history, request, shift = key
    return compare(history.store, request, shift)


compared_load = cached(_compared_load, max_entries=16)
"""Load of one object next to the same time earlier."""


def _growth(key: tuple[ClusterHistory, TimeRange]) -> Growth:
    history, span = key
    return growth_of(services.page_config(), history.store, history.cluster, span)


_growths = cached(_growth, max_entries=16)


def growth_since(history: ClusterHistory, span: TimeRange) -> Growth:
    """Return what grows in a range of whole days; computed once an hour.

    Raises:
        HistoryError: No day is in the range, or the days cannot be read.
    """
    hour = int(services.now().timestamp()) // 3_600
    days = TimeRange(*((one or 0) // DAY_MS * DAY_MS for one in (span.start, span.end)))
    return _growths((replace(history, version=(hour,)), days))


# -- any past minute -------------------------------------------------------------------------------

_SECOND: Final = timedelta(seconds=1)
_NEAR: Final = timedelta(minutes=30)
_NEXT: Final = timedelta(minutes=1)
"""Interval of the history: a saved snapshot that is nearer is the one that is meant."""


def past_at(config: Config, cluster: Cluster, text: str) -> CachedSnapshot | None:
    """Return the recorded minute that the address names, as a snapshot directory.

    Args:
        config: The configuration.
        cluster: Whose.
        text: A time as :func:`dashboard.presenters.moments.stamp` writes it; between two minutes
            the earlier one is meant.
    Returns:
        ``None`` where it is no time, or nothing was recorded until then.
    Raises:
        SnapshotError: It was recorded, and cannot be read.
    """
    moment = parse_stamp(text)
    if moment is None:
        return None
    newest = moment + _SECOND - timedelta(milliseconds=1)
    history = history_of(config, cluster)
    span = history.span()
    if span is None or newest < span[0]:
        return None
    near = history.minutes(Period(newest - _NEAR, newest))
    exact = near.moment(len(near) - 1) if len(near) else newest
    return services_history.past_minutes(config).at(cluster.name, exact)


def latest_before(
    config: Config, cluster: Cluster, saved: SavedSnapshots, moment: datetime
) -> CachedSnapshot | None:
    """Return the last snapshot up to a moment, from the snapshot store or from the history.

    Returns:
        ``None`` where nothing was recorded until then, or only long before.
    Raises:
        SnapshotError: It was recorded, and cannot be read.
    """
    newest = moment + _SECOND - timedelta(milliseconds=1)
    here = next((entry for entry in reversed(saved.entries) if entry.taken_at <= newest), None)
    if here is not None and newest - here.taken_at <= _NEXT:
        return here
    past = past_at(config, cluster, stamp(moment))
    if past is None and here is not None and newest - here.taken_at <= _NEAR:
        return here
    return past


def nearest(
    config: Config, cluster: Cluster, saved: SavedSnapshots, moment: datetime
) -> CachedSnapshot | None:
    """Return the snapshot nearest to a moment, the earlier of two at the same distance.

    Returns:
        ``None`` where nothing was recorded within half an hour.
    Raises:
        SnapshotError: It was recorded, and cannot be read.
    """
    before = latest_before(config, cluster, saved, moment)
    after = first_after(config, cluster, saved, moment)
    is_near = after is not None and after - moment <= _NEAR
    if after is None or not is_near:
        return before
    if before is not None and moment - before.taken_at <= after - moment:
        return before
    return stored_at(config, cluster, saved, after) or before


def first_after(
    config: Config, cluster: Cluster, saved: SavedSnapshots, moment: datetime
) -> datetime | None:
    """Return the time of the first snapshot at or after a moment; ``None`` if there is none.

    Raises:
        SnapshotError: The history cannot be read.
    """
    times = [entry.taken_at for entry in saved.entries if entry.taken_at >= moment][:1]
    history = history_of(config, cluster)
    span = history.span()
    if span is not None and moment <= span[1]:
        near = history.minutes(Period(moment, min(moment + _NEAR, span[1])))
        times += [near.moment(0)] if len(near) else []
    return min(times, default=None)


def stored_at(
    config: Config, cluster: Cluster, saved: SavedSnapshots, moment: datetime
) -> CachedSnapshot | None:
    """Return the snapshot of a recorded minute: from the snapshot store, else from the history.

    Raises:
        SnapshotError: It was recorded, and cannot be read.
    """
    text = stamp(moment)
    saved_here = next(
        (entry for entry in reversed(saved.entries) if stamp(entry.taken_at) == text), None
    )
    return saved_here or past_at(config, cluster, text)
