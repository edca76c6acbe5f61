"""What units give: their result tables, put together in one order wherever they ran."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from core.history.backtest.model import Unit
from core.history.backtest.schemas import MOVES, RUNS, TIMELINE
from core.units import datetime_to_ms

_FIRST_ORDER = ("cluster", "window", "candidate_number", "seed")


@dataclass(frozen=True)
class UnitResult:
    """Result of one unit.

    Attributes:
        runs: One row of ``RUNS``.
        timeline: Rows of ``TIMELINE``.
        moves: Rows of ``MOVES``.
    """

    runs: pa.Table
    timeline: pa.Table
    moves: pa.Table


def named_by(unit: Unit) -> dict[str, Any]:
    """Return the columns by which every table names a unit."""
    return {
        "cluster": unit.cluster,
        "window": unit.window.number,
        "candidate_number": unit.candidate_number,
        "candidate": unit.candidate.label,
        "seed": unit.seed,
    }


def failed_unit(unit: Unit, problem: str) -> UnitResult:
    """Return the row of a unit that could not be simulated, with the sentence that says why."""
    values = unit.candidate.as_json()
    row = {
        "is_record": unit.candidate.is_record,
        "shedding": None if unit.candidate.is_record else values["shedding"],
        "placement": values["placement"],
        "settings": json.dumps(values["settings"], sort_keys=True),
        "minutes": 0,
        "days": 0.0,
        "problem": problem,
    }
    whole = named_by(unit) | window_of(unit) | row
    runs = pa.Table.from_pylist([whole], schema=RUNS)
    return UnitResult(runs, TIMELINE.empty_table(), MOVES.empty_table())


def window_of(unit: Unit) -> dict[str, Any]:
    """Return the columns of a unit's window, ms."""
    window = unit.window
    return {"start": datetime_to_ms(window.start), "end": datetime_to_ms(window.end)}


def together(results: Iterable[UnitResult]) -> dict[str, pa.Table]:
    """Put the tables of units together, in the order of the units wherever they ran."""
    parts = list(results)
    tables = {
        name: pa.concat_tables([schema.empty_table(), *(getattr(part, name) for part in parts)])
        for name, schema in (("runs", RUNS), ("timeline", TIMELINE), ("moves", MOVES))
    }
    order = [(name, "ascending") for name in _FIRST_ORDER]
    timed = [*order, ("taken_at", "ascending")]
    tables["runs"] = tables["runs"].sort_by(order)
    for name in ("timeline", "moves"):  # the sort is stable: moves of a minute keep their order
        tables[name] = tables[name].sort_by(timed)
    return tables
