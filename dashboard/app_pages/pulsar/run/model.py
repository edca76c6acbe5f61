"""Predicted vs. actual: each touched broker before, as predicted and as measured."""

from __future__ import annotations

from typing import Final

import numpy as np
import pandas as pd

from core.actions.describe import count_named
from core.actions.events import Measured
from core.actions.views import RunView
from core.plan.model import BrokerExpectation, lower_bound_note
from core.units import (
    UNKNOWN,
    format_age,
    format_bytes_per_s,
    format_deviation,
    format_ratio,
)
from dashboard.app_pages.run.charts import RunOutcome
from dashboard.charts.scale import Unit
from dashboard.presenters.figures import KeyFigure

MAX_BARS: Final = 24
QUANTITIES: Final[dict[str, Unit]] = {"traffic": "bytes/s", "usage": "ratio"}


def outcome(view: RunView, quantity: str) -> RunOutcome:
    """Return the chart's numbers, the brokers with most before first, at most 24.

    Args:
        quantity: Key of :data:`QUANTITIES`.
    """
    came = {one.broker: one for one in view.measured.brokers} if view.measured else {}
    rows = []
    for broker, one in _expected(view).items():
        rows.append((broker, *_pair(one, quantity), _came(came.get(broker), quantity)))
    rows.sort(key=lambda row: -np.nan_to_num(row[1]))
    rows = rows[:MAX_BARS]
    values = np.array([row[1:] for row in rows], dtype=np.float64).reshape(-1, 3)
    return RunOutcome(
        servers=[row[0] for row in rows],
        before=values[:, 0],
        expected=values[:, 1],
        came=values[:, 2],
        unit=QUANTITIES[quantity],
    )


def _expected(view: RunView) -> dict[str, BrokerExpectation]:
    """The brokers that the plan names, and those that took part all the same."""
    found = {one.broker: one for one in view.plan.expected.brokers}
    for step in view.steps:
        after = step.result.after if step.result else None
        for broker in (step.step.owner, after.holder if after else None):
            if broker is not None and broker not in found:
                found[broker] = BrokerExpectation(broker=broker)
    return found


def _pair(expectation: BrokerExpectation, quantity: str) -> tuple[float, float]:
    if quantity == "usage":
        return _number(expectation.usage_before), _number(expectation.usage_after)
    return _number(expectation.throughput_before), _number(expectation.throughput_after)


def _came(measured: Measured | None, quantity: str) -> float:
    if measured is None:
        return float("nan")
    return _number(measured.usage_ratio if quantity == "usage" else measured.throughput_bytes_per_s)


def _number(value: float | None) -> float:
    return float("nan") if value is None else float(value)


def deviation_figure(view: RunView) -> KeyFigure:
    """Return the max deviation of traffic: measured, else predicted."""
    expected, measured = view.plan.expected, view.measured
    before = f"before {format_deviation(expected.throughput_deviation_before)}"
    predicted = format_deviation(expected.throughput_deviation_after)
    if view.unassigned:
        deviation = None if measured is None else measured.throughput_deviation
        return KeyFigure(
            label="Unassigned",
            value=f"{len(view.unassigned):,}",
            note=f"measured deviation {format_deviation(deviation)}",
            status="bad",
            help=f"{count_named('Unassigned', view.unassigned)}; the deviation covers the other "
            "bundles.",
        )
    if measured is None:
        return KeyFigure(label="Predicted deviation", value=predicted, note=before)
    return KeyFigure(
        label="Measured deviation",
        value=format_deviation(measured.throughput_deviation),
        note=f"predicted {predicted}, {before}",
        help="Traffic of the busiest broker vs. mean.",
    )


def outcome_sentence(view: RunView) -> str:
    """Return the deviation before, as predicted and as measured, one sentence."""
    expected, measured = view.plan.expected, view.measured
    came = (
        "not measured yet"
        if measured is None
        else f"{format_deviation(measured.throughput_deviation)} measured"
    )
    lost = f"{count_named('Unassigned', view.unassigned)}. " if view.unassigned else ""
    return (
        f"{lost}Max traffic deviation: "
        f"{format_deviation(expected.throughput_deviation_before)} before, "
        f"{format_deviation(expected.throughput_deviation_after)} predicted, {came}."
    )


def doubt(view: RunView) -> str:
    """Return the time of the measurement and overlapping runs; empty if nothing to report."""
    measured = view.measured
    if measured is None:
        when = "A worker measures the brokers approx. 20 s after the end."
        return f"Not measured. {when}" if view.is_ended else when
    if view.unassigned:
        return f"{count_named('Unassigned', view.unassigned)}."
    other = measured.disturbed_by
    if other:
        return f"Run {other} overlaps; the result includes its effect."
    if view.ended_at is None:
        return ""
    after = format_age((measured.taken_at - view.ended_at).total_seconds())
    full = [one.broker for one in view.plan.expected.brokers if one.is_lower_bound]
    return f"Measured {after} after the end. {lower_bound_note(full)}".rstrip()


def outcome_table(view: RunView) -> pd.DataFrame:
    """Return the same as a table, in words: unknown stays unknown."""
    lacking = UNKNOWN if view.measured else "not measured"
    traffic, usage = outcome(view, "traffic"), outcome(view, "usage")
    at = {broker: row for row, broker in enumerate(usage.servers)}
    full = {one.broker: one for one in view.plan.expected.brokers if one.is_lower_bound}
    rows = []
    for row, broker in enumerate(traffic.servers):
        other = at.get(broker)
        rows.append(
            {
                "broker": broker,
                **_texts("traffic", traffic, row, lacking),
                **(_texts("usage", usage, other, lacking) if other is not None else {}),
                **(
                    {"usage_expected": full[broker].describe_usage_after()}
                    if broker in full
                    else {}
                ),
            }
        )
    return pd.DataFrame(
        rows,
        columns=[
            "broker",
            *(f"{what}_{when}" for what in QUANTITIES for when in ("before", "expected", "came")),
        ],
    )


def _texts(name: str, data: RunOutcome, row: int, not_measured: str) -> dict[str, str]:
    write = format_bytes_per_s if data.unit == "bytes/s" else format_ratio
    moments = {
        "before": (data.before, UNKNOWN),
        "expected": (data.expected, UNKNOWN),
        "came": (data.came, not_measured),
    }
    return {
        f"{name}_{moment}": write(float(values[row])) if np.isfinite(values[row]) else lacking
        for moment, (values, lacking) in moments.items()
    }
