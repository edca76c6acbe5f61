"""Scaling and formatting of the numbers of one measure, for axes and hover texts."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from core.units import format_bytes_per_s, format_mb, format_msgs_per_s, format_ratio, pluralize

Unit = Literal["ratio", "bytes/s", "msgs/s", "bundles", "count", "MB"]


@dataclass(frozen=True, slots=True)
class Scale:
    """A display unit: ``shown = value * factor``.

    Attributes:
        factor: Multiplier.
        suffix: What follows a number on an axis, for example `` MB/s``.
        title: Name of the unit for a column head, for example ``MB/s``.
        least_span: An axis shows at least so much, in the shown unit: noise must not fill it.
        digits: Format of a value in a hover text, as d3 writes it.
    """

    factor: float
    suffix: str
    title: str
    least_span: float
    digits: str = ",.0f"

    def hover(self, axis: str) -> str:
        """Return the template of a value in a hover text.

        Args:
            axis: ``x``, ``y`` or ``z``: where the trace has the scaled value.
        """
        return f"%{{{axis}:{self.digits}}}{self.suffix or f' {self.title}'.rstrip()}"

    def end_of(self, values: NDArray[np.float64]) -> float:
        """Return the end of an axis from zero over ``values`` (unscaled, NaN: unknown)."""
        known = values[np.isfinite(values)]
        highest = float(known.max()) * self.factor * 1.05 if known.size else 0.0
        return max(highest, self.least_span)


_FIXED: Final[dict[str, Scale]] = {
    "ratio": Scale(100.0, "%", "%", 5.0, ",.1f"),
    "bytes/s": Scale(1e-6, " MB/s", "MB/s", 0.01, ",.3~r"),
    "msgs/s": Scale(1.0, "", "msg/s", 1.0, ".3~s"),
    "bundles": Scale(1.0, "", "bundles", 1.0),
    "count": Scale(1.0, "", "", 1.0),
    "MB": Scale(1e-3, " GB", "GB", 0.01, ",.3~r"),
}


_WRITTEN: Final[dict[str, Callable[[float], str]]] = {
    "ratio": format_ratio,
    "bytes/s": format_bytes_per_s,
    "msgs/s": format_msgs_per_s,
    "bundles": lambda value: pluralize(round(value), "bundle"),
    "count": lambda value: f"{value:,.0f}",
    "MB": format_mb,
}


def scale_of(unit: Unit) -> Scale:
    """Return the display unit of a unit: percent, MB/s, msg/s, always the same."""
    return _FIXED[unit]


def text_of(value: float | None, unit: Unit) -> str:
    """Return one value for people; ``unknown`` for ``None`` and NaN."""
    if value is None or not np.isfinite(value):
        return "unknown"
    return _WRITTEN[unit](value)


def texts_of(values: Iterable[float], unit: Unit) -> list[str]:
    """Return :func:`text_of` of each value."""
    return [text_of(float(value), unit) for value in values]


def moments_of(times: Iterable[datetime]) -> NDArray[np.float64]:
    """Return moments as a date axis reads numbers: half as long as texts, in every trace."""
    return np.array([moment.timestamp() // 1 * 1e3 for moment in times])
