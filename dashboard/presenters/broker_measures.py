"""The measures by which brokers are compared, and their values from a brokers table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from core.errors import UnknownNameError
from core.health.measures import column_values
from core.pulsar.load import weighted_max_usage
from core.pulsar.settings import EffectiveSettings
from dashboard.charts.scale import Unit

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class BrokerMeasure:
    """One way to compare brokers.

    Attributes:
        key: Stable word, used in URLs.
        label: For people.
        unit: Unit of the values.
        values: Brokers table and settings to values, shape ``(n_brokers,)``, NaN where unknown.
    """

    key: str
    label: str
    unit: Unit
    values: Callable[[pa.Table, EffectiveSettings], Floats]


def _column(name: str) -> Callable[[pa.Table, EffectiveSettings], Floats]:
    return lambda table, _: column_values(table, name)


def _total(name: str) -> Callable[[pa.Table, EffectiveSettings], Floats]:
    return lambda table, _: column_values(table, f"{name}_in") + column_values(table, f"{name}_out")


def _bandwidth(table: pa.Table, _: EffectiveSettings) -> Floats:
    sides = [column_values(table, f"bandwidth_{side}_ratio") for side in ("in", "out")]
    return np.fmax(*sides)


BROKER_MEASURES: Final[tuple[BrokerMeasure, ...]] = (
    BrokerMeasure("usage", "Weighted maximum", "ratio", weighted_max_usage),
    BrokerMeasure("cpu", "CPU", "ratio", _column("cpu_ratio")),
    BrokerMeasure("bandwidth", "Bandwidth", "ratio", _bandwidth),
    BrokerMeasure("rate", "Message rate", "msgs/s", _total("msg_rate")),
    BrokerMeasure("throughput", "Throughput", "bytes/s", _total("msg_throughput")),
)
"""What the chooser offers; the first is what the load manager itself compares."""


def broker_measure(key: str) -> BrokerMeasure:
    """Return the measure with that key.

    Raises:
        UnknownNameError: There is none.
    """
    for measure in BROKER_MEASURES:
        if measure.key == key:
            return measure
    raise UnknownNameError.of("measure", key, [measure.key for measure in BROKER_MEASURES])
