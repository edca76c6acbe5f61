"""Shedding: which bundles leave which broker, as Pulsar's own strategies decide."""

from core.pulsar.shedding.model import BrokerTrace, Decision, Gate, Move, SheddingStrategy
from core.pulsar.shedding.registry import (
    SHEDDING_STRATEGIES,
    SHEDDING_STRATEGY_NAMES,
    active_shedding_strategy,
    find_shedding_strategy,
    known_shedding_strategy,
    strategies_run_by,
    upstream_class,
)
from core.pulsar.shedding.rounds import Round, shed_round, shed_rounds, strategy_rounds
from core.pulsar.shedding.unload_checks import UnloadChecks

__all__ = [
    "SHEDDING_STRATEGIES",
    "SHEDDING_STRATEGY_NAMES",
    "BrokerTrace",
    "Decision",
    "Gate",
    "Move",
    "Round",
    "SheddingStrategy",
    "UnloadChecks",
    "active_shedding_strategy",
    "find_shedding_strategy",
    "known_shedding_strategy",
    "shed_round",
    "shed_rounds",
    "strategies_run_by",
    "strategy_rounds",
    "upstream_class",
]
