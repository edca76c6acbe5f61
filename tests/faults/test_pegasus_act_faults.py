"""Acting on a Pegasus cluster while it breaks: nothing is sent twice, and the end is told truly."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from pegasus_site import HASTE, PROPOSE, PegasusSite, move, wait_until

from connectors.sandbox.pegasus.fleet import PegasusOptions, PegasusSandbox
from connectors.worker.worker import run_worker, work_on
from core.actions.model import FINAL_STEPS, RunId
from core.actions.runs import RunView
from core.errors import RemoteError
from core.pegasus.partition import PartitionConfig
from core.pegasus.steps.batch import PartitionProposal, ProposeMany
from core.pegasus.steps.level import SetMetaLevel
from core.pegasus.steps.move import MoveReplica
from core.pegasus.steps.partition import Partition
from core.pegasus.steps.setting import SetServerSetting

QUICK = PegasusOptions(tick_s=0.2, step_s=0.2, learn_mb_per_s=20_000, grace_s=0.3, failover_s=0.5)
SLOWLY = pytest.mark.parametrize("sandbox", [2.5], indirect=True)
"""Roles change so slowly that something can break between two of them."""

DELAY = "meta.lb.assign_delay_ms"


@pytest.fixture
def sandbox(request: pytest.FixtureRequest) -> Iterator[PegasusSandbox]:
    step_s = getattr(request, "param", QUICK.step_s)
    with PegasusSandbox(replace(QUICK, step_s=step_s)) as running:
        yield running


@pytest.fixture
def site(sandbox: PegasusSandbox) -> Iterator[PegasusSite]:
    here = PegasusSite.of(sandbox.meta_servers)
    yield here
    here.close()


def proposals(sandbox: PegasusSandbox) -> int:
    return sandbox.look(lambda state: state.faults.count(PROPOSE))


def config_of(sandbox: PegasusSandbox, gpid: str) -> PartitionConfig:
    app_id, _, index = gpid.partition(".")
    return sandbox.look(lambda state: state.partitions[int(app_id), int(index)].config)


def some_move(site: PegasusSite, kind: str = "move_pri") -> MoveReplica:
    table, config = site.some()
    target = config.secondaries[0] if kind == "move_pri" else site.stranger(config)
    return move(table, config, kind, str(config.primary), target)


class Working:
    """A worker in a thread of its own, until the end of the block."""

    def __init__(self, site: PegasusSite, folder: Path) -> None:
        self._stop = threading.Event()
        config = site.trimtab(folder)
        self._thread = threading.Thread(
            target=run_worker, args=(config, config.clusters, self._stop, lambda _: None)
        )

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()


def ended(site: PegasusSite, folder: Path, run_id: RunId) -> RunView:
    wait_until(
        lambda: site.view(folder, run_id).is_ended, "the end of the run", 150.0, every_s=0.25
    )
    return site.view(folder, run_id)


def begun(site: PegasusSite, folder: Path, run_id: RunId) -> int:
    return sum(step.begun_at is not None for step in site.view(folder, run_id).steps)


@SLOWLY
def test_a_target_that_dies_between_the_two_steps_of_a_move_is_told_and_never_repeated(
    sandbox: PegasusSandbox, site: PegasusSite, tmp_path: Path
) -> None:
    step = some_move(site)
    run_id = site.ask(tmp_path, site.plan(step))
    with Working(site, tmp_path):
        gpid = step.partition.gpid
        wait_until(lambda: config_of(sandbox, gpid).primary is None, "the primary stepping down")
        sandbox.lose_node(step.target)
        view = ended(site, tmp_path, run_id)
    (done,) = view.steps
    assert done.result is not None
    assert done.state == "FAILED"
    assert done.result.code in ("landed_elsewhere", "half_done")
    assert step.partition.gpid in done.result.sentence
    assert config_of(sandbox, gpid).primary not in (None, step.target)
    assert proposals(sandbox) == 1


@pytest.mark.slow
@SLOWLY
def test_a_leader_that_dies_within_a_move_leaves_an_end_that_the_partition_confirms(
    sandbox: PegasusSandbox, site: PegasusSite, tmp_path: Path
) -> None:
    step = some_move(site)
    run_id = site.ask(tmp_path, site.plan(step))
    with Working(site, tmp_path):
        gpid = step.partition.gpid
        wait_until(lambda: config_of(sandbox, gpid).primary is None, "the primary stepping down")
        sandbox.lose_leader()
        view = ended(site, tmp_path, run_id)
    (done,) = view.steps
    assert done.result is not None
    primary = config_of(sandbox, gpid).primary
    assert primary is not None
    assert (done.state == "DONE") == (primary == step.target)
    assert done.state in ("DONE", "FAILED")
    assert proposals(sandbox) == 1


def test_a_proposal_that_its_leader_forgot_is_told_as_lost_and_not_sent_again(
    sandbox: PegasusSandbox, site: PegasusSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("connectors.pegasus.acting.partition_reader.AFTER_FAILOVER_S", 0.5)
    step = some_move(site)
    action = site.action(step)
    before = action.look()
    assert action.check_precondition(before) is None
    sandbox.look(lambda state: setattr(state, "stored_level", 300))
    action.send()
    sandbox.lose_leader()
    result = site.settled(step, before, action)
    assert (result.state, result.code) == ("FAILED", "not_done")
    assert result.sentence.startswith("It was lost when another meta server took over")
    assert config_of(sandbox, step.partition.gpid).primary == step.source
    assert proposals(sandbox) == 1


@pytest.mark.parametrize("how", ["one", "many"])
def test_what_may_still_come_is_unknown_until_it_is_seen(
    sandbox: PegasusSandbox, site: PegasusSite, how: str
) -> None:
    one = some_move(site)
    item = PartitionProposal(partition=one.partition, target=one.target)
    many = ProposeMany(node=one.source, verb="move_pri", items=(item,))
    step = many if how == "many" else one
    action = site.action(step)
    before = action.look()
    assert action.check_precondition(before) is None
    sandbox.look(lambda state: setattr(state, "stored_level", 300))  # nothing is carried out
    action.send()
    now = action.look()
    assert action.result(before, now) is None
    late = action.on_timeout(before, now)
    assert (late.state, late.code) == ("UNKNOWN", "timed_out")
    sandbox.look(lambda state: setattr(state, "stored_level", 400))
    result = site.settled(step, before)
    assert (result.state, result.code) == ("DONE", "moved")
    assert proposals(sandbox) == 1


def test_a_lost_reply_to_a_proposal_is_settled_by_looking(
    sandbox: PegasusSandbox, site: PegasusSite, tmp_path: Path
) -> None:
    step = some_move(site)
    sandbox.look(lambda state: state.faults.lose_replies(PROPOSE))
    view = site.execute_run(tmp_path, site.plan(step))
    assert view.state == "DONE", view.sentence
    assert config_of(sandbox, step.partition.gpid).primary == step.target
    assert proposals(sandbox) == 1


def test_a_lost_reply_in_a_batch_stops_what_is_not_sent_and_the_rest_is_settled_by_looking(
    sandbox: PegasusSandbox, site: PegasusSite
) -> None:
    node = site.some()[1].primary
    led = [(table, config) for table, config in site.every() if config.primary == node][:3]
    items = [
        PartitionProposal(partition=Partition.of(config, table), target=config.secondaries[0])
        for table, config in led
    ]
    step = ProposeMany(node=str(node), verb="move_pri", items=tuple(items))
    sandbox.look(lambda state: state.faults.lose_replies(PROPOSE))
    acted = site.act(step)
    assert acted.result is not None
    assert (acted.result.state, acted.result.code) == ("FAILED", "partly")
    assert acted.result.sentence.startswith(f"1 of 3 moved off {node}; ")
    assert proposals(sandbox) == 1


@pytest.mark.slow
@SLOWLY
def test_a_worker_that_dies_within_a_copy_is_followed_by_one_that_only_looks(
    sandbox: PegasusSandbox, site: PegasusSite, tmp_path: Path
) -> None:
    step = some_move(site, "copy_pri")
    run_id = site.ask(tmp_path, site.plan(step))
    config = site.trimtab(tmp_path)
    stop = threading.Event()
    first = threading.Thread(
        target=work_on, args=(config, config.clusters[0], run_id, stop, lambda _: None)
    )
    first.start()
    wait_until(lambda: begun(site, tmp_path, run_id) == 1, "the intent")
    stop.set()
    with Working(site, tmp_path):
        view = ended(site, tmp_path, run_id)
    first.join()
    assert view.state == "DONE", view.sentence
    assert proposals(sandbox) == 1
    now = config_of(sandbox, step.partition.gpid)
    assert now.primary == step.target
    assert step.source not in now.members


@pytest.mark.slow
def test_of_two_workers_one_acts_and_the_other_stands_by(
    sandbox: PegasusSandbox, site: PegasusSite, tmp_path: Path
) -> None:
    steps = [
        move(table, config, "move_pri", str(config.primary), config.secondaries[0])
        for table, config in site.every()[:3]
    ]
    run_id = site.ask(tmp_path, site.plan(*steps))
    with Working(site, tmp_path), Working(site, tmp_path):
        view = ended(site, tmp_path, run_id)
    assert view.state == "DONE", view.sentence
    assert proposals(sandbox) == len(steps)


@pytest.mark.slow
def test_a_leader_that_dies_during_a_run_is_waited_for_and_the_rest_is_done(
    sandbox: PegasusSandbox, site: PegasusSite, tmp_path: Path
) -> None:
    steps = [
        move(table, config, "move_pri", str(config.primary), config.secondaries[0])
        for table, config in site.every()[:4]
    ]
    run_id = site.ask(tmp_path, site.plan(*steps), HASTE)
    with Working(site, tmp_path):
        wait_until(lambda: site.view(tmp_path, run_id).counts["DONE"], "a step that is done")
        sandbox.lose_leader()
        view = ended(site, tmp_path, run_id)
    for step, planned in zip(view.steps, steps, strict=True):
        now = config_of(sandbox, planned.partition.gpid)
        assert step.state in FINAL_STEPS
        assert (step.state == "DONE") == (now.primary == planned.target)
    assert proposals(sandbox) <= len(steps)


@pytest.mark.parametrize(
    ("call", "step"),
    [
        ("RPC_CM_CONTROL_META", SetMetaLevel(before="steady", level="lively")),
        ("RPC_CLI_CLI_CALL", SetServerSetting(key=DELAY, before="600000", value="10")),
    ],
)
def test_a_lost_reply_to_a_level_or_a_setting_is_settled_by_looking(
    sandbox: PegasusSandbox, site: PegasusSite, call: str, step: SetMetaLevel | SetServerSetting
) -> None:
    action = site.action(step)
    before = action.look()
    assert action.check_precondition(before) is None
    sandbox.look(lambda state: state.faults.lose_replies(call))
    with pytest.raises(RemoteError) as caught:
        action.send()
    assert caught.value.outcome == "unknown"
    result = site.settled(step, before)
    assert (result.state, result.code) == ("DONE", "set")
