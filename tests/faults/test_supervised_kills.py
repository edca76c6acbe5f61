"""`trimtab dashboard` and `demo` whose processes are killed with SIGKILL while plans are executed.

``KILLS=100 pytest tests/faults/test_supervised_kills.py -k random`` is the campaign; what was done
is counted by the brokers' own list of requests.
"""

from __future__ import annotations

import json
import os
import random
import signal
import socket
import statistics
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import monotonic
from typing import Any, Self

import msgspec
import psutil
import pytest
from apply_site import HASTE, ApplySite
from apply_under_faults import Tally, steady_sandbox, wait_until, write_config
from pages_server import ask, free_port

from connectors.sandbox.pulsar.fleet import Sandbox
from core.actions.model import ENDED_RUNS
from dashboard.services.processes import ProcessState, Supervision, title_of

pytestmark = [pytest.mark.zookeeper, pytest.mark.slow, pytest.mark.timeout(7_200)]

PARTS = ("collector", "worker", "jobs", "pages")
KILLS = int(os.environ.get("KILLS", "100"))
STEPS = 4
SLOWLY = replace(HASTE, pace_per_min=60.0)
WELL_S = 61.0
"""A process that ran so long is started again after a second."""
READY_S = 240.0
END_S = 40.0
"""Children have 8 s, twice, before they are killed; the rest is for a busy machine."""


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    with steady_sandbox(brokers=4, bundles=160) as running:
        yield running


@pytest.fixture
def site(sandbox: Sandbox, tmp_path: Path) -> ApplySite:
    return ApplySite.of(tmp_path, sandbox.cluster_config())


