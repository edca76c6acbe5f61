"""The settings of the shedding strategies that a person may turn on the Rebalance page."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from core.pulsar.settings import SETTING_BY_KEY, EffectiveSettings

Number = bool | int | float


@dataclass(frozen=True, slots=True)
class Dial:
    """One setting with the span in which it is worth turning.

    Attributes:
        key: Upstream key; also the name of the query parameter.
        label: What it is, in a few words.
        low: Smallest value, in the upstream unit.
        high: Greatest value; the span is widened where the cluster is beyond it.
        step: Of the slider.
    """

    key: str
    label: str
    low: float = 0.0
    high: float = 1.0
    step: float = 1.0

    @property
    def is_switch(self) -> bool:
        """Whether it is on or off."""
        return SETTING_BY_KEY[self.key].kind == "bool"

    @property
    def is_whole(self) -> bool:
        """Whether it takes whole numbers only."""
        return SETTING_BY_KEY[self.key].kind == "int"

    @property
    def help(self) -> str:
        """What it is and does, with its upstream name and unit."""
        setting = SETTING_BY_KEY[self.key]
        unit = f" In {setting.unit}." if setting.unit else ""
        return f"{setting.key}: {setting.meaning} {setting.effect}".strip() + unit

    def number(self, value: float) -> Number:
        """Return a value in the setting's own type."""
        return int(value) if self.is_whole else float(value)

    def present(self, settings: EffectiveSettings) -> Number:
        """Return the cluster's value; the default where it is unset."""
        if self.is_switch:
            return settings.flag(self.key)
        value = settings.number(self.key)
        default = SETTING_BY_KEY[self.key].default
        known = value if math.isfinite(value) else default if isinstance(default, float) else 0.0
        return self.number(known)

    def span(self, present: Number) -> tuple[Number, Number]:
        """Return the ends of the slider, the present value within."""
        return self.number(min(self.low, present)), self.number(max(self.high, present))


_AMOUNTS: Final = (
    Dial("maxUnloadPercentage", "Share of the gap a round moves", 0.0, 1.0, 0.05),
    Dial("minUnloadMessage", "Least rate worth a move, msg/s", 0, 10_000, 100),
    Dial("minUnloadMessageThroughput", "Least traffic worth a move, bytes/s", 0, 2**24, 2**16),
)
DIALS: Final[Mapping[str, tuple[Dial, ...]]] = {
    "ThresholdShedder": (
        Dial(
            "loadBalancerBrokerThresholdShedderPercentage",
            "Points above the average that trigger",
            0,
            60,
        ),
        Dial(
            "loadBalancerBundleUnloadMinThroughputThreshold",
            "Least traffic worth a round, MiB/s",
            0.0,
            100.0,
            0.5,
        ),
        Dial(
            "loadBalancerHistoryResourcePercentage", "Weight of the past in usage", 0.0, 1.0, 0.05
        ),
        Dial("lowerBoundarySheddingEnabled", "Also fill brokers far below the average"),
    ),
    "OverloadShedder": (
        Dial(
            "loadBalancerBrokerOverloadedThresholdPercentage",
            "Usage that counts as overloaded, %",
            1,
            100,
        ),
    ),
    "UniformLoadShedder": (
        Dial(
            "loadBalancerMsgRateDifferenceShedderThreshold",
            "Highest rate over lowest, % more",
            0.0,
            500.0,
            5.0,
        ),
        Dial(
            "loadBalancerMsgThroughputMultiplierDifferenceShedderThreshold",
            "Highest traffic over lowest, times",
            0.0,
            20.0,
            0.25,
        ),
        *_AMOUNTS,
    ),
    "AvgShedder": (
        Dial("loadBalancerAvgShedderLowThreshold", "Gap of a weak hit, points", 1, 100),
        Dial("loadBalancerAvgShedderHitCountLowThreshold", "Weak hits in a row to act", 1, 30),
        Dial("loadBalancerAvgShedderHighThreshold", "Gap of a strong hit, points", 1, 100),
        Dial("loadBalancerAvgShedderHitCountHighThreshold", "Strong hits in a row to act", 1, 30),
        *_AMOUNTS,
    ),
    "TransferShedder": (
        Dial(
            "loadBalancerBrokerLoadTargetStd", "Spread of usage that is good enough", 0.0, 1.0, 0.01
        ),
        Dial("loadBalancerSheddingConditionHitCountThreshold", "Hits in a row to act", 0, 20),
        Dial("loadBalancerMaxNumberOfBrokerSheddingPerCycle", "Most brokers a round", 1, 50),
        Dial("loadBalancerTransferEnabled", "It names the destination itself"),
    ),
}
"""By class name, the one that matters most first."""
