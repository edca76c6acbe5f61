"""How busy a broker is, and how averages of rates move.

Usage ratios are what Pulsar computes from usage and limit in 32-bit floats: 30 of 100 is
0.30000001907..., and ties between brokers hang on such digits.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from core.pulsar.settings import EffectiveSettings
from core.units import format_ratio

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

SHORT_SAMPLES: Final = 10
LONG_SAMPLES: Final = 1000
DEFAULT_MSGS_PER_S: Final = 50.0
DEFAULT_BYTES_PER_S: Final = 50_000.0
"""What Pulsar assumes for a bundle without a measurement, in each direction."""

TRAFFIC_STEP_BYTES_S: Final = 1e5
RATE_STEP_MSGS_S: Final = 100.0
"""Bundles whose load is the same in these steps rank as equally loaded."""

WEIGHED: Final = ("cpu", "direct_memory", "bandwidth_in", "bandwidth_out", "memory")
"""Resources in a broker's usage; JVM heap, the last one, weighs nothing from release 3.0 on."""
RESOURCE_NAMES: Final = {
    "cpu": "CPU",
    "memory": "heap",
    "direct_memory": "direct memory",
    "bandwidth_in": "NIC in",
    "bandwidth_out": "NIC out",
}
"""Resources as people read them."""
_FULL_PERCENT: Final = 100.0
_WITHOUT_HEAP: Final = WEIGHED.index("memory")
REPORTED: Final = WEIGHED[:_WITHOUT_HEAP]
"""Resources of which one at least shows that a broker reports its usage."""


def percent_usage(usage: Floats, limit: Floats) -> NDArray[np.float32]:
    """Return usage over limit in percent; 0 where there is no limit.

    Args:
        usage: Any shape; NaN counts as 0.
        limit: Same shape and unit; NaN, 0 and negative mean that there is none.
    Returns:
        Same shape, 32-bit.
    Source:
        Pulsar ``ResourceUsage#percentUsage``.
    Parity:
        Bit-equal: both numbers are narrowed first, then divided, then times 100.
    """
    used = _without_gaps(np.asarray(usage, np.float64))
    whole = _without_gaps(np.asarray(limit, np.float64))
    bound = whole > 0
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        ratio = used.astype(np.float32) / np.where(bound, whole, 1.0).astype(np.float32)
        return np.where(bound, _without_gaps(ratio), np.float32(0)) * np.float32(100)


def _without_gaps(values: Any) -> Any:
    """Return numbers with 0 for NaN: ``nan_to_num`` takes several times as long."""
    return values if np.isfinite(values).all() else np.nan_to_num(values, nan=0.0)


def resource_weights(settings: EffectiveSettings) -> dict[str, float]:
    """Return the weight of each of :data:`WEIGHED`.

    Source:
        Pulsar ``ServiceConfiguration#getLoadBalancerBandwidthInResourceWeight``: the misspelt old
        key counts while the new one is exactly 1. ``LocalBrokerData#getMaxResourceUsageWithWeight``
        takes a weight of JVM heap up to release 2.11.
    """
    heap = settings.number("loadBalancerMemoryResourceWeight")
    return {
        "cpu": settings.number("loadBalancerCPUResourceWeight"),
        "direct_memory": settings.number("loadBalancerDirectMemoryResourceWeight"),
        "bandwidth_in": _bandwidth_weight(settings, "In"),
        "bandwidth_out": _bandwidth_weight(settings, "Out"),
        "memory": heap if settings.rules.heap_is_weighed else 0.0,
    }


def _bandwidth_weight(settings: EffectiveSettings, direction: str) -> float:
    weight = settings.number(f"loadBalancerBandwidth{direction}ResourceWeight")
    return (
        settings.number(f"loadBalancerBandwith{direction}ResourceWeight")
        if weight == 1.0
        else weight
    )


def _column(table: pa.Table, name: str) -> Floats:
    values = table.column(name).to_numpy(zero_copy_only=False)
    return np.asarray(values, dtype=np.float64)


def usage_is_known(brokers: pa.Table) -> NDArray[np.bool_]:
    """Return per broker whether its report has any usage at all; heap alone is none."""
    known = np.zeros(brokers.num_rows, np.bool_)
    for name in WEIGHED[:_WITHOUT_HEAP]:
        known |= ~np.isnan(_column(brokers, f"{name}_usage"))
    return known


def _percents(brokers: pa.Table) -> Floats:
    """Percent usage per broker and weighed resource, widened; shape (n_brokers, 5)."""
    used, limits = (
        np.stack([_column(brokers, f"{name}_{part}") for name in WEIGHED], axis=1)
        for part in ("usage", "limit")
    )
    return percent_usage(used, limits).astype(np.float64)


