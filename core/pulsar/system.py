"""Pulsar as a system: what code that knows no system reads of it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from core.actions.describe import count_named
from core.actions.events import ExternalMove, Measured, RunMeasured
from core.actions.model import Refusal, RunId
from core.actions.reconcile import LANDING_GRACE_S
from core.actions.views import RunView, SettingView, StepView
from core.errors import IncompleteSnapshotError
from core.findings.verdict import Verdict
from core.gauges import Gauge
from core.plan.model import Plan
from core.pulsar.gauges import gauges
from core.pulsar.isolation import parse_failure_domains
from core.pulsar.measures import DEFAULT_TARGET, measure
from core.pulsar.plan.after_run import load_after_run
from core.pulsar.plan.answer import plan_sentence
from core.pulsar.plan.edit import PlanContext
from core.pulsar.plan.external_changes import by_lost_broker, external_changes
from core.pulsar.plan.moves_back import moved_since
from core.pulsar.plan.preview import preview_plan
from core.pulsar.plan.undo import undo_plan
from core.pulsar.plan.verify import recheck
from core.pulsar.record import PULSAR_RECORD
from core.pulsar.rules.verdict import verdict_of
from core.pulsar.steps.base import PulsarStep
from core.pulsar.steps.registry import STEPS
from core.snapshot import PulsarSnapshot
from core.step import Diagnostic, StepBase
from core.system import BalancerSwitch, SystemParts

_SHEDDING: Final = "loadBalancerSheddingEnabled"


def _restore_line(before: str | None) -> str:
    verb = "delete" if before is None else "update"
    value = "" if before is None else f" --value {before}"
    return f"pulsar-admin brokers {verb}-dynamic-config --config {_SHEDDING}{value}"


class PulsarSystem:
    """Pulsar; see :class:`core.system.System`."""

    name = "pulsar"
    steps: tuple[type[StepBase], ...] = STEPS
    unit = "bundle"
    transfer_s = LANDING_GRACE_S
    record = PULSAR_RECORD
    parts = SystemParts(
        diagnosis="core.diagnosis.pulsar.system:PULSAR",
        backtest="core.history.backtest.pulsar.system:PULSAR",
        trends="core.history.analysis.trends.pulsar:PULSAR",
    )
    default_target_ratio = DEFAULT_TARGET.bound
    balancer: BalancerSwitch | Refusal = BalancerSwitch(_SHEDDING, "false", _restore_line)

    def servers(self, snapshot: PulsarSnapshot) -> dict[str, str | None]:
        """Return the brokers, with the failure domain of each."""
        stored = parse_failure_domains(snapshot.policies)
        names, domains = (snapshot.brokers[one].to_pylist() for one in ("broker", "failure_domain"))
        return {name: stored.get(name, one) for name, one in zip(names, domains, strict=True)}

    def verdict(
        self, snapshot: PulsarSnapshot, earlier: Callable[[], Sequence[PulsarSnapshot]] = tuple
    ) -> Verdict:
        """Return the verdict on a cluster by its own settings."""
        del earlier  # reports and sessions have times
        return verdict_of(snapshot)

    def gauges(self, snapshot: PulsarSnapshot) -> Iterable[Gauge]:
        """Return the figures of a snapshot for monitoring systems."""
        return gauges(snapshot)

    def is_complete(self, snapshot: PulsarSnapshot) -> bool:
        """Return whether every bundle and every owner was read."""
        bundles = snapshot.manifest.tables["bundles"]
        return bundles.coverage_ratio == 1.0 and snapshot.bundles["owner_source"].null_count == 0

    def recheck(
        self,
        snapshot: PulsarSnapshot,
        plan: Plan,
        exclusions: Collection[str],
        now: datetime,
        *,
        steps: Collection[int] | None = None,
    ) -> Mapping[int, Diagnostic]:
        """Return the refusals of pending steps, by position in the plan."""
        return recheck(snapshot, plan, exclusions, now, steps=steps)

    def purpose(self, plan: Plan) -> str:
        """Return the purpose: brokers serve the unloaded bundles; "" without unloads."""
        unloads = any(isinstance(step, PulsarStep) and step.unloads for step in plan.steps)
        return "each bundle is unloaded, and a broker serves it" if unloads else ""

    def lacking(self, view: RunView, snapshot: PulsarSnapshot) -> str:
        """Return the bundles that were not unloaded or have no owner.

        A bundle that others moved needs no unload any more.
        """
        names = _unassigned(view, snapshot)
        if names is None:
            raise IncompleteSnapshotError("The owners of the run's bundles were read in part only.")
        if names:
            return f"{count_named('Unassigned', names)}."
        steps = [one.step for one in view.steps if _is_left(one)]
        left = [name for step in steps if isinstance(step, PulsarStep) for name in step.unloads]
        if left and view.counts.get("DONE"):
            return f"{count_named('Not unloaded', left)}."
        return "" if view.counts.get("DONE") else "No step was done."

    def undone(self, view: RunView, snapshot: PulsarSnapshot) -> Mapping[int, str]:
        """Return nothing: owners are stored, no failover moves a bundle back."""
        del view, snapshot
        return {}

    def external_changes(
        self, view: RunView, earlier: PulsarSnapshot, later: PulsarSnapshot
    ) -> Iterable[ExternalMove]:
        """Return bundles that changed hands, and not by the run."""
        return by_lost_broker(external_changes(view, earlier, later), later)

    def why_left(
        self, saved: SettingView, by_hand: str, snapshot: Callable[[], PulsarSnapshot]
    ) -> str:
        """Return nothing: every setting can be restored."""
        del saved, by_hand, snapshot
        return ""

    def why_reset(self, key: str, value: str | None) -> str:
        """Return nothing: dynamic settings are stored, no broker resets them."""
        del key, value
        return ""

    def preview(self, snapshot: PulsarSnapshot, plan: Plan) -> str:
        """Return the expected deviation, moves and clients."""
        return plan_sentence(preview_plan(snapshot, plan))

    def measure(
        self, view: RunView, snapshot: PulsarSnapshot, disturbed_by: RunId | None
    ) -> RunMeasured:
        """Return the load of the brokers that the run touched."""
        return measured(view, snapshot, disturbed_by)

    def count_moved(self, view: RunView, start: PulsarSnapshot, snapshot: PulsarSnapshot) -> int:
        """Return the number of bundles moved by others since the run began."""
        return len(moved_since(view, start, snapshot))

    def after_run(
        self, view: RunView, snapshot: PulsarSnapshot, start: PulsarSnapshot | None
    ) -> PulsarSnapshot:
        """Return the snapshot with the load that the run left."""
        return load_after_run(view, snapshot, start).snapshot

    def undo(
        self,
        view: RunView,
        snapshot: PulsarSnapshot,
        *,
        now: datetime,
        exclusions: Collection[str] = frozenset(),
        reason: str = "",
        start: PulsarSnapshot | None = None,
        max_moves: int = 0,
    ) -> Plan:
        """Return the plan that undoes a run."""
        context = PlanContext(snapshot=snapshot, now=now, exclusions=exclusions)
        return undo_plan(view, context, reason=reason, start=start, max_moves=max_moves)


def _is_left(step: StepView) -> bool:
    """Whether a step was skipped although needed, such as for a dead destination."""
    if step.state != "SKIPPED" or step.result is None:
        return False
    flags = step.step.flags_of(step.result.code)
    return not (flags.is_needless or flags.is_external_change)


def measured(
    view: RunView, snapshot: PulsarSnapshot, disturbed_by: RunId | None = None
) -> RunMeasured:
    """Return the measurements of ``snapshot`` for the brokers that the run touched.

    Args:
        view: A run that has ended.
        snapshot: Taken some time after its end.
        disturbed_by: Another run of the cluster that began a step in between; ``None`` if none did.
    """
    found = measure(snapshot)
    return RunMeasured(
        snapshot_id=snapshot.snapshot_id,
        taken_at=snapshot.manifest.taken_at,
        usage_deviation=found.usage.max_deviation_ratio,
        throughput_deviation=found.throughput.max_deviation_ratio,
        disturbed_by=disturbed_by,
        brokers=tuple(
            Measured(
                broker=broker,
                usage_ratio=found.usage.value_of(broker),
                throughput_bytes_per_s=found.throughput.value_of(broker),
            )
            for broker in _touched(view)
        ),
        unassigned=_unassigned(view, snapshot),
    )


def _unassigned(view: RunView, snapshot: PulsarSnapshot) -> tuple[str, ...] | None:
    """Return the bundles that the run unloaded and that are unassigned and in use.

    ``None`` if the snapshot does not have the owner of such a bundle.
    """
    steps = [step for step in view.steps if _may_be_unserved(step)]
    whole = pa.array([step.step.subject for step in steps if not step.step.has_parts], pa.string())
    table = snapshot.bundles.select(["bundle", "owner", "owner_source"])
    table = table.filter(pc.is_null(table["owner"]))  # few: names are compared one by one below
    is_among = pc.is_in(table["bundle"], value_set=whole)
    for step in steps:
        if step.step.has_parts:
            inside = [step.step.covers(name) for name in table["bundle"].to_pylist()]
            is_among = pc.or_(is_among, pa.array(inside, pa.bool_()))
    table = table.filter(is_among)
    return None if table["owner_source"].null_count else tuple(table["bundle"].to_pylist())


def _may_be_unserved(step: StepView) -> bool:
    """Return whether a step unloaded a bundle that is in use.

    A split that was done has parts without topics at most that are unassigned.
    """
    if step.begun_at is None or step.state in ("FAILED", "SKIPPED") or step.result is None:
        return False
    if not isinstance(step.step, PulsarStep) or not step.step.unloads:
        return False
    is_idle = step.result.code == "idle" or (step.before is not None and step.before.topics == 0)
    return not is_idle and (not step.step.has_parts or bool(step.unserved))


def _touched(view: RunView) -> list[str]:
    """Brokers that the plan spoke of, then those that really had a hand in it."""
    names = [item.broker for item in view.plan.expected.brokers]
    for step in view.steps:
        if step.begun_at is None:
            continue
        after = step.result.after if step.result else None
        holders = (step.step.owner, after.holder if after else None)
        names += [name for name in holders if name is not None]
    return list(dict.fromkeys(names))


PULSAR: Final = PulsarSystem()
