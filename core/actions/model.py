"""Words of a run: states of runs and steps, what was seen, the result, how careful to be.

A *run* is one plan being executed, or waiting to be. A step's state only ever moves along
:data:`LEGAL_MOVES`; everything that is known about a run follows from its journal entries.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Literal, NewType

from core.errors import InvariantError
from core.step import Observation, StepState

__all__ = [
    "ENDED_RUNS",
    "FINAL_STEPS",
    "LEGAL_MOVES",
    "Control",
    "Observation",
    "Refusal",
    "RunId",
    "RunOptions",
    "RunState",
    "StepResult",
    "StepState",
    "moved",
]

RunId = NewType("RunId", str)
"""Sortable by time, unique: ``20261121-174455-3fa9c1``."""

RunState = Literal["QUEUED", "RUNNING", "PAUSED", "DONE", "STOPPED", "FAILED", "REFUSED"]
Control = Literal["pause", "resume", "stop"]

LEGAL_MOVES: Final[Mapping[StepState, frozenset[StepState]]] = MappingProxyType(
    {
        "PENDING": frozenset({"RUNNING", "SKIPPED"}),
        "RUNNING": frozenset({"DONE", "FAILED", "UNKNOWN"}),
        # by looking at the cluster, never by repeating; unknown again: what is left can be read now
        "UNKNOWN": frozenset({"DONE", "FAILED", "UNKNOWN"}),
        "DONE": frozenset(),
        "FAILED": frozenset(),
        "SKIPPED": frozenset(),
    }
)
"""From each state of a step to the states it may take next."""

ENDED_RUNS: Final[frozenset[RunState]] = frozenset({"DONE", "STOPPED", "FAILED", "REFUSED"})
FINAL_STEPS: Final[frozenset[StepState]] = frozenset({"DONE", "FAILED", "SKIPPED"})


def moved(before: StepState, after: StepState) -> StepState:
    """Return ``after``, the state a step takes.

    Raises:
        InvariantError: A step has no such transition.
    """
    if after not in LEGAL_MOVES[before]:
        raise InvariantError(f"A step cannot change from {before} to {after}.")
    return after


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """Execution options of a run; a recorded part of its request.

    Attributes:
        pace_per_min: Most steps begun a minute.
        max_failures: Steps that may fail (or stay unknown) before the run stops by itself.
        max_unassigned: Bundles that the run unloaded and no broker serves, at which it pauses.
        verify_within_s: How long the visible effect of a step is awaited before it is UNKNOWN.
        pause_balancer: Whether the cluster's own shedding is switched off for the run.
        is_gradual: Whether the pace rises to its limit and falls at trouble, see
            :mod:`core.actions.pace`; otherwise it is the limit from the first step on.
        canary_s: Seconds for which the cluster is observed after the first step, before the rest
            begins, see :mod:`core.actions.canary`; 0: it is not.
    """

    pace_per_min: float = 10.0
    max_failures: int = 1
    verify_within_s: float = 30.0
    pause_balancer: bool = False
    is_gradual: bool = False
    canary_s: float = 0.0
    max_unassigned: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """Refusal of a step or a run.

    Attributes:
        code: Stable word: the guard's or precondition's name, for example ``moved_meanwhile``.
        sentence: The thing, the measured value and the bound, in one sentence.
        hint: What to do about it.
        retry_s: For a precondition: it may hold later; look again after so many seconds, while the
            step stays pending and a stop is obeyed. 0: it does not hold, the step is skipped.
    """

    code: str
    sentence: str
    hint: str = ""
    retry_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class StepResult:
    """Observed result of a step.

    Attributes:
        state: ``DONE``, ``FAILED``, ``UNKNOWN`` or ``SKIPPED``.
        code: Stable word: ``landed``, ``landed_elsewhere``, ``returned``, ``unassigned`` (no
            broker serves the bundle, which had topics), ``idle`` (the same, without topics),
            ``owner_lost`` (unassigned since its owner left the cluster), ``not_answering`` (its
            new owner does not answer), ``not_done``, ``refused``, ``timed_out``, or a refusal's.
        sentence: What happened, with its names and numbers.
        hint: What to do next; empty when nothing.
        after: What was seen at the end; ``None`` when it could not be looked at.
    """

    state: StepState
    code: str
    sentence: str
    hint: str = ""
    after: Observation | None = None
