"""A proposal of an earlier run that may still come: nothing is proposed for its partition again."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest
from pegasus_site import HASTE, PROPOSE, PegasusSite, move

from connectors.access.key import installation_key
from connectors.sandbox.pegasus.fleet import PegasusOptions, PegasusSandbox
from core.actions.authority import signed
from core.actions.events import Record, RunClaimed, RunEnded, StepEnded, StepStarted
from core.actions.model import StepResult
from core.pegasus.proposal import Proposal
from core.pegasus.server_settings import ADD_LIMIT
from core.pegasus.steps.batch import PartitionProposal, ProposeMany
from core.pegasus.steps.level import SetMetaLevel
from core.pegasus.steps.move import MoveReplica
from core.pegasus.steps.partition import Partition
from core.pegasus.steps.setting import SetServerSetting
from dashboard import services

FAST = PegasusOptions(tick_s=0.2, learn_mb_per_s=20_000, grace_s=0.3, failover_s=0.3)


@pytest.fixture
def sandbox() -> Iterator[PegasusSandbox]:
    with PegasusSandbox(FAST) as running:
        yield running


@pytest.fixture
def site(sandbox: PegasusSandbox) -> Iterator[PegasusSite]:
    here = PegasusSite.of(sandbox.meta_servers)
    yield here
    here.close()


def proposals(sandbox: PegasusSandbox) -> int:
    return sandbox.look(lambda state: state.faults.count(PROPOSE))


def to_the(site: PegasusSite, place: int) -> MoveReplica:
    """Return the move of the first partition's primary to its n-th secondary."""
    table, config = site.some()
    return move(table, config, "move_pri", str(config.primary), config.secondaries[place])


def leave_unknown(site: PegasusSite, folder: Path, step: MoveReplica | ProposeMany) -> None:
    """Write the run of a worker that never saw what came of its step, as the executor does."""
    action = site.action(step)
    run_id = site.ask(folder, site.plan(step))
    journal = site.journal(folder)
    key = installation_key(site.trimtab(folder).access)
    unknown = StepResult(state="UNKNOWN", code="timed_out", sentence="Unknown.")
    for event in (
        RunClaimed(worker="w", lease="here"),
        StepStarted(step=0, observed=action.look()),
        StepEnded(step=0, result=unknown),
        RunEnded(state="FAILED", sentence="One step is unknown."),
    ):
        at = datetime.now(UTC)
        name = site.config.name
        record = Record(run_id=run_id, cluster=name, at=at, actor="w", event=event)
        journal.append(signed(record, key))
    journal.close()


def test_a_run_of_a_partition_with_a_pending_proposal_is_refused_before_anything_is_set(
    sandbox: PegasusSandbox, site: PegasusSite, tmp_path: Path
) -> None:
    leave_unknown(site, tmp_path, to_the(site, 0))
    step = to_the(site, 1)
    limit = SetServerSetting(key=ADD_LIMIT, before="10", value="0", is_restored=True)
    view = site.execute_run(tmp_path, site.plan(limit, step))
    assert view.refusal is not None, view.sentence
    assert (view.state, view.refusal.code) == ("REFUSED", "pending")
    assert step.partition.gpid in view.refusal.sentence
    assert "set the level to steady" in view.refusal.hint
    assert (view.settings, proposals(sandbox)) == ((), 0)
    rehearsed = services.rehearse(site.trimtab(tmp_path), site.config.name, site.plan(step), HASTE)
    assert rehearsed.refusal is not None
    assert rehearsed.refusal.code == "pending"


def test_of_a_batch_only_the_partition_that_became_pending_since_is_left_out(
    sandbox: PegasusSandbox, site: PegasusSite, tmp_path: Path
) -> None:
    one = to_the(site, 0)
    node = one.source
    items = [
        PartitionProposal(partition=msgspec.structs.replace(one.partition), target=one.target),
        *(
            PartitionProposal(partition=other.partition, target=other.target)
            for other in (
                move(table, config, "move_pri", node, config.secondaries[0])
                for table, config in site.every()
                if config.primary == node and config.gpid != one.partition.gpid
            )
        ),
    ][:3]
    step = ProposeMany(node=node, verb="move_pri", items=tuple(items))
    site.cluster.reader._pending = lambda: frozenset([one.partition.gpid])
    acted = site.act(step)
    assert acted.result is not None
    assert (acted.result.state, acted.result.code) == ("FAILED", "partly")
    assert f"{one.partition.gpid}: The proposal for partition" in acted.result.sentence
    assert proposals(sandbox) == len(items) - 1


def test_what_a_level_has_thrown_away_is_not_pending_any_more(
    sandbox: PegasusSandbox, site: PegasusSite, tmp_path: Path
) -> None:
    leave_unknown(site, tmp_path, to_the(site, 0))
    level = SetMetaLevel(before="steady", level="steady")
    view = site.execute_run(tmp_path, site.plan(level, to_the(site, 1)))
    assert view.state == "DONE", view.sentence
    assert [step.result.code for step in view.steps if step.result] == ["set", "moved"]
    assert proposals(sandbox) == 1


def test_what_the_lost_leader_had_queued_is_lost_and_what_its_successor_has_is_done(
    sandbox: PegasusSandbox, site: PegasusSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The leader is lost between two proposals of one batch: only the first one went with it."""
    monkeypatch.setattr("connectors.pegasus.acting.partition_reader.AFTER_FAILOVER_S", 0.5)
    sandbox.look(lambda state: setattr(state.settings, "assign_delay_ms", 600_000))
    found = [(table, one) for table, one in site.every() if one.primary == site.some()[1].primary]
    items = tuple(
        PartitionProposal(partition=Partition.of(config, table), target=config.secondaries[0])
        for table, config in found[:4]
    )
    step = ProposeMany(node=str(found[0][1].primary), verb="move_pri", items=items)
    propose, sent = site.cluster.propose, []

    def propose_and_lose(proposal: Proposal) -> str:
        endpoint = propose(proposal)
        if not sent:
            sandbox.lose_leader()
        sent.append(endpoint)
        return endpoint

    monkeypatch.setattr(site.cluster, "propose", propose_and_lose)
    action = site.action(step)
    before = action.look()
    assert action.check_precondition(before) is None
    action.send()
    assert len(set(sent)) == 2
    result = site.settled(step, before, action)
    assert result.state == "FAILED"
    assert result.code == "lost_with_leader"
    assert result.sentence == (
        f"3 of 4 moved off {step.node}; {items[0].partition.gpid} did not: "
        f"{items[0].partition.gpid}: it was lost when another meta server took over."
    )
    assert step.flags_of(result.code).is_repeatable


def test_a_batch_that_is_executed_again_counts_what_has_left_to_another_node(
    sandbox: PegasusSandbox, site: PegasusSite
) -> None:
    """A new leader's guardian chose other primaries than the batch had named."""
    table, config = site.some()
    node, named, other = str(config.primary), *config.secondaries
    moved = ProposeMany(
        node=node,
        verb="move_pri",
        items=(PartitionProposal(partition=Partition.of(config, table), target=named),),
    )
    acted = site.act(move(table, config, "move_pri", node, other))
    assert acted.result is not None
    assert acted.result.state == "DONE"
    again = site.action(moved)
    seen = again.look()
    refusal = again.check_precondition(seen)
    assert refusal is not None
    assert moved.flags_of(refusal.code).is_needless
    result = again.result(seen, again.look())
    assert result is not None
    assert (result.state, result.sentence) == (
        "DONE",
        f"1 of 1 moved off {node}, 1 to a node other than requested.",
    )
