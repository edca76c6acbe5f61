"""Shedding: which bundles leave which broker, as Pulsar's own strategies decide."""

from core.pulsar.shedding.model import BrokerTrace, Decision, Gate, Move, SheddingStrategy
from core.pulsar.shedding.registry import (
    SHEDDING_STRATEGIES,
    SHEDDING_STRATEGY_NAMES,
    find_shedding_strategy,
)

__all__ = [
    "SHEDDING_STRATEGIES",
    "SHEDDING_STRATEGY_NAMES",
    "BrokerTrace",
    "Decision",
    "Gate",
    "Move",
    "SheddingStrategy",
    "find_shedding_strategy",
]
