"""The worker beside its runs: limits that change, runs that are broken, workers that meet."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from apply_site import ACTOR, HASTE, ApplySite
from apply_under_faults import ended, wait_until
from kazoo.client import KazooClient
from structlog.contextvars import get_contextvars

from connectors.config.model import TrimtabConfig
from connectors.sandbox.pulsar.fleet import Sandbox, SandboxOptions
from connectors.worker.worker import run_worker
from core.actions.events import RunClaimed, RunMeasured, SettingChanged, SettingSaved
from core.plan.model import sealed

pytestmark = pytest.mark.zookeeper

CONFIGURATION = "/admin/configuration"
UNKNOWN_KEY = "aSettingOfNoBroker"
FILE = """
state_dir = "{folder}"
[[clusters]]
name = "{name}"
zookeeper = "{zookeeper}"
read_only = {read_only}
[clusters.timeouts]
session_s = 3.0
"""


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    options = SandboxOptions(
        brokers=4, bundles=120, session_timeout_s=4.0, stats_every_s=1.0, is_steady=True
    )
    with Sandbox(options) as running:
        yield running


@pytest.fixture
def site(sandbox: Sandbox, tmp_path: Path) -> ApplySite:
    return ApplySite.of(tmp_path, sandbox.cluster_config())


class WorkerThreads:
    """Workers of this process, one a configuration."""

    def __init__(self, site: ApplySite, *configs: TrimtabConfig) -> None:
        self._stop = threading.Event()
        self._threads = [
            threading.Thread(
                target=run_worker,
                args=(config, [config.cluster(site.cluster.name)], self._stop, lambda _: None),
            )
            for config in configs
        ]

    def __enter__(self) -> None:
        for thread in self._threads:
            thread.start()

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()


def test_cluster_made_read_only_in_the_file_stops_the_run_that_is_under_way(
    site: ApplySite,
) -> None:
    path = site.config.state_dir / "trimtab.toml"

    def write(read_only: str, second: int) -> None:
        cluster = site.cluster
        text = FILE.format(
            folder=site.config.state_dir,
            name=cluster.name,
            zookeeper=cluster.zookeeper,
            read_only=read_only,
        )
        path.write_text(text, encoding="utf-8")
        os.utime(path, (second, second))

    write("false", 1)
    run_id = site.ask(site.plan(4), replace(HASTE, pace_per_min=30.0))
    with WorkerThreads(site, TrimtabConfig.load(path, ())):
        wait_until(lambda: site.view(run_id).counts["DONE"], "a step")
        write("true", 2)
        view = ended(site, run_id)
    codes = {step.result.code for step in view.steps if step.result}
    assert view.state == "FAILED"
    assert "read_only" in codes
    assert view.counts["SKIPPED"] >= 1


@pytest.mark.slow
def test_broken_run_is_mended_later_and_does_not_block_the_next(
    sandbox: Sandbox, site: ApplySite, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("core.actions.balancer.RESTORE_WITHIN_S", 0.5)
    plan = site.plan(2)
    broken, sound = (sealed(replace(plan, steps=(step,))) for step in plan.steps)
    set_dynamic(sandbox, b'{"aSettingOfNoBroker":"2"}')  # which no broker lets anybody put back
    first = site.ask(broken, replace(HASTE, pace_per_min=0.0))  # never asked for so by Trimtab
    site.append(first, RunClaimed(worker=ACTOR, lease="nowhere"))
    site.append(first, SettingSaved(key=UNKNOWN_KEY, before="1", during="2"))
    site.append(first, SettingChanged(key=UNKNOWN_KEY))
    second = site.ask(sound)
    with WorkerThreads(site, site.config):
        assert ended(site, second).state == "DONE"
        view = site.view(first)
        assert not view.is_ended
        assert [setting.result for setting in view.outstanding_settings] == ["failed"]
        set_dynamic(sandbox, b"{}")
        view = ended(site, first)
    assert view.state == "FAILED"
    assert "not be executed" in view.sentence
    assert not view.outstanding_settings


def test_the_log_of_a_run_that_fails_by_a_bug_names_it(
    site: ApplySite, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr("connectors.worker.worker.execute_run", fail)
    about: dict[str, object] = {}

    def note(record: logging.LogRecord) -> bool:  # in the thread that logs
        about[record.msg] = get_contextvars()
        return True

    caplog.handler.addFilter(note)
    run_id = site.ask(site.plan(1))
    with WorkerThreads(site, site.config):
        wait_until(lambda: "a run failed with an internal error" in about, "the line of the bug")
    named = {"cluster": site.cluster.name, "run": run_id}
    assert about["a run failed with an internal error"] == named


def set_dynamic(sandbox: Sandbox, value: bytes) -> None:
    client = KazooClient(sandbox.zookeeper)
    client.start(timeout=15)
    try:
        client.ensure_path(CONFIGURATION)
        client.set(CONFIGURATION, value)
    finally:
        client.stop()
        client.close()


@pytest.mark.slow
def test_two_workers_measure_a_run_once(site: ApplySite, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("connectors.worker.worker.MEASURE_AFTER_S", 1.0)
    run_id = site.ask(site.plan(1))
    with WorkerThreads(site, site.config, site.config):
        wait_until(lambda: site.view(run_id).measured, "a measurement")
        threading.Event().wait(4.0)
    with closing(site.journal()) as journal:
        events = [entry.record.event for entry in journal.entries(run_id=run_id)]
    assert sum(isinstance(event, RunMeasured) for event in events) == 1
