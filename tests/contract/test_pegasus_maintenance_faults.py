"""Maintenance to its end, and with a process that ends or freezes in it.

On the sandbox, and on a real cluster where one is named (see :mod:`pegasus_scenario`). Whatever
happens, the run ends in a known state, and every setting is as it was found.
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from pegasus_ground import KINDS, Ground, Lacking, Run, SandboxGround, ground

from core.actions import guards
from core.actions.runs import RunView
from core.pegasus.plan.maintenance import (
    drain_plan,
    migrate_plan,
    offline_plan,
    rebalance_plan,
    rolling_update_plan,
)
from core.plan.options import PlanOptions

__all__ = ["ground"]

pytestmark = pytest.mark.timeout(900 if "real" in KINDS else 300)
LIMIT = 60
"""Of the sandbox's 256 partitions; of a real one, with fewer, the default of 10."""


def terms() -> PlanOptions:
    return PlanOptions(now=datetime.now(UTC), reason="a test")


def limit_of(ground: Ground) -> int:
    return 10 if ground.within_s > 100 else LIMIT


def check_known(view: RunView) -> None:
    """Every step has an end that is on record, and none is unknown."""
    states = {step.state for step in view.steps}
    assert view.state in {"DONE", "FAILED"}, view.sentence
    assert states <= {"DONE", "FAILED", "SKIPPED"}, view.sentence


@pytest.mark.slow  # a minute
def test_a_node_goes_offline_to_the_end(ground: Ground, tmp_path: Path) -> None:
    found, node = ground.settings(), ground.fullest
    plan = offline_plan(
        ground.site.cluster.snapshot(), [node], terms(), max_under_replicated=2 * limit_of(ground)
    )
    with Run(ground.site, tmp_path, plan) as run:
        run.wait(
            lambda: run.waits("Stop its process now") or run.view.is_ended, "the operator", 600
        )
        assert not run.view.is_ended, run.view.sentence
        ground.kill(node)
        view = run.ended(ground.within_s)
    assert view.state == "DONE", view.sentence
    every = [config for _, config in ground.site.every()]
    assert all(node not in config.members and config.replica_count == 3 for config in every)
    ground.start(node)
    assert ground.settings() == found


@pytest.mark.slow  # a minute
def test_a_restart_by_the_operator_that_comes_early_is_not_asked_for_again(
    ground: Ground, tmp_path: Path
) -> None:
    found, node = ground.settings(), ground.fullest
    plan = rolling_update_plan(ground.site.cluster.snapshot(), [node], terms())
    waited: set[str] = set()
    with Run(ground.site, tmp_path, plan) as run:
        run.wait(
            lambda: not any(node in config.members for _, config in ground.site.every()),
            "an empty node",
            ground.within_s,
        )
        ground.restart(node)

        def has_ended() -> bool:
            waited.update(step.waiting for step in run.view.steps if step.waiting)
            return run.view.is_ended

        run.wait(has_ended, "the end of the run", ground.within_s)
        view = run.view
    assert view.state == "DONE", view.sentence
    assert not [sentence for sentence in waited if "Restart it now" in sentence]
    assert ground.settings() == found
    assert ground.is_whole()


@pytest.mark.slow  # a minute
def test_a_drained_node_is_empty_and_few_partitions_lack_a_replica_at_a_time(
    ground: Ground, tmp_path: Path
) -> None:
    found, node, limit = ground.settings(), ground.fullest, limit_of(ground)
    plan = drain_plan(ground.site.cluster.snapshot(), [node], terms(), max_under_replicated=limit)
    with Lacking(ground.site) as seen, Run(ground.site, tmp_path, plan) as run:
        view = run.ended(600)
    assert view.state == "DONE", view.sentence
    assert 0 < seen.most_lacking <= limit
    every = [config for _, config in ground.site.every()]
    assert all(node not in config.members and config.replica_count == 3 for config in every)
    assert ground.settings() == found


@pytest.mark.slow
def test_a_leader_that_ends_in_a_rebalance(
    ground: Ground, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if isinstance(ground, SandboxGround):  # the level is set again with the next fresh snapshot
        monkeypatch.setattr(guards, "FRESH_FOR_S", 3.0)
    found = ground.settings()
    plan = rebalance_plan(ground.site.cluster.snapshot(), terms())
    with Run(ground.site, tmp_path, plan) as run:
        run.wait(lambda: ground.site.client.fetch_stored_level().word == "lively", "lively", 60)
        start_again = ground.kill_leader()
        view = run.ended(600)
        start_again()
    check_known(view)
    assert view.state == "DONE", view.sentence
    assert ground.settings() == found
    ground.await_whole()


@pytest.mark.slow
def test_a_node_that_ends_in_a_drain_of_another(ground: Ground, tmp_path: Path) -> None:
    if isinstance(ground, SandboxGround):
        # the guardian waits 10 min for a dead node's replicas before it places them elsewhere: a
        # step that the death meets under way would wait as long
        ground.sandbox.look(lambda state: setattr(state.settings, "assign_delay_ms", 1_000))
    found, node = ground.settings(), ground.fullest
    other = next(name for name in ground.nodes if name != node)
    plan = drain_plan(
        ground.site.cluster.snapshot(), [node], terms(), max_under_replicated=limit_of(ground)
    )
    before = sum(node in config.members for _, config in ground.site.every())
    with Run(ground.site, tmp_path, plan) as run:
        run.wait(
            lambda: sum(node in config.members for _, config in ground.site.every()) < before,
            "the first batch",
            ground.within_s,
        )
        ground.kill(other)
        view = run.ended(600)
    ground.start(other)
    check_known(view)
    assert ground.settings() == found
    ground.await_whole()


@pytest.mark.slow
def test_a_node_that_freezes_in_its_migration(ground: Ground, tmp_path: Path) -> None:
    found = ground.settings()
    leads = [str(config.primary) for _, config in ground.site.every()]
    node = max(set(leads), key=leads.count)
    plan = migrate_plan(ground.site.cluster.snapshot(), node, terms())
    with Run(ground.site, tmp_path, plan) as run:
        ground.freeze(node)
        view = run.ended(600)
    ground.thaw(node)
    check_known(view)
    ground.await_whole()
    assert ground.settings() == found
