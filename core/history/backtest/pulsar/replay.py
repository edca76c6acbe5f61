"""How true the engine is: each round from the recorded state, against what really happened.

In a back-test the candidate lives with its own deeds. Here it does not: every minute begins with
the recorded owners and loads, so that a round that went otherwise spoils no later one. What would
have been unloaded is set against what was, round by round.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

from core.history.analysis.accuracy.shadow import SHADOW, rows_of
from core.history.backtest.model import Candidate
from core.history.backtest.pulsar.engine import Rules, manager_for
from core.history.backtest.pulsar.fleet import Bundles, Fleet
from core.history.backtest.pulsar.leader import Leader
from core.history.backtest.pulsar.score import recorded_run
from core.history.backtest.pulsar.series import LoadSeries
from core.pulsar.settings import effective_settings
from core.pulsar.shedding import Decision
from core.pulsar.shedding.registry import AnyStrategy, active_shedding_strategy
from core.pulsar.shedding.unload_checks import UnloadOutcome

_GRACE: Final = "loadBalancerSheddingGracePeriodMinutes"
_INTERVAL: Final = "loadBalancerSheddingIntervalMinutes"


def predicted(series: LoadSeries, candidate: Candidate | None = None) -> pa.Table:
    """Return the predicted unloads of each round from the recorded state, as rows of ``shadow``.

    Args:
        series: The record.
        candidate: By what; ``None`` for the recorded strategy and settings, switched on or not.
    """
    force = effective_settings(series.template)
    strategy = active_shedding_strategy(series.template.manifest.load_manager, force)
    requested = candidate or Candidate(shedding=strategy.name)
    replay = _Replay(series, Rules.of(series, requested), is_configured=candidate is None)
    parts = [replay.minute(row) for row in range(series.shape[0])]
    return pa.concat_tables([SHADOW.empty_table(), *parts])


class _Replay:
    """The leader's rounds; memory and averages go on, owners and loads are the record's."""

    def __init__(self, series: LoadSeries, rules: Rules, *, is_configured: bool) -> None:
        self._series = series
        self._strategy: AnyStrategy = rules.shedder()
        self._config = self._strategy.config(rules.settings)
        self._memory = self._strategy.initial_state()
        self._manager = manager_for(series, rules)
        self._leader = Leader(series, rules.settings)
        self._interval = max(rules.settings.number(_INTERVAL), 1.0)
        self._grace = rules.settings.number(_GRACE)
        self._due = self._interval  # as in a run: the leader has just begun
        self._is_configured = is_configured
        self._is_switched_on = not effective_settings(series.template).shedding_off
        moves = recorded_run(series).moves
        self._ends = moves.row, np.stack([moves.source, moves.destination])
        self._moved = [
            (int(series.minutes[row]), str(series.bundles[bundle]))
            for row, bundle in zip(moves.row.tolist(), moves.bundle.tolist(), strict=True)
        ]

    def minute(self, row: int) -> pa.Table:
        """Return the round of a minute; no rows where none is due."""
        series = self._series
        bundles, owner = Bundles.recorded(series, row), series.owner[row]
        now = float(series.minutes[row])
        passed = now - float(series.minutes[row - 1]) if row else 0.0
        self._leader.read(row, passed, Fleet.recorded(series, row), bundles, owner)
        ends = self._ends[1][:, self._ends[0] == row].ravel()
        self._leader.touch(ends[ends >= 0].astype(np.int32))  # they write once more by the next
        if now < self._due:
            return SHADOW.empty_table()
        self._due = now + self._interval
        view = self._leader.view(row, bundles, owner)
        recent = frozenset(name for at, name in self._moved if at < now and now - at < self._grace)
        decision, self._memory = self._strategy.decide(view, self._config, self._memory, recent)
        unload_outcomes = [
            one for one in self._manager.unload_outcomes(view, decision.moves) if not one.skipped
        ]
        return self._rows(int(series.taken_at[row]), decision, unload_outcomes)

    def _rows(
        self, taken_at: int, decision: Decision, unload_outcomes: Sequence[UnloadOutcome]
    ) -> pa.Table:
        whole = {
            "taken_at": taken_at,
            "strategy": self._strategy.name,
            "is_configured": self._is_configured,
            "is_switched_on": self._is_switched_on,
            "label": decision.label,
            "reason": decision.reason,
            "sentence": decision.sentence,
        }
        moves = [
            whole | _outcome_row(position, outcome)
            for position, outcome in enumerate(unload_outcomes)
        ]
        return rows_of(moves or [whole])


def _outcome_row(position: int, outcome: UnloadOutcome) -> dict[str, Any]:
    chances = outcome.distribution
    most_likely = max(sorted(chances), key=lambda name: chances[name]) if chances else None
    return {
        "position": position,
        "broker": outcome.move.broker,
        "bundle": outcome.move.bundle,
        "destination": most_likely,
        "probability": chances[most_likely] if most_likely is not None else None,
        "distribution": json.dumps(chances, sort_keys=True),
    }
