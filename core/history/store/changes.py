"""Tables as keyed rows: which of them changed since the last minute, and back to a table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from core.snapshot.record import (
    COPY,
    GONE,
    ROW_AT,
    TAKEN_AT,
    Kind,
)

Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]

_APART: Final = "\x1f"
_NULL: Final = "\x1e"


@dataclass(frozen=True)
class KeyedRows:
    """One kind's rows of one snapshot, each with a key that no other has.

    Attributes:
        rows: Its columns, ``row_at`` and ``copy``.
        keys: Shape ``(rows,)``, texts.
    """

    rows: pa.Table
    keys: pa.Array


def keyed(kind: Kind, table: pa.Table, last: KeyedRows | None) -> KeyedRows:
    """Return a kind's rows of a snapshot's table.

    Args:
        table: The snapshot's table that the kind is a part of.
        last: The same of the last snapshot: what did not change is taken from there.
    """
    names = kind.columns.names
    may_lack = pa.schema([kind.stored.field(name) for name in names])  # rows that are gone do
    rows = table.select(names).cast(may_lack).combine_chunks()
    if last is not None and _have_same_keys(kind, rows, last.rows):
        return KeyedRows(_with_books(rows, last.rows[ROW_AT], last.rows[COPY]), last.keys)
    keys, copies = _unique(_keys(kind, rows))
    places: pa.Array = pa.nulls(rows.num_rows, pa.int64())
    if kind.is_spine and not np.array_equal(_usual_order(kind, rows), np.arange(rows.num_rows)):
        places = pa.array(np.arange(rows.num_rows))
    return KeyedRows(_with_books(rows, places, copies), keys)


def changed_rows(kind: Kind, now: KeyedRows, last: KeyedRows | None) -> pa.Table:
    """Return the rows to be written: all, the busy and changed, or the changed, with ``gone``.

    Args:
        now: This minute.
        last: The last minute of the segment; ``None`` if this is the first.
    Cost:
        O(rows), no Python loop over rows.
    """
    if last is None or kind.habit == "every":
        return _with_gone(now.rows, is_gone=False)
    places = _places(last.keys, now.keys)
    chosen = places < 0
    both = np.flatnonzero(~chosen)
    chosen[both] = _differ(now.rows, last.rows, both, places[both])
    if kind.habit == "busy":
        chosen |= _is_busy(kind, now.rows)
    written = _with_gone(now.rows.filter(pa.array(chosen)), is_gone=False)
    vanished = np.flatnonzero(_places(now.keys, last.keys) < 0)
    if not vanished.size:
        return written
    return pa.concat_tables([written, _gone(kind, last.rows.take(pa.array(vanished)))])


def latest(kind: Kind, rows: pa.Table) -> KeyedRows:
    """Return the final state: the last row of each key, without removed keys.

    Args:
        rows: Rows of one segment, with the bookkeeping, in any order.
    """
    keys = _copied(_keys(kind, rows), rows[COPY].combine_chunks())
    codes = pc.dictionary_encode(keys).indices.to_numpy(zero_copy_only=False)
    order = np.argsort(_numbers(rows[TAKEN_AT]), kind="stable")
    newest = np.zeros(int(codes.max()) + 1 if codes.size else 0, dtype=np.int64)
    newest[codes[order]] = order  # of equal codes the last assignment stays
    retained = newest[~np.asarray(rows[GONE].take(pa.array(newest)), dtype=bool)]
    found = rows.take(pa.array(retained))
    return KeyedRows(found, keys.take(pa.array(retained)))


def in_order(kind: Kind, held: KeyedRows) -> KeyedRows:
    """Return rows in the order in which the snapshot had them."""
    places = held.rows[ROW_AT].combine_chunks()
    if held.rows.num_rows and places.null_count == 0:
        order = np.argsort(_numbers(held.rows[ROW_AT]), kind="stable")
    else:
        order = _usual_order(kind, held.rows)
    taken = pa.array(order)
    return KeyedRows(held.rows.take(taken), held.keys.take(taken))


def aligned(spine: KeyedRows, part: KeyedRows) -> pa.Table:
    """Return the part's rows in the order of the spine; nulls where it has none."""
    places = pc.index_in(spine.keys, value_set=part.keys)
    return part.rows.take(places)


def _have_same_keys(kind: Kind, a: pa.Table, b: pa.Table) -> bool:
    """Whether keys and sort columns are equal, row by row."""
    names = {*kind.key, *(kind.order if kind.is_spine else ())}
    return all(a[name].equals(b[name]) for name in names)


def _with_books(rows: pa.Table, places: pa.Array, copies: pa.Array) -> pa.Table:
    return rows.append_column(ROW_AT, places).append_column(COPY, copies)


def _with_gone(rows: pa.Table, *, is_gone: bool) -> pa.Table:
    return rows.append_column(GONE, pa.repeat(pa.scalar(is_gone), rows.num_rows))


def _gone(kind: Kind, rows: pa.Table) -> pa.Table:
    """Rows that vanished: their key, nothing else."""
    retained = {*kind.key, COPY}
    columns = [
        rows[one.name] if one.name in retained else pa.nulls(rows.num_rows, one.type)
        for one in rows.schema
    ]
    bare = pa.Table.from_arrays(columns, names=rows.schema.names)
    return _with_gone(bare, is_gone=True)


