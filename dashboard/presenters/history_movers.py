"""What changed hands in a period, for people."""

from __future__ import annotations

from typing import Final

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from core.history.asking import Period
from core.history.query import event_step_of
from core.units import ms_to_datetime
from dashboard.charts.history_moves import MovesByTime
from dashboard.presenters.moments import stamp

_WHO: Final = {"cluster": "the cluster", "trimtab": "Trimtab"}
_UNKNOWN: Final = "somebody"
_HOUR_MS: Final = 3_600_000
_MAX_BARS: Final = 400


def by_time(moves: pa.Table, period: Period) -> MovesByTime:
    """Return how many moves there were in each stretch: hours where that is fine enough.

    Args:
        moves: Events of moves: ``taken_at``, ``before`` and ``by``. Each counts where it left:
            what came from nobody is the second half of one, or a first owner.
        period: All of it is drawn.
    """
    left = pc.fill_null(pc.not_equal(moves["before"].cast(pa.string()), ""), fill_value=False)
    moves = moves.filter(left)
    span = period.last_ms - period.first_ms
    is_hours = 6 * _HOUR_MS <= span <= _MAX_BARS * _HOUR_MS
    step = _HOUR_MS if is_hours else event_step_of(period)
    first, last = period.first_ms // step, period.last_ms // step
    at = np.asarray(moves["taken_at"].to_numpy(), np.int64) // step - first
    who = np.array([_WHO.get(by or "", _UNKNOWN) for by in moves["by"].to_pylist()])
    size = int(last - first) + 1
    counts = {
        name: np.bincount(at[who == name], minlength=size).tolist()
        for name in (*_WHO.values(), _UNKNOWN)
        if (who == name).any()
    }
    times = [ms_to_datetime(int((first + row) * step)) for row in range(size)]
    return MovesByTime(times, counts, _each(step), period.start, period.end)


def _each(step_ms: int) -> str:
    for size, name in ((86_400_000, "day"), (_HOUR_MS, "hour"), (60_000, "minute")):
        if step_ms >= size:
            number = step_ms // size
            single = "an hour" if name == "hour" else f"a {name}"
            return single if number == 1 else f"{number} {name}s"
    return f"{step_ms // 1000} s"


def movers_frame(movers: pa.Table) -> pd.DataFrame:
    """Return what moved most as rows."""
    frame = movers.to_pandas()
    return pd.DataFrame(
        {
            "subject": frame["subject"],
            "moves": frame["moves"],
            "by_trimtab": frame["by_trimtab"],
            "returns": frame["returns"],
            "shortest_stay_min": frame["shortest_stay_ms"].astype(float) / 60_000,
            "last_at": pd.to_datetime(frame["last_ms"], unit="ms", utc=True),
        }
    )


def flaps_frame(flaps: pa.Table) -> pd.DataFrame:
    """Return the moves that were taken back as rows, the newest first."""
    rows = [
        {
            "subject": row["subject"],
            "home": row["home"],
            "away": row["away"],
            "away_min": row["dwell_ms"] / 60_000,
            "back_at": ms_to_datetime(row["back_at"]),
            "by": " / ".join(_WHO.get(row[name], _UNKNOWN) for name in ("left_by", "back_by")),
        }
        for row in flaps.sort_by([("back_at", "descending")]).to_pylist()
    ]
    return pd.DataFrame(rows, columns=["subject", "home", "away", "away_min", "back_at", "by"])


def minute_words(minute_s: float) -> str:
    """Return how long a minute is where the cluster's time is compressed, else nothing."""
    return "" if minute_s == 60.0 else f"A minute of this cluster is {minute_s:g} s. "


_BLURRED: Final = "? other moves"


def rounds_frame(rounds: pa.Table) -> pd.DataFrame:
    """Return the minutes with moves as rows, the newest first."""
    helped = {True: "● yes", False: "▲ no", None: "? unknown"}
    rows = [
        {
            "at": stamp(ms_to_datetime(row["taken_at"])),
            "by": _WHO.get(row["by"], _UNKNOWN),
            "moves": row["moves"],
            "flaps": row["flaps"],
            "before": _percent(row["deviation_before"]),
            "after": _percent(row["deviation_after"]),
            "helped": _BLURRED if row["other_moves"] else helped[row["helped"]],
            "others": row["other_moves"],
        }
        for row in rounds.sort_by([("taken_at", "descending")]).to_pylist()
    ]
    names = ["at", "by", "moves", "flaps", "before", "after", "helped", "others"]
    return pd.DataFrame(rows, columns=names)


def _percent(ratio: float | None) -> float:
    return float("nan") if ratio is None else ratio * 100
