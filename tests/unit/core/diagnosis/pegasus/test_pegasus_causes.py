"""Each pattern of the Pegasus diagnosis: named where it decides, silent in the healthy twin."""

from __future__ import annotations

import pytest
from pegasus_diagnosis import CALM, LIVELY, cluster, diagnose, even_parts, node_names, proven

NODES = node_names(5)
GONE = "db6:34801"
JOINED = even_parts(1, 40, NODES[:4])  # the fifth node just joined
FLOW = {
    "add_secondary_enable_flow_control": "true",
    "add_secondary_max_count_for_one_node": "0",
}


def codes(found):
    return [cause.code for cause in found.causes]


def lacking(*, lost=False, nodes=NODES, count=40):
    """Even partitions; one has no replica, or two of three, since GONE died."""
    parts = even_parts(1, count, nodes)
    parts[3] |= (
        {"primary": None, "secondaries": [], "last_drops": [nodes[0], nodes[1], GONE]}
        if lost
        else {"secondaries": parts[3]["secondaries"][:1], "last_drops": [GONE]}
    )
    return parts


def after_loss(parts, settings=None, **more):
    return cluster(parts, nodes=6, dead=[GONE], settings={**LIVELY, **(settings or {})}, **more)


# -- unhealthy partitions -----------------------------------------------------------------------


def test_the_guardian_waits_for_the_node_that_held_a_replica():
    found = diagnose(after_loss(lacking()))
    [cause] = found.causes
    assert cause.code == "partitions_wait_for_node"
    assert cause.objects == (GONE,)
    assert (cause.effect.before.missing, cause.effect.after.missing) == (1, 0)
    assert "up to 10 min for db6:34801" in cause.summary
    assert found.problem == "1 of 40 partitions under-replicated."


def test_the_guardian_repairs_what_no_dead_node_held():
    parts = lacking()
    parts[3]["last_drops"] = []
    assert codes(diagnose(cluster(parts, settings=LIVELY))) == ["partitions_under_repair"]


def test_a_partition_that_lost_every_replica_holds_the_balancer():
    [cause] = diagnose(after_loss(lacking(lost=True))).causes
    assert cause.code == "partitions_lost"
    assert cause.objects == ("1.3",)
    assert GONE in cause.hint
    assert (cause.effect.before.missing, cause.effect.after.missing) == (1, 0)


@pytest.mark.parametrize(
    ("settings", "code", "wanted"),
    [
        (
            FLOW,
            "adds_blocked_by_flow_control",
            {"meta.lb.add_secondary_max_count_for_one_node": "20"},
        ),
        (
            {"assign_secondary_black_list": ",".join(NODES)},
            "black_list_blocks_repair",
            {"meta.lb.assign_secondary_black_list": ""},
        ),
    ],
)
def test_a_setting_that_stops_repairs_is_named_and_set_back(settings, code, wanted):
    [cause] = diagnose(after_loss(lacking(), settings)).causes
    assert cause.code == code
    assert cause.fix.wanted == wanted
    assert (cause.effect.before.missing, cause.effect.after.missing) == (1, 0)
    healthy = cluster(even_parts(1, 40, NODES), settings={**LIVELY, **CALM, **settings})
    assert diagnose(healthy).causes == ()


def test_a_black_list_that_leaves_other_nodes_is_no_cause():
    settings = {"assign_secondary_black_list": NODES[0]}
    assert codes(diagnose(after_loss(lacking(), settings))) == ["partitions_wait_for_node"]


def test_a_table_that_wants_more_replicas_than_there_are_nodes():
    parts = even_parts(1, 12, NODES[:3], replicas=3)
    for one in parts:
        one |= {"max_replica_count": 4}
    [cause] = diagnose(cluster(parts, nodes=3, settings=LIVELY)).causes
    assert cause.code == "too_few_nodes"
    assert (cause.measured, cause.threshold) == (3.0, 4.0)
    assert cause.effect.after.missing == 0


