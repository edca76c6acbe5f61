"""Real workers, killed with SIGKILL at a call that they make: the next one ends the run soundly.

Every call of a run is a kill point: ``tests/property/test_actions_property.py`` dies at each of
them in virtual time, in fifteen and more stories; here a sample of them is real.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from apply_site import ApplySite
from apply_under_faults import QUIETLY, Tally, steady_sandbox, write_config

from connectors.sandbox.pulsar.fleet import Sandbox
from core.actions.model import RunId

pytestmark = pytest.mark.zookeeper

STEPS = 2
SESSION_S = 2.0
PROGRAM = Path(__file__).with_name("killed_worker.py")


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    with steady_sandbox(brokers=4, bundles=160) as running:
        yield running


@pytest.fixture
def site(sandbox: Sandbox, tmp_path: Path) -> ApplySite:
    made = ApplySite.of(tmp_path, sandbox.cluster_config())
    timeouts = made.cluster.timeouts.model_copy(update={"session_s": SESSION_S})
    cluster = made.cluster.model_copy(update={"timeouts": timeouts})
    return ApplySite(made.config.model_copy(update={"clusters": [cluster]}), cluster)


Lives = Callable[[int, RunId], dict[str, Any]]


@contextmanager
def workers(site: ApplySite) -> Iterator[Lives]:
    """Let a worker live until its n-th call, or to the run's end."""
    words = [sys.executable, str(PROGRAM), str(write_config(site)), site.cluster.name]
    process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin is not None
    assert process.stdout is not None
    given, answers = process.stdin, process.stdout

    def live(moment: int, run_id: RunId) -> dict[str, Any]:
        given.write(f"{moment} {run_id}\n")
        given.flush()
        found: dict[str, Any] = json.loads(answers.readline())
        return found

    with process:
        try:
            yield live
        finally:
            process.kill()


def kill_at_each(
    sandbox: Sandbox, site: ApplySite, points: int
) -> tuple[Tally, Counter[str], list[str]]:
    """Kill a worker at evenly spread calls, each in a run of its own."""
    tally, places, sentences = Tally(), Counter[str](), []
    with workers(site) as live:
        calls = live(-1, site.ask(site.plan(STEPS), QUIETLY))["calls"]
        assert calls > points
        for place in range(points):
            run_id = site.ask(site.plan(STEPS), QUIETLY)
            first = live(place * calls // points, run_id)
            second = live(-1, run_id)
            assert first["killed"] or site.view(run_id).is_ended
            assert not second["killed"]
            places[first["where"] if first["killed"] else "none"] += 1
            view = site.view(run_id)
            sentences.append(view.sentence)
            tally.add(sandbox, site, view, [second["where"]])
    return tally, places, sentences


@pytest.mark.parametrize(
    "points",
    [3, pytest.param(60, marks=[pytest.mark.slow, pytest.mark.timeout(2_400)])],
)
def test_worker_killed_at_a_call(
    sandbox: Sandbox,
    site: ApplySite,
    points: int,
    record_property: Callable[[str, object], None],
) -> None:
    tally, places, sentences = kill_at_each(sandbox, site, points)
    record_property("fault worker killed by SIGKILL at a call", tally.row)
    assert tally.runs == points
    assert tally.is_clean, (tally, sentences)
    assert places["none"] <= 1 + points // 10