@dataclass(frozen=True, eq=False)
class ResourceShares:
    """Usage of each of :data:`WEIGHED` by broker.

    Attributes:
        percents: Shape ``(..., n_brokers, 5)``, 32-bit values widened.
        is_known: Whether a report has any usage at all, per broker.
    """

    percents: Floats
    is_known: NDArray[np.bool_]

    @classmethod
    def of(cls, brokers: pa.Table) -> Self:
        """Return those of a table of :data:`core.schemas.pulsar.BROKERS`."""
        return cls(_percents(brokers), usage_is_known(brokers))

    @classmethod
    def of_columns(cls, used: Floats, limits: Floats) -> Self:
        """Return those of usages, ``(..., n_brokers, 5)``, and limits; NaN: unknown."""
        is_known = np.asarray(~np.isnan(used[..., :_WITHOUT_HEAP]).all(axis=-1), np.bool_)
        return cls(percent_usage(used, limits).astype(np.float64), is_known)

    def largest(self, *, has_heap: bool = False) -> Floats:
        """See :func:`max_resource_usage`."""
        percents = self.percents if has_heap else self.percents[:, :_WITHOUT_HEAP]
        largest = percents.astype(np.float32).max(axis=1) / np.float32(100)
        return np.where(self.is_known, largest.astype(np.float64), np.nan)

    def overload(self, settings: EffectiveSettings) -> Floats:
        """See :func:`overload_usage`."""
        if settings.rules.overload_is_weighted:
            return self.weighted(settings)
        return self.largest(has_heap=settings.rules.heap_is_in_maximum)

    def weighted(self, settings: EffectiveSettings) -> Floats:
        """See :func:`weighted_max_usage`."""
        weights = np.array(list(resource_weights(settings).values()))
        with np.errstate(invalid="ignore"):
            weighed = (self.percents * weights).max(axis=-1) / 100.0
        return np.where(self.is_known, weighed, np.nan)

    def threshold(self, settings: EffectiveSettings) -> Floats:
        """See :func:`threshold_usage`."""
        usage = self.weighted(settings)
        if not settings.rules.drops_over_limit:
            return usage
        weights = np.array(list(resource_weights(settings).values()))
        weighed = self.percents * weights
        within = np.where(weighed <= _FULL_PERCENT, weighed, 0.0).max(axis=1) / 100.0
        return np.where(usage > 1.0, within, usage)


def max_resource_usage(brokers: pa.Table, *, has_heap: bool = False) -> Floats:
    """Return each broker's largest usage, unweighted, ratio; NaN where nothing is known.

    Args:
        brokers: Table of :data:`core.schemas.pulsar.BROKERS`.
        has_heap: Whether JVM heap is one of the resources.
    Source:
        Pulsar ``LocalBrokerData#getMaxResourceUsage``.
    """
    return ResourceShares.of(brokers).largest(has_heap=has_heap)


def overload_usage(brokers: pa.Table, settings: EffectiveSettings) -> Floats:
    """Return the usage that is compared with the overload limit, ratio; NaN where it is unknown.

    Args:
        brokers: Table of :data:`core.schemas.pulsar.BROKERS`.
        settings: For the release and the weights.
    Source:
        Pulsar ``OverloadShedder``, ``LeastLongTermMessageRate`` and ``ModularLoadManagerImpl``:
        up to 3.3 ``getMaxResourceUsage``, from 4.0 on ``getMaxResourceUsageWithWeight``.
    """
    return ResourceShares.of(brokers).overload(settings)


def weighted_max_usage(brokers: pa.Table, settings: EffectiveSettings) -> Floats:
    """Return each broker's usage as the load manager sees it, ratio; NaN where it is unknown.

    Args:
        brokers: Table of :data:`core.schemas.pulsar.BROKERS`.
        settings: For the weights.
    Returns:
        Shape ``(n_brokers,)``, in the row order of the table; may exceed 1 with weights over 1.
    Source:
        Pulsar ``LocalBrokerData#getMaxResourceUsageWithWeight``.
    Parity:
        Bit-equal: 32-bit percents, then 64-bit weights.
    """
    return ResourceShares.of(brokers).weighted(settings)


def threshold_usage(brokers: pa.Table, settings: EffectiveSettings) -> Floats:
    """Return the usage that ThresholdShedder smooths, ratio; NaN where it is unknown.

    Args:
        brokers: Table of :data:`core.schemas.pulsar.BROKERS`.
        settings: For the release and the weights.
    Source:
        Pulsar 2.9.5 and 2.10.2 ``ThresholdShedder#updateAvgResourceUsage``: above 1 the
        largest weighted usage of at most 1 counts; otherwise the weighted maximum.
    """
    return ResourceShares.of(brokers).threshold(settings)


