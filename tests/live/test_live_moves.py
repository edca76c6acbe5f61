"""Bundles unloaded by hand, without a destination, land where our distribution says they can."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass

import pytest
from cluster_truth import REPORTS, ClusterTruth
from java_process import wait_until
from our_reading import capture
from real_pulsar import RealPulsar
from traffic import topic_names

from core.ids import is_broker_bound, namespace_of
from core.pulsar.placement import place_bundle
from core.pulsar.settings import effective_settings
from core.pulsar.view import LoadView

TRIALS = 20
SETTLE_WITHIN_S = 90.0


@dataclass(frozen=True)
class Landing:
    """One unload: what was foretold, and where the bundle went."""

    bundle: str
    left: str
    distribution: dict[str, float]
    landed: str

    @property
    def probability(self) -> float:
        return self.distribution.get(self.landed, 0.0)


def wait_settled(cluster: RealPulsar, truth: ClusterTruth) -> float:
    """Wait until the reports name every bundle with topics at its owner: the leader knows it too.

    A bundle that is owned but holds no topic is in no report.
    """

    def settled() -> bool:
        listed = {i: truth.topics_of_broker(i) for i in cluster.running}
        topics = {
            topic for bundles in listed.values() for names in bundles.values() for topic in names
        }
        reports = truth.read(REPORTS).under(REPORTS)
        said = {b: broker for broker, report in reports.items() for b in report["bundles"]}
        served = {bundle: cluster.brokers[i] for i, bundles in listed.items() for bundle in bundles}
        return (
            topics.issuperset(topic_names())
            and said == served
            and said.items() <= truth.owners().items()
        )

    return wait_until("reports name the served bundles", settled, within_s=SETTLE_WITHIN_S)


def unload(cluster: RealPulsar, truth: ClusterTruth, bundle: str) -> str:
    """Unload a bundle with a raw request and return the broker that owns it next."""
    before = truth.ownership(bundle)
    answer = cluster.request("PUT", f"/admin/v2/namespaces/{bundle}/unload")
    assert answer.status_code == 204, answer.text
    wait_until(
        f"{bundle} is owned again",
        lambda: truth.ownership(bundle) not in (None, before),
        within_s=30,
    )
    after = truth.ownership(bundle)
    assert after is not None
    return after.broker


def move_and_compare(
    cluster: RealPulsar, truth: ClusterTruth, choose: Callable[[LoadView], str]
) -> Landing:
    """Foretell where a bundle goes, unload it, and see."""
    wait_settled(cluster, truth)
    snapshot = capture(cluster)
    settings = effective_settings(snapshot)
    view = LoadView.of(snapshot, settings)
    bundle = choose(view)
    placement = place_bundle(view, bundle, settings)
    assert placement.distribution, placement.why
    assert sum(placement.distribution.values()) == pytest.approx(1.0)
    left = view.brokers[view.owner[view.bundle_row(bundle)]]
    landed = unload(cluster, truth, bundle)
    return Landing(bundle, left, placement.distribution, landed)


class InTurn:
    """Names the owned bundles that have traffic one after the other, busiest namespace first."""

    def __init__(self) -> None:
        self._done: set[str] = set()

    def __call__(self, view: LoadView) -> str:
        busy = [
            str(name)
            for name, owner, rate in zip(
                view.bundles, view.owner, view.bundle_msg_rate, strict=True
            )
            if owner >= 0 and rate > 0 and not is_broker_bound(namespace_of(str(name)))
        ]
        fresh = [name for name in busy if name not in self._done]
        if not fresh:
            self._done.clear()
            fresh = busy
        chosen = fresh[0]
        self._done.add(chosen)
        return chosen


def report(landings: list[Landing]) -> str:
    lines = [
        f"{index + 1:2d} {each.bundle} {each.left} -> {each.landed} p={each.probability:.2f}"
        f" of {len(each.distribution)}"
        for index, each in enumerate(landings)
    ]
    sharp = sum(1 for each in landings if len(each.distribution) == 1)
    return "\n".join([*lines, f"{sharp} of {len(landings)} foretold as certain"])


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
