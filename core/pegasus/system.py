"""Pegasus as a system: what code that knows no system reads of it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Final

from core.actions.events import ExternalMove, RunMeasured
from core.actions.model import Refusal, RunId
from core.actions.views import RunView, SettingView
from core.errors import IncompleteSnapshotError
from core.findings.verdict import Verdict
from core.gauges import Gauge
from core.pegasus.gauges import gauges
from core.pegasus.plan.external_changes import external_changes, measured
from core.pegasus.plan.moves_back import moved_since
from core.pegasus.plan.preview import preview_pegasus
from core.pegasus.plan.purpose import lacking, purpose_of, undone
from core.pegasus.plan.restore import why_left, why_reset
from core.pegasus.plan.undo import UndoContext, undo_plan
from core.pegasus.plan.verify import recheck
from core.pegasus.record import PEGASUS_RECORD
from core.pegasus.rules.registry import pegasus_verdict
from core.pegasus.snapshot import DEFAULT_TARGET_RATIO, PegasusFacts
from core.pegasus.steps.registry import STEPS
from core.plan.model import Plan
from core.snapshot.pegasus import PegasusSnapshot
from core.step import Diagnostic, StepBase
from core.system import BalancerSwitch, SystemParts


class PegasusSystem:
    """Pegasus; see :class:`core.system.System`."""

    name = "pegasus"
    steps: tuple[type[StepBase], ...] = STEPS
    unit = "partition"
    transfer_s = 0.0
    record = PEGASUS_RECORD
    parts = SystemParts(
        diagnosis="core.diagnosis.pegasus.system:PEGASUS",
        backtest="core.history.backtest.pegasus.system:PEGASUS",
        trends="core.history.analysis.trends.pegasus:PEGASUS",
    )
    default_target_ratio = DEFAULT_TARGET_RATIO
    balancer: BalancerSwitch | Refusal = Refusal(
        code="bad_options",
        sentence="A Pegasus balancer cannot be paused by an option: at level steady it only "
        "counts.",
        hint="Request the run without --pause-balancer; plan a step that sets the level.",
    )

    def servers(self, snapshot: PegasusSnapshot) -> dict[str, str | None]:
        """Return the nodes; Pegasus has no failure domains."""
        return dict.fromkeys(one.name for one in PegasusFacts(snapshot).nodes)

    def verdict(
        self, snapshot: PegasusSnapshot, earlier: Callable[[], Sequence[PegasusSnapshot]] = tuple
    ) -> Verdict:
        """Return the verdict on a cluster."""
        may_last = snapshot.tables["partitions"]["primary"].null_count
        return pegasus_verdict(PegasusFacts(snapshot), earlier() if may_last else ())

    def gauges(self, snapshot: PegasusSnapshot) -> Iterable[Gauge]:
        """Return the figures of a snapshot for monitoring systems."""
        return gauges(snapshot)

    def is_complete(self, snapshot: PegasusSnapshot) -> bool:
        """Return whether every partition was read."""
        return PegasusFacts(snapshot).has_all_partitions

    def recheck(
        self,
        snapshot: PegasusSnapshot,
        plan: Plan,
        exclusions: Collection[str],
        now: datetime,
        *,
        steps: Collection[int] | None = None,
    ) -> Mapping[int, Diagnostic]:
        """Return the refusals of pending steps, by position in the plan."""
        del exclusions, now  # the executor's guard has the exclusions; nothing here expires
        return recheck(snapshot, plan, steps=steps)

    def purpose(self, plan: Plan) -> str:
        """Return the purpose: empty nodes, moved replicas, levels and settings."""
        return purpose_of(plan)

    def lacking(self, view: RunView, snapshot: PegasusSnapshot) -> str:
        """Return the unmet part of the purpose."""
        if not self.is_complete(snapshot):
            raise IncompleteSnapshotError("The cluster was read in part only.")
        return lacking(view, snapshot)

    def undone(self, view: RunView, snapshot: PegasusSnapshot) -> Mapping[int, str]:
        """Return the batches whose partitions have the node again, and the waits after them."""
        return undone(view, snapshot)

    def external_changes(
        self, view: RunView, earlier: PegasusSnapshot, later: PegasusSnapshot
    ) -> Iterable[ExternalMove]:
        """Return partitions whose members changed, and not by the run."""
        return external_changes(view, earlier, later)

    def why_left(
        self, saved: SettingView, by_hand: str, snapshot: Callable[[], PegasusSnapshot]
    ) -> str:
        """Return the reason a setting cannot be restored: it would freeze the cluster."""
        return why_left(saved, by_hand, snapshot)

    def why_reset(self, key: str, value: str | None) -> str:
        """Return the note that a value is a default, which a restarted server uses again."""
        return why_reset(key, value)

    def preview(self, snapshot: PegasusSnapshot, plan: Plan) -> str:
        """Return the moves, copies and levels."""
        return preview_pegasus(snapshot, plan).sentence

    def measure(
        self, view: RunView, snapshot: PegasusSnapshot, disturbed_by: RunId | None
    ) -> RunMeasured:
        """Return the replicas of the nodes that the run touched."""
        return measured(view, snapshot, disturbed_by)

    def count_moved(self, view: RunView, start: PegasusSnapshot, snapshot: PegasusSnapshot) -> int:
        """Return the number of partitions moved by others since the run began."""
        return len(moved_since(view, start, snapshot))

    def after_run(
        self, view: RunView, snapshot: PegasusSnapshot, start: PegasusSnapshot | None
    ) -> PegasusSnapshot:
        """Return the snapshot: the meta server knows where each replica is."""
        del view, start
        return snapshot

    def undo(
        self,
        view: RunView,
        snapshot: PegasusSnapshot,
        *,
        now: datetime,
        exclusions: Collection[str] = frozenset(),
        reason: str = "",
        start: PegasusSnapshot | None = None,
        max_moves: int = 0,
    ) -> Plan:
        """Return the plan that undoes a run."""
        context = UndoContext(
            snapshot=snapshot, now=now, exclusions=exclusions, start=start, max_moves=max_moves
        )
        return undo_plan(view, context, reason=reason)


PEGASUS: Final = PegasusSystem()
