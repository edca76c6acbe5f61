"""Findings: each rule fires on its case and is silent on a sound fleet."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable
from functools import lru_cache

import msgspec
import pyarrow as pa
import pytest
from fleet_builder import NOON, broker_names, make_snapshot
from fleet_edit import edited, every, owned_by, with_manifest, with_policies, with_settings, without
from places import FIXTURES

from core.findings.engine import MAX_OF_ONE_CODE, capped
from core.findings.finding import Finding, count_by_severity, findings_sentence, overall_state
from core.pulsar.rules.registry import RULES, assess
from core.pulsar.snapshot.zkdump import import_zk_dump
from core.schemas import PULSAR_TABLES
from core.snapshot import Problem, PulsarSnapshot

BROKERS = broker_names(4)
LEAST_USAGE = "org.apache.pulsar.broker.loadbalance.impl.LeastResourceUsageWithWeight"
MODULAR = "org.apache.pulsar.broker.loadbalance.impl.ModularLoadManagerImpl"
NAMESPACES = ("acme/orders", "acme/mail", "globex/logs")


@lru_cache(maxsize=1)
def sound() -> PulsarSnapshot:
    """Four brokers with three equal bundles each; nothing to report."""
    base = with_policies(with_settings(make_snapshot(brokers=4, bundles=12)))
    rows = []
    for number in range(12):
        namespace, owner = NAMESPACES[number // 4], BROKERS[number % 4]
        lower = (number % 4) * 0x40000000
        upper = min(lower + 0x40000000, 0xFFFFFFFF)
        row = dict.fromkeys(PULSAR_TABLES["bundles"].names) | {
            "bundle": f"{namespace}/0x{lower:08x}_0x{upper:08x}",
            "namespace": namespace,
            "lower": lower,
            "upper": upper,
            "owner": owner,
            "owner_source": "ownership",
            "reported_by": owner,
            "is_broker_bound": False,
            "topic_count": 3,
            "producer_count": 3,
            "consumer_count": 3,
        }
        row |= {f"msg_rate_{way}": 100.0 for way in ("in", "out")}
        row |= {f"msg_throughput_{way}": 1e6 for way in ("in", "out")}
        rows.append(row)
    tables = dict(base.tables)
    tables["bundles"] = pa.Table.from_pylist(rows, schema=PULSAR_TABLES["bundles"])
    tables["namespaces"] = pa.Table.from_pylist(
        [
            dict.fromkeys(PULSAR_TABLES["namespaces"].names)
            | {
                "namespace": name,
                "tenant": name.partition("/")[0],
                "boundaries": [0, 0x40000000, 0x80000000, 0xC0000000, 0xFFFFFFFF],
                "is_broker_bound": False,
            }
            for name in NAMESPACES
        ],
        schema=PULSAR_TABLES["namespaces"],
    )
    even = {f"msg_rate_{way}": 300.0 for way in ("in", "out")}
    even |= {f"msg_throughput_{way}": 3e6 for way in ("in", "out")}
    even |= {"cpu_usage": 80.0, "bandwidth_in_usage": 24_000.0, "bandwidth_out_usage": 24_000.0}
    made = PulsarSnapshot.build(base.manifest, tables)
    complete = {
        name: entry.__class__(source="zookeeper", rows=entry.rows)
        for name, entry in made.manifest.tables.items()
    }
    return with_manifest(every(made, "brokers", even), tables=complete, leader=BROKERS[0])


def isolation(primary: str, *, namespaces: str = "acme/.*", secondary: str | None = None) -> str:
    return json.dumps(
        {
            "namespaces": [namespaces],
            "primary": [primary],
            "secondary": [secondary] if secondary else [],
            "auto_failover_policy": {
                "policy_type": "min_available",
                "parameters": {"min_limit": "1", "usage_threshold": "80"},
            },
        }
    )


def found(snapshot: PulsarSnapshot) -> dict[str, list[Finding]]:
    by_code: dict[str, list[Finding]] = {}
    for finding in assess(snapshot):
        by_code.setdefault(finding.code, []).append(finding)
    return by_code


def test_a_sound_fleet_has_no_finding_and_is_ok() -> None:
    findings = assess(sound())
    assert findings == ()
    assert overall_state(findings) == "ok"
    assert findings_sentence(findings) == "no findings"


def moved_to_one(snapshot: PulsarSnapshot) -> PulsarSnapshot:
    bundles = snapshot.bundles["bundle"].to_pylist()
    first = {name: {"owner": BROKERS[0], "reported_by": BROKERS[0]} for name in bundles}
    return edited(snapshot, "bundles", first)


B0 = BROKERS[0]
FIRST = "acme/orders/0x00000000_0x40000000"
CASES: dict[str, tuple[str, Callable[[PulsarSnapshot], PulsarSnapshot], str]] = {
    "broker_overloaded": (
        "error",
        lambda s: edited(s, "brokers", {B0: {"cpu_usage": 790.0}}),
        r"10\.1\.0\.1:8080 is at 98\.8% of its CPU, over the overload limit of 85%",
    ),
    "placement_without_candidate": (
        "warning",
        lambda s: with_settings(
            edited(s, "brokers", {b: {"cpu_usage": 320.0 + 240.0 * (b == B0)} for b in BROKERS}),
            (None, "loadBalancerLoadPlacementStrategy", LEAST_USAGE, "dynamic"),
        ),
        r"No broker is 10 points below the mean usage of 47\.5%: .* including 1 above 57\.5%",
    ),
    "traffic_deviation": (
        "warning",
        lambda s: edited(s, "brokers", {B0: {"msg_throughput_in": 9e6}}),
        r"50% above|66\.7% above|60% above",
    ),
    "balance_unknown": (
        "unknown",
        lambda s: edited(s, "brokers", {B0: {"msg_throughput_in": None}}),
        "3 of 4 brokers report it",
    ),
    "idle_broker": ("warning", moved_to_one, "owns no bundle; the mean of the brokers is 3"),
    "hot_bundle": (
        "warning",
        lambda s: edited(s, "bundles", {FIRST: {"msg_throughput_in": 9e6}}),
        "alone carries 10 MB/s, more than the limit of a broker",
    ),
    "single_bundle_namespace": (
        "warning",
        lambda s: without(
            s,
            "bundles",
            *(row["bundle"] for row in s.bundles.to_pylist() if "orders/0x0" not in row["bundle"]),
        ),
        "acme/orders has one bundle with 2 MB/s",
    ),
    "unowned_with_traffic": (
        "warning",
        lambda s: edited(s, "bundles", {FIRST: {"owner": None}}),
        "1 bundle without an owner",
    ),
    "unowned_bundles": (
        "info",
        lambda s: edited(
            s,
            "bundles",
            {
                FIRST: {
                    "owner": None,
                    "reported_by": None,
                    "msg_rate_in": None,
                    "msg_rate_out": None,
                }
            },
        ),
        "Without an owner and without clients: 1 bundle.",
    ),
    "owner_unknown": (
        "unknown",
        lambda s: edited(s, "bundles", {FIRST: {"owner": None, "owner_source": None}}),
        "The owner of 1 of 12 bundles is unknown",
    ),
    "moved_since_report": (
        "info",
        lambda s: edited(s, "bundles", {FIRST: {"owner": BROKERS[1]}}),
        "1 bundle changed owner",
    ),
    "inconsistent": (
        "warning",
        lambda s: with_manifest(
            s, problems=(Problem(code="inconsistent", place="/x", what="Two report it."),)
        ),
        "Two report it",
    ),
    "broker_suspected_dead": (
        "warning",
        lambda s: with_manifest(
            s, problems=(Problem(code="timeout", place=f"http://{B0}", what="No answer."),)
        ),
        f"{B0} is suspected dead: it does not answer in time",
    ),
    "address_silent": (
        "warning",
        lambda s: with_manifest(
            s, problems=(Problem(code="unreachable", place="http://gone:8080", what="Refused."),)
        ),
        "http://gone:8080 is configured, but no broker is registered there",
    ),
    "broker_dead": (
        "error",
        lambda s: edited(s, "brokers", {B0: {"reported_at": 1}}),
        f"{B0} is dead: report",
    ),
    "all_reports_old": (
        "warning",
        lambda s: every(s, "brokers", {"reported_at": 1}),
        "a broker reports at least every 15 min",
    ),
    "no_report": (
        "unknown",
        lambda s: edited(s, "brokers", {B0: {"reported_at": None}}),
        "its load report could not be read",
    ),
    "capacity_missing": (
        "warning",
        lambda s: edited(s, "brokers", {B0: {"bandwidth_in_limit": -1.0}}),
        "reports no limit for bandwidth in",
    ),
    "nic_limit_suspicious": (
        "warning",
        lambda s: edited(s, "brokers", {B0: {"bandwidth_in_limit": 100_000.0}}),
        "the cluster's median is 250 MB/s",
    ),
    "no_leader": (
        "warning",
        lambda s: with_manifest(s, leader=None),
        "None of the 4 brokers is known to be the leader",
    ),
    "leader_gone": (
        "warning",
        lambda s: with_manifest(s, leader="gone:8080"),
        "gone:8080 is not among the active brokers",
    ),
    "mixed_versions": (
        "info",
        lambda s: edited(s, "brokers", {B0: {"version": "4.0.8"}}),
        "2 versions: 3 \u00d7 4.2.4, 1 \u00d7 4.0.8",
    ),
    "mixed_load_managers": (
        "warning",
        lambda s: edited(s, "brokers", {B0: {"load_manager": "x.ExtensibleLoadManagerImpl"}}),
        "1 \u00d7 ExtensibleLoadManagerImpl",
    ),
    "load_manager_unsupported": (
        "unknown",
        lambda s: with_manifest(s, load_manager="simple"),
        "SimpleLoadManagerImpl",
    ),
    "not_available": (
        "unknown",
        lambda s: with_manifest(s, unavailable=("Averages are not there.",)),
        "Averages are not there",
    ),
    "isolation_without_brokers": (
        "error",
        lambda s: with_policies(s, ("isolation", "p", isolation("10\\.9\\.9\\.9"))),
        "matches none of the 4 brokers",
    ),
    "isolation_port_in_regex": (
        "warning",
        lambda s: with_policies(s, ("isolation", "p", isolation("10\\.1\\.0\\.1:8080"))),
        "must not contain a port",
    ),
    "isolation_view_misleads": (
        "info",
        lambda s: with_policies(s, ("isolation", "p", isolation("10\\.1\\.0\\.1"))),
        "matches 1 broker by host",
    ),
    "isolation_unreadable": (
        "warning",
        lambda s: with_policies(s, ("isolation", "p", isolation("["))),
        "cannot be read",
    ),
    "isolation_violated": (
        "warning",
        lambda s: with_policies(s, ("isolation", "p", isolation("10\\.1\\.0\\.1"))),
        "3 bundles of acme/mail outside isolation policy 'p': on 3 brokers",
    ),
    "anti_affinity_shared_broker": (
        "info",
        lambda s: moved_to_one(
            edited(
                s,
                "namespaces",
                {name: {"anti_affinity_group": "Pair "} for name in NAMESPACES[:2]},
            )
        ),
        "serves 2 namespaces of anti-affinity group 'pair' while 3 brokers serve none",
    ),
    "settings_differ": (
        "warning",
        lambda s: with_settings(
            s,
            (None, "loadBalancerSheddingEnabled", "true", "default"),
            (B0, "loadBalancerSheddingEnabled", "false", "file"),
        ),
        r"False on 10\.1\.0\.1:8080; True on 3 brokers",
    ),
    "setting_not_effective": (
        "warning",
        lambda s: with_settings(s, (None, "minUnloadMessage", "abc", "dynamic")),
        "minUnloadMessage is 'abc'",
    ),
    "setting_without_effect": (
        "warning",
        lambda s: with_manifest(
            with_settings(
                s, (None, "loadBalancerSheddingExcludedNamespaces", "[acme/orders]", "file")
            ),
            release="4.0.8",
        ),
        "Release 4.0.8 has no setting .* Available in 4.0.11 and later",
    ),
    "release_unknown": (
        "unknown",
        lambda s: with_manifest(s, release="6.0.1"),
        "Release 6.0.1 is unknown: the rules of 5.0 are assumed",
    ),
    "bundle_limit_reached": (
        "info",
        lambda s: with_settings(s, (None, "loadBalancerNamespaceMaximumBundles", "4", "dynamic")),
        "has 4 bundles, 100% of the limit of automatic splits",
    ),
    "coverage": (
        "unknown",
        lambda s: with_manifest(
            s,
            tables={
                **s.manifest.tables,
                "bundles": s.manifest.tables["bundles"].__class__(
                    source="zookeeper", rows=12, expected=20
                ),
            },
        ),
        r"12 of 20 bundles could be read \(60%\)",
    ),
    "reading_problem": (
        "unknown",
        lambda s: with_manifest(
            s,
            problems=(
                Problem(code="timeout", place="/a", what="No answer.", severity="error"),
                Problem(code="timeout", place="/b", what="No answer.", severity="error"),
            ),
        ),
        r"No answer\. And 1 more of this kind",
    ),
    "no_brokers": (
        "unknown",
        lambda s: without(s, "brokers", *BROKERS),
        "No broker is known",
    ),
}


@pytest.mark.parametrize("code", CASES)
def test_the_rule_fires_with_its_numbers(code) -> None:
    severity, change, words = CASES[code]
    findings = found(change(sound()))
    assert code in findings, sorted(findings)
    finding = findings[code][0]
    assert finding.severity == severity

    assert re.search(words, finding.sentence), finding.sentence
    assert finding.sentence.endswith(".")


@pytest.mark.parametrize("code", CASES)
def test_every_finding_is_ready_for_json(code) -> None:
    for finding in assess(CASES[code][1](sound())):
        json.dumps(msgspec.to_builtins(dict(finding.evidence)), allow_nan=False)


def test_a_broker_at_exactly_the_limit_is_not_overloaded() -> None:
    at_limit = edited(sound(), "brokers", {B0: {"cpu_usage": 680.0}})
    assert "broker_overloaded" not in found(at_limit)


def test_a_bundle_of_one_topic_is_not_told_to_split() -> None:
    hot = {FIRST: {"msg_throughput_in": 9e6, "topic_count": 1}}
    finding = found(edited(sound(), "bundles", hot))["hot_bundle"][0]
    assert "cannot help" in finding.hint


@pytest.mark.parametrize(("known", "is_judged"), [(1, False), (2, True)])
def test_a_bundle_is_hot_for_any_broker_only_where_half_of_them_report(known, is_judged) -> None:
    unheard = {one: {"msg_throughput_in": None, "msg_throughput_out": None} for one in BROKERS}
    for name in BROKERS[:known]:
        del unheard[name]
    some = edited(
        edited(sound(), "brokers", unheard), "bundles", {FIRST: {"msg_throughput_in": 9e6}}
    )
    assert ("hot_bundle" in found(some)) == is_judged


def test_a_bundle_count_near_the_limit_is_an_info() -> None:
    fleet = make_snapshot()
    most = max(Counter(fleet.bundles["namespace"].to_pylist()).values())
    limit = (None, "loadBalancerNamespaceMaximumBundles", str(most + 1), "file")
    assert found(with_settings(fleet, limit))["bundle_limit_near"][0].severity == "info"


@pytest.mark.parametrize(("each", "is_told"), [("2", True), ("3", False), ("0", False)])
def test_averages_that_the_leader_does_not_write_are_told(each: str, *, is_told: bool) -> None:
    key = "loadBalancerMaxNumberOfBundlesInBundleLoadReport"  # 4 brokers, 12 bundles
    fleet = with_settings(sound(), (None, key, each, "file"))
    told = found(fleet).get("averages_of_some_bundles", [])
    assert bool(told) is is_told
    assert all("8 busiest bundles only, of 12 assigned ones" in one.sentence for one in told)


def test_averages_are_missing_of_assigned_bundles_only() -> None:
    key = "loadBalancerMaxNumberOfBundlesInBundleLoadReport"
    fleet = with_settings(sound(), (None, key, "2", "file"))
    idle = [{"owner": None, "reported_by": None}] * 4
    unassigned = dict(zip(fleet.bundles["bundle"].to_pylist(), idle, strict=False))
    assert "averages_of_some_bundles" not in found(edited(fleet, "bundles", unassigned))


def test_unknown_is_never_green() -> None:
    findings = assess(edited(sound(), "brokers", {B0: {"reported_at": None}}))
    assert overall_state(findings) == "unknown"


def test_the_worst_comes_first_and_decides_the_state() -> None:
    worse = edited(sound(), "brokers", {B0: {"cpu_usage": 790.0, "version": "4.0.8"}})
    findings = assess(worse)
    assert findings[0].severity == "error"
    assert findings[-1].severity == "info"
    assert overall_state(findings) == "bad"
    assert count_by_severity(findings)["error"] == 1


def test_many_of_one_kind_are_counted() -> None:
    old = every(make_snapshot(brokers=40, bundles=100), "brokers", {"reported_at": None})
    findings = [item for item in assess(old) if item.code == "no_report"]
    assert len(findings) == MAX_OF_ONE_CODE + 1
    assert findings[-1].sentence.startswith("20 more of the same kind")


def test_few_of_one_kind_are_all_listed() -> None:
    one = Finding(code="x", severity="info", subject_kind="broker", title="T", sentence="S.")
    assert capped([one] * MAX_OF_ONE_CODE) == [one] * MAX_OF_ONE_CODE


def test_a_generated_fleet_shows_what_it_was_built_with() -> None:
    fleet = make_snapshot()
    codes = set(found(fleet))
    assert {"broker_overloaded", "traffic_deviation", "idle_broker", "settings_differ"} <= codes
    assert owned_by(fleet, "10.1.0.9:8080") == []
    idle = next(one for one in assess(fleet) if one.code == "idle_broker")
    assert idle.since is None  # it may have owned bundles since it started
    assert "it started " in idle.sentence


@pytest.mark.parametrize("missing", ["brokers", "bundles", "namespaces", "settings", "policies"])
def test_a_missing_table_is_unknown_and_stops_nothing(missing) -> None:
    findings = assess(make_snapshot(missing=(missing,)))
    assert any(item.severity == "unknown" for item in findings)


def test_every_rule_is_registered_once() -> None:
    assert len(set(RULES)) == len(RULES) >= 20


def test_a_bundle_in_two_reports_is_found(tmp_path) -> None:
    dump = FIXTURES / "contracts" / "three-brokers.jsonl"
    lines = [json.loads(line) for line in dump.read_text().splitlines()]
    reports = [line["value"] for line in lines if line["path"].startswith("/loadbalance/brokers/")]
    name, stats = next(iter(reports[0]["lastStats"].items()))
    reports[1]["lastStats"][name] = stats
    twice = tmp_path / "twice.jsonl"
    twice.write_text("\n".join(json.dumps(line) for line in lines))
    findings = found(import_zk_dump(twice, "twice", now=NOON))
    assert findings["inconsistent"][0].sentence.startswith(f"Two brokers report {name}")


@pytest.mark.parametrize(
    ("count", "words"),
    [
        (2, "10.1.0.1:8080 and 10.1.0.2:8080 report"),
        (4, "10.1.0.1:8080 and 3 other brokers report"),
    ],
)
def test_many_brokers_without_a_limit_are_one_finding(count, words) -> None:
    missing = {name: {"bandwidth_in_limit": 0.0} for name in BROKERS[:count]}
    findings = found(edited(sound(), "brokers", missing))["capacity_missing"]
    assert len(findings) == 1
    assert words in findings[0].sentence
