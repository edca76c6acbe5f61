"""The week of recorded history that the doctor looks at, for commands and pages."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final

from core.errors import SnapshotError
from core.history.queries.recorded_past import recorded_past
from core.history.queries.sql import Period, is_local, local_paths
from core.pulsar.rules.recorded_past import RecordedPast
from dashboard.services import history

if TYPE_CHECKING:
    from dashboard.services import Config

LOOKED_BACK: Final = timedelta(days=7)
"""So much of the history counts for peaks: a week has its busiest day."""


def recorded_week(config: Config, cluster: str, end: datetime) -> RecordedPast | None:
    """Return the record of a cluster for the week before ``end``; ``None`` if nothing is recorded.

    Raises:
        SnapshotError: The history is damaged, or cannot be reached.
    """
    uri = config.history_uri
    if is_local(uri) and not Path(local_paths([uri])[0]).exists():
        return None
    store = history.history(config)
    return recorded_past(store, cluster, Period(end - LOOKED_BACK, end))


def silence_words(error: SnapshotError) -> str:
    """Return the doctor's note where the week could not be read."""
    return f"Recorded peaks are unknown: {error}"
