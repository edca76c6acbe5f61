"""What the actions on a Pegasus cluster do and refuse; the sandbox tells what it was asked."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
from pegasus_site import HASTE, PROPOSE, PegasusSite, move, wait_until

from connectors.sandbox.pegasus.fleet import PegasusOptions, PegasusSandbox
from connectors.sandbox.pegasus.tables import create_table, drop_table
from core.errors import RemoteError
from core.pegasus.levels import FunctionLevel
from core.pegasus.plan.maintenance import drain_plan, offline_plan
from core.pegasus.plan.undo import UndoContext, undo_plan
from core.pegasus.steps.batch import PartitionProposal, ProposeMany
from core.pegasus.steps.change import ChangeReplica
from core.pegasus.steps.close import CloseReplicas
from core.pegasus.steps.level import LEVEL_KEY, SetMetaLevel
from core.pegasus.steps.partition import Partition
from core.pegasus.steps.setting import SetServerSetting
from core.pegasus.steps.wait import AwaitState
from core.plan.options import PlanOptions
from dashboard import services

FAST = PegasusOptions(tick_s=0.2, learn_mb_per_s=20_000, grace_s=0.3, failover_s=0.3)
RATE = "nfs.max_copy_rate_megabytes_per_disk"
LIST = "meta.lb.assign_secondary_black_list"


@pytest.fixture(scope="module")
def sandbox() -> Iterator[PegasusSandbox]:
    with PegasusSandbox(FAST) as running:
        yield running


@pytest.fixture
def site(sandbox: PegasusSandbox) -> Iterator[PegasusSite]:
    here = PegasusSite.of(sandbox.meta_servers)
    here.client.apply_level(FunctionLevel.STEADY)
    wait_until(lambda: is_healthy(here), "every partition healthy")
    yield here
    here.close()


def is_healthy(site: PegasusSite) -> bool:
    return all(one.primary and one.replica_count == 3 for _, one in site.every())


def proposals(sandbox: PegasusSandbox) -> int:
    return sandbox.look(lambda state: state.faults.count(PROPOSE))


def code_of(acted: Any) -> tuple[str, str]:
    assert acted.result is not None, acted.refusal
    return acted.result.state, acted.result.code


# -- moves and changes -------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["copy_pri", "copy_sec"])
def test_a_copy_goes_to_a_node_that_did_not_serve_the_partition(
    site: PegasusSite, kind: str
) -> None:
    table, config = site.some()
    source = str(config.primary) if kind == "copy_pri" else config.secondaries[0]
    target = site.stranger(config)
    acted = site.act(move(table, config, kind, source, target))
    assert code_of(acted) == ("DONE", "moved")
    now = site.partition(table, config.gpid)
    assert source not in now.members
    assert target in now.members
    assert (now.primary == target) == (kind == "copy_pri")


def test_one_move_is_one_proposal(sandbox: PegasusSandbox, site: PegasusSite) -> None:
    table, config = site.some()
    before = proposals(sandbox)
    acted = site.act(move(table, config, "move_pri", str(config.primary), config.secondaries[0]))
    assert code_of(acted) == ("DONE", "moved")
    assert proposals(sandbox) == before + 1


def test_a_replica_is_taken_out_and_the_guardian_adds_one_again(site: PegasusSite) -> None:
    table, config = site.some()
    node = config.secondaries[0]
    step = ChangeReplica(
        partition=Partition.of(config, table), change="DOWNGRADE_TO_INACTIVE", node=node
    )
    acted = site.act(step)
    assert acted.result is not None
    assert acted.result.state == "DONE"
    wait_until(lambda: is_healthy(site), "the lost replica")


DANGERS: dict[str, dict[str, Any]] = {
    "the same node at both ends": {"target": "{source}"},
    "a node of no name": {"target": ""},
    "a node that is not registered": {"target": "elsewhere:34801"},
    "the address in place of the name": {"target": "{address}"},
    "a target that is no member": {"target": "{stranger}"},
    "a copy onto a member": {"move": "copy_pri", "target": "{secondary}"},
    "a source that is not the primary": {"source": "{secondary}", "target": "{source}"},
}


@pytest.mark.parametrize("name", DANGERS)
def test_what_would_do_harm_is_refused_before_a_byte_is_sent(
    sandbox: PegasusSandbox, site: PegasusSite, name: str
) -> None:
    table, config = site.some()
    stranger = site.stranger(config)
    nodes = {node.name: node for node in site.client.fetch_nodes()}
    names = {
        "source": config.primary,
        "secondary": config.secondaries[0],
        "stranger": stranger,
        "address": nodes[config.secondaries[0]].address,
    }
    good = move(table, config, "move_pri", str(config.primary), config.secondaries[0])
    wrong = {key: str(value).format(**names) for key, value in DANGERS[name].items()}
    before = proposals(sandbox)
    acted = site.act(msgspec.structs.replace(good, **wrong))
    assert acted.refusal is not None
    assert acted.refusal.sentence
    assert proposals(sandbox) == before


@pytest.mark.parametrize(
    ("change", "whom"),
    [
        ("ADD_SECONDARY", "primary"),
        ("ADD_SECONDARY", "stranger"),
        ("ASSIGN_PRIMARY", "secondary"),
        ("DOWNGRADE_TO_INACTIVE", "primary"),
        ("REMOVE", "primary"),
        ("REMOVE", "stranger"),
        ("REMOVE", "nobody"),
    ],
)
def test_a_single_change_that_would_do_harm_is_refused_before_a_byte_is_sent(
    sandbox: PegasusSandbox, site: PegasusSite, change: Any, whom: str
) -> None:
    table, config = site.some()
    names = {
        "primary": str(config.primary),
        "secondary": config.secondaries[0],
        "stranger": site.stranger(config),
        "nobody": "",
    }
    before = proposals(sandbox)
    step = ChangeReplica(partition=Partition.of(config, table), change=change, node=names[whom])
    acted = site.act(step)
    assert acted.refusal is not None
    assert proposals(sandbox) == before


def test_a_level_outside_the_five_is_never_stored(
    sandbox: PegasusSandbox, site: PegasusSite
) -> None:
    acted = site.act(SetMetaLevel(before="steady", level="frozen"))
    assert acted.refusal is not None
    assert acted.refusal.code == "unknown_level"
    assert sandbox.look(lambda state: state.stored_level) == FunctionLevel.STEADY


def test_at_freezed_nothing_is_proposed(sandbox: PegasusSandbox, site: PegasusSite) -> None:
    table, config = site.some()
    site.client.apply_level(FunctionLevel.FREEZED)
    before = proposals(sandbox)
    acted = site.act(move(table, config, "move_pri", str(config.primary), config.secondaries[0]))
    assert acted.refusal is not None
    assert acted.refusal.code == "proposal_refused"
    assert "freezed" in acted.refusal.sentence
    assert proposals(sandbox) == before


def test_a_partition_that_moved_meanwhile_is_left_alone(
    sandbox: PegasusSandbox, site: PegasusSite
) -> None:
    table, config = site.some()
    step = move(table, config, "move_pri", str(config.primary), config.secondaries[0])
    other = move(table, config, "move_pri", str(config.primary), config.secondaries[1])
    assert code_of(site.act(other)) == ("DONE", "moved")
    before = proposals(sandbox)
    acted = site.act(step)
    assert acted.refusal is not None
    assert acted.refusal.code == "moved_meanwhile"
    assert str(config.primary) in acted.refusal.sentence
    assert proposals(sandbox) == before
    again = site.act(other)
    assert again.refusal is not None
    assert again.refusal.code == "already_there"


def test_a_second_proposal_for_the_same_partition_is_of_somebody_else_is_refused_by_the_server(
    sandbox: PegasusSandbox, site: PegasusSite
) -> None:
    table, config = site.some()
    target = site.stranger(config)
    copy = site.action(move(table, config, "copy_sec", config.secondaries[0], target))
    seen = copy.look()
    assert copy.check_precondition(seen) is None
    step = move(table, config, "move_pri", str(config.primary), config.secondaries[1])
    late = site.action(step)
    later = late.look()
    assert late.check_precondition(later) is None
    sandbox.look(lambda state: setattr(state, "stored_level", 300))  # it stays pending
    copy.send()
    with pytest.raises(RemoteError) as caught:
        late.send()
    assert caught.value.outcome == "refused"
    sandbox.look(lambda state: setattr(state, "stored_level", 400))
    assert site.settled(step, seen, copy).state == "DONE"


# -- many at once ------------------------------------------------------------------------------


def leaving(site: PegasusSite, node: str, limit: int = 400) -> ProposeMany:
    items = [
        PartitionProposal(partition=Partition.of(config, table), target=config.secondaries[0])
        for table, config in site.every()
        if config.primary == node
    ]
    return ProposeMany(node=node, verb="move_pri", items=tuple(items[:limit]))


def busiest(site: PegasusSite) -> str:
    leads = [str(config.primary) for _, config in site.every()]
    return max(set(leads), key=leads.count)


def test_a_node_gives_up_all_of_its_primaries_and_the_wait_for_it_ends(site: PegasusSite) -> None:
    node = busiest(site)
    wait = site.action(AwaitState(state="no_primaries", node=node))
    step = leaving(site, node)
    refusal = wait.check_precondition(wait.look())
    assert refusal is not None
    assert refusal.retry_s > 0
    assert refusal.sentence == f"{node}: {len(step.items)} of {len(step.items)} primaries left."
    acted = site.act(step)
    assert code_of(acted) == ("DONE", "moved")
    assert acted.result.sentence == f"{len(step.items)} of {len(step.items)} moved off {node}."
    seen = wait.look()
    assert wait.check_precondition(seen) is None
    assert wait.result(seen, seen).code == "reached"


def test_one_that_does_not_fit_does_not_stop_the_others(site: PegasusSite) -> None:
    node = busiest(site)
    step = leaving(site, node, 3)
    bad = msgspec.structs.replace(step.items[1], target="elsewhere:1")
    step = msgspec.structs.replace(step, items=(step.items[0], bad, step.items[2]))
    acted = site.act(step)
    assert code_of(acted) == ("FAILED", "partly")
    assert acted.result.sentence.startswith(
        f"2 of 3 moved off {node}; {bad.partition.gpid} did not: {bad.partition.gpid}: "
    )


def both_tables(site: PegasusSite, sandbox: PegasusSandbox, node: str) -> tuple[ProposeMany, int]:
    """Return a batch with partitions of a table that is new, and how many those are."""
    sandbox.change(lambda state: create_table(state, "short", 10, 3))
    step = leaving(site, node)
    items = [item for item in step.items if item.partition.table == "short"]
    others = [item for item in step.items if item.partition.table != "short"]
    assert items
    return msgspec.structs.replace(step, items=(*items, others[0])), len(items)


def test_partitions_of_a_table_that_is_dropped_have_left_the_node(
    sandbox: PegasusSandbox, site: PegasusSite
) -> None:
    node = busiest(site)
    step, count = both_tables(site, sandbox, node)
    sandbox.change(lambda state: drop_table(state, "short"))
    acted = site.act(step)
    assert code_of(acted) == ("DONE", "moved")
    assert acted.result.sentence == (
        f"{count + 1} of {count + 1} moved off {node}, {count} because the table was dropped."
    )
    only = msgspec.structs.replace(step, items=step.items[:count])
    refusal = site.act(only).refusal
    assert refusal is not None
    assert only.flags_of(refusal.code).is_needless
    none = site.act(msgspec.structs.replace(step, items=())).refusal
    assert none is not None
    assert none.sentence == f"All 0 partitions already left {node}."


def test_a_table_that_is_dropped_while_its_proposals_are_queued_has_left_the_node(
    sandbox: PegasusSandbox, site: PegasusSite
) -> None:
    node = busiest(site)
    step, count = both_tables(site, sandbox, node)
    action = site.action(step)
    before = action.look()
    assert action.check_precondition(before) is None
    action.send()
    sandbox.change(lambda state: drop_table(state, "short"))
    result = site.settled(step, before)
    assert (result.state, result.code) == ("DONE", "moved")
    assert f", {count} because the table was dropped." in result.sentence


def test_a_batch_that_a_dead_worker_sent_is_settled_by_looking(
    sandbox: PegasusSandbox, site: PegasusSite
) -> None:
    step = leaving(site, busiest(site), 4)
    sent = site.action(step)
    before = sent.look()
    assert sent.check_precondition(before) is None
    sent.send()
    count = proposals(sandbox)
    result = site.settled(step, before)
    assert (result.state, result.code) == ("DONE", "moved")
    assert proposals(sandbox) == count


def test_closing_what_is_still_served_is_refused(site: PegasusSite) -> None:
    table, config = site.some()
    acted = site.act(CloseReplicas(node=str(config.primary), partitions=(config.gpid,)))
    assert acted.refusal is not None
    assert acted.refusal.code == "still_member"
    stranger = site.stranger(config)
    # a replica that is not there, on a node that is no member, is closed
    acted = site.act(CloseReplicas(node=stranger, partitions=(config.gpid,)))
    assert code_of(acted) == ("DONE", "closed")
    assert acted.result is not None
    assert "1 were already closed" in acted.result.sentence
    assert table


def test_a_member_without_a_replica_is_no_closed_one(
    sandbox: PegasusSandbox, site: PegasusSite
) -> None:
    _, config = site.some()
    stranger = site.stranger(config)
    action = site.action(CloseReplicas(node=stranger, partitions=(config.gpid,)))
    assert action.check_precondition(action.look()) is None
    gpid = config.app_id, config.index
    joined = replace(config, secondaries=(*config.secondaries, stranger))
    sandbox.look(lambda state: setattr(state.partitions[gpid], "config", joined))
    sandbox.look(lambda state: state.faults.answer_commands("ERR_OBJECT_NOT_FOUND"))
    with pytest.raises(RemoteError, match="lists it as a member") as caught:
        action.send()
    sandbox.look(lambda state: setattr(state.partitions[gpid], "config", config))
    sandbox.look(lambda state: state.faults.answer_commands(None))
    assert caught.value.outcome == "refused"


def test_a_node_that_serves_nothing_has_closed_its_replicas_and_flushes_its_log(
    sandbox: PegasusSandbox, site: PegasusSite
) -> None:
    table, config = site.some()
    node, stranger = str(config.primary), site.stranger(config)
    wait = site.action(AwaitState(state="closed", node=node))
    seen = wait.look()
    refusal = wait.check_precondition(seen)
    assert refusal is not None
    assert refusal.retry_s > 0
    held = sandbox.look(
        lambda state: sum(
            node in one.config.members
            or (node in one.leftovers and (one.leftovers[node].is_open))
            or (node in one.leftovers and one.leftovers[node].is_closing)
            for one in state.partitions.values()
        )
    )
    assert refusal.sentence == (
        f"{node}: {held:,} of {held:,} replicas are still open. It closes them after 12 s "
        "(gc_memory_replica_interval_ms)."
    )
    # who settles what was begun because its time was up does not say that it is reached
    result = site.action(AwaitState(state="closed", node=node)).result(seen, wait.look())
    assert (result.state, result.code) == ("DONE", "gone_on")
    assert result.sentence.startswith(f"Not reached: {node} has closed its replicas.")
    served = site.action(AwaitState(state="no_primaries", node=node))
    result = served.result(served.look(), served.look())
    assert (result.state, result.code) == ("FAILED", "not_reached")
    acted = site.act(CloseReplicas(node=stranger, partitions=(config.gpid,)))
    assert acted.result.sentence.endswith("Its log was flushed.")
    assert table


def test_a_restart_without_a_noted_start_is_refused(site: PegasusSite) -> None:
    node = str(site.some()[1].primary)
    wait = site.action(AwaitState(state="restarted", node=node))
    refusal = wait.check_precondition(wait.look())
    assert refusal is not None
    assert (refusal.code, refusal.retry_s) == ("start_unknown", 0.0)


def test_clearing_what_is_pending_is_done_only_where_it_was_sent(site: PegasusSite) -> None:
    step = SetMetaLevel(before="steady", level="steady")
    dead, heir = site.action(step), site.action(step)
    before = dead.look()
    assert before.value == "steady"
    assert heir.result(before, heir.look()) is None
    result = heir.on_timeout(before, heir.look())
    assert (result.state, result.code) == ("FAILED", "not_done")
    assert code_of(site.act(step)) == ("DONE", "set")


# -- settings ----------------------------------------------------------------------------------


def test_a_rate_is_set_on_every_living_node_and_put_back_where_it_differed(
    sandbox: PegasusSandbox, site: PegasusSite
) -> None:
    first = sandbox.nodes[0]
    assert code_of(site.act(SetServerSetting(key=RATE, server=first, value="50"))) == (
        "DONE",
        "set",
    )
    everywhere = f"{RATE}@*"
    was = site.cluster.dynamic_setting(everywhere)
    assert was is not None
    assert json.loads(was) == {name: "50" if name == first else "500" for name in sandbox.nodes}
    assert code_of(site.act(SetServerSetting(key=RATE, server="*", value="100"))) == ("DONE", "set")
    assert site.cluster.dynamic_setting(everywhere) == "100"
    site.cluster.set_dynamic_setting(everywhere, was)
    assert site.cluster.dynamic_setting(everywhere) == was
    site.cluster.set_dynamic_setting(everywhere, "500")


def test_a_value_that_one_node_did_not_take_is_told_node_by_node(
    sandbox: PegasusSandbox, site: PegasusSite
) -> None:
    site.cluster.set_dynamic_setting(f"{RATE}@*", "500")
    deaf = sandbox.nodes[-1]
    action = site.action(SetServerSetting(key=RATE, server="*", value="100"))
    before = action.look()
    assert action.check_precondition(before) is None
    sandbox.mute_node(deaf)
    with pytest.raises(RemoteError, match=f"was set on 4 of 5 nodes, not on {deaf}") as caught:
        action.send()
    assert caught.value.outcome == "unknown"
    sandbox.mute_node(deaf, is_mute=False)
    now = action.look()
    assert action.result(before, now) is None
    result = action.on_timeout(before, now)
    assert (result.state, result.code) == ("FAILED", "partly")
    assert f"was set on 4 of 5 nodes, not on {deaf} (500)" in result.sentence
    site.cluster.set_dynamic_setting(f"{RATE}@*", "500")


def test_a_value_that_no_node_took_was_refused(sandbox: PegasusSandbox, site: PegasusSite) -> None:
    for node in sandbox.nodes:
        sandbox.mute_node(node)
    with pytest.raises(RemoteError) as caught:
        site.cluster.set_dynamic_setting(f"{RATE}@*", "100")
    assert caught.value.outcome == "refused"
    for node in sandbox.nodes:
        sandbox.mute_node(node, is_mute=False)


def test_a_list_is_set_compared_without_order_and_cleared(
    sandbox: PegasusSandbox, site: PegasusSite
) -> None:
    one, other = sandbox.nodes[:2]
    acted = site.act(SetServerSetting(key=LIST, before="", value=f"{one},{other}"))
    assert code_of(acted) == ("DONE", "set")
    again = site.act(SetServerSetting(key=LIST, before="", value=f"{other},{one}"))
    assert again.refusal is not None
    assert again.refusal.code == "already_set"
    site.cluster.set_dynamic_setting(LIST, "")
    assert site.cluster.dynamic_setting(LIST) == ""


def test_a_setting_that_somebody_changed_meanwhile_is_left_alone(site: PegasusSite) -> None:
    step = SetServerSetting(key="meta.lb.assign_delay_ms", before="1", value="2")
    acted = site.act(step)
    assert acted.refusal is not None
    assert acted.refusal.code == "changed_meanwhile"


@pytest.mark.parametrize(
    ("key", "how", "value", "code"),
    [
        ("min_live_node_count_for_unfreeze", "flag", "9", "would_freeze"),
        (LIST, "command", "elsewhere:34801", "node_unknown"),
    ],
)
def test_a_value_that_would_harm_the_cluster_as_it_is_is_refused(
    site: PegasusSite, key: str, how: Any, value: str, code: str
) -> None:
    was = site.cluster.dynamic_setting(key)
    acted = site.act(SetServerSetting(key=key, how=how, before=was, value=value))
    assert acted.refusal is not None
    assert acted.refusal.code == code
    assert site.cluster.dynamic_setting(key) == was


def test_the_whole_clusters_policy_is_refused_while_a_table_has_a_single_replica(
    sandbox: PegasusSandbox, site: PegasusSite
) -> None:
    whole = sandbox.look(lambda state: state.tables[1])
    single = replace(whole, max_replica_count=1)
    sandbox.look(lambda state: state.tables.update({1: single}))
    step = SetServerSetting(key="balance_cluster", how="flag", before="false", value="true")
    acted = site.act(step)
    sandbox.look(lambda state: state.tables.update({1: whole}))
    assert acted.refusal is not None
    assert acted.refusal.code == "kills_meta_server"
    assert site.cluster.dynamic_setting("balance_cluster") == "false"


@pytest.mark.parametrize(
    "key", ["fd.allow_list", "lb_interval_ms", f"{RATE}", "meta.lb.assign_delay_ms@localhost:1"]
)
def test_settings_that_are_none_of_ours_are_never_sent(site: PegasusSite, key: str) -> None:
    with pytest.raises(RemoteError) as caught:
        site.cluster.set_dynamic_setting(key, "1")
    assert caught.value.outcome == "not_sent"


def test_a_value_that_servers_refuse_is_not_sent(site: PegasusSite) -> None:
    for key, value in [(f"{RATE}@*", "3"), (LEVEL_KEY, "frozen"), ("balance_cluster", "perhaps")]:
        with pytest.raises(RemoteError) as caught:
            site.cluster.set_dynamic_setting(key, value)
        assert caught.value.outcome == "not_sent"


def test_the_level_says_what_it_was_and_that_pending_proposals_are_gone(site: PegasusSite) -> None:
    acted = site.act(SetMetaLevel(before="steady", level="lively"))
    assert code_of(acted) == ("DONE", "set")
    acted = site.act(SetMetaLevel(before="lively", level="steady"))
    assert code_of(acted) == ("DONE", "set")
    assert "proposals are discarded" in acted.result.sentence
    stale = site.act(SetMetaLevel(before="lively", level="freezed"))
    assert stale.refusal is not None
    assert stale.refusal.code == "changed_meanwhile"


# -- waiting -----------------------------------------------------------------------------------


def test_balanced_is_believed_after_four_readings_at_lively(site: PegasusSite) -> None:
    wait = site.action(AwaitState(state="balanced"))
    refusal = wait.check_precondition(wait.look())
    assert refusal is not None
    assert "steady" in refusal.sentence
    site.client.apply_level(FunctionLevel.LIVELY)
    told: list[str] = []

    def is_reached() -> bool:
        seen = wait.look()
        told.append(seen.detail)
        return wait.check_precondition(seen) is None

    wait_until(is_reached, "balance")
    assert any("3 of 4" in one for one in told)


def test_a_restart_is_told_by_the_process_and_a_dead_node_is_gone(
    sandbox: PegasusSandbox, site: PegasusSite
) -> None:
    node = sandbox.nodes[-1]
    seen = site.action(AwaitState(state="running", node=node)).look()
    assert seen.detail == ""
    wait = site.action(AwaitState(state="restarted", node=node, started_at=seen.value))
    refusal = wait.check_precondition(wait.look())
    assert refusal is not None
    assert "Restart it now" in refusal.sentence
    sandbox.lose_node(node)
    gone = site.action(AwaitState(state="gone", node=node))
    wait_until(lambda: gone.check_precondition(gone.look()) is None, "the loss of the node")
    assert wait.look().detail == f"{node} is not alive. Start its process."
    healthy = site.action(AwaitState(state="healthy"))
    assert healthy.check_precondition(healthy.look()) is not None
    started_s = sandbox.look(lambda state: state.nodes[node].started_s)
    sandbox.regain_node(node)
    assert sandbox.look(lambda state: state.nodes[node].started_s) > started_s
    wait_until(lambda: wait.check_precondition(wait.look()) is None, "the restart")
    wait_until(lambda: healthy.check_precondition(healthy.look()) is None, "health")


# -- through the executor ----------------------------------------------------------------------


def test_a_run_moves_replicas_and_is_taken_back(site: PegasusSite, tmp_path: Path) -> None:
    (table, one), (_, other) = site.every()[:2]
    delay = SetServerSetting(key="meta.lb.assign_delay_ms", before="600000", value="700000")
    steps = [
        delay,
        move(table, one, "move_pri", str(one.primary), one.secondaries[0]),
        move(table, other, "copy_sec", other.secondaries[0], site.stranger(other)),
    ]
    view = site.execute_run(tmp_path, site.plan(*steps))
    assert view.state == "DONE", view.sentence
    assert [step.result.code for step in view.steps if step.result] == ["set", "moved", "moved"]
    back = undo_plan(view, UndoContext(snapshot=site.cluster.snapshot(), now=datetime.now(UTC)))
    assert [step.subject for step in back.steps] == [other.gpid, one.gpid, delay.key]
    undone = site.execute_run(tmp_path, back)
    assert undone.state == "DONE", undone.sentence
    for before in (one, other):
        now = site.partition(table, before.gpid)
        assert (now.primary, set(now.secondaries)) == (before.primary, set(before.secondaries))
    assert site.cluster.dynamic_setting(delay.key) == "600000"


def test_a_dry_run_says_what_would_be_sent_and_sends_nothing(
    sandbox: PegasusSandbox, site: PegasusSite, tmp_path: Path
) -> None:
    node = busiest(site)
    plan = drain_plan(site.cluster.snapshot(), [node], PlanOptions(now=datetime.now(UTC)))
    before, ballots = proposals(sandbox), [config.ballot for _, config in site.every()]
    found = services.rehearse(site.trimtab(tmp_path), site.config.name, plan, HASTE)
    assert found.state == "DONE", found.sentence
    assert found.requests >= 2
    assert proposals(sandbox) == before
    assert [config.ballot for _, config in site.every()] == ballots
    assert site.cluster.dynamic_setting(LIST) == ""


def test_a_dry_run_judges_no_close_by_what_the_node_still_serves(
    site: PegasusSite, tmp_path: Path
) -> None:
    plan = offline_plan(
        site.cluster.snapshot(), [busiest(site)], PlanOptions(now=datetime.now(UTC))
    )
    found = services.rehearse(site.trimtab(tmp_path), site.config.name, plan, HASTE)
    closing = [item for item in found.steps if isinstance(item.step, CloseReplicas)]
    assert [item.code for item in closing] == ["would_send"]
    assert not [item for item in found.steps if "plan was made" in item.sentence]
    assert "still serves" not in closing[0].sentence
    asked = [step for step in plan.steps if isinstance(step, SetServerSetting)]
    assert found.settings[: len(asked)] == tuple((step.subject, step.value) for step in asked)
    assert len(found.settings) > len(asked)  # and back


def test_read_only_and_excluded_tables_hold(
    sandbox: PegasusSandbox, site: PegasusSite, tmp_path: Path
) -> None:
    table, config = site.some()
    step = move(table, config, "move_pri", str(config.primary), config.secondaries[0])
    before = proposals(sandbox)
    refused = site.execute_run(tmp_path, site.plan(step), read_only=True)
    assert refused.state == "REFUSED"
    skipped = site.execute_run(tmp_path / "other", site.plan(step), exclusions=[f"{table[:2]}*"])
    assert skipped.steps[0].result is not None
    assert skipped.steps[0].result.code == "excluded"
    assert proposals(sandbox) == before
