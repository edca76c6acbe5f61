"""Stop and SIGTERM act within about a second, whatever a broker does to worker and collector."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from time import monotonic
from typing import Self

import psutil
import pytest
from apply_site import HASTE, ApplySite
from apply_under_faults import WorkerThread, wait_until, write_config
from hostile_http import BEHAVIOURS
from small_broker import JSON, SmallBroker, report_of, said, serve_cluster

from connectors.config.model import ClusterConfig
from connectors.recording.collector import CollectorEvent, run_collector
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
        self.sent: list[str] = []
        for bundle in BUNDLES:
            path = f"{ROOT}/namespaces/{bundle}/unload"
            broker.answers[path] = partial(self._unloaded, bundle)
        cluster = ClusterConfig(name="c", admin_urls=[broker.url], pulsar_cluster="test")
        self.apply = ApplySite.of(folder, cluster, timeouts=cluster.timeouts.model_validate(SLOW))
        self.turns_at: str = ""
        self.name = ""
        self.planned = 0

    @property
    def unloads(self) -> int:
        return len(self.sent)

    def _unloaded(self, bundle: str) -> tuple[int, dict[str, str], bytes]:
        self.sent.append(bundle)
        if self.turns_at == "unload":
            self.turn(self.name)
        return 204, JSON, b""

    def turn(self, name: str) -> None:
        self.turning.behave = BEHAVIOURS[name] if name else None

    def ask(self) -> RunId:
        plan = self.apply.plan(3, towards=False)
        self.planned = len(self.broker.requests)
        return self.apply.ask(plan, replace(HASTE, verify_within_s=3.0))

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
    with WorkerThread(site.apply):
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
    with WorkerThread(site.apply):
        wait_until(lambda: site.view(run_id).worker and hangs(site), "a worker")
        began_s = monotonic()
        site.apply.control(run_id, "stop")
        wait_until(lambda: site.view(run_id).state in ENDED_RUNS, "the end")
        assert monotonic() - began_s <= WITHIN_S
    assert site.view(run_id).state == "STOPPED"
    assert site.unloads == 0


@pytest.mark.parametrize("name", NAMES)
def test_a_worker_ends_and_the_next_one_reconciles_the_step(site: Site, name: str) -> None:
    site.turns_at, site.name = "unload", name
    run_id = site.ask()
    with WorkerThread(site.apply):
        wait_until(lambda: is_under_way(site, run_id), "a step")
        began_s = monotonic()
    assert monotonic() - began_s <= WITHIN_S
    assert site.view(run_id).state == "RUNNING"
    assert site.unloads == 1
    site.turn("")
    site.turns_at = ""
    with WorkerThread(site.apply):
        wait_until(lambda: site.view(run_id).steps[0].state != "RUNNING", "its result")
    assert site.view(run_id).steps[0].is_reconciled
    assert site.sent.count(BUNDLES[0]) == 1


@pytest.mark.parametrize("name", NAMES)
def test_a_collector_ends_while_it_captures_and_keeps_nothing_of_it(site: Site, name: str) -> None:
    site.turn(name)
    config, stop = site.apply.config, threading.Event()
    said: list[CollectorEvent] = []
    arguments = (config, config.clusters, 60.0, stop, said.append)
    thread = threading.Thread(target=run_collector, args=arguments)
    thread.start()
    wait_until(lambda: site.broker.requests[site.planned :], "a request")
    assert hangs(site)
    began_s = monotonic()
    stop.set()
    thread.join(60)
    assert monotonic() - began_s <= WITHIN_S
    assert "collected" not in {one.kind for one in said}
    assert not list((config.state_dir / "snapshots").glob("c/*"))


# -- processes ------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("words", [("worker",), ("collect",), ("capture", "c", "--out", "{out}")])
def test_a_process_ends_at_a_signal(site: Site, words: tuple[str, ...], number: int) -> None:
    site.ask()
    seen = len(site.broker.requests)
    site.turn("header drips")
    out = site.apply.config.state_dir / "out"
    with Process(write_config(site.apply), *(word.format(out=out) for word in words)) as process:
        wait_until(lambda: len(site.broker.requests) > seen, "a request", 300.0)
        assert hangs(site)
        assert process.ends_within_s(number) <= WITHIN_S


@pytest.mark.slow
def test_a_collector_of_a_server_that_drips_stays_as_large_as_it_was(site: Site) -> None:
    config = write_config(site.apply)
    text = config.read_text().replace("read_s = 30.0", "read_s = 0.2")
    config.write_text(text.replace("answer_s = 60.0", "answer_s = 0.2"))
    site.turn("header drips")
    with Process(config, "collect", "--every", "1s") as collector:
        process = psutil.Process(collector.process.pid)
        sizes = []
        for more in (4, 50):
            reached = len(site.broker.requests)
            wait_until(lambda: len(site.broker.requests) >= reached + more, "cycles", 300.0)  # noqa: B023  # it is called in this turn of the loop
            sizes.append((process.num_threads(), process.num_fds()))
        assert collector.ends_within_s() <= WITHIN_S
    assert sizes[1][0] <= sizes[0][0] + 1
    assert sizes[1][1] <= sizes[0][1] + 2
