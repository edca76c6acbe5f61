"""Usage that does not tell the load: a resource that stays as it is, a capacity that is wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Final

import numpy as np
import pyarrow as pa

from core.arrays import column_values
from core.diagnosis.pulsar.context import Candidate, DiagnosisContext, with_setting
from core.diagnosis.pulsar.trials import Change
from core.pulsar.averages import set_column
from core.pulsar.load import RESOURCE_NAMES, limiting_resource, resource_weights
from core.pulsar.rules.reports import NIC_OUTLIER_FACTOR
from core.snapshot import PulsarSnapshot
from core.units import format_percent, pluralize

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
_MOST_RATIO: Final = 1.05
"""Nothing carries more than its limit, but for the inaccuracy of what is measured."""
_BYTES_PER_KBIT: Final = 125.0
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
        yield Candidate(
            code="usage_not_load",
            keys=(key,),
            objects=tuple(names[at] for at in rows),
            summary=f"{names[row]} counts as busy with {format_percent(held[row])} "
            f"{RESOURCE_NAMES[resource]} (weight {weights[resource]:g}), which does not "
            f"follow traffic; {_others(context, row)}.",
            changes=with_setting(context, key, 0.0),
            measured=float(held[row]) / 100,
            threshold=float(np.nan_to_num(context.real_usage[row])) / 100,
            unit="ratio",
        )


def _others(context: DiagnosisContext, row: int) -> str:
    parts = [
        f"{RESOURCE_NAMES[name]} {format_percent(context.percent(name)[row])}"
        for name in ("cpu", "bandwidth_out")
        if np.isfinite(context.percent(name)[row])
    ]
    return ", ".join(parts) or "other usage is unknown"


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
    # any number of the cards may be the one that carries: others are down, or virtual
    trues = [configured * count for count in range(1, cards)]
    if not cards and not _is_card(speed):
        trues = [speed / count for count in range(2, _MAX_CARDS + 1)]
    names = brokers["broker"].to_pylist()
    used = float(np.nanmax(np.where(known, context.percent("bandwidth_out"), np.nan))) / 100
    for true in trues:
        times = speed / true
        if used * times > _MOST_RATIO or (not cards and used * times < _FULL_RATIO):
            continue
        counted = cards or round(times)
        yield Candidate(
            code="network_limit",
            keys=(_NIC,),
            objects=tuple(names[row] for row in np.flatnonzero(known & (limits == speed))),
            summary=f"Brokers report a network limit of {speed:g} Gbit/s, {counted} times "
            f"{speed / counted:g} Gbit/s: {_NIC if cards else 'the speed'} counts once "
            f"per network card, including virtual and inactive ones. At {true:g} Gbit/s "
            f"the max usage is {used * times * 100:.0f}%, not {used * 100:.0f}%.",
            changes=(
                context.base.also(
                    Change(data=f"network limit {true:g}", edit=_limits_divided(times))
                ),
            ),
            hint=f"Set the override to {true / counted:g} Gbit/s if the cards carry {true:g} "
            "Gbit/s in total.",
            lines=(f"{_NIC}={true / counted:g}",),
            measured=speed,
            threshold=true,
            unit="Gbit/s",
        )


def network_unmeasured(context: DiagnosisContext) -> Iterator[Candidate]:
    """No broker reports a network limit, so that traffic counts for nothing in the usage."""
    if context.network_is_measured:
        return
    brokers = context.snapshot.brokers
    carried = np.stack([column_values(brokers, f"msg_throughput_{side}") for side in ("in", "out")])
    most = float(np.nan_to_num(carried).max()) / _BYTES_PER_KBIT / _KBIT_PER_GBIT
    card = next((speed for speed in _CARD_GBPS if most <= _FULL_RATIO * speed), _CARD_GBPS[-1])
    yield Candidate(
        code="network_unmeasured",
        keys=(_NIC,),
        objects=tuple(brokers["broker"].to_pylist()[:3]),
        summary="No broker reports a network limit, so traffic does not count as usage. At "
        f"{card:g} Gbit/s the busiest broker would be at {most / card * 100:.0f}%.",
        changes=(
            context.base.also(
                Change(
                    data=f"network of {card:g} Gbit/s",
                    edit=partial(_with_network, limit=card * _KBIT_PER_GBIT),
                )
            ),
        ),
        hint="Releases before 2.10.3 and 2.11.1 do not detect virtual cards: upgrade. On "
        f"later releases set {_NIC} to the speed of the card, and "
        "loadBalancerOverrideBrokerNics to its name.",
        measured=0.0,
        threshold=card,
        unit="Gbit/s",
    )


def _with_network(snapshot: PulsarSnapshot, limit: float) -> PulsarSnapshot:
    brokers = snapshot.brokers
    for side in ("in", "out"):
        used = np.nan_to_num(column_values(brokers, f"msg_throughput_{side}")) / _BYTES_PER_KBIT
        brokers = set_column(brokers, f"bandwidth_{side}_usage", pa.array(used))
        limits = pa.array(np.full(brokers.num_rows, limit))
        brokers = set_column(brokers, f"bandwidth_{side}_limit", limits)
    return PulsarSnapshot.build(snapshot.manifest, {**snapshot.tables, "brokers": brokers})


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
        summary=f"{pluralize(int(odd.sum()), 'broker')} with a different network limit: "
        f"{names[row]} {limits[row] / _KBIT_PER_GBIT:g} Gbit/s, the others "
        f"{median / _KBIT_PER_GBIT:g} Gbit/s.",
        changes=(
            context.base.also(Change(data="network limit of the others", edit=_limits_as(median))),
        ),
        hint="Set the override on these brokers to the speed of their card.",
        lines=(f"{_NIC}={median / _KBIT_PER_GBIT:g}",),
        measured=float(limits[row]) / _KBIT_PER_GBIT,
        threshold=median / _KBIT_PER_GBIT,
        unit="Gbit/s",
    )


def _is_card(speed: float) -> bool:
    return any(abs(speed - card) <= _NEAR * card for card in _CARD_GBPS)


def _limits_divided(count: float) -> Callable[[PulsarSnapshot], PulsarSnapshot]:
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
