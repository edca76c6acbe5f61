"""Maintenance of a Pegasus cluster through the worker: done, stopped, and left as it was found."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic
from typing import Self

import pytest
from pegasus_site import PegasusSite, wait_until

from connectors.sandbox.pegasus.fleet import PegasusOptions, PegasusSandbox
from connectors.worker import run_worker
from core.actions.events import ControlAsked, Record
from core.actions.model import RunId
from core.actions.runs import RunView
from core.plan.bare import Terms
from core.plan.model import Plan
from core.plan.pegasus_wizards import drain_plan, rebalance_plan, rolling_update_plan

FAST = PegasusOptions(tick_s=0.2, learn_mb_per_s=20_000, grace_s=0.3, failover_s=0.3)
RATE = "nfs.max_copy_rate_megabytes_per_disk@*"


@pytest.fixture
def sandbox() -> Iterator[PegasusSandbox]:
    with PegasusSandbox(FAST) as running:
        yield running


@pytest.fixture
def site(sandbox: PegasusSandbox) -> Iterator[PegasusSite]:
    here = PegasusSite.of(sandbox.meta_servers)
    yield here
    here.close()


def terms() -> Terms:
    return Terms(now=datetime.now(UTC), reason="a test")


class Run:
    """A run of a plan with a worker beside it, until the end of the block."""

    def __init__(self, site: PegasusSite, folder: Path, plan: Plan) -> None:
        assert plan.applyable, plan.diagnostics
        self._site, self._folder = site, folder
        self._stop = threading.Event()
        config = site.trimtab(folder)
        self._thread = threading.Thread(
            target=run_worker, args=(config, config.clusters, self._stop, lambda _: None)
        )
        self.run_id: RunId = site.ask(folder, plan)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    @property
    def view(self) -> RunView:
        return self._site.view(self._folder, self.run_id)

    def waits(self, part: str) -> bool:
        """Return whether a step that is pending says that it waits for this."""
        steps = self.view.steps
        return any(part in step.waiting for step in steps if step.state == "PENDING")

    def wait(self, is_true: Callable[[], object], what: str) -> None:
        wait_until(is_true, what, every_s=0.25)

    def ended(self) -> RunView:
        wait_until(lambda: self.view.is_ended, "the end of the run", 180.0, every_s=0.25)
        return self.view

    def ask_to_stop(self) -> None:
        event = ControlAsked(control="stop", reason="a test")
        record = Record(
            run_id=self.run_id,
            cluster=self._site.config.name,
            at=datetime.now(UTC),
            actor="tester",
            event=event,
        )
        journal = self._site.journal(self._folder)
        try:
            journal.append(record)
        finally:
            journal.close()


def settings_of(sandbox: PegasusSandbox) -> tuple[object, ...]:
    return sandbox.look(lambda state: (vars(state.settings).copy(), int(state.stored_level)))


def test_a_rolling_update_waits_for_the_restart_and_leaves_settings_as_they_were(
    sandbox: PegasusSandbox, site: PegasusSite, tmp_path: Path
) -> None:
    found, node = settings_of(sandbox), sandbox.nodes[0]
    plan = rolling_update_plan(site.cluster.snapshot(), [node], terms())
    sandbox.restart_node(node)  # older than the node's turn: it does not count
    wait_until(
        lambda: all(config.replica_count == 3 for _, config in site.every()), "healthy partitions"
    )
    restarted_s = monotonic()
    with Run(site, tmp_path, plan) as run:
        run.wait(lambda: run.waits("restart it now"), "the wait for the operator")
        held = [config.gpid for _, config in site.every() if node in config.members]
        assert held == []
        assert settings_of(sandbox) != found
        assert not run.view.is_ended
        # a server tells its start in whole seconds
        run.wait(lambda: monotonic() - restarted_s > 2.0, "another second")
        sandbox.restart_node(node)
        view = run.ended()
    assert view.state == "DONE", view.sentence
    assert settings_of(sandbox) == found
    assert all(config.replica_count == 3 for _, config in site.every())


def test_a_drained_node_is_empty_and_every_partition_is_whole_elsewhere(
    sandbox: PegasusSandbox, site: PegasusSite, tmp_path: Path
) -> None:
    found, node = settings_of(sandbox), sandbox.nodes[1]
    with Run(site, tmp_path, drain_plan(site.cluster.snapshot(), [node], terms())) as run:
        view = run.ended()
    assert view.state == "DONE", view.sentence
    every = [config for _, config in site.every()]
    assert all(node not in config.members and config.replica_count == 3 for config in every)
    assert settings_of(sandbox) == found


def test_a_stop_while_it_waits_puts_level_and_rates_back(
    sandbox: PegasusSandbox, site: PegasusSite, tmp_path: Path
) -> None:
    # frozen by too few nodes, nothing is ever balanced
    found, rate = settings_of(sandbox), site.cluster.dynamic_setting(RATE)
    plan = rebalance_plan(site.cluster.snapshot(), terms())
    sandbox.look(lambda state: setattr(state.settings, "min_live_node_count_for_unfreeze", 9))
    with Run(site, tmp_path, plan) as run:
        run.wait(lambda: run.waits("freezed"), "the wait for balance")
        assert site.cluster.dynamic_setting(RATE) == "100"
        run.ask_to_stop()
        view = run.ended()
    sandbox.look(lambda state: setattr(state.settings, "min_live_node_count_for_unfreeze", 3))
    assert view.state == "STOPPED"
    assert settings_of(sandbox) == found
    assert site.cluster.dynamic_setting(RATE) == rate
