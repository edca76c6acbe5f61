"""What the executor needs of the world: a journal, a cluster, a lease and a clock.

Implemented in ``connectors``; a rehearsal (``--dry-run``) and the tests implement them too, so
that nothing in the executor knows whether it acts for real.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from core.actions.approval import ApprovalRules
from core.actions.events import Entry, Record
from core.actions.model import Observation, Refusal, RunId, StepResult
from core.actions.windows import Window
from core.plan.model import Plan
from core.step import Step
from core.system import Snapshot, System


class Journal(Protocol):
    """Append-only; safe to use from many threads and processes at once."""

    def append(self, record: Record) -> Entry:
        """Add a record and return it in its place; it is durable when this returns.

        Raises:
            RemoteError: The journal cannot be written; nothing was added.
        """
        ...

    def entries(
        self, *, run_id: RunId | None = None, after: int = 0, limit: int | None = None
    ) -> Sequence[Entry]:
        """Return entries with ``seq > after`` in order, of one run or of all."""
        ...

    def open_runs(self, cluster: str) -> Sequence[RunId]:
        """Return the runs of a cluster that have been requested and not ended, oldest first."""
        ...

    def moves_since(self, cluster: str, moment: datetime) -> int:
        """Return the number of moves started on the cluster since ``moment``: the move budget.

        A move is a step that is paced (``StepStarted.is_paced``).
        """
        ...

    def last_begun(self, cluster: str, since: datetime) -> datetime | None:
        """Return the start time of the cluster's latest move since then, or ``None``."""
        ...

    def runs_of_plan(self, plan: Plan) -> Sequence[RunId]:
        """Return the runs that were ever requested with this very plan, oldest first."""
        ...


class Action(Protocol):
    """One step on one cluster: look, act, look again.

    Made for every step, and again by a worker that reconciles what another one began; while a
    precondition is waited for (``Refusal.retry_s``) the same one is checked again and again.
    """

    @property
    def timeout_s(self) -> float:
        """Max time until its effect, s; the minimum is ``verify_within_s`` of the run."""
        ...

    def look(self) -> Observation:
        """Read the subject's live state, past every cache.

        Raises:
            RemoteError: It cannot be read.
        """
        ...

    def check_precondition(self, seen: Observation) -> Refusal | None:
        """Return the failed precondition of the step, or ``None``.

        With ``retry_s`` it is checked again after that many seconds; the step stays pending.
        """
        ...

    def send(self) -> None:
        """Ask the cluster to do it, once.

        Raises:
            RemoteError: ``outcome`` is whether it may have happened all the same.
        """
        ...

    def result(self, before: Observation, now: Observation) -> StepResult | None:
        """Return the result, ``None`` while the effect is not visible yet."""
        ...

    def on_timeout(self, before: Observation, now: Observation) -> StepResult:
        """Return the result when the time for :meth:`result` is up.

        Either a final state (for example ``unassigned``: the bundle was closed and no broker has
        requested it) or ``UNKNOWN``; after a look that shows nothing happened and nothing is under
        way any more, ``FAILED`` with code ``not_done``.
        """
        ...


