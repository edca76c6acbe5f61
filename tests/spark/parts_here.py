"""Tasks of a large cluster carried out one after the other, without Spark and its Java.

What is looked at is the same: kernels travel as they do to executors, parts and groups are as many,
and answers come in another order.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark import cloudpickle

from core.schemas import conform
from core.snapshot import store
from core.spark.jobs.packed import unpack
from core.spark.pulsar.large import bundle_state, cluster, drill, evolved, place, scan

ROWS_A_PART = 300


def sent(kernel: Any) -> Any:
    return cloudpickle.loads(cloudpickle.dumps(kernel))


@dataclass(frozen=True)
class Frame:
    """As much of a Spark table as is asked for."""

    tables: tuple[pa.Table, ...]

    def repartition(self, count: int, key: str) -> Frame:
        whole = pa.concat_tables(self.tables)
        slots = np.array([hash(str(one)) % count for one in whole[key].to_pylist()])
        return Frame(tuple(whole.filter(pa.array(slots == slot)) for slot in range(count)))

    def filter(self, words: str) -> Frame:
        wanted = pa.array([int(one) for one in re.findall(r"\d+", words)], pa.int32())
        return Frame(tuple(one.filter(pc.is_in(one["group"], wanted)) for one in self.tables))

    def select(self, *names: str) -> Frame:
        return Frame(tuple(one.select(names) for one in self.tables))

    def coalesce(self, _count: int) -> Frame:
        return self

    def persist(self) -> Frame:
        return self

    def unpersist(self) -> None:
        pass

    def mapInArrow(self, run: Any, _schema: Any) -> Frame:  # noqa: N802  # PySpark's name
        told = sent(run)
        found = [list(told(iter(table.to_batches()))) for table in self.tables]
        return Frame(tuple(pa.Table.from_batches(batches) for batches in found if batches))


def each_part(_spark: Any, parts: Sequence[Any], reader: Any, kernel: Any, schema: Any) -> Frame:
    reader, kernel = sent(reader), sent(kernel)
    tables = [kernel(reader.read(part)).select(schema.names) for part in parts]
    return Frame(tuple(reversed(tables)))


def each_group(pieces: Frame, kernel: Any, _schema: Any) -> Frame:
    kernel = sent(scan.JoinedKernel(kernel))
    whole = pa.concat_tables(pieces.tables)
    groups = pc.unique(whole["group"]).to_pylist()
    return Frame(tuple(kernel(whole.filter(pc.equal(whole["group"], one))) for one in groups))


def collected(rows: Frame, schema: pa.Schema, *, limit: int = 10**9) -> pa.Table:
    tables: Iterable[pa.Table] = (conform(table, schema, name="answer") for table in rows.tables)
    found = pa.concat_tables([schema.empty_table(), *tables])
    assert found.num_rows <= limit
    return found


def each(_spark: Any, parts: Sequence[Any], kernel: Any, *_words: Any) -> list[Any]:
    told = sent(kernel)
    tables = [told(pa.table({"task": [number]})) for number in range(len(parts))]
    return unpack(pa.concat_tables(tables))


@pytest.fixture
def tasks_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have parts and groups worked on in this process."""
    for module in (cluster, evolved, bundle_state, place):
        monkeypatch.setattr(module, "collected", collected)
        monkeypatch.setattr(module, "followed", lambda *_: nullcontext())
    for module in (cluster, place):
        monkeypatch.setattr(module, "each_group", each_group)
    monkeypatch.setattr(cluster, "each_part", each_part)
    monkeypatch.setattr(cluster, "parts_of", lambda path: scan.parts_of(path, ROWS_A_PART))
    monkeypatch.setattr(store, "_ROW_GROUP", 100)
    monkeypatch.setattr(cluster, "_ROWS_A_SUM", 700)
    monkeypatch.setattr(bundle_state, "_ROWS_A_GROUP", 300)
    monkeypatch.setattr(bundle_state, "_ROWS_A_KEY", 90)
    monkeypatch.setattr(bundle_state, "_KEYS_AT_ONCE", 3)
    monkeypatch.setattr(drill, "each", each)
