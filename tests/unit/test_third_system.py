"""A system that no product file knows goes through the whole of Trimtab.

Capture, findings, plan file, preview, dry run, run, journal, undo, history, and the command line.
"""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from connectors.config.model import TrimtabConfig
from connectors.journal.journal import SqlJournal
from connectors.recording.collector import CollectorEvent, run_collector
from connectors.recording.loop import open_history, record_once
from connectors.systems import CONNECTORS
from core.actions.apply import execute_run
from core.actions.dry_run import rehearse
from core.actions.events import Record, RunRequested
from core.actions.model import RunId, RunOptions
from core.actions.ports import Ports
from core.actions.runs import fold
from core.actions.views import RunView
from core.errors import ConfigError
from core.operations import health
from core.plan.codec import dump_plan, load_plan
from core.plan.describe import tally, things_done
from core.plan.model import Plan
from core.plan.registry import StepRegistry
from core.systems import SYSTEMS
from dashboard.cli.main import run
from dashboard.services import access
from tests.support.queue_system import (
    AUTO,
    QUEUES,
    MoveQueue,
    QueueCluster,
    QueueConnector,
    QueueFacts,
    QueueSnapshot,
    QueueStep,
    SetAuto,
    plan_of,
    queue_health,
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
    lasts_s = 5.0

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
        execute_run(run_id, ports)
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


# -- the command line ------------------------------------------------------------------------------


class Console:
    """A configuration with one cluster of queues, and the command line on it."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        now = partial(datetime.now, UTC)
        self.cluster = QueueCluster(now, workers={"orders": "w1", "mails": "w1", "bills": "w2"})
        self.config = folder / "trimtab.toml"
        self.config.write_text(
            f'state_dir = "{folder / "state"}"\n'
            '[[clusters]]\nname = "queues-1"\nkind = "queues"\nread_only = false\n'
            'environment = "demo"\n[clusters.apply]\nverify_within_s = 2\npace_per_min = 600\n'
        )
        self._capsys = capsys

    def __call__(self, *words: object, is_configured: bool = True, code: int = 0) -> Any:
        more = ["--config", str(self.config)] if is_configured else []
        arguments = [*map(str, words), *more, "--json"]
        found = run(arguments, [*CONNECTORS, QueueConnector(self.cluster)])
        out, err = self._capsys.readouterr()
        assert found == code, (out, err)
        return json.loads(out)


@pytest.fixture
def console(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Console:
    monkeypatch.setitem(sys.modules, "core.queues.facts", QueueFacts)
    monkeypatch.setitem(health.OPERATION.answers, "queues", queue_health)
    return Console(tmp_path, capsys)


def test_the_command_line_captures_judges_previews_applies_and_undoes(
    console: Console, tmp_path: Path
) -> None:
    folder, plan_file = tmp_path / "snapshot", tmp_path / "plan.json"
    assert [one["ok"] for one in console("check")["clusters"]["queues-1"]] == [True]
    captured = console("capture", "queues-1", "--out", folder)
    assert captured["tables"]["queues"]["rows"] == 3
    found = console("health", folder, is_configured=False)
    assert [(one["code"], one["subject"]) for one in found["findings"]] == [("crowded", "w1")]

    assert console("health", "queues-1")["findings"] == found["findings"]

    snapshot = QueueSnapshot.load(folder)
    plan = plan_of(snapshot, [MOVE], datetime.now(UTC), reason="less on w1")
    plan_file.write_bytes(access.plan_file(TrimtabConfig(), plan))
    previewed = console("preview", plan_file, "--snapshot", folder, is_configured=False)
    assert previewed["answer"] == "Queues after: w1 1, w2 2."
    tried = console("apply", plan_file, "--cluster", "queues-1", "--dry-run")
    assert [step["code"] for step in tried["dry_run"]["steps"]] == ["would_send"]
    assert console.cluster.workers["orders"] == "w1"

    done = console("apply", plan_file, "--cluster", "queues-1", "--reason", "less on w1", "--yes")
    assert (done["run"]["state"], console.cluster.workers["orders"]) == ("DONE", "w2")
    (row,) = console("runs")["runs"]
    assert row["run_id"] == done["run"]["run_id"]
    back = console("undo", row["run_id"], "--yes", "--reason", "as before")
    assert (back["run"]["undoes"], console.cluster.workers["orders"]) == (row["run_id"], "w1")


def test_a_cluster_made_read_only_during_a_run_is_left_alone(
    console: Console, tmp_path: Path
) -> None:
    plan_file = tmp_path / "plan.json"
    moves = [MoveQueue(queue=one, owner="w1", destination="w2") for one in ("orders", "mails")]
    plan_file.write_bytes(
        access.plan_file(
            TrimtabConfig(),
            plan_of(console.cluster.snapshot(), moves, datetime.now(UTC), reason="less"),
        )
    )
    text = console.config.read_text()

    def forbid() -> None:
        console.config.write_text(text.replace("read_only = false", "read_only = true"))

    console.cluster.before_move = forbid
    words = ("apply", plan_file, "--cluster", "queues-1", "--reason", "less", "--yes")
    run_ = console(*words, code=1)["run"]
    assert [step["code"] for step in run_["steps"]] == ["done", "read_only"]
    assert (console.cluster.workers["orders"], console.cluster.workers["mails"]) == ("w2", "w1")


def test_its_snapshots_are_recorded_exported_and_read_again(
    console: Console, tmp_path: Path
) -> None:
    config = TrimtabConfig.load(console.config, [*CONNECTORS, QueueConnector(console.cluster)])
    first = console.cluster.snapshot()
    cluster = config.cluster("queues-1")
    assert record_once(config, cluster, first)
    console.cluster.workers["orders"] = "w3"
    second = console.cluster.snapshot()
    assert record_once(config, cluster, second)

    store = open_history(config)
    again = store.snapshot_at("queues-1", second.manifest.taken_at)
    assert again.workers == second.workers
    events = console("history", "events", "queues-1")["events"]
    assert [(one["kind"], one["subject"], one["after"]) for one in events] == [
        ("move", "orders", "w3")
    ]
    file = tmp_path / "minutes.zip"
    assert console("history", "flaps", "queues-1")["answer"].startswith("1 move")
    refused = console("history", "trends", "queues-1", code=1)["error"]
    assert refused["message"] == "Trends are not available for queues clusters."
    assert console("history", "export", "queues-1", "--out", file)["minutes"] == 2
    assert console("history", "import", file, "--as", "case-7")["minutes"] == 2


def test_a_collector_keeps_and_records_it(console: Console) -> None:
    config = TrimtabConfig.load(console.config, [*CONNECTORS, QueueConnector(console.cluster)])
    stop, said = threading.Event(), []

    def hear(event: CollectorEvent) -> None:
        said.append(event)
        if event.kind == "collected":
            stop.set()

    run_collector(config, config.clusters, 1.0, stop, hear)
    assert [event.sentence.partition(",")[0] for event in said] == ["3 queues"]
    assert open_history(config).clusters() == ["queues-1"]


def test_a_kind_that_no_system_has_is_refused(console: Console) -> None:
    with pytest.raises(ConfigError, match="kind 'queues'"):
        TrimtabConfig.load(console.config, ())
