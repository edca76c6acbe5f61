"""The bundles of a very large cluster at the start of a simulation, and what they are by now.

Executors keep them packed, some brokers a piece, so that a question costs what the brokers cost
that it is about.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import from_arrow_schema

from core.arrays import column_values
from core.pulsar.averages import after_each, seeds_of, set_column
from core.pulsar.bundle_counts import Codes, Ints
from core.pulsar.java.maps import spread_hashes
from core.schemas import PULSAR_TABLES
from core.schemas.pulsar import RATES
from core.snapshot import PulsarSnapshot
from core.spark.lift import Kernel
from core.spark.progress import followed
from core.spark.pulsar.large.cluster import NEEDED, LargeCluster
from core.spark.pulsar.large.scan import (
    CODE,
    NAMED,
    OWN,
    PIECES,
    ROW,
    Coder,
    Cut,
    joined,
    unpacked,
)
from core.spark.pulsar.large.sums import HASH, KEYS, PAIRS, BundleFilter, view_of_group
from core.spark.tables import collected

SIMULATED: Final = (
    *NEEDED,
    *("short_samples", "long_samples", "producer_count", "consumer_count", "cache_size_bytes"),
)
"""Columns of bundles that a simulation goes by."""

SINCE: Final = "since"
_ROWS_A_GROUP: Final = 65_536
_ROWS_A_KEY: Final = 1_000
"""Few enough that a broker is looked at without its neighbours, enough that packing pays."""

_KEYS_AT_ONCE: Final = 64
_MIN_TASKS: Final = 8
_CACHED: Final = pa.schema(
    [
        *(PULSAR_TABLES["bundles"].field(name) for name in SIMULATED),
        *(pa.field(name, pa.int32()) for name in (OWN, NAMED, CODE)),
        pa.field(ROW, pa.int64()),
    ]
)
_NAMES: Final = pa.schema(
    [
        _CACHED.field("bundle"),
        *(_CACHED.field(name) for name in (OWN, NAMED, CODE, ROW)),
        pa.field(HASH, pa.int64()),
        pa.field("is_measured", pa.bool_()),
        pa.field("is_measured_later", pa.bool_()),  # once a report of it was sampled
    ]
)
_BY_KEY: Final = PIECES.append(pa.field("names", pa.binary()))
"""``names``: :data:`_NAMES` of the rows, apart from the rest, for those who look at all of them."""

MOVED: Final = _CACHED.append(pa.field(SINCE, pa.int64()))
"""``since``: the first round whose samples a bundle takes."""


@dataclass(frozen=True)
class ByKey:
    """Distributes brokers to keys; bundles counted for no broker have keys of their own.

    Attributes:
        keys: For brokers; as many more are for those.
        groups: Of keys.
    """

    keys: int
    groups: int | None = None

    def __call__(self, rows: pa.Table) -> Ints:
        """Return the key of each row, or the group of that."""
        code = rows[CODE].to_numpy().astype(np.int64)
        uncounted_keys = self.keys + rows[ROW].to_numpy() % self.keys
        key = np.where(code < 0, uncounted_keys, code % self.keys)
        return np.asarray(key if self.groups is None else key % self.groups, np.int64)


@dataclass(frozen=True, eq=False)
class CachedBundles:
    """The bundles at the start, for as long as a simulation goes on.

    Attributes:
        origin: The cluster.
        by_key: Cached by the executors: :data:`_BY_KEY`, whose ``group`` is the key.
        keys: Number of keys for the brokers; see :class:`ByKey`.
    """

    origin: LargeCluster
    by_key: DataFrame
    keys: int
    _counted: set[str] = field(default_factory=set)
    _pairs: list[pa.Table] = field(default_factory=list)

    @classmethod
    def of(cls, origin: LargeCluster) -> CachedBundles:
        """Distribute them; nothing is read before the first query."""
        keys = max(origin.bundle_count // _ROWS_A_KEY, 2)
        groups = max(origin.bundle_count // _ROWS_A_GROUP, 2)
        dealt = origin.pieces(Cut(_whole, ByKey(keys, groups)), SIMULATED)
        cut = Cut(_whole, ByKey(keys))
        by_key = _cut_again(dealt.repartition(groups, "group"), cut, origin.skeleton_frame())
        return cls(origin, by_key.persist(), keys)

    def drop(self) -> None:
        """Let the executors forget them."""
        self.by_key.unpersist()

    def key_of(self, codes: Codes | Ints) -> Ints:
        """Return the key of each broker; those without a broker are left out."""
        return np.asarray(codes[codes >= 0] % self.keys, np.int64)

    @cached_property
    def there(self) -> Ints:
        """Keys under which there is something."""
        schema = pa.schema([PIECES.field("group")])
        with followed(self.origin.spark, self.origin.progress, "distributing bundles by broker"):
            return np.unique(collected(self.by_key, schema)["group"].to_numpy()).astype(np.int64)

    @cached_property
    def uncounted_keys(self) -> Ints:
        """Keys of bundles counted for no broker."""
        return self.there[self.there >= self.keys]

    @cached_property
    def quota_keys(self) -> Ints:
        """Keys of the bundles with a quota of their own."""
        found = self.origin.named(self.origin.quota_bundles)
        return np.unique(ByKey(self.keys)(found))

    def narrowed(self, keys: Ints) -> Ints | None:
        """Return some keys, or ``None`` for all if that is as cheap."""
        return None if keys.size * 2 > self.there.size else keys

    def chosen(self, keys: Ints | None) -> DataFrame:
        """Return the pieces of some keys; ``None`` for all."""
        pieces = self.by_key.select(*PIECES.names)
        if keys is None:
            return pieces
        few = pieces.filter(f"`group` IN ({', '.join(map(str, keys.tolist()))})")
        return few.coalesce(max(keys.size // _KEYS_AT_ONCE, _MIN_TASKS))

    def pairs_of(self, namespaces: Collection[str]) -> pa.Table:
        """Return :data:`PAIRS` of namespaces at the start; each is counted once."""
        new = set(namespaces) - self._counted
        if new:
            self._pairs.append(self.origin.pairs(sorted(new)))
            self._counted.update(new)
        whole = pa.concat_tables([PAIRS.empty_table(), *self._pairs])
        return whole.filter(pc.is_in(whole["namespace"], pa.array(sorted(namespaces), pa.string())))


def _whole(part: pa.Table) -> pa.Table:
    return part


def _cut_again(pieces: DataFrame, cut: Cut, frame: PulsarSnapshot) -> DataFrame:
    """Return each group's pieces, put together and cut by key: :data:`_BY_KEY`."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        held = list(batches)
        if not held:
            return
        whole = pa.Table.from_batches(held)
        for group in pc.unique(whole["group"]).to_pylist():
            rows = joined(whole.filter(pc.equal(whole["group"], group)))
            names = cut(names_of(frame, rows))["rows"]  # the same pieces, in the same order
            yield from cut(rows).append_column("names", names).cast(_BY_KEY).to_batches()

    return pieces.mapInArrow(run, from_arrow_schema(_BY_KEY))


