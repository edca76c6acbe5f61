"""The form of a back-test as an earlier one was asked."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import streamlit as st

from core.errors import OpsError
from dashboard import backtesting, state
from dashboard.components import backtest_grid
from dashboard.presenters.backtest_grid import GridForm

if TYPE_CHECKING:
    from dashboard.services_jobs import Job

_REFILLED: Final = "_backtest_refilled"
_WIDGETS: Final = (
    backtest_grid.SHEDDING,
    backtest_grid.PLACEMENT,
    backtest_grid.TRIED,
    backtest_grid.SEEDS,
    backtest_grid.STRETCH,
)


def refill(job: Job, cluster: str) -> None:
    """Fill the form with what a job was asked, once; call it before the form is drawn.

    What a link says beside the job wins.

    Args:
        job: The one that is shown.
        cluster: The one that the header shows: a form of another cluster is left alone.
    """
    before = st.session_state.get(_REFILLED)
    if before == job.id:
        return
    st.session_state[_REFILLED] = job.id
    if before is None and any(key in st.query_params for key in _WIDGETS):
        return
    try:
        form = GridForm.of(backtesting.asked_grid(job))
    except (OpsError, ValueError, TypeError, KeyError, AttributeError):
        return  # asked by other means, in a form that this one does not have
    if form is None or form.cluster != cluster:
        return
    st.session_state.update(_widgets(form, backtesting.engine_of(job)))


def _widgets(form: GridForm, engine: str) -> dict[str, Any]:
    """Return what the widgets hold, by their keys."""
    held: dict[str, Any] = {
        backtest_grid.SHEDDING: list(form.shedding),
        backtest_grid.TRIED: list(form.values),
        backtest_grid.SEEDS: form.seeds,
        backtest_grid.ENGINE: engine,
        backtest_grid.WINDOW: form.window_minutes,
        backtest_grid.MINUTE_S: float(form.minute_s),
        backtest_grid.STRETCH: backtest_grid.WHOLE,
        backtest_grid.TARGET: "vivo",
        **{backtest_grid.value_key(key): list(texts) for key, texts in form.values.items()},
    }
    if not form.is_pegasus:
        held[backtest_grid.PLACEMENT] = list(form.placement)
    if form.start is not None or form.end is not None:
        held[backtest_grid.STRETCH] = backtest_grid.OWN
        held |= {
            key: _naive(moment)
            for key, moment in ((state.FROM, form.start), (state.UNTIL, form.end))
            if moment is not None
        }
    if form.deviation_pct is not None:
        held |= {
            backtest_grid.TARGET: backtest_grid.OWN_TARGET,
            backtest_grid.OFF: form.deviation_pct,
            backtest_grid.UNLOADS: float(form.unloads_per_day or 0.0),
        }
    return held


def _naive(moment: datetime) -> datetime:
    return moment.astimezone(UTC).replace(tzinfo=None)
