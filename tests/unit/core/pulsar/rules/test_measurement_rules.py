"""Measurements that cannot be true: named with the flag that corrects them, and never obeyed."""

from __future__ import annotations

from datetime import timedelta

import pytest
from clusters import GROUP, cluster, problems
from fleet_edit import edited, every, with_settings
from report_cluster import DUMPS, NOW

from core.findings.finding import Finding
from core.pulsar.plan.build import build_unload_plan
from core.pulsar.plausibility import impossible_usage, plausible_brokers
from core.pulsar.rules.doctor import examine
from core.pulsar.rules.registry import assess
from core.snapshot import PulsarSnapshot
from core.snapshot.store import load_snapshot

CPU = ("cpu_impossible", "broker_overloaded", "cpu_off_traffic")
MEMORY = ("cache_fills_direct_memory", "direct_memory_decides", "memory_impossible")
SHEDDER = "org.apache.pulsar.broker.loadbalance.impl."
B0 = "b-0:8080"


def fleet(*cpus: float, **parts) -> PulsarSnapshot:
    """Brokers with the same work and these usages of CPU, percent of the limit."""
    brokers = [{"name": f"b-{at}:8080", "cpu": cpu} for at, cpu in enumerate(cpus)]
    return cluster(brokers, **parts)


def only(snapshot: PulsarSnapshot, code: str) -> Finding:
    (found,) = [one for one in assess(snapshot) if one.code == code]
    return found


@pytest.mark.parametrize("manager", ["modular", "extensible"])
@pytest.mark.parametrize("cpus", [(150, 113, 104, 109), (120, 40), (106,), (300,) * 200])
def test_usage_over_its_limit_is_named_with_the_flag_and_no_unload_is_advised(cpus, manager):
    snapshot = fleet(*cpus, manager=manager)
    assert problems(snapshot, *CPU) == {"cpu_impossible": "error"}
    found = only(snapshot, "cpu_impossible")
    assert "-XX:ActiveProcessorCount" in found.hint
    assert "Do not unload" in found.hint
    # equal limits count equal CPUs, whatever their usage is
    assert len(found.servers) == len(cpus)


def test_the_sentence_has_both_counts_of_cpus():
    found = only(cluster([{"name": B0, "cpu": 150, "cores": 23}]), "cpu_impossible")
    assert "34.5 cores used of 23 (150%)" in found.sentence
    assert "35 CPUs or more" in found.sentence
    assert found.evidence["counted_cpus"] == 35


def test_another_limit_is_not_doubted():
    snapshot = cluster(
        [
            {"name": "small:8080", "cpu": 140, "cores": 4},
            {"name": "large:8080", "cpu": 93, "cores": 32},
        ]
    )
    assert only(snapshot, "cpu_impossible").servers == ("small:8080",)
    assert only(snapshot, "broker_overloaded").subject == "large:8080"


def test_what_can_be_true_beside_it_still_counts():
    full = {"bandwidth_out_usage": 9_700_000.0}
    found = only(edited(fleet(150, 40), "brokers", {B0: full}), "broker_overloaded")
    assert "97% of its outbound bandwidth" in found.sentence


@pytest.mark.parametrize("cpu", [100, 104, 99, 86])
def test_usage_up_to_the_inaccuracy_of_its_limit_is_a_busy_broker(cpu):
    assert problems(fleet(cpu, 50, 50), *CPU) == {"broker_overloaded": "error"}


def test_a_plan_on_it_has_a_diagnostic_and_one_without_has_none():
    for cpu, expected in ((150, 1), (60, 0)):
        snapshot = fleet(cpu, 40)
        bundle = snapshot.bundles["bundle"][0].as_py()
        plan = build_unload_plan(snapshot, [bundle], now=NOW + timedelta(seconds=5))
        assert [one.code for one in plan.diagnostics].count("usage_impossible") == expected


def test_impossible_usage_is_unknown_to_what_reads_plausible_brokers():
    brokers = plausible_brokers(fleet(150, 40, 40).brokers)
    assert brokers["cpu_usage"].null_count == 3
    assert brokers["cpu_ratio"].null_count == 3
    assert brokers["direct_memory_usage"].null_count == 0
    same = fleet(60, 40).brokers
    assert plausible_brokers(same).equals(same)


@pytest.mark.parametrize("side", ["in", "out"])
def test_traffic_over_the_network_limit_is_impossible(side):
    snapshot = every(fleet(40, 40), "brokers", {f"bandwidth_{side}_limit": 100_000.0})
    codes = [one for one in assess(snapshot) if one.code == "nic_limit_suspicious"]
    assert len(codes) == 2
    assert all("loadBalancerOverrideBrokerNicSpeedGbps" in one.hint for one in codes)
    assert impossible_usage(snapshot.brokers)[f"bandwidth_{side}"].all()
    assert "broker_overloaded" not in problems(snapshot, *CPU)
    assert any(one.code == "network_limit_odd" for one in examine(snapshot).diagnoses)


def test_messages_count_where_the_cards_report_less():
    change = {"bandwidth_in_limit": 100_000.0, "bandwidth_in_usage": 1_000.0}
    found = [
        one
        for one in assess(every(fleet(40, 40), "brokers", change))
        if one.code == "nic_limit_suspicious"
    ]
    assert len(found) == 2
    assert "its messages use 320% of it" in found[0].sentence


@pytest.mark.parametrize(
    ("resource", "flag"), [("memory", "-Xmx"), ("direct_memory", "-XX:MaxDirectMemorySize")]
)
def test_more_memory_than_there_is_names_its_flag(resource, flag):
    snapshot = edited(fleet(40, 40), "brokers", {B0: {f"{resource}_usage": 9_500.0}})
    found = only(snapshot, "memory_impossible")
    assert flag in found.hint
    assert found.subject == B0
    assert "broker_overloaded" not in problems(snapshot, *CPU)


