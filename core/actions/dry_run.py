"""A dry run: the executor itself over the live cluster, with everything but the acting.

The same guards, looks and checks as for real; a request that would be sent is written down instead,
and its bundle is assumed to arrive at the planned destination. Waiting costs no time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final, TypeVar

from core.actions.apply import execute_run
from core.actions.approval import NO_APPROVAL, ApprovalRules
from core.actions.events import (
    FIRST_LINK,
    Entry,
    Event,
    Record,
    RunRequested,
    StepStarted,
    canonical,
    link,
)
from core.actions.model import Observation, Refusal, RunId, RunOptions, RunState, StepResult
from core.actions.ports import Action, Clock, Cluster, Ports
from core.actions.preconditions import read_only_refusal
from core.actions.runs import fold
from core.actions.session import UNREADABLE_FOR_S
from core.actions.views import StepView
from core.actions.windows import Window
from core.errors import RemoteError
from core.plan.model import Plan
from core.step import Step
from core.system import Snapshot, System

T = TypeVar("T")
_RUN: Final = RunId("rehearsal")
_WORKER: Final = "rehearsal"
_WOULD_SEND: Final = "would_send"
_WOULD_WAIT: Final = "would_wait"


@dataclass(frozen=True, slots=True, kw_only=True)
class RehearsedStep:
    """Expected result of one step.

    Attributes:
        index: Place in the plan, from 0.
        step: The step.
        would_send: A request would be sent to the cluster.
        code: Stable word: ``would_send``, ``would_wait``, or why it would not be.
        sentence: The same for people.
        hint: What to do about it.
        after_s: Seconds after the run's begin at which it would be begun or skipped, as the pace
            has it; how long the cluster takes for each step is not predicted.
    """

    index: int
    step: Step
    would_send: bool
    code: str
    sentence: str
    hint: str = ""
    after_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Rehearsal:
    """Expected result of a run.

    Attributes:
        state: How the run would end if every request were followed.
        sentence: The same for people.
        refusal: Why it would not begin at all; ``None`` if it would.
        steps: In the plan's order; of a refused run none would be sent, and the sentences say what
            would be without the refusal.
        settings: What would be set, in order: ``(key, value)``; ``None`` if removed.
    """

    state: RunState
    sentence: str
    refusal: Refusal | None
    steps: tuple[RehearsedStep, ...]
    settings: tuple[tuple[str, str | None], ...] = ()

    @property
    def requests(self) -> int:
        """Number of requests that would be sent."""
        return sum(step.would_send for step in self.steps)


def rehearse(
    plan: Plan, options: RunOptions, *, cluster: Cluster, clock: Clock, moves_spent: int = 0
) -> Rehearsal:
    """Return the expected result of ``plan`` without changing anything.

    What cannot be read ends the rehearsal as it would end the run, without the patience.

    Args:
        options: How it would be executed.
        cluster: The real one; only its reading half is used. A read-only cluster is rehearsed too,
            and the answer says that the run would be refused.
        clock: The real one; waits are skipped.
        moves_spent: Steps that the cluster's runs have begun within 24 hours.
    """
    hasty = _AcceleratedClock(clock)
    stage = _Stage(cluster, hasty)
    journal = _MemoryJournal(moves_spent)
    began_at = hasty.now()
    request = RunRequested(plan=plan, options=options, reason="rehearsal")
    journal.append(
        Record(run_id=_RUN, cluster=cluster.name, at=began_at, actor=_WORKER, event=request)
    )
    ports = Ports(journal=journal, cluster=stage, lease=_OwnLease(), clock=hasty, worker=_WORKER)
    state = execute_run(_RUN, ports)
    view = fold(journal.entries())
    refusal = view.refusal or (read_only_refusal(cluster.name) if cluster.is_read_only else None)
    return Rehearsal(
        state="REFUSED" if refusal else state,
        sentence=refusal.sentence if refusal else view.sentence,
        refusal=refusal,
        steps=tuple(_rehearsed(step, view.sentence, began_at, refusal) for step in view.steps),
        settings=() if refusal else tuple(stage.settings),
    )


def _rehearsed(
    step: StepView, why_not: str, began_at: datetime, refusal: Refusal | None
) -> RehearsedStep:
    result = step.result or StepResult(state="SKIPPED", code="not_reached", sentence=why_not)
    at = step.begun_at or step.ended_at or began_at
    is_wanted = result.code == _WOULD_SEND
    is_sent = is_wanted and refusal is None
    return RehearsedStep(
        index=step.index,
        step=step.step,
        would_send=is_sent,
        code=refusal.code if is_wanted and refusal is not None else result.code,
        sentence=result.sentence
        if is_sent or not is_wanted
        else f"Not sent. If sent: {result.sentence}",
        hint=result.hint,
        after_s=(at - began_at).total_seconds(),
    )


class _Stage:
    """The real cluster to read, and nothing behind its writing half."""

    def __init__(self, cluster: Cluster, clock: _AcceleratedClock) -> None:
        self._cluster = cluster
        self._clock = clock
        self._snapshot: Snapshot | None = None
        self._begun: list[Step] = []
        self._values: dict[str, str | None] = {}
        self.settings: list[tuple[str, str | None]] = []

    @property
    def name(self) -> str:
        return self._cluster.name

    @property
    def system(self) -> System[Any]:
        return self._cluster.system

    @property
    def is_read_only(self) -> bool:
        return False  # nothing is changed; the answer says what a real run would meet

    @property
    def exclusions(self) -> Sequence[str]:
        return self._cluster.exclusions

    @property
    def moves_per_day(self) -> int:
        return self._cluster.moves_per_day

    @property
    def max_steps(self) -> int:
        return self._cluster.max_steps

    @property
    def approval(self) -> ApprovalRules:
        return NO_APPROVAL  # to look at what would be done nobody has to approve it

    @property
    def windows(self) -> Sequence[Window]:
        return self._cluster.windows

    def snapshot(self) -> Snapshot:
        if self._snapshot is None:  # real time hardly passes: one is fresh enough for all of it
            self._snapshot = self.read(self._cluster.snapshot)
        return self._snapshot

    def action(self, step: Step) -> Action:
        return _RecordingAction(self.read(lambda: self._cluster.action(step)), step, self)

    def pending(self) -> Collection[str]:
        return self.read(self._cluster.pending)

    def begin(self, step: Step) -> None:
        """Note a step that would have been executed."""
        self._begun.append(step)
        change = step.setting
        if change is not None and not change.is_persistent:
            self.settings.append((step.subject, change.value))
        if step.temporary_value is not None:
            self._values[step.subject] = step.temporary_value

    def is_as_it_was(self, step: Step) -> bool:
        """Whether no earlier step would have changed the state that a step depends on."""
        return not any(_prepares(earlier, step) for earlier in self._begun)

    def dynamic_setting(self, key: str) -> str | None:
        if key in self._values:
            return self._values[key]
        return self.read(lambda: self._cluster.dynamic_setting(key))

    def set_dynamic_setting(self, key: str, value: str | None) -> None:
        self._values[key] = value
        self.settings.append((key, value))

    def read(self, look: Callable[[], T]) -> T:
        try:
            return look()
        except RemoteError:
            self._clock.skip(UNREADABLE_FOR_S)
            raise


class _RecordingAction:
    """Looks for real; instead of sending, takes the step as followed."""

    def __init__(self, action: Action, step: Step, stage: _Stage) -> None:
        self._action = action
        self._step = step
        self._stage = stage
        self._hindrance: Refusal | None = None

    @property
    def timeout_s(self) -> float:
        return 0.0

    def look(self) -> Observation:
        return self._stage.read(self._action.look)

    def check_precondition(self, seen: Observation) -> Refusal | None:
        refusal = self._stage.read(lambda: self._action.check_precondition(seen))
        if refusal is None:
            return None
        is_prepared = not self._stage.is_as_it_was(self._step)
        if refusal.retry_s > 0:
            self._hindrance = refusal  # what is waited for, as things are
        elif not is_prepared:
            return refusal
        return None  # what an earlier step changes says nothing of this one's turn

    def send(self) -> None:
        """Send nothing."""
        self._stage.begin(self._step)

    def result(self, before: Observation, now: Observation) -> StepResult:
        return self.on_timeout(before, now)

    def on_timeout(self, before: Observation, now: Observation) -> StepResult:
        sentence = self._step.describe_dry_run(before.holder)
        is_wait = self._step.wait is not None
        if self._hindrance is not None:
            sentence = f"{sentence} In the current state: {self._hindrance.sentence}"
        code = _WOULD_WAIT if is_wait else _WOULD_SEND
        return StepResult(state="DONE", code=code, sentence=sentence, after=now)


class _MemoryJournal:
    """A journal in memory, for one run."""

    def __init__(self, moves_spent: int) -> None:
        self._entries: list[Entry] = []
        self._moves_spent = moves_spent

    def append(self, record: Record) -> Entry:
        previous = self._entries[-1].digest if self._entries else FIRST_LINK
        seq = len(self._entries) + 1
        digest = link(previous, seq, canonical(record))
        entry = Entry(seq=seq, record=record, previous=previous, digest=digest)
        self._entries.append(entry)
        return entry

    def entries(
        self, *, run_id: RunId | None = None, after: int = 0, limit: int | None = None
    ) -> Sequence[Entry]:
        found = [entry for entry in self._entries[after:] if run_id in (None, entry.record.run_id)]
        return found[:limit]

    def open_runs(self, cluster: str) -> Sequence[RunId]:
        request = self._entries[:1]
        return [entry.record.run_id for entry in request if entry.record.cluster == cluster]

    def moves_since(self, cluster: str, moment: datetime) -> int:
        own = [entry.record for entry in self._entries if entry.record.cluster == cluster]
        begun = [item for item in own if _is_move(item.event) and item.at >= moment]
        return self._moves_spent + len(begun)

    def last_begun(self, cluster: str, since: datetime) -> datetime | None:
        own = [entry.record for entry in self._entries if entry.record.cluster == cluster]
        begun = [item.at for item in own if _is_move(item.event)]
        return next((at for at in reversed(begun) if at >= since), None)

    def runs_of_plan(self, plan: Plan) -> Sequence[RunId]:
        events = ((entry.record.run_id, entry.record.event) for entry in self._entries)
        return [
            run_id
            for run_id, event in events
            if isinstance(event, RunRequested) and event.plan.plan_id == plan.plan_id
        ]


def _prepares(earlier: Step, step: Step) -> bool:
    """Whether an executed step changes the state that a later step depends on."""
    if earlier.is_prerequisite:
        return True
    return bool({earlier.subject, *earlier.touched} & {step.subject, *step.touched})


def _is_move(event: Event) -> bool:
    return isinstance(event, StepStarted) and event.is_paced


class _OwnLease:
    """There is no other worker."""

    place = "rehearsal"
    lasts_s = math.inf

    def acquire(self) -> bool:
        return True

    def is_held(self) -> bool:
        return True

    def holder(self) -> str | None:
        return _WORKER

    def release(self) -> None:
        """Nothing to give back."""


class _AcceleratedClock:
    """The real clock, running ahead by every wait."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._ahead_s = 0.0

    def now(self) -> datetime:
        return self._clock.now() + timedelta(seconds=self._ahead_s)

    def monotonic(self) -> float:
        return self._clock.monotonic() + self._ahead_s

    def wait(self, seconds: float) -> bool:
        self.skip(seconds)
        return self._clock.wait(0.0)

    def hold(self, seconds: float) -> None:
        self.skip(seconds)

    def skip(self, seconds: float) -> None:
        self._ahead_s += seconds
