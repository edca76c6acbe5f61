"""What is known of a run and of its steps, for whoever looks at them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from core.access import Identity
from core.actions.events import ExternalMove, PurposeChecked, RestoreResult, RunMeasured
from core.actions.model import (
    ENDED_RUNS,
    FINAL_STEPS,
    Control,
    Observation,
    Refusal,
    RunId,
    RunOptions,
    RunState,
    StepResult,
    StepState,
)
from core.plan.model import Plan
from core.step import Executed, Step
from core.values import is_known_value, is_same_value


@dataclass(frozen=True, slots=True, kw_only=True)
class StepView:
    """One step of a run, as far as it got.

    Attributes:
        index: Place in the plan, from 0.
        step: The step itself.
        state: Its state.
        before: What was seen when it was begun; ``None`` if it was not.
        result: What became of it; ``None`` if pending.
        begun_at: When the intent was written, aware UTC.
        ended_at: When the (latest) ending was written.
        took_ms: From the intent to the visible effect.
        is_reconciled: It was reconciled later.
        waiting: What it waits for while its precondition does not hold yet; empty: for nothing.
        waiting_since: When that began, aware UTC.
        reopened: Why it became pending again after it had ended, a sentence each time.
    """

    index: int
    step: Step
    state: StepState = "PENDING"
    before: Observation | None = None
    result: StepResult | None = None
    begun_at: datetime | None = None
    ended_at: datetime | None = None
    took_ms: float | None = None
    is_reconciled: bool = False
    waiting: str = ""
    waiting_since: datetime | None = None
    reopened: tuple[str, ...] = ()

    @property
    def attempt(self) -> int:
        """Attempt number, from 1."""
        return 1 + len(self.reopened)

    @property
    def executed(self) -> Executed:
        """The observation that its inverse uses."""
        after = self.result.after if self.result else None
        return Executed(state=self.state, before=self.before, after=after)

    @property
    def unserved(self) -> str:
        """Reason its subject is unserved although clients used it, or ""."""
        if self.result is None or self.state not in ("FAILED", "UNKNOWN"):
            return ""
        return self.step.flags_of(self.result.code).unserved


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlRequest:
    """The latest control request of a run: what, by whom, when and why."""

    control: Control
    requested_by: str
    requested_at: datetime
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """Review of a run that needs approval, with its time (aware UTC)."""

    is_approved: bool
    decided_by: str
    decided_at: datetime
    comment: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingView:
    """A setting that the run changes for its time.

    Attributes:
        key: Upstream key.
        before: Its dynamic value before; ``None`` if it had none.
        during: Its value during the run, the latest.
        earlier: Values that the run gave it before that one.
        is_changed: The change was made; otherwise only the intent is on record.
        result: How it was left; ``None`` if not tried yet.
        sentence: The same for people.
        set_again: Why it was set once more during the run, one sentence each time.
    """

    key: str
    before: str | None
    during: str
    earlier: tuple[str, ...] = ()
    is_changed: bool = False
    result: RestoreResult | None = None
    sentence: str = ""
    set_again: tuple[str, ...] = ()

    @property
    def is_outstanding(self) -> bool:
        """Whether it still has to be restored."""
        return self.result in (None, "failed")

    def is_as_before(self, value: str | None) -> bool:
        """Return whether a value is the one before the run, on every server that reports."""
        return is_same_value(value, self.before)

    def is_ours(self, value: str | None) -> bool:
        """Return whether the run set this value; where servers differ, at least on some."""
        return is_known_value(value, self.before, (self.during, *self.earlier))

    def is_known(self, value: str | None) -> bool:
        """Return whether only the run can have set this value."""
        return self.is_as_before(value) or self.is_ours(value)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunView:
    """One run.

    Attributes:
        run_id: Its name.
        cluster: Trimtab's name of the cluster.
        plan: What is executed.
        options: How.
        reason: Why.
        requested_by: Name of who requested it.
        requester: The same person with what a provider says of the identity.
        requested_at: When, aware UTC.
        undoes: The run that it undoes.
        state: Its state.
        sentence: The same for people.
        refusal: Why it never began; ``None`` unless it is ``REFUSED``.
        worker: The worker that executes it, the latest one; empty if none has claimed it.
        lease: Where that worker's right to write is held.
        takeovers: How often another worker had to go on with it.
        steps: In the plan's order.
        control: The latest control request of a person; ``None`` if there is none.
        decision: Whether another person approved or rejected it; ``None`` if neither.
        resumed_over: Places of steps that left something unserved when a person resumed the run.
        settings: Settings changed for its time, latest state each.
        external_changes: Bundles or partitions that changed hands meanwhile, and not by it.
        purpose: Whether what it is for held at the end; ``None`` if not checked.
        measured: The result.
        started_at: When it was claimed first.
        ended_at: When it ended or was refused.
        last_seq: Place of the latest entry in the journal.
        last_at: When that was written.
        disregarded: Places of entries that do not count: their writer had lost the run already, or
            they are forged.
        forged: Places of forged entries: not signed by this installation, or copies.
        is_request_forged: Its request is one of them: no worker executes it, and every entry is
            shown as it was written.
        damage: Why later entries could not be read; empty in a sound journal.
    """

    run_id: RunId
    cluster: str
    plan: Plan
    options: RunOptions
    reason: str
    requested_by: str
    requester: Identity
    requested_at: datetime
    undoes: RunId | None
    state: RunState = "QUEUED"
    sentence: str = "Waiting for a worker."
    refusal: Refusal | None = None
    worker: str = ""
    lease: str = ""
    takeovers: int = 0
    steps: tuple[StepView, ...]
    control: ControlRequest | None = None
    decision: Decision | None = None
    resumed_over: tuple[int, ...] = ()
    settings: tuple[SettingView, ...] = ()
    external_changes: tuple[ExternalMove, ...] = ()
    purpose: PurposeChecked | None = None
    measured: RunMeasured | None = None
    started_at: datetime | None = None
    ended_at: datetime | None = None
    last_seq: int
    last_at: datetime
    disregarded: tuple[int, ...] = ()
    forged: tuple[int, ...] = ()
    is_request_forged: bool = False
    damage: str = ""

    @property
    def is_ended(self) -> bool:
        """Whether no further step will start."""
        return self.state in ENDED_RUNS

    @property
    def is_control_pending(self) -> bool:
        """Whether the latest control request is still pending."""
        if self.control is None or self.is_ended:
            return False
        match self.control.control:
            case "pause":
                return self.state != "PAUSED"
            case "resume":
                return self.state == "PAUSED"
            case "stop":
                return True

    @property
    def outstanding_settings(self) -> tuple[SettingView, ...]:
        """Settings that still have to be restored."""
        return tuple(setting for setting in self.settings if setting.is_outstanding)

    @property
    def temporary_values(self) -> Mapping[str, str]:
        """Temporary settings of the run: by key, the result of its latest step."""
        done = (step.step for step in self.steps if step.state == "DONE")
        return {
            step.subject: step.temporary_value for step in done if step.temporary_value is not None
        }

    @property
    def putting_back(self) -> str:
        """The sentence of an open run that has nothing left but settings to restore; or empty."""
        left = self.outstanding_settings
        if self.is_ended or not left or {step.state for step in self.steps} - FINAL_STEPS:
            return ""
        first = left[0]
        failed = f" (attempt failed: {first.sentence})" if first.result == "failed" else "."
        return f"All steps are done; {first.key} is being restored{failed}"

    @property
    def unresolved(self) -> tuple[StepView, ...]:
        """Steps that were begun and whose outcome is not known."""
        return tuple(step for step in self.steps if step.state in ("RUNNING", "UNKNOWN"))

    @property
    def unserved(self) -> tuple[StepView, ...]:
        """Steps whose subjects no server serves, though clients used them."""
        return tuple(step for step in self.steps if step.unserved)

    @property
    def unassigned(self) -> tuple[str, ...]:
        """Unserved subjects after the run: as measured, before that by its steps."""
        measured = self.measured
        if measured is None or measured.unassigned is None:
            return tuple(step.step.subject for step in self.unserved)
        served_since = {
            step.step.subject
            for step in self.steps
            if step.state == "DONE" and step.ended_at and step.ended_at > measured.taken_at
        }
        return tuple(name for name in measured.unassigned if name not in served_since)

    @property
    def counts(self) -> Mapping[StepState, int]:
        """Number of steps per state; states without steps are omitted."""
        return Counter(step.state for step in self.steps)

    @property
    def differing(self) -> Mapping[str, int]:
        """Number of steps that ended differently than requested, by result."""
        done = (step for step in self.steps if step.state == "DONE" and step.result is not None)
        words = (step.step.flags_of(step.result.code).differs for step in done if step.result)
        return Counter(word for word in words if word)

    @property
    def next_moves(self) -> tuple[Step, ...]:
        """For each bundle that is not where the request sends it: the step that would bring it."""
        ended = ((view.step, view.result) for view in self.steps if view.result is not None)
        found = (
            step.next_move(result.code, result.after)
            for step, result in ended
            if result.after is not None
        )
        return tuple(step for step in found if step is not None)
