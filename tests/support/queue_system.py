"""A third system for tests: queues that are assigned to workers. No product file knows it."""

from __future__ import annotations

import hashlib
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, ClassVar, Final

import pyarrow as pa

from connectors.check import CheckResult
from connectors.worker.limits import LimitedCluster
from core.actions.approval import NO_APPROVAL, ApprovalRules
from core.actions.events import ExternalMove, RunMeasured
from core.actions.external_changes import describe_move
from core.actions.model import Observation, Refusal, StepResult
from core.actions.ports import Action
from core.actions.undo import check_undo, reason_of_undo
from core.actions.windows import Window
from core.errors import PlanConflictError
from core.facts import NOTHING_ASSUMED, Assumed
from core.findings.finding import Finding
from core.findings.json import verdict_json
from core.findings.verdict import Area, Verdict
from core.gauges import Gauge
from core.history.analysis.accuracy.shadow import NoShadow, Shadow
from core.ids import SnapshotId
from core.operations.operation import Answer
from core.plan.model import Expected, Plan, PolicyRef, sealed
from core.snapshot.model import Manifest, TableManifest
from core.snapshot.record import SystemRecord, changing
from core.snapshot.store import load_manifest, read_table
from core.step import Diagnostic, Phrase, ResultFlags, SettingChange, Step, StepBase
from core.system import BalancerSwitch, SystemParts
from core.systems import KnownSystem

NAME: Final = "queues"
AUTO: Final = "auto_assign"


TABLES: Final = {
    "queues": pa.schema([("queue", pa.string()), ("worker", pa.string()), ("depth", pa.int64())]),
    "switches": pa.schema([("name", pa.string()), ("value", pa.string())]),
}


@dataclass(frozen=True)
class QueueSnapshot:
    """Worker and depth of every queue, and the settings, at one moment."""

    manifest: Manifest
    tables: Mapping[str, pa.Table]

    @classmethod
    def build(cls, manifest: Manifest, tables: Mapping[str, pa.Table]) -> QueueSnapshot:
        whole = {name: tables[name].select(one.names).cast(one) for name, one in TABLES.items()}
        counts = {
            name: TableManifest(source="rest", rows=one.num_rows) for name, one in whole.items()
        }
        return cls(replace(manifest, kind=NAME, tables=counts), whole)

    @classmethod
    def load(cls, directory: Path) -> QueueSnapshot:
        _, manifest = load_manifest(directory)
        return cls.build(manifest, {name: read_table(directory, name) for name in TABLES})

    @property
    def workers(self) -> dict[str, str]:
        rows = self.tables["queues"].to_pylist()
        return {row["queue"]: row["worker"] for row in rows}

    @property
    def snapshot_id(self) -> SnapshotId:
        rows = [self.tables[name].to_pylist() for name in TABLES]
        content = f"{self.manifest.cluster}{self.manifest.taken_at}{rows}"
        return SnapshotId(hashlib.sha256(content.encode()).hexdigest()[:16])


def moves_between(before: QueueSnapshot, after: QueueSnapshot) -> list[dict[str, Any]]:
    return [
        {"kind": "move", "subject": queue, "before": before.workers.get(queue), "after": worker}
        for queue, worker in after.workers.items()
        if before.workers.get(queue) != worker
    ]


RECORD: Final = SystemRecord(
    system=NAME,
    tables=TABLES,
    counted=("queues",),
    kinds=(
        changing("queues", TABLES["queues"], ("queue",)),
        changing("switches", TABLES["switches"], ("name",)),
    ),
    build=QueueSnapshot.build,
    load=QueueSnapshot.load,
    events=moves_between,
)


class QueueStep(StepBase, frozen=True, kw_only=True):
    def check(self, snapshot: QueueSnapshot) -> Diagnostic | None:
        return None

    def inverse(self) -> QueueStep:
        raise NotImplementedError