class Command:
    """A command that starts processes again, as a person runs it.

    Args:
        state_dir: Its state directory.
        words: The command line after ``trimtab``; the port is added.
    """

    def __init__(self, state_dir: Path, *words: str) -> None:
        self.state_dir = state_dir
        self.port = free_port()
        environment = {name: text for name, text in os.environ.items() if "TRIMTAB" not in name}
        command = [sys.executable, "-m", "dashboard.cli", *words, "--port", str(self.port)]
        self.output = state_dir / "output"
        with self.output.open("wb") as sink:
            self.process = subprocess.Popen(
                command, env=environment, stdin=subprocess.DEVNULL, stdout=sink, stderr=sink
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.terminate()
            self.process.wait(60)

    def wait_until(self, is_true: Callable[[], object], what: str) -> None:
        def so() -> bool:
            assert self.process.poll() is None, self.output.read_text()
            return bool(is_true())

        wait_until(so, what, READY_S)

    def states(self) -> dict[str, ProcessState]:
        try:
            content = (self.state_dir / "logs" / "supervisor.json").read_bytes()
        except OSError:
            return {}
        found = msgspec.json.decode(content, type=Supervision)
        return {one.name: one for one in found.processes}

    def readiness(self) -> tuple[int, str]:
        """Status and text of `/readyz`; 0 where the pages are down."""
        try:
            answer: Any = ask(self.port, "/readyz", host=f"127.0.0.1:{self.port}")
        except OSError:
            return 0, ""
        return answer.status, answer.body.decode()

    def is_ready(self) -> bool:
        return self.readiness()[0] == 200 and set(self.states()) == set(PARTS)

    def reporter(self, part: str) -> int | None:
        """The process that wrote the newest report of a part; the pages answer instead."""
        folders = {"collector": "collectors", "worker": "workers"}
        if part == "pages":
            return self.states()["pages"].pid
        folder = self.state_dir / folders.get(part, "jobs")
        file = folder / "server.json" if part == "jobs" else next(folder.glob("*.json"))
        try:
            return json.loads(file.read_bytes())["pid"]
        except (OSError, ValueError):
            return None

    def kill(self, part: str) -> Kill:
        """Kill a process, and wait until the next one reports."""
        before = self.states()[part]
        os.kill(before.pid, signal.SIGKILL)
        began, named = monotonic(), []

        def is_back() -> bool:
            status, text = self.readiness()
            if status == 503 and f"{title_of(part)} is down" in text:
                named.append(text)
            after = self.states()[part]
            return after.is_up and after.pid != before.pid and self.reporter(part) == after.pid

        self.wait_until(is_back, f"{part} is back")
        assert self.states()[part].restarts == before.restarts + 1
        return Kill(part, monotonic() - began, is_named=bool(named))


@dataclass(frozen=True)
class Kill:
    """What came of one kill.

    Attributes:
        back_s: Seconds until the next process reported.
        is_named: `/readyz` was not ready and named the process meanwhile.
    """

    part: str
    back_s: float
    is_named: bool


@dataclass
class Runs:
    """Plans that are requested one after the other, in the background, and counted as they end."""

    sandbox: Sandbox
    site: ApplySite
    tally: Tally = field(default_factory=Tally)
    states: Counter[str] = field(default_factory=Counter)
    takeovers: int = 0

    def __enter__(self) -> Self:
        self._before = len(self.sandbox.unload_requests())
        self._stop = threading.Event()
        self._error: list[BaseException] = []
        self._thread = threading.Thread(target=self._request)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        if self._error:
            raise self._error[0]

    @property
    def acted(self) -> int:
        """How often brokers gave a bundle up since the first plan, for whichever run."""
        requests = self.sandbox.unload_requests()[self._before :]
        return sum(one.outcome == "acted" for one in requests)

    def _request(self) -> None:
        try:
            while not self._stop.is_set():
                self._one()
        except BaseException as exc:  # noqa: BLE001  # raised where it is waited for
            self._error.append(exc)

    def _one(self) -> None:
        run_id = self.site.ask(self.site.plan(STEPS), SLOWLY)
        wait_until(lambda: self.site.view(run_id).state in ENDED_RUNS, run_id, READY_S)
        view = self.site.view(run_id)
        self.tally.add(self.sandbox, self.site, view, [])
        for step in view.steps:
            code = step.result.code if step.result and step.state != "DONE" else ""
            self.states[f"{step.state} {code}".rstrip()] += 1
        self.takeovers += view.takeovers


def kill_at_random(command: Command, kills: int, well_s: float) -> list[Kill]:
    """Kill processes at random moments, each at a time when it has run for a while."""
    choice, found, pause = random.Random(36), [], threading.Event()
    turns = list(PARTS)
    choice.shuffle(turns)
    started = dict.fromkeys(PARTS, monotonic() - well_s)
    for number in range(kills):
        part = turns[number] if number < len(turns) else choice.choice(PARTS)
        if number >= len(turns):
            part = min(
                PARTS,
                key=lambda one: max(started[one] + well_s - monotonic(), 0.0) + choice.random(),
            )
            pause.wait(max(started[part] + well_s - monotonic(), 0.0))
        pause.wait(choice.uniform(0.0, 4.0))
        found.append(command.kill(part))
        started[part] = monotonic()
    return found


@pytest.mark.parametrize(
    ("kills", "well_s"),
    [
        pytest.param(len(PARTS), 0.0, id="each once"),
        pytest.param(KILLS, WELL_S, id="at random"),
    ],
)
def test_processes_that_are_killed_come_back_and_no_step_is_lost_or_done_twice(
    sandbox: Sandbox,
    site: ApplySite,
    kills: int,
    well_s: float,
    record_property: Callable[[str, object], None],
) -> None:
    words = ("dashboard", "--no-browser", "--config", str(write_config(site)))
    with Command(site.config.state_dir, *words) as command:
        command.wait_until(command.is_ready, "all processes")
        with Runs(sandbox, site) as runs:
            found = kill_at_random(command, kills, well_s)
        command.wait_until(command.is_ready, "all processes again")
    for part in PARTS:
        times = [one.back_s for one in found if one.part == part]
        figures = {"kills": len(times), "p50_s": statistics.median(times), "max_s": max(times)}
        record_property(f"back {part}", figures)
    record_property("fault process of a dashboard killed by SIGKILL", runs.tally.row)
    record_property("steps", {**runs.states, "acted": runs.acted, "takeovers": runs.takeovers})
    assert len(found) == kills
    assert runs.tally.is_clean, (runs.tally, runs.states)
    # a worker that is killed after it wrote that it begins, and before it sent anything, leaves a
    # step that the next one finds not done, and says so
    assert set(runs.states) <= {"DONE", "FAILED not_done"}, runs.states
    assert runs.states["FAILED not_done"] <= runs.takeovers
    assert runs.acted == runs.states["DONE"]
    assert [one for one in found if one.part != "pages" and not one.is_named] == []
    log = (site.config.state_dir / "logs" / "worker.log").read_text()
    assert log.count("worker started") == 1 + sum(one.part == "worker" for one in found)


def children_of(command: Command) -> list[psutil.Process]:
    return psutil.Process(command.process.pid).children(recursive=True)


def test_a_command_that_is_killed_leaves_nobody_behind_and_the_next_one_goes_on(
    sandbox: Sandbox, site: ApplySite
) -> None:
    words = ("dashboard", "--no-browser", "--config", str(write_config(site)))
    run_id = site.ask(site.plan(STEPS), SLOWLY)
    with Command(site.config.state_dir, *words) as command:
        command.wait_until(lambda: site.view(run_id).counts["DONE"], "a step")
        left = children_of(command)
        command.process.kill()
        command.process.wait(10)
        _, alive = psutil.wait_procs(left, timeout=END_S)
        assert not alive
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind(("127.0.0.1", command.port))
    with Command(site.config.state_dir, *words) as command:
        command.wait_until(lambda: site.view(run_id).state in ENDED_RUNS, "the end of the run")
        command.wait_until(command.is_ready, "all processes")
        left = children_of(command)
        command.process.send_signal(signal.SIGTERM)
        assert command.process.wait(END_S) == 0
        assert not psutil.wait_procs(left, timeout=5)[
            1
        ]  # init reaps what it inherits a moment later
    tally = Tally()
    tally.add(sandbox, site, site.view(run_id), [])
    assert tally.is_clean
    assert site.view(run_id).counts["DONE"] >= STEPS - 1  # the one that was begun, and not sent


def test_processes_of_a_demo_come_back_and_all_end_with_it(tmp_path: Path) -> None:
    words = ("demo", "--no-browser", "--no-past", "--brokers", "3", "--bundles", "60")
    with Command(tmp_path, *words, "--state-dir", str(tmp_path)) as command:
        command.wait_until(lambda: "Ready after" in command.output.read_text(), "the demo")
        command.wait_until(command.is_ready, "all processes")
        for part in PARTS:
            command.kill(part)
        command.wait_until(command.is_ready, "all processes again")
        left = children_of(command)
        command.process.send_signal(signal.SIGINT)
        assert command.process.wait(END_S) == 0
        assert not psutil.wait_procs(left, timeout=5)[
            1
        ]  # init reaps what it inherits a moment later
