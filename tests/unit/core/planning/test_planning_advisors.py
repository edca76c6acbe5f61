"""The worked examples of the published designs and reports, and the edges of each rule."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import InputError, UnknownNameError
from core.ids import parse_range
from core.planning.advisors.bundle_count import advise, count_of
from core.planning.advisors.bundle_reasons import BundleLimits, Demand, advise_bundles
from core.planning.advisors.client_queue import (
    ProducerLoad,
    batch_of,
    queue_per_partition,
    stall_of,
)
from core.planning.advisors.contradictions import contradictions
from core.planning.advisors.ledger import RolloverRule, next_rollover, spread_over_disks
from core.planning.advisors.partitions import (
    by_bundle_count,
    by_partition_count,
    even_boundaries,
    expected_worst,
    partition_hashes,
    spread_of,
)
from core.planning.advisors.retention import (
    CompactionRule,
    RetentionRule,
    fate_of_log,
    life_of_message,
)
from core.planning.advisors.shares import must_report, share_timeline, shares, upstream_share
from core.planning.advisors.split_plan import partitions_needed, plan_cuts
from core.planning.advisors.stalls import routed_stall, stall_curve
from core.pulsar.lookup import parse_topic_name
from core.pulsar.ring import find_bundle_index, initial_boundaries, topic_hash
from core.pulsar.settings import EffectiveSettings
from dashboard.presenters.pulsar.advisors_facts import live_settings
from dashboard.presenters.pulsar.advisors_inputs import RETENTION, live_value

TOPIC = "persistent://acme/orders/created"


# -- shares of a resource group ------------------------------------------------------------------


def test_the_published_example_of_shares() -> None:
    found = shares(100, [10, 50, 30], "published")
    assert [round(value, 2) for value in found] == [11.11, 55.56, 33.33]


@pytest.mark.parametrize(
    ("usage", "formula", "found"),
    [  # what the real class gives at once, and what it gives to the published next step
        ([10, 50, 30], "upstream", [11, 55, 33]),
        ([20, 60, 40], "upstream", [16, 50, 33]),
        ([20, 60, 40], "published", [16.67, 50.0, 33.33]),
    ],
)
def test_the_worked_usages_of_three_brokers(usage, formula, found) -> None:
    assert [round(value, 2) for value in shares(100, usage, formula)] == found


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
    timeline = share_timeline(100, [[50, 50], *[[50, 0]] * 7], period_s=60)
    assert timeline.reports[:, 1].tolist() == [True, False, False, False, False, True, False, False]
    assert timeline.share[0].tolist() == [50.0, 50.0]
    assert timeline.share[4, 0] == 50.0
    assert timeline.share[-1].tolist() == [100.0, 1.0]


def test_without_a_limit_nothing_is_held_back():
    timeline = share_timeline(-1, [[1e9, 5], [1e9, 5]], period_s=60)
    assert not timeline.held_back.any()


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


def test_a_producer_of_one_partition_is_hit_seldom_and_fast():
    load = _load(partitions=30, max_pending=2000, max_pending_across=40000)
    every = routed_stall(load, 3, routing="RoundRobinPartition")
    single = routed_stall(load, 3, routing="SinglePartition")
    assert every.queue == single.queue == 1333
    assert (every.hit_ratio, single.hit_ratio) == (1.0, 0.1)
    assert every.stall.blocked_after_s == pytest.approx(1333 / (10_000 / 30))
    assert single.stall.blocked_after_s == pytest.approx(0.1333)
    with pytest.raises(UnknownNameError):
        routed_stall(load, 3, routing="RoundRobin")


def test_more_partitions_do_not_change_when_a_shared_queue_is_full():
    load = _load(max_pending=0, max_pending_across=40000)
    few, many = stall_curve(load, [30, 120], brokers=10, routing="RoundRobinPartition")
    assert (few.queue, many.queue) == (1333, 333)
    assert (few.silent, many.silent) == (3, 12)
    assert many.stall.blocked_after_s == pytest.approx(few.stall.blocked_after_s, rel=0.01)


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


@pytest.mark.parametrize(
    ("rule", "consumed", "quota", "words"),
    [
        ({"retention_minutes": 60, "retention_megabytes": -1, "ttl_s": 7200}, 5, -1, "exceeds"),
        ({"retention_minutes": 600, "retention_megabytes": -1, "ttl_s": 3600}, 5, -1, "skips data"),
        ({"retention_minutes": 60}, 5, -1, "size of 0 retains nothing"),
        ({"retention_megabytes": 60}, 5, -1, "time of 0 retains nothing"),
        ({"ttl_s": 600}, 30, -1, "before they are read"),
        ({"ttl_s": 60}, 0.5, -1, "6.0 times"),
        ({}, None, -1, "without limit"),
        ({}, None, 100, "until the backlog quota"),
        ({}, 60, 100, "more than the backlog quota"),
        ({"retention_minutes": 600, "retention_megabytes": 10}, 0.1, 100, "exceeds the retention"),
    ],
)
def test_settings_that_do_not_go_together_are_named(rule, consumed, quota, words):
    found = contradictions(
        RetentionRule(**rule),
        consumed_after_minutes=consumed,
        bytes_per_s=1e6,
        quota_megabytes=quota,
    )
    assert any(words in one for one in found), found


def test_a_time_to_live_as_long_as_the_retention_is_no_contradiction():
    rule = RetentionRule(retention_minutes=1440, retention_megabytes=-1, ttl_s=86_400)
    assert not contradictions(rule, consumed_after_minutes=5, bytes_per_s=1e6)


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
        split_plan = plan_cuts(initial_boundaries(16), hashes, wanted=wanted, max_bundles=128)
        needed = np.ceil(split_plan.before.per_bundle / wanted) - 1
        assert split_plan.is_enough
        assert len(split_plan.cuts) == np.maximum(needed, 0).sum()


def test_a_full_namespace_is_cut_as_far_as_it_goes_and_the_verdict_says_what_would_help():
    hashes = partition_hashes(TOPIC, 60)
    split_plan = plan_cuts(initial_boundaries(16), hashes, wanted=1, max_bundles=22)
    assert 0 < len(split_plan.cuts) <= 6
    assert split_plan.after.worst < split_plan.before.worst
    assert "More partitions" in split_plan.verdict
    assert split_plan.needed > split_plan.room == 6
    full = plan_cuts(initial_boundaries(16), hashes, wanted=1, max_bundles=16)
    assert not full.cuts
    assert "Add partitions" in full.verdict


@given(
    partitions=st.integers(1, 200),
    bundles=st.integers(1, 64),
    wanted=st.integers(1, 5),
    room=st.integers(0, 64),
    number=st.integers(0, 10**6),
)
def test_partitions_are_all_counted_and_the_surgeon_never_makes_it_worse(
    partitions, bundles, wanted, room, number
):
    hashes = partition_hashes(f"persistent://acme/orders/t{number}", partitions)
    split_plan = plan_cuts(
        initial_boundaries(bundles), hashes, wanted=wanted, max_bundles=bundles + room
    )
    for spread in (split_plan.before, split_plan.after):
        assert spread.per_bundle.sum() == partitions
        assert sum(count * times for count, times in spread.histogram.items()) == partitions
    assert split_plan.after.worst <= split_plan.before.worst
    assert len(split_plan.cuts) <= room
    assert not split_plan.cuts or split_plan.after.worst < split_plan.before.worst
    assert split_plan.is_enough or split_plan.needed > room
    assert split_plan.after.per_bundle.size == bundles + len(split_plan.cuts)
    assert sum(map(len, split_plan.positions.values())) == len(split_plan.cuts)


def test_the_hot_topic_of_the_vivo_report_has_four_of_30_partitions_in_one_of_180_bundles():
    few, many = by_partition_count(
        "persistent://acme/orders/search-raw", initial_boundaries(180), [30, 120]
    )
    assert few.worst == 4
    assert few.bundle_share == pytest.approx(4 / 30)
    assert many.bundle_share == pytest.approx(few.bundle_share / 4)


def test_no_split_helps_where_one_partition_is_more_than_a_bundle_may_carry():
    need = partitions_needed(1e9, 4, 100e6)
    assert not need.is_enough
    assert need.least == 10
    assert partitions_needed(1e9, 10, 100e6).is_enough


def test_positions_of_a_bundle_are_one_request_and_lie_within_it():
    split_plan = plan_cuts(initial_boundaries(4), partition_hashes(TOPIC, 30), wanted=2)
    for name, positions in split_plan.positions.items():
        lower, upper = parse_range(name)
        assert all(lower < position < upper for position in positions)
        assert list(positions) == sorted(positions)


# -- number of bundles ---------------------------------------------------------------------------


def test_every_reason_for_a_number_of_bundles_is_named_and_the_largest_binds():
    demand = Demand(brokers=3, topics=20_000, clients=3_000, msg_rate=60_000, bytes_per_s=1e8)
    advice = advise_bundles(demand, BundleLimits())
    asked = {one.name: one.bundles for one in advice.reasons}
    assert asked["limit of topics"] == 20
    assert asked["limit of sessions"] == 3
    assert asked["limit of message rate"] == 2
    assert asked["limit of bandwidth"] == 1
    assert advice.bundles == max(20, asked["even load"])
    assert advice.is_assumed
    assert advice.sentence.startswith(f"{advice.bundles} bundles: ")


def test_a_limit_of_bundles_that_is_too_low_is_said():
    advice = advise_bundles(Demand(brokers=4, topics=500_000), BundleLimits(maximum=16))
    assert advice.bundles == 16
    assert any("raise it" in one.why for one in advice.reasons)
    hot = np.array([1e9, *[1.0] * 99])
    none = advise_bundles(
        Demand(brokers=4, topics=100),
        BundleLimits(),
        positions=np.arange(100) * 40_000_000,
        loads=hot,
    )
    assert not none.is_even
    assert not none.is_assumed


@pytest.mark.parametrize(
    "changes", [{"brokers": 0}, {"topics": -1}, {"clients": -1}, {"within": 0}]
)
def test_a_demand_that_cannot_be_is_refused(changes):
    with pytest.raises(InputError):
        Demand(**{"brokers": 3, "topics": 10, **changes})


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


def test_what_the_brokers_are_set_to_is_taken_whole_and_what_is_not_told_is_no_input():
    wished = {"defaultRetentionTimeInMinutes": 10_080, "backlogQuotaDefaultLimitBytes": 3 << 20}
    found = live_settings(EffectiveSettings.defaults("4.2", wished), RETENTION)
    assert {key: one.value for key, one in found.items()} == {
        "defaultRetentionTimeInMinutes": 10_080,  # not shortened to three digits
        "backlogQuotaDefaultLimitBytes": 3.0,
    }
    minutes = next(one for one in RETENTION if one.key == "defaultRetentionTimeInMinutes")
    assert live_value(minutes, found) == (10_080, "live: by what if")
    assert live_value(minutes, {}) == (0, "default 0")


@pytest.mark.parametrize("bad", [float("nan"), -2.0])
def test_a_retention_that_is_no_number_is_refused(bad: float):
    for name in ("retention_minutes", "retention_megabytes", "ttl_s", "retention_check_s"):
        with pytest.raises(InputError):
            RetentionRule(**{name: bad})
    with pytest.raises(InputError):
        next_rollover(RolloverRule(), entries_per_s=bad, bytes_per_s=1.0)


def test_more_bundles_than_can_be_looked_at_are_refused():
    with pytest.raises(InputError, match="5000000000 is not a valid"):
        even_boundaries(5_000_000_000)
