"""Whether the limits that usage is measured against can be right."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

import numpy as np

from core.arrays import Bools, Floats, column_values
from core.findings.engine import Rule
from core.findings.finding import Finding, Fix
from core.findings.quantity import Quantity
from core.pulsar.load import resource_weights
from core.pulsar.plausibility import BEYOND_RATIO, carried_kbit, impossible_usage
from core.pulsar.rules.context import HealthContext
from core.pulsar.rules.doctor.groups import flow_words, speed_words
from core.pulsar.rules.doctor.model import some
from core.pulsar.rules.reports import NIC_OUTLIER_FACTOR
from core.pulsar.shedding import known_shedding_strategy, strategies_run_by
from core.pulsar.shedding.model import RATE, USAGE
from core.units import format_ratio, same_problem

NIC_SPEED: Final = "loadBalancerOverrideBrokerNicSpeedGbps"
SLOWEST_KBIT: Final = 100_000.0
"""100 Mbit/s: no broker has a slower card; a virtual one may say so."""
FASTEST_KBIT: Final = 1_600_000_000.0
"""1.6 Tbit/s: more than the cards of one host."""
BEYOND_FACTOR: Final = 2.0
"""Message traffic this many times what the cards are said to carry is not explained by timing."""
BEYOND_FLOOR_KBIT: Final = 8_000.0
ALIKE_RATIO: Final = 0.02
"""Limits that differ by less are the same: a kernel keeps some memory for itself."""

_CARD: Final = "Measure the real speed of a card, and set it (Gbit/s of one card)."
_GBPS_KBIT: Final = 1_000_000.0
_NEAR_WHOLE: Final = 0.01


def no_limit(context: HealthContext) -> Iterator[Finding]:
    """Weighted resources for which brokers report no limit."""
    for resource, weight in resource_weights(context.settings).items():
        limits = _values(context, f"{resource}_limit")
        bare = _named(context, np.isfinite(limits) & (limits <= 0))
        if not bare or not weight > 0:
            continue
        is_network = resource.startswith("bandwidth")
        direction = "In" if resource.endswith("_in") else "Out"
        key = f"loadBalancerBandwidth{direction}ResourceWeight" if is_network else ""
        yield Finding(
            code="no_limit",
            title="Weighted resource has no limit",
            measured=Quantity(len(bare), "brokers"),
            limit=Quantity(0),
            area="capacity",
            severity="warning",
            keys=(NIC_SPEED, key) if is_network else (),
            servers=bare,
            sentence=f"{some(bare)} {'report' if len(bare) > 1 else 'reports'} no limit for "
            f"{_resource_words(resource)}, which has weight {weight:g}.",
            consequence="The load manager treats that as 0% used: such a broker looks idle, "
            "however busy it is.",
            hint=f"{_CARD} Virtual cards report no speed."
            if is_network
            else "Check the resources that the broker can use on its host.",
            fix=Fix(lines=(f"{NIC_SPEED}=<Gbit/s>",) if is_network else (), restart=is_network),
            evidence={"resource": resource, "weight": weight},
        )


def odd_network_limit(context: HealthContext) -> Iterator[Finding]:
    """Network limits that are used beyond themselves, far from the others', or no card's."""
    for side in ("in", "out"):
        limits, usage = (
            _values(context, f"bandwidth_{side}_{part}") for part in ("limit", "usage")
        )
        carried = carried_kbit(context.snapshot.brokers, side)
        usage = np.where(carried > BEYOND_RATIO * limits, np.fmax(usage, carried), usage)
        known = np.isfinite(limits) & (limits > 0)
        if not known.any():
            continue
        median = float(np.median(limits[known]))
        ratio = np.where(known, limits / median, 1.0)
        over = known & (usage > limits)
        apart = (ratio >= NIC_OUTLIER_FACTOR) | (ratio <= 1 / NIC_OUTLIER_FACTOR)
        absurd = known & ((limits < SLOWEST_KBIT) | (limits > FASTEST_KBIT))
        for row in np.flatnonzero(over | apart | absurd):
            limit, used = float(limits[row]), float(usage[row])
            whys = {
                f"uses {format_ratio(used / limit)} of it": over[row],
                f"half of the brokers have {speed_words(median)} or more": apart[row],
                "no network card of a broker has that speed": absurd[row],
            }
            looks_busy = limit < median or bool(over[row])
            trusted = bool(apart[row]) and SLOWEST_KBIT <= median <= FASTEST_KBIT
            yield Finding(
                code="network_limit_odd",
                title="Network limit is implausible",
                measured=Quantity(float(limit), "kbit/s"),
                limit=Quantity(median, "kbit/s"),
                area="capacity",
                severity="warning",
                keys=(NIC_SPEED,),
                subject_kind="broker",
                subject=_names(context)[row],
                servers=(_names(context)[row],),
                sentence=f"{_names(context)[row]} reports a network limit ({side}) of "
                f"{speed_words(limit)}, and {next(why for why, holds in whys.items() if holds)}.",
                consequence="Its usage is overestimated: bundles are shed from it, and none are "
                "placed on it."
                if looks_busy
                else "Its usage is underestimated: bundles are sent to it until its card is full.",
                hint=_CARD + (" The value is the cluster's median." if trusted else ""),
                fix=Fix(
                    lines=(f"{NIC_SPEED}={median / _GBPS_KBIT:g}" if trusted else _ANY_SPEED,),
                    restart=True,
                ),
                evidence={
                    "limit_kbit_per_s": limit,
                    "usage_kbit_per_s": used if np.isfinite(used) else None,
                    "median_kbit_per_s": median,
                },
            )


_ANY_SPEED: Final = f"{NIC_SPEED}=<Gbit/s>"


def override_not_in_force(context: HealthContext) -> Iterator[Finding]:
    """A speed that is set, and limits that are no multiple of it.

    Source:
        Pulsar ``LinuxBrokerHostUsageImpl``: the limit is the speed times the number of cards.
    """
    limits = _values(context, "bandwidth_in_limit")
    by_broker = context.settings.differing().get(NIC_SPEED, {})
    common = context.settings.value(NIC_SPEED)
    off: list[str] = []
    for name, limit in zip(_names(context), limits.tolist(), strict=True):
        speed = by_broker.get(name, common)
        if not isinstance(speed, int | float) or speed <= 0 or not np.isfinite(limit):
            continue
        cards = limit / (speed * _GBPS_KBIT)
        if cards < _NEAR_WHOLE or abs(cards - round(cards)) > _NEAR_WHOLE * cards:
            off.append(name)
    if off:
        first = float(limits[_names(context).index(off[0])])
        yield Finding(
            code="network_speed_not_effective",
            title="Configured network speed is not effective",
            measured=Quantity(first, "kbit/s"),
            area="capacity",
            severity="warning",
            keys=(NIC_SPEED,),
            servers=tuple(off),
            sentence=f"{NIC_SPEED} is {by_broker.get(off[0], common)}, but {off[0]} reports "
            f"a limit of {speed_words(first)}, not a multiple of it"
            + (f"; {same_problem(len(off) - 1, 'other')}." if len(off) > 1 else "."),
            consequence="The effective limit differs from the configured one.",
            hint="It is read when a broker starts: restart these brokers.",
            fix=Fix(restart=True),
            evidence={"rows": off, "limit_kbit_per_s": first},
        )


def traffic_beyond_cards(context: HealthContext) -> Iterator[Finding]:
    """Messages that the counted network cards do not carry."""
    for side in ("in", "out"):
        used = _values(context, f"bandwidth_{side}_usage")
        carried = _values(context, f"msg_throughput_{side}") / 125.0
        beyond = (carried > BEYOND_FACTOR * used) & (carried - used > BEYOND_FLOOR_KBIT)
        named = _named(context, beyond)
        if not named:
            continue
        row = _names(context).index(named[0])
        yield Finding(
            code="traffic_beyond_cards",
            title="Traffic exceeds the reported network usage",
            measured=Quantity(float(carried[row]), "kbit/s"),
            limit=Quantity(float(used[row]), "kbit/s"),
            area="capacity",
            severity="warning",
            keys=(NIC_SPEED, "loadBalancerOverrideBrokerNics"),
            servers=named,
            sentence=f"{named[0]} carries {flow_words(float(carried[row]))} of messages "
            f"({side}), but its cards report {flow_words(float(used[row]))}"
            + (f"; {same_problem(len(named) - 1, 'more broker')}." if len(named) > 1 else "."),
            consequence="Bandwidth usage excludes this traffic: strategies with a bandwidth "
            "weight treat the broker as idle.",
            hint="Messages use a card that is not counted (a virtual one, a bond, the "
            "loopback): specify the cards, from 4.2 on.",
            fix=Fix(lines=("loadBalancerOverrideBrokerNics=<card,card>",), restart=True),
            evidence={
                "rows": list(named),
                "carried_kbit_per_s": float(carried[row]),
                "usage_kbit_per_s": float(used[row]),
            },
        )


def unequal(context: HealthContext) -> Iterator[Finding]:
    """Brokers of different size in a fleet whose strategies count absolute load."""
    shedder, placement = (
        context.settings.text(key).rpartition(".")[2]
        for key in ("loadBalancerLoadSheddingStrategy", "loadBalancerLoadPlacementStrategy")
    )
    is_extensible = context.snapshot.manifest.load_manager == "extensible"
    strategy = known_shedding_strategy(shedder)
    by_amount = []
    if strategy is not None and strategy.measure.startswith(RATE) and not is_extensible:
        by_amount.append(shedder)
    if placement == "LeastLongTermMessageRate" and not is_extensible:
        by_amount.append(placement)
    by_usage = next(one for one in strategies_run_by("modular") if one.measure == USAGE)
    wrong = impossible_usage(context.snapshot.brokers)  # such a limit is no size of a broker
    for column, label, words in _SIZES:
        limits = _values(context, column)
        known = np.isfinite(limits) & (limits > 0) & ~wrong[column.removesuffix("_limit")]
        if not known.any():
            continue
        median = float(np.median(limits[known]))
        odd = known & (np.abs(limits - median) > ALIKE_RATIO * median)
        named = _named(context, odd)
        if not named:
            continue
        span = sorted({float(value) for value in limits[known]})
        yield Finding(
            code="limits_differ",
            title="Resource limit differs from other brokers",
            measured=Quantity(words(span[0])),
            limit=Quantity(words(median)),
            area="capacity",
            severity="warning" if by_amount else "info",
            subject_kind="cluster" if len(named) > 1 else "broker",
            subject="" if len(named) > 1 else named[0],
            servers=named,
            sentence=f"Limit for {label} other than the cluster's median of {words(median)} on "
            f"{some(named)}; range: {words(span[0])} to {words(span[-1])}.",
            consequence=f"Based on messages, not capacity: {' and '.join(by_amount)}. Smaller "
            "brokers get as much load as larger ones."
            if by_amount
            else "Strategies based on usage take it into account; equal traffic then "
            "does not mean balance.",
            hint=f"Use equal brokers, or strategies based on usage ({by_usage.name} with "
            f"{by_usage.fitting_placement})."
            if by_amount
            else "Take this into account when you read traffic deviations.",
            evidence={"resource": column.removesuffix("_limit"), "median": median, "values": span},
        )


def _cores(percent: float) -> str:
    return f"{percent / 100:g} cores"


def _mebibytes(value: float) -> str:
    return f"{value:,.0f} MiB"


_SIZES: Final[tuple[tuple[str, str, Callable[[float], str]], ...]] = (
    ("cpu_limit", "CPU", _cores),
    ("memory_limit", "JVM heap", _mebibytes),
    ("direct_memory_limit", "direct memory", _mebibytes),
)


def _values(context: HealthContext, name: str) -> Floats:
    return column_values(context.snapshot.brokers, name)


def _names(context: HealthContext) -> tuple[str, ...]:
    return context.measures.usage.brokers


def _named(context: HealthContext, mask: Bools) -> tuple[str, ...]:
    names = _names(context)
    return tuple(names[row] for row in np.flatnonzero(mask))


def _resource_words(name: str) -> str:
    return {"cpu": "CPU", "bandwidth_in": "inbound bandwidth"}.get(
        name, "outbound bandwidth" if name == "bandwidth_out" else name.replace("_", " ")
    )


RULES: Final[tuple[Rule[HealthContext], ...]] = (
    no_limit,
    odd_network_limit,
    override_not_in_force,
    traffic_beyond_cards,
    unequal,
)
