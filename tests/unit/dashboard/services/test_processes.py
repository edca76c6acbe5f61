"""Which of Trimtab's processes are down: by their supervisor, and by what they report."""

from __future__ import annotations

import json
import threading
from datetime import datetime, timedelta
from pathlib import Path

import msgspec
import pytest
from prometheus_client.parser import text_string_to_metric_families

from connectors import logs
from connectors.config.model import TrimtabConfig
from connectors.recording import collector
from connectors.worker import worker as worker_module
from dashboard import services
from dashboard.queries import runs
from dashboard.services import metrics, processes
from dashboard.services.processes import ProcessState, Supervision

SECRET = "prod-secret"


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TrimtabConfig:
    monkeypatch.delenv(processes.SUPERVISOR_ENV, raising=False)
    clusters = [{"name": SECRET, "zookeeper": "z:1"}, {"name": "other", "zookeeper": "z:2"}]
    return TrimtabConfig.model_validate({"clusters": clusters, "state_dir": tmp_path})


def ago(seconds: float) -> datetime:
    return services.now() - timedelta(seconds=seconds)


def reports(config: TrimtabConfig, place: str, **fields: object) -> None:
    path = config.state_dir / f"{place}.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(fields, default=lambda one: one.isoformat()))


def worker(
    config: TrimtabConfig, cluster: str = SECRET, *, silent_s: float, **more: object
) -> None:
    seen = ago(silent_s)
    reports(config, f"workers/{cluster}", cluster=cluster, worker="w", last_seen_at=seen, **more)


def supervise(
    monkeypatch: pytest.MonkeyPatch, folder: Path, *states: ProcessState, silent_s: float = 0.0
) -> Path:
    file = folder / "supervisor.json"
    seen = Supervision(pid=1, last_seen_at=ago(silent_s), processes=list(states))
    file.write_bytes(msgspec.json.encode(seen))
    monkeypatch.setenv(processes.SUPERVISOR_ENV, str(file))
    return file


def state(name: str, *, is_up: bool = True, **more: object) -> ProcessState:
    return ProcessState(name=name, is_up=is_up, since=ago(5), restarts=0, **more)  # type: ignore[arg-type]


def down(config: TrimtabConfig) -> list[tuple[str, str, str]]:
    return [(one.name, one.cluster, one.last_end) for one in processes.down(config)]


def test_nothing_is_missed_where_nothing_ever_ran(config) -> None:
    assert down(config) == []
    assert metrics.readiness(lambda: config) == []


@pytest.mark.parametrize(
    ("silent_s", "more", "is_missed"),
    [
        (1, {}, False),
        (30, {}, True),
        (-300, {}, True),  # a clock that is ahead
        (30, {"stopped_at": "2026-01-01T00:00:00+00:00"}, False),
        (90_000, {}, False),  # of a day before
    ],
)
def test_a_worker_of_its_own_is_missed_when_it_went_silent(
    config, silent_s, more, is_missed
) -> None:
    worker(config, silent_s=silent_s, **more)
    assert down(config) == ([("worker", SECRET, "no report")] if is_missed else [])


@pytest.mark.parametrize(
    ("late_s", "more", "end"),
    [
        (30, {}, ""),
        (100, {}, "no report"),
        (100, {"last_duration_s": 50.0}, ""),
        (100, {"stopped_at": "2026-01-01T00:00:00+00:00"}, ""),
        (100, {"every_s": "x"}, "no report"),
    ],
)
def test_a_collector_of_its_own_is_missed_when_it_is_cycles_late(config, late_s, more, end) -> None:
    fields = {"every_s": 10.0, **more}
    reports(config, f"collectors/{SECRET}", next_due_at=ago(late_s), **fields)
    assert down(config) == ([("collector", SECRET, end)] if end else [])


@pytest.mark.parametrize("text", [b"", b"{", b"[]", b'{"next_due_at": 7}', b'{"next_due_at": "x"}'])
def test_a_report_that_cannot_be_read_is_none(config, text) -> None:
    for place in (f"workers/{SECRET}", f"collectors/{SECRET}", "jobs/server"):
        reports(config, place)
        (config.state_dir / f"{place}.json").write_bytes(text)
    assert down(config) == []


