"""What a system is to the code that knows none of them.

The objects are in ``core/<system>/system.py``, their list in :mod:`core.systems`. The executor
takes the system from the cluster that it is handed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import datetime
from typing import Any, NamedTuple, Protocol, TypeVar

from core.actions.events import ExternalMove, RunMeasured
from core.actions.model import Refusal, RunId
from core.actions.views import RunView, SettingView
from core.ids import SnapshotId
from core.plan.model import Plan
from core.step import Diagnostic, StepBase


class Manifest(Protocol):
    """Common metadata of snapshots."""

    @property
    def cluster(self) -> str:
        """Trimtab's name of the cluster."""
        ...

    @property
    def kind(self) -> str:
        """Name of its system."""
        ...

    @property
    def taken_at(self) -> datetime:
        """When it was taken, aware UTC."""
        ...


class Snapshot(Protocol):
    """A cluster at one moment; what is in it is known to its system only."""

    @property
    def snapshot_id(self) -> SnapshotId:
        """Identifies its content."""
        ...

    @property
    def manifest(self) -> Manifest:
        """Source and time of the snapshot."""
        ...


class BalancerSwitch(NamedTuple):
    """The setting that pauses the cluster's own balancer.

    Attributes:
        key: Its name.
        paused: Its value during the pause.
        restore_line: Returns the shell line that restores a value; ``None`` if it was not set.
    """

    key: str
    paused: str
    restore_line: Callable[[str | None], str]


S_contra = TypeVar("S_contra", bound=Snapshot, contravariant=True)


class SystemParts(NamedTuple):
    """Parts of a system in the packages above it, ``module:name``; empty: not available.

    They are imported on first use: a command needs few of them.

    Attributes:
        diagnosis: A ``SystemDiagnosis``.
        backtest: A ``BacktestSystem``.
        trends: A ``SystemTrends``.
    """

    diagnosis: str = ""
    backtest: str = ""
    trends: str = ""


class System(Protocol[S_contra]):
    """One system, as plan, executor, journal, worker and commands use it."""

    @property
    def name(self) -> str:
        """Stable word: the ``kind`` of its clusters in the configuration."""
        ...

    @property
    def steps(self) -> tuple[type[StepBase], ...]:
        """The kinds of its steps, in the order in which they are counted."""
        ...

    @property
    def unit(self) -> str:
        """Unit that changes owner, singular: ``bundle``."""
        ...

    @property
    def transfer_s(self) -> float:
        """Max time without an owner: a purpose fails only after it."""
        ...

    @property
    def balancer(self) -> BalancerSwitch | Refusal:
        """Setting that pauses the cluster's balancer during a run, or the reason it cannot."""
        ...

    def is_complete(self, snapshot: S_contra) -> bool:
        """Return whether objects missing in the snapshot certainly do not exist."""
        ...

    def recheck(
        self,
        snapshot: S_contra,
        plan: Plan,
        exclusions: Collection[str],
        now: datetime,
        *,
        steps: Collection[int] | None = None,
    ) -> Mapping[int, Diagnostic]:
        """Return the refusals of pending steps, by position in the plan.

        Args:
            snapshot: A fresh one.
            exclusions: What the configuration excludes from every plan.
            now: The present moment, aware UTC.
            steps: Places to check; ``None`` for all.
        """
        ...

    def purpose(self, plan: Plan) -> str:
        """Return the purpose of a plan, a clause, or "".

        Args:
            plan: The plan; what it changes for the time of the run is no purpose.
        """
        ...

    def lacking(self, view: RunView, snapshot: S_contra) -> str:
        """Return the unmet part of a run's purpose, one sentence, or "".

        Args:
            view: The run, none of whose steps is pending.
            snapshot: A fresh one.
        Raises:
            SnapshotError: The snapshot does not show it.
        """
        ...

    def undone(self, view: RunView, snapshot: S_contra) -> Mapping[int, str]:
        """Return steps to execute again, by place in the plan, with the reason of each.

        Their effect, which the run still needs, is gone: a new leader has forgotten what kept it.

        Args:
            snapshot: A fresh one.
        """
        ...

    def external_changes(
        self, view: RunView, earlier: S_contra, later: S_contra
    ) -> Iterable[ExternalMove]:
        """Return the owner changes between two snapshots, except those of the run."""
        ...

    def why_left(self, saved: SettingView, by_hand: str, snapshot: Callable[[], S_contra]) -> str:
        """Return the reason a temporary setting cannot be restored, or "".

        Args:
            by_hand: The shell line that restores it.
            snapshot: Takes a fresh snapshot.
        Raises:
            RemoteError: The cluster cannot be read.
            SnapshotError: The snapshot has too little.
        """
        ...

    def why_reset(self, key: str, value: str | None) -> str:
        """Return the clause that explains why servers set ``key`` to ``value``; empty: unknown."""
        ...

    def preview(self, snapshot: S_contra, plan: Plan) -> str:
        """Return the expected effect of a plan, one sentence.

        Args:
            snapshot: The one that it was made on, or a later one.
        Raises:
            OpsError: The snapshot has too little.
        """
        ...

    def measure(self, view: RunView, snapshot: S_contra, disturbed_by: RunId | None) -> RunMeasured:
        """Return a later snapshot's measurements of the objects that the run touched.

        Args:
            view: A run that has ended.
            snapshot: Taken some time after its end.
            disturbed_by: Another run that acted in between; ``None`` if none did.
        """
        ...

    def count_moved(self, view: RunView, start: S_contra, snapshot: S_contra) -> int:
        """Return the number of bundles or partitions moved since a run began.

        Those that steps of the run moved do not count.

        Args:
            start: A snapshot of when it began.
            snapshot: A fresh one.
        """
        ...

    def after_run(self, view: RunView, snapshot: S_contra, start: S_contra | None) -> Any:
        """Return the snapshot on which the undo of a run is previewed.

        Load that servers have not reported since the run is predicted there.

        Args:
            snapshot: A fresh one.
            start: A snapshot of when the run began; ``None`` if there is none.
        """
        ...

    def undo(
        self,
        view: RunView,
        snapshot: S_contra,
        *,
        now: datetime,
        exclusions: Collection[str] = frozenset(),
        reason: str = "",
        start: S_contra | None = None,
        max_moves: int = 0,
    ) -> Plan:
        """Return the plan that undoes a run, last step first, and what it leaves behind.

        Args:
            snapshot: A fresh one.
            now: The present moment, aware UTC.
            exclusions: What the configuration excludes from every plan.
            reason: Why; by default that it undoes the run.
            start: A snapshot of when the run began; ``None`` if there is none.
            max_moves: Most moves back of what moved since, and by no step of the run.
        Raises:
            PlanConflictError: The run has not ended, is of another cluster, or left nothing.
        """
        ...
