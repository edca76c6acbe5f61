"""Unload a bundle of the real cluster by hand, and compare with what Trimtab predicted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

import pytest
from cluster_truth import BROKER_AVERAGES, BUNDLE_DATA, REPORTS, ClusterTruth
from java_process import wait_until
from our_reading import capture
from real_pulsar import RealPulsar
from traffic import topic_names

from core.ids import is_broker_bound, namespace_of
from core.pulsar.placement import place_bundle
from core.pulsar.settings import effective_settings
from core.pulsar.view import LoadView

SETTLE_WITHIN_S: Final = 150.0


@dataclass(frozen=True)
class Landing:
    """One unload: what was predicted, and where the bundle went."""

    bundle: str
    left: str
    distribution: dict[str, float]
    landed: str
    ruled_out: dict[str, str] = field(default_factory=dict)
    scores: dict[str, float] = field(default_factory=dict)

    @property
    def probability(self) -> float:
        """What the distribution gave the broker that got it."""
        return self.distribution.get(self.landed, 0.0)


def wait_settled(cluster: RealPulsar, truth: ClusterTruth) -> float:
    """Wait until the reports name every bundle with topics at its owner: the leader knows it too.

    A bundle that is owned but holds no topic is in no report.
    """

    def settled() -> bool:
        if not truth.lists_topics(topic_names()):
            return False  # a client is still on its way back
        served = {cluster.brokers[i]: truth.topics_of_broker(i) for i in cluster.running}
        reports = truth.read(REPORTS).under(REPORTS)
        said = {broker: set(report["bundles"]) for broker, report in reports.items()}
        owners = truth.owners()
        return said == {broker: set(bundles) for broker, bundles in served.items()} and all(
            owners.get(bundle) == broker for broker, bundles in said.items() for bundle in bundles
        )

    return wait_until("reports name the served bundles", settled, within_s=SETTLE_WITHIN_S)


def wait_averaged(truth: ClusterTruth) -> float:
    """Wait until the leader has written averages of the bundles: a minute after the start.

    Before, it alone knows the first samples that it decides by.
    """

    def averaged() -> bool:
        brokers = truth.read(BROKER_AVERAGES).under(BROKER_AVERAGES).values()
        rates = [each["longTermMsgRateIn"] for each in brokers]
        return len(truth.read(BUNDLE_DATA).values) >= 10 and all(rate > 0 for rate in rates)

    return wait_until("the leader writes averages", averaged, within_s=150)


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
    wait_averaged(truth)
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
    return Landing(
        bundle, left, placement.distribution, landed, placement.ruled_out, placement.scores
    )


class InTurn:
    """Names the owned bundles that have traffic one after the other.

    Args:
        skip: Bundles whose name starts so are left out.
    """

    def __init__(self, *, skip: str | None = None) -> None:
        self._skip = skip
        self._done: set[str] = set()

    def __call__(self, view: LoadView) -> str:
        busy = [
            str(name)
            for name, owner, rate in zip(
                view.bundles, view.owner, view.bundle_msg_rate, strict=True
            )
            if owner >= 0 and rate > 0 and not is_broker_bound(namespace_of(str(name)))
        ]
        if self._skip is not None:
            busy = [name for name in busy if not name.startswith(self._skip)]
        fresh = [name for name in busy if name not in self._done]
        if not fresh:
            self._done.clear()
            fresh = busy
        chosen = fresh[0]
        self._done.add(chosen)
        return chosen


def report(landings: list[Landing]) -> str:
    """Return one line a landing, and how many were predicted as certain."""
    lines = [
        f"{index + 1:2d} {each.bundle} {each.left} -> {each.landed} p={each.probability:.2f}"
        f" of {len(each.distribution)}"
        for index, each in enumerate(landings)
    ]
    for each in landings:
        if each.probability <= 0:
            why = each.ruled_out.get(each.landed, "no reason was given")
            lines.append(f"   {each.landed} was ruled out: {why}; scores {each.scores}")
    sharp = sum(1 for each in landings if len(each.distribution) == 1)
    return "\n".join([*lines, f"{sharp} of {len(landings)} predicted as certain"])
