"""Runs while things break: workers of this and of other processes, and what always has to hold."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from time import monotonic
from typing import Self

from apply_site import HASTE, ApplySite

from connectors.sandbox.pulsar.fleet import Faults, Sandbox, SandboxOptions
from connectors.worker.worker import run_worker
from core.actions.events import StepEnded, StepStarted
from core.actions.model import ENDED_RUNS, FINAL_STEPS, RunId
from core.actions.runs import RunView

SHEDDING = "loadBalancerSheddingEnabled"
QUIETLY = replace(HASTE, pause_balancer=True)


@contextmanager
def steady_sandbox(brokers: int, bundles: int) -> Iterator[Sandbox]:
    """A sandbox with nothing wrong, whose leader sheds only what it is asked to."""
    options = SandboxOptions(
        brokers=brokers,
        bundles=bundles,
        session_timeout_s=4.0,
        stats_every_s=1.0,
        is_steady=True,
        dynamic={SHEDDING: "true"},
    )
    with Sandbox(options) as running:
        heal(running)
        yield running


def heal(sandbox: Sandbox) -> None:
    sandbox.engine.faults = Faults()
    for number in range(len(sandbox.state.brokers)):
        sandbox.start_broker(number)
    wait_until(lambda: sandbox.leader is not None, "a leader")
    wait_until(lambda: not (sandbox.state.owner[sandbox.state.is_live] < 0).any(), "owners")
    sandbox.publish()


def wait_until(is_true: Callable[[], object], what: str, within_s: float = 90.0) -> None:
    pause, deadline = threading.Event(), monotonic() + within_s
    while not is_true():
        assert monotonic() < deadline, f"{what}: not within {within_s:.0f} s"
        pause.wait(0.05)


def ended(site: ApplySite, run_id: RunId) -> RunView:
    wait_until(lambda: site.view(run_id).state in ENDED_RUNS, f"the end of {run_id}")
    return site.view(run_id)


@dataclass
class WorkerThread:
    """A worker of this process, with its words."""

    site: ApplySite

    def __enter__(self) -> Self:
        self.stop = threading.Event()
        self.said: list[str] = []
        self._thread = threading.Thread(
            target=run_worker,
            args=(
                self.site.config,
                [self.site.cluster],
                self.stop,
                lambda event: self.said.append(str(event)),
            ),
        )
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop.set()
        self._thread.join()


class WorkerProcesses:
    """Workers of their own processes, which can be killed."""

    def __init__(self, site: ApplySite) -> None:
        self._config = write_config(site)
        self._running: list[subprocess.Popen[bytes]] = []

    def start(self) -> int:
        words = [sys.executable, "-m", "dashboard.cli", "worker", "--config", str(self._config)]
        with (self._config.parent / "worker.log").open("ab") as log:
            process = subprocess.Popen(words, stdout=log, stderr=log)
        self._running.append(process)
        return process.pid

    def kill(self, pid: int) -> None:
        process = next(each for each in self._running if each.pid == pid)
        process.kill()
        process.wait()
        self._running.remove(process)

    def end(self, pid: int) -> int:
        process = next(each for each in self._running if each.pid == pid)
        process.terminate()
        self._running.remove(process)
        return process.wait(60)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._running:
            process.kill()
            process.wait()


def write_config(site: ApplySite) -> Path:
    cluster = site.cluster
    tables = {"timeouts": cluster.timeouts.model_dump(), "apply": cluster.apply.model_dump()}
    lines = [f"state_dir = {json.dumps(str(site.config.state_dir))}"]
    if site.config.journal_url is not None:
        lines += [f"journal_url = {json.dumps(site.config.journal_url.get_secret_value())}"]
    lines += ["[[clusters]]"]
    fields = {"name", "zookeeper", "admin_urls", "environment"}
    known = cluster.model_dump(include=fields, exclude_none=True)
    lines += [f"{key} = {json.dumps(value)}" for key, value in known.items()]
    lines += ["read_only = false"]
    for name, table in tables.items():
        lines += [f"[clusters.{name}]", *(f"{k} = {json.dumps(v)}" for k, v in table.items())]
    path = site.config.state_dir / "trimtab.toml"
    path.write_text("\n".join(lines) + "\n")
    return path


# -- what always has to hold -----------------------------------------------------------------------


def assert_sound(sandbox: Sandbox, site: ApplySite, views: Sequence[RunView]) -> None:
    """No unload was sent twice, each step is settled as it really went, no setting is changed."""
    for view in views:
        assert view.state in ENDED_RUNS
        assert {step.state for step in view.steps} <= FINAL_STEPS, view.sentence
        assert not view.outstanding_settings
        assert_sent_once(sandbox, view)
        for step in view.steps:
            assert step.result is not None
            owner = sandbox.state.brokers[int(owner_row(sandbox, step.step.bundle))].broker_id
            if step.state == "DONE":
                assert step.result.after is not None
                assert step.before is not None
                assert step.result.after.token != step.before.token
                assert step.result.after.holder in (owner, None)
            else:
                assert acted(sandbox, view, step.step.bundle) == 0
                assert owner == step.step.owner, step.result.sentence
    assert_no_overlap(site)
    assert sandbox.engine.policies.dynamic == {SHEDDING: "true"}


def owner_row(sandbox: Sandbox, bundle: str) -> int:
    return int(sandbox.state.owner[sandbox.state.row_of[bundle]])


def requests_of(sandbox: Sandbox, view: RunView, bundle: str) -> list[tuple[str | None, str]]:
    since = view.requested_at.timestamp()
    return [
        (request.destination, request.outcome)
        for request in sandbox.unload_requests()
        if request.bundle == bundle and request.at_s >= since
    ]


def acted(sandbox: Sandbox, view: RunView, bundle: str) -> int:
    return sum(outcome == "acted" for _, outcome in requests_of(sandbox, view, bundle))


def assert_sent_once(sandbox: Sandbox, view: RunView) -> None:
    for step in view.steps:
        asked = requests_of(sandbox, view, step.step.bundle)
        # with a destination a request begins at the leader, whose redirect does not carry it on
        begun = [destination for destination, _ in asked if destination is not None]
        assert len(begun) <= 1, asked
        assert acted(sandbox, view, step.step.bundle) <= 1, asked
        if step.begun_at is None:
            assert not asked


def assert_no_overlap(site: ApplySite) -> None:
    """Over all runs of the cluster at most one step is ever under way."""
    with closing(site.journal()) as journal:
        entries = journal.entries()
        assert journal.verify().is_sound
    running: set[tuple[RunId, int]] = set()
    for entry in entries:
        match entry.record.event:
            case StepStarted(step=step):
                running.add((entry.record.run_id, step))
                assert len(running) == 1, f"entry {entry.seq}: {running}"
            case StepEnded(step=step):
                running.discard((entry.record.run_id, step))


def assert_sound_but_moved(sandbox: Sandbox, site: ApplySite, view: RunView) -> None:
    """As :func:`assert_sound`, but bundles also moved for another reason: their owner went."""
    assert {step.state for step in view.steps} <= FINAL_STEPS, view.sentence
    assert not view.outstanding_settings
    assert_sent_once(sandbox, view)
    assert_no_overlap(site)
    assert sandbox.engine.policies.dynamic == {SHEDDING: "true"}
    for step in view.steps:
        if step.state == "DONE":
            assert step.result is not None
            assert step.before is not None
            assert step.result.after is not None
            assert step.result.after.token != step.before.token


def claimant(site: ApplySite, run_id: RunId) -> int | None:
    """Process of the worker that has the run."""
    worker = site.view(run_id).worker
    return int(worker.split("/")[1]) if worker else None


def all_views(site: ApplySite) -> list[RunView]:
    with closing(site.journal()) as journal:
        return [site.view(run_id) for run_id in journal.run_ids()]


@dataclass
class Count:
    """What came of runs: moves that were lost, and moves that were done twice."""

    runs: int = 0
    lost: int = 0
    twice: int = 0
    takeovers: int = 0

    def add(self, sandbox: Sandbox, view: RunView) -> None:
        self.runs += 1
        self.takeovers += view.takeovers
        for step in view.steps:
            times = acted(sandbox, view, step.step.bundle)
            self.twice += times > 1
            # done and not on record, or on record and not done
            self.lost += (step.state == "DONE") != (times >= 1)


@dataclass
class Tally:
    """What came of runs under one fault, as one row of the table of faults.

    Attributes:
        lost: Actions of the cluster that the journal does not have, or not as done.
        twice: Actions that were sent or done more than once.
        wrong: Runs that did not end, left a step open or a setting changed, or a damaged journal.
        tracebacks: Among what the worker reports and logs, faults of its own included.
    """

    runs: int = 0
    lost: int = 0
    twice: int = 0
    wrong: int = 0
    tracebacks: int = 0

    def add(self, sandbox: Sandbox, site: ApplySite, view: RunView, said: Iterable[str]) -> None:
        self.runs += 1
        for step in view.steps:
            requests = requests_of(sandbox, view, step.step.bundle)
            times = acted(sandbox, view, step.step.bundle)
            begun = [destination for destination, _ in requests if destination is not None]
            self.twice += times > 1 or len(begun) > 1
            self.lost += bool(times) and step.state != "DONE"
            self.lost += bool(requests) and step.begun_at is None
        self.tracebacks += sum("Traceback" in one or "bug" in one.lower() for one in said)
        self.wrong += not self._is_known(sandbox, site, view)

    @staticmethod
    def _is_known(sandbox: Sandbox, site: ApplySite, view: RunView) -> bool:
        with closing(site.journal()) as journal:
            is_sound = journal.verify().is_sound
        return (
            is_sound
            and view.state in ENDED_RUNS
            and {step.state for step in view.steps} <= FINAL_STEPS
            and not view.outstanding_settings
            and sandbox.engine.policies.dynamic == {SHEDDING: "true"}
        )

    @property
    def row(self) -> dict[str, int]:
        """The figures by their names."""
        return asdict(self)

    @property
    def is_clean(self) -> bool:
        """Whether nothing went wrong."""
        return not (self.lost or self.twice or self.wrong or self.tracebacks)
