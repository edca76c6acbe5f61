"""One partition: why it is moved, or stays where it is."""

from __future__ import annotations

import pytest
from pegasus_diagnosis import LIVELY, cluster, diagnose, even_parts, node_names

from core.errors import InputError, UnknownNameError

NODES = node_names(5)
JOINED = even_parts(1, 40, NODES[:4])


def moved():
    """The first partition that the balancer moves at level lively, and one that it leaves."""
    answers = {
        f"1.{index}": diagnose(cluster(JOINED, settings=LIVELY), partition=f"1.{index}")
        for index in range(40)
    }
    is_moved = {
        gpid: any("of the balancer moves it" in note for note in one.notes)
        for gpid, one in answers.items()
    }
    return (
        next(gpid for gpid, one in is_moved.items() if one),
        next(gpid for gpid, one in is_moved.items() if not one),
    )


MOVED, LEFT = moved()


def test_a_partition_that_the_balancer_moves():
    found = diagnose(cluster(JOINED, settings=LIVELY), partition=MOVED)
    assert (found.causes, found.problem) == ((), "")
    assert found.notes[0].startswith(f"{MOVED} is on db")
    assert "moves it to" in found.notes[1]


def test_a_partition_that_no_round_moves():
    found = diagnose(cluster(JOINED, settings=LIVELY), partition=LEFT)
    assert found.causes == ()
    assert "No balancer round at level lively moves this partition" in found.notes[-1]


@pytest.mark.parametrize(
    ("settings", "tables", "code"),
    [
        ({}, {}, "level_below_lively"),
        ({**LIVELY, "ignored_app_list": "1"}, {}, "ignored_app_list"),
        (LIVELY, {1: {"is_bulk_loading": True}}, "table_bulk_loading"),
        (LIVELY, {3: {"status": "creating"}}, "table_staging"),
    ],
)
def test_what_keeps_a_partition_is_named_for_those_that_would_move(settings, tables, code):
    snapshot = cluster(JOINED, settings=settings, tables=tables)
    assert code in [cause.code for cause in diagnose(snapshot, partition=MOVED).causes]
    assert diagnose(snapshot, partition=LEFT).causes == ()


def test_a_partition_without_all_of_its_replicas():
    parts = even_parts(1, 40, NODES)
    parts[3] |= {"primary": None, "secondaries": [], "last_drops": [*NODES[:2], "db6:34801"]}
    parts[7] |= {"secondaries": parts[7]["secondaries"][:1], "last_drops": ["db6:34801"]}
    snapshot = cluster(parts, nodes=6, dead=["db6:34801"], settings=LIVELY)
    lost, lacking, whole = (diagnose(snapshot, partition=gpid) for gpid in ("1.3", "1.7", "1.9"))
    assert [cause.code for cause in lost.causes] == ["partitions_lost"]
    assert lost.problem == "1.3 has no replica; its target is 3."
    assert [cause.code for cause in lacking.causes] == ["partitions_wait_for_node"]
    assert lacking.problem == "1.7 has 2 of 3 replicas."
    assert whole.problem == ""


def test_a_partition_with_a_single_replica():
    parts = even_parts(1, 40, NODES, replicas=1)
    found = diagnose(cluster(parts, settings=LIVELY), partition="1.3")
    assert any("single replica" in note for note in found.notes)


@pytest.mark.parametrize(("name", "error"), [("1.99", UnknownNameError), ("x", InputError)])
def test_a_partition_that_is_none(name, error):
    with pytest.raises(error):
        diagnose(cluster(JOINED), partition=name)