def limiting_resource(brokers: pa.Table, settings: EffectiveSettings) -> list[str | None]:
    """Return per broker which of :data:`WEIGHED` makes its usage; ``None`` where unknown."""
    weights = np.array(list(resource_weights(settings).values()))
    with np.errstate(invalid="ignore"):
        winners = (_percents(brokers) * weights).argmax(axis=1)
    known = usage_is_known(brokers)
    return [
        WEIGHED[winner] if is_known else None
        for winner, is_known in zip(winners.tolist(), known.tolist(), strict=True)
    ]


def usage_sources(brokers: pa.Table, settings: EffectiveSettings) -> list[str]:
    """Return per broker what makes its usage: ``82.0 % direct memory, weight 1; CPU 15.0 %``.

    The resource with the largest weighted share comes first, with its own value and weight; then
    CPU, which follows the load. Blank where the usage is unknown.

    Args:
        brokers: Rows of the snapshot's table.
        settings: The weights.
    """
    weights, percents = resource_weights(settings), _percents(brokers)
    found = []
    for row, limiting in enumerate(limiting_resource(brokers, settings)):
        if limiting is None:
            found.append("")
            continue
        value = format_ratio(float(percents[row, WEIGHED.index(limiting)]) / _FULL_PERCENT)
        words = f"{value} {RESOURCE_NAMES[limiting]}, weight {weights[limiting]:g}"
        if limiting != "cpu":
            cpu = format_ratio(float(percents[row, WEIGHED.index("cpu")]) / _FULL_PERCENT)
            words += f"; CPU {cpu}"
        found.append(words)
    return found


def next_average(
    average: Floats, samples: NDArray[np.int64], value: Floats, *, max_samples: int
) -> tuple[Floats, NDArray[np.int64]]:
    """Return ``(average, samples)`` after one more sample.

    A plain mean up to ``max_samples``, from then on the newest sample weighs ``1/max_samples``.

    Source:
        Pulsar ``TimeAverageMessageData#update``.
    Example:
        >>> average, samples = np.zeros(1), np.zeros(1, np.int64)
        >>> for sample in (1.0, 2.0, 3.0, 4.0):
        ...     average, samples = next_average(
        ...         average, samples, np.array([sample]), max_samples=3)
        >>> round(float(average[0]), 4)
        2.6667
    """
    counted = np.minimum(samples + 1, max_samples)
    return ((counted - 1) * average + value) / counted, counted


def part_left(held: Ints, count: int | Ints, most: int | Ints) -> Floats:
    """Return the remaining weight of an average after ``count`` samples of one value.

    A plain mean up to ``most`` samples: ``held`` out of ``held + count`` are the old ones. From
    then on each sample leaves ``(most - 1) / most`` of what is there.

    Args:
        held: Samples before.
        count: Samples added; any shape that fits.
        most: Samples that count at most; any shape that fits.

    Example:
        >>> part_left(np.array([0, 1, 10]), 1, 10).round(3).tolist()
        [0.0, 0.5, 0.9]
    """
    is_one = isinstance(count, int) and isinstance(most, int) and held.size > 2 * most
    if is_one and 0 <= held.min() <= held.max() <= most:
        return part_left(np.arange(int(most) + 1), count, most)[held]  # powers are expensive
    filled = np.minimum(held + count, most)
    beyond = np.maximum(held + count - most, 0)
    return np.asarray(held / np.maximum(filled, 1) * ((most - 1) / most) ** beyond, np.float64)


def next_smoothed_usage(smoothed: Floats, usage: Floats, history_ratio: float) -> Floats:
    """Return usage smoothed over time: ``history_ratio`` of the past, the rest of the newest."""
    return smoothed * history_ratio + (1 - history_ratio) * usage


def in_steps(load: Floats, step: float) -> Floats:
    """Return loads as upstream compares them: in whole steps, halves upwards.

    Args:
        load: In the unit of ``step``, not negative.
        step: :data:`TRAFFIC_STEP_BYTES_S` or :data:`RATE_STEP_MSGS_S`.
    Source:
        Pulsar ``NamespaceBundleStats#compareTo`` and ``TimeAverageMessageData#compareTo``, which
        round as ``java.lang.Math#round`` does, not to the even neighbour.
    Example:
        >>> in_steps(np.array([49_999.0, 50_000.0, 250_000.0]), TRAFFIC_STEP_BYTES_S).tolist()
        [0.0, 1.0, 3.0]
    """
    return np.floor(load / step + 0.5)
