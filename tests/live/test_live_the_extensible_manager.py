"""The extensible manager gives what its REST gives, and the capture says what it cannot tell."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest
from cluster_truth import ClusterTruth
from java_process import wait_until
from our_reading import STEADY_ATTEMPTS, capture, config_of, rows_by
from real_pulsar import RealPulsar
from traffic import BUNDLES_BY_NAMESPACE

from connectors.pulsar.collect import PulsarCollector, fetch_topics
from core.pulsar.placement import place_bundle
from core.pulsar.settings import effective_settings
from core.pulsar.shedding import active_shedding_strategy, strategy_rounds
from core.pulsar.snapshot.load_topics import BROKER_LOAD_TOPIC
from core.pulsar.snapshot.znodes.assemble import EXTENSIBLE_LACKS
from core.pulsar.view import LoadView
from core.snapshot import PulsarSnapshot

pytestmark = pytest.mark.slow


@pytest.fixture
def ext_truth(extensible: RealPulsar) -> Iterator[ClusterTruth]:
    with ClusterTruth(extensible) as reader:
        yield reader


def test_brokers_and_leader_are_known(extensible: RealPulsar, ext_truth: ClusterTruth) -> None:
    snapshot = capture(extensible)
    assert snapshot.manifest.load_manager == "extensible"
    assert snapshot.manifest.leader == ext_truth.leader()
    assert set(rows_by(snapshot.brokers, "broker")) == set(extensible.brokers)
    assert {row["version"] for row in snapshot.brokers.to_pylist()} == {"4.2.4"}


def test_owned_bundles_are_those_each_broker_says_it_owns(
    extensible: RealPulsar, ext_truth: ClusterTruth
) -> None:
    # the first readers of the load topics have a broker take a bundle of pulsar/system over
    for _ in range(STEADY_ATTEMPTS):
        before = ext_truth.owned_by_rest()
        snapshot = capture(extensible)
        after = ext_truth.owned_by_rest()
        if before == after:
            break
    assert before == after
    ours = {row["bundle"]: row["owner"] for row in snapshot.bundles.to_pylist() if row["owner"]}
    assert ours == after
    namespaces = rows_by(snapshot.namespaces, "namespace")
    for namespace, bundles in BUNDLES_BY_NAMESPACE.items():  # splits of other tests added some
        answer = extensible.get_json(f"/admin/v2/namespaces/{namespace}/bundles")
        bounds = namespaces[namespace]["boundaries"]
        assert bounds == [int(text, 16) for text in answer["boundaries"]]
        assert len(bounds) >= bundles + 1


def test_topics_come_from_the_brokers(extensible: RealPulsar, ext_truth: ClusterTruth) -> None:
    for index, url in enumerate(extensible.admin_urls):
        listed = ext_truth.topics_of_broker(index)
        ours = fetch_topics(config_of(extensible), url, None).to_pylist()
        assert {row["topic"] for row in ours} == {t for topics in listed.values() for t in topics}


def test_what_cannot_be_told_is_said_and_is_not_a_number(
    extensible: RealPulsar, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pulsar", None)  # as if the extra were not installed
    snapshot = capture(extensible)
    assert EXTENSIBLE_LACKS in snapshot.manifest.unavailable
    assert snapshot.brokers.column("cpu_usage").null_count == len(extensible.brokers)
    (problem,) = (one for one in snapshot.manifest.problems if one.severity == "error")
    assert problem.place == BROKER_LOAD_TOPIC
    assert "trimtab[extensible]" in problem.done
    settings = effective_settings(snapshot)
    view = LoadView.of(snapshot, settings)
    placement = place_bundle(view, _bundle(view), settings)
    assert (placement.distribution, placement.is_known) == ({}, False)
    assert placement.why


@pytest.fixture
def heard(extensible: RealPulsar) -> Iterator[PulsarSnapshot]:
    """A snapshot of a collector that has run until every broker published."""
    collector = PulsarCollector(config_of(extensible))
    names = set(extensible.brokers)
    snapshots: list[PulsarSnapshot] = []

    def everybody_published() -> bool:
        snapshots.append(collector.collect())
        loads = set(snapshots[-1].broker_loads["broker"].to_pylist())
        return loads == names == set(snapshots[-1].top_bundles["broker"].to_pylist())

    try:
        wait_until("every broker published its load", everybody_published, within_s=150)
        yield snapshots[-1]
    finally:
        collector.close()


def test_the_collector_hears_what_the_brokers_publish(
    extensible: RealPulsar, heard: PulsarSnapshot, ext_truth: ClusterTruth
) -> None:
    assert heard.brokers.column("cpu_usage").null_count == 0
    assert EXTENSIBLE_LACKS not in heard.manifest.unavailable
    assert not [p for p in heard.manifest.problems if p.severity == "error"]
    for row in heard.broker_loads.to_pylist():
        assert 0.0 <= row["weighted_max_ema"] < 2.0, row  # the harness weighs nothing
        assert row["msg_throughput_ema"] > 0.0, row
    by_rest = ext_truth.owned_by_rest()
    for row in heard.top_bundles.to_pylist():
        assert row["bundle"] in by_rest, row
    channel = {
        row["bundle"]: row["broker"]
        for row in heard.unit_states.to_pylist()
        if row["state"] == "Owned"
    }
    ordinary = {name: broker for name, broker in by_rest.items() if ":" not in name}
    assert {name: channel.get(name) for name in ordinary} == ordinary


def test_placement_and_the_transfer_shedder_answer_on_a_live_cluster(
    extensible: RealPulsar, heard: PulsarSnapshot
) -> None:
    settings = effective_settings(heard)
    view = LoadView.of(heard, settings)
    placement = place_bundle(view, _bundle(view), settings)
    assert set(placement.distribution) <= set(extensible.brokers)
    assert sum(placement.distribution.values()) == pytest.approx(1.0)
    strategy = active_shedding_strategy(heard.manifest.load_manager, settings)
    done = next(strategy_rounds(strategy, view, settings))
    assert strategy.name == "TransferShedder"
    assert done.decision.reason in {"balanced", "hit_count"}, done.decision.sentence
    assert done.decision.trace


def _bundle(view: LoadView) -> str:
    return next(str(name) for name in view.bundles if str(name).startswith("acme/"))
