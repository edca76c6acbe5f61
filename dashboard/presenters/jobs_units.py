"""Result tables of which each row has a unit of its own: trends, gaps, top movers, hot bundles.

Their numbers are those of :mod:`core.history.trends_answer`; for people the measures get plain
names, and the numbers the unit that they are shown in, in the column's head where all rows agree.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

KIND: Final = "kind"
MEASURE: Final = "measure"
UNIT: Final = "unit"


@dataclass(frozen=True, slots=True)
class Told:
    """A measure for people.

    Attributes:
        name: In plain words.
        unit: That it is recorded in; empty: a number of things.
    """

    name: str
    unit: str


MEASURES: Final[Mapping[str, Told]] = {
    "msg_throughput": Told("throughput", "bytes/s"),
    "msg_rate": Told("message rate", "msg/s"),
    "usage": Told("usage of the busiest resource", "ratio"),
    "bundle_count": Told("bundles", ""),
    "topic_count": Told("topics", ""),
    "client_count": Told("clients", ""),
    "read_rate": Told("reads", "req/s"),
    "write_rate": Told("writes", "req/s"),
    "request_rate": Told("requests", "req/s"),
    "memory_mb": Told("memory", "MB"),
    "replica_count": Told("replicas", ""),
    "primary_count": Told("primaries", ""),
    "deviation": Told("farthest from the mean", "ratio"),
    "gap": Told("gap between busiest and idlest", "bytes/s"),
    "request_gap": Told("gap between busiest and idlest", "req/s"),
    "usage_spread": Told("highest usage over the mean", "ratio"),
    "uneven": Told("uneven minutes", "ratio"),
}
"""What trends tell, by the name that they are recorded under."""

_FLOW: Final = {"broker": "bytes/s", "bundle": "bytes/s", "node": "req/s", "table": "req/s"}
"""What subjects of each kind are busy by; of the cluster as a whole each measure says it."""

_NUMBERS: Final = (
    *("mean", "max", "p95", "worst_p95", "before", "after", "change"),
    *("busiest_flow", "idlest_flow", "gap"),
)
_SHOWN: Final = {"ratio": ("%", 100.0), "bytes/s": ("MB/s", 1e-6)}


def is_mixed(table: pa.Table) -> bool:
    """Return whether each row of a table has a unit of its own."""
    if KIND not in table.schema.names or not table.num_rows:
        return False
    if MEASURE in table.schema.names:
        return _are_all(table[MEASURE], MEASURES)
    return _are_all(table[KIND], _FLOW) and any(name in _NUMBERS for name in table.schema.names)


def _are_all(column: pa.ChunkedArray, known: Mapping[str, object]) -> bool:
    return set(pc.unique(column).to_pylist()) <= set(known)


def measures_of(table: pa.Table) -> list[tuple[str, str]]:
    """Return ``(kind, measure)`` of a table of several units, sorted; the measure may be empty."""
    if not is_mixed(table):
        return []
    if MEASURE not in table.schema.names:
        kinds = sorted(set(pc.unique(table[KIND]).to_pylist()))
        return [(kind, "") for kind in kinds] if len({_FLOW[kind] for kind in kinds}) > 1 else []
    pairs = table.select([KIND, MEASURE]).group_by([KIND, MEASURE]).aggregate([])
    return sorted(zip(pairs[KIND].to_pylist(), pairs[MEASURE].to_pylist(), strict=True))


def words_of(kind: str, measure: str) -> str:
    """Return what a kind's measure is called."""
    return f"{kind}: {MEASURES[measure].name}" if measure else f"{kind}s"


def only(table: pa.Table, kind: str, measure: str) -> pa.Table:
    """Return the rows of one measure."""
    kept = table.filter(pc.equal(table[KIND], kind))
    return kept.filter(pc.equal(kept[MEASURE], measure)) if measure else kept


def as_recorded(text: str) -> str:
    """Return what to look for in the record when somebody writes a measure's plain name."""
    wanted = text.strip().lower()
    if not wanted:
        return text
    found = (raw for raw, told in MEASURES.items() if told.name.startswith(wanted))
    return next((raw for raw in found if wanted not in raw), text)


def told(table: pa.Table) -> pa.Table:
    """Return a table as people read it: plain names, and units in heads or in a column.

    Where all rows have one unit, the columns of numbers carry it (and are scaled where they are
    shown); else the numbers are scaled here, and a column says the unit of each row.
    """
    if not is_mixed(table):
        return table
    recorded = _units(table)
    if MEASURE in table.schema.names:
        raw = table[MEASURE].to_pylist()
        named = pa.array([MEASURES[one].name for one in raw], pa.string())
        table = table.set_column(table.schema.get_field_index(MEASURE), MEASURE, named)
    if np.unique(recorded).size == 1:
        return _with_unit(table, str(recorded[0]))
    return _with_column(table, recorded)


def _units(table: pa.Table) -> np.ndarray:
    """The unit of each row, as recorded."""
    by_measure = MEASURE in table.schema.names
    names = table[MEASURE if by_measure else KIND].combine_chunks().dictionary_encode()
    known = names.dictionary.to_pylist()
    units = [MEASURES[one].unit if by_measure else _FLOW[one] for one in known]
    found: np.ndarray = np.array(units, dtype=object)[names.indices.to_numpy(zero_copy_only=False)]
    return found


def _with_unit(table: pa.Table, unit: str) -> pa.Table:
    fields = [
        one.with_metadata({"unit": unit}) if one.name in _NUMBERS and unit else one
        for one in table.schema
    ]
    return table.cast(pa.schema(fields))


def _with_column(table: pa.Table, recorded: np.ndarray) -> pa.Table:
    factors = np.array([_SHOWN.get(one, (one, 1.0))[1] for one in recorded])
    for at, name in enumerate(table.schema.names):
        if name in _NUMBERS:
            values = table[name].to_numpy() * factors
            table = table.set_column(at, name, pa.array(values, pa.float64(), from_pandas=True))
    shown = pa.array([_SHOWN.get(one, (one, 1.0))[0] for one in recorded], pa.string())
    at = table.schema.get_field_index(MEASURE if MEASURE in table.schema.names else KIND)
    return table.add_column(at + 1, UNIT, shown)
