"""What trends are made of: a system declares whose load is summed up, and from which rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa

from core.history.analysis.requests import Period

if TYPE_CHECKING:
    from core.history.store.store import HistoryStore

Day = Callable[[pa.Table, Period, Mapping[int, int]], Iterator[tuple[str, pa.Table]]]


@dataclass(frozen=True, kw_only=True)
class TrendSubject:
    """Subject of a trend.

    Attributes:
        name: In requests, plural: ``brokers``.
        kind: In answers, singular: ``broker``.
        rows: Kind of history rows that has the load.
        columns: Of those rows.
        day: Yields the tables ``trends`` and, where the last row of each subject is needed,
            ``last`` of one day of one cluster. Takes the rows, the period, and how many minutes
            were recorded in each period, by its start.
        flow: Measure by which a subject is busy.
        flow_words: Writes a flow with its unit.
        is_server: It carries the others, and its missing minutes are unknown; those of the others
            are minutes without load.
        shared_by: Column by which a day is divided among tasks; empty: it is not.
        names: Returns names by the identifier that rows have; ``None`` if it is the name.
        is_headline: The busiest one stands in the answer's sentence.
        tier_measures: Measures that hours and days have, by their name there.
    """

    name: str
    kind: str
    rows: str
    columns: tuple[str, ...]
    day: Day
    flow: str
    flow_words: Callable[[float], str]
    is_server: bool = False
    shared_by: str = ""
    names: Callable[[HistoryStore, str], Mapping[str, str]] | None = None
    is_headline: bool = False
    tier_measures: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class SystemTrends:
    """Trend subjects of a system.

    Attributes:
        system: Its name.
        subjects: The servers first.
        minute_rows: Kind of history rows from which a cluster's deviation is computed.
        minute_columns: Of those rows.
        minutes: Returns ``taken_at`` (ms), ``deviation`` (ratio) and ``gap`` of every minute.
    """

    system: str
    subjects: tuple[TrendSubject, ...]
    minute_rows: str
    minute_columns: tuple[str, ...]
    minutes: Callable[[pa.Table], pa.Table]
