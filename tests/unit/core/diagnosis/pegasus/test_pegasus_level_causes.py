"""The level as a cause: named where raising it helps, and by whom it fell."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from pegasus_diagnosis import CALM, LIVELY, cluster, diagnose, even_parts, node_names

from core.errors import UnknownNameError

NODES = node_names(5)
JOINED = even_parts(1, 40, NODES[:4])  # the fifth node just joined
EVEN = even_parts(1, 40, NODES)


def codes(found):
    return [cause.code for cause in found.causes]


def test_a_node_that_joined_gets_nothing_at_level_steady():
    found = diagnose(cluster(JOINED))
    assert codes(found) == ["level_below_lively"]
    [cause] = found.causes
    assert cause.fix.wanted == {"meta level": "lively"}
    assert cause.objects == (NODES[4],)
    assert cause.effect.before.moves == 0
    assert cause.effect.before.deviation == 1.0
    assert cause.effect.after.deviation <= 0.05
    assert cause.effect.after.converges
    assert "db5:34801 has 0 replicas" in found.problem


@pytest.mark.parametrize("level", [{}, LIVELY])
def test_an_even_cluster_has_no_cause(level):
    found = diagnose(cluster(EVEN, settings={**CALM, **level}))
    assert (found.causes, found.problem) == ((), "")


def test_at_level_lively_the_balancer_is_at_work_and_nothing_is_named():
    found = diagnose(cluster(JOINED, settings=LIVELY))
    assert (found.causes, found.problem) == ((), "")
    assert found.notes[0].startswith("The balancer is active: ")


@pytest.mark.parametrize(
    ("stored", "word", "target"), [("300", "freezed", "steady"), ("200", "blind", "steady")]
)
def test_a_level_set_too_low_repairs_nothing(stored, word, target):
    parts = even_parts(1, 40, NODES)
    parts[0]["secondaries"].pop()
    found = diagnose(cluster(parts, settings={"level.stored": stored, "level.effective": word}))
    assert codes(found)[0] == "level_too_low"
    cause = found.causes[0]
    assert (cause.effect.before.missing, cause.effect.after.missing) == (1, 0)
    assert cause.fix.wanted == {"meta level": target}


def test_freezed_because_too_few_nodes_are_alive():
    parts = even_parts(1, 40, NODES[:3])
    parts[0]["secondaries"].pop()
    settings = {"level.stored": "500", "level.effective": "freezed"}
    found = diagnose(cluster(parts, dead=NODES[3:], settings=settings))
    cause = found.causes[0]
    assert cause.code == "level_freezed_by_nodes"
    assert cause.fix.wanted == {"meta.live_percentage": "60"}
    assert (cause.measured, cause.threshold) == (0.6, 0.65)
    assert cause.objects == tuple(NODES[3:])


def earlier(level, leader, minutes=5):
    moment = datetime(2026, 11, 21, tzinfo=UTC) - timedelta(minutes=minutes)
    old = cluster(JOINED, settings=level, taken_at=moment)
    object.__setattr__(old.manifest, "leader", leader)
    return old


@pytest.mark.parametrize(
    ("past", "code", "said"),
    [
        ((LIVELY, "meta2:34601"), "level_reset_by_leader", "from meta2:34601 to meta1:34601"),
        ((LIVELY, "meta1:34601"), "level_set_to_steady", "under the same leader"),
        (({}, "meta2:34601"), "level_below_lively", "lively (500)"),
    ],
)
def test_history_says_who_reset_the_level(past, code, said):
    [cause] = diagnose(cluster(JOINED), earlier=[earlier(*past)]).causes
    assert cause.code == code
    assert said in cause.summary


def test_a_bulk_load_sets_the_level_to_steady():
    loading = {2: {"is_bulk_loading": True}}
    parts = [*JOINED, *even_parts(2, 4, NODES)]
    [cause] = diagnose(cluster(parts, tables=loading)).causes
    assert cause.code == "level_reset_by_bulk_load"


def test_one_node_is_judged_by_its_own_distance():
    found = diagnose(cluster(JOINED), node=NODES[4])
    assert codes(found) == ["level_below_lively"]
    assert "db5:34801 has 0 replicas" in found.problem
    with pytest.raises(UnknownNameError):
        diagnose(cluster(JOINED), node="db9:34801")
