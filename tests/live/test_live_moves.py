"""Bundles unloaded by hand, without a destination, land where our distribution says they can."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import numpy as np
import pytest
from cluster_truth import ClusterTruth
from moves import InTurn, move_and_compare, report, unload, wait_averaged, wait_settled
from our_reading import capture, rows_by
from pulsar_files import BrokerPlace
from real_pulsar import RealPulsar

from core.pulsar.plan.build import build_unload_plan
from core.pulsar.plan.preview import preview_plan, project
from core.pulsar.settings import effective_settings
from core.pulsar.view import LoadView

TRIALS = 20
# A cluster of its own: lookups of topics that nobody uses fill the leader's memory of what it
# placed, which no znode shows.
pytestmark = pytest.mark.usefixtures("fresh_start")


@pytest.mark.slow
def test_unloaded_bundle_lands_where_the_distribution_says_it_can(
    modular: RealPulsar, truth: ClusterTruth
) -> None:
    landing = move_and_compare(modular, truth, InTurn())
    assert landing.probability > 0, report([landing])


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_twenty_unloaded_bundles_all_land_where_the_distribution_says(
    modular: RealPulsar, truth: ClusterTruth
) -> None:
    choose = InTurn()
    landings = [move_and_compare(modular, truth, choose) for _ in range(TRIALS)]
    sys.stderr.write(f"\n{report(landings)}\n")
    assert not [each for each in landings if each.probability <= 0], report(landings)
    assert any(each.left != each.landed for each in landings)


@pytest.mark.slow
def test_preview_tells_the_landing_and_the_clients_that_the_owner_counts(
    modular: RealPulsar, truth: ClusterTruth
) -> None:
    wait_averaged(truth)
    wait_settled(modular, truth)
    snapshot = capture(modular)
    view = LoadView.of(snapshot, effective_settings(snapshot))
    bundle = InTurn()(view)
    owner = view.brokers[view.owner[view.bundle_row(bundle)]]
    topics = truth.topics_of_broker(modular.index_of(owner))[bundle].values()
    plan = build_unload_plan(snapshot, [bundle], now=snapshot.manifest.taken_at)
    assert plan.applyable
    (step,) = preview_plan(snapshot, plan).steps
    assert step.clients.producers == sum(len(topic["publishers"]) for topic in topics)
    assert step.clients.consumers == sum(
        len(subscription["consumers"])
        for topic in topics
        for subscription in topic["subscriptions"].values()
    )
    landed = unload(modular, truth, bundle)
    assert step.placement.distribution.get(landed, 0.0) > 0
    expected = rows_by(project(snapshot, plan).bundles, "bundle")
    if step.placement.distribution == {landed: 1.0}:
        assert expected[bundle]["owner"] == landed


@pytest.fixture
def governed(modular: RealPulsar) -> Iterator[BrokerPlace]:
    """An isolation policy that keeps ``acme/orders`` on the second broker's host."""
    place = modular.places.brokers[1]
    if place.host == modular.places.brokers[0].host:
        pytest.skip("all brokers share one host here, which isolation policies cannot tell apart")
    path = f"/admin/v2/clusters/{modular.cluster}/namespaceIsolationPolicies/orders"
    body = {
        "namespaces": ["acme/orders"],
        "primary": [place.host.replace(".", r"\.")],
        "secondary": [],
        "auto_failover_policy": {
            "policy_type": "min_available",
            "parameters": {"min_limit": "1", "usage_threshold": "100"},
        },
    }
    assert modular.request("POST", path, json=body).status_code == 204
    yield place
    assert modular.request("DELETE", path).status_code == 204


@pytest.mark.slow
def test_isolated_namespace_is_predicted_for_its_primary_alone_and_lands_there(
    modular: RealPulsar, truth: ClusterTruth, governed: BrokerPlace
) -> None:
    def of_orders(view: LoadView) -> str:
        return next(
            str(view.bundles[row])
            for row in np.flatnonzero((view.owner >= 0) & (view.bundle_msg_rate > 0))
            if str(view.bundles[row]).startswith("acme/orders/")
        )

    landing = move_and_compare(modular, truth, of_orders)
    assert landing.distribution == {governed.broker: 1.0}
    assert landing.landed == governed.broker
    # a policy's primaries are for its namespaces alone: the others stay away from them
    others = move_and_compare(modular, truth, InTurn(skip="acme/orders/"))
    assert governed.broker not in others.distribution
    assert others.probability > 0
