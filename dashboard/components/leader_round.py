"""The next shedding round as the leader observer predicts it, and how good its predictions were."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

import streamlit as st

from dashboard import services, state
from dashboard.charts.calibration import calibration_chart
from dashboard.components import figures, frame, tables, words
from dashboard.presenters import leader_round as presenter
from dashboard.presenters import leader_words
from dashboard.services import leader

if TYPE_CHECKING:
    from core.pulsar.leader.prediction import Forecast
    from dashboard.components.frame import PageContext

_LOOK_EVERY_S: Final = 2.0
_BROKER_PX: Final = 115
"""The browser measures a column once, and the next prediction may be the first with a broker."""


def next_round(page: PageContext) -> None:
    """Show when the next round is, its bundles with their shares, and the measured accuracy."""
    if page.is_past:
        st.caption(words.plain(leader_words.missing(None, 0.0, is_past=True)))
        return
    st.fragment(partial(_look, page), run_every=state.ticking(_LOOK_EVERY_S))()


def _look(page: PageContext) -> None:
    forecast = leader.leader_forecast(page.config, page.name)
    now_s = services.now().timestamp()
    if forecast is None or not leader_words.is_shown(forecast, now_s) or not forecast.next_round:
        st.caption(words.plain(leader_words.missing(forecast, now_s, is_past=False)))
        return
    prediction = forecast.next_round
    words.section(leader_words.headline(prediction, now_s), leader_words.source_note(prediction))
    words.notes(leader_words.notes(prediction))
    rows = presenter.bundles_frame(prediction)
    if not prediction.has_shares:
        rows = rows.drop(columns="share")
    share = st.column_config.ProgressColumn(
        "Share",
        format="percent",
        min_value=0.0,
        max_value=1.0,
        help="Share of simulated rounds that select the bundle; loads vary as in recent reports.",
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
            alt="Bundles of the predicted round with their shares",
            missing="",
            height=min(300, tables.height_of(len(rows))),
        )
    if forecast.accuracy:
        with st.expander("Measured accuracy", key="_leader_accuracy"):
            accuracy(forecast)


def one_line(page: PageContext, *, broker: str = "", bundle: str = "") -> None:
    """Show what the next round does with one broker or one bundle, and what that goes by.

    The gates and distances below the line are those of the snapshot.
    """
    forecast = None if page.is_past else leader.leader_forecast(page.config, page.name)
    now_s = services.now().timestamp()
    if forecast is None or not leader_words.is_shown(forecast, now_s) or not forecast.next_round:
        st.caption(words.plain(leader_words.missing(forecast, now_s, is_past=page.is_past)))
        return
    one = forecast.next_round
    if bundle:
        sentence = leader_words.bundle_headline(one, now_s, bundle)
    else:
        sentence = leader_words.headline(one, now_s, broker)
    st.markdown(words.plain(f"{sentence}. {leader_words.FROM_EVENTS}"))
    st.caption("Gates and distances are from the snapshot.")


def accuracy(forecast: Forecast) -> None:
    """Show how many rounds were predicted exactly by lead time, and how the shares came true."""
    until = leader_words.measured_note(forecast, services.now().timestamp())
    if until:
        st.caption(words.plain(until))
    left, right = st.columns([0.5, 0.5], gap="medium")
    with left:
        tables.table(
            presenter.accuracy_frame(forecast),
            {
                "lead": tables.words("Lead time", pinned=True),
                "exact": tables.words("Rounds exact"),
                "ratio": tables.words("Exact"),
                "predicted": tables.words("Precision", "Predicted bundles that were unloaded."),
                "actual": tables.words("Recall", "Unloaded bundles that were predicted."),
            },
            key="leader_accuracy",
            alt="Accuracy of predicted rounds by lead time",
        )
        if forecast.calibration:
            tables.table(
                presenter.calibration_frame(forecast),
                {
                    "share": tables.words("Share shown", pinned=True),
                    "mean": tables.words("Mean share"),
                    "ratio": tables.words("Came true"),
                    "came_true": tables.words("Bundles"),
                },
                key="leader_calibration",
                alt="Shares that were shown ten seconds before a round, and how many came true",
            )
    with right:
        if forecast.calibration:
            st.caption("Shares shown 10 s before the round, and how often they came true")
            last = forecast.calibration[-1]
            figures.chart(
                calibration_chart(forecast.calibration),
                key="leader_calibration_chart",
                alt=f"Of bundles shown with {last.low:.0%} to {last.high:.0%}, "
                f"{last.came_true} of {last.shown} came true.",
            )
        else:
            st.caption("No shares were shown, or none of their rounds is judged yet.")
    words.notes([f"Not known from outside: {one}" for one in forecast.unknown])
