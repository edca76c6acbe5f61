"""Faults in the middle of a run: how each is brought about, and a run under one of them."""

from __future__ import annotations

import os
import secrets
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from unittest.mock import patch

from apply_site import ApplySite
from apply_under_faults import QUIETLY, SHEDDING, Tally, WorkerThread, heal, wait_until
from kazoo.client import KazooClient
from relay import Mode, Relay

from connectors.sandbox.pulsar.fleet import Sandbox, SandboxOptions
from connectors.sandbox.pulsar.state import Trouble
from connectors.worker import worker as worker_module
from connectors.worker.clock import SystemClock
from connectors.worker.lease import ZooKeeperLease
from core.actions.model import FINAL_STEPS, RunId
from core.actions.runs import RunView

STEPS = 4
SESSION_S = 3.0
OPTIONS = SandboxOptions(
    brokers=6,
    bundles=240,
    session_timeout_s=6.0,
    stats_every_s=1.0,
    is_steady=True,
    dynamic={SHEDDING: "true"},
)


@dataclass
class Scene:
    """One run under way, and what can be broken about it."""

    sandbox: Sandbox
    site: ApplySite
    relay: Relay
    leases: list[ZooKeeperLease] = field(default_factory=list)
    clock_off: timedelta = timedelta()


Fault = Callable[[Scene], AbstractContextManager[None]]


def rest(seconds: float) -> None:
    threading.Event().wait(seconds)


@contextmanager
def nothing(_: Scene) -> Iterator[None]:
    yield


def zookeeper_killed(away_s: float) -> Fault:
    @contextmanager
    def fault(scene: Scene) -> Iterator[None]:
        scene.sandbox.zookeeper_process.kill()
        rest(away_s)
        scene.sandbox.zookeeper_process.start()
        yield

    return fault


@contextmanager
def zookeeper_restarted(scene: Scene) -> Iterator[None]:
    scene.sandbox.zookeeper_process.stop()
    scene.sandbox.zookeeper_process.start()
    yield


@contextmanager
def session_expired(scene: Scene) -> Iterator[None]:
    """Close the session of the worker's lease from elsewhere: to the worker it has expired."""
    for lease in scene.leases:
        client = lease._session._client
        if client is not None and client.client_id is not None:
            twin = KazooClient(scene.sandbox.zookeeper, client_id=client.client_id)
            twin.start(15)
            twin.stop()
            twin.close()
    yield


def link(mode: Mode, for_s: float) -> Fault:
    @contextmanager
    def fault(scene: Scene) -> Iterator[None]:
        scene.relay.set_mode(mode)
        rest(for_s)
        scene.relay.set_mode("pass")
        yield

    return fault


@contextmanager
def zookeeper_frozen(scene: Scene) -> Iterator[None]:
    pid = scene.sandbox.zookeeper_process.pid
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    rest(2 * SESSION_S)
    os.kill(pid, signal.SIGCONT)
    yield


def brokers(trouble: Trouble, for_s: float = 6.0) -> Fault:
    @contextmanager
    def fault(scene: Scene) -> Iterator[None]:
        numbers = range(len(scene.sandbox.state.brokers))
        for number in numbers:
            scene.sandbox.disturb_broker(number, trouble)
        rest(for_s)
        for number in numbers:
            scene.sandbox.start_broker(number)
        yield

    return fault


def unloads(**faults: object) -> Fault:
    @contextmanager
    def fault(scene: Scene) -> Iterator[None]:
        scene.sandbox.set_faults(**faults)
        rest(6.0)
        heal_faults = {"refuse_status": 0, "slow_s": 0.0, "lost_answer_ratio": 0.0}
        scene.sandbox.set_faults(**{name: heal_faults[name] for name in faults})
        yield

    return fault


def clock(hours: float) -> Fault:
    @contextmanager
    def fault(scene: Scene) -> Iterator[None]:
        scene.clock_off = timedelta(hours=hours)
        yield

    return fault


@contextmanager
def disk_full(scene: Scene) -> Iterator[None]:
    filler = scene.site.config.state_dir / "filler"
    fill(filler)
    rest(6.0)
    filler.unlink()
    yield


def fill(path: Path) -> None:
    with path.open("wb", buffering=0) as file, suppress(OSError):
        while True:
            file.write(b"\0" * 4096)


FAULTS: dict[str, Fault] = {
    "none": nothing,
    "ZooKeeper killed, back at once": zookeeper_killed(0.0),
    "ZooKeeper killed, away longer than the session": zookeeper_killed(2 * SESSION_S),
    "ZooKeeper restarted in good order": zookeeper_restarted,
    "ZooKeeper frozen longer than the session": zookeeper_frozen,
    "ZooKeeper session expired": session_expired,
    "ZooKeeper behind a black hole, shorter than the session": link("black_hole", SESSION_S / 3),
    "ZooKeeper behind a black hole, longer than the session": link("black_hole", 3 * SESSION_S),
    "ZooKeeper refuses connections": link("refuse", SESSION_S),
    "ZooKeeper resets connections": link("reset", SESSION_S),
    "brokers hung": brokers("hung"),
    "brokers slow": brokers("slow"),
    "brokers reset connections": brokers("resetting"),
    "brokers answer 500": brokers("failing"),
    "brokers answer garbage": brokers("garbled"),
    "brokers answer without end": brokers("endless"),
    "unloads refused with 409": unloads(refuse_status=409),
    "unloads refused with 503": unloads(refuse_status=503),
    "unloads slow": unloads(slow_s=4.0),
    "answers to unloads lost": unloads(lost_answer_ratio=1.0),
    "clock jumps 5 h forward": clock(5.0),
    "clock set back 5 h": clock(-5.0),
}


def run_under(fault: Fault, scene: Scene, tally: Tally, logged: Callable[[], list[str]]) -> RunView:
    """Have a plan carried out, break something in the middle, and count what came of it."""
    run_id = scene.site.ask(scene.site.plan(STEPS), QUIETLY)
    with WorkerThread(scene.site) as worker:
        place = secrets.randbelow(STEPS - 1)
        wait_until(lambda: scene.site.view(run_id).steps[place].begun_at, "a step")
        with fault(scene):
            view = known(scene.site, run_id)
    said = list(worker.said)
    tally.add(scene.sandbox, scene.site, view, [*said, *logged()])
    return view


def known(site: ApplySite, run_id: RunId) -> RunView:
    """Return the run when it has ended and every step's result is known; at the latest anyhow."""

    def is_known() -> bool:
        view = site.view(run_id)
        return view.is_ended and {step.state for step in view.steps} <= FINAL_STEPS

    with suppress(AssertionError):
        wait_until(is_known, "an end", within_s=240.0)
    return site.view(run_id)


@contextmanager
def scene_of(sandbox: Sandbox, folder: Path, zookeeper: str = "") -> Iterator[Scene]:
    heal(sandbox)
    with Relay(sandbox.zookeeper) as relay:
        cluster = sandbox.cluster_config()
        site = ApplySite.of(folder, cluster, zookeeper=zookeeper or relay.address)
        scene = Scene(sandbox, site, relay)

        class Noted(ZooKeeperLease):
            def __init__(self, *args: object) -> None:
                super().__init__(*args)  # type: ignore[arg-type]  # passed on as they are
                scene.leases.append(self)

        def now(_: SystemClock) -> datetime:
            return datetime.now(UTC) + scene.clock_off

        with (
            patch.object(worker_module, "ZooKeeperLease", Noted),
            patch.object(SystemClock, "now", now),
        ):
            yield scene
    heal(sandbox)
