"""Simulations that share their rounds go as each one does by itself."""

from __future__ import annotations

import pytest
from uneven_clusters import IMPL, SHEDDERS, cluster

from core.pulsar.settings import SHEDDING_SWITCHES, effective_settings
from core.pulsar.shedding.registry import active_shedding_strategy
from core.simulation import Run, shared
from core.simulation.cluster import local_cluster
from core.simulation.engine import run_rounds
from core.simulation.shared import SharedRounds, shared_cluster

CHANGES: list[dict[str, object]] = [
    {},
    {"loadBalancerBrokerMaxTopics": 25_000},
    {"loadBalancerCPUResourceWeight": 0.5},
    {"loadBalancerMemoryResourceWeight": 0.5},
    {"loadBalancerBrokerThresholdShedderPercentage": 3},
    {"loadBalancerHistoryResourcePercentage": 0.2},
    {"loadBalancerDistributeBundlesEvenlyEnabled": False},
    {"loadBalancerReportUpdateMaxIntervalMinutes": 5},
    {"loadBalancerSheddingGracePeriodMinutes": 5},
    {"loadBalancerSheddingIntervalMinutes": 5},
    {"minUnloadMessage": 1},
    {"loadBalancerBrokerOverloadedThresholdPercentage": 30},
    {"loadBalancerLoadPlacementStrategy": "RoundRobinBrokerSelector"},
    *({"loadBalancerLoadSheddingStrategy": IMPL + name} for name in SHEDDERS),
    {},
]


@pytest.mark.parametrize("max_fleets", [1_500, 7])
@pytest.mark.parametrize("number", range(4))
def test_shared_rounds_are_those_of_each_simulation_by_itself(number, max_fleets, monkeypatch):
    monkeypatch.setattr(shared, "_MAX_FLEETS", max_fleets)
    snapshot, rounds = cluster(number), SharedRounds()
    for change in CHANGES:
        overrides = dict.fromkeys(SHEDDING_SWITCHES, True) | change
        settings = effective_settings(snapshot, overrides=overrides)
        strategy = active_shedding_strategy("modular", settings)
        run = Run(shedding=strategy.name, rounds=34, seed=5)
        alone = local_cluster(snapshot, settings, strategy)
        expected = run_rounds(alone, run, strategy, settings)
        together = shared_cluster(snapshot, settings, strategy, rounds)
        done = run_rounds(together, run, strategy, settings)
        assert done == expected, change
        assert done.final.brokers.equals(expected.final.brokers), change
        assert done.final.bundles.equals(expected.final.bundles), change