def work(share: float) -> list[dict[str, float]]:
    return [{**GROUP, "in": GROUP["in"] * share, "mb_in": 5 * share, "mb_out": 10 * share}]


def test_of_two_brokers_the_one_with_more_cpu_and_less_traffic_is_named():
    snapshot = cluster(
        [
            {"name": "a:8080", "cpu": 75, "groups": work(0.4)},
            {"name": "b:8080", "cpu": 25, "groups": work(1)},
        ]
    )
    found = only(snapshot, "cpu_off_traffic")
    assert found.subject == "a:8080"
    assert "6.0 cores for 48 MB/s of messages; the other broker: 2.0 cores for 120 MB/s" in (
        found.sentence
    )


def test_of_many_brokers_the_one_with_little_cpu_for_much_traffic_is_named():
    odd = {"name": "odd:8080", "cpu": 9, "groups": work(4)}
    rest = [{"name": f"b-{at}:8080", "cpu": 45} for at in range(11)]
    found = only(cluster([odd, *rest]), "cpu_off_traffic")
    assert found.subject == "odd:8080"
    assert found.evidence["direction"] == "under"


def test_no_unload_is_advised_for_a_broker_overloaded_by_other_work():
    snapshot = cluster(
        [
            {"name": "odd:8080", "cpu": 96, "groups": work(0.3)},
            *({"name": f"b-{at}:8080", "cpu": 30} for at in range(3)),
        ]
    )
    assert "check the processes on its host" in only(snapshot, "broker_overloaded").hint


def test_no_core_carries_that_much():
    snapshot = cluster([{"name": B0, "cpu": 0.5, "groups": work(3)}])
    assert "0.04 cores used for 360 MB/s" in only(snapshot, "cpu_off_traffic").sentence


@pytest.mark.parametrize(
    "brokers",
    [
        # large messages beside small ones: fewer bytes, more messages
        [
            {"cpu": 70, "groups": [{"bundles": 8, "in": 9000, "mb_in": 2, "mb_out": 2}]},
            {"cpu": 30, "groups": work(1)},
        ],
        # a broker that has just started
        [{"cpu": 80, "groups": [], "started_s_ago": 60}, {"cpu": 30}, {"cpu": 30}],
        # a larger machine does the same with a smaller share
        [{"cpu": 12, "cores": 32, "groups": work(2)}, {"cpu": 45, "cores": 8}],
        # next to no traffic at all
        [{"cpu": 60, "groups": []}, {"cpu": 4, "groups": work(0.001)}],
        # twice the traffic, twice the CPU
        [{"cpu": 80, "groups": work(2)}, {"cpu": 40}, {"cpu": 41}],
    ],
)
def test_cpu_that_has_a_reason_is_no_finding(brokers):
    named = [one | {"name": f"b-{at}:8080"} for at, one in enumerate(brokers)]
    assert "cpu_off_traffic" not in problems(cluster(named), *CPU)


def with_cache(size: int, *, direct: float = 20.0, **parts) -> PulsarSnapshot:
    brokers = [
        {"name": f"b-{at}:8080", "direct_memory": direct} for at in range(parts.pop("count", 4))
    ]
    row = (None, "managedLedgerCacheSizeMB", str(size), "file")
    made = cluster(brokers, **parts)
    kept = [tuple(one.values()) for one in made.settings.to_pylist()]
    return with_settings(made, *kept, row)


@pytest.mark.parametrize(("size", "is_full"), [(8000, True), (6600, True), (6000, False)])
@pytest.mark.parametrize("count", [2, 200])
def test_a_cache_that_alone_can_fill_direct_memory(size, is_full, count):
    found = problems(with_cache(size, count=count), *MEMORY)
    assert found == ({"cache_fills_direct_memory": "warning"} if is_full else {})


def test_the_cache_of_one_broker_is_its_own():
    one = (B0, "managedLedgerCacheSizeMB", "8000", "file")
    found = only(with_settings(fleet(40, 40), one), "cache_fills_direct_memory")
    assert found.servers == (B0,)


@pytest.mark.parametrize(
    ("strategy", "release", "direct", "cpu", "is_named"),
    [
        ("OverloadShedder", "2.10.6", 92, 40, True),
        ("OverloadShedder", "2.10.6", 99, 40, True),
        ("OverloadShedder", "2.10.6", 60, 40, False),  # far from its threshold
        ("OverloadShedder", "2.10.6", 92, 80, False),  # traffic is near it as well
        ("OverloadShedder", "4.0.5", 92, 40, False),  # weighted 0 there
        ("ThresholdShedder", "2.10.6", 92, 40, False),
    ],
)
def test_direct_memory_that_decides_what_overload_shedder_sheds(
    strategy, release, direct, cpu, is_named
):
    settings = {
        "loadBalancerLoadSheddingStrategy": f"{SHEDDER}{strategy}",
        "loadBalancerBrokerOverloadedThresholdPercentage": 95,
    }
    brokers = [{"name": f"b-{at}:8080", "cpu": cpu, "direct_memory": direct} for at in range(3)]
    snapshot = cluster(brokers, release=release, settings=settings)
    assert ("direct_memory_decides" in problems(snapshot, *MEMORY)) is is_named


def test_settings_of_a_manifest_are_found_by_the_doctor_too():
    snapshot = load_snapshot(DUMPS / "serving" / "c1")
    codes = {one.code for one in examine(snapshot).warnings}
    assert "direct_memory_decides" in codes
