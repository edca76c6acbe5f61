"""The measures of the History page, for people."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from core.errors import UnknownNameError
from dashboard.charts.scale import Unit


@dataclass(frozen=True, slots=True)
class HistoryMeasure:
    """One measure of the servers.

    Attributes:
        key: Of :mod:`core.history.query`, and in the address.
        label: For people.
        unit: Of its values.
    """

    key: str
    label: str
    unit: Unit


PULSAR: Final = (
    HistoryMeasure("usage", "Weighted maximum", "ratio"),
    HistoryMeasure("cpu", "CPU", "ratio"),
    HistoryMeasure("bandwidth_in", "NIC in", "ratio"),
    HistoryMeasure("bandwidth_out", "NIC out", "ratio"),
    HistoryMeasure("rate", "Message rate", "msgs/s"),
    HistoryMeasure("throughput", "Throughput", "bytes/s"),
    HistoryMeasure("bundles", "Bundles", "bundles"),
)
PEGASUS: Final = (
    HistoryMeasure("primaries", "Primaries", "count"),
    HistoryMeasure("replicas", "Replicas", "count"),
    HistoryMeasure("requests", "Requests a second", "count"),
    HistoryMeasure("memory", "Memory", "MB"),
)
_OF: Final = {"pulsar": PULSAR, "pegasus": PEGASUS}


def measures_of(system: str) -> tuple[HistoryMeasure, ...]:
    """Return the measures of a system; the first is what its balancer compares."""
    return _OF[system]


def history_measure(system: str, key: str) -> HistoryMeasure:
    """Return a measure by its key.

    Raises:
        UnknownNameError: There is none.
    """
    for one in _OF[system]:
        if one.key == key:
            return one
    raise UnknownNameError.of("measure", key, [one.key for one in _OF[system]])
