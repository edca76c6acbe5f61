"""Quantities of a finding: what was measured, and the limit it is measured against."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from core.units import (
    format_age,
    format_band,
    format_bits_per_s,
    format_bytes_per_s,
    format_deviation,
    format_mb,
    format_ms,
    format_msgs_per_s,
    format_percent,
    format_ratio,
)

FORMATS: Final[Mapping[str, Callable[[float | None], str]]] = {
    "ratio": format_ratio,
    "percent": format_percent,
    "deviation": format_deviation,
    "band": format_band,
    "bytes/s": format_bytes_per_s,
    "kbit/s": lambda value: format_bits_per_s(None if value is None else value * 1e3),
    "msg/s": format_msgs_per_s,
    "MB": format_mb,
    "ms": format_ms,
    "s": format_age,
    "min": lambda value: format_age(None if value is None else value * 60),
    "mean": lambda value: "unknown" if value is None else f"mean {value:,.0f}",
    "level": lambda value: "unknown" if value is None else f"level {value:.0f}",
}
"""How a unit is written; any other follows its number."""


@dataclass(frozen=True, slots=True)
class Quantity:
    """A number with its unit, or a value of a setting.

    Attributes:
        value: The number; a text for what is none; ``None`` if unknown.
        unit: One of :data:`FORMATS`, or what is counted, plural; empty: it counts the obvious.
    """

    value: float | str | None
    unit: str = ""

    @property
    def text(self) -> str:
        """As people read it."""
        if isinstance(self.value, str):
            return self.value
        if self.unit in FORMATS:
            return FORMATS[self.unit](self.value)
        if self.value is None or math.isnan(self.value):
            return "unknown"
        number = f"{self.value:,.0f}" if abs(self.value) >= 100 else f"{self.value:,.4g}"
        unit = self.unit.removesuffix("s") if self.value == 1 else self.unit
        return f"{number} {unit}".rstrip() if unit[:1] != "/" else number + unit