def test_what_holds_the_balancer_together_is_named_together():
    found = diagnose(after_loss(lacking(), {"level.stored": "400", "level.effective": "steady"}))
    assert "level steady, 1 unhealthy partition" in found.notes[0]


# -- the balancer as a whole on hold ------------------------------------------------------------


def test_a_table_being_created_puts_the_balancer_on_hold():
    [cause] = diagnose(cluster(JOINED, settings=LIVELY, tables={3: {"status": "creating"}})).causes
    assert cause.code == "table_staging"
    assert cause.objects == ("t3",)
    even = cluster(
        even_parts(1, 40, NODES), settings={**LIVELY, **CALM}, tables={3: {"status": "creating"}}
    )
    assert diagnose(even).causes == ()


def test_an_operation_count_of_minus_one_is_a_meta_server_without_disks():
    unknown = {"balance_operation_count": '{"total": -1}'}
    [cause] = diagnose(cluster(JOINED, settings={**LIVELY, **unknown})).causes
    assert cause.code == "disks_unreported"


# -- a node that gets nothing -------------------------------------------------------------------


def test_a_node_without_space_gets_nothing_and_the_balancer_does_not_converge():
    full = {NODES[4]: [("ssd1", 50), ("ssd2", 20)]}
    found = diagnose(cluster(JOINED, settings=LIVELY, disks=full))
    [cause] = found.causes
    assert cause.code == "node_disks_full"
    assert cause.objects == (NODES[4],)
    assert (cause.measured, cause.threshold) == (0.05, 0.1)
    assert not cause.effect.before.converges
    assert cause.effect.after.converges
    assert "none is executed" in found.problem


def test_a_full_node_is_chosen_for_a_lost_replica_in_vain():
    parts = even_parts(1, 40, NODES[:4])
    parts[3] |= {"secondaries": parts[3]["secondaries"][:1]}
    full = {NODES[4]: [("ssd1", 50)]}
    found = diagnose(cluster(parts, settings=LIVELY, disks=full))
    cause = found.causes[0]
    assert cause.code == "node_disks_full"
    assert (cause.effect.before.missing, cause.effect.after.missing) == (1, 0)
    assert "partitions lack replicas" in cause.hint


def test_one_full_disk_of_two_is_a_fact_and_no_cause_of_uneven_load():
    half = {NODES[4]: [("ssd1", 50), ("ssd2", 500)]}
    found = diagnose(cluster(JOINED, settings=LIVELY, disks=half))
    assert codes(found) == ["disk_short"]
    assert proven(found) == []


def test_the_black_list_does_not_hold_the_balancer():
    settings = {**LIVELY, "assign_secondary_black_list": NODES[4]}
    found = diagnose(cluster(JOINED, settings=settings), node=NODES[4])
    assert found.causes == ()
    assert "the balancer ignores the list" in found.notes[0]


def test_a_dead_node_gets_nothing():
    found = diagnose(
        cluster(even_parts(1, 40, NODES), nodes=6, dead=[GONE], settings=LIVELY), node=GONE
    )
    [cause] = found.causes
    assert cause.code == "node_dead"
    assert found.problem == "db6:34801 is dead: it receives no replicas."
    assert (cause.effect.before.deviation, cause.effect.after.deviation <= 0.2) == (1.0, True)


def test_of_a_dead_node_its_death_comes_before_the_partitions_that_wait_for_it():
    found = diagnose(after_loss(lacking()), node=GONE)
    assert codes(found) == ["node_dead", "partitions_wait_for_node"]


# -- switches and tables ------------------------------------------------------------------------


@pytest.mark.parametrize("level", [LIVELY, {}])
@pytest.mark.parametrize(
    ("settings", "code"),
    [
        ({"only_primary_balancer": "true"}, "only_primary_balancer"),
        ({"ignored_app_list": "1"}, "ignored_app_list"),
        (
            {"only_move_primary": "true", "only_primary_balancer": "true"},
            "only_primary_balancer",
        ),
    ],
)
def test_a_switch_that_holds_the_balancer_is_named_with_its_effect(settings, code, level):
    found = diagnose(cluster(JOINED, settings={**settings, **level}))
    switch = next(cause for cause in found.causes if cause.code == code)
    assert switch.effect.after.deviation == 0.0
    assert switch.effect.before.deviation > 0.5
    assert set(switch.fix.wanted) == {*switch.keys, *(() if level else ("meta level",))}
    even = cluster(even_parts(1, 40, NODES), settings={**CALM, **settings, **level})
    assert diagnose(even).causes == ()


