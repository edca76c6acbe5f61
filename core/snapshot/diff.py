"""How two snapshots of one cluster differ: what moved, came, went, was split or was set.

Everything is computed on whole columns: keys are looked up once, then compared as masks.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from core.errors import InputError
from core.snapshot.model import PulsarSnapshot

MOVES = pa.schema(
    [
        pa.field("bundle", pa.string(), nullable=False),
        pa.field("from_broker", pa.string()),  # null: it had no owner
        pa.field("to_broker", pa.string()),  # null: it has no owner now
    ]
)
"""Bundles in both snapshots whose owner differs, in the order of the later one."""

SPLITS = pa.schema(
    [
        pa.field("parent", pa.string(), nullable=False),
        pa.field("children", pa.list_(pa.string()), nullable=False),
    ]
)
"""Bundles of the earlier snapshot that the later one has in parts."""

SETTING_CHANGES = pa.schema(
    [
        pa.field("broker", pa.string()),  # null: every broker without a row of its own
        pa.field("name", pa.string(), nullable=False),
        pa.field("before", pa.string()),  # null: it had no row
        pa.field("after", pa.string()),
    ]
)
"""Settings whose value differs, sorted by name and broker."""


@dataclass(frozen=True)
class SnapshotDiff:
    """Changes between two snapshots of one cluster.

    Attributes:
        before_at: When the earlier one was taken.
        after_at: When the later one was taken.
        moved: Table of :data:`MOVES`.
        appeared: Bundles that only the later one has, the parts of a split left out.
        gone: Bundles that only the earlier one has, the split ones left out.
        splits: Table of :data:`SPLITS`.
        brokers_joined: Brokers that only the later one has.
        brokers_left: Brokers that only the earlier one has.
        brokers_restarted: Brokers in both that started in between.
        leader: ``(before, after)`` when the leader changed, else ``None``.
        settings: Table of :data:`SETTING_CHANGES`.
    """

    before_at: datetime
    after_at: datetime
    moved: pa.Table = field(repr=False)
    appeared: tuple[str, ...]
    gone: tuple[str, ...]
    splits: pa.Table = field(repr=False)
    brokers_joined: tuple[str, ...]
    brokers_left: tuple[str, ...]
    brokers_restarted: tuple[str, ...]
    leader: tuple[str | None, str | None] | None
    settings: pa.Table = field(repr=False)

    @property
    def is_empty(self) -> bool:
        """Whether there are no changes."""
        return not (
            self.moved.num_rows
            or self.appeared
            or self.gone
            or self.splits.num_rows
            or self.brokers_joined
            or self.brokers_left
            or self.brokers_restarted
            or self.leader
            or self.settings.num_rows
        )


def diff_snapshots(a: PulsarSnapshot, b: PulsarSnapshot) -> SnapshotDiff:
    """Return the changes from ``a`` to ``b``.

    Args:
        a: The earlier snapshot.
        b: The later snapshot of the same cluster.
    Raises:
        InputError: They are of different clusters, or ``b`` is older.
    Cost:
        O(bundles), no Python loop over bundles.
    """
    if a.manifest.cluster != b.manifest.cluster:
        raise InputError(
            f"{a.manifest.cluster!r} and {b.manifest.cluster!r} are different clusters.",
            hint="Compare two snapshots of one cluster.",
        )
    if a.manifest.taken_at > b.manifest.taken_at:
        raise InputError("The first snapshot is newer than the second.", hint="Swap the two.")
    splits, parents, children = _splits(a.bundles, b.bundles)
    left, joined = _only(a.brokers["broker"], b.brokers["broker"])
    gone, appeared = _only(a.bundles["bundle"], b.bundles["bundle"])
    leaders = (a.manifest.leader, b.manifest.leader)
    return SnapshotDiff(
        before_at=a.manifest.taken_at,
        after_at=b.manifest.taken_at,
        moved=moved_bundles(a.bundles, b.bundles),
        appeared=tuple(_without(appeared, children)),
        gone=tuple(_without(gone, parents)),
        splits=splits,
        brokers_joined=tuple(joined.to_pylist()),
        brokers_left=tuple(left.to_pylist()),
        brokers_restarted=_restarted(a.brokers, b.brokers),
        leader=leaders if leaders[0] != leaders[1] else None,
        settings=_setting_changes(a.settings, b.settings),
    )


def _rows(keys: pa.ChunkedArray, values: pa.ChunkedArray) -> NDArray[np.int64]:
    """Row of each of ``values`` in ``keys``, -1 where it is not there."""
    found = pc.fill_null(pc.index_in(values, value_set=keys.combine_chunks()), -1)
    rows: NDArray[np.int64] = np.asarray(found.to_numpy(), dtype=np.int64)
    return rows


def _only(a: pa.ChunkedArray, b: pa.ChunkedArray) -> tuple[pa.ChunkedArray, pa.ChunkedArray]:
    """Values that only ``a`` has, and values that only ``b`` has."""
    return a.filter(pa.array(_rows(b, a) < 0)), b.filter(pa.array(_rows(a, b) < 0))


def _without(names: pa.ChunkedArray, dropped: list[str]) -> list[str]:
    taken = set(dropped)
    return [name for name in names.to_pylist() if name not in taken]


def moved_bundles(a: pa.Table, b: pa.Table) -> pa.Table:
    """Return owners that differ, as :data:`MOVES`; an unknown owner (no source) is no move."""
    rows = _rows(a["bundle"], b["bundle"])
    later = b.filter(pa.array(rows >= 0))
    earlier = a.take(pa.array(rows[rows >= 0]))
    known = pc.and_(pc.is_valid(earlier["owner_source"]), pc.is_valid(later["owner_source"]))
    before = pc.fill_null(earlier["owner"], "")
    after = pc.fill_null(later["owner"], "")
    mask = pc.and_(known, pc.not_equal(before, after))
    return pa.Table.from_arrays(
        [
            column.filter(mask).combine_chunks()
            for column in (later["bundle"], earlier["owner"], later["owner"])
        ],
        schema=MOVES,
    )


def _splits(a: pa.Table, b: pa.Table) -> tuple[pa.Table, list[str], list[str]]:
    """Bundles of ``a`` that ``b`` has in parts: same namespace, parts inside the old range."""
    keep = ["bundle", "namespace", "lower", "upper"]
    gone = a.filter(pa.array(_rows(b["bundle"], a["bundle"]) < 0)).select(keep)
    born = b.filter(pa.array(_rows(a["bundle"], b["bundle"]) < 0)).select(keep)
    by_namespace: dict[str, list[dict[str, object]]] = {}
    for row in born.to_pylist():  # only what is new: few
        by_namespace.setdefault(row["namespace"], []).append(row)
    parents: list[str] = []
    parts: list[list[str]] = []
    for old in gone.to_pylist():
        inside = [
            str(row["bundle"])
            for row in by_namespace.get(old["namespace"], [])
            if row["lower"] >= old["lower"] and row["upper"] <= old["upper"]
        ]
        if len(inside) > 1:
            parents.append(old["bundle"])
            parts.append(inside)
    table = pa.Table.from_arrays(
        [pa.array(parents, pa.string()), pa.array(parts, pa.list_(pa.string()))], schema=SPLITS
    )
    return table, parents, [name for part in parts for name in part]


def _restarted(a: pa.Table, b: pa.Table) -> tuple[str, ...]:
    rows = _rows(a["broker"], b["broker"])
    later = b.filter(pa.array(rows >= 0))
    earlier = a.take(pa.array(rows[rows >= 0]))
    newer = pc.fill_null(pc.greater(later["started_at"], earlier["started_at"]), fill_value=False)
    return tuple(later["broker"].filter(newer).to_pylist())


def _setting_changes(a: pa.Table, b: pa.Table) -> pa.Table:
    before = {(row["name"], row["broker"]): row["value"] for row in a.to_pylist()}
    after = {(row["name"], row["broker"]): row["value"] for row in b.to_pylist()}
    changed = sorted(
        (key for key in before.keys() | after.keys() if before.get(key) != after.get(key)),
        key=lambda key: (key[0], key[1] or ""),
    )
    return pa.Table.from_pylist(
        [
            {
                "broker": broker,
                "name": name,
                "before": before.get((name, broker)),
                "after": after.get((name, broker)),
            }
            for name, broker in changed
        ],
        schema=SETTING_CHANGES,
    )