class MoveQueue(QueueStep, frozen=True, kw_only=True, tag="move_queue"):
    phrase: ClassVar[Phrase] = Phrase("move", "queue", "moved", "was moved", order=0)
    result_flags: ClassVar[Mapping[str, ResultFlags]] = {
        **Step.result_flags,
        "moved_meanwhile": ResultFlags(is_external_change=True),
    }

    queue: str
    owner: str
    destination: str

    @property
    def subject(self) -> str:
        return self.queue

    def describe(self) -> str:
        return f"Move {self.queue} from {self.owner} to {self.destination}"

    def describe_progress(self) -> str:
        return f"Moving {self.queue} from {self.owner}"

    def describe_dry_run(self, holder: str | None = None) -> str:
        return f"{self.queue} would go from {holder or self.owner} to {self.destination}."

    def command_lines(self) -> tuple[str, ...]:
        return (f"queues move {self.queue} {self.destination}",)

    def check(self, snapshot: QueueSnapshot) -> Diagnostic | None:
        now = snapshot.workers.get(self.queue)
        if now == self.owner:
            return None
        sentence = f"{self.queue} is on {now}, not on {self.owner}."
        return Diagnostic(severity="error", code="moved_meanwhile", sentence=sentence)

    def inverse(self) -> QueueStep:
        return MoveQueue(queue=self.queue, owner=self.destination, destination=self.owner)


class SetAuto(QueueStep, frozen=True, kw_only=True, tag="set_auto"):
    phrase: ClassVar[Phrase] = Phrase("change", "setting", "changed", "was changed", order=1)

    before: str
    value: str
    is_temporary: bool = False

    @property
    def subject(self) -> str:
        return AUTO

    @property
    def is_paced(self) -> bool:
        return False

    @property
    def setting(self) -> SettingChange | None:
        return SettingChange(self.before, self.value, is_temporary=self.is_temporary)

    def describe(self) -> str:
        return f"Set {AUTO} to {self.value}"

    def describe_progress(self) -> str:
        return f"Setting {AUTO} to {self.value}"

    def describe_dry_run(self, holder: str | None = None) -> str:
        return f"{AUTO} would be set to {self.value}."

    def command_lines(self) -> tuple[str, ...]:
        return (f"queues set {AUTO} {self.value}",)

    def inverse(self) -> QueueStep:
        return SetAuto(before=self.value, value=self.before)


def plan_of(
    snapshot: QueueSnapshot,
    steps: Iterable[QueueStep],
    now: datetime,
    *,
    reason: str = "",
    undoes: str | None = None,
) -> Plan:
    steps = tuple(steps)
    found = tuple(one for step in steps if (one := step.check(snapshot)) is not None)
    return sealed(
        Plan(
            cluster=snapshot.manifest.cluster,
            snapshot_id=snapshot.snapshot_id,
            taken_at=snapshot.manifest.taken_at,
            created_at=now,
            expires_at=now + timedelta(minutes=10),
            strategy=PolicyRef(name="by hand", release="1"),
            steps=steps,
            expected=Expected(),
            diagnostics=found,
            reason=reason,
            complete=not found,
            applyable=bool(steps) and not found,
            errored=bool(found),
            undoes=undoes,
        )
    )


