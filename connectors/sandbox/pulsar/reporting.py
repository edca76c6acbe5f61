"""When brokers write their load reports, and which averages the leader writes."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np

from connectors.sandbox.pulsar.state import NOBODY, FleetState, Rows
from connectors.sandbox.pulsar.workload import Floats
from core.pulsar.load import RATE_STEP_MSGS_S, TRAFFIC_STEP_BYTES_S, in_steps
from core.pulsar.reports import ReportedLoad, needs_report
from core.pulsar.settings import EffectiveSettings


class ReportLedger:
    """What every broker's last written report said, in columns.

    Args:
        brokers: How many there are.
    """

    def __init__(self, brokers: int) -> None:
        self.written_ms: Floats = np.zeros(brokers)
        self._last: Floats = np.zeros((brokers, len(fields(ReportedLoad))))

    def due(
        self, state: FleetState, now_ms: float, settings: EffectiveSettings, pace: float = 1.0
    ) -> Rows:
        """Return the brokers whose report must be written now, by upstream's rule.

        Args:
            state: The cluster.
            now_ms: Since the epoch.
            settings: For the rule.
            pace: How many times as fast as the clock the sandbox's minutes go by.
        """
        last, current = _load(self._last), _load(_compared(state))
        age_ms = (now_ms - self.written_ms) * pace
        return np.flatnonzero(needs_report(last, current, age_ms, settings))

    def note(self, state: FleetState, brokers: Rows, now_ms: float) -> None:
        """Note that these brokers wrote their present state."""
        self.written_ms[brokers] = now_ms
        self._last[brokers] = _compared(state)[brokers]

    def forget(self, broker: int) -> None:
        """Begin anew with a broker, as a new process does."""
        self.written_ms[broker] = 0.0
        self._last[broker] = 0.0


def _compared(state: FleetState) -> Floats:
    rates = state.broker_rates()
    return np.column_stack(
        [
            rates[:, 0] + rates[:, 2],
            rates[:, 1] + rates[:, 3],
            state.broker_counts()[:, 3],
            state.usage.max_ratio(),
        ]
    )


def _load(columns: Floats) -> ReportedLoad:
    return ReportedLoad(
        msg_rate=columns[:, 0],
        msg_throughput=columns[:, 1],
        bundle_count=columns[:, 2],
        usage=columns[:, 3],
    )


def rows_to_average(state: FleetState, limit: int) -> Rows:
    """Return the bundles whose averages the leader writes, largest first.

    Args:
        state: For the averages.
        limit: Bundles per broker; 0 or less means all.

    Source:
        Pulsar ``ModularLoadManagerImpl#writeBundleDataOnZooKeeper`` and ``BundleData#compareTo``.
    """
    known = np.flatnonzero((state.reported_by != NOBODY) & (state.short_samples > 0))
    most = limit * max(1, sum(broker.is_up for broker in state.brokers))
    if limit <= 0 or len(known) <= most:
        return known
    keys: list[Any] = []
    for average in (state.long[known], state.short[known]):
        keys.append(in_steps(average[:, 0] + average[:, 2], RATE_STEP_MSGS_S))
        keys.append(in_steps(average[:, 3], TRAFFIC_STEP_BYTES_S))
        keys.append(in_steps(average[:, 1], TRAFFIC_STEP_BYTES_S))
    return known[np.lexsort(keys)[::-1][:most]]
