"""Splitting of bundles: when the brokers do it, where, its effect, and what it costs."""

from core.pulsar.split.algorithms import (
    ALGORITHMS,
    BY_FLOW,
    BY_HAND,
    Positions,
    SplitLimits,
    TopicLoads,
    split_positions,
)
from core.pulsar.split.answer import cost_of, explain_split
from core.pulsar.split.conditions import split_conditions
from core.pulsar.split.find import SplitChoice, SplitState, find_bundles_to_split
from core.pulsar.split.model import (
    SplitCondition,
    SplitCost,
    SplitPart,
    SplitSubject,
    SplitVerdict,
    SplitWhatIf,
)

__all__ = [
    "ALGORITHMS",
    "BY_FLOW",
    "BY_HAND",
    "Positions",
    "SplitChoice",
    "SplitCondition",
    "SplitCost",
    "SplitLimits",
    "SplitPart",
    "SplitState",
    "SplitSubject",
    "SplitVerdict",
    "SplitWhatIf",
    "TopicLoads",
    "cost_of",
    "explain_split",
    "find_bundles_to_split",
    "split_conditions",
    "split_positions",
]
