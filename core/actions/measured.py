"""When the effect of a run is measured: some time after its end, and not much later."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from core.actions.views import RunView

MEASURE_AFTER_S: Final = 20.0
"""Brokers write their load reports some seconds after the load came: measured any earlier, a run
would be held against what was there before it."""

MEASURE_UNTIL_S: Final = 3600.0
"""After that a measurement would say more about what others did than about the run."""


def is_to_be_measured(view: RunView, now: datetime) -> bool:
    """Return whether a run has ended, did something, and it is time to see the result."""
    if view.ended_at is None or view.measured is not None:
        return False
    is_time = (
        timedelta(seconds=MEASURE_AFTER_S)
        <= now - view.ended_at
        <= timedelta(seconds=MEASURE_UNTIL_S)
    )
    return is_time and any(step.begun_at is not None for step in view.steps)
