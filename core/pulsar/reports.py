"""When a broker writes its load report, and how far it is from doing so."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from core.pulsar.settings import EffectiveSettings
from core.pulsar.view import Flags, Floats

_MS_PER_MIN: Final = 60_000.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportedLoad:
    """Reported load that the rule compares, of one broker or of many (arrays of one shape).

    Attributes:
        msg_rate: msg/s, in + out.
        msg_throughput: bytes/s, in + out.
        bundle_count: Bundles.
        usage: Weighted maximum usage, ratio; the extensible manager takes the unweighted one.
    """

    msg_rate: ArrayLike
    msg_throughput: ArrayLike
    bundle_count: ArrayLike
    usage: ArrayLike

    @classmethod
    def nothing(cls, count: int) -> ReportedLoad:
        """Initial load of ``count`` brokers, before their first report."""
        zero = np.zeros(count)
        return cls(msg_rate=zero, msg_throughput=zero, bundle_count=zero, usage=zero)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportTrigger:
    """One reason to write a report.

    Attributes:
        name: ``age``, ``msg_rate``, ``msg_throughput``, ``bundle_count`` or ``usage``.
        unit: Of value and bound.
        value: Per broker; infinite when something grew from nothing.
        bound: The report is written when the value is above it.
    """

    name: str
    unit: str
    value: Floats
    bound: float

    @property
    def fires(self) -> Flags:
        """Return whether this alone triggers a report, per broker; strictly above the bound."""
        return np.asarray(self.value > self.bound, np.bool_)

    @property
    def distance(self) -> Floats:
        """Return the distance to the bound, in the trigger's unit; 0 where it triggers."""
        return np.asarray(np.maximum(self.bound - self.value, 0.0), np.float64)


def percent_change(old: ArrayLike, new: ArrayLike) -> Floats:
    """Return the change in percent of ``old``: 0 from nothing to nothing, else infinite from it.

    Source:
        Pulsar ``ModularLoadManagerImpl#percentChange``.
    """
    before, after = np.asarray(old, np.float64), np.asarray(new, np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        change = 100.0 * np.abs((before - after) / before)
    return np.where(before == 0, np.where(after == 0, 0.0, np.inf), change)


def report_triggers(
    last: ReportedLoad, current: ReportedLoad, age_ms: ArrayLike, settings: EffectiveSettings
) -> tuple[ReportTrigger, ...]:
    """Return every trigger with its value and bound.

    Args:
        last: What the last written report said; :meth:`ReportedLoad.nothing` before the first.
        current: What holds now.
        age_ms: Time since the last written report.
        settings: For the interval and the threshold.
    Source:
        Pulsar ``ModularLoadManagerImpl#needBrokerDataUpdate``. Rates count as totals, not per
        direction; usage counts in percentage points; numbers of topics, producers and consumers
        never trigger.
    """
    longest_min = settings.number("loadBalancerReportUpdateMaxIntervalMinutes")
    bound = settings.number("loadBalancerReportUpdateThresholdPercentage")
    changes: dict[str, NDArray[np.float64]] = {
        name: percent_change(getattr(last, name), getattr(current, name))
        for name in ("msg_rate", "msg_throughput", "bundle_count")
    }
    points = 100.0 * np.abs(np.asarray(last.usage, np.float64) - np.asarray(current.usage))
    return (
        ReportTrigger(
            name="age",
            unit="ms",
            value=np.asarray(age_ms, np.float64),
            bound=longest_min * _MS_PER_MIN,
        ),
        *(
            ReportTrigger(name=name, unit="percent", value=value, bound=bound)
            for name, value in changes.items()
        ),
        ReportTrigger(name="usage", unit="percentage points", value=points, bound=bound),
    )


def needs_report(
    last: ReportedLoad, current: ReportedLoad, age_ms: ArrayLike, settings: EffectiveSettings
) -> Flags:
    """Return per broker whether the report is written now; arguments as in the triggers."""
    fired = np.zeros((), np.bool_)
    for trigger in report_triggers(last, current, age_ms, settings):
        fired = np.logical_or(fired, trigger.fires)
    return np.asarray(fired, np.bool_)
