"""What to change on a Pegasus cluster to have its best candidate."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

import pyarrow as pa

from core.findings.finding import Fix
from core.history.backtest.advice import outcome_note, picked, records_of, verdict
from core.history.backtest.model import REPLAYED, Target
from core.history.backtest.pegasus.rules import LEVEL
from core.history.backtest.ranking import the
from core.history.backtest.schemas import RECOMMENDED
from core.history.backtest.setting_text import setting_text
from core.history.backtest.wording import Wording
from core.pegasus.settings import server_setting
from core.pegasus.steps.level import LEVEL_KEY
from core.units import format_mb, format_ratio, pluralize

_POLICY: Final = "balance_cluster"
_NEXT_ROUND: Final = "next round"


def recommended_switches(
    runs: pa.Table, candidates: pa.Table, target: Target, nouns: Wording, label: str | None = None
) -> pa.Table:
    """Return the switches to set on each cluster, as ``RECOMMENDED``.

    A cluster has no rows where no candidate is worth it; see :func:`chosen`.

    Args:
        runs: Rows of ``RUNS``; those of the record hold the switches in force.
        candidates: Best first.
        target: What is good enough.
        nouns: Of the system.
        label: Of the candidate; ``None`` for the one to choose, see :func:`chosen`.
    """
    found: list[dict[str, Any]] = []
    for cluster, run in records_of(runs).items():
        mine = [row for row in candidates.to_pylist() if row["cluster"] == cluster]
        best, again = picked(mine, target, label), the(mine, REPLAYED)
        if best is None or again is None or again["rank"] is None:
            continue
        why = _why(best, again, _copied_mb_per_day(runs, best)) + outcome_note(best)
        for key, old, new in _changes(best, run):
            found.append(
                {
                    "cluster": cluster,
                    "candidate": best["candidate"],
                    "key": key,
                    "old": None if old is None else json.dumps(old),
                    "new": json.dumps(new),
                    "is_dynamic": True,
                    "takes_effect": _NEXT_ROUND,
                    "why": why,
                    "verdict": verdict(best, mine, target, nouns),
                }
            )
    return pa.Table.from_pylist(found, schema=RECOMMENDED)


def _changes(
    best: Mapping[str, Any], run: Mapping[str, Any]
) -> Iterator[tuple[str, object, object]]:
    force: dict[str, object] = json.loads(run["settings"])
    if best["shedding"] != run["shedding"]:
        yield _POLICY, run["shedding"] == "cluster", best["shedding"] == "cluster"
    for name, value in json.loads(best["settings"]).items():
        if force.get(name) == value or value == "recorded":
            continue
        yield (name if name == LEVEL else server_setting(name).key), force.get(name), value


def fix_of(best: Mapping[str, Any], record: Mapping[str, Any]) -> Fix:
    """Return the fix that applies a candidate; see :class:`BacktestSystem`."""
    return Fix(
        wanted={
            LEVEL_KEY if key == LEVEL else key: setting_text(new)
            for key, _, new in _changes(best, record)
        }
    )


def _copied_mb_per_day(runs: pa.Table, best: Mapping[str, Any]) -> float:
    days = megabytes = 0.0
    for row in runs.to_pylist():
        is_his = row["candidate_number"] == best["candidate_number"]
        if is_his and row["cluster"] == best["cluster"] and row["details"]:
            days += row["days"]
            megabytes += json.loads(row["details"])["copied_mb"]
    return megabytes / days if days else 0.0


def _why(best: Mapping[str, Any], again: Mapping[str, Any], copied_mb: float) -> str:
    return (
        f"On the recorded load: deviation p95 from {format_ratio(again['deviation_p95'])} to "
        f"{format_ratio(best['deviation_p95'])}, moves from {again['unloads_per_day']:,.1f} to "
        f"{best['unloads_per_day']:,.1f} a day, with {format_mb(copied_mb)} copied a day, vs. "
        f"the replayed recorded settings ({pluralize(best['minutes'], 'recorded minute')}, "
        f"{pluralize(best['seeds'], 'seed')})."
    )