def test_only_move_primary_does_not_stop_the_copying_of_secondaries():
    found = diagnose(cluster(JOINED, settings={**LIVELY, "only_move_primary": "true"}))
    assert found.causes == ()


def test_only_move_primary_leaves_primaries_where_no_chain_of_roles_leads():
    # replicas are even, but no secondary is where a primary would have to go
    pairs = [(0, 1), (1, 0)] * 6 + [(2, 3)] * 12
    parts = even_parts(1, 24, NODES[:4], replicas=2)
    for one, (led, other) in zip(parts, pairs, strict=True):
        one |= {"primary": NODES[led], "secondaries": [NODES[other]]}
    for one in parts[12:]:
        one |= {"primary": NODES[2], "secondaries": [NODES[3]]}
    settings = {**LIVELY, "only_move_primary": "true"}
    found = diagnose(cluster(parts, nodes=4, settings=settings))
    assert found.causes == ()  # roles change on db3 and db4 themselves
    parts = even_parts(1, 8, NODES[:4], replicas=1)
    for one in parts:
        one |= {"primary": NODES[0]}
    settings = settings | {"mutation_2pc_min_replica_count": "1"}
    [cause] = diagnose(cluster(parts, nodes=4, settings=settings)).causes
    assert cause.code == "only_move_primary"
    assert cause.effect.after.deviation == 0.0


def test_one_table_in_turn_only_takes_longer():
    found = diagnose(cluster(JOINED, settings={**LIVELY, "balancer_in_turn": "true"}))
    assert found.causes == ()


def test_a_table_in_a_bulk_load_is_passed_over():
    parts = [*JOINED, *even_parts(2, 20, NODES)]
    [cause] = diagnose(
        cluster(parts, settings=LIVELY, tables={1: {"is_bulk_loading": True}})
    ).causes
    assert cause.code == "table_bulk_loading"
    assert cause.objects == ("t1",)


def test_fewer_partitions_than_nodes():
    nodes = node_names(8)
    [cause] = diagnose(cluster(even_parts(1, 2, nodes), nodes=8, settings=LIVELY)).causes
    assert cause.code == "too_few_partitions"
    assert "x4" in cause.hint
    assert diagnose(cluster(even_parts(1, 8, nodes), nodes=8, settings=LIVELY)).causes == ()


def test_tables_skewed_against_each_other_are_judged_one_by_one():
    # totals are even: table 1 is led by two nodes, table 2 by the two others
    parts = [
        *even_parts(1, 12, NODES[:2], replicas=2),
        *even_parts(2, 12, NODES[2:4], replicas=2),
    ]
    [cause] = diagnose(cluster(parts, nodes=4)).causes
    assert cause.code == "level_below_lively"
    assert "of table t1" in cause.summary
    assert cause.effect.before.deviation == 1.0
    assert cause.effect.after.deviation == 0.0


# -- disks --------------------------------------------------------------------------------------


def test_one_disk_of_a_node_with_nearly_all_of_its_replicas():
    def disk_of(row):
        return "ssd1" if row["node"] == NODES[1] else f"ssd{row['index'] % 2 + 1}"

    parts = even_parts(1, 80, NODES)
    found = diagnose(cluster(parts, settings={**LIVELY, **CALM}, disk_of=disk_of))
    assert codes(found) == ["disks_uneven"]
    [cause] = found.causes
    assert cause.objects == (NODES[1], "ssd1")
    assert cause.effect.before.deviation == 1.0
    assert cause.effect.after.deviation == 0.0
    assert diagnose(cluster(parts, settings={**LIVELY, **CALM})).causes == ()
