"""A key figure of a page: what it is, its value, and how that is judged."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Status = Literal["", "ok", "warning", "bad", "unknown"]


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyFigure:
    """One figure of the row at the top of a page.

    Attributes:
        label: What it is, one to three words.
        value: As :mod:`core.units` writes it.
        note: What it is measured against, or whose it is: ``target ±20%``.
        status: Judged against its limit; empty: nothing judges it. Colour, shape and word show it.
        trend: Values of the last hours, oldest first; fewer than two draw no line.
        help: One sentence.
    """

    label: str
    value: str
    note: str = ""
    status: Status = ""
    trend: Sequence[float] = ()
    help: str = ""


def band_status(deviation_ratio: float | None, tolerance_ratio: float) -> Status:
    """Return the status of a deviation from the mean: bad above twice the band.

    Args:
        deviation_ratio: Of the busiest; ``None`` or NaN: unknown.
        tolerance_ratio: Half width of the target band.
    """
    if deviation_ratio is None or math.isnan(deviation_ratio):
        return "unknown"
    if abs(deviation_ratio) <= tolerance_ratio:
        return "ok"
    return "bad" if deviation_ratio > 2 * tolerance_ratio else "warning"
