"""Thresholds of alerts that people change while everything runs: previewed, then recorded."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from core.alerts.model import Limits
from core.errors import InputError, UnknownNameError
from core.units import format_ratio

_TARGET: Final = "cluster target"
_MAX: Final = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class AdjustableFields:
    """Adjustable fields of a rule.

    Attributes:
        threshold: Field of :class:`Limits` that a value is compared with; empty: it has none.
        unit: Of the threshold as people give it: ``%``, ``min``, ``moves/h``.
        minutes: Field with the minutes that the condition must hold; empty: it fires at once.
    """

    threshold: str = ""
    unit: str = ""
    minutes: str = ""


ADJUSTABLE: Final[Mapping[str, AdjustableFields]] = {
    "uneven": AdjustableFields(threshold="deviation_ratio", unit="%", minutes="deviation_min"),
    "unhealthy": AdjustableFields(minutes="unhealthy_min"),
    "problem": AdjustableFields(minutes="error_min"),
    "lively": AdjustableFields(minutes="lively_min"),
    "stale": AdjustableFields(threshold="stale_min", unit="min"),
    "flapping": AdjustableFields(threshold="returned_per_hour", unit="moves/h"),
    "run_waiting": AdjustableFields(minutes="waiting_min"),
    "settings_drift": AdjustableFields(minutes="drift_min"),
    "pipeline_lag": AdjustableFields(threshold="pipeline_lag_min", unit="min"),
}
"""By code of the rule; the other rules have nothing to change."""

FIELDS: Final = tuple(
    name for one in ADJUSTABLE.values() for name in (one.threshold, one.minutes) if name
)
"""Fields of :class:`Limits` that can be changed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ThresholdChange:
    """One recorded change of a threshold.

    Attributes:
        at: When, aware UTC.
        field: Of :class:`Limits`.
        value: The new one; ``None`` to reset it.
        by: Who.
        reason: Why.
    """

    at: datetime
    field: str
    value: float | None
    by: str
    reason: str


def requested(rule: str, threshold: float | None, minutes: float | None) -> dict[str, float]:
    """Return the fields of :class:`Limits` that a person changes.

    Args:
        rule: Code of the rule.
        threshold: In the unit of the rule; ``None`` if it stays.
        minutes: That the condition must hold; ``None`` if they stay.
    Raises:
        UnknownNameError: No such rule, or none with thresholds.
        InputError: Nothing is to change, the rule does not have it, or it is no such number.
    """
    fields_of(rule)
    one = ADJUSTABLE[rule]
    found: dict[str, float] = {}
    if threshold is not None:
        _check(one.threshold, f"Alert {rule} has no threshold.", "Use --minutes.")
        _check(
            0 < threshold <= _MAX,
            f"{threshold:g} is not a valid threshold.",
            "Specify a number above 0.",
        )
        found[one.threshold] = threshold / 100 if one.unit == "%" else threshold
    if minutes is not None:
        _check(one.minutes, f"Alert {rule} has no minutes.", "Use --threshold.")
        _check(
            0 <= minutes <= _MAX,
            f"{minutes:g} min is not a valid duration.",
            "Specify 0 or more minutes.",
        )
        found[one.minutes] = minutes
    _check(found, "Nothing to change.", "Specify --threshold, --minutes or --reset.")
    return found


def _check(condition: object, message: str, hint: str) -> None:
    if not condition:
        raise InputError(message, hint=hint)


def fields_of(rule: str) -> tuple[str, ...]:
    """Return the fields of a rule that can be changed.

    Raises:
        UnknownNameError: No such rule, or none with thresholds.
    """
    if rule not in ADJUSTABLE:
        raise UnknownNameError.of("rule", rule, ADJUSTABLE, place="the rules with thresholds")
    one = ADJUSTABLE[rule]
    return tuple(name for name in (one.threshold, one.minutes) if name)


def effective(configured: Limits, changes: Iterable[ThresholdChange]) -> Limits:
    """Return the limits in effect: the latest change of each field, else the configuration.

    Args:
        configured: As the configuration has them.
        changes: The oldest first.
    """
    values = {one.field: one.value for one in changes if one.field in FIELDS}
    known = {name: value for name, value in values.items() if value is not None}
    if "returned_per_hour" in known:
        known["returned_per_hour"] = int(known["returned_per_hour"])
    return replace(configured, **known)  # type: ignore[arg-type]  # each field is a number


def differences(before: Limits, after: Limits) -> list[tuple[str, str, str]]:
    """Return the fields that a change affects, with formatted values before and after."""
    return [
        (name, describe(before, name), describe(after, name))
        for name in FIELDS
        if getattr(before, name) != getattr(after, name)
    ]


def describe(limits: Limits, field: str) -> str:
    """Return the value of a field with its unit."""
    value = getattr(limits, field)
    if value is None:
        return _TARGET
    if field == "deviation_ratio":
        return format_ratio(value)
    return f"{value:g} moves/h" if field == "returned_per_hour" else f"{value:g} min"
