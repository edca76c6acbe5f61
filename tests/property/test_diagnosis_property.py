"""No recommended fix makes a simulation worse, on generated clusters under many settings."""

from __future__ import annotations

import random

import pytest
from fleet_builder import make_snapshot
from fleet_edit import with_settings

from core.diagnosis.model import MIN_GAIN_RATIO, Cause
from core.diagnosis.request import DiagnoseRequest
from core.diagnosis.systems import diagnose
from core.pulsar.setting_values import parse_upstream_value
from core.pulsar.settings import SETTING_BY_KEY, effective_settings
from core.pulsar.shedding.registry import active_shedding_strategy
from core.simulation import Run, Simulation, simulate
from core.snapshot import PulsarSnapshot

IMPL = "org.apache.pulsar.broker.loadbalance.impl."
SHEDDERS = ("ThresholdShedder", "UniformLoadShedder", "OverloadShedder", "AvgShedder")
NO_SIMULATION = frozenset({"loadBalancerOverrideBrokerNicSpeedGbps", "loadManagerClassName"})
"""Their fix is another capacity or another class of a broker: a simulation reads neither."""

SLOW = [pytest.param(number, marks=pytest.mark.slow) for number in range(16, 216)]


def cluster(number: int) -> PulsarSnapshot:
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


def simulated(snapshot: PulsarSnapshot, overrides: dict[str, object]) -> Simulation | None:
    settings = effective_settings(snapshot, overrides=overrides)
    if settings.shedding_off:
        return None
    strategy = active_shedding_strategy("modular", settings)
    return simulate(snapshot, Run(shedding=strategy.name), overrides=overrides)


def values_of(cause: Cause) -> dict[str, object]:
    pairs = (line.split("=", 1) for line in cause.fix.lines)
    return dict(cause.fix.wanted) | {
        key: parse_upstream_value(SETTING_BY_KEY[key], text) for key, text in pairs
    }


@pytest.mark.parametrize("number", [*range(16), *SLOW])
def test_no_recommendation_makes_the_simulation_worse(number):
    snapshot = cluster(number)
    for cause in diagnose(snapshot, DiagnoseRequest(seconds=3.0)).causes:
        values = values_of(cause)
        if not values or NO_SIMULATION & set(values):
            continue
        before, after = simulated(snapshot, {}), simulated(snapshot, values)
        assert after.ending == "converged"
        now = after.deviation_before if before is None else before.deviation_after
        assert after.deviation_after <= now + MIN_GAIN_RATIO
