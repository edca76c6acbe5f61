"""Where a topic lives: our own arithmetic against the brokers' answers for 200 topics."""

from __future__ import annotations

from urllib.parse import quote

import pytest
from our_reading import capture
from real_pulsar import RealPulsar
from traffic import BUNDLES_BY_NAMESPACE, topic_names

from core.pulsar.lookup import lookup_topic

_LOCAL_NAMES = ("orders-{}", "Größe-{}", "日本-{}", "a b+c%{}", "x:y=z;{}", "q.{}.log", "{}")


def two_hundred_topics() -> list[str]:
    """Return the topics of the traffic, and others with names that need care."""
    topics = topic_names()
    number = 0
    while len(topics) < 200:
        for domain in ("persistent", "non-persistent"):
            for namespace in BUNDLES_BY_NAMESPACE:
                local = _LOCAL_NAMES[number % len(_LOCAL_NAMES)].format(number)
                topics.append(f"{domain}://{namespace}/{local}")
                number += 1
    return topics[:200]


def path_of(topic: str) -> str:
    domain, _, name = topic.partition("://")
    tenant, namespace, local = name.split("/", 2)
    return f"/lookup/v2/topic/{domain}/{tenant}/{namespace}/{quote(local, safe='')}"


@pytest.mark.slow
def test_bundle_and_owner_of_200_topics_are_those_the_brokers_answer(modular: RealPulsar) -> None:
    topics = two_hundred_topics()
    assert len(set(topics)) == 200
    # asking assigns what nobody owned, so all is asked before the capture
    owners = {t: modular.get_json(path_of(t))["httpUrl"] for t in topics}
    bundles = {t: modular.request("GET", f"{path_of(t)}/bundle").text for t in topics}
    snapshot = capture(modular)
    wrong = []
    for topic in topics:
        ours = lookup_topic(snapshot, topic)
        theirs = (bundles[topic], owners[topic].removeprefix("http://"))
        if (ours.bundle.rpartition("/")[2], ours.owner) != theirs:
            wrong.append((topic, ours.bundle, ours.owner, theirs))
    assert not wrong
    assert len({lookup_topic(snapshot, topic).bundle for topic in topics}) > 30


def test_short_names_mean_the_topics_that_pulsar_means(modular: RealPulsar) -> None:
    snapshot = capture(modular)
    short = lookup_topic(snapshot, "acme/orders/created-partition-0")
    assert short.topic == "persistent://acme/orders/created-partition-0"
    stats = modular.get_json("/admin/v2/persistent/acme/orders/created-partition-0/stats")
    assert stats["topicCreationTimeStamp"] > 0
    assert short.owner is not None