class QueueSystem:
    name = NAME
    record = RECORD
    parts = SystemParts()
    steps: tuple[type[StepBase], ...] = (MoveQueue, SetAuto)
    unit = "queue"
    transfer_s = 0.0
    balancer: BalancerSwitch | Refusal = BalancerSwitch(
        AUTO, "off", lambda before: f"queues set {AUTO} {before}"
    )

    def servers(self, snapshot: QueueSnapshot) -> dict[str, str | None]:
        return {}

    def gauges(self, snapshot: QueueSnapshot) -> tuple[Gauge, ...]:
        counts = Counter(snapshot.workers.values())
        return tuple(
            Gauge("worker_queues", "Queues of a worker.", (("worker", worker),), count)
            for worker, count in counts.items()
        )

    def is_complete(self, snapshot: QueueSnapshot) -> bool:
        return True

    def verdict(self, snapshot: QueueSnapshot) -> Verdict:
        counts = Counter(snapshot.workers.values())
        worker, limit = counts.most_common(1)[0]
        crowded = Finding(
            code="crowded",
            title="Worker is crowded",
            severity="warning",
            subject_kind="node",
            subject=worker,
            sentence=f"{worker} has {limit} of {counts.total()} queues.",
            hint="Move a queue.",
        )
        found = (crowded,) if limit > 1 else ()
        return Verdict(findings=found, areas=(Area(name="load"),))

    def preview(self, snapshot: QueueSnapshot, plan: Plan) -> str:
        after = snapshot.workers | {
            step.subject: step.destination for step in plan.steps if step.destination
        }
        counts = sorted(Counter(after.values()).items())
        return "Queues after: " + ", ".join(f"{name} {count}" for name, count in counts) + "."

    def recheck(self, snapshot, plan, exclusions, now, *, steps=None) -> dict[int, Diagnostic]:
        return {
            index: found
            for index, step in enumerate(plan.steps)
            if (steps is None or index in steps)
            and isinstance(step, QueueStep)
            and (found := step.check(snapshot)) is not None
        }

    def external_changes(self, view, earlier, later) -> Iterable[ExternalMove]:
        own = {step.step.subject for step in view.steps if step.begun_at is not None}
        for queue, worker in later.workers.items():
            before = earlier.workers.get(queue)
            if queue not in own and before != worker:
                yield describe_move(queue, before, worker)

    def purpose(self, plan) -> str:
        return ""

    def lacking(self, view, snapshot) -> str:
        return ""

    def undone(self, view, snapshot) -> dict[int, str]:
        return {}

    def why_left(self, saved, by_hand, snapshot) -> str:
        return ""

    def why_reset(self, key: str, value: str | None) -> str:
        return ""

    def measure(self, view, snapshot, disturbed_by) -> RunMeasured:
        return RunMeasured(
            snapshot_id=snapshot.snapshot_id,
            taken_at=snapshot.manifest.taken_at,
            usage_deviation=None,
            throughput_deviation=None,
            disturbed_by=disturbed_by,
        )

    def count_moved(self, view, start, snapshot) -> int:
        return 0

    def after_run(self, view, snapshot, start):
        return snapshot

    def undo(
        self, view, snapshot, *, now, exclusions=frozenset(), reason="", start=None, max_moves=0
    ) -> Plan:
        check_undo(view, snapshot.manifest.cluster)
        done = [step.step for step in reversed(view.steps) if step.state == "DONE"]
        steps = [
            step.inverse()
            for step in done
            if isinstance(step, QueueStep) and step.temporary_value is None
        ]
        if not steps:
            raise PlanConflictError(f"Nothing of run {view.run_id} can be taken back.")
        reason = reason or reason_of_undo(view)
        return plan_of(snapshot, steps, now, reason=reason, undoes=view.run_id)


QUEUES: Final[KnownSystem] = QueueSystem()


@dataclass
class QueueCluster:
    """A cluster, and the port through which the executor acts on it."""

    now: Callable[[], datetime]
    name: str = "queues-1"
    workers: dict[str, str] = field(default_factory=dict)
    settings: dict[str, str] = field(default_factory=lambda: {AUTO: "on"})
    before_move: Callable[[], None] = lambda: None
    is_read_only: bool = False
    exclusions: tuple[str, ...] = ()
    moves_per_day: int = 100
    max_steps: int = 200
    approval: ApprovalRules = NO_APPROVAL
    windows: tuple[Window, ...] = ()
    changed: threading.Event = field(default_factory=threading.Event)
    system: KnownSystem = QUEUES

    def snapshot(self) -> QueueSnapshot:
        queues = [{"queue": one, "worker": on, "depth": 1} for one, on in self.workers.items()]
        switches = [{"name": name, "value": value} for name, value in self.settings.items()]
        tables = {
            "queues": pa.Table.from_pylist(queues, TABLES["queues"]),
            "switches": pa.Table.from_pylist(switches, TABLES["switches"]),
        }
        manifest = Manifest(cluster=self.name, taken_at=self.now(), tables={}, kind=NAME)
        return QueueSnapshot.build(manifest, tables)

    collect = snapshot

    def close(self) -> None:
        pass

    def action(self, step: Step) -> Action:
        return QueueAction(self, step)

    def dynamic_setting(self, key: str) -> str | None:
        return self.settings.get(key)

    def pending(self) -> frozenset[str]:
        return frozenset()

    def set_dynamic_setting(self, key: str, value: str | None) -> None:
        self.settings[key] = value or ""


