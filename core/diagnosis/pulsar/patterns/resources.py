"""Usage that does not tell the load: a resource that stays as it is, a capacity that is wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

import numpy as np
import pyarrow as pa

from core.arrays import column_values
from core.diagnosis.pulsar.context import Candidate, DiagnosisContext, with_setting
from core.diagnosis.pulsar.trials import Change
from core.pulsar.load import limiting_resource, resource_weights
from core.pulsar.rules.reports import NIC_OUTLIER_FACTOR
from core.simulation.averages import set_column
from core.snapshot import PulsarSnapshot
from core.units import format_percent, format_ratio, pluralize

_WEIGHTS: Final = {
    "direct_memory": "loadBalancerDirectMemoryResourceWeight",
    "memory": "loadBalancerMemoryResourceWeight",
}
"""Resources that are held, not used: a cache or a heap stays full when its traffic is gone."""

_NIC: Final = "loadBalancerOverrideBrokerNicSpeedGbps"
_KBIT_PER_GBIT: Final = 1_000_000.0
_CARD_GBPS: Final = (
    *(0.1, 1.0, 2.0, 2.5, 4.0, 5.0, 10.0, 12.5, 15.0, 20.0, 25.0, 30.0, 37.5, 40.0, 50.0),
    *(75.0, 80.0, 100.0, 200.0, 400.0),
)
"""Speeds that cards, two of them together, or virtual machines have."""
_FULL_RATIO: Final = 0.8
"""A limit that would not be used up to here, were it divided, explains nothing."""
_MAX_CARDS: Final = 4
_NEAR: Final = 0.02


def held_resource(context: DiagnosisContext) -> Iterator[Candidate]:
    """A broker counts as busy for a resource that its traffic does not move."""
    weights = resource_weights(context.settings)
    names = context.snapshot.brokers["broker"].to_pylist()
    limiting = limiting_resource(context.snapshot.brokers, context.settings)
    for resource, key in _WEIGHTS.items():
        rows = [row for row, found in enumerate(limiting) if found == resource]
        if not rows or weights[resource] <= 0:
            continue
        held = context.percent(resource)
        row = max(rows, key=lambda at: held[at])
        label = resource.replace("_", " ")
        yield Candidate(
            code="usage_not_load",
            keys=(key,),
            objects=tuple(names[at] for at in rows),
            summary=f"{names[row]} counts as busy for {format_percent(held[row])} {label} (weight "
            f"{weights[resource]:g}); its {_others(context, row)}.",
            changes=with_setting(context, key, 0.0),
            measured=float(held[row]) / 100,
            threshold=float(np.nan_to_num(context.real_usage[row])) / 100,
            unit="ratio",
        )


def _others(context: DiagnosisContext, row: int) -> str:
    parts = [
        f"{label} is {format_percent(context.percent(name)[row])}"
        for name, label in (("cpu", "CPU"), ("bandwidth_out", "outbound network"))
        if np.isfinite(context.percent(name)[row])
    ]
    return " and ".join(parts) or "other usage is unknown"


def network_limit(context: DiagnosisContext) -> Iterator[Candidate]:
    """The network limit is a multiple of what the cards carry, so its usage looks small."""
    brokers = context.snapshot.brokers
    limits = column_values(brokers, "bandwidth_out_limit") / _KBIT_PER_GBIT
    known = np.isfinite(limits) & (limits > 0)
    if not known.any():
        return
    speed = float(np.median(limits[known]))
    configured = context.settings.number(_NIC)
    cards = round(speed / configured) if configured > 0 else 0
    times = [cards] if cards > 1 else []
    if not times and not _is_card(speed):
        times = list(range(2, _MAX_CARDS + 1))
    names = brokers["broker"].to_pylist()
    for count in times:
        true = speed / count
        used = float(np.nanmax(np.where(known, context.percent("bandwidth_out"), np.nan))) / 100
        if not cards and used * count < _FULL_RATIO:
            continue
        yield Candidate(
            code="network_limit",
            keys=(_NIC,),
            objects=tuple(names[row] for row in np.flatnonzero(known & (limits == speed))),
            summary=f"Brokers report a network limit of {speed:g} Gbit/s, {count} times "
            f"{true:g} Gbit/s: the override counts once for each card, so the usage "
            f"({format_ratio(used)} at most) is {used * count * 100:.0f}% in truth.",
            changes=(
                context.base.also(
                    Change(data=f"network limit / {count}", edit=_limits_divided(count))
                ),
            ),
            hint=f"Set the override to what one card carries ({true / count:g} Gbit/s).",
            lines=(f"{_NIC}={true / count:g}",),
            measured=speed,
            threshold=true,
            unit="Gbit/s",
        )


def differing_limits(context: DiagnosisContext) -> Iterator[Candidate]:
    """Some brokers report a network limit far from that of the others."""
    brokers = context.snapshot.brokers
    limits = column_values(brokers, "bandwidth_out_limit")
    known = np.isfinite(limits) & (limits > 0)
    if known.sum() < 2:  # one has nothing to differ from
        return
    median = float(np.median(limits[known]))
    odd = known & (
        (limits >= NIC_OUTLIER_FACTOR * median) | (limits <= median / NIC_OUTLIER_FACTOR)
    )
    if not odd.any():
        return
    names = brokers["broker"].to_pylist()
    row = int(np.flatnonzero(odd)[0])
    yield Candidate(
        code="network_limit",
        keys=(_NIC,),
        objects=tuple(names[at] for at in np.flatnonzero(odd)),
        summary=f"{pluralize(int(odd.sum()), 'broker')} with another network limit: "
        f"{names[row]} {limits[row] / _KBIT_PER_GBIT:g} Gbit/s, the others "
        f"{median / _KBIT_PER_GBIT:g} Gbit/s.",
        changes=(
            context.base.also(Change(data="network limit of the others", edit=_limits_as(median))),
        ),
        hint="Set the override on these brokers to what their card carries.",
        lines=(f"{_NIC}={median / _KBIT_PER_GBIT:g}",),
        measured=float(limits[row]) / _KBIT_PER_GBIT,
        threshold=median / _KBIT_PER_GBIT,
        unit="Gbit/s",
    )


def _is_card(speed: float) -> bool:
    return any(abs(speed - card) <= _NEAR * card for card in _CARD_GBPS)


def _limits_divided(count: int) -> Callable[[PulsarSnapshot], PulsarSnapshot]:
    return lambda snapshot: _with_limits(snapshot, lambda limits: limits / count)


def _limits_as(limit: float) -> Callable[[PulsarSnapshot], PulsarSnapshot]:
    return lambda snapshot: _with_limits(
        snapshot, lambda limits: np.where(np.isfinite(limits), limit, limits)
    )


def _with_limits(
    snapshot: PulsarSnapshot, change: Callable[[np.ndarray], np.ndarray]
) -> PulsarSnapshot:
    brokers = snapshot.brokers
    for side in ("in", "out"):
        name = f"bandwidth_{side}_limit"
        limits = change(column_values(brokers, name))
        brokers = set_column(brokers, name, pa.array(limits, pa.float64(), mask=np.isnan(limits)))
    return PulsarSnapshot.build(snapshot.manifest, {**snapshot.tables, "brokers": brokers})
