"""Findings on a Pegasus cluster: what is wrong is named, what is unknown is never fine."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest
from pegasus_snapshots import NODES, part_row, setting_rows, snapshot_of, table_row, whole

from core.findings.finding import overall_state
from core.pegasus.emptied import with_emptied
from core.pegasus.rules.registry import assess_pegasus
from core.pegasus.snapshot import PegasusFacts
from core.snapshot import Problem

BALANCED = {"balance_operation_count": json.dumps({"total": 0})}
FULL = [NODES[0], [NODES[1], NODES[3]]]
EVEN = [part_row(2, at, NODES[at], [NODES[(at + 1) % 4], NODES[(at + 2) % 4]]) for at in range(4)]


def found(content, **more):
    return {
        finding.code: finding
        for finding in assess_pegasus(PegasusFacts(snapshot_of(content, **more)))
    }


def parts(*first):
    """The given members of the first partitions of ``temp``; the others are whole."""
    rows = [list(one) for one in first] + [FULL] * (4 - len(first))
    return [part_row(2, at, primary, others) for at, (primary, others) in enumerate(rows)]


def test_a_whole_balanced_cluster_has_no_finding_but_its_disks():
    content = whole(EVEN, settings=BALANCED)
    for row in content["disks"]:
        row["available_mb"] = 500
    assert found(content) == {}


@pytest.mark.parametrize(
    ("members", "code", "severity"),
    [
        ((None, []), "partitions_dead", "error"),
        ((None, [NODES[1]]), "partitions_unreadable", "error"),
        ((NODES[0], []), "partitions_unwritable", "error"),
        ((NODES[0], [NODES[1]]), "partitions_ill", "warning"),
    ],
)
def test_ill_partitions_are_named_by_their_worst_state(members, code, severity):
    findings = found(whole(parts(members), settings=BALANCED))
    assert findings[code].severity == severity
    assert findings[code].subject == "temp"
    assert "(of 4 partitions)" in findings[code].sentence
    assert "not_balanced" not in findings
    assert "balance_unknown" not in findings


def test_a_lost_partition_tells_the_reason_of_the_meta_server():
    content = whole(parts((None, [])), settings=BALANCED)
    content["partitions"][0]["ddd_reason"] = "the last dropped node db1:34801 has not come back."
    finding = found(content)["partition_lost"]
    assert finding.sentence.startswith("2.0 of temp lost every replica: the last dropped node")
    assert finding.sentence.endswith("come back.")


def test_the_guardian_is_not_said_to_repair_partitions_that_lost_every_replica():
    content = whole(parts((None, [])), settings=BALANCED)
    assert found(content)["partitions_dead"].hint.startswith("The guardian repairs it")
    content["partitions"][0]["last_drops"] = [NODES[0], NODES[1]]
    assert "does not repair" in found(content)["partitions_dead"].hint


def test_a_surplus_replica_is_told_because_balancing_waits_for_it():
    findings = found(whole(parts((NODES[0], list(NODES[1:]))), settings=BALANCED))
    assert findings["surplus_replicas"].severity == "info"


def test_a_dead_node_is_an_error():
    assert found(whole(dead=[NODES[2]]))["node_dead"].subject == NODES[2]


@pytest.mark.parametrize(
    ("stored", "effective", "code", "said"),
    [
        ("300", "freezed", "level_low", "freezed is effective (set)"),
        ("500", "freezed", "level_low", "set to lively, but too few nodes are alive"),
        ("200", "blind", "level_low", "blind is effective"),
        ("400", None, "level_unknown", "did not report"),
        ("777", None, "level_unknown", "the stored level is 777"),
    ],
)
def test_a_level_at_which_nothing_is_repaired_is_named(stored, effective, code, said):
    findings = found(whole(settings={"level.stored": stored, "level.effective": effective}))
    assert said in findings[code].sentence
    assert "not_balanced" not in findings


@pytest.mark.parametrize(
    ("total", "policy", "code"),
    [
        (3, "false", "not_balanced"),
        (-1, "false", "balance_unknown"),
        (0, "true", "balance_unknown"),
        (0, "false", None),
    ],
)
def test_the_count_of_changes_is_believed_only_where_it_can_be(total, policy, code):
    told = {"balance_operation_count": json.dumps({"total": total}), "balance_cluster": policy}
    findings = found(whole(settings=told))
    assert {"not_balanced", "balance_unknown"} & set(findings) == ({code} if code else set())


@pytest.mark.parametrize(
    ("available", "code"), [(90, "disk_short"), (150, "disk_scarce"), (250, None)]
)
def test_a_disk_without_space_is_named_once_a_node(available, code):
    content = whole(EVEN, settings=BALANCED)
    for row in content["disks"]:
        row["available_mb"] = available if row["node"] == NODES[1] else 500
    findings = found(content)
    assert set(findings) == ({code} if code else set())
    if code:
        assert findings[code].subject == NODES[1]


def test_switches_that_hold_the_balancer_back_are_told():
    told = {**BALANCED, "only_move_primary": "true", "assign_secondary_black_list": "db1:34801"}
    content = whole(settings=told)
    subjects = {one.subject for one in assess_pegasus(PegasusFacts(snapshot_of(content)))}
    assert {"only_move_primary", "assign_secondary_black_list"} <= subjects


def test_what_could_not_be_read_is_unknown_and_not_fine():
    problem = Problem(
        code="timeout", place="db1:34801", what="No answer from db1:34801.", severity="error"
    )
    content = whole(settings=BALANCED)
    snapshot = snapshot_of(content, problems=(problem,))
    findings = assess_pegasus(PegasusFacts(snapshot))
    assert "reading_problem" in {one.code for one in findings}
    nothing = assess_pegasus(PegasusFacts(snapshot_of({})))
    assert overall_state(nothing) == "unknown"


def test_every_node_outside_the_target_band_is_named_and_one_on_purpose_is_not():
    parts = [part_row(2, at, NODES[at // 5], [NODES[2]], max_replica_count=2) for at in range(10)]
    content = whole(parts, tables=[table_row(2, "temp", 10, max_replica_count=2)])
    codes = [
        (one.code, one.subject)
        for one in assess_pegasus(PegasusFacts(snapshot_of(content)))
        if one.code.startswith("node_")
    ]
    off = {subject for code, subject in codes if code == "node_deviation"}
    assert off == set(NODES[:4])
    titles = {
        one.subject: (one.title, one.evidence["measure"])
        for one in assess_pegasus(PegasusFacts(snapshot_of(content)))
        if one.code == "node_deviation"
    }
    for title, measure in titles.values():  # a table of findings shows the title alone
        assert title == f"{measure.capitalize()} outside the target band"
    content["nodes"][3]["emptied_at"] = 1
    content["settings"] += setting_rows({"assign_secondary_black_list": NODES[2]})
    facts = PegasusFacts(snapshot_of(content))
    found = {(one.code, one.subject) for one in assess_pegasus(facts)}
    assert ("node_drained", NODES[3]) in found
    assert ("node_excluded", NODES[2]) in found
    assert not {subject for code, subject in found if code == "node_deviation"}
    assert facts.columns.node_statuses == ["alive", "alive", "excluded", "drained"]
    assert facts.columns.max_deviation(primaries_only=True) == 0.0


def test_a_node_that_gave_up_its_replicas_while_alive_is_drained_and_a_new_one_is_not():
    taken = datetime(2026, 11, 28, 12, tzinfo=UTC)
    rows = [part_row(2, at, NODES[0], [NODES[1]]) for at in range(4)]

    def of(first, **more):
        content = whole([first, *rows[1:]], **more)
        return snapshot_of(content, taken_at=taken)

    def marks(before, after):
        nodes = with_emptied(after, before).tables["nodes"]
        return nodes["emptied_at"].to_pylist()

    at = int(taken.timestamp() * 1000)
    full, empty = of(part_row(2, 0, NODES[2], [NODES[1]])), of(rows[0])
    assert marks(None, empty) == [None] * 4
    assert marks(full, empty) == [None, None, at, None]
    assert marks(of(part_row(2, 0, NODES[2], [NODES[1]]), dead=[NODES[2]]), empty) == [None] * 4
    drained = with_emptied(empty, full)
    assert marks(drained, of(rows[0], dead=[NODES[2]]))[2] == at
    assert marks(drained, full) == [None] * 4
    assert drained.snapshot_id != empty.snapshot_id
    assert with_emptied(empty, empty).snapshot_id == empty.snapshot_id
