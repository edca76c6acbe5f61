"""What of a record is played without a break.

A gap ends a stretch: nobody knows who moved what in it, so it counts on neither side. So does a
change of settings or policies, for a window is played under those of its start.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from core.history.backtest.dense import Ints
from core.history.backtest.model import Stretch
from core.history.store.store import HistoryStore
from core.snapshot.record import TAKEN_AT
from core.units import datetime_to_ms, ms_to_datetime

_GAP_MINUTES: Final = 2.5
"""So many minutes, or usual distances of two snapshots, without one are a gap."""
_RULES: Final = ("setting", "policy")


def stretches_of(
    store: HistoryStore,
    cluster: str,
    *,
    minute_s: float,
    start: datetime | None = None,
    end: datetime | None = None,
) -> tuple[Stretch, ...]:
    """Return what of a cluster's record is played without a break, oldest first.

    Args:
        store: The history.
        cluster: Its name there.
        minute_s: Seconds of the record that count as a minute of the cluster.
        start: Stretches without a recorded moment from then on are left out.
        end: And those without one before then.
    Raises:
        HistoryError: It cannot be read.
    """
    minutes = store.minutes(cluster)
    if not minutes.num_rows:
        return ()
    changed = np.zeros(0, np.int64)
    if minutes["system"][0].as_py() == "pulsar":  # a Pegasus tape has its settings minute by minute
        events = store.rows("events", cluster, columns=["kind"])
        changed = events.filter(pc.is_in(events["kind"], pa.array(_RULES)))[TAKEN_AT].to_numpy()
    moments = minutes[TAKEN_AT].to_numpy()
    return recorded_between(stretches_between(moments, changed, minute_s), moments, start, end)


def stretches_between(taken_at: Ints, changed: Ints, minute_s: float) -> tuple[Stretch, ...]:
    """Return the stretches between gaps and changes.

    Args:
        taken_at: Recorded moments, ms, rising.
        changed: First recorded moments under other settings or policies, ms.
        minute_s: Seconds that count as a minute.
    """
    minute_ms = minute_s * 1000.0
    steps = np.diff(taken_at)
    usual = float(np.median(steps)) if steps.size else 0.0
    is_gap = steps > _GAP_MINUTES * max(usual, minute_ms)
    is_new = np.isin(taken_at[1:], changed)
    firsts = np.flatnonzero(is_gap | is_new) + 1
    found = []
    for first, after in zip([0, *firsts], [*firsts, taken_at.size], strict=True):
        is_whole = after < taken_at.size and not is_gap[after - 1]
        end = int(taken_at[after]) if is_whole else round(int(taken_at[after - 1]) + minute_ms)
        found.append((ms_to_datetime(int(taken_at[first])), ms_to_datetime(end)))
    return tuple(found)


def recorded_between(
    stretches: Sequence[Stretch], taken_at: Ints, start: datetime | None, end: datetime | None
) -> tuple[Stretch, ...]:
    """Return the stretches of which a range holds a recorded moment.

    Args:
        stretches: What is played without a break.
        taken_at: Recorded moments, ms, rising.
        start: Of the range; ``None``: that of the record.
        end: Of the range, not in it any more; ``None``: that of the record.
    """
    kept = []
    for stretch in stretches:
        first = datetime_to_ms(max(stretch[0], start) if start else stretch[0])
        last = datetime_to_ms(min(stretch[1], end) if end else stretch[1])
        at = int(np.searchsorted(taken_at, first))
        if at < taken_at.size and taken_at[at] < last:
            kept.append(stretch)
    return tuple(kept)