def test_a_supervised_process_that_is_down_is_named_once(config, monkeypatch, tmp_path) -> None:
    start = services.now() + timedelta(seconds=4)
    ended = state("worker", is_up=False, last_end="SIGKILL", next_start_at=start)
    supervise(monkeypatch, tmp_path, state("pages"), ended)
    worker(config, silent_s=30)
    assert down(config) == [("worker", "", "SIGKILL")]
    (sentence,) = metrics.readiness(lambda: config)
    assert sentence.startswith("The worker is down since 20")
    assert sentence.endswith(f"UTC (SIGKILL). Next start at {start:%H:%M:%S}. Restarts: 0.")


def test_of_a_supervised_process_that_runs_every_report_counts(
    config, monkeypatch, tmp_path
) -> None:
    supervise(monkeypatch, tmp_path, state("worker", log="logs/worker.log"), state("collector"))
    worker(config, silent_s=1)
    worker(config, "other", silent_s=90_000, stopped_at="2026-01-01T00:00:00+00:00")
    reports(config, "collectors/other", every_s=10, next_due_at=ago(1), stopped_at=services.now())
    assert down(config) == [("worker", "other", "ended"), ("collector", "other", "ended")]
    assert processes.down(config)[0].log == "logs/worker.log"


def test_readiness_names_a_process_once_and_no_cluster_or_path(
    config, monkeypatch, tmp_path
) -> None:
    supervise(monkeypatch, tmp_path, state("worker", log="logs/worker.log"))
    worker(config, silent_s=30)
    worker(config, "other", silent_s=40)
    (sentence,) = metrics.readiness(lambda: config)
    assert f"down since {ago(40):%Y-%m-%d %H:%M}" in sentence
    assert SECRET not in sentence
    assert "/" not in sentence


@pytest.mark.parametrize("content", [None, b"", b"{}", b"\xff"])
def test_a_supervisor_that_cannot_be_read_is_down(config, monkeypatch, tmp_path, content) -> None:
    file = supervise(monkeypatch, tmp_path, state("pages"))
    file.unlink() if content is None else file.write_bytes(content)
    assert down(config) == [("supervisor", "", "")]


def test_a_supervisor_that_is_silent_is_down(config, monkeypatch, tmp_path) -> None:
    supervise(monkeypatch, tmp_path, state("pages"), silent_s=60)
    assert down(config) == [("supervisor", "", "")]
    assert metrics.readiness(lambda: config)[0].startswith("The supervisor is down since")


def test_a_worker_that_is_started_again_is_not_to_be_started_by_hand(
    config, monkeypatch, tmp_path
) -> None:
    worker(config, silent_s=30)
    assert runs.worker(config, SECRET).remedy.startswith("Start a worker")
    supervise(monkeypatch, tmp_path, state("worker"))
    assert "restarts automatically" in runs.worker(config, SECRET).remedy


@pytest.mark.parametrize("start", [services.run_collector, services.run_worker])
def test_a_thread_that_is_lost_ends_its_process(config, monkeypatch, capsys, start) -> None:
    def run(loop: object) -> None:
        if (vars(loop).get("cluster") or vars(loop)["_cluster"]).name == "other":
            raise RuntimeError("lost")
        stop.wait(20)

    stop = threading.Event()
    monkeypatch.setattr(threading, "excepthook", threading.excepthook)
    monkeypatch.setattr(logs, "set_up_logging", lambda _: None)
    monkeypatch.setattr(collector._Loop, "run", run)
    monkeypatch.setattr(worker_module._WorkerLoop, "run", run)
    more = [60.0] if start is services.run_collector else []
    start(config, config.clusters, *more, stop, print)
    assert stop.is_set()
    assert "RuntimeError: lost" in capsys.readouterr().err


def test_supervised_processes_are_in_figures(config, monkeypatch, tmp_path) -> None:
    again = ProcessState(name="worker", is_up=False, since=ago(1), restarts=3)
    supervise(monkeypatch, tmp_path, state("pages"), again)
    metrics._text.clear()
    text = metrics.metrics_text(config).decode()
    found = {
        (sample.name, sample.labels["process"]): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if "process" in sample.labels
    }
    assert found == {
        ("trimtab_process_up", "pages"): 1,
        ("trimtab_process_up", "worker"): 0,
        ("trimtab_process_restarts", "pages"): 0,
        ("trimtab_process_restarts", "worker"): 3,
    }
