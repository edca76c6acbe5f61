"""One unit of a back-test of Pegasus: a tape and a candidate in, rows of the result tables out."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

import numpy as np
import pyarrow as pa

from core.errors import InputError
from core.history.backtest.model import MINUTES_PER_DAY, Unit, covered_minutes
from core.history.backtest.pegasus.engine import OPERATIONS, SimulatedMinute, simulate_tape
from core.history.backtest.pegasus.rules import rules_of, switches_in_force
from core.history.backtest.pegasus.score import (
    MinuteScore,
    PegasusScore,
    recorded_minutes,
    score_run,
)
from core.history.backtest.pegasus.tape import PegasusTape
from core.history.backtest.results import UnitResult
from core.history.backtest.schemas import MOVES, RUNS, TIMELINE
from core.pegasus.view import NO_NODE
from core.units import datetime_to_ms

_REPAIRS: Final = ("fail_over", "refill", "trim")


def run_pegasus_unit(
    tape: PegasusTape, unit: Unit, tick: Callable[[int, int], None] | None = None
) -> UnitResult:
    """Simulate one unit. Deterministic: everything follows from the tape and the unit.

    A candidate that cannot be simulated gives one row of ``runs`` that says why.

    Args:
        tape: The window's record.
        unit: What is simulated.
        tick: Gets minutes done and minutes in all; may raise to stop it.
    """
    try:
        score = score_run(tape, _ticking(_minutes(tape, unit), tape.minute_count, tick))
    except InputError as exc:
        return _failed(tape, unit, str(exc))
    return UnitResult(
        runs=pa.Table.from_pylist([_run(tape, unit, score)], schema=RUNS),
        timeline=_timeline(tape, unit, score),
        moves=_moves(tape, unit, score),
    )


def _minutes(tape: PegasusTape, unit: Unit) -> Iterator[SimulatedMinute]:
    if unit.candidate.is_record:
        return recorded_minutes(tape, minute_s=unit.minute_s)
    return simulate_tape(tape, unit.candidate, seed=unit.seed, minute_s=unit.minute_s)


def _ticking(
    minutes: Iterable[SimulatedMinute], total: int, tick: Callable[[int, int], None] | None
) -> Iterator[SimulatedMinute]:
    for minute in minutes:
        if tick is not None:
            tick(minute.number, total)
        yield minute


def _failed(tape: PegasusTape, unit: Unit, problem: str) -> UnitResult:
    row = _head(unit) | _times(tape, unit)
    row |= {"is_record": False, "settings": "{}", "minutes": 0, "days": 0.0, "problem": problem}
    return UnitResult(
        runs=pa.Table.from_pylist([row], schema=RUNS),
        timeline=TIMELINE.empty_table(),
        moves=MOVES.empty_table(),
    )


def _head(unit: Unit) -> dict[str, Any]:
    return {
        "cluster": unit.cluster,
        "window": unit.window.number,
        "candidate_number": unit.candidate_number,
        "candidate": unit.candidate.label,
        "seed": unit.seed,
    }


def _what(unit: Unit, recorded: Mapping[str, str]) -> dict[str, Any]:
    candidate = unit.candidate
    settings = switches_in_force(recorded) if candidate.is_record else dict(candidate.settings)
    return {
        "is_record": candidate.is_record,
        "shedding": rules_of(recorded, candidate).options.policy,
        "placement": None,
        "settings": json.dumps(settings, sort_keys=True),
    }


def _times(tape: PegasusTape, unit: Unit) -> dict[str, int]:
    return {
        "start": int(tape.at_ms[0]),
        "end": datetime_to_ms(unit.window.end),
    }


def _run(tape: PegasusTape, unit: Unit, score: PegasusScore) -> dict[str, Any]:
    minutes = np.asarray(tape.at_ms) / (unit.minute_s * 1000.0)
    days = covered_minutes(minutes) / MINUTES_PER_DAY
    found = score.deviations
    is_known = bool(len(found))
    repairs = sum(score.counts[kind] for kind in _REPAIRS)
    row = _head(unit) | _what(unit, tape.settings_at(0)) | _times(tape, unit)
    return row | {
        "minutes": len(score.minutes),
        "days": days,
        "deviation_mean": float(found.mean()) if is_known else None,
        "deviation_p95": float(np.percentile(found, 95)) if is_known else None,
        "deviation_max": float(found.max()) if is_known else None,
        "minutes_over": score.minutes_over if is_known else None,
        "minutes_over_ratio": score.minutes_over / len(found) if is_known else None,
        "rounds": sum(one.operations > 0 for one in score.minutes),
        "unloads": score.operations,
        "unloads_per_day": score.operations / days,
        "ping_pongs": score.ping_pongs,
        "ping_pongs_per_day": score.ping_pongs / days,
        "splits": 0,
        "splits_per_day": 0.0,
        "unowned_s": score.headless_s,
        "unowned_s_per_day": score.headless_s / days,
        "placed_again": repairs,
        "details": json.dumps(_details(score, days), sort_keys=True),
    }


def _details(score: PegasusScore, days: float) -> dict[str, float]:
    """Details that only a Pegasus cluster has."""
    counts = score.counts
    copied_mb = score.copied_mb(by_balancer=True)
    found: dict[str, float] = {kind: counts[kind] for kind in (*OPERATIONS, *_REPAIRS)}
    found |= {f"{kind}_per_day": counts[kind] / days for kind in OPERATIONS}
    found |= {
        "copied_mb": copied_mb,
        "copied_mb_per_day": copied_mb / days,
        "repair_mb": score.copied_mb(by_balancer=False),
    }
    found |= {f"{name}_mean": value for name, value in score.evenness.items()}
    return found | {f"{name}_end": value for name, value in vars(score.evenness_at_end).items()}


def _timeline(tape: PegasusTape, unit: Unit, score: PegasusScore) -> pa.Table:
    names = tape.start.nodes

    def row(number: int, one: MinuteScore) -> dict[str, Any]:
        return {
            "taken_at": int(tape.at_ms[number]),
            "deviation": one.deviation,
            "farthest": None
            if one.max_deviation_node == NO_NODE
            else names[one.max_deviation_node],
            "nodes": one.node_count,
            "unloads": one.operations,
            "splits": 0,
        }

    rows = [_head(unit) | row(number, one) for number, one in enumerate(score.minutes)]
    return pa.Table.from_pylist(rows, schema=TIMELINE)


def _moves(tape: PegasusTape, unit: Unit, score: PegasusScore) -> pa.Table:
    names = (*tape.start.nodes, None)  # the last one is no node's, -1
    rows = [
        _head(unit)
        | {
            "taken_at": int(tape.at_ms[number]),
            "subject": tape.start.gpid_text(step.row),
            "source": names[step.source],
            "destination": names[step.target],
            "kind": step.kind,
        }
        for number, step in score.steps
    ]
    return pa.Table.from_pylist(rows, schema=MOVES)
