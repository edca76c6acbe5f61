"""Rules about the limits in load reports: whether they make sense."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from core.arrays import column_values
from core.findings.finding import Finding, Fix
from core.findings.quantity import Quantity
from core.pulsar.load import resource_weights
from core.pulsar.plausibility import BEYOND_RATIO, carried_kbit
from core.pulsar.rules.context import HealthContext
from core.units import KBIT_BYTES, format_bytes_per_s, format_ratio

NIC_OUTLIER_FACTOR: Final = 4.0
"""A network limit this many times above or below the cluster's median is worth a word."""

_NIC: Final = "loadBalancerOverrideBrokerNicSpeedGbps"


def capacity_missing(context: HealthContext) -> Iterator[Finding]:
    """Weighted resources without a limit: they count as 0%, so the broker looks empty."""
    brokers = context.snapshot.brokers
    names = brokers["broker"].to_pylist()
    for resource, weight in resource_weights(context.settings).items():
        if not weight > 0:
            continue
        limits = column_values(brokers, f"{resource}_limit")
        missing = [names[row] for row in np.flatnonzero(np.isfinite(limits) & (limits <= 0))]
        if missing:
            yield Finding(
                code="capacity_missing",
                title="Weighted resource has no limit",
                measured=Quantity(len(missing), "brokers"),
                limit=Quantity(0),
                severity="warning",
                subject_kind="broker" if len(missing) == 1 else "cluster",
                subject=missing[0] if len(missing) == 1 else "",
                sentence=(
                    f"{_names(missing)} {'reports' if len(missing) == 1 else 'report'} no "
                    f"limit for {resource.replace('_', ' ')}: the load manager treats that "
                    "as 0% used."
                ),
                evidence={"resource": resource, "rows": missing},
                hint=f"Set the capacity on the broker (for the network: {_NIC}).",
            )


def nic_suspicious(context: HealthContext) -> Iterator[Finding]:
    """Network limits far from the fleet's median, or that usage or messages exceed."""
    brokers = context.snapshot.brokers
    names = brokers["broker"].to_pylist()
    for side in ("in", "out"):
        limits = column_values(brokers, f"bandwidth_{side}_limit")
        measured = column_values(brokers, f"bandwidth_{side}_usage")
        carried = carried_kbit(brokers, side)
        usage = np.where(carried > BEYOND_RATIO * limits, np.fmax(measured, carried), measured)
        known = np.isfinite(limits) & (limits > 0)
        if not known.any():
            continue
        median = float(np.median(limits[known]))
        factor = np.where(known, limits / median, 1.0)
        odd = (factor >= NIC_OUTLIER_FACTOR) | (factor <= 1 / NIC_OUTLIER_FACTOR)
        over = known & (usage > limits)
        for row in np.flatnonzero(odd | over):
            speed = format_bytes_per_s(float(limits[row]) * KBIT_BYTES)
            share = format_ratio(float(usage[row] / limits[row]))
            what = "uses" if usage[row] == measured[row] else "its messages use"
            why = (
                f"{what} {share} of it"
                if over[row]
                else f"the cluster's median is {format_bytes_per_s(median * KBIT_BYTES)}"
            )
            yield Finding(
                code="nic_limit_suspicious",
                title="Network limit is implausible",
                measured=Quantity(float(limits[row]), "kbit/s"),
                limit=Quantity(median, "kbit/s"),
                severity="warning",
                subject_kind="broker",
                subject=names[row],
                sentence=f"{names[row]} reports a network limit ({side}) of {speed}, but {why}.",
                evidence={
                    "limit_kbit_per_s": float(limits[row]),
                    "usage_kbit_per_s": float(usage[row]) if np.isfinite(usage[row]) else None,
                    "median_kbit_per_s": median,
                },
                keys=(_NIC,),
                hint=("Do not unload its bundles because of this. " if over[row] else "")
                + f"Virtual machines often report a wrong speed: set {_NIC} to the real "
                "speed of a card.",
                fix=Fix(lines=(f"{_NIC}=<Gbit/s>",), restart=True),
            )


def _names(names: list[str]) -> str:
    if len(names) == 1:
        return names[0]
    if len(names) <= 3:
        return f"{', '.join(names[:-1])} and {names[-1]}"
    return f"{names[0]} and {len(names) - 1} other brokers"
