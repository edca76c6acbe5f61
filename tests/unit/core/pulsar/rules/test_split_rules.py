"""Splits: storms around a topic, topics that carry their bundle, and the limit that stops one."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from clusters import cluster, problems

from core.findings.finding import Finding
from core.pulsar.rules.registry import assess
from core.schemas.pulsar import TOPICS
from core.snapshot import PulsarSnapshot

CODES = ("split_storm", "topic_carries_bundle", "bundle_limit_reached", "bundle_limit_near")
FULL = 0x100000000
MAX = "loadBalancerNamespaceMaximumBundles"
AUTO = "loadBalancerAutoBundleSplitEnabled"
RATE = "loadBalancerNamespaceBundleMaxMsgRate"
BOTH = pytest.mark.parametrize("manager", ["modular", "extensible"])


def only(snapshot: PulsarSnapshot, code: str) -> Finding:
    (found,) = [one for one in assess(snapshot) if one.code == code]
    return found


def name(lower: int, upper: int) -> str:
    return f"0x{lower:08x}_0x{min(upper, 0xFFFFFFFF):08x}"


def halves(position: int, cuts: int) -> tuple[str, list[str]]:
    """Return the bundle of a position after some cuts, and the halves that were cut off."""
    lower, upper, off = 0, FULL, []
    for _ in range(cuts):
        middle = (lower + upper) // 2
        if position < middle:
            off.append(name(middle, upper))
            upper = middle
        else:
            off.append(name(lower, middle))
            lower = middle
    return name(lower, upper), off


def storm(
    cuts: int, rate: float, *, topics: int = 1, topics_of_halves: int = 0, **parts: Any
) -> PulsarSnapshot:
    """A namespace of one busy bundle and its halves on two brokers, and another with even load."""
    hot, off = halves(0x5A31C7F0, cuts)
    empty = {"ns": "t/hot", "topics": topics_of_halves, "consumers": 0, "producers": 0}
    busy = {"ns": "t/hot", "in": rate, "mb_in": 20, "topics": topics, "ranges": [hot]}
    calm = {"ns": "t/calm", "bundles": 8, "in": 500, "mb_in": 10}
    brokers = [
        {"name": "a:8080", "groups": [busy, empty | {"ranges": off[::2]}, calm]},
        {"name": "b:8080", "groups": [empty | {"ranges": off[1::2]}, calm]},
    ]
    return cluster(brokers, **parts)


@pytest.mark.parametrize("release", ["2.8.1", "2.10.4", "4.0.5"])
@pytest.mark.parametrize(("cuts", "rate"), [(26, 30_000), (12, 90_000), (20, 16_000)])
def test_empty_halves_around_a_hot_topic_are_a_storm(cuts, rate, release):
    found = only(storm(cuts, rate, release=release), "split_storm")
    assert found.severity == "warning"
    assert f"{cuts} of {cuts + 1} bundles of t/hot are empty" in found.sentence
    assert "partitions" in found.hint
    assert found.keys == (RATE, AUTO)
    assert found.fix.wanted[RATE] > 2 * rate


def test_throughput_raises_the_limit_of_throughput():
    hot, off = halves(0x10, 20)
    empty = {"topics": 0, "ranges": off}
    busy = {"in": 100, "mb_in": 150, "mb_out": 150, "topics": 1, "ranges": [hot]}
    found = only(cluster([{"name": "a:8080", "groups": [busy, empty]}]), "split_storm")
    assert found.fix.wanted == {"loadBalancerNamespaceBundleMaxBandwidthMbytes": 430}


def test_a_storm_that_is_over_is_a_note():
    found = only(storm(20, 900), "split_storm")
    assert found.severity == "info"
    assert not found.fix.wanted


def test_with_automatic_splits_off_no_limit_is_raised():
    found = only(storm(20, 90_000, settings={AUTO: False}), "split_storm")
    assert not found.fix.wanted
    assert "off already" in found.hint


@pytest.mark.parametrize(
    "groups",
    [
        # 64 equal bundles, one of them busy
        [{"bundles": 1, "in": 90_000, "mb_in": 20}, {"bundles": 63, "topics": 0}],
        # a few cuts around a topic
        [
            {"in": 90_000, "topics": 1, "ranges": [halves(7, 6)[0]]},
            {"topics": 0, "ranges": halves(7, 6)[1]},
        ],
        # halves that hold topics
        [
            {"in": 90_000, "topics": 1, "ranges": [halves(7, 20)[0]]},
            {"topics": 3, "in": 5, "ranges": halves(7, 20)[1]},
        ],
        # no traffic anywhere
        [
            {"topics": 0, "ranges": [halves(7, 20)[0]]},
            {"topics": 0, "ranges": halves(7, 20)[1]},
        ],
    ],
)
def test_other_namespaces_are_no_storm(groups):
    assert "split_storm" not in problems(cluster([{"name": "a:8080", "groups": groups}]), *CODES)


def one_topic(rate: float = 40_000, **parts: Any) -> PulsarSnapshot:
    hot = {"bundles": 1, "in": rate, "mb_in": 20, "topics": 1}
    rest = {"bundles": 15, "in": 800, "mb_in": 5}
    brokers = [{"name": "a:8080", "groups": [hot, rest]}, {"name": "b:8080", "groups": [rest]}]
    return cluster(brokers, **parts)


@pytest.mark.parametrize(
    ("release", "settings", "severity"),
    [
        ("2.8.1", {}, "warning"),  # splits a bundle of one topic for ever
        ("2.8.1", {AUTO: False}, "info"),
        ("2.8.2", {}, "info"),
        ("4.0.5", {}, "info"),
    ],
)
def test_one_topic_over_the_limits_of_a_split(release, settings, severity):
    found = only(one_topic(release=release, settings=settings), "topic_carries_bundle")
    assert found.severity == severity
    assert "it has one topic" in found.sentence


def test_one_topic_under_the_limits_is_no_finding():
    assert problems(one_topic(4_000), *CODES) == {}


def with_topics(shares: list[float], rate: float = 40_000) -> PulsarSnapshot:
    groups = [{"bundles": 8, "in": rate, "mb_in": 20, "topics": len(shares)}]
    made = cluster([{"name": "a:8080", "groups": groups}])
    rows = [
        {
            "topic": f"persistent://t/n/x-{at}",
            "bundle": made.bundles["bundle"][0].as_py(),
            "hash": at,
            "msg_throughput_in": share * 20e6,
            "msg_throughput_out": share * 20e6,
        }
        for at, share in enumerate(shares)
    ]
    topics = pa.Table.from_pylist(rows, schema=TOPICS)
    return PulsarSnapshot.build(made.manifest, {**made.tables, "topics": topics})


def test_a_topic_among_many_carries_its_bundle_where_topics_are_read():
    found = only(with_topics([0.9, 0.05, 0.05]), "topic_carries_bundle")
    assert found.severity == "warning"
    assert "persistent://t/n/x-0 causes 90% of it" in found.sentence


@pytest.mark.parametrize(
    ("shares", "rate"), [([0.5, 0.5], 40_000), ([0.9, 0.1], 12_000), ([0.9, 0.1], 16_000)]
)
def test_topics_that_a_split_can_part_are_no_finding(shares, rate):
    assert problems(with_topics(shares, rate), *CODES) == {}


def crowded(bundles: int, *, hot: float = 60_000, others: int = 3, **parts: Any) -> PulsarSnapshot:
    """A namespace with that many bundles, one of them hot, on the first broker."""
    per = bundles // (others + 1)
    busy = {"bundles": 1, "in": hot, "mb_in": hot / 1000, "mb_out": hot / 1000, "topics": 60}
    calm = {"in": 700, "mb_in": 1, "topics": 20}
    first = {"name": "a:8080", "cpu": 70, "groups": [busy, calm | {"bundles": per - 1}]}
    rest = [{"name": f"b-{at}:8080", "groups": [calm | {"bundles": per}]} for at in range(others)]
    return cluster([first, *rest], **parts)


@BOTH
@pytest.mark.parametrize(
    ("bundles", "limit", "others"), [(128, 128, 3), (32, 16, 1), (400, 64, 199)]
)
def test_the_limit_that_stops_a_split_names_the_bundle(bundles, limit, others, manager):
    snapshot = crowded(bundles, others=others, manager=manager, settings={MAX: limit})
    found = only(snapshot, "bundle_limit_reached")
    assert found.severity == "warning"
    assert (
        "carries 120k msg/s, over the split threshold of 30k msg/s, and is not split"
        in found.sentence
    )
    assert found.fix.wanted == {MAX: 2 * bundles}
    assert found.servers == ("a:8080",)
    assert len(found.evidence["due"]) == 1


def test_the_limit_of_throughput_and_topics_is_named_as_well():
    def said(**one: Any) -> str:
        first = [{"bundles": 1, "in": 10, **one}, {"bundles": 7, "in": 1}]
        brokers = [{"name": "a:8080", "groups": first}, {"name": "b:8080", "groups": first[1:]}]
        return only(cluster(brokers, settings={MAX: 8}), "bundle_limit_reached").sentence

    assert "400 MB/s, over the split threshold of 105 MB/s" in said(mb_in=200)
    assert "5,000 topics, over the split threshold of 1,000" in said(topics=5_000, mb_in=1)
    assert "more sessions than the split threshold of 1,000" in said(consumers=3_000, mb_in=1)


@pytest.mark.parametrize(
    "snapshot",
    [
        crowded(128, hot=700),  # nothing is due
        crowded(128, settings={AUTO: False}),  # no automatic splits
        # what is due is on brokers that carry no more than others
        cluster(
            [
                {
                    "name": f"b-{at}:8080",
                    "groups": [
                        {"bundles": 1, "in": 40_000, "mb_in": 20, "topics": 9},
                        {"bundles": 31, "in": 700, "mb_in": 1},
                    ],
                }
                for at in range(4)
            ]
        ),
    ],
    ids=["not due", "off", "even"],
)
def test_a_full_namespace_that_hurts_nothing_is_a_note(snapshot):
    assert problems(snapshot, *CODES)["bundle_limit_reached"] == "info"


def test_a_bundle_of_one_topic_is_not_due():
    groups = [{"bundles": 1, "in": 60_000, "mb_in": 50, "topics": 1}, {"bundles": 7, "in": 5}]
    snapshot = cluster(
        [{"name": "a:8080", "groups": groups}, {"name": "b:8080", "groups": groups[1:]}],
        settings={MAX: 8},
    )
    assert only(snapshot, "bundle_limit_reached").evidence["due"] == []


def test_many_full_namespaces_are_counted():
    groups = [{"ns": f"t/n{at}", "bundles": 4, "in": 10} for at in range(60)]
    snapshot = cluster([{"name": "a:8080", "groups": groups}], settings={MAX: 4})
    found = [one for one in assess(snapshot) if one.code == "bundle_limit_reached"]
    assert len(found) == 21
    assert found[-1].is_rest
