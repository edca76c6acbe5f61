"""The words of a trace: a measured value against a threshold, with the distance between them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

from core.pulsar.shedding.basis import SheddingBasis
from core.pulsar.shedding.model import Gate
from core.units import (
    format_bytes_per_s,
    format_msgs_per_s,
    format_percent,
    format_ratio,
    pluralize,
)

_WORDS: Final[Mapping[str, Callable[[float], str]]] = {
    "ratio": format_ratio,
    "bytes/s": format_bytes_per_s,
    "msg/s": format_msgs_per_s,
    "bundles": lambda value: pluralize(int(value), "bundle"),
    "topics": lambda value: pluralize(int(value), "topic"),
    "rounds": lambda value: pluralize(int(value), "round"),
    "places": lambda value: pluralize(int(value), "place"),
    "points": lambda value: f"{value:.1f} points",
    "percent": format_percent,
    "times": lambda value: f"{value:.2f} times",
}
_VAST: Final[Mapping[str, float]] = {"percent": 100_000.0, "times": 1_000.0}
"""More than this, digits say nothing: the value was divided by next to nothing."""

_COUNTED: Final = ("bundles", "rounds")


def in_words(value: float, unit: str) -> str:
    """Return a value of one of the units of :class:`Gate` as people read it."""
    if _is_vast(value, unit):
        return f"more than {_VAST[unit]:,.0f}{'%' if unit == 'percent' else f' {unit}'}"
    return _WORDS[unit](value)


def _is_vast(value: float, unit: str) -> bool:
    return _VAST.get(unit, math.inf) < value < math.inf


def distance_in_words(distance: float, unit: str) -> str:
    """Return the distance of two values as text; ratios differ by points."""
    if _is_vast(abs(distance), unit):
        return "far"
    if unit in ("ratio", "percent", "points"):
        points = abs(distance) * (100 if unit == "ratio" else 1)
        return f"{points:.1f} points" if points >= 0.05 or not points else f"{points:.2g} points"
    return in_words(abs(distance), unit)


def at_least(
    name: str, measured: float, threshold: float, unit: str, *, is_strict: bool = False
) -> Gate:
    """Return the gate that opens when a value reaches a threshold.

    Args:
        name: What is measured, in a few words.
        measured: Value.
        threshold: Bound.
        unit: Of both.
        is_strict: The value must be above the threshold; being equal is not enough. What is counted
            then has to reach the next whole number, and that is the gate's threshold.
    """
    if is_strict and unit in _COUNTED:
        threshold, is_strict = math.floor(threshold) + 1.0, False
    is_open = measured > threshold if is_strict else measured >= threshold
    words = f"{name} {in_words(measured, unit)}"
    bound = in_words(threshold, unit)
    if math.isinf(threshold):
        sentence = f"{words}, and the threshold is disabled"
    elif unit in _COUNTED:
        sentence = f"{words}, {int(threshold)} needed"
    elif is_open and _is_vast(measured, unit):
        sentence = f"{words}, far above {bound}: the lowest has almost none"
    elif measured == threshold:
        sentence = (
            f"{words} is exactly the threshold, which {'counts' if is_open else 'is not enough'}"
        )
    elif is_open:
        sentence = f"{words} is {distance_in_words(measured - threshold, unit)} above {bound}"
    else:
        sentence = f"{words} is {_under(threshold - measured, bound, unit)}"
    return Gate(
        name=name.rstrip(":"),  # that separates the name and a count
        measured=measured,
        threshold=threshold,
        unit=unit,
        is_open=is_open,
        distance=threshold - measured,
        sentence=sentence,
    )


def _under(distance: float, bound: str, unit: str) -> str:
    """Return the distance below a bound as text; simplified if it is the whole bound."""
    gap = distance_in_words(distance, unit)
    is_far = unit not in ("ratio", "percent", "points") and gap == bound
    return f"far below {bound}" if is_far else f"{gap} below {bound}"


def below(name: str, measured: float, threshold: float, unit: str) -> Gate:
    """Return the gate that opens when a value is under a threshold; being equal is not enough."""
    words, bound = f"{name} {in_words(measured, unit)}", in_words(threshold, unit)
    is_open = measured < threshold
    over = f"{distance_in_words(measured - threshold, unit)} above {bound}"
    return Gate(
        name=name,
        measured=measured,
        threshold=threshold,
        unit=unit,
        is_open=is_open,
        distance=measured - threshold,
        sentence=f"{words} is {_under(threshold - measured, bound, unit) if is_open else over}",
    )


def place_by_usage(place: int, last: int, sentence: str) -> Gate:
    """Return the gate that lets the first few of a ranking through.

    Args:
        place: In the ranking, from 1.
        last: Place of the last one that is let through.
        sentence: All of that in words.
    """
    return Gate(
        name="rank by usage",
        measured=float(place),
        threshold=float(last),
        unit="places",
        is_open=place <= last,
        distance=float(place - last),
        sentence=sentence,
    )


def one_of(*gates: Gate) -> tuple[Gate, ...]:
    """Return gates marked as alternatives: one that is open suffices."""
    return tuple(replace(gate, is_alternative=True) for gate in gates)


def missing_reports(basis: SheddingBasis) -> tuple[str, ...]:
    """Return a note on the brokers of unknown load; the real classes never see them."""
    missing = len(basis.view.brokers) - basis.brokers.size
    if not missing:
        return ()
    return (f"Excluded: {pluralize(missing, 'broker')} without a known load report.",)
