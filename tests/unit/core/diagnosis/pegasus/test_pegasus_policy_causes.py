"""The policy as a cause: in circles, stuck, or blind to the whole cluster."""

from __future__ import annotations

import json

from pegasus_diagnosis import CALM, LIVELY, cluster, cluster_of, diagnose, even_parts, node_names
from pegasus_snapshots import part_row

from core.pegasus.trace_form import parse_trace, view_of

CIRCLE = """35 05 30 35 30 50 50 35 30 03 03 35 53 35 50 35 50 03 03 05 30 03"""
CIRCLE_DISKS = """10 10 00 10 11 00 01 10 00 10 01 00 11 10 01 10 00 01 11 00 01 11"""
STUCK = """134 241 314 132 123 421 143 421 324 142 243 312"""
STUCK_DISKS = """112 111 111 111 212 112 112 111 111 122 212 121"""
NODES = node_names(5)
WHOLE = {**LIVELY, "balance_cluster": "true"}


def going_in_circles():
    """Two replicas a partition, on three of six nodes, where the cluster policy never ends."""
    rows = [
        [[f"10.0.0.{int(node) + 1}:34801", f"d{disk}"] for node, disk in zip(*both, strict=True)]
        for both in zip(CIRCLE.split(), CIRCLE_DISKS.split(), strict=True)
    ]
    tables = [
        {"app_id": app_id, "max_replica_count": 2, "partitions": rows[start:end]}
        for app_id, start, end in ((1, 0, 5), (2, 5, 11), (3, 11, 22))
    ]
    nodes = [f"10.0.0.{node + 1}:34801" for node in range(6)]
    given = {"nodes": nodes, "disks": ["d0", "d1"], "apps": tables}
    written = json.dumps({"input": given, "node_numbering": nodes}).encode()
    return view_of(parse_trace(written, "circle"))


def codes(found):
    return [cause.code for cause in found.causes]


def test_the_cluster_policy_in_circles_is_named_with_what_ends_them():
    found = diagnose(cluster_of(going_in_circles(), settings=WHOLE))
    cause = found.causes[0]
    assert cause.code == "policy_circles"
    assert not cause.effect.before.converges
    assert cause.effect.after.converges
    assert cause.fix.wanted
    assert found.problem.startswith("The balancer does not converge: ")


def test_the_same_state_under_the_app_policy_goes_in_no_circle():
    found = diagnose(cluster_of(going_in_circles(), settings=LIVELY))
    assert "policy_circles" not in codes(found)


def test_tables_that_are_even_each_by_itself_leave_the_cluster_uneven():
    parts = [one for table in range(1, 11) for one in even_parts(table, 6, NODES)]
    found = diagnose(cluster(parts, settings={**LIVELY, **CALM}))
    assert codes(found) == ["policy_per_table"]
    [cause] = found.causes
    assert cause.fix.wanted["balance_cluster"] == "true"
    assert cause.effect.gain > 0.2
    spread = [one for table in range(1, 11) for one in even_parts(table, 6, NODES, start=table)]
    assert diagnose(cluster(spread, settings={**LIVELY, **CALM})).causes == ()


def test_the_cluster_policy_is_never_recommended_with_a_table_of_one_replica():
    parts = [one for table in range(1, 11) for one in even_parts(table, 6, NODES)]
    parts += even_parts(11, 5, NODES, replicas=1)
    one = {"mutation_2pc_min_replica_count": "1"}
    found = diagnose(cluster(parts, settings={**LIVELY, **CALM, **one}))
    assert found.causes == ()
    assert "t11 has a single replica" in found.notes[-1]


def test_the_cluster_policy_stops_with_a_table_on_two_nodes():
    parts = [
        *even_parts(1, 12, NODES[:2], replicas=2),
        *even_parts(2, 12, NODES[2:4], replicas=2),
    ]
    found = diagnose(cluster(parts, nodes=4, settings=WHOLE))
    assert codes(found) == ["policy_whole_cluster"]
    [cause] = found.causes
    assert cause.fix.wanted == {"balance_cluster": "false"}
    assert cause.effect.after.deviation == 0.0


def on_four_nodes(disks):
    """Two tables of six partitions; the disk of a replica by its node and partition."""
    parts, tags = [], {}
    for at, (nodes, held) in enumerate(zip(STUCK.split(), disks, strict=True)):
        names = [f"db{node}:34801" for node in nodes]
        app_id, index = 1 + at // 6, at % 6
        parts.append(part_row(app_id, index, names[0], names[1:]))
        tags.update(
            {(app_id, index, name): f"ssd{disk}" for name, disk in zip(names, held, strict=True)}
        )
    return cluster(
        parts,
        nodes=4,
        settings=WHOLE,
        disk_of=lambda row: tags[row["app_id"], row["index"], row["node"]],
    )


def test_where_disk_tags_decide_what_the_cluster_policy_moves():
    found = diagnose(on_four_nodes(STUCK_DISKS.split()))
    [cause] = [one for one in found.causes if one.code == "disk_tags_decide"]
    assert not cause.effect.before.converges
    assert cause.effect.after.converges
    assert cause.objects == ("db2:34801", "ssd1")
    one_disk = ["111"] * 12
    assert "disk_tags_decide" not in codes(diagnose(on_four_nodes(one_disk)))
