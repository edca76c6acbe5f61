"""Millions of topics at a time: name, namespace, hash, bundle, each as one lookup returns it."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from core.errors import InputError
from core.ids import FULL_UPPER, range_text
from core.pulsar.lookup import parse_topic_name
from core.pulsar.ring import RING_SIZE
from core.snapshot import PulsarSnapshot

Ints = NDArray[np.int64]
Codes = NDArray[np.int32]
Flags = NDArray[np.bool_]

NOWHERE: Final = -1
_PARTS: Final = 5
"""``persistent:``, nothing, tenant, namespace, topic."""

_DOMAINS: Final = ("persistent:", "non-persistent:")


@dataclass(frozen=True, eq=False)
class TopicNames:
    """Names as they were given, made complete.

    Attributes:
        full: Complete names; null where it is no topic name.
        namespace: Of each; null likewise.
    """

    full: pa.Array
    namespace: pa.Array

    @classmethod
    def of(cls, names: pa.Array) -> TopicNames:
        """Complete names as :func:`core.pulsar.lookup.parse_topic_name` does, one by one."""
        names = pc.utf8_trim_whitespace(names.cast(pa.string()))
        parts = pc.split_pattern(names, "/", max_splits=_PARTS)
        is_whole = pc.fill_null(pc.equal(pc.list_value_length(parts), _PARTS), fill_value=False)
        if pc.all(is_whole).as_py() is not True:
            return cls._mixed(names, is_whole)
        cells = [pc.list_element(parts, at) for at in range(_PARTS)]
        is_plain = pc.and_(pc.is_in(cells[0], value_set=pa.array(_DOMAINS)), pc.equal(cells[1], ""))
        for cell in cells[2:]:
            is_plain = pc.and_(is_plain, pc.not_equal(cell, ""))
        if pc.all(is_plain).as_py() is not True:
            return cls._mixed(names, is_plain)
        return cls(names, pc.binary_join_element_wise(cells[2], cells[3], "/"))

    @classmethod
    def _mixed(cls, names: pa.Array, is_plain: pa.Array) -> TopicNames:
        """Take the plain ones together and the rest one by one."""
        plain = cls.of(names.filter(is_plain)) if pc.any(is_plain).as_py() else None
        others = names.filter(pc.invert(is_plain)).to_pylist()
        found = [_parsed(text) for text in others]
        order = np.argsort(
            ~np.asarray(is_plain.to_numpy(zero_copy_only=False), np.bool_), kind="stable"
        )
        back = np.empty_like(order)
        back[order] = np.arange(order.size)
        columns = []
        for at in range(2):
            rest = pa.array([one[at] for one in found], pa.string())
            whole = (
                [getattr(plain, ("full", "namespace")[at]), rest] if plain is not None else [rest]
            )
            columns.append(pa.concat_arrays(whole).take(pa.array(back)))
        return cls(*columns)

    def hashes(self) -> Ints:
        """Return each topic's place on the ring, 0..2**32-1; 0 for what is no topic name.

        Source:
            Pulsar ``NamespaceBundleFactory#getLongHashCode``: CRC-32 of the UTF-8 bytes.
        """
        texts = pc.fill_null(self.full, "").cast(pa.binary()).to_pylist()
        return np.fromiter(map(zlib.crc32, texts), np.int64, len(texts))


def _parsed(text: str | None) -> tuple[str | None, str | None]:
    try:
        name = parse_topic_name(text or "")
    except InputError:
        return None, None
    return str(name), name.namespace


@dataclass(frozen=True, eq=False)
class TopicRing:
    """The bundles of all namespaces in one ascending column.

    Attributes:
        namespaces: Names; a namespace is called by its place here.
        starts: Shape ``(n_bundles,)``: namespace times 2**32 plus the lower bound, ascending.
        uppers: Upper bound of each; exclusive, the last of the ring inclusive.
        owner: Row in ``brokers`` of each bundle's owner; ``NOWHERE``: none, or unknown.
        brokers: Broker ids.
        loose: Namespaces whose bundles do not tile the ring: boundaries were not read, so ranges
            that were seen may overlap; the narrowest counts, as for one lookup.
    """

    namespaces: pa.Array
    starts: Ints
    uppers: Ints
    owner: Codes
    brokers: tuple[str, ...]
    loose: Ints = field(default_factory=lambda: np.zeros(0, np.int64))

    @classmethod
    def of(cls, snapshot: PulsarSnapshot) -> TopicRing:
        """Lay out the bundles of a snapshot; broker-bound namespaces included."""
        listed, seen = snapshot.namespaces, snapshot.bundles
        names = pc.unique(
            pa.concat_arrays(
                [*listed["namespace"].chunks, *seen["namespace"].chunks, pa.array([], pa.string())]
            )
        )
        whole_starts, whole_uppers, tiled = _tiled(listed, names)
        seen_space = _places(seen["namespace"], names)
        lower = np.asarray(seen["lower"].to_numpy(), np.int64)
        upper = np.asarray(seen["upper"].to_numpy(), np.int64)
        is_loose = ~np.isin(seen_space, tiled)
        starts = np.concatenate([whole_starts, seen_space[is_loose] * RING_SIZE + lower[is_loose]])
        uppers = np.concatenate([whole_uppers, upper[is_loose]])
        order = np.lexsort((uppers, starts))
        starts, uppers = starts[order], uppers[order]
        brokers = snapshot.brokers["broker"].combine_chunks()
        owners = _places(seen["owner"], brokers).astype(np.int32)
        return cls(
            namespaces=names,
            starts=starts,
            uppers=uppers,
            owner=_owners(starts, uppers, (seen_space * RING_SIZE + lower, upper, owners)),
            brokers=tuple(brokers.to_pylist()),
            loose=np.unique(seen_space[is_loose]),
        )

    @property
    def bundle_count(self) -> int:
        """Number of bundles."""
        return int(self.starts.size)

    @cached_property
    def namespace_of(self) -> Ints:
        """Namespace of each bundle."""
        return np.asarray(self.starts // RING_SIZE, np.int64)

    def names(self, rows: Ints) -> list[str]:
        """Return the names of some bundles."""
        spaces = self.namespaces.take(pa.array(self.namespace_of[rows])).to_pylist()
        lower = (self.starts[rows] % RING_SIZE).tolist()
        return [
            f"{space}/{range_text(low, up)}"
            for space, low, up in zip(spaces, lower, self.uppers[rows].tolist(), strict=True)
        ]

    def spaces_of(self, names: TopicNames) -> Ints:
        """Return the namespace of each topic; ``NOWHERE`` where there is no such one."""
        return _places(names.namespace, self.namespaces)

    def bundles_of(self, spaces: Ints, hashes: Ints) -> Ints:
        """Return the bundle that holds each topic; ``NOWHERE`` where none is known.

        Args:
            spaces: Namespace of each topic.
            hashes: Place of each on the ring.
        Source:
            Pulsar ``NamespaceBundles#findBundle``: a binary search, here in all rings at once.
        """
        if not self.starts.size:
            return np.full(spaces.shape, NOWHERE, np.int64)
        wanted = spaces * RING_SIZE + hashes
        rows = np.searchsorted(self.starts, wanted, side="right") - 1
        at = np.maximum(rows, 0)
        upper = self.uppers[at]
        holds = (hashes < upper) | ((upper == FULL_UPPER) & (hashes == FULL_UPPER))
        is_here = (rows >= 0) & (spaces >= 0) & (self.starts[at] // RING_SIZE == spaces)
        found = np.where(is_here & holds, rows, NOWHERE)
        for space, mine in self._among_loose(spaces):
            found[mine] = self._narrowest(space, hashes[mine])
        return found

    def _among_loose(self, spaces: Ints) -> Iterator[tuple[int, Ints]]:
        for space in self.loose.tolist():
            mine = np.flatnonzero(spaces == space)
            if mine.size:
                yield space, mine

    def _narrowest(self, space: int, hashes: Ints) -> Ints:
        """Return the narrowest range that holds each hash, by what was seen of a namespace."""
        first, last = np.searchsorted(self.starts, [space * RING_SIZE, (space + 1) * RING_SIZE])
        lower, upper = self.starts[first:last] % RING_SIZE, self.uppers[first:last]
        order = np.argsort(upper - lower, kind="stable")
        lower, upper = lower[order], upper[order]
        found = np.full(hashes.shape, NOWHERE, np.int64)
        for low, up, row in zip(lower.tolist(), upper.tolist(), order.tolist(), strict=True):
            is_last = (up == FULL_UPPER) & (hashes == FULL_UPPER)
            found[(found < 0) & (hashes >= low) & ((hashes < up) | is_last)] = first + row
        return found


def _places(values: pa.Array | pa.ChunkedArray, names: pa.Array) -> Ints:
    found = pc.fill_null(pc.index_in(values, value_set=names, skip_nulls=True), NOWHERE)
    return np.asarray(found.to_numpy(zero_copy_only=False), np.int64)


def _tiled(listed: pa.Table, names: pa.Array) -> tuple[Ints, Ints, Ints]:
    """Return starts and uppers of all namespaces whose boundaries tile the ring, and those."""
    column = listed["boundaries"].combine_chunks()
    counts = np.asarray(pc.fill_null(pc.list_value_length(column), 0).to_numpy(), np.int64)
    flat = np.asarray(column.flatten().to_numpy(zero_copy_only=False), np.int64)
    ends = np.cumsum(counts)
    begins = ends - counts
    of = np.repeat(np.arange(counts.size), counts)
    is_last = np.zeros(flat.size, np.bool_)
    is_last[ends[counts > 0] - 1] = True
    step = np.diff(flat, append=0)
    falls = np.bincount(of, weights=(step <= 0) & ~is_last, minlength=counts.size)
    edge = np.append(flat, 0)
    last = np.append(edge, 0)[np.maximum(ends - 1, 0)]
    is_whole = (counts >= 2) & (edge[np.minimum(begins, flat.size)] == 0)
    is_whole &= (last == FULL_UPPER) & (falls == 0)
    rows = np.flatnonzero(is_whole[of] & ~is_last)
    spaces = _places(listed["namespace"], names)
    return spaces[of[rows]] * RING_SIZE + flat[rows], edge[rows + 1], np.unique(spaces[is_whole])


def _owners(starts: Ints, uppers: Ints, seen: tuple[Ints, Ints, Codes]) -> Codes:
    """Return the owner of each range: of the seen bundle with the same bounds."""
    owner = np.full(starts.size, NOWHERE, np.int32)
    if not starts.size:
        return owner
    keys, upper, owners = seen
    # of ranges that begin at the same place the narrower comes first
    for place in range(2):
        at = np.minimum(np.searchsorted(starts, keys) + place, starts.size - 1)
        same = (starts[at] == keys) & (uppers[at] == upper)
        owner[at[same]] = owners[same]
    return owner
