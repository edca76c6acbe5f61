"""The watch over alerts reads the history's events when some came, not with every look."""

from __future__ import annotations

from datetime import timedelta
from types import SimpleNamespace

import pyarrow as pa
import pytest
from fleet_builder import NOON

from core.history.analysis.flaps.flaps import EVENT_COLUMNS
from core.history.store.layout import EVENTS
from core.units import datetime_to_ms
from dashboard.services import alerts, history

TO_AND_BACK = [("a", "b"), ("b", "a")]


class FakeHistory:
    def __init__(self) -> None:
        self.version = 1
        self.reads = 0
        self.tables = SimpleNamespace(table=lambda _kind: SimpleNamespace(version=self._version))

    def _version(self) -> int:
        return self.version

    def rows(self, *_: object, columns: list[str]) -> pa.Table:
        self.reads += 1
        moved = [
            {
                "taken_at": datetime_to_ms(NOON + timedelta(minutes=minute)),
                "kind": "move",
                "subject": "t/n/0x0_0x1",
                "before": before,
                "after": after,
            }
            for minute, (before, after) in enumerate(TO_AND_BACK)
        ]
        schema = pa.schema([EVENTS.stored.field(name) for name in EVENT_COLUMNS])
        return pa.Table.from_pylist(moved, schema=schema).select(columns)


@pytest.fixture
def clock(monkeypatch) -> list[float]:
    now = [1_000.0]
    monkeypatch.setattr(alerts, "monotonic", lambda: now[0])
    return now


def test_events_are_read_again_when_some_came(monkeypatch, clock) -> None:
    store = FakeHistory()
    monkeypatch.setattr(history, "history", lambda _config: store)
    returned = alerts._History(SimpleNamespace()).returned_since
    assert returned("fleet", NOON) == 1
    clock[0] += 15  # the minute of these events may be committed a moment after them
    assert returned("fleet", NOON) == 1
    assert store.reads == 2
    clock[0] += 60
    assert returned("fleet", NOON) == 1
    reads = store.reads
    clock[0] += 60
    assert returned("fleet", NOON) == 1
    assert store.reads == reads
    assert returned("fleet", NOON + timedelta(hours=1)) == 0  # they have left the hour
    assert store.reads == reads
    store.version += 1
    assert returned("fleet", NOON) == 1
    assert store.reads == reads + 1
