"""Stop and SIGTERM act within about a second, whatever a broker does to worker and collector."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from time import monotonic
from typing import Self

import psutil
import pytest
from apply_site import HASTE, ApplySite
from apply_under_faults import wait_until, write_config
from hostile_http import BEHAVIOURS
from small_broker import JSON, SmallBroker, report_of, said, serve_cluster

from connectors.config.model import ClusterConfig
from core.actions.model import ENDED_RUNS, RunId
from core.actions.runs import RunView

ROOT = "/admin/v2"
BOUNDS = ("0x00000000", "0x40000000", "0x80000000", "0xffffffff")
BUNDLES = [f"acme/orders/{low}_{high}" for low, high in pairwise(BOUNDS)]
WITHIN_S = 2.5
"""A second, and what a loaded machine needs."""
NAMES = ["silent", "header drips", "100 Continue, fast", "body drips", "status line drips"]
SLOW = {"connect_s": 2.0, "read_s": 30.0, "answer_s": 60.0, "capture_s": 300.0}
"""Nothing ends by a time-out while a test looks."""


class _Turning(dict[str, Callable[[socket.socket], None]]):
    """Answers of a broker that turns hostile, on every path at once."""

    behave: Callable[[socket.socket], None] | None = None

    def get(self, path: str, default: object = None) -> object:
        return self.behave


class Site:
    """A broker with three bundles that turns hostile, a run of their unloads, and a worker."""

    def __init__(self, folder: Path, broker: SmallBroker) -> None:
        serve_cluster(broker)
        owned = {"broker_assignment": "shared", "is_controlled": False, "is_active": True}
        broker.answers |= {
            f"{ROOT}/broker-stats/load-report": said(
                report_of(broker.name, dict.fromkeys(BUNDLES, 5.0))
            ),
            f"{ROOT}/brokers/test/{broker.name}/ownedNamespaces": said(
                dict.fromkeys(BUNDLES, owned)
            ),
            f"{ROOT}/namespaces/acme/orders/bundles": said(
                {"boundaries": list(BOUNDS), "numBundles": 3}
            ),
        }
        self.turning = broker.raw = _Turning()
        self.broker = broker
        for bundle in BUNDLES:
            path = f"{ROOT}/namespaces/{bundle}/unload"
            broker.answers[path] = self._unloaded
        cluster = ClusterConfig(name="c", admin_urls=[broker.url], pulsar_cluster="test")
        self.apply = ApplySite.of(folder, cluster, timeouts=cluster.timeouts.model_validate(SLOW))
        self.unloads = 0
        self.turns_at: str = ""
        self.name = ""

    def _unloaded(self) -> tuple[int, dict[str, str], bytes]:
        self.unloads += 1
        if self.turns_at == "unload":
            self.turn(self.name)
        return 204, JSON, b""

    def turn(self, name: str) -> None:
        self.turning.behave = BEHAVIOURS[name] if name else None

    def ask(self) -> RunId:
        plan = self.apply.plan(3, towards=False)
        return self.apply.ask(plan, HASTE)

    def view(self, run_id: RunId) -> RunView:
        return self.apply.view(run_id)


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with SmallBroker() as broker:
        yield Site(tmp_path, broker)


class Process:
    """A command of Trimtab in a process of its own."""

    def __init__(self, config: Path, *words: str) -> None:
        command = [sys.executable, "-m", "dashboard.cli", *words, "--config", str(config)]
        self.log = config.parent / f"{words[0]}.log"
        with self.log.open("ab") as sink:
            self.process = subprocess.Popen(command, stdout=sink, stderr=sink)

    def ends_within_s(self, number: int = signal.SIGTERM) -> float:
        began_s = monotonic()
        os.kill(self.process.pid, number)
        self.process.wait(60)
        return monotonic() - began_s

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        assert "Traceback" not in self.log.read_text()


def hangs(site: Site) -> bool:
    """Return whether a request is being answered in a hostile way, for a moment already."""
    if site.turning.behave is None:
        return False
    threading.Event().wait(0.7)
    return True


def is_under_way(site: Site, run_id: RunId) -> bool:
    return site.view(run_id).steps[0].state == "RUNNING" and hangs(site)


@pytest.mark.parametrize("name", NAMES)
def test_a_stop_ends_a_run_whose_step_is_under_way(site: Site, name: str) -> None:
    site.turns_at, site.name = "unload", name
    run_id = site.ask()
    with Process(write_config(site.apply), "worker"):
        wait_until(lambda: is_under_way(site, run_id), "a step")
        began_s = monotonic()
        site.apply.control(run_id, "stop")
        wait_until(lambda: site.view(run_id).state in ENDED_RUNS, "the end")
        assert monotonic() - began_s <= WITHIN_S
    view = site.view(run_id)
    assert view.state == "STOPPED"
    assert [step.state for step in view.steps] == ["UNKNOWN", "SKIPPED", "SKIPPED"]
    assert site.unloads == 1


@pytest.mark.parametrize("name", NAMES)
def test_a_stop_ends_a_run_that_waits_for_a_snapshot(site: Site, name: str) -> None:
    run_id = site.ask()
    site.turn(name)
    with Process(write_config(site.apply), "worker"):
        wait_until(lambda: site.view(run_id).worker and hangs(site), "a worker")
        began_s = monotonic()
        site.apply.control(run_id, "stop")
        wait_until(lambda: site.view(run_id).state in ENDED_RUNS, "the end")
        assert monotonic() - began_s <= WITHIN_S
    assert site.view(run_id).state == "STOPPED"
    assert site.unloads == 0


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_worker_ends_and_the_next_one_reconciles_the_step(
    site: Site, name: str, number: int
) -> None:
    site.turns_at, site.name = "unload", name
    run_id = site.ask()
    config = write_config(site.apply)
    with Process(config, "worker") as worker:
        wait_until(lambda: is_under_way(site, run_id), "a step")
        assert worker.ends_within_s(number) <= WITHIN_S
    assert site.view(run_id).state == "RUNNING"
    site.turn("")
    site.turns_at = ""
    with Process(config, "worker"):
        wait_until(lambda: site.view(run_id).steps[0].state != "RUNNING", "its result")
    assert site.unloads <= 3
    assert site.view(run_id).steps[0].is_reconciled


@pytest.mark.parametrize("name", NAMES)
def test_a_collector_ends_while_it_captures_and_keeps_nothing_of_it(site: Site, name: str) -> None:
    site.turn(name)
    with Process(write_config(site.apply), "collect") as collector:
        wait_until(lambda: site.broker.requests, "a request")
        assert hangs(site)
        assert collector.ends_within_s() <= WITHIN_S
    assert not list((site.apply.config.state_dir / "snapshots").glob("c/*"))


def test_a_collector_of_a_server_that_drips_stays_as_large_as_it_was(site: Site) -> None:
    quick = {"connect_s": 1.0, "read_s": 0.2, "answer_s": 0.2, "capture_s": 2.0}
    site.apply.cluster.timeouts.model_validate(quick)
    config = write_config(site.apply)
    config.write_text(
        config.read_text()
        .replace("read_s = 30.0", "read_s = 0.2")
        .replace("answer_s = 60.0", "answer_s = 0.2")
    )
    site.turn("header drips")

    def cycles() -> int:
        return len(site.broker.requests)

    with Process(config, "collect", "--every", "1") as collector:
        wait_until(lambda: cycles() >= 4, "four cycles")
        process = psutil.Process(collector.process.pid)
        before = process.num_threads(), process.num_fds()
        reached = cycles()
        wait_until(lambda: cycles() >= reached + 6, "six more")
        after = process.num_threads(), process.num_fds()
        assert collector.ends_within_s() <= WITHIN_S
    assert after[0] <= before[0] + 1
    assert after[1] <= before[1] + 2


@pytest.mark.parametrize("name", ["header drips", "100 Continue, fast"])
def test_a_command_ends_at_ctrl_c(site: Site, name: str) -> None:
    site.turn(name)
    with Process(write_config(site.apply), "capture") as command:
        wait_until(lambda: site.broker.requests, "a request")
        assert hangs(site)
        assert command.ends_within_s(signal.SIGINT) <= WITHIN_S