class Cluster(Protocol):
    """The cluster as the executor acts on it."""

    @property
    def name(self) -> str:
        """Trimtab's name of it."""
        ...

    @property
    def system(self) -> System[Any]:
        """The system that it is a cluster of."""
        ...

    @property
    def is_read_only(self) -> bool:
        """Whether the configuration refuses every action."""
        ...

    @property
    def exclusions(self) -> Sequence[str]:
        """Namespaces that plans never touch."""
        ...

    @property
    def approval(self) -> ApprovalRules:
        """When a run needs another person."""
        ...

    @property
    def windows(self) -> Sequence[Window]:
        """When nothing may be changed."""
        ...

    @property
    def moves_per_day(self) -> int:
        """Most steps begun in 24 hours."""
        ...

    @property
    def max_steps(self) -> int:
        """Most steps of one run."""
        ...

    def snapshot(self) -> Snapshot:
        """Return a fresh snapshot.

        Raises:
            RemoteError: Nothing could be read.
        """
        ...

    def action(self, step: Step) -> Action:
        """Return the action that executes a step."""
        ...

    def pending(self) -> Collection[str]:
        """Return the subjects that earlier requests may still change, see :attr:`Step.touched`.

        Raises:
            RemoteError: The journal cannot be read.
        """
        ...

    def dynamic_setting(self, key: str) -> str | None:
        """Return the dynamic value of a setting, ``None`` when it has none.

        ``key`` is the subject of the step that sets it, and the value is what
        :meth:`Action.look` of such a step gives: where nodes differ a JSON object of node to value.

        Raises:
            RemoteError: It cannot be read.
        """
        ...

    def set_dynamic_setting(self, key: str, value: str | None) -> None:
        """Set a dynamic setting to what :meth:`dynamic_setting` gave; ``None`` to remove it.

        Raises:
            RemoteError: It was refused, or its outcome is unknown.
        """
        ...


class Lease(Protocol):
    """The right to be the only writer of a cluster."""

    @property
    def place(self) -> str:
        """Location of the lease, for people: ``zookeeper host:port/trimtab/writer``."""
        ...

    @property
    def lasts_s(self) -> float:
        """Time after :meth:`is_held` in which no other worker can take it, s."""
        ...

    def acquire(self) -> bool:
        """Try to take it; ``False`` when another worker holds it.

        Raises:
            RemoteError: It cannot be requested.
        """
        ...

    def is_held(self) -> bool:
        """Return whether this worker certainly holds it: read from its location, not cached."""
        ...

    def holder(self) -> str | None:
        """Return the holder, for people, or ``None`` if it is free."""
        ...

    def release(self) -> None:
        """Give it back; harmless when it is not held."""
        ...


class Clock(Protocol):
    """Time, so that tests need none."""

    def now(self) -> datetime:
        """Return the present moment, aware UTC."""
        ...

    def monotonic(self) -> float:
        """Return seconds that only ever grow."""
        ...

    def wait(self, seconds: float) -> bool:
        """Wait; ``True``, without waiting any further, once this process is shutting down."""
        ...

    def hold(self, seconds: float) -> None:
        """Wait all of it, also when shutting down: a running step is observed a moment longer."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Ports:
    """All that the executor is given.

    Attributes:
        journal: The truth about every run.
        cluster: Where it acts.
        lease: Held by the caller from before :func:`core.actions.apply.execute_run` until after it.
        clock: Time.
        worker: Name of this worker, another one for every process and thread that acts:
            ``host/pid/...``; what it writes counts only while it was the last to claim the run.
        refusal_of: Says why an entry of the journal is not obeyed: it is not signed, or who
            requested it lacks the role.
        sign: Signs what the worker writes.
        keep_start: Stores the snapshot on which a run begins: an undo compares with it.
        within: Bounds what the cluster is waited for in a block, s.
        begun_within: Bounds when a request may still be sent in a block, s.
        unless: Ends what the cluster is waited for in a block when the function returns true, with
            a :class:`core.errors.GivenUpError`; it is called from any thread.
    """

    journal: Journal
    cluster: Cluster
    lease: Lease
    clock: Clock
    worker: str
    refusal_of: Callable[[Record], Refusal | None] = lambda _: None
    sign: Callable[[Record], Record] = lambda record: record
    keep_start: Callable[[Plan, Any], None] = lambda _plan, _snapshot: None
    within: Callable[[float], AbstractContextManager[None]] = lambda _: nullcontext()
    begun_within: Callable[[float], AbstractContextManager[None]] = lambda _: nullcontext()
    unless: Callable[[Callable[[], bool]], AbstractContextManager[None]] = lambda _: nullcontext()
