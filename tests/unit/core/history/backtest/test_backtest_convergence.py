"""The best candidate of a back-test is simulated to convergence before it is recommended."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from test_backtest_results import run_rows, scored

from core.diagnosis.model import Effect, Outcome
from core.history.backtest.advice import chosen, describe_advice, recommended
from core.history.backtest.convergence import simulated_candidates
from core.history.backtest.model import REPLAYED, Target
from core.history.backtest.pulsar.system import PULSAR
from core.history.backtest.ranking import ranked

TARGET = Target(name="t", deviation=0.2, unloads_per_day=10.0)
BEST = '{"maxUnloadPercentage": 0.5}'
SECOND = '{"maxUnloadPercentage": 0.3}'
RUNS = run_rows(
    scored(0, 0.9, 5),
    scored(1, 0.9, 5, candidate=REPLAYED),
    scored(2, 0.1, 5, settings=BEST),
    scored(3, 0.15, 5, settings=SECOND),
)


def outcome(deviation: float, *, converges: bool = True) -> Outcome:
    return Outcome(moves=7, returned=2, deviation=deviation, converges=converges, rounds=3)


def simulated(effects: dict[str, Effect | None]) -> list[dict[str, Any]]:
    """The candidates, where these are the effects by settings."""
    system = replace(PULSAR, converged=lambda _snapshot, best, _record: effects[best["settings"]])
    rows = ranked(RUNS, TARGET, PULSAR.nouns)
    table = simulated_candidates(RUNS, rows, TARGET, system, lambda _cluster: None)
    changes = recommended(RUNS, table, TARGET, PULSAR.nouns).to_pylist()
    words = describe_advice(RUNS, table, TARGET, PULSAR.nouns)
    return [table.to_pylist(), changes, words]


def test_the_best_one_comes_with_moves_returned_bundles_and_deviation():
    rows, changes, words = simulated({BEST: Effect(before=outcome(0.9), after=outcome(0.1))})
    best = chosen(rows, TARGET)
    assert best is not None
    figures = best["converged_moves"], best["converged_returned"], best["converged_deviation"]
    assert figures == (7, 2, 0.1)
    assert "7 moves, 2 returned" in changes[0]["why"]
    assert changes[0]["verdict"] == "recommended"
    assert "On the last recorded minute: deviation 90% to 10%, 7 moves" in words


def test_one_that_does_not_converge_is_passed_over_and_the_reason_is_given():
    harmful = Effect(before=outcome(0.9), after=outcome(0.5, converges=False))
    good = Effect(before=outcome(0.9), after=outcome(0.1))
    rows, changes, words = simulated({BEST: harmful, SECOND: good})
    best = chosen(rows, TARGET)
    assert best is not None
    assert best["candidate"] == "c3"
    assert {row["candidate"] for row in changes} == {"c3"}
    assert "c2: Not recommended: the simulation does not converge" in words


def test_nothing_is_recommended_where_none_can_be_simulated():
    rows, changes, words = simulated({BEST: None, SECOND: None})
    assert chosen(rows, TARGET) is None
    assert changes == []
    assert "No recommendation" in words
