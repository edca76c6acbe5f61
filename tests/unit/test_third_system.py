"""A system that no product file knows goes through plan file, journal, dry run, run and undo."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path

from connectors.journal.journal import SqlJournal
from core.actions.apply import carry_out
from core.actions.dry_run import rehearse
from core.actions.events import Record, RunRequested
from core.actions.model import RunId, RunOptions
from core.actions.ports import Ports
from core.actions.runs import fold
from core.actions.views import RunView
from core.plan.codec import dump_plan, load_plan
from core.plan.describe import tally, things_done
from core.plan.model import Plan
from core.plan.registry import StepRegistry
from core.systems import SYSTEMS
from tests.support.queue_system import (
    AUTO,
    QUEUES,
    MoveQueue,
    QueueCluster,
    QueueStep,
    SetAuto,
    plan_of,
)

STEPS = StepRegistry(kind for system in (*SYSTEMS, QUEUES) for kind in system.steps)
MOVE = MoveQueue(queue="orders", owner="w1", destination="w2")
PAUSE = SetAuto(before="on", value="off", is_temporary=True)


class Clock:
    """Waits cost no time."""

    def __init__(self) -> None:
        self._now = datetime(2026, 1, 5, 12, tzinfo=UTC)
        self._began = self._now

    def now(self) -> datetime:
        return self._now

    def monotonic(self) -> float:
        return (self._now - self._began).total_seconds()

    def wait(self, seconds: float) -> bool:
        self.hold(seconds)
        return False

    def hold(self, seconds: float) -> None:
        self._now += timedelta(seconds=max(seconds, 0.001))


class Lease:
    place = "memory"

    def acquire(self) -> bool:
        return True

    def is_held(self) -> bool:
        return True

    def holder(self) -> str | None:
        return "worker"

    def release(self) -> None:
        pass


class Site:
    """A cluster with queues and a journal in a file."""

    def __init__(self, folder: Path) -> None:
        self.clock = Clock()
        self.cluster = QueueCluster(self.clock.now, workers={"orders": "w1", "mails": "w1"})
        self.journal = SqlJournal(f"sqlite:///{folder / 'journal.db'}", STEPS)

    def plan(self, steps: Iterable[QueueStep]) -> Plan:
        return plan_of(self.cluster.snapshot(), steps, self.clock.now(), reason="less on w1")

    def run(self, plan: Plan, name: str, *, pause_balancer: bool = False) -> RunView:
        run_id = RunId(name)
        event = RunRequested(
            plan=plan,
            options=RunOptions(pause_balancer=pause_balancer),
            reason=plan.reason,
            undoes=None if plan.undoes is None else RunId(plan.undoes),
        )
        self.journal.append(
            Record(
                run_id=run_id,
                cluster=self.cluster.name,
                at=self.clock.now(),
                actor="ann",
                event=event,
            )
        )
        ports = Ports(
            journal=self.journal,
            cluster=self.cluster,
            lease=Lease(),
            clock=self.clock,
            worker="worker",
        )
        carry_out(run_id, ports)
        return fold(self.journal.entries(run_id=run_id))


def test_a_plan_file_comes_back_with_its_steps(tmp_path: Path) -> None:
    plan = Site(tmp_path).plan([PAUSE, MOVE])
    again = load_plan(dump_plan(plan), STEPS)
    assert again == plan
    assert tally(again.steps) == "move 1 queue, change 1 setting"
    assert things_done([MOVE]) == "1 queue moved"


def test_a_dry_run_changes_nothing(tmp_path: Path) -> None:
    site = Site(tmp_path)
    found = rehearse(site.plan([MOVE]), RunOptions(), cluster=site.cluster, clock=site.clock)
    assert [step.code for step in found.steps] == ["would_send"]
    assert site.cluster.workers["orders"] == "w1"


def test_a_run_is_executed_journaled_measured_and_undone(tmp_path: Path) -> None:
    site = Site(tmp_path)
    view = site.run(site.plan([PAUSE, MOVE]), "run-1")
    assert view.state == "DONE"
    assert site.cluster.workers["orders"] == "w2"
    assert site.cluster.settings[AUTO] == "on"  # restored when the run ended
    assert [setting.result for setting in view.settings] == ["restored"]
    snapshot = site.cluster.snapshot()
    assert QUEUES.measure(view, snapshot, None).snapshot_id == snapshot.snapshot_id

    back = QUEUES.undo(view, snapshot, now=site.clock.now())
    assert back.undoes == "run-1"
    assert site.run(back, "run-2").state == "DONE"
    assert site.cluster.workers["orders"] == "w1"


def test_its_balancer_is_paused_and_what_others_move_is_recorded(tmp_path: Path) -> None:
    site = Site(tmp_path)
    seen: list[str] = []

    def meanwhile() -> None:
        seen.append(site.cluster.settings[AUTO])
        site.cluster.workers["mails"] = "w3"

    site.cluster.before_move = meanwhile
    view = site.run(site.plan([MOVE]), "run-1", pause_balancer=True)
    assert (seen, site.cluster.settings[AUTO]) == (["off"], "on")
    assert [(one.subject, one.destination) for one in view.external_changes] == [("mails", "w3")]


def test_what_was_moved_meanwhile_is_left_alone(tmp_path: Path) -> None:
    site = Site(tmp_path)
    plan = site.plan([MOVE])
    site.cluster.workers["orders"] = "w9"
    view = site.run(plan, "run-1")
    assert (view.state, site.cluster.workers["orders"]) == ("FAILED", "w9")
    (step,) = view.steps
    assert step.result is not None
    assert step.result.code == "moved_meanwhile"
