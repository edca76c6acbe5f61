"""The worked examples of the published designs and reports, and the edges of each rule."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import InputError
from core.planning.advisors.bundle_count import advise, count_of
from core.planning.advisors.client_queue import (
    ProducerLoad,
    batch_of,
    queue_per_partition,
    stall_of,
)
from core.planning.advisors.ledger import RolloverRule, next_rollover, spread_over_disks
from core.planning.advisors.partitions import (
    by_bundle_count,
    by_partition_count,
    expected_worst,
    partition_hashes,
    plan_cuts,
    spread_of,
)
from core.planning.advisors.retention import (
    CompactionRule,
    RetentionRule,
    fate_of_log,
    life_of_message,
)
from core.planning.advisors.shares import must_report, share_course, shares, upstream_share
from core.pulsar.lookup import parse_topic_name
from core.pulsar.ring import find_bundle_index, initial_boundaries, topic_hash

TOPIC = "persistent://acme/orders/created"


# -- shares of a resource group ------------------------------------------------------------------


def test_the_published_example_of_shares() -> None:
    found = shares(100, [10, 50, 30], "published")
    assert [round(value, 2) for value in found] == [11.11, 55.56, 33.33]


@pytest.mark.parametrize(
    ("limit", "mine", "total", "share"),
    [  # what the real 4.2.4 class answers
        (100, 20, 40, 50),
        (100, 20, 100, 20),
        (100, 20, 150, 13),
        (100, 0, 50, 1),
        (0, 10, 20, 1),
        (0, 0, 0, 0),
        (-1, 10, 20, -1),
        (10**12, 333_333_333, 999_999_999, 333_333_364_736),
    ],
)
def test_shares_as_the_real_class_counts_them(limit: int, mine: int, total: int, share: int):
    assert upstream_share(limit, mine, total) == share


@pytest.mark.parametrize(
    ("use", "reported", "periods", "is_told"),
    [
        (1050, 1000, 1, False),
        (1051, 1000, 1, True),
        (950, 1000, 1, False),
        (940, 1000, 1, True),
        (5, 0, 1, True),
        (0, 100, 1, False),
        (0, 100, 5, True),
    ],
)
def test_what_is_reported(use, reported, periods, is_told):
    assert must_report(use, reported, periods) is is_told


def test_a_broker_that_falls_silent_keeps_its_share_for_five_periods():
    course = share_course(100, [[50, 50], *[[50, 0]] * 7], period_s=60)
    assert course.reports[:, 1].tolist() == [True, False, False, False, False, True, False, False]
    assert course.share[0].tolist() == [50.0, 50.0]
    assert course.share[4, 0] == 50.0
    assert course.share[-1].tolist() == [100.0, 1.0]


def test_without_a_limit_nothing_is_held_back():
    course = share_course(-1, [[1e9, 5], [1e9, 5]], period_s=60)
    assert not course.held_back.any()


@pytest.mark.parametrize(
    ("limit", "usage", "formula"),
    [
        (100, [], "published"),
        (100, [-1, 5], "published"),
        (100, [0.5], "upstream"),
        (float("nan"), [1], "published"),
        (1e30, [1], "upstream"),
    ],
)
def test_shares_of_what_cannot_be_are_refused(limit, usage, formula):
    with pytest.raises(InputError):
        shares(limit, usage, formula)


@given(st.lists(st.integers(0, 10**6), min_size=1, max_size=20), st.integers(0, 10**7))
def test_shares_add_up_to_the_limit_but_for_truncation_and_the_least_of_one(usage, limit):
    found = shares(limit, usage)
    total = sum(usage)
    if total == 0:
        assert found == [limit] * len(usage)
    else:
        assert sum(found) <= limit * (1 + 1e-5) + len(usage)
        assert sum(found) >= limit * (1 - 1e-5) - len(usage)


# -- producers -----------------------------------------------------------------------------------


def test_the_queue_of_the_vivo_report():
    assert queue_per_partition(2000, 40000, 30) == 1333
    assert queue_per_partition(2000, 40000, 120) == 333


@pytest.mark.parametrize(
    ("own", "across", "queue"), [(0, 0, 0), (1000, 0, 1000), (0, 40000, 400), (100, 40000, 100)]
)
def test_a_limit_of_zero_is_none(own: int, across: int, queue: int):
    assert queue_per_partition(own, across, 100) == queue


def _load(**changes: float) -> ProducerLoad:
    known = {"msgs_per_s": 10_000.0, "message_bytes": 1_000.0, "partitions": 10}
    return ProducerLoad(**{**known, **changes})


def test_each_limit_closes_a_batch():
    assert batch_of(_load(batch_delay_s=0.01)).closes_by == "delay"
    assert batch_of(_load(batch_delay_s=10)).closes_by == "bytes"
    few = batch_of(_load(batch_delay_s=10, batch_messages=5))
    assert (few.closes_by, few.messages, few.wait_s) == ("messages", 5.0, 0.005)
    assert batch_of(_load(batch_delay_s=10, max_pending=3)).messages == 3


def test_one_silent_broker_stops_the_whole_producer_when_its_queue_is_full():
    stall = stall_of(_load(max_pending=1333), 1)
    assert stall.by == "queue"
    assert stall.blocked_after_s == pytest.approx(1.333)
    assert not stall.timeouts_before
    slow = stall_of(_load(max_pending=1333), 1, slow_ratio=0.5)
    assert slow.blocked_after_s == pytest.approx(2.666)
    assert slow.left_ratio == 0.5


def test_memory_may_be_full_before_the_queue_and_time_outs_come_before_both():
    stall = stall_of(_load(max_pending=10**6, memory_limit_bytes=10**7), 5)
    assert (stall.by, stall.blocked_after_s) == ("memory", 2.0)
    late = stall_of(_load(max_pending=10**6, memory_limit_bytes=0, send_timeout_s=30), 1)
    assert late.timeouts_before
    assert stall_of(_load(memory_limit_bytes=0), 1).blocked_after_s is None


@pytest.mark.parametrize("changes", [{"msgs_per_s": 0}, {"message_bytes": -1}, {"partitions": 0}])
def test_a_producer_that_cannot_be_is_refused(changes):
    with pytest.raises(InputError):
        _ = _load(**changes).queue


# -- ledgers, retention, compaction --------------------------------------------------------------


@pytest.mark.parametrize(
    ("rate", "bytes_per_s", "cause", "minutes"),
    [
        (10.0, 1e3, "entries", 50_000 / 10 / 60),
        (1.0, 1e6, "size", 2048 * 1024**2 / 1e6 / 60),
        (1.0, 1e3, "age", 240.0),
    ],
)
def test_a_ledger_ends_by_the_first_bound_that_it_reaches(rate, bytes_per_s, cause, minutes):
    found = next_rollover(RolloverRule(), entries_per_s=rate, bytes_per_s=bytes_per_s)
    assert found is not None
    assert (found.cause, found.age_minutes) == (cause, pytest.approx(minutes))
    assert not found.held_by_minimum


def test_the_least_age_lets_a_busy_ledger_grow_far_beyond_its_bounds():
    found = next_rollover(RolloverRule(), entries_per_s=1000, bytes_per_s=1e8)
    assert found is not None
    assert found.held_by_minimum
    assert found.age_minutes == 10
    assert found.size_bytes == 1e8 * 600  # throughput for 600 s
    assert next_rollover(RolloverRule(), entries_per_s=0, bytes_per_s=0) is None


@pytest.mark.parametrize("changes", [{"max_minutes": 5}, {"max_entries": 0}, {"min_minutes": -1}])
def test_a_rollover_rule_that_a_broker_would_refuse_is_refused(changes):
    with pytest.raises(InputError):
        RolloverRule(**changes)


def test_even_ledgers_fill_disks_evenly():
    ids = np.arange(1000)
    even = spread_over_disks(ids, np.full(1000, 10.0), 4)
    assert even.unevenness == 0
    skewed = spread_over_disks(ids, np.where(ids % 4 == 1, 20.0, 10.0), 4)
    assert skewed.unevenness == pytest.approx(0.6)


def test_a_message_passes_backlog_retention_and_deletion():
    rule = RetentionRule(retention_minutes=60, retention_megabytes=-1)
    phases = life_of_message(rule, consumed_after_minutes=5, bytes_per_s=1e6)
    assert [(one.name, one.begins, one.ends) for one in phases] == [
        ("backlog", 0.0, 5),
        ("kept", 5, 60),
        ("waits for deletion", 60, 60 + 240 + 2),
    ]


def test_size_may_end_retention_before_time_does():
    rule = RetentionRule(retention_minutes=600, retention_megabytes=60)
    phases = life_of_message(rule, consumed_after_minutes=0.5, bytes_per_s=1024**2)
    assert phases[1].ends == pytest.approx(1.0)
    assert "size" in phases[1].why


def test_a_time_to_live_ends_a_backlog_that_nobody_reads():
    never = life_of_message(RetentionRule(), consumed_after_minutes=None, bytes_per_s=1)
    assert never[0].ends is None
    ttl = life_of_message(RetentionRule(ttl_s=600), consumed_after_minutes=None, bytes_per_s=1)
    assert ttl[0].ends == 15  # and the next check, five minutes at the latest


@pytest.mark.parametrize(
    ("live", "action"), [(0.0, "deleted"), (0.1, "minor"), (0.5, "major"), (0.8, "stays")]
)
def test_what_becomes_of_an_entry_log(live: float, action: str):
    assert fate_of_log(CompactionRule(), live).action == action


# -- partitions and bundles ----------------------------------------------------------------------


def test_partitions_fall_where_a_lookup_of_each_finds_them():
    boundaries = initial_boundaries(180)
    spread = spread_of(boundaries, partition_hashes(TOPIC, 500))
    for number in range(500):
        name = str(parse_topic_name(f"acme/orders/created-partition-{number}"))
        assert spread.bundle_of[number] == find_bundle_index(boundaries, topic_hash(name))
    assert spread.per_bundle.sum() == 500


@pytest.mark.parametrize(("partitions", "bundles"), [(30, 180), (120, 180), (30, 16), (500, 64)])
def test_the_expected_worst_is_that_of_random_throws(partitions: int, bundles: int):
    rng = np.random.default_rng(5)
    thrown = [np.bincount(rng.integers(0, bundles, partitions)).max() for _ in range(3000)]
    assert expected_worst(partitions, bundles) == pytest.approx(np.mean(thrown), rel=0.03)


def test_more_partitions_make_the_fullest_bundle_a_smaller_share():
    few, many = by_partition_count(TOPIC, initial_boundaries(180), [30, 120])
    assert many.bundle_share < few.bundle_share
    assert [count for count, _ in by_bundle_count(TOPIC, 30, [16, 180])] == [16, 180]


def test_cuts_leave_no_bundle_with_more_than_wanted_and_none_is_spent_in_vain():
    hashes = partition_hashes(TOPIC, 30)
    for wanted in (1, 2, 3):
        surgery = plan_cuts(initial_boundaries(16), hashes, wanted=wanted, max_bundles=128)
        needed = np.ceil(surgery.before.per_bundle / wanted) - 1
        assert surgery.is_enough
        assert len(surgery.cuts) == np.maximum(needed, 0).sum()


def test_a_full_namespace_is_cut_where_it_is_worst_and_the_verdict_says_what_would_help():
    hashes = partition_hashes(TOPIC, 60)
    surgery = plan_cuts(initial_boundaries(16), hashes, wanted=1, max_bundles=18)
    assert len(surgery.cuts) == 2
    assert surgery.cuts[0].partitions_before == surgery.before.worst
    assert "more partitions" in surgery.verdict
    full = plan_cuts(initial_boundaries(16), hashes, wanted=1, max_bundles=16)
    assert not full.cuts
    assert "only more partitions" in full.verdict


def test_bundle_counts_are_judged_by_the_topics_that_are_there():
    rng = np.random.default_rng(3)
    positions, loads = rng.integers(0, 1 << 32, 2000), np.ones(2000)
    good, tried = advise(10, positions, loads, within=0.2)
    assert good is not None
    assert good.reachable_ratio <= 0.2
    assert all(one.reachable_ratio > 0.2 for one in tried if one.bundles < good.bundles)
    hot = np.where(np.arange(2000) == 7, 1e6, 1.0)
    none, _ = advise(10, positions, hot, within=0.2)
    assert none is None  # one topic is more than a broker's share: no number of bundles helps
    assert count_of(64, 10, positions, hot).hottest_ratio > 9
