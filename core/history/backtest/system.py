"""What a system declares so that its recorded clusters can be back-tested."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import pyarrow as pa

from core.diagnosis.model import Effect
from core.findings.finding import Fix
from core.history.backtest.model import Candidate, Grid, Target, Unit, Window
from core.history.backtest.results import UnitResult
from core.history.backtest.wording import Wording
from core.history.store.store import HistoryStore
from core.plan.model import Diagnostic, Plan
from core.plan.options import PlanOptions

Tick = Callable[[int, int], None]
"""Gets minutes done and minutes in all; may raise to stop a run."""

S = TypeVar("S")
R = TypeVar("R")

RecommendedPlan = Callable[[S, Mapping[str, Any], Sequence[Diagnostic], PlanOptions], Plan]
"""Makes the plan that sets values by key; the diagnostics say what is not in it."""


@dataclass(frozen=True, kw_only=True)
class BacktestSystem(Generic[S, R]):
    """Back-test of clusters of one system, with its snapshots ``S`` and records of windows ``R``.

    Attributes:
        name: The system's, as manifests have it.
        title: The same, for people.
        nouns: What it calls servers and moves.
        target: What is good enough where a grid does not say.
        fields: Fields of a grid that only this system has.
        candidates: What a grid tries: the record first, then its own settings. Raises
            ``InputError`` for a name that the system does not have.
        load: Reads the record of a cluster's window; the last argument is seconds a minute.
        simulate: Runs one unit on its window's record: the same unit, the same tables.
        recommended: Makes ``RECOMMENDED`` of rows of ``RUNS`` and of the ranked candidates; the
            last argument is the label of a candidate, ``None`` for the one to choose.
        plan: Makes the plan that sets what is recommended.
        converged: Simulates a candidate to convergence on a snapshot: the candidate is a row of
            ``CANDIDATES`` or ``RUNS``, the last argument the record's row of ``RUNS``.
        fix: Returns what puts a candidate in force: a row of ``CANDIDATES`` or ``RUNS``, and the
            record's row of ``RUNS``.
        preventing: Makes candidates that might have kept a cluster even and calm, of the fixes of
            its causes first: a short list, no grid.
        breaks: Kinds of events that end a stretch which is simulated without a break.
    """

    name: str
    title: str
    nouns: Wording
    target: Target
    fields: tuple[str, ...]
    candidates: Callable[[Grid], tuple[Candidate, ...]]
    load: Callable[[HistoryStore, str, Window, float], R]
    simulate: Callable[[R, Unit, Tick | None], UnitResult]
    recommended: Callable[[pa.Table, pa.Table, Target, Wording, str | None], pa.Table]
    plan: RecommendedPlan[S]
    converged: Callable[[S, Mapping[str, Any], Mapping[str, Any]], Effect | None]
    fix: Callable[[Mapping[str, Any], Mapping[str, Any]], Fix]
    preventing: Callable[[S, Sequence[Fix]], tuple[Candidate, ...]]
    breaks: tuple[str, ...] = ()


AnyBacktest = BacktestSystem[Any, Any]
"""The back-test of some system, for code that knows none."""
