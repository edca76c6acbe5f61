"""Usage that cannot be true: no resource gives more than its limit.

A balancer acts on it all the same, so it is not taken for a load anywhere here: what is measured
has to be corrected before bundles are moved.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from core.arrays import Bools, Floats, column_values
from core.pulsar.load import RESOURCE_NAMES, WEIGHED
from core.units import KBIT_BYTES, pluralize

BEYOND_RATIO: Final = 1.05
"""Usage of its limit that the inaccuracy of a measurement does not explain."""
_SAME_RATIO: Final = 0.001


def impossible_usage(brokers: pa.Table) -> Mapping[str, Bools]:
    """Return, for each resource, which brokers report a usage that cannot be true.

    A broker with the same CPU limit as one whose CPU usage is impossible counts the same CPUs, so
    its usage is impossible too, whatever it is.

    Args:
        brokers: Table of :data:`core.schemas.pulsar.BROKERS`.
    Returns:
        Shape ``(n_brokers,)`` each, by the names of :data:`core.pulsar.load.WEIGHED`.
    Source:
        Pulsar ``LinuxBrokerHostUsageImpl``: the usage of CPU is that of the whole control group,
        its limit ``availableProcessors`` of the JVM.
    """
    found = {}
    for resource in WEIGHED:
        limit = column_values(brokers, f"{resource}_limit")
        used = column_values(brokers, f"{resource}_usage")
        if resource.startswith("bandwidth"):
            used = np.fmax(used, carried_kbit(brokers, resource.removeprefix("bandwidth_")))
        with np.errstate(invalid="ignore"):
            beyond = (limit > 0) & (used > BEYOND_RATIO * limit)
        found[resource] = _with_same_limit(limit, beyond) if resource == "cpu" else beyond
    return found


def impossible_words(brokers: pa.Table, sources: Collection[str]) -> str:
    """Return the note on brokers relieved because of implausible usage, or "".

    Args:
        brokers: Table of :data:`core.schemas.pulsar.BROKERS`.
        sources: Brokers that bundles would leave.
    """
    is_source = np.asarray(pc.is_in(brokers["broker"], pa.array([*sources], pa.string())))
    for resource, rows in impossible_usage(brokers).items():
        named = brokers["broker"].filter(pa.array(rows & is_source)).to_pylist()
        if named:
            more = f" and {pluralize(len(named) - 1, 'more broker')}" if named[1:] else ""
            return (
                f"The {RESOURCE_NAMES[resource]} usage of {named[0]}{more} is "
                "implausible: correct it (see health) before you unload bundles "
                "because of it."
            )
    return ""


def carried_kbit(brokers: pa.Table, side: str) -> Floats:
    """Return the messages that brokers carry in one direction, kbit/s; NaN where unknown."""
    return column_values(brokers, f"msg_throughput_{side}") / KBIT_BYTES


def _with_same_limit(limit: Floats, beyond: Bools) -> Bools:
    same = np.zeros_like(beyond)
    for value in np.unique(limit[beyond]):
        same |= np.abs(limit - value) <= _SAME_RATIO * value
    return same


def plausible_brokers(brokers: pa.Table) -> pa.Table:
    """Return the brokers with implausible usage set to unknown.

    Args:
        brokers: Table of :data:`core.schemas.pulsar.BROKERS`.
    """
    for resource, rows in impossible_usage(brokers).items():
        if not rows.any():
            continue
        for part in ("usage", "ratio"):
            at = brokers.schema.get_field_index(f"{resource}_{part}")
            blank = pc.if_else(pa.array(rows), pa.scalar(None, pa.float64()), brokers.column(at))
            brokers = brokers.set_column(at, brokers.schema.field(at), blank)
    return brokers
