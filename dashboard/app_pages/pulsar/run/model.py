"""Predicted vs. actual: each touched broker before, as expected and as measured."""

from __future__ import annotations

from typing import Final

import numpy as np
import pandas as pd

from core.actions.events import Measured
from core.actions.views import RunView
from core.plan.model import BrokerExpectation
from core.units import format_age, format_bytes_per_s, format_ratio
from dashboard.app_pages.pulsar.run.charts import Outcome
from dashboard.charts.scale import Unit

MAX_BARS: Final = 24
QUANTITIES: Final[dict[str, Unit]] = {"traffic": "bytes/s", "usage": "ratio"}


def outcome(view: RunView, quantity: str) -> Outcome:
    """Return the chart's numbers, the brokers with most before first, at most 24.

    Args:
        view: The run.
        quantity: Key of :data:`QUANTITIES`.
    """
    came = {one.broker: one for one in view.measured.brokers} if view.measured else {}
    rows = []
    for broker, one in _expected(view).items():
        rows.append((broker, *_pair(one, quantity), _came(came.get(broker), quantity)))
    rows.sort(key=lambda row: -np.nan_to_num(row[1]))
    rows = rows[:MAX_BARS]
    values = np.array([row[1:] for row in rows], dtype=np.float64).reshape(-1, 3)
    return Outcome(
        brokers=[row[0] for row in rows],
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


def _pair(one: BrokerExpectation, quantity: str) -> tuple[float, float]:
    if quantity == "usage":
        return _number(one.usage_before), _number(one.usage_after)
    return _number(one.throughput_before), _number(one.throughput_after)


def _came(one: Measured | None, quantity: str) -> float:
    if one is None:
        return float("nan")
    return _number(one.usage_ratio if quantity == "usage" else one.throughput_bytes_per_s)


def _number(value: float | None) -> float:
    return float("nan") if value is None else float(value)


def outcome_sentence(view: RunView) -> str:
    """Return what was predicted for the whole cluster, and what came."""
    expected, measured = view.plan.expected, view.measured
    before, after = expected.throughput_deviation_before, expected.throughput_deviation_after
    head = (
        "Deviation of the busiest broker from the mean traffic: "
        f"{format_ratio(before)} before, {format_ratio(after)} expected"
    )
    if measured is None:
        tail = "measured some 20 s after the end" if not view.is_ended else "not measured yet"
        if view.is_ended and view.started_at is None:
            tail = "and nothing was done"
        return f"{head}, {tail}."
    late = ""
    if view.ended_at is not None:
        late = f" {format_age((measured.taken_at - view.ended_at).total_seconds())} after the end"
    other = measured.disturbed_by
    doubt = f" Run {other} acted in between: not all of it is this run's doing." if other else ""
    return f"{head}, {format_ratio(measured.throughput_deviation)} measured{late}.{doubt}"


def outcome_table(view: RunView) -> pd.DataFrame:
    """Return the same as a table, in words: unknown stays unknown."""
    traffic, usage = outcome(view, "traffic"), outcome(view, "usage")
    at = {broker: row for row, broker in enumerate(usage.brokers)}
    rows = []
    for row, broker in enumerate(traffic.brokers):
        other = at.get(broker)
        rows.append(
            {
                "broker": broker,
                **_texts("traffic", traffic, row),
                **(_texts("usage", usage, other) if other is not None else {}),
            }
        )
    return pd.DataFrame(
        rows,
        columns=[
            "broker",
            *(f"{what}_{when}" for what in QUANTITIES for when in ("before", "expected", "came")),
        ],
    )


def _texts(name: str, data: Outcome, row: int) -> dict[str, str]:
    write = format_bytes_per_s if data.unit == "bytes/s" else format_ratio
    moments = {"before": data.before, "expected": data.expected, "came": data.came}
    return {
        f"{name}_{moment}": write(float(values[row])) if np.isfinite(values[row]) else "unknown"
        for moment, values in moments.items()
    }
