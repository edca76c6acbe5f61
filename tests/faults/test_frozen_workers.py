"""A worker that holds the lease freezes, another takes the run over, the first one wakes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from apply_site import ApplySite
from apply_under_faults import (
    QUIETLY,
    WorkerProcesses,
    assert_no_overlap,
    ended,
    requests_of,
    steady_sandbox,
    wait_until,
    write_config,
)
from child_process import wait_s

from connectors.sandbox.pulsar.fleet import Sandbox

pytestmark = [pytest.mark.zookeeper, pytest.mark.slow]

PROGRAM = Path(__file__).with_name("frozen_worker.py")
WAKES_S = 6.0
"""What a worker that wakes still does, it does within this time."""


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    with steady_sandbox(brokers=6, bundles=240) as running:
        yield running


@contextmanager
def freezing_worker(site: ApplySite) -> Iterator[int]:
    """A worker that freezes right before its first request, after it has made sure of its lease."""
    paths = os.pathsep.join(map(str, (PROGRAM.parents[2], PROGRAM.parents[1] / "support")))
    with (site.config.state_dir / "frozen.log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, str(PROGRAM), str(write_config(site)), site.cluster.name],
            env={**os.environ, "PYTHONPATH": paths},
            stdout=log,
            stderr=log,
        )
    try:
        yield process.pid
    finally:
        os.kill(process.pid, signal.SIGCONT)
        process.terminate()
        process.wait(30)


def is_frozen(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"


@pytest.mark.parametrize("towards", [True, False], ids=["to a destination", "anywhere"])
def test_a_worker_frozen_between_its_last_look_at_the_lease_and_the_request_doubles_nothing(
    sandbox: Sandbox, tmp_path: Path, *, towards: bool
) -> None:
    site = ApplySite.of(tmp_path, sandbox.cluster_config())
    run_id = site.ask(site.plan(3, towards=towards), QUIETLY)
    with freezing_worker(site) as pid, WorkerProcesses(site) as workers:
        wait_until(lambda: is_frozen(pid), "the freeze")
        workers.start()
        view = ended(site, run_id)
        assert view.takeovers == 1
        os.kill(pid, signal.SIGCONT)
        wait_s(WAKES_S)
    view = site.view(run_id)
    for step in view.steps:
        asked = requests_of(sandbox, view, step.step.bundle)
        acted = [outcome for _, outcome in asked if outcome == "acted"]
        assert len(acted) <= 1, (view.sentence, asked)
        assert bool(acted) == (step.state == "DONE"), (view.sentence, asked)
    assert_no_overlap(site)
