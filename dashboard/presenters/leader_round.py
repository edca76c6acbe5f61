"""The predicted shedding round of a leader as tables."""

from __future__ import annotations

from typing import Final

import pandas as pd

from core.pulsar.leader.prediction import Forecast, RoundPrediction

_NOT_SELECTED: Final = "not selected"


def bundles_frame(prediction: RoundPrediction) -> pd.DataFrame:
    """Return one row a bundle, those that leave first; the others with why they stay."""
    rows = []
    for one in sorted(prediction.bundles, key=lambda one: not one.destinations):
        best = max(one.destinations, key=lambda name: one.destinations[name], default=None)
        rows.append(
            {
                "share": one.share,
                "bundle": one.bundle,
                "broker": one.broker,
                "destination": best,
                "note": one.skipped if one.is_selected else _NOT_SELECTED,
            }
        )
    return pd.DataFrame(rows, columns=["share", "bundle", "broker", "destination", "note"])


def accuracy_frame(forecast: Forecast) -> pd.DataFrame:
    """Return one row a lead time: rounds that were exact, and bundles that came true."""
    return pd.DataFrame(
        [
            {
                "lead": f"{one.lead_s:g} s",
                "exact": f"{one.exact} of {one.rounds}",
                "ratio": _ratio(one.exact, one.rounds),
                "predicted": f"{one.hits} of {one.predicted}",
                "actual": f"{one.hits} of {one.actual}",
            }
            for one in forecast.accuracy
        ],
        columns=["lead", "exact", "ratio", "predicted", "actual"],
    )


def calibration_frame(forecast: Forecast) -> pd.DataFrame:
    """Return one row a range of shares: bundles shown with it, and those that came true."""
    return pd.DataFrame(
        [
            {
                "share": f"{one.low:.0%} to {one.high:.0%}",
                "mean": _ratio(one.share_total, one.shown),
                "ratio": _ratio(one.came_true, one.shown),
                "came_true": f"{one.came_true} of {one.shown}",
            }
            for one in forecast.calibration
        ],
        columns=["share", "mean", "ratio", "came_true"],
    )


def _ratio(part: float, whole: float) -> str:
    return f"{part / whole:.0%}" if whole else "-"
