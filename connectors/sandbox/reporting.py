"""When brokers write their load reports, and which averages the leader writes."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from connectors.sandbox.state import NOBODY, FleetState, Rows
from connectors.sandbox.workload import CPU_LIMIT, NIC_LIMIT_KBIT_S, Floats
from core.pulsar.load import percent_usage

_TRAFFIC_STEP_BYTES_S: Final = 1e5
_RATE_STEP_MSGS_S: Final = 100.0


class ReportLedger:
    """What every broker's last written report said, in columns.

    Args:
        brokers: How many there are.
    """

    def __init__(self, brokers: int) -> None:
        self.written_ms: Floats = np.zeros(brokers)
        self._traffic: Floats = np.zeros((brokers, 3))  # messages/s, bytes/s, bundles
        self._usage_pct: Floats = np.zeros(brokers)

    def due(self, state: FleetState, now_ms: float, settings: dict[str, str]) -> Rows:
        """Return the brokers whose report must be written now.

        Source:
            Pulsar ``ModularLoadManagerImpl#needBrokerDataUpdate``.
        """
        most_ms = 60_000.0 * float(settings["loadBalancerReportUpdateMaxIntervalMinutes"])
        threshold_pct = float(settings["loadBalancerReportUpdateThresholdPercentage"])
        change = _change_pct(self._traffic, _traffic(state)).max(axis=1)
        change = np.maximum(change, np.abs(self._usage_pct - _usage_pct(state)))
        return np.flatnonzero((now_ms - self.written_ms > most_ms) | (change > threshold_pct))

    def note(self, state: FleetState, brokers: Rows, now_ms: float) -> None:
        """Note that these brokers wrote their present state."""
        self.written_ms[brokers] = now_ms
        self._traffic[brokers] = _traffic(state)[brokers]
        self._usage_pct[brokers] = _usage_pct(state)[brokers]

    def forget(self, broker: int) -> None:
        """Begin anew with a broker, as a new process does."""
        self.written_ms[broker] = 0.0
        self._traffic[broker] = 0.0
        self._usage_pct[broker] = 0.0


def _traffic(state: FleetState) -> Floats:
    rates = state.broker_rates()
    bundles = state.broker_counts()[:, 3]
    return np.column_stack([rates[:, 0] + rates[:, 2], rates[:, 1] + rates[:, 3], bundles])


def _usage_pct(state: FleetState) -> Floats:
    usage = state.usage
    cpu = percent_usage(usage.cpu, np.full_like(usage.cpu, CPU_LIMIT))
    nic = np.full_like(usage.cpu, NIC_LIMIT_KBIT_S)
    received = percent_usage(usage.bandwidth_in_kbit_s, nic)
    sent = percent_usage(usage.bandwidth_out_kbit_s, nic)
    return np.asarray(np.maximum(cpu, np.maximum(received, sent)), np.float64)


def _change_pct(old: Floats, new: Floats) -> NDArray[Any]:
    with np.errstate(divide="ignore", invalid="ignore"):
        change = 100 * np.abs(old - new) / np.abs(old)
    return np.where((old == 0) & (new == 0), 0.0, np.where(old == 0, np.inf, change))


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
        keys.append(np.round((average[:, 0] + average[:, 2]) / _RATE_STEP_MSGS_S))
        keys.append(np.round(average[:, 3] / _TRAFFIC_STEP_BYTES_S))
        keys.append(np.round(average[:, 1] / _TRAFFIC_STEP_BYTES_S))
    return known[np.lexsort(keys)[::-1][:most]]
