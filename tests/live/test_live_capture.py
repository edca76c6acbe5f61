"""A capture of the real cluster holds what the brokers report, number for number."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from cluster_truth import BROKER_AVERAGES, BUNDLE_DATA, REPORTS, ClusterTruth
from java_process import wait_until
from moves import wait_settled
from our_reading import STEADY_ATTEMPTS, capture, config_of, rows_by, steady_capture
from real_pulsar import RealPulsar
from traffic import BUNDLES_BY_NAMESPACE

from connectors.pulsar.collect import fetch_topics
from core.pulsar.settings import effective_settings
from core.pulsar.snapshot.zkdump import import_zk_dump

RESOURCES = {
    "cpu": "cpu",
    "memory": "memory",
    "directMemory": "direct_memory",
    "bandwidthIn": "bandwidth_in",
    "bandwidthOut": "bandwidth_out",
}
RATES = {
    "msgRateIn": "msg_rate_in",
    "msgRateOut": "msg_rate_out",
    "msgThroughputIn": "msg_throughput_in",
    "msgThroughputOut": "msg_throughput_out",
}
BROKER_FIELDS = {
    **RATES,
    "webServiceUrl": "web_url",
    "pulsarServiceUrl": "service_url",
    "brokerVersionString": "version",
    "loadManagerClassName": "load_manager",
    "startTimestamp": "started_at",
    "lastUpdate": "reported_at",
    "persistentTopicsEnabled": "persistent_topics_enabled",
    "nonPersistentTopicsEnabled": "non_persistent_topics_enabled",
    "numTopics": "topic_count",
    "numBundles": "bundle_count",
    "numProducers": "producer_count",
    "numConsumers": "consumer_count",
}
BUNDLE_FIELDS = {
    **RATES,
    "topics": "topic_count",
    "producerCount": "producer_count",
    "consumerCount": "consumer_count",
    "cacheSize": "cache_size_bytes",
}


def test_capture_names_the_brokers_the_leader_and_the_release(
    modular: RealPulsar, truth: ClusterTruth
) -> None:
    snapshot = capture(modular)
    manifest = snapshot.manifest
    assert manifest.load_manager == "modular"
    assert manifest.leader == truth.leader()
    assert manifest.pulsar_cluster == modular.cluster
    assert manifest.release == modular.request("GET", "/admin/v2/brokers/version").text
    brokers = rows_by(snapshot.brokers, "broker")
    assert set(brokers) == set(modular.get_json("/admin/v2/brokers"))
    assert [name for name, row in brokers.items() if row["is_leader"]] == [truth.leader()]


def test_capture_of_a_healthy_cluster_is_complete_and_without_a_problem(
    modular: RealPulsar,
) -> None:
    # brokers report a bundle that just moved for a report interval more
    wait_until("no problem", lambda: capture(modular).manifest.problems == (), within_s=60.0)
    manifest = capture(modular).manifest
    for name in ("brokers", "bundles", "namespaces"):
        assert manifest.tables[name].coverage_ratio == 1.0, name


def test_every_number_of_a_brokers_row_is_that_of_its_znode(
    modular: RealPulsar, truth: ClusterTruth
) -> None:
    snapshot, znodes = steady_capture(modular, truth, REPORTS)
    brokers = rows_by(snapshot.brokers, "broker")
    for broker, report in znodes.under(REPORTS).items():
        row = brokers[broker]
        assert {ours: row[ours] for ours in BROKER_FIELDS.values()} == {
            ours: report[theirs] for theirs, ours in BROKER_FIELDS.items()
        }
        assert set(row["last_bundle_gains"]) == set(report["lastBundleGains"])
        assert set(row["last_bundle_losses"]) == set(report["lastBundleLosses"])
        for theirs, ours in RESOURCES.items():
            usage, limit = report[theirs]["usage"], report[theirs]["limit"]
            assert row[f"{ours}_usage"] == usage
            assert row[f"{ours}_limit"] == limit
            assert row[f"{ours}_ratio"] == pytest.approx(usage / limit, rel=1e-6)


def test_bundles_carry_the_statistics_of_the_broker_that_reports_them(
    modular: RealPulsar, truth: ClusterTruth
) -> None:
    wait_settled(modular, truth)  # a report that came before the traffic names few bundles
    snapshot, znodes = steady_capture(modular, truth, REPORTS)
    bundles = rows_by(snapshot.bundles, "bundle")
    reported = 0
    for broker, report in znodes.under(REPORTS).items():
        for bundle, stats in report["lastStats"].items():
            row = bundles[bundle]
            assert row["reported_by"] == broker
            assert {ours: row[ours] for ours in BUNDLE_FIELDS.values()} == {
                ours: stats[theirs] for theirs, ours in BUNDLE_FIELDS.items()
            }
            reported += 1
    assert reported > 10


def test_owner_of_every_bundle_is_the_holder_of_its_ephemeral(
    modular: RealPulsar, truth: ClusterTruth
) -> None:
    snapshot, _ = steady_capture(modular, truth, "/namespace")
    owned = {name: row["owner"] for name, row in rows_by(snapshot.bundles, "bundle").items()}
    held = {bundle: broker for bundle, broker in owned.items() if broker is not None}
    assert held == truth.owners()
    assert held == truth.owned_by_rest()
    sources = {row["owner_source"] for row in snapshot.bundles.to_pylist() if row["owner"]}
    assert sources == {"ownership"}


def test_boundaries_of_every_namespace_are_those_the_cluster_answers(modular: RealPulsar) -> None:
    namespaces = rows_by(capture(modular).namespaces, "namespace")
    assert set(BUNDLES_BY_NAMESPACE) <= set(namespaces)
    for namespace, bundles in BUNDLES_BY_NAMESPACE.items():
        answer = modular.get_json(f"/admin/v2/namespaces/{namespace}/bundles")
        bounds = namespaces[namespace]["boundaries"]
        assert bounds == [int(text, 16) for text in answer["boundaries"]]
        assert len(bounds) == bundles + 1


@pytest.mark.slow
def test_averages_are_those_the_leader_wrote(modular: RealPulsar, truth: ClusterTruth) -> None:
    wait_until(
        "the leader writes averages of every reported bundle",
        lambda: (
            len(truth.read(BUNDLE_DATA).values) >= 10
            and len(truth.read(BROKER_AVERAGES).values) == len(modular.brokers)
        ),
        within_s=200,
    )
    snapshot, znodes = steady_capture(modular, truth, BUNDLE_DATA, BROKER_AVERAGES)
    bundles = rows_by(snapshot.bundles, "bundle")
    for bundle, value in znodes.under(BUNDLE_DATA).items():
        row = bundles[bundle]
        assert row["averaged_topic_count"] == value["topics"]
        for term in ("short", "long"):
            stored = value[f"{term}TermData"]
            assert row[f"{term}_samples"] == stored["numSamples"]
            for theirs, ours in RATES.items():
                assert row[f"{term}_{ours}"] == stored[theirs]
    brokers = rows_by(snapshot.brokers, "broker")
    for broker, value in znodes.under(BROKER_AVERAGES).items():
        for term in ("short", "long"):
            for theirs, ours in RATES.items():
                key = f"{term}Term{theirs[0].upper()}{theirs[1:]}"
                assert brokers[broker][f"{term}_{ours}"] == value[key]


def test_rates_are_near_what_each_broker_answers_right_now(
    modular: RealPulsar, truth: ClusterTruth
) -> None:
    """The report in ZooKeeper is up to a minute old, the brokers' own answer is of now.

    Traffic of a busy machine comes in gusts: sooner or later the two tell the same.
    """

    def agree() -> bool:
        brokers = rows_by(capture(modular).brokers, "broker")
        reports = truth.load_reports()
        assert set(reports) == set(brokers)
        for broker, report in reports.items():
            row = brokers[broker]
            assert row["web_url"] == report["webServiceUrl"]
            assert row["direct_memory_limit"] == report["directMemory"]["limit"]
        return all(
            brokers[broker]["msg_rate_in"] == pytest.approx(report["msgRateIn"], rel=0.25, abs=5)
            and brokers[broker]["msg_throughput_out"]
            == pytest.approx(report["msgThroughputOut"], rel=0.25, abs=5000)
            for broker, report in reports.items()
        )

    wait_until("reports and brokers tell the same rates", agree, within_s=150)


@pytest.fixture
def dynamic_setting(modular: RealPulsar) -> Iterator[str]:
    name = "loadBalancerBrokerThresholdShedderPercentage"
    path = f"/admin/v2/brokers/configuration/{name}"
    assert modular.request("POST", f"{path}/37").ok
    yield name
    modular.request("DELETE", path)


def test_settings_say_what_the_file_and_what_a_dynamic_override_set(
    modular: RealPulsar, dynamic_setting: str
) -> None:
    settings = effective_settings(capture(modular))
    assert settings.release == "4.2"
    assert settings.value("loadBalancerCPUResourceWeight") == 0.0
    assert settings.origin("loadBalancerCPUResourceWeight") == "file"
    assert settings.value("loadBalancerReportUpdateMinIntervalMillis") == 3000
    assert settings.value(dynamic_setting) == 37
    assert settings.origin(dynamic_setting) == "dynamic"
    assert settings.value("loadBalancerBrokerOverloadedThresholdPercentage") == 85
    assert settings.origin("loadBalancerBrokerOverloadedThresholdPercentage") == "default"


def test_topics_of_a_bundle_are_those_its_owner_lists(
    modular: RealPulsar, truth: ClusterTruth
) -> None:
    for index, url in enumerate(modular.admin_urls):
        listed = truth.topics_of_broker(index)
        everything = fetch_topics(config_of(modular), url, None).to_pylist()
        ours = {(row["bundle"], row["topic"]) for row in everything}
        assert ours == {(bundle, topic) for bundle, topics in listed.items() for topic in topics}
        bundle = next(name for name in listed if name.startswith("acme/"))
        one = fetch_topics(config_of(modular), url, bundle).to_pylist()
        assert {row["topic"] for row in one} == set(listed[bundle])


def test_without_zookeeper_brokers_and_bundles_come_from_rest(modular: RealPulsar) -> None:
    snapshot = capture(modular, zookeeper=None)
    brokers = rows_by(snapshot.brokers, "broker")
    assert set(brokers) == set(modular.brokers)
    assert sum(row["msg_rate_in"] for row in brokers.values()) > 50
    assert snapshot.bundles.num_rows >= 10
    assert snapshot.bundles.column("long_msg_rate_in").null_count == snapshot.bundles.num_rows
    assert snapshot.manifest.unavailable


def test_dump_of_zookeeper_gives_the_same_brokers_and_bundles_as_a_capture(
    modular: RealPulsar, truth: ClusterTruth, tmp_path: Path
) -> None:
    folders = ("/loadbalance", "/namespace", "/admin")
    for _ in range(STEADY_ATTEMPTS):
        dump = truth.dump(tmp_path / "dump.jsonl", *folders)
        captured, znodes = steady_capture(modular, truth, *folders)
        lines = map(json.loads, dump.read_text("utf-8").splitlines())
        if {line["path"]: line["value"] for line in lines} == znodes.values:
            break
    imported = import_zk_dump(dump, "real", captured.manifest.taken_at)
    # a znode written in the middle of a broker's update is a problem of both readings
    assert set(imported.manifest.problems) <= set(captured.manifest.problems)
    assert imported.manifest.leader == captured.manifest.leader
    assert imported.brokers.to_pylist() == captured.brokers.to_pylist()
    assert imported.bundles.to_pylist() == captured.bundles.to_pylist()
    ours = imported.namespaces.select(["namespace", "boundaries"]).to_pylist()
    assert ours == captured.namespaces.select(["namespace", "boundaries"]).to_pylist()
