"""A new version of the tiers is made while the rows of the old one answer."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from history_rows import CLUSTER, recorded, store_in
from history_worlds import pulsar_minutes
from tier_rows import after, whole

from core.history.queries.load import LoadRequest, load_over
from core.history.store.layout import Kinds
from core.history.store.reading import TimeRange
from core.history.store.tables import Tables
from core.history.tiers import pipeline
from core.history.tiers.partitions import tier_booked
from core.history.tiers.registry import PROFILES, TIERS, tier_tables
from core.progress import JobStoppedError
from core.snapshot.record import Kind
from core.units import datetime_to_ms

SNAPSHOTS = pulsar_minutes(4, 4, every_s=12 * 3_600.0)  # two days
NEW = "topics"
"""The measure that version 1 does not have."""


class StopsAfter:
    """Progress that stops a turn before a step."""

    def __init__(self, steps: int) -> None:
        self._left = steps

    def step(self, done: int, total: int, words: str) -> None:
        """Count, and stop."""
        del done, total, words
        if not self._left:
            raise JobStoppedError("Stopped.")
        self._left -= 1


@pytest.fixture(scope="module")
def first(tmp_path_factory):
    """A history of which the tiers are of a release without a measure, and the rows with it."""
    folder = tmp_path_factory.mktemp("first")
    store = store_in(folder)
    recorded(store, SNAPSHOTS)
    pipeline.roll_up(store, CLUSTER, after(SNAPSHOTS))
    rows, tiers = whole(store), tier_tables(store)
    profiles = tiers.scan(PROFILES, ["taken_at", *PROFILES.columns.names], "true")
    shutil.rmtree(Path(tiers.uri))
    kinds = [Kind(one.name, without(one.columns), key=one.key) for one in TIERS]
    older = Tables(tiers.uri, {}, Kinds((), kinds))
    for kind in kinds:
        kept = (rows | {PROFILES.name: profiles})[kind.name]
        kept = kept.select(["taken_at", *kind.columns.names])
        older.append(kind, tier_booked(kind, CLUSTER, kept))
    return folder, rows


@pytest.fixture
def older(first, tmp_path):
    shutil.copytree(first[0], tmp_path, dirs_exist_ok=True)
    return store_in(tmp_path)


def without(columns: pa.Schema) -> pa.Schema:
    return pa.schema([one for one in columns if not one.name.startswith(f"{NEW}_")])


def asked(store, source: str):
    span = TimeRange(*(datetime_to_ms(SNAPSHOTS[at].manifest.taken_at) for at in (0, -1)))
    request = LoadRequest(
        cluster=CLUSTER,
        kind="tenant",
        subject=SNAPSHOTS[0].bundles["bundle"][0].as_py().partition("/")[0],
        span=span,
        source=source,
        is_whole=True,
    )
    return load_over(store, request)


@pytest.mark.parametrize("source", ["hours", "days"])
def test_the_old_version_answers_until_the_new_one_is_made(
    first, older, source, monkeypatch
) -> None:
    now_ms = after(SNAPSHOTS)
    before = asked(older, source)
    assert before.rows[NEW].null_count == before.rows.num_rows > 1
    assert before.rows["msg_throughput"].null_count == before.from_finer == 0
    hours = len(SNAPSHOTS)
    assert pipeline.status(older, CLUSTER, now_ms).due == 0
    monkeypatch.setattr(pipeline, "FORMAT", 2)
    assert pipeline.status(older, CLUSTER, now_ms).due == hours
    with pytest.raises(JobStoppedError):
        pipeline.roll_up(older, CLUSTER, now_ms, progress=StopsAfter(1))
    left = pipeline.status(older, CLUSTER, now_ms).due
    assert 0 < left < hours
    half = asked(older, source)
    assert half.rows["msg_throughput"].equals(before.rows["msg_throughput"])
    assert half.from_finer == 0
    pipeline.roll_up(older, CLUSTER, now_ms)
    assert pipeline.status(older, CLUSTER, now_ms).due == 0
    made = asked(older, source)
    assert made.rows[NEW].null_count == 0
    assert made.rows["msg_throughput"].equals(before.rows["msg_throughput"])
    for tier, rows in whole(older).items():
        assert rows.drop_columns("revision").equals(first[1][tier].drop_columns("revision"))


def test_hours_of_the_old_version_stay_where_their_minutes_are_gone(older, monkeypatch) -> None:
    before = whole(older)["hours"]
    day = SNAPSHOTS[0].manifest.taken_at
    older.tables.table("minutes").delete(f"day = '{day:%Y-%m-%d}'")
    monkeypatch.setattr(pipeline, "FORMAT", 2)
    pipeline.roll_up(older, CLUSTER, after(SNAPSHOTS))
    rows = whole(older)["hours"]
    assert rows.num_rows == before.num_rows
    is_new = pc.is_valid(rows.filter(pc.field("kind") == "bundle")[f"{NEW}_mean"]).to_pylist()
    assert True in is_new
    assert False in is_new
