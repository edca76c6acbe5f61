"""How good a run was: the same figures for what really happened and for what might have."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from core.history.backtest.model import DEVIATION_BOUND, MINUTES_PER_DAY, covered_minutes
from core.history.backtest.pulsar.dense import Floats, Ints
from core.history.backtest.pulsar.engine import SimulatedRun
from core.history.backtest.pulsar.fleet import Bundles
from core.history.backtest.pulsar.moves import KINDS, Moves
from core.history.backtest.pulsar.series import LoadSeries
from core.simulation.managers import UNLOADS_PER_MINUTE

UNOWNED_S: Final = 60.0 / UNLOADS_PER_MINUTE
"""How long a bundle is without an owner while it is unloaded."""


def deviations(traffic: Floats) -> tuple[Floats, Ints]:
    """Return the max deviation of each minute, and its broker.

    Args:
        traffic: ``(T, b)``; NaN: not there, or unknown.
    Returns:
        Share of the mean, above or below, ``(T,)``: 0 where no broker has traffic, NaN where
        nothing is known; and the broker's column, -1 where nothing is known.
    """
    known = np.isfinite(traffic)
    count = known.sum(axis=1)
    values = np.where(known, traffic, 0.0)
    mean = values.sum(axis=1) / np.maximum(count, 1)
    scale = np.where(mean > 0, mean, 1.0)[:, None]
    deviation = np.where(known, np.abs((values - mean[:, None]) / scale), -1.0)
    deviation = np.where((mean > 0)[:, None] | ~known, deviation, 0.0)
    column = deviation.argmax(axis=1) if traffic.shape[1] else np.zeros(len(traffic), np.int64)
    max_deviation = deviation.max(axis=1, initial=-1.0)
    return np.where(count > 0, max_deviation, np.nan), np.where(count > 0, column, -1)


def recorded_run(series: LoadSeries) -> SimulatedRun:
    """Return the actual run: the recorded load, and every change of owner.

    A change that is seen in a minute happened in the one before. What left a broker that was gone,
    or had restarted, since it was seen to own it was no unload: it was placed again after a loss.
    """
    rows = series.shape[0]
    moves = Moves(series)
    splits = np.zeros(rows, np.int64)
    last = series.owner[0]
    seen = np.zeros(last.size, np.int64)  # row in which the last owner was seen
    losses = series.broker_losses
    for row in range(1, rows):
        now, here = series.owner[row], series.bundle_here[row]
        changed = here & (now >= 0) & (last >= 0) & (now != last) & ~series.is_bound
        at = np.flatnonzero(changed)
        load = Bundles.recorded(series, row - 1)
        stays = losses[row, last[at]] == losses[seen[at], last[at]]
        for kind, chosen in (("unload", at[stays]), ("placed again", at[~stays])):
            if chosen.size:
                ends = (last[chosen], now[chosen])
                moves.add(row - 1, kind, chosen, ends, load)  # type: ignore[arg-type]  # both are kinds
        came = here & ~series.bundle_here[row - 1] & (series.parent >= 0)
        splits[row] = np.unique(series.parent[came]).size
        seen = np.where(here & (now >= 0), row, seen)
        last = np.where(here & (now >= 0), now, np.where(here, last, np.int32(-1)))
    return SimulatedRun(
        traffic=series.traffic, moves=moves, splits=splits, shedding=None, placement=""
    )


def ping_pongs(moves: Moves) -> int:
    """Count how often a bundle came back to a broker that it had left; see ``find_flaps``."""
    left: set[tuple[int, int]] = set()
    found = 0
    for bundle, source, end in zip(
        moves.bundle.tolist(), moves.source.tolist(), moves.destination.tolist(), strict=True
    ):
        if source < 0 or end < 0:
            continue
        if (bundle, end) in left:
            left.discard((bundle, end))
            found += 1
        left.add((bundle, source))
    return found


def scores(series: LoadSeries, simulated: SimulatedRun) -> dict[str, Any]:
    """Return the scores of a run: the columns of ``RUNS`` from ``minutes`` to ``placed_again``."""
    days = covered_minutes(series.minutes) / MINUTES_PER_DAY
    away, _ = deviations(simulated.traffic)
    known = away[np.isfinite(away)]
    moves = simulated.moves
    is_unload = moves.kind == KINDS.index("unload")
    unloads = int(np.count_nonzero(is_unload))
    over = int(np.count_nonzero(known > DEVIATION_BOUND))
    counts = {
        "unloads": unloads,
        "moved_bytes_per_s": float(moves.flow[is_unload].sum()),
        "client_cuts": int(moves.clients[is_unload].sum()),
        "ping_pongs": ping_pongs(moves),
        "splits": int(simulated.splits.sum()),
        "unowned_s": unloads * UNOWNED_S,
    }
    return {
        "minutes": series.shape[0],
        "days": days,
        "deviation_mean": float(known.mean()) if known.size else None,
        "deviation_p95": float(np.percentile(known, 95)) if known.size else None,
        "deviation_max": float(known.max()) if known.size else None,
        "minutes_over": over if known.size else None,
        "minutes_over_ratio": over / known.size if known.size else None,
        "rounds": int(np.unique(moves.row[is_unload]).size),
        "placed_again": int(np.count_nonzero(moves.kind == KINDS.index("placed again"))),
        **counts,
        **{f"{name}_per_day": value / days for name, value in counts.items()},
    }
