"""One worker at one run: what the journal says, and what this worker knows on top of it.

The journal is a line, so whoever claimed the run last owns it: everything written is followed by a
look at what came meanwhile, and a worker that finds another one's claim stops, even one that slept
through the loss of its lease.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from core.actions.authority import obeyed
from core.actions.events import (
    ControlRequested,
    Entry,
    Event,
    Record,
    SettingSaved,
)
from core.actions.model import Refusal, RunId, StepState
from core.actions.ports import Action, Ports
from core.actions.runs import fold
from core.actions.views import RunView, StepView
from core.errors import InputError, RemoteError
from core.plan.model import Plan
from core.system import Snapshot

SLICE_S: Final = 0.5
"""Longest wait without a look at what people request: a stop acts within about a second."""

RETRY_AFTER_S: Final = 2.0
"""How long a cluster that could not be read is left alone before it is read again."""

STOPPED_LOOK_S: Final = 0.3
"""How long a stopped run waits for a cluster that does not answer, s."""

LEAVE_AFTER_S: Final = 0.5
"""How long a process that shuts down goes on observing the step under way."""

UNREADABLE_FOR_S: Final = 120.0
"""How long a cluster that cannot be read is tried again before the run ends."""


class LeaseLostError(Exception):
    """Another worker has the run, or the lease is gone: nothing more may be done here."""


class ShuttingDownError(LeaseLostError):
    """This process shuts down; the current step is left to the next owner of the run."""


@dataclass(slots=True)
class PendingStep:
    """The current step, while its precondition is not met.

    Attributes:
        index: Its place in the plan.
        action: Made once for all the looks of this turn.
        refusal: What the latest look gave.
        again_at_s: When to look again, on the monotonic clock.
        reported_at_s: When the journal was written last.
    """

    index: int
    action: Action | None = None
    refusal: Refusal | None = None
    again_at_s: float = -math.inf
    reported_at_s: float = -math.inf


class Session:
    """The run as this worker knows it, in step with the journal.

    Attributes:
        requested: Who requested the run, and when.
        view: The run, folded from its entries; controls that nobody may give are left out.
        stop: Who requested to stop, when and why; a stop is never undone.
        snapshot: The newest one of this session.
        snapshot_at_s: When it was there, on the monotonic clock.
        last_snapshot: The one that shows whether the run's purpose holds, taken at its end.
        retry_at_s: When a cluster that could not be read is tried again, on that clock.
        doubts: How often in a row a snapshot had holes where steps are.
        interrupted_at: When the run was last taken over or resumed.
        has_checked_settings: The temporary settings were checked since the last snapshot.
        is_quiet: The cluster's own shedding is off, as the run's options request.
        forged_settings: Settings that a forged entry says the run has changed.
        is_after_end: The run had ended when this session began: steps are only reconciled.
        is_shutting_down: This process ends; the step under way is observed a moment longer.
    """

    def __init__(self, run_id: RunId, ports: Ports) -> None:
        self.run_id = run_id
        self.ports = ports
        self.stop: Record | None = None
        self.snapshot: Snapshot | None = None
        self.snapshot_at_s = 0.0
        self.last_snapshot: Snapshot | None = None
        self.retry_at_s = 0.0
        self.doubts = 0
        self.interrupted_at: datetime | None = None
        self.has_checked_settings = False
        self.is_quiet = False
        self.is_shutting_down = False
        self.forged_settings: set[str] = set()
        self._signatures: set[str] = set()
        self._turn: PendingStep | None = None
        self._unreadable_since_s: float | None = None
        self._happened_at_s: dict[datetime, float] = {}
        self._looked_at_s: dict[int, float] = {}
        self._lacking_since_s: float | None = None
        self._ends_since_s = self._moment_ends_s = math.inf
        self._was_given_up = self._is_stop_near = False
        self._asks_at_s = -math.inf
        entries = self._obeyed(ports.journal.entries(run_id=run_id), is_requested=False)
        if not entries:
            raise InputError(
                f"There is no run {run_id!r} in the journal.", hint="List them: trimtab runs."
            )
        self.requested = entries[0].record
        self.view: RunView = fold(entries)
        self.is_after_end = self.view.is_ended
        self._note(entries)

    @property
    def plan(self) -> Plan:
        """The plan that is executed."""
        return self.view.plan

    @property
    def turn(self) -> StepView | None:
        """The step whose turn it is: the first one that is pending."""
        return next(iter(self.steps_in("PENDING")), None)

    def turn_of(self, index: int) -> PendingStep:
        """Return the turn of a step: the same one until it is another step's."""
        if self._turn is None or self._turn.index != index:
            self._turn = PendingStep(index)
        return self._turn

    def forget_turn(self) -> None:
        """Have the next turn begin with an action and looks of its own."""
        self._turn = None

    def steps_in(self, *states: StepState) -> list[StepView]:
        """Return the steps in one of these states, in order."""
        return [step for step in self.view.steps if step.state in states]

    def refresh(self) -> None:
        """Read what came into the journal since.

        Raises:
            RemoteError: The journal cannot be read.
        """
        entries = self._obeyed(
            self.ports.journal.entries(run_id=self.run_id, after=self.view.last_seq),
            is_requested=True,
        )
        if entries:
            self.view = fold(entries, onto=self.view)
            self._note(entries)

    def record(self, event: Event) -> None:
        """Write an event and read it back, with what others wrote before it.

        Raises:
            RemoteError: The journal cannot be written.
            LeaseLostError: Another worker has claimed the run: what was written does not count.
        """
        at = self.ports.clock.now()
        self._happened_at_s[at] = self.ports.clock.monotonic()
        record = Record(
            run_id=self.run_id,
            cluster=self.view.cluster,
            at=at,
            actor=self.ports.worker,
            event=event,
        )
        self.ports.journal.append(self.ports.sign(record))
        self.refresh()
        if not self.is_after_end and self.view.worker not in ("", self.ports.worker):
            raise LeaseLostError

    def age_s(self, moment: datetime) -> float:
        """Return seconds since a moment of the journal, never negative.

        Jumps of the machine's clock do not count: what this worker wrote or has asked for once ages
        by the monotonic clock. Of what another one wrote its clock is believed, if not ahead.
        """
        now_s = self.ports.clock.monotonic()
        if moment not in self._happened_at_s:
            age_s = max((self.ports.clock.now() - moment).total_seconds(), 0.0)
            self._happened_at_s[moment] = now_s - age_s
        # to the microsecond, as the journal has it: less than that is nothing to wait for
        return round(now_s - self._happened_at_s[moment], 6)

    def is_ours(self) -> bool:
        """Return whether this worker may still act on the run."""
        return self.view.worker == self.ports.worker and self.ports.lease.is_held()

    def require_ours(self) -> None:
        """Check it right before something is sent.

        Raises:
            LeaseLostError: It is not ours any more.
        """
        if not self.is_ours():
            raise LeaseLostError

    def idle(self, seconds: float) -> None:
        """Wait a moment, at most :data:`SLICE_S`, and notice whether this process is to end."""
        if self.ports.clock.wait(min(seconds, SLICE_S)):
            if not self.is_shutting_down:
                self._ends_since_s = self.ports.clock.monotonic()
            self.is_shutting_down = True

    @property
    def is_to_leave(self) -> bool:
        """Whether this process shuts down and has observed the step in progress for long enough."""
        return self.ports.clock.monotonic() - self._ends_since_s >= LEAVE_AFTER_S

    def is_given_up(self) -> bool:
        """Return whether a stop was requested that is not known here yet; for any thread.

        What the cluster is waited for is not wanted any more then. A journal that cannot be read
        has no stop.
        """
        now_s = self.ports.clock.monotonic()
        if self.stop is not None:
            return False
        if now_s < self._asks_at_s:
            return self._is_stop_near
        self._asks_at_s = now_s + SLICE_S
        try:
            new = self.ports.journal.entries(run_id=self.run_id, after=self.view.last_seq)
        except RemoteError:
            return False
        self._is_stop_near = any(
            isinstance(entry.record.event, ControlRequested)
            and entry.record.event.control == "stop"
            and entry.record.event.signature not in self._signatures
            for entry in obeyed(new, self.ports.refusal_of, is_requested=True)
        )
        return self._is_stop_near

    def notice_given_up(self) -> bool:
        """Note that the cluster was not waited for any more; return whether the run was stopped.

        Raises:
            ShuttingDownError: This process shuts down.
            RemoteError: The journal cannot be read.
        """
        self.idle(0.0)
        if self.is_shutting_down:
            raise ShuttingDownError
        self.refresh()
        self._was_given_up = True
        return self.stop is not None

    def a_moment(self) -> AbstractContextManager[None]:
        """Bound what a stopped run still waits for the cluster in a block.

        There is one moment for all that it reads until the cluster answers. What takes longer is
        given up, not cut short: half a reading would mislead.
        """
        if math.isinf(self._moment_ends_s):
            self._moment_ends_s = self.ports.clock.monotonic() + STOPPED_LOOK_S
        ends_s = self._moment_ends_s
        return self.ports.unless(lambda: self.ports.clock.monotonic() >= ends_s)

    @property
    def is_answering(self) -> bool:
        """Whether the cluster answered the latest read."""
        return self._unreadable_since_s is None and not self._was_given_up

    def hold(self, seconds: float) -> None:
        """Wait a moment while something is under way, even when this process is shutting down."""
        self.idle(0.0)
        self.ports.clock.hold(seconds)

    def is_due(self, index: int, every_s: float) -> bool:
        """Note an observation of a step, unless the last one was less than ``every_s`` ago."""
        now_s = self.ports.clock.monotonic()
        if now_s - self._looked_at_s.get(index, -math.inf) < every_s:
            return False
        self._looked_at_s[index] = now_s
        return True

    def lasts(self, lacking: str, for_s: float) -> bool:
        """Note what of the run's purpose does not hold; return whether that has lasted so long.

        Args:
            lacking: What does not hold; empty: all of it holds.
            for_s: How long it has to be so.
        """
        now_s = self.ports.clock.monotonic()
        if not lacking:
            self._lacking_since_s = None
            return True
        if self._lacking_since_s is None:
            self._lacking_since_s = now_s
        return now_s - self._lacking_since_s >= for_s

    def could_read(self) -> None:
        """Return whether an entry is a copy of an earlier one: a signature is valid once."""
        self._unreadable_since_s = None
        self._was_given_up = False
        self._moment_ends_s = math.inf

    def is_unreadable_for_long(self) -> bool:
        """Note that the cluster did not answer; return whether that has lasted too long."""
        now_s = self.ports.clock.monotonic()
        if self._unreadable_since_s is None:
            self._unreadable_since_s = now_s
        return now_s - self._unreadable_since_s >= UNREADABLE_FOR_S

    def _obeyed(self, entries: Sequence[Entry], *, is_requested: bool) -> list[Entry]:
        found = obeyed(entries, self.ports.refusal_of, is_requested=is_requested)
        dropped = {entry.seq for entry in entries} - {entry.seq for entry in found}
        for entry in entries:
            event = entry.record.event
            if entry.seq in dropped and isinstance(event, SettingSaved):
                self.forged_settings.add(event.key)
        return [entry for entry in found if not self._is_copy(entry.record.event)]

    def _is_copy(self, event: Event) -> bool:
        """Return whether an entry is a copy of an earlier one: a signature holds once."""
        if not event.signature:
            return False
        is_copy = event.signature in self._signatures
        self._signatures.add(event.signature)
        return is_copy

    def _note(self, entries: Sequence[Entry]) -> None:
        for entry in entries:
            event = entry.record.event
            if isinstance(event, ControlRequested) and event.control == "stop":
                self.stop = self.stop or entry.record
