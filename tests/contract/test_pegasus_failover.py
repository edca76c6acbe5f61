"""A drain outlives the leading meta server, and never reports an emptied node that is not empty.

A new leader has an empty black list and no pending proposals, and its guardian puts what a
partition lacks on the emptied node again. On the sandbox, and on a real cluster where one is named.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pegasus_ground import KINDS, Ground, Run, SandboxGround, ground

from core.actions import guards
from core.actions.describe import describe_purpose
from core.actions.runs import RunView
from core.pegasus.plan.maintenance import drain_plan, offline_plan, rolling_update_plan
from core.pegasus.server_settings import ADD_LIMIT, BLACK_LIST, FLOW_CONTROL
from core.plan.model import Plan
from core.plan.options import PlanOptions

__all__ = ["ground"]

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900 if "real" in KINDS else 300)]
ALL = 1000
"""Every partition of the node leaves it in one batch."""


@pytest.fixture(autouse=True)
def haste(monkeypatch: pytest.MonkeyPatch, ground: Ground) -> None:
    if isinstance(ground, SandboxGround):  # settings are set again with the next fresh snapshot
        monkeypatch.setattr(guards, "FRESH_FOR_S", 3.0)


def terms() -> PlanOptions:
    return PlanOptions(now=datetime.now(UTC), reason="a test")


def stop_adding(ground: Ground) -> None:
    """Let the leader that is place no replica; the next one does not know of it."""
    ground.site.cluster.settings.set_value(FLOW_CONTROL, "true")
    ground.site.cluster.settings.set_value(ADD_LIMIT, "0")


def held(ground: Ground, node: str) -> int:
    return sum(node in config.members for _, config in ground.site.every())


def drain(ground: Ground, node: str, batch: int = ALL) -> Plan:
    snapshot = ground.site.cluster.snapshot()
    return drain_plan(snapshot, [node], terms(), max_under_replicated=batch)


def refilled(ground: Ground, node: str, run: Run) -> Callable[[], None]:
    """Kill the leader once the node is empty; wait until its successor has filled it again."""
    run.wait(lambda: held(ground, node) == 0, "an empty node", ground.within_s)
    start_again = ground.kill_leader()
    run.wait(
        lambda: held(ground, node) > 0 or run.view.is_ended, "a replica on it", ground.within_s
    )
    return start_again


def check_empty(ground: Ground, node: str, view: RunView) -> None:
    assert view.state == "DONE", view.sentence
    assert view.purpose is not None
    assert describe_purpose(view.purpose) == f"Purpose: {node} has no replicas. Achieved: yes."
    assert held(ground, node) == 0


def test_what_a_new_leader_puts_back_is_taken_off_again(ground: Ground, tmp_path: Path) -> None:
    node = ground.fullest
    plan = drain(ground, node)
    stop_adding(ground)
    with Run(ground.site, tmp_path, plan) as run:
        start_again = refilled(ground, node, run)
        view = run.ended(600)
    start_again()
    check_empty(ground, node, view)
    assert any(step.reopened for step in view.steps)
    assert all(step.state == "DONE" for step in view.steps)
    ground.await_whole()
    assert ground.site.cluster.dynamic_setting(BLACK_LIST) == ""
    assert ground.is_whole()


def test_two_leaders_are_lost(ground: Ground, tmp_path: Path) -> None:
    node = ground.fullest
    plan = drain(ground, node)
    stop_adding(ground)
    with Run(ground.site, tmp_path, plan) as run:
        refilled(ground, node, run)()
        run.wait(lambda: any(step.reopened for step in run.view.steps), "another attempt", 200)
        start_again = ground.kill_leader()
        view = run.ended(600)
    start_again()
    check_empty(ground, node, view)


def test_the_leader_is_lost_before_the_first_replica_has_left(
    ground: Ground, tmp_path: Path
) -> None:
    node = ground.fullest
    with Run(ground.site, tmp_path, drain(ground, node)) as run:
        run.wait(lambda: ground.site.cluster.dynamic_setting(BLACK_LIST) == node, "the black list")
        start_again = ground.kill_leader()
        view = run.ended(600)
    start_again()
    check_empty(ground, node, view)


def test_a_black_list_of_others_is_kept_over_the_lost_leader(
    ground: Ground, tmp_path: Path
) -> None:
    node = ground.fullest
    other = next(name for name in ground.nodes if name != node)
    ground.site.cluster.settings.set_value(BLACK_LIST, other)
    plan = drain(ground, node)
    with Run(ground.site, tmp_path, plan) as run:
        run.wait(lambda: held(ground, node) == 0, "an empty node", ground.within_s)
        start_again = ground.kill_leader()
        view = run.ended(600)
    start_again()
    assert view.state == "DONE", view.sentence
    assert held(ground, node) == 0
    # what the new leader started with would be empty, too: the run restores what it found
    assert ground.site.cluster.dynamic_setting(BLACK_LIST) in (other, "")
    ground.site.cluster.settings.set_value(BLACK_LIST, "")


def test_a_drained_node_that_ends_in_between_is_empty(ground: Ground, tmp_path: Path) -> None:
    node = ground.fullest
    if isinstance(ground, SandboxGround):
        ground.sandbox.look(lambda state: setattr(state.settings, "assign_delay_ms", 1_000))
    with Run(ground.site, tmp_path, drain(ground, node, 12)) as run:  # small: half empty for long
        run.wait(lambda: 0 < held(ground, node) < 40, "a node half empty", ground.within_s)
        ground.kill(node)
        view = run.ended(600)
    ground.start(node)
    if view.state == "DONE":
        assert view.purpose is not None
        assert view.purpose.holds
    else:  # its proposals failed: it is said so, whatever the node holds
        assert view.state == "FAILED"
    ground.await_whole()


def test_an_offline_run_that_empties_nothing_is_not_done(ground: Ground, tmp_path: Path) -> None:
    """Another server froze: the proposals for the partitions that it leads come to nothing."""
    node = ground.fullest
    other = next(name for name in ground.nodes if name != node)
    plan = offline_plan(ground.site.cluster.snapshot(), [node], terms())
    with Run(ground.site, tmp_path, plan) as run:
        ground.freeze(other)
        run.wait(lambda: run.view.is_ended or run.waits("Stop its process now"), "the end", 600)
        is_asked = not run.view.is_ended
        if is_asked:  # the guardian has replaced the frozen one, and the node is empty
            assert held(ground, node) == 0
            run.ask_to_stop()
        view = run.ended(100)
    ground.thaw(other)
    assert view.state == ("STOPPED" if is_asked else "FAILED"), view.sentence
    assert view.purpose is not None
    assert view.purpose.holds is False
    assert node in view.purpose.sentence
    ground.await_whole()


def test_a_rolling_update_does_not_wait_for_replicas_in_memory(
    ground: Ground, tmp_path: Path
) -> None:
    node = ground.fullest
    plan = rolling_update_plan(ground.site.cluster.snapshot(), [node], terms())
    with Run(ground.site, tmp_path, plan) as run:
        run.wait(lambda: run.waits("Restart it now"), "the operator", 200)
        closing = next(
            step for step in run.view.steps if "has closed its replicas" in step.step.describe()
        )
        ground.restart(node)
        view = run.ended(300)
    assert view.state == "DONE", view.sentence
    assert closing.state == "DONE"
    assert (closing.took_ms or 0.0) < 60_000
    assert view.purpose is not None
    assert describe_purpose(view.purpose) == f"Purpose: {node} was restarted. Achieved: yes."
