"""How evenly one measure is spread: one definition of deviation for every page, command and plan.

Words: *deviation* of a broker: its distance from the mean over all brokers, as a share of the mean;
*maximum deviation*: ``(max - mean) / mean``, how far the busiest broker is above the mean;
*coefficient of variation*: standard deviation (of the whole population) over the mean.

A broker whose value is unknown takes no part in mean and deviation and is counted as unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

import numpy as np

from core.arrays import Bools, Floats
from core.units import format_bytes_per_s, format_msgs_per_s, format_ratio, listed

_FORMATS: Final[Mapping[str, Callable[[float], str]]] = {
    "ratio": format_ratio,
    "bytes/s": format_bytes_per_s,
    "msgs/s": format_msgs_per_s,
}


@dataclass(frozen=True, eq=False)
class Spread:
    """One measure over all brokers.

    Attributes:
        name: Which measure.
        label: For people, for example ``traffic``.
        unit: ``ratio``, ``bytes/s``, ``msgs/s``, or what is counted, plural: ``bundles``.
        brokers: Broker ids in the order of the snapshot's rows.
        values: Shape ``(n_brokers,)``, same order; NaN where unknown.
        set_aside: Shape ``(n_brokers,)``: empty on purpose, so no part of mean and deviation;
            ``None`` if none is.
    """

    name: str
    label: str
    unit: str
    brokers: tuple[str, ...]
    values: Floats = field(repr=False)
    set_aside: Bools | None = field(default=None, repr=False)

    @cached_property
    def is_set_aside(self) -> Bools:
        """Shape ``(n_brokers,)``: the broker is empty on purpose."""
        return np.zeros(len(self.brokers), np.bool_) if self.set_aside is None else self.set_aside

    @cached_property
    def known(self) -> Bools:
        """Shape ``(n_brokers,)``: the value is known, and counts."""
        return np.asarray(np.isfinite(self.values) & ~self.is_set_aside)

    @cached_property
    def unknown_count(self) -> int:
        """Brokers whose value should be known and is not."""
        return len(self.brokers) - int(self.is_set_aside.sum()) - self.known_count

    @cached_property
    def set_aside_names(self) -> tuple[str, ...]:
        """Brokers that are empty on purpose."""
        return tuple(self.brokers[row] for row in np.flatnonzero(self.is_set_aside))

    @cached_property
    def excluded(self) -> str:
        """Brokers that are not compared, each with the reason; "" if none."""
        unknown = [self.brokers[row] for row in np.flatnonzero(~self.known & ~self.is_set_aside)]
        reasons = (("drained", self.set_aside_names), ("load unknown", unknown))
        return "; ".join(f"{listed(names, 3)} ({why})" for why, names in reasons if names)

    @cached_property
    def _counted(self) -> Floats:
        """The values that count; NaN elsewhere."""
        return np.where(self.known, self.values, np.nan)

    @cached_property
    def known_count(self) -> int:
        """Brokers whose value is known."""
        return int(self.known.sum())

    @cached_property
    def total(self) -> float | None:
        """Sum over the known brokers; ``None`` when none is known."""
        return float(self.values[self.known].sum()) if self.known_count else None

    @cached_property
    def mean(self) -> float | None:
        """Mean over the known brokers; ``None`` when none is known."""
        return None if self.total is None else self.total / self.known_count

    @cached_property
    def std(self) -> float | None:
        """Standard deviation of the whole population; ``None`` when no broker is known."""
        return float(self.values[self.known].std()) if self.known_count else None

    @cached_property
    def maximum(self) -> float | None:
        """Largest known value."""
        return float(np.nanmax(self._counted)) if self.known_count else None

    @cached_property
    def minimum(self) -> float | None:
        """Smallest known value."""
        return float(np.nanmin(self._counted)) if self.known_count else None

    @cached_property
    def deviations(self) -> Floats:
        """Shape ``(n_brokers,)``: ``(value - mean) / mean``; 0 everywhere when the mean is 0."""
        mean = self.mean
        if mean is None:
            return np.full(self.values.shape, np.nan)
        if mean == 0:
            return np.where(self.known, 0.0, np.nan)
        return (self._counted - mean) / mean

    @cached_property
    def max_deviation_ratio(self) -> float | None:
        """``(max - mean) / mean``; 0 when all are 0, ``None`` when no broker is known."""
        return float(np.nanmax(self.deviations)) if self.known_count else None

    @cached_property
    def band_ratio(self) -> float | None:
        """Half width of the band around the mean with all brokers, share of the mean, as a target.

        ``None`` when no broker is known.
        """
        return float(np.nanmax(np.abs(self.deviations))) if self.known_count else None

    @cached_property
    def coefficient_ratio(self) -> float | None:
        """Standard deviation over mean; 0 when all are 0, ``None`` when no broker is known."""
        if self.mean is None or self.std is None:
            return None
        return self.std / self.mean if self.mean else 0.0

    @cached_property
    def worst(self) -> str | None:
        """The broker with the largest value, the first of them in row order."""
        return self.brokers[int(np.nanargmax(self._counted))] if self.known_count else None

    @cached_property
    def coolest(self) -> str | None:
        """The broker with the smallest value, the first of them in row order."""
        return self.brokers[int(np.nanargmin(self._counted))] if self.known_count else None

    @cached_property
    def ranked(self) -> tuple[int, ...]:
        """Row numbers of the known brokers, largest value first, ties in row order."""
        order = np.argsort(-np.nan_to_num(self._counted, nan=-np.inf), kind="stable")
        return tuple(int(row) for row in order[: self.known_count])

    def value_of(self, broker: str) -> float | None:
        """Return the broker's value; ``None`` when unknown or there is no such broker."""
        if broker not in self.brokers:
            return None
        value = float(self.values[self.brokers.index(broker)])
        return value if np.isfinite(value) else None

    def share_of_top(self, count: int) -> float | None:
        """Return the share of the ``count`` largest, or ``None`` without a total."""
        if not self.total:
            return None
        return float(self.values[list(self.ranked[:count])].sum()) / self.total

    def text_of(self, value: float | None) -> str:
        """Return a value of this measure for people."""
        if value is None or not np.isfinite(value):
            return "unknown"
        if self.unit in _FORMATS:
            return _FORMATS[self.unit](value)
        return f"{value:.0f} {self.unit}"
