"""The next shedding round as the leader observer predicts it, and how good its predictions were."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

import pandas as pd
import streamlit as st

from core.pulsar.leader.prediction import RoundPrediction
from dashboard import services, state
from dashboard.charts.pulsar.calibration import calibration_chart
from dashboard.components import figures, frame, tables, words
from dashboard.presenters.pulsar import leader_round as presenter
from dashboard.services.pulsar import leader

if TYPE_CHECKING:
    from core.pulsar.leader.prediction import Forecast
    from dashboard.components.pulsar.page import PulsarPage

_LOOK_EVERY_S: Final = 2.0
_BROKER_PX: Final = 115
"""The browser measures a column once, and the next prediction may be the first with a broker."""

_NOT_SELECTED: Final = "not selected"


def next_round(page: PulsarPage) -> None:
    """Render the time of the next round, its bundles with shares, and the measured accuracy."""
    if page.is_past:
        st.caption(words.plain(presenter.missing(None, 0.0, is_past=True)))
        return
    st.fragment(partial(_look, page), run_every=state.ticking(_LOOK_EVERY_S))()


def _look(page: PulsarPage) -> None:
    forecast = leader.leader_forecast(page.config, page.name)
    now_s = services.now().timestamp()
    if forecast is None or not presenter.is_shown(forecast, now_s) or not forecast.next_round:
        st.caption(words.plain(presenter.missing(forecast, now_s, is_past=False)))
        return
    prediction = forecast.next_round
    words.section(presenter.headline(prediction, now_s), presenter.source_note(prediction))
    words.notes(presenter.notes(prediction))
    rows = _bundles_frame(prediction)
    if not prediction.has_shares:
        rows = rows.drop(columns="share")
    share = st.column_config.ProgressColumn(
        "Share",
        format="percent",
        min_value=0.0,
        max_value=1.0,
        help="Share of simulated rounds that select the bundle, with loads varied as in recent "
        "reports.",
        width=90,
    )
    if not rows.empty:
        tables.table(
            rows,
            ({"share": share} if prediction.has_shares else {})
            | {
                "bundle": tables.opener("Bundle", "_predicted_bundle", frame.bundle_link),
                "broker": tables.words("From", width_px=_BROKER_PX),
                "destination": tables.words("To", width_px=_BROKER_PX),
                "note": tables.words("Not unloaded"),
            },
            key="leader_round",
            alt="Bundles of the predicted round with shares",
            missing="",
            height=min(300, tables.height_of(len(rows))),
        )
    if forecast.accuracy:
        with st.expander("Measured accuracy", key="_leader_accuracy"):
            accuracy(forecast)


def one_line(page: PulsarPage, *, broker: str = "", bundle: str = "") -> None:
    """Render the effect of the next round on one broker or one bundle, and its source.

    The gates and distances below the line are those of the snapshot.
    """
    forecast = None if page.is_past else leader.leader_forecast(page.config, page.name)
    now_s = services.now().timestamp()
    if forecast is None or not presenter.is_shown(forecast, now_s) or not forecast.next_round:
        st.caption(words.plain(presenter.missing(forecast, now_s, is_past=page.is_past)))
        return
    one = forecast.next_round
    if bundle:
        sentence = presenter.bundle_headline(one, now_s, bundle)
    else:
        sentence = presenter.headline(one, now_s, broker)
    st.markdown(words.plain(f"{sentence}. {presenter.FROM_EVENTS}"))
    st.caption("Gates and distances: from the snapshot.")


def accuracy(forecast: Forecast) -> None:
    """Render the share of exactly predicted rounds by lead time, and the accuracy of the shares."""
    until = presenter.measured_note(forecast, services.now().timestamp())
    if until:
        st.caption(words.plain(until))
    left, right = st.columns([0.5, 0.5], gap="medium")
    with left:
        tables.table(
            _accuracy_frame(forecast),
            {
                "lead": tables.words("Lead time"),
                "active": tables.words(
                    "Active rounds exact", "Rounds with predicted or actual moves."
                ),
                "idle": tables.words("Idle rounds", "Rounds without predicted or actual moves."),
                "predicted": tables.words(
                    "Precision", "Share of predicted bundles that were unloaded."
                ),
                "actual": tables.words("Recall", "Share of unloaded bundles that were predicted."),
            },
            key="leader_accuracy",
            alt="Accuracy of predicted rounds by lead time",
        )
        if forecast.calibration:
            tables.table(
                _calibration_frame(forecast),
                {
                    "share": tables.words("Predicted share"),
                    "mean": tables.words("Mean share"),
                    "ratio": tables.words("Actual"),
                    "came_true": tables.words("Bundles"),
                },
                key="leader_calibration",
                alt="Predicted shares 10 s before a round, and actual results",
            )
    with right:
        if forecast.calibration:
            st.caption("Predicted shares 10 s before the round vs. actual results")
            last = forecast.calibration[-1]
            figures.chart(
                calibration_chart(forecast.calibration),
                key="leader_calibration_chart",
                alt=f"Bundles with a predicted share of {last.low:.0%} to {last.high:.0%}: "
                f"{last.came_true} of {last.shown} unloaded.",
            )
        else:
            st.caption("No predicted shares, or their rounds are not evaluated yet.")
    words.notes([f"Unknown: {one}" for one in forecast.unknown])


def _bundles_frame(prediction: RoundPrediction) -> pd.DataFrame:
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


def _accuracy_frame(forecast: Forecast) -> pd.DataFrame:
    """Return one row a lead time: rounds that were exact, and bundles that came true."""
    return pd.DataFrame(
        [
            {
                "lead": f"{one.lead_s:g} s",
                "active": f"{one.active_exact} of {one.active}",
                "idle": f"{one.idle}",
                "predicted": f"{one.hits} of {one.predicted}",
                "actual": f"{one.hits} of {one.actual}",
            }
            for one in forecast.accuracy
        ],
        columns=["lead", "active", "idle", "predicted", "actual"],
    )


def _calibration_frame(forecast: Forecast) -> pd.DataFrame:
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
