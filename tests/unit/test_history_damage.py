"""A damaged history says which table, day and file, and the other days stay readable."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path

import pytest
from fleet_builder import NOON, make_history

from core.errors import SnapshotError
from core.history.queries.sql import HistoryReader, Period
from core.history.store.layout import HistoryError
from core.history.store.store import HistoryLocation, HistoryStore
from core.history.store.writer import Recorder

YESTERDAY = NOON - timedelta(days=1)


def recorded(folder: Path) -> HistoryStore:
    """Two minutes of yesterday and two of today."""
    store = HistoryStore(HistoryLocation(str(folder / "history")))
    recorder = Recorder(store, "fleet")
    for day in (YESTERDAY, NOON):
        for snapshot in make_history(2, brokers=3, bundles=12, now=day):
            recorder.record(snapshot)
    return store


def halved(file: Path) -> None:
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def scrambled(file: Path) -> None:
    file.write_bytes(b"PAR1" + b"\xff" * (file.stat().st_size - 12) + file.read_bytes()[-8:])


@pytest.mark.parametrize(
    ("damage", "words"),
    [(halved, "cannot be read"), (scrambled, "cannot be read"), (Path.unlink, "is not there")],
)
def test_damaged_file_is_named_whole_and_other_days_are_read(tmp_path, damage, words) -> None:
    store = recorded(tmp_path)
    folder = tmp_path / "history" / "brokers" / "cluster=fleet" / "day=2026-11-20"
    file = min(folder.iterdir())
    damage(file)
    store = HistoryStore(store.location)
    whole = Period(YESTERDAY - timedelta(hours=1), NOON)
    with pytest.raises(HistoryError) as read:
        store.rows("brokers", "fleet")
    with pytest.raises(SnapshotError) as asked:
        HistoryReader(store, "fleet").ask("SELECT sum(cpu) FROM rows", "brokers", whole)
    for caught in (read, asked):
        said = str(caught.value)
        assert all(part in said for part in (words, "2026-11-20", "brokers", file.name))
        assert "Leave that day" in (caught.value.hint or "")
    assert store.rows("brokers", "fleet", start=NOON - timedelta(hours=1)).num_rows == 6


def test_log_that_lost_its_beginning_is_said_to_be_damaged(tmp_path) -> None:
    store = recorded(tmp_path)
    (tmp_path / "history" / "brokers" / "_delta_log" / f"{0:020}.json").unlink()
    with pytest.raises(HistoryError, match="log of the table") as caught:
        HistoryStore(store.location).rows("brokers", "fleet")
    assert "_delta_log" in (caught.value.hint or "")
    assert "room" not in json.dumps(caught.value.as_json())


def test_address_of_an_unknown_kind_is_refused() -> None:
    with pytest.raises(HistoryError, match="foo:// is no known kind"):
        HistoryStore(HistoryLocation("foo://x/y")).clusters()
