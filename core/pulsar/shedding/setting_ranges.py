"""The settings that decide whether brokers shed, by strategy, and how far each may be turned."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Lever:
    """A setting that decides whether brokers shed; the ends do not matter for a switch.

    Attributes:
        key: Upstream key.
        eager: Value at which the strategy sheds most readily.
        idle: Value at which it does so least.
    """

    key: str
    eager: float = 1
    idle: float = 0


_INT_MAX: Final = 2**31 - 1
_MINIMUMS: Final = (
    Lever("minUnloadMessage", 0, _INT_MAX),
    Lever("minUnloadMessageThroughput", 0, _INT_MAX),
)
LEVERS: Final[Mapping[str, tuple[Lever, ...]]] = {
    "ThresholdShedder": (
        Lever("loadBalancerBrokerThresholdShedderPercentage", 0, 100),
        Lever("loadBalancerBundleUnloadMinThroughputThreshold", 0.0, 1e9),
        Lever("lowerBoundarySheddingEnabled"),
    ),
    "OverloadShedder": (Lever("loadBalancerBrokerOverloadedThresholdPercentage", 0, 1000),),
    "UniformLoadShedder": (
        Lever("loadBalancerMsgRateDifferenceShedderThreshold", 1e-3, 1e9),
        Lever("loadBalancerMsgThroughputMultiplierDifferenceShedderThreshold", 1e-3, 1e9),
        *_MINIMUMS,
        Lever("maxUnloadPercentage", 1.0, 0.0),
        Lever("maxUnloadBundleNumPerShedding", _INT_MAX, 0),
    ),
    "AvgShedder": (
        Lever("loadBalancerAvgShedderLowThreshold", 1, 1000),
        Lever("loadBalancerAvgShedderHighThreshold", 1, 1000),
        Lever("loadBalancerAvgShedderHitCountLowThreshold", 1, 10_000),
        Lever("loadBalancerAvgShedderHitCountHighThreshold", 1, 10_000),
        *_MINIMUMS,
        Lever("maxUnloadPercentage", 1.0, 0.0),
    ),
    "TransferShedder": (
        Lever("loadBalancerBrokerLoadTargetStd", 0.0, 10.0),
        Lever("loadBalancerSheddingConditionHitCountThreshold", 0, 10_000),
        Lever("loadBalancerBrokerOverloadedThresholdPercentage", 0, 1000),
        Lever("loadBalancerMaxNumberOfBrokerSheddingPerCycle", 10_000, 0),
        Lever("loadBalanceSheddingDelayInSeconds", 0, _INT_MAX),
        Lever("loadBalancerBrokerLoadDataTTLInSeconds", _INT_MAX, 0),
        Lever("loadBalancerTransferEnabled"),
        Lever("loadBalancerSheddingBundlesWithPoliciesEnabled"),
    ),
}
"""What may be turned, by strategy; each alone."""
