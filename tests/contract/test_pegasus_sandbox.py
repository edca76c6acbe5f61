"""The Pegasus sandbox: it repairs, balances, forgets and freezes as the real servers do."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from connectors.config.model import ClusterConfig
from connectors.pegasus.collect import PegasusCollector
from connectors.pegasus.rpc.client import MetaClient, ServerClient
from connectors.sandbox.pegasus.fleet import PegasusOptions, PegasusSandbox
from connectors.sandbox.pegasus.state import found_cluster
from core.errors import ConflictError, InputError, NotFoundError
from core.pegasus.balance.model import PlanKind
from core.pegasus.levels import FunctionLevel
from core.pegasus.partition import PartitionConfig
from core.pegasus.proposal import ProposalContext, propose_move
from core.pegasus.reconfigure import reconcile
from core.pegasus.snapshot import PegasusFacts
from core.pegasus.summary import summarize_nodes
from core.pegasus.verdict import OperationCounts

FAST = PegasusOptions(tick_s=0.4, learn_mb_per_s=20_000, grace_s=0.3, failover_s=0.3)
DEADLINE_S = 90.0


def wait_until(is_true: Callable[[], bool], what: str) -> None:
    event = threading.Event()
    for _ in range(int(DEADLINE_S / 0.1)):
        if is_true():
            return
        event.wait(0.1)
    pytest.fail(f"{what}: not within {DEADLINE_S:.0f} s")


@pytest.fixture
def sandbox() -> Iterator[PegasusSandbox]:
    with PegasusSandbox(FAST) as running:
        yield running


@pytest.fixture
def meta(sandbox: PegasusSandbox) -> Iterator[MetaClient]:
    client = MetaClient(sandbox.meta_servers)
    yield client
    client.close()


def configs_of(sandbox: PegasusSandbox) -> list[PartitionConfig]:
    return sandbox.look(lambda state: [one.config for one in state.partitions.values()])


def is_healthy(sandbox: PegasusSandbox) -> bool:
    return all(one.primary and one.replica_count == 3 for one in configs_of(sandbox))


def held_by(sandbox: PegasusSandbox, node: str) -> int:
    return sum(node in one.members for one in configs_of(sandbox))


def collected(sandbox: PegasusSandbox) -> PegasusFacts:
    config = ClusterConfig(
        name="sandbox", kind="pegasus", meta_servers=sandbox.meta_servers, rate_sample_s=0.2
    )
    collector = PegasusCollector(config)
    try:
        return PegasusFacts(collector.collect())
    finally:
        collector.close()


def test_it_is_founded_by_its_seed_alone():
    ports = [1, 2, 3, 4, 5]

    def placed(seed: int) -> object:
        state = found_cluster(PegasusOptions(seed=seed), ports, now_s=0, now_mono_s=0)
        return state.numbering, [
            (one.config, one.disks, one.size_mb) for one in state.partitions.values()
        ]

    assert placed(7) == placed(7)
    assert placed(7) != placed(8)


def test_it_has_six_tables_of_8_to_128_partitions_on_five_nodes():
    state = found_cluster(PegasusOptions(), [1, 2, 3, 4, 5], now_s=0, now_mono_s=0)
    counts = [table.partition_count for table in state.tables.values()]
    assert (len(counts), min(counts), max(counts), len(state.nodes)) == (6, 8, 128, 5)


@pytest.mark.parametrize("change", [{"nodes": 2}, {"metas": 0}, {"tick_s": 0.0}])
def test_a_size_or_a_pace_that_cannot_be_is_refused(change):
    with pytest.raises(InputError):
        replace(FAST, **change)


def test_at_lively_it_balances_in_rounds_until_nothing_is_left(sandbox, meta):
    before = meta.fetch_cluster_info()
    meta.apply_level(FunctionLevel.LIVELY)

    def is_converged() -> bool:
        counts = meta.fetch_cluster_info().operations
        return counts == OperationCounts(0, 0, 0, 0) and is_healthy(sandbox)

    wait_until(is_converged, "balanced")
    after = meta.fetch_cluster_info()
    assert after.primary_stddev < before.primary_stddev / 4
    assert after.replica_stddev < before.replica_stddev / 4
    per_table = {}
    for one in configs_of(sandbox):
        per_table.setdefault(one.app_id, []).append(one.primary)
    for primaries in per_table.values():
        counts = [primaries.count(node) for node in sandbox.nodes]
        assert max(counts) - min(counts) <= 1


def test_at_steady_it_counts_and_moves_nothing(sandbox, meta):
    before = configs_of(sandbox)

    def is_counted() -> bool:
        return sandbox.look(lambda state: state.counts.total) > 0

    wait_until(is_counted, "counted")
    assert configs_of(sandbox) == before
    assert collected(sandbox).verdict().state == "not_balanced"


def test_before_its_first_look_the_count_is_unknown_and_named_so():
    with PegasusSandbox(replace(FAST, tick_s=600)) as sandbox:
        facts = collected(sandbox)
    assert facts.operations.total == -1
    assert facts.verdict().state == "unknown"
    assert "missing" in {problem.code for problem in facts.snapshot.manifest.problems}


def test_a_proposed_move_happens_in_two_ballots_and_a_second_one_is_refused_meanwhile():
    with PegasusSandbox(replace(FAST, tick_s=3.0)) as sandbox:
        meta = MetaClient(sandbox.meta_servers)
        (config,) = meta.fetch_partitions("orders", [3])
        context = ProposalContext(
            {node.name: node for node in meta.fetch_nodes()}, meta.fetch_stored_level()
        )
        move = (PlanKind.MOVE_PRIMARY, config.primary, config.secondaries[0])
        proposal = propose_move(context, config, *move)
        meta.apply_proposal(proposal)
        with pytest.raises(ConflictError):
            meta.apply_proposal(proposal)

        def now() -> PartitionConfig:
            return meta.fetch_partitions("orders", [3])[0]

        wait_until(lambda: now().ballot == config.ballot + 2, "moved")
        assert reconcile(config, proposal.actions, now()).state == "done"
        meta.close()


def test_a_lost_node_is_dropped_from_its_partitions_and_taken_back(sandbox, meta):
    lost = sandbox.nodes[2]
    assert held_by(sandbox, lost) > 0
    sandbox.lose_node(lost)
    wait_until(lambda: held_by(sandbox, lost) == 0, "dropped")
    assert not {node.name: node.is_alive for node in meta.fetch_nodes()}[lost]
    assert any(lost in one.last_drops for one in configs_of(sandbox))
    wait_until(lambda: all(one.primary for one in configs_of(sandbox)), "led")

    facts = collected(sandbox)
    down = [one for one in facts.snapshot.manifest.problems if one.place == lost]
    assert [one.code for one in down] == ["unreachable"]
    assert lost not in facts.disks
    (told,) = [one for one in summarize_nodes(facts) if one.name == lost]
    assert set(told.stats.values()) == {None}

    sandbox.regain_node(lost)
    wait_until(lambda: is_healthy(sandbox), "healthy again")
    assert held_by(sandbox, lost) > 0


def test_with_too_few_nodes_the_level_in_force_is_freezed_and_nothing_is_cured(sandbox, meta):
    for lost in sandbox.nodes[:3]:
        sandbox.lose_node(lost)
    wait_until(lambda: meta.fetch_cluster_info().level_word == "freezed", "the level to be freezed")
    assert meta.fetch_stored_level() is FunctionLevel.STEADY
    facts = collected(sandbox)
    assert (facts.stored_level, facts.effective_level) == (
        FunctionLevel.STEADY,
        FunctionLevel.FREEZED,
    )
    assert facts.verdict().state == "unknown"


def test_another_meta_server_takes_over_and_has_forgotten_the_level(sandbox, meta):
    meta.apply_level(FunctionLevel.LIVELY)
    sandbox.lose_leader()
    info = meta.fetch_cluster_info()
    assert info.leader == sandbox.meta_servers[1]
    assert meta.fetch_stored_level() is FunctionLevel.STEADY


def test_a_node_that_knows_no_command_leaves_its_version_unknown(sandbox):
    mute = sandbox.nodes[1]
    sandbox.mute_node(mute)
    facts = collected(sandbox)
    versions = {row["node"]: row["version"] for row in facts.rows("nodes")}
    assert versions[mute] is None
    assert all(version for name, version in versions.items() if name != mute)
    codes = {one.code for one in facts.snapshot.manifest.problems}
    assert codes <= {"unsupported", "missing"}


def test_switches_set_by_command_are_read_back(sandbox, meta):
    meta.send_command("meta.lb.only_move_primary", "true")
    meta.send_command("meta.lb.ignored_app_list", "set", "2,3")
    options, assumed = collected(sandbox).options()
    assert options.only_move_primary
    assert options.ignored_app_ids == {2, 3}
    assert not assumed
    assert meta.send_command("meta.lb.only_move_primary", "maybe")["error"].startswith("ERR")


def test_commands_of_the_balancer_are_known_by_the_leader_alone(sandbox):
    follower = ServerClient(sandbox.meta_servers[1])
    with pytest.raises(NotFoundError):
        follower.send_command("meta.lb.only_move_primary")
    assert follower.send_command("server-info")["version"]
    follower.close()


def test_setting_steady_throws_pending_proposals_away():
    with PegasusSandbox(replace(FAST, tick_s=600)) as sandbox:
        meta = MetaClient(sandbox.meta_servers)
        (config,) = meta.fetch_partitions("orders", [3])
        nodes = {node.name: node for node in meta.fetch_nodes()}
        context = ProposalContext(nodes, FunctionLevel.STEADY)
        move = (PlanKind.MOVE_PRIMARY, config.primary, config.secondaries[0])
        meta.apply_proposal(propose_move(context, config, *move))
        pending = sandbox.look(lambda state: len(state.partitions[3, 3].memory.pending))
        meta.apply_level(FunctionLevel.STEADY)
        left = sandbox.look(lambda state: len(state.partitions[3, 3].memory.pending))
        assert (pending, left) == (2, 0)
        meta.close()
