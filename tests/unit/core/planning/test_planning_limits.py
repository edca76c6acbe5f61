"""Limits beside live use: groups, rates of namespaces, tenants."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from fleet_builder import make_snapshot, make_topics
from limited_fleet import MAIL, ORDERS, limited

from core.errors import UnknownNameError
from core.planning.limits.groups import (
    enforcement_words,
    find_group,
    group_uses,
    shared_limit,
)
from core.planning.limits.namespaces import namespace_use, use_by_broker
from core.planning.limits.rates import rate_limits
from core.planning.limits.tenants import tenant_uses
from core.pulsar.settings import effective_settings
from core.snapshot import PulsarSnapshot


def test_use_of_namespaces_is_the_sum_of_their_bundles():
    snapshot = make_snapshot(brokers=6, bundles=80)
    use = namespace_use(snapshot)
    own = [row for row in snapshot.bundles.to_pylist() if row["namespace"] == ORDERS]
    at = use.row_of(ORDERS)
    assert use.rate("msg_rate_in")[at] == pytest.approx(sum(row["msg_rate_in"] for row in own))
    assert use.bundles[at] == len(own)
    assert use.topics[at] == sum(row["topic_count"] for row in own)
    assert not any(":" in name for name in use.namespaces)  # heartbeats are left out
    assert use.row_of("acme/nowhere") == -1
    by_broker = use_by_broker(snapshot, (ORDERS,), "msg_rate_in")
    assert by_broker.sum() == pytest.approx(use.rate("msg_rate_in")[at])


def test_bundles_that_nobody_reports_are_counted_not_taken_for_idle():
    plain = make_snapshot(brokers=6, bundles=80)
    rows = plain.bundles.to_pylist()
    silent = next(row for row in rows if row["namespace"] == ORDERS)
    silent |= {name: None for name in silent if name.startswith("msg_")}
    tables = {**plain.tables, "bundles": pa.Table.from_pylist(rows, schema=plain.bundles.schema)}
    use = namespace_use(PulsarSnapshot.build(plain.manifest, tables))
    assert use.silent[use.row_of(ORDERS)] == 1
    assert use.silent.sum() == 1


def test_storage_is_known_of_topics_that_were_read_only():
    plain = make_snapshot(brokers=6, bundles=80)
    bundle = next(n for n in plain.bundles["bundle"].to_pylist() if n.startswith(ORDERS))
    topics = make_topics(plain.bundles, bundle)
    use = namespace_use(PulsarSnapshot.build(plain.manifest, {**plain.tables, "topics": topics}))
    assert use.storage_bytes[use.row_of(ORDERS)] == sum(topics["storage_bytes"].to_pylist())
    assert np.isnan(use.storage_bytes[use.row_of(MAIL)])


def test_groups_are_told_with_their_members_use_and_shares():
    gold = {"publishRateInMsgs": 1000}
    snapshot = limited([("resource_group", "gold", gold)], {ORDERS: "gold", MAIL: "gone"})
    use = namespace_use(snapshot)
    groups = group_uses(snapshot, use)
    assert [(one.name, one.is_defined) for one in groups] == [("gold", True), ("gone", False)]
    group = find_group(groups, "gold")
    assert group.namespaces == (ORDERS,)
    assert group.limits == {
        "publish_msgs": 1000,
        "publish_bytes": -1,
        "dispatch_msgs": -1,
        "dispatch_bytes": -1,
    }
    assert group.ratio("publish_msgs") == pytest.approx(group.used["publish_msgs"] / 1000)
    assert group.ratio("dispatch_msgs") is None
    shared = shared_limit(snapshot, group, "publish_msgs", period_s=60)
    carried = shared.used > 0
    assert shared.upstream[carried].sum() == pytest.approx(1000, abs=int(carried.sum()))
    assert (shared.upstream[~carried] == 1).all()  # who carries nothing begins with 1 a second
    wanted = 1000 * shared.used[carried] / shared.used.sum()
    assert np.allclose(shared.published[carried], np.maximum(wanted, 1))
    assert shared.is_over.any() == (group.used["publish_msgs"] > 1000)
    with pytest.raises(UnknownNameError, match="No resource group named 'gould'"):
        find_group(groups, "gould")


def test_without_a_limit_every_broker_is_free():
    snapshot = limited([("resource_group", "open", {})], {ORDERS: "open"})
    group = group_uses(snapshot, namespace_use(snapshot))[0]
    shared = shared_limit(snapshot, group, "publish_msgs", period_s=60)
    assert (shared.upstream == -1).all()
    assert (shared.published == -1).all()
    assert not shared.is_over.any()


def test_groups_have_no_effect_without_a_transport():
    snapshot = make_snapshot(brokers=3, bundles=20)
    holds, words = enforcement_words(effective_settings(snapshot))
    assert not holds
    assert "not contain resourceUsageTransportClassName" in words
    name = {"resourceUsageTransportClassName": "a.b.ResourceUsageTopicTransportManager"}
    holds, words = enforcement_words(effective_settings(snapshot, overrides=name))
    assert holds
    assert "every 60 s" in words


def _verdict(snapshot: PulsarSnapshot, kind: str) -> list[str]:
    found = rate_limits(snapshot, namespace_use(snapshot))
    return [one.verdict for one in found if one.kind == kind and one.unit != "bytes/s"]


def test_rates_are_judged_by_what_sums_prove():
    use = namespace_use(make_snapshot(brokers=6, bundles=80))
    at = use.row_of(ORDERS)
    live, topics = use.rate("msg_rate_in")[at], use.topics[at]
    for limit, verdict in (
        (int(live) + 1, "within"),
        (int(live / topics), "at its limit"),
        (int(live) - 1, "may be"),
        (0, "unlimited"),
        (-1, "unlimited"),
    ):
        body = {"publishThrottlingRateInMsg": limit, "publishThrottlingRateInByte": -1}
        assert _verdict(limited([("publish_rate", ORDERS, body)]), "publish_rate") == [verdict]


def test_dispatch_limits_count_periods_and_the_publish_rate():
    use = namespace_use(make_snapshot(brokers=6, bundles=80))
    at = use.row_of(ORDERS)
    out, into, topics = use.rate("msg_rate_out")[at], use.rate("msg_rate_in")[at], use.topics[at]
    body = {"dispatchThrottlingRateInMsg": int(out / topics * 10), "ratePeriodInSecond": 10}
    assert _verdict(limited([("dispatch_rate", ORDERS, body)]), "dispatch_rate") == ["at its limit"]
    body["relativeToPublishRate"] = True  # now topics may carry what is published more
    assert into > 1
    assert _verdict(limited([("dispatch_rate", ORDERS, body)]), "dispatch_rate") == ["may be"]


def test_subscribe_rates_are_not_in_snapshots():
    body = {"subscribeThrottlingRatePerConsumer": 5, "ratePeriodInSecond": 30}
    snapshot = limited([("subscribe_rate", ORDERS, body)])
    assert _verdict(snapshot, "subscribe_rate") == ["unknown"]


def test_what_is_sent_to_other_clusters_is_not_in_snapshots():
    body = {"dispatchThrottlingRateInMsg": 5, "ratePeriodInSecond": 1}
    snapshot = limited([("replicator_dispatch_rate", ORDERS, body)])
    found = rate_limits(snapshot, namespace_use(snapshot))
    assert [(one.holder, one.limit, one.verdict) for one in found] == [
        ("replicator", 5.0, "unknown"),
        ("replicator", -1.0, "unlimited"),
    ]
    assert "replication rates" in found[0].why


def test_tenants_are_summed_against_their_limits():
    gold = {"publishRateInMsgs": 500}
    each = {"publishThrottlingRateInMsg": 10}
    spaces = namespace_use(make_snapshot(brokers=6, bundles=80)).namespaces
    acme = [name for name in spaces if name.startswith("acme/")]
    policies = [("resource_group", "gold", gold), ("publish_rate", acme[0], each)]
    groups = dict.fromkeys(acme[1:], "gold")
    tenants = tenant_uses(limited(policies, groups))
    assert sum(one.share for one in tenants) == pytest.approx(1)
    assert [one.share for one in tenants] == sorted((t.share for t in tenants), reverse=True)
    use = namespace_use(make_snapshot(brokers=6, bundles=80))
    found = next(one for one in tenants if one.name == "acme")
    bound = found.bounds["publish_msgs"]
    assert bound.limit == 500 + 10 * use.topics[use.row_of(acme[0])]
    assert (bound.unlimited, bound.shared_groups, found.groups) == ((), (), ("gold",))
    assert bound.ratio == pytest.approx(bound.used / bound.limit)
    other = next(one for one in tenants if one.name == "globex")
    assert other.bounds["publish_msgs"].limit is None
    assert set(other.bounds["publish_msgs"].unlimited) == set(other.namespaces)


def test_a_group_of_several_tenants_is_named():
    gold = {"publishRateInMsgs": 500}
    spaces = namespace_use(make_snapshot(brokers=6, bundles=80)).namespaces
    tenants = tenant_uses(
        limited([("resource_group", "gold", gold)], dict.fromkeys(spaces, "gold"))
    )
    assert all(one.bounds["publish_msgs"].limit == 500 for one in tenants)
    assert all(one.bounds["publish_msgs"].shared_groups == ("gold",) for one in tenants)