class OpenQueues(LimitedCluster):
    """The cluster with the limits of its configuration."""

    def __init__(self, cluster: QueueCluster, config, limits) -> None:
        super().__init__(config, limits)
        self._cluster = cluster

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cluster, name)


@dataclass
class QueueAction:
    cluster: QueueCluster
    step: Step
    timeout_s: float = 0.0

    def look(self) -> Observation:
        if self.step.setting is not None:
            return Observation(exists=True, value=self.cluster.settings[self.step.subject])
        holder = self.cluster.workers.get(self.step.subject)
        return Observation(exists=holder is not None, holder=holder)

    def check_precondition(self, seen: Observation) -> Refusal | None:
        if self.step.setting is not None or seen.holder == self.step.owner:
            return None
        sentence = f"{self.step.subject} is on {seen.holder}."
        return Refusal(code="moved_meanwhile", sentence=sentence)

    def send(self) -> None:
        change = self.step.setting
        if change is not None:
            self.cluster.settings[self.step.subject] = change.value or ""
            return
        self.cluster.before_move()
        self.cluster.workers[self.step.subject] = self.step.destination or ""

    def result(self, before: Observation, now: Observation) -> StepResult | None:
        change = self.step.setting
        is_done = now.value == change.value if change else now.holder == self.step.destination
        if not is_done:
            return None
        return StepResult(state="DONE", code="done", sentence="It is as asked.", after=now)

    def on_timeout(self, before: Observation, now: Observation) -> StepResult:
        return StepResult(state="FAILED", code="not_done", sentence="It did not move.", after=now)


class QueueConnector:
    """Hands out the cluster in memory, which stands for all connections."""

    system: KnownSystem = QUEUES

    def __init__(self, cluster: QueueCluster) -> None:
        self.cluster = cluster

    def collector(self, cluster, latest=None, plans=None) -> QueueCluster:
        return self.cluster

    def open(self, cluster, limits=None, journal=None) -> OpenQueues:
        return OpenQueues(self.cluster, cluster, limits)

    def check(self, cluster) -> list[CheckResult]:
        return [CheckResult(what="Queues", ok=True, detail=f"{len(self.cluster.workers)} queues.")]

    def observer(self, config, cluster, on_change) -> None:
        return None

    def shadow(self, config, cluster) -> Shadow:
        return NoShadow()


@dataclass(frozen=True)
class QueueFacts:
    """The facts of a snapshot: the module ``core.queues.facts`` of a system in the tree."""

    snapshot: QueueSnapshot

    @staticmethod
    def load(directory: Path) -> QueueSnapshot:
        return QueueSnapshot.load(directory)

    @staticmethod
    def facts(
        snapshot: QueueSnapshot,
        assumed: Assumed = NOTHING_ASSUMED,
        earlier: Sequence[QueueSnapshot] = (),
    ) -> QueueFacts:
        return QueueFacts(snapshot)

    @staticmethod
    def assumed(settings: Iterable[str], release: str | None) -> Assumed:
        return NOTHING_ASSUMED


@dataclass(frozen=True, eq=False)
class QueueHealth(Answer):
    """The answer of the system to ``health``."""

    verdict: Verdict

    def body(self) -> Mapping[str, Any]:
        return verdict_json(self.verdict)


def queue_health(facts: QueueFacts, request: Any, progress: Any) -> QueueHealth:
    return QueueHealth(QUEUES.verdict(facts.snapshot))
