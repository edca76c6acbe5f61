"""The extensible manager gives what its REST gives, and the capture says what it cannot tell."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from cluster_truth import ClusterTruth
from our_reading import capture, config_of, rows_by
from real_pulsar import RealPulsar
from traffic import BUNDLES_BY_NAMESPACE

from connectors.collect import fetch_topics
from core.pulsar.placement import place_bundle
from core.pulsar.settings import effective_settings
from core.pulsar.view import LoadView

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
    snapshot = capture(extensible)
    ours = {row["bundle"]: row["owner"] for row in snapshot.bundles.to_pylist() if row["owner"]}
    assert ours == ext_truth.owned_by_rest()
    namespaces = rows_by(snapshot.namespaces, "namespace")
    for namespace, bundles in BUNDLES_BY_NAMESPACE.items():
        assert len(namespaces[namespace]["boundaries"]) == bundles + 1


def test_topics_come_from_the_brokers(extensible: RealPulsar, ext_truth: ClusterTruth) -> None:
    for index, url in enumerate(extensible.admin_urls):
        listed = ext_truth.topics_of_broker(index)
        ours = fetch_topics(config_of(extensible), url, None).to_pylist()
        assert {row["topic"] for row in ours} == {t for topics in listed.values() for t in topics}


def test_what_cannot_be_told_is_said_and_is_not_a_number(extensible: RealPulsar) -> None:
    snapshot = capture(extensible)
    assert snapshot.manifest.unavailable
    assert snapshot.brokers.column("cpu_usage").null_count == len(extensible.brokers)
    assert not [p for p in snapshot.manifest.problems if p.severity == "error"]


def test_placement_is_refused_with_a_reason_and_not_guessed(extensible: RealPulsar) -> None:
    snapshot = capture(extensible)
    settings = effective_settings(snapshot)
    view = LoadView.of(snapshot, settings)
    bundle = next(str(name) for name in view.bundles if str(name).startswith("acme/"))
    placement = place_bundle(view, bundle, settings)
    assert placement.distribution == {}
    assert placement.why
