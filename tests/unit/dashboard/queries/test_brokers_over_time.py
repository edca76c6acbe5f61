"""Load of the brokers over a period: as saved, or from its start as recorded."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
import pytest

from core.errors import SnapshotError
from core.history.queries.sql import Period
from dashboard.queries.pulsar import broker_load
from dashboard.queries.snapshots import MAX_POINTS

END = datetime(2026, 11, 29, 2, 23, tzinfo=UTC)
HOUR = Period(END - timedelta(hours=1), END)
CONFIG = cast("Any", SimpleNamespace(collect_every_s=10.0))


def load(first_min: float, last_min: float, count: int) -> list[tuple[datetime, pa.Table]]:
    """Tables at so many moments, in minutes before the end."""
    step = (first_min - last_min) / (count - 1)
    moments = [END - timedelta(minutes=first_min - step * at) for at in range(count)]
    return [(moment, pa.table({})) for moment in moments]


def loads_over(monkeypatch: pytest.MonkeyPatch, saved: Any, recorded: Any) -> list[datetime]:
    def read(_: object) -> Any:
        if recorded is None:
            raise SnapshotError("Damaged.")
        return recorded

    monkeypatch.setattr(broker_load, "_recorded_tables", read)
    monkeypatch.setattr(broker_load, "history_of", lambda *_: None)
    monkeypatch.setattr(broker_load, "broker_history", lambda _: saved)
    entries = cast("Any", [SimpleNamespace(taken_at=moment) for moment, _ in saved])
    monkeypatch.setattr(broker_load, "thinned", lambda found: found)
    found = broker_load.brokers_over(CONFIG, cast("Any", None), entries, HOUR)
    return [moment for moment, _ in found]


def test_an_hour_begins_an_hour_ago_however_many_snapshots_are_saved(monkeypatch) -> None:
    saved = load(24, 0, MAX_POINTS)
    recorded = load(60, 1, 31)
    found = loads_over(monkeypatch, saved, recorded)
    assert found[0] == HOUR.start
    assert found[-1] == END, "what is not recorded yet is there, too"
    assert found == sorted(set(found))


def test_saved_snapshots_are_enough_where_they_begin_early(monkeypatch) -> None:
    saved = load(60, 0, 20)
    assert loads_over(monkeypatch, saved, load(60, 0, 90)) == [moment for moment, _ in saved]
    late = load(30, 0, 5)
    assert loads_over(monkeypatch, late, []) == [moment for moment, _ in late]
    assert loads_over(monkeypatch, late, None) == [moment for moment, _ in late]
    assert loads_over(monkeypatch, late, load(20, 0, 9)) == [moment for moment, _ in late]
