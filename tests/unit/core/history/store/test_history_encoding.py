"""Encoding of closed hours: numbers that stay take less space, and every bit comes back."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fleet_builder import NOON, make_history

from core.history.store.encoding import writing
from core.history.store.store import HistoryLocation, HistoryStore
from core.history.store.writer import Recorder
from core.snapshot import PulsarSnapshot
from core.snapshot.record import Kind

MINUTES = 24


def minutes_with_reports(every: int) -> list[PulsarSnapshot]:
    """Return minutes in which bundles keep their rates until the next report of their broker."""
    minutes = make_history(MINUTES, brokers=3, bundles=60, now=NOON + timedelta(minutes=59))
    reported = [minutes[at - at % every].bundles for at in range(MINUTES)]
    return [
        PulsarSnapshot.build(
            replace(minute.manifest, problems=()), {**minute.tables, "bundles": bundles}
        )
        for minute, bundles in zip(minutes, reported, strict=True)
    ]


def compacted(folder: Path, minutes: list[PulsarSnapshot]) -> HistoryStore:
    store = HistoryStore(HistoryLocation(str(folder)))
    recorder = Recorder(store, "fleet")
    for minute in minutes:
        assert recorder.record(minute).is_new
    store.compact("fleet", NOON + timedelta(hours=3))
    return store


def rate_chunk(store: HistoryStore):
    (file,) = store.files("bundle_loads", "fleet")
    group = pq.ParquetFile(unquote(file.removeprefix("file://"))).metadata.row_group(0)
    return next(
        group.column(at)
        for at in range(group.num_columns)
        if group.column(at).path_in_schema == "msg_rate_in"
    )


@pytest.mark.parametrize(("every", "encoding"), [(1, "BYTE_STREAM_SPLIT"), (3, "PLAIN")])
def test_numbers_are_plain_where_they_stay_until_the_next_report(
    tmp_path, every: int, encoding: str
) -> None:
    minutes = minutes_with_reports(every)
    store = compacted(tmp_path, minutes)
    assert encoding in rate_chunk(store).encodings
    for minute in minutes:
        again = store.snapshot_at("fleet", minute.manifest.taken_at)
        assert again.snapshot_id == minute.snapshot_id


def test_numbers_that_stay_for_three_minutes_take_half_the_space(tmp_path) -> None:
    each, third = (
        rate_chunk(compacted(tmp_path / str(every), minutes_with_reports(every)))
        for every in (1, 3)
    )
    assert third.num_values == each.num_values
    assert third.total_compressed_size < each.total_compressed_size / 2


def test_a_kind_without_numbers_has_only_the_usual_encoding() -> None:
    kind = Kind("names", pa.schema([pa.field("name", pa.string())]))
    assert writing(kind).column_properties is None
    assert writing(kind, kind.stored.empty_table()).column_properties is None