def names_of(frame: PulsarSnapshot, rows: pa.Table) -> pa.Table:
    """Return :data:`_NAMES` of bundles as they are.

    An average that is known stays known. One of a bundle without a message rate, but with a
    throughput, begins with the first sample.

    Args:
        frame: Manifest and policies.
        rows: At least :data:`_CACHED`.
    """
    measured = view_of_group(frame, rows, has_names=False)[1].is_measured
    later = measured.copy()
    for rate in RATES:
        later |= (rows[NAMED].to_numpy() >= 0) & np.isfinite(column_values(rows, rate))
    hashes = spread_hashes(rows["bundle"].to_pylist())
    named = rows.select(["bundle", OWN, NAMED, CODE, ROW])
    for name, values in ((HASH, hashes), ("is_measured", measured), ("is_measured_later", later)):
        named = named.append_column(name, pa.array(values))
    return named.cast(_NAMES)


@dataclass(frozen=True, eq=False)
class BundleChange:
    """Makes bundles what they are now.

    Attributes:
        coder: Numbers brokers as the leader counts now.
        moved: Table of :data:`MOVED`: bundles that moved, as they were when they did, but for where
            they are.
        samples: How many of every bundle the leader took in each round.
        keys: See :class:`ByKey`.
        frame: Manifest and policies where some bundle has a quota; ``None`` if none has.
    """

    coder: Coder
    moved: pa.Table
    samples: tuple[int, ...]
    keys: int
    frame: PulsarSnapshot | None

    def answer_with(self, pieces: DataFrame, kernel: Kernel, schema: pa.Schema) -> DataFrame:
        """Return a kernel's results for the current bundles, some keys at once."""

        def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                for first in range(0, batch.num_rows, _KEYS_AT_ONCE):
                    some = batch.slice(first, _KEYS_AT_ONCE)
                    rows = pa.concat_tables(
                        unpacked(rows.as_buffer()) for rows in some.column("rows")
                    )
                    keys = some.column("group").to_numpy()
                    answers = self.answered(kernel, keys, rows.combine_chunks())
                    yield from answers.select(schema.names).to_batches()

        return pieces.mapInArrow(run, from_arrow_schema(schema))

    def map_keys(self, by_key: DataFrame, shared: Kernel) -> DataFrame:
        """Return some keys of the leader's map, of bundles that never moved: :data:`KEYS`."""
        gone = self.moved[ROW].combine_chunks()

        def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                for first in range(0, batch.num_rows, _KEYS_AT_ONCE):
                    some = batch.column("names").slice(first, _KEYS_AT_ONCE)
                    names = pa.concat_tables(unpacked(one.as_buffer()) for one in some)
                    stayed = pc.invert(pc.is_in(names[ROW], value_set=gone))
                    yield from shared(self._keys_of(names.filter(stayed))).to_batches()

        return by_key.select("names").mapInArrow(run, from_arrow_schema(KEYS))

    def moved_keys(self, frame: PulsarSnapshot) -> pa.Table:
        """Return the keys of the bundles that moved; see :func:`names_of`."""
        return self._keys_of(names_of(frame, self.moved))

    def _keys_of(self, names: pa.Table) -> pa.Table:
        code = self.coder.counted_for(names[OWN].to_numpy(), names[NAMED].to_numpy())
        held = names["is_measured_later" if self.samples else "is_measured"]
        there = pc.and_(held, pa.array(code >= 0))
        keys = names.select(["bundle", HASH]).append_column(CODE, pa.array(code, pa.int32()))
        return keys.filter(there).select(KEYS.names).cast(KEYS)

    @property
    def nothing(self) -> pa.Table:
        """No bundles, in the schema of the cache."""
        return _CACHED.empty_table()

    def answered(self, kernel: Kernel, keys: Ints, rows: pa.Table) -> pa.Table:
        """Return a kernel's results for the bundles of some keys, in row order."""
        rows = self._placed(keys, rows)
        if isinstance(kernel, BundleFilter):  # which looks at no average
            return self._aged(kernel(rows))
        return kernel(self._aged(rows))

    def _placed(self, keys: Ints, rows: pa.Table) -> pa.Table:
        rows = rows.append_column(SINCE, pa.array(np.zeros(rows.num_rows, np.int64)))
        gone = pc.is_in(rows[ROW], value_set=self.moved[ROW].combine_chunks())
        there = np.isin(self.moved[CODE].to_numpy() % self.keys, keys)
        came = self.moved.filter(pa.array(there)).select(rows.column_names).cast(rows.schema)
        rows = pa.concat_tables([rows.filter(pc.invert(gone)), came]).sort_by(ROW)
        code = self.coder.counted_for(rows[OWN].to_numpy(), rows[NAMED].to_numpy())
        return set_column(rows, CODE, pa.array(code, pa.int32()))

    def _aged(self, rows: pa.Table) -> pa.Table:
        since = rows[SINCE].to_numpy()
        return aged(rows, self.frame, self.samples, since).drop_columns(SINCE)


def aged(
    rows: pa.Table,
    frame: PulsarSnapshot | None,
    samples: Sequence[int],
    since: Ints | None = None,
) -> pa.Table:
    """Return bundles after the samples of some rounds.

    Args:
        rows: At least :data:`_CACHED`.
        frame: Manifest and policies where some bundle has a quota; ``None`` if none has.
        samples: How many of every bundle the leader takes in each round.
        since: First round whose samples each bundle takes; ``None`` if all take all.
    """
    seeds = {}
    if frame is not None:
        tables = {**frame.tables, "bundles": rows}
        seeds = dict(seeds_of(PulsarSnapshot.build(frame.manifest, tables)))
    return after_each(rows, rows[NAMED].to_numpy() >= 0, seeds, samples, since)
