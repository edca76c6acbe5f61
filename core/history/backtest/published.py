"""What brokers of the extensible manager publish, minute by minute, under a candidate.

Each broker smooths its own usage and names its hottest bundles. One that gave or took a bundle
withdraws its record and begins to smooth anew.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from core.arrays import column_values, row_of
from core.history.backtest.dense import Flags, Floats, Ints
from core.history.backtest.fleet import Bundles, Fleet
from core.history.backtest.series import LoadSeries
from core.pulsar.extensible_loads import ExtensibleLoads, TopBundle
from core.pulsar.load import next_smoothed_usage
from core.pulsar.settings import EffectiveSettings
from core.pulsar.view import LoadView
from core.simulation.records import TICKS_PER_MINUTE, hottest

_HISTORY: Final = "loadBalancerHistoryResourcePercentage"
_MS_PER_MINUTE: Final = 60_000


class Published:
    """The records of all brokers."""

    def __init__(self, series: LoadSeries, settings: EffectiveSettings) -> None:
        self._series = series
        self._settings = settings
        self._history = settings.number(_HISTORY)
        loads = series.template.broker_loads
        at = row_of(loads["broker"], series.template.brokers["broker"])
        self._smoothed = [
            np.append(column_values(loads, name), np.nan)[at]
            for name in ("weighted_max_ema", "msg_throughput_ema")
        ]
        self._has_load = np.isfinite(self._smoothed[0])
        self._start_ms = int(series.taken_at[0])
        self._now_ms = self._start_ms
        self._topics = np.zeros(at.size, np.int64)
        self._flow = np.zeros(at.size)

    def read(
        self, row: int, minutes: float, fleet: Fleet, usage: tuple[Floats, Flags], touched: Flags
    ) -> None:
        """Have every broker publish what it is at.

        Args:
            row: Minute of the record.
            minutes: Since the last call; 0: the start.
            fleet: The brokers now.
            usage: Weighted maximum of each, and where it is known.
            touched: Brokers that gave or took a bundle since.
        """
        here = self._series.broker_here[row]
        self._now_ms = self._start_ms + int(self._series.minutes[row]) * _MS_PER_MINUTE
        self._flow = np.nan_to_num(fleet.traffic)
        self._topics = np.rint(fleet.topics).astype(np.int64)
        known = usage[1] & here
        ticks = max(round(minutes * TICKS_PER_MINUTE), 1)
        for past, value in zip(self._smoothed, (usage[0], self._flow), strict=True):
            anew = touched | np.isnan(past)
            if minutes <= 0:
                following = np.where(anew, value, past)
            else:
                smoothed = next_smoothed_usage(past, value, self._history**ticks)
                following = np.where(anew, value, smoothed)
            past[:] = np.where(known, following, np.nan)
        self._has_load = known

    def loads(self, view: LoadView, columns: Ints, bundles: Bundles) -> ExtensibleLoads:
        """Return the records as a view has them.

        Args:
            view: The cluster now.
            columns: Broker column of each of its rows.
            bundles: Load now.
        """
        has_load = self._has_load[columns]
        return ExtensibleLoads(
            has_load=has_load,
            usage=np.nan_to_num(self._smoothed[0][columns]),
            throughput_ema=np.nan_to_num(self._smoothed[1][columns]),
            throughput=self._flow[columns],
            topics=self._topics[columns],
            updated_at_ms=np.where(has_load, self._now_ms, 0).astype(np.int64),
            taken_at_ms=self._now_ms,
            top=self._top(view, bundles),
        )

    def _top(self, view: LoadView, bundles: Bundles) -> dict[str, tuple[TopBundle, ...]]:
        rows, owner, rank = hottest(view, self._settings, bundles.rates[2:])
        found: dict[str, list[TopBundle]] = {}
        order = np.lexsort((-rank, owner))  # the coldest first
        flow = view.bundle_throughput[rows]
        for at in order.tolist():
            one = TopBundle(str(view.bundles[rows[at]]), float(flow[at]), is_owned=True)
            found.setdefault(view.brokers[owner[at]], []).append(one)
        return {broker: tuple(entries) for broker, entries in found.items()}
