"""A leader that changes around a proposal: "lost" is only said of what is certainly lost."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from time import monotonic
from types import SimpleNamespace

import pytest
from pegasus_site import PegasusSite, move, wait_until

from connectors.pegasus.acting.partition_reader import PartitionReader
from connectors.pegasus.actions.change import ChangeAction
from connectors.sandbox.pegasus.fleet import PegasusOptions, PegasusSandbox
from core.actions.model import Observation
from core.errors import RemoteError
from core.pegasus.answers import NodeEntry
from core.pegasus.levels import FunctionLevel
from core.pegasus.partition import PartitionConfig
from core.pegasus.proposal import ProposalContext
from core.pegasus.steps.batch import PartitionProposal, ProposeMany
from core.pegasus.steps.change import ChangeReplica
from core.pegasus.steps.partition import Partition

QUICK = PegasusOptions(tick_s=0.2, learn_mb_per_s=20_000, grace_s=0.3, failover_s=0.3)
GRACE_S = 0.5


@pytest.fixture(autouse=True)
def _short_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("connectors.pegasus.acting.partition_reader.AFTER_FAILOVER_S", GRACE_S)


@pytest.fixture
def sandbox() -> Iterator[PegasusSandbox]:
    with PegasusSandbox(QUICK) as running:
        yield running


@pytest.fixture
def site(sandbox: PegasusSandbox) -> Iterator[PegasusSite]:
    here = PegasusSite.of(sandbox.meta_servers)
    yield here
    here.close()


def set_stored(sandbox: PegasusSandbox, level: int) -> None:
    """Set the level behind the servers' back: what is pending stays so."""
    sandbox.look(lambda state: setattr(state, "stored_level", level))


def fail_over(sandbox: PegasusSandbox, site: PegasusSite) -> None:
    """End the leader, and wait until another one has taken over."""
    old = site.client.fetch_cluster_info().leader

    def is_another() -> bool:
        try:
            return site.client.fetch_cluster_info().leader not in ("", old)
        except RemoteError:
            return False

    sandbox.lose_leader()
    wait_until(is_another, "another leading meta server")


def some_step(site: PegasusSite, how: str):
    table, config = site.some()
    one = move(table, config, "move_pri", str(config.primary), config.secondaries[0])
    if how == "one":
        return one
    item = PartitionProposal(partition=one.partition, target=one.target)
    return ProposeMany(node=one.source, verb="move_pri", items=(item,))


@pytest.mark.parametrize("how", ["one", "many"])
def test_what_a_new_leader_has_got_is_never_called_lost(
    sandbox: PegasusSandbox, site: PegasusSite, how: str
) -> None:
    step = some_step(site, how)
    action = site.action(step)
    before = action.look()
    assert action.check_precondition(before) is None
    fail_over(sandbox, site)
    set_stored(sandbox, 300)  # it stays pending
    action.send()
    looked: list[object] = []

    def was_looked_at_for_long() -> bool:
        looked.append(action.result(before, action.look()))
        return len(looked) > 12 and monotonic() > until_s

    until_s = monotonic() + 2 * GRACE_S
    wait_until(was_looked_at_for_long, "a dozen looks")
    assert set(looked) == {None}
    for looking in (action, site.action(step)):
        assert looking.on_timeout(before, looking.look()).state == "UNKNOWN"
    set_stored(sandbox, 400)
    result = site.settled(step, before, action)
    assert (result.state, result.code) == ("DONE", "moved")


@pytest.mark.parametrize("how", ["one", "many"])
def test_what_an_old_leader_had_is_lost_after_a_while_only(
    sandbox: PegasusSandbox, site: PegasusSite, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("connectors.pegasus.acting.partition_reader.AFTER_FAILOVER_S", 10_000.0)
    step = some_step(site, how)
    action = site.action(step)
    before = action.look()
    assert action.check_precondition(before) is None
    set_stored(sandbox, 300)
    action.send()
    fail_over(sandbox, site)
    assert action.on_timeout(before, action.look()).state == "UNKNOWN"
    monkeypatch.setattr("connectors.pegasus.acting.partition_reader.AFTER_FAILOVER_S", 0.0)
    later = site.action(step)  # by whoever looks again
    result = later.on_timeout(before, later.look())
    code = {"one": "not_done", "many": "lost_with_leader"}[how]  # a drain looks again after that
    assert (result.state, result.code) == ("FAILED", code)
    assert "another meta server" in result.sentence


class _Staged(PartitionReader):
    """One partition of a cluster whose leader changes at a word."""

    def __init__(self, config: PartitionConfig, nodes: tuple[str, ...]) -> None:
        super().__init__(None)  # type: ignore[arg-type]  # everything that asks is overridden
        self.config = config
        self.leader = "m1:34601"
        self._entries = {name: NodeEntry(name=name, address=None, is_alive=True) for name in nodes}

    def partitions(self, planned: object) -> dict[str, PartitionConfig]:
        return {self.config.gpid: self.config}

    def cluster(self) -> ProposalContext:
        return ProposalContext(self._entries, FunctionLevel.STEADY)

    def _reported_reign(self) -> str:
        return self.leader


def test_an_addition_goes_on_learning_after_its_leader_died(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("connectors.pegasus.acting.partition_reader.AFTER_FAILOVER_S", 0.0)
    config = PartitionConfig(2, 0, 5, 3, "a:1", ("b:1",))
    reader = _Staged(config, ("a:1", "b:1", "c:1"))
    step = ChangeReplica(partition=Partition.of(config, "temp"), change="ADD_SECONDARY", node="c:1")
    action = ChangeAction(step, SimpleNamespace(reader=reader, propose=lambda _: None))
    before = action.look()
    assert action.check_precondition(before) is None
    action.send()
    reader.leader = "m2:34601"
    now: Observation = before
    for _ in range(8):  # who leads is asked now and then
        now = action.look()
        assert action.result(before, now) is None
    reader.config = replace(config, ballot=6, secondaries=("b:1", "c:1"))
    result = action.result(before, action.look())
    assert result is not None
    assert result.state == "DONE"
    reader.config = config
    assert action.on_timeout(before, action.look()).code == "not_done"
