"""Shedding: which bundles leave which broker, as Pulsar's own strategies decide."""

from core.pulsar.shedding.model import BrokerTrace, Decision, Gate, Move, SheddingStrategy
from core.pulsar.shedding.registry import (
    SHEDDING_STRATEGIES,
    SHEDDING_STRATEGY_NAMES,
    find_shedding_strategy,
    shedding_strategy_in_force,
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
    "find_shedding_strategy",
    "shed_round",
    "shed_rounds",
    "shedding_strategy_in_force",
    "strategy_rounds",
]
