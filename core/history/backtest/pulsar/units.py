"""One unit of a Pulsar back-test: simulated on its window's record, as result tables."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from core.errors import InputError, SnapshotError
from core.history.backtest.model import NO_SHEDDING, Unit
from core.history.backtest.pulsar.engine import SimulatedRun, simulate_window
from core.history.backtest.pulsar.moves import KINDS
from core.history.backtest.pulsar.score import deviations, recorded_run, scores
from core.history.backtest.pulsar.series import LoadSeries
from core.history.backtest.results import UnitResult, failed_unit, named_by, window_of
from core.history.backtest.schemas import MOVES, RUNS, TIMELINE
from core.pulsar.placement.place import active_placement
from core.pulsar.settings import SETTINGS, effective_settings
from core.pulsar.shedding.registry import active_shedding_strategy


def run_unit(
    series: LoadSeries, unit: Unit, tick: Callable[[int, int], None] | None = None
) -> UnitResult:
    """Simulate one unit on its window's record. Deterministic: the same unit, the same tables.

    A candidate that cannot be simulated gives one row of ``runs`` that says why.

    Args:
        series: The record of the unit's window.
        unit: What is simulated.
        tick: Gets minutes done and minutes in all; may raise to stop it.
    """
    try:
        simulated = (
            recorded_run(series)
            if unit.candidate.is_record
            else simulate_window(series, unit.candidate, unit.seed, tick=tick)
        )
    except (InputError, SnapshotError) as exc:
        return failed_unit(unit, str(exc))
    row = named_by(unit) | _what(unit, series, simulated) | window_of(unit)
    return UnitResult(
        pa.Table.from_pylist([row | scores(series, simulated)], schema=RUNS),
        _timeline(series, unit, simulated),
        _moves(series, unit, simulated),
    )


def _what(unit: Unit, series: LoadSeries, simulated: SimulatedRun) -> dict[str, Any]:
    """Strategies and settings; of what really happened all settings in force."""
    candidate = unit.candidate
    if not candidate.is_record:
        named: dict[str, Any] = {
            "shedding": simulated.shedding or NO_SHEDDING,
            "placement": simulated.placement,
        }
        settings = candidate.as_json()["settings"]
    else:
        named = recorded_strategies(series)
        force = effective_settings(series.template)
        settings = {setting.key: force.value(setting.key) for setting in SETTINGS}
    return {
        "is_record": candidate.is_record,
        "shedding": named["shedding"],
        "placement": named["placement"],
        "settings": json.dumps(settings, sort_keys=True),
    }


def recorded_strategies(series: LoadSeries) -> dict[str, Any]:
    """Return the class names that a record's own settings put in force."""
    manager = series.template.manifest.load_manager
    force = effective_settings(series.template)
    try:
        shedding = active_shedding_strategy(manager, force).name
    except InputError:
        shedding = force.text("loadBalancerLoadSheddingStrategy").rpartition(".")[2]
    return {
        "shedding": NO_SHEDDING if force.shedding_off else shedding,
        "placement": active_placement(force, manager),
    }


def _repeated(unit: Unit, count: int) -> dict[str, pa.Array]:
    return {
        name: pa.repeat(pa.scalar(value, MOVES.field(name).type), count)
        for name, value in named_by(unit).items()
    }


def _timeline(series: LoadSeries, unit: Unit, simulated: SimulatedRun) -> pa.Table:
    rows = series.shape[0]
    max_deviation, column = deviations(simulated.traffic)
    moves = simulated.moves
    is_unload = moves.kind == KINDS.index("unload")
    at = moves.row[is_unload]
    names = np.array([*series.brokers, None], object)
    columns = _repeated(unit, rows) | {
        "taken_at": pa.array(series.taken_at),
        "deviation": pa.array(max_deviation, mask=np.isnan(max_deviation)),
        "farthest": pa.array(names[column], pa.string()),
        "nodes": pa.array(np.isfinite(simulated.traffic).sum(axis=1).astype(np.int64)),
        "unloads": pa.array(np.bincount(at, minlength=rows).astype(np.int64)),
        "moved_bytes_per_s": pa.array(
            np.bincount(at, weights=moves.flow[is_unload], minlength=rows).astype(np.float64)
        ),
        "client_cuts": pa.array(
            np.bincount(at, weights=moves.clients[is_unload], minlength=rows).astype(np.int64)
        ),
        "splits": pa.array(simulated.splits),
    }
    return pa.Table.from_arrays([columns[name] for name in TIMELINE.names], schema=TIMELINE)


def _moves(series: LoadSeries, unit: Unit, simulated: SimulatedRun) -> pa.Table:
    moves = simulated.moves
    brokers = np.array([*series.brokers, None], object)
    bundles = np.array(moves.names or series.bundles, object)
    kinds = np.array(KINDS, object)
    columns = _repeated(unit, moves.row.size) | {
        "taken_at": pa.array(series.taken_at[moves.row]),
        "subject": pa.array(bundles[moves.bundle], pa.string()),
        "source": pa.array(brokers[moves.source], pa.string()),
        "destination": pa.array(brokers[moves.destination], pa.string()),
        "kind": pa.array(kinds[moves.kind], pa.string()),
        "moved_bytes_per_s": pa.array(moves.flow),
        "clients": pa.array(moves.clients),
    }
    return pa.Table.from_arrays([columns[name] for name in MOVES.names], schema=MOVES)