def _keys(kind: Kind, rows: pa.Table) -> pa.Array:
    """One text a row, made of its key columns."""
    parts = [
        pc.fill_null(rows[name].combine_chunks().cast(pa.string()), _NULL) for name in kind.key
    ]
    return parts[0] if len(parts) == 1 else pc.binary_join_element_wise(*parts, _APART)


def _unique(keys: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Number keys that come more than once; nulls when none does."""
    no_copies = pa.nulls(len(keys), pa.int64())
    codes = pc.dictionary_encode(keys).indices.to_numpy(zero_copy_only=False).astype(np.int64)
    if not codes.size or int(codes.max()) + 1 == len(keys):
        return keys, no_copies
    order = np.argsort(codes, kind="stable")
    firsts = np.flatnonzero(np.diff(codes[order], prepend=-1))
    lengths = np.diff(np.append(firsts, codes.size))
    copies = np.empty(codes.size, dtype=np.int64)
    copies[order] = np.arange(codes.size) - np.repeat(firsts, lengths)
    numbered = pa.array(copies, mask=copies == 0)
    return _copied(keys, numbered), numbered


def _copied(keys: pa.Array, copies: pa.Array) -> pa.Array:
    if copies.null_count == len(copies):
        return keys
    numbered = pc.binary_join_element_wise(
        keys, pc.fill_null(copies, 0).cast(pa.string()), _APART + _APART
    )
    return pc.if_else(pc.is_null(copies), keys, numbered)


def _usual_order(kind: Kind, rows: pa.Table) -> Ints:
    """Rows in the order that the kind's tables usually have."""
    names = list(dict.fromkeys((*kind.order, *kind.key)))
    sought = rows.select(names)
    if COPY in rows.schema.names:
        names.append(COPY)
        sought = sought.append_column(COPY, pc.fill_null(rows[COPY], 0))
    keys = [(name, "ascending") for name in names]
    order: Ints = np.asarray(pc.sort_indices(sought, sort_keys=keys), dtype=np.int64)
    return order


def _places(keys: pa.Array, wanted: pa.Array) -> Ints:
    """Position of each of ``wanted`` in ``keys``, or -1."""
    if keys is wanted or keys.equals(wanted):
        return np.arange(len(wanted), dtype=np.int64)
    found = pc.fill_null(pc.index_in(wanted, value_set=keys), -1)
    return np.asarray(found, dtype=np.int64)


def _is_busy(kind: Kind, rows: pa.Table) -> Bools:
    busy = np.zeros(rows.num_rows, dtype=np.bool_)
    for name in kind.activity:
        busy |= pc.fill_null(rows[name], 0).to_numpy() != 0
    return busy


def _differ(now: pa.Table, last: pa.Table, rows: Ints, places: Ints) -> Bools:
    """Return the ``rows`` that differ from those at ``places`` of the last minute."""
    differ = np.zeros(rows.size, dtype=np.bool_)
    whole = rows.size == now.num_rows
    same = places.size == last.num_rows and np.array_equal(places, np.arange(places.size))
    for name in now.schema.names:
        a, b = now[name].combine_chunks(), last[name].combine_chunks()
        a = a if whole else a.take(pa.array(rows))
        b = b if same else b.take(pa.array(places))
        if not a.equals(b):
            differ |= _unequal(a, b)
    return differ


def _unequal(a: pa.Array, b: pa.Array) -> Bools:
    """Return the mask of differing values, bit by bit for numbers."""
    lacks = np.asarray(pc.is_valid(a)) != np.asarray(pc.is_valid(b))
    differ: Bools
    if pa.types.is_list(a.type):
        differ = lacks | _unequal_lists(a, b)
        return differ
    if pa.types.is_floating(a.type):
        bits = np.int64 if a.type.bit_width == 64 else np.int32
        values = [
            pc.fill_null(one, 0.0).to_numpy(zero_copy_only=False).view(bits) for one in (a, b)
        ]
        differ = lacks | (values[0] != values[1])
        return differ
    unequal = pc.fill_null(pc.not_equal(a, b), False)  # noqa: FBT003  # Arrow's signature
    differ = lacks | np.asarray(unequal, dtype=bool)
    return differ


def _unequal_lists(a: pa.Array, b: pa.Array) -> Bools:
    sizes = [
        pc.fill_null(pc.list_value_length(one), 0).to_numpy(zero_copy_only=False) for one in (a, b)
    ]
    differ: Bools = sizes[0] != sizes[1]
    rows = np.flatnonzero(~differ)
    taken = pa.array(rows)
    inner = _unequal(pc.list_flatten(a.take(taken)), pc.list_flatten(b.take(taken)))
    owner = np.repeat(rows, sizes[0][rows])
    differ[owner[inner]] = True
    return differ


def _numbers(column: pa.ChunkedArray) -> Ints:
    numbers: Ints = column.combine_chunks().to_numpy(zero_copy_only=False).astype(np.int64)
    return numbers
