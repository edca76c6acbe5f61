"""Generated Pulsar clusters under many settings, most of them uneven or restless."""

from __future__ import annotations

import random

from fleet_builder import make_snapshot
from fleet_edit import with_settings

from core.snapshot import PulsarSnapshot

IMPL = "org.apache.pulsar.broker.loadbalance.impl."
SHEDDERS = ("ThresholdShedder", "UniformLoadShedder", "OverloadShedder", "AvgShedder")


def cluster(number: int) -> PulsarSnapshot:
    """Return a cluster of 3 to 8 brokers; the same number always gives the same one."""
    draw = random.Random(number)
    snapshot = make_snapshot(
        brokers=draw.choice([3, 4, 6, 8]), bundles=draw.choice([20, 40, 80]), seed=number
    )
    values = {
        "loadBalancerSheddingEnabled": draw.choice(["true", "true", "true", "false"]),
        "loadBalancerLoadSheddingStrategy": IMPL + draw.choice(SHEDDERS),
        "loadBalancerDistributeBundlesEvenlyEnabled": draw.choice(["true", "false"]),
        "loadBalancerHistoryResourcePercentage": draw.choice(["0.9", "0.5", "0.0"]),
        "loadBalancerBrokerThresholdShedderPercentage": draw.choice(["5", "10", "20"]),
        "maxUnloadPercentage": draw.choice(["0.2", "0.5"]),
        "minUnloadMessage": draw.choice(["10", "1000", "100000"]),
    }
    return with_settings(
        snapshot, *((None, key, value, "dynamic") for key, value in values.items())
    )
