"""Maintenance of a Pegasus cluster through the worker: done, stopped, and left as it was found."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic

import pytest
from pegasus_ground import FAST, Run
from pegasus_site import PegasusSite, wait_until

from connectors.sandbox.pegasus.fleet import PegasusSandbox
from core.pegasus.plan.maintenance import (
    rebalance_plan,
    rolling_update_plan,
)
from core.plan.options import PlanOptions

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


def terms() -> PlanOptions:
    return PlanOptions(now=datetime.now(UTC), reason="a test")


def settings_of(sandbox: PegasusSandbox) -> tuple[object, ...]:
    return sandbox.look(lambda state: (vars(state.settings).copy(), int(state.stored_level)))


@pytest.mark.slow
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
        run.wait(lambda: run.waits("Restart it now"), "the wait for the operator")
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
