"""Labels, units and numbers of the measures that hours and days have."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple

from core.units import (
    format_bytes_per_s,
    format_count,
    format_mb,
    format_msgs_per_s,
    format_per_s,
    format_ratio,
)

if TYPE_CHECKING:
    from dashboard.charts.scale import Unit


LONG_TERM: Final = "Long term"
"""The tab of the History page that has the load of one object over months."""


class LoadMeasure(NamedTuple):
    """How a measure is shown.

    Attributes:
        label: For people.
        unit: Of a chart.
        format: Returns a value with its unit.
    """

    label: str
    unit: Unit
    format: Callable[[float | None], str]


def _ops(value: float | None) -> str:
    return format_per_s(value, "op")


_MEASURES: Final[dict[str, LoadMeasure]] = {
    "msg_throughput": LoadMeasure("traffic", "bytes/s", format_bytes_per_s),
    "msg_throughput_in": LoadMeasure("traffic in", "bytes/s", format_bytes_per_s),
    "msg_rate": LoadMeasure("message rate", "msgs/s", format_msgs_per_s),
    "msg_rate_in": LoadMeasure("message rate in", "msgs/s", format_msgs_per_s),
    "usage": LoadMeasure("usage", "ratio", format_ratio),
    "cpu_ratio": LoadMeasure("CPU", "ratio", format_ratio),
    "memory_ratio": LoadMeasure("heap", "ratio", format_ratio),
    "direct_memory_ratio": LoadMeasure("direct memory", "ratio", format_ratio),
    "bandwidth_in_ratio": LoadMeasure("NIC in", "ratio", format_ratio),
    "bandwidth_out_ratio": LoadMeasure("NIC out", "ratio", format_ratio),
    "deviation": LoadMeasure("max deviation", "ratio", format_ratio),
    "request_rate": LoadMeasure("requests", "count", _ops),
    "read_rate": LoadMeasure("reads", "count", _ops),
    "write_rate": LoadMeasure("writes", "count", _ops),
    "memory_mb": LoadMeasure("memory", "MB", format_mb),
}


def measure_of(name: str) -> LoadMeasure:
    """Return how a measure is shown; one without an entry is a count."""
    return _MEASURES.get(name) or LoadMeasure(name, "count", format_count)


def label_of(name: str) -> str:
    """Return the label of a measure."""
    return measure_of(name).label


def format_load(name: str, value: float | None) -> str:
    """Return a value of a measure with its unit, ``unknown`` for ``None``."""
    return "unknown" if value is None else measure_of(name).format(value)
