"""Whatever a cluster does, the history gives back every minute exactly."""

from __future__ import annotations

import tempfile
from datetime import UTC, datetime, timedelta

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from history_worlds import pegasus_minutes, pulsar_minutes
from hypothesis import given, settings
from hypothesis import strategies as st
from sampled import examples

from core.history.store.store import HistoryLocation, HistoryStore
from core.history.store.writer import Recorder
from core.schemas import PULSAR_TABLES
from core.snapshot import Manifest, PulsarSnapshot
from core.snapshot.store import Storable

MOMENT = datetime(2026, 11, 21, 14, 58, tzinfo=UTC)
VALUES = {
    pa.string(): st.text(max_size=3),
    pa.int64(): st.integers(-(2**62), 2**62),
    pa.float64(): st.floats(),
    pa.bool_(): st.booleans(),
    pa.list_(pa.string()): st.lists(st.none() | st.text(max_size=2), max_size=3),
    pa.list_(pa.int64()): st.lists(st.none() | st.integers(0, 2**32), max_size=3),
}


def recorded(minutes: list[Storable], root: str, restart_at: int = -1) -> HistoryStore:
    store = HistoryStore(HistoryLocation(root))
    recorder = Recorder(store, "c")
    for at, snapshot in enumerate(minutes):
        if at == restart_at:
            recorder = Recorder(store, "c")
        assert recorder.record(snapshot).is_new
    return store


def held(snapshot: Storable) -> dict[str, list]:
    return {name: table.to_pylist() for name, table in snapshot.tables.items()}


@pytest.mark.slow
@settings(max_examples=examples(3), deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(0, 6), st.sampled_from((60.0, 600.0)))
def test_every_minute_of_a_changing_pulsar_comes_back(seed, restart_at, every_s) -> None:
    minutes = pulsar_minutes(seed, 7, every_s=every_s)
    with tempfile.TemporaryDirectory() as root:
        store = recorded(minutes, root, restart_at)
        listed = store.minutes("c")
        assert listed["snapshot_id"].to_pylist() == [one.snapshot_id for one in minutes]
        for snapshot in minutes:
            again = store.snapshot_at("c", snapshot.manifest.taken_at)
            assert held(again) == held(snapshot)
        store.compact("c", minutes[-1].manifest.taken_at + timedelta(hours=3))
        for snapshot in minutes:
            assert held(store.snapshot_at("c", snapshot.manifest.taken_at)) == held(snapshot)
        loads = store.rows("bundle_loads", "c")
    for snapshot in minutes:
        of_minute = loads.filter(
            pc.equal(loads["taken_at"], round(snapshot.manifest.taken_at.timestamp() * 1000))
        )
        rates = [
            np.nan_to_num(pc.fill_null(one["msg_rate_in"], 0.0).to_numpy(), posinf=0.0)
            for one in (of_minute, snapshot.bundles)
        ]
        assert rates[0].sum() == pytest.approx(rates[1].sum())


@settings(max_examples=examples(3), deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(0, 5))
def test_every_minute_of_a_changing_pegasus_comes_back(seed, restart_at) -> None:
    minutes = pegasus_minutes(seed, 6)
    with tempfile.TemporaryDirectory() as root:
        store = recorded(minutes, root, restart_at)
        for snapshot in minutes:
            again = store.snapshot_at("c", snapshot.manifest.taken_at)
            assert held(again) == held(snapshot)


def columns(schema: pa.Schema, rows: int) -> st.SearchStrategy[pa.Table]:
    drawn = {}
    for field in schema:
        value = VALUES[field.type]
        cell = st.none() | value if field.nullable else value
        drawn[field.name] = st.lists(cell, min_size=rows, max_size=rows)
    return st.fixed_dictionaries(drawn).map(
        lambda found: pa.Table.from_pydict(found, schema=schema)
    )


@st.composite
def anything(draw: st.DrawFn, minute: int) -> PulsarSnapshot:
    tables = {
        name: draw(columns(PULSAR_TABLES[name], draw(st.integers(0, 3))))
        for name in draw(st.sets(st.sampled_from(sorted(PULSAR_TABLES)), max_size=3))
        if name != "bundles"  # a bundle's name says its range
    }
    moment = MOMENT + timedelta(minutes=minute)
    return PulsarSnapshot.build(Manifest(cluster="c", taken_at=moment, tables={}), tables)


@settings(max_examples=examples(12), deadline=None)
@given(st.tuples(*(anything(minute) for minute in range(3))))
def test_rows_of_any_content_come_back_with_the_same_id(minutes) -> None:
    with tempfile.TemporaryDirectory() as root:
        store = recorded(list(minutes), root)
        for snapshot in minutes:
            again = store.snapshot_at("c", snapshot.manifest.taken_at)
            assert again.snapshot_id == snapshot.snapshot_id
