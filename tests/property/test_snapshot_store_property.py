"""A snapshot's identity is its content: not its chunks, its slices, its file or its padding."""

from __future__ import annotations

import tempfile
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sampled import examples

from core.errors import SnapshotError
from core.schemas import PULSAR_TABLES
from core.snapshot import Manifest, Problem, PulsarSnapshot
from core.snapshot.store import load_snapshot, save_snapshot

MOMENT = datetime(2026, 11, 21, 14, 0, tzinfo=UTC)
VALUES = {
    pa.string(): st.text(max_size=8),
    pa.int64(): st.integers(-(2**62), 2**62),
    pa.float64(): st.floats(allow_nan=False),
    pa.bool_(): st.booleans(),
    pa.list_(pa.string()): st.lists(st.text(max_size=4), max_size=3),
    pa.list_(pa.int64()): st.lists(st.integers(0, 2**32), max_size=3),
}


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
def snapshots(draw: st.DrawFn) -> PulsarSnapshot:
    tables = {
        name: draw(columns(PULSAR_TABLES[name], draw(st.integers(0, 9))))
        for name in ("settings", "namespaces", "topics", "policies")
    }
    problems = tuple(
        Problem(code="malformed", place=text, what="w", done="d")
        for text in draw(st.lists(st.text(max_size=5), max_size=2))
    )
    return PulsarSnapshot.build(
        Manifest(cluster="c", taken_at=MOMENT, tables={}, problems=problems), tables
    )


@settings(max_examples=examples(60), deadline=None)
@given(snapshots())
def test_a_saved_snapshot_comes_back_with_the_same_content_and_id(snapshot: PulsarSnapshot) -> None:
    with tempfile.TemporaryDirectory() as root:
        save_snapshot(snapshot, Path(root) / "s")
        again = load_snapshot(Path(root) / "s")
    assert again.snapshot_id == snapshot.snapshot_id
    assert again.manifest == snapshot.manifest
    assert all(again.tables[name].equals(table) for name, table in snapshot.tables.items())


@settings(max_examples=examples(60), deadline=None)
@given(snapshots(), st.integers(0, 8))
def test_the_id_does_not_depend_on_chunks_and_slices(snapshot: PulsarSnapshot, cut: int) -> None:
    sliced = {
        name: pa.concat_tables([table.slice(0, cut), table.slice(cut)])
        for name, table in snapshot.tables.items()
    }
    assert PulsarSnapshot.build(snapshot.manifest, sliced).snapshot_id == snapshot.snapshot_id


@settings(max_examples=examples(40), deadline=None)
@given(snapshots())
def test_a_changed_table_is_noticed(snapshot: PulsarSnapshot) -> None:
    with tempfile.TemporaryDirectory() as root:
        save_snapshot(snapshot, Path(root) / "a")
        other = pa.Table.from_pylist(
            [{"name": "n", "value": "v", "origin": "file"}], schema=PULSAR_TABLES["settings"]
        )
        changed = pa.concat_tables([snapshot.tables["settings"], other])
        save_snapshot(
            PulsarSnapshot.build(snapshot.manifest, {**snapshot.tables, "settings": changed}),
            Path(root) / "b",
        )
        (Path(root) / "b" / "settings.parquet").replace(Path(root) / "a" / "settings.parquet")
        with pytest.raises(SnapshotError, match="does not match its manifest"):
            load_snapshot(Path(root) / "a")
