"""Rules about measurements that cannot be true, and what corrects each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
import pyarrow.compute as pc

from core.arrays import Bools, Floats, column_values
from core.findings.engine import Rule
from core.findings.finding import Finding, Fix
from core.findings.quantity import Quantity
from core.pulsar.load import RESOURCE_NAMES, limiting_resource, resource_weights
from core.pulsar.plausibility import impossible_usage, plausible_brokers
from core.pulsar.rules.context import HealthContext
from core.pulsar.shedding import known_shedding_strategy
from core.units import datetime_to_ms, format_bytes_per_s, format_ratio, pluralize

PROCESSORS: Final = "-XX:ActiveProcessorCount"
DIRECT: Final = "-XX:MaxDirectMemorySize"
CACHE: Final = "managedLedgerCacheSizeMB"
CACHE_RATIO: Final = 0.8
"""A cache that may hold so much of direct memory leaves too little for what is sent and written."""
NEAR_LIMIT_RATIO: Final = 0.05
IDLE_RATIO: Final = 0.5
"""CPU and network of a broker whose direct memory decides are used less than this."""

APART: Final = 2.0
"""Half the traffic at twice the CPU: four times the cost of a byte and of a message."""
GAP_RATIO: Final = 0.25
"""And so much of its CPU more."""
MIN_BYTES_S: Final = 1e6
"""Fewer messages than these say nothing about CPU."""
WARM_UP_S: Final = 600.0
"""A broker that has just started uses CPU for that."""
MAX_BYTES_PER_CORE_S: Final = 4e9
"""No core sends and receives more."""

_MANY: Final = 20
_SHEDDER: Final = "loadBalancerLoadSheddingStrategy"
_OVERLOADED: Final = "loadBalancerBrokerOverloadedThresholdPercentage"
_MEMORY: Final = {"memory": "-Xmx", "direct_memory": DIRECT}


def impossible_cpu(context: HealthContext) -> Iterator[Finding]:
    """Brokers whose CPU usage and limit count different CPUs."""
    brokers = context.snapshot.brokers
    used, limit = (column_values(brokers, f"cpu_{part}") for part in ("usage", "limit"))
    names = context.measures.brokers
    rows = np.flatnonzero(impossible_usage(brokers)["cpu"])
    for value in np.unique(np.round(limit[rows])):
        same = rows[np.round(limit[rows]) == value]
        row = int(same[np.argmax(np.nan_to_num(used[same]))])
        ratio, cpus = float(used[row] / limit[row]), float(limit[row]) / 100
        fewest = int(np.ceil(used[row] / 100))
        others = len(same) - 1
        yield Finding(
            code="cpu_impossible",
            title="CPU usage exceeds its limit",
            measured=Quantity(ratio, "ratio"),
            limit=Quantity(1.0, "ratio"),
            area="capacity",
            severity="error",
            subject_kind="broker",
            subject=names[row],
            servers=tuple(names[at] for at in same.tolist()),
            sentence=f"{names[row]} reports {used[row] / 100:.1f} cores used of {cpus:g} "
            f"({format_ratio(ratio)}): usage counts {fewest} CPUs or more, the limit {cpus:g}."
            + (f" {pluralize(others, 'other broker')} with the same limit." if others else ""),
            consequence="The balancer overestimates the load of such a broker, and unloads its "
            "bundles without need.",
            hint="Do not unload its bundles because of this. Start the brokers with "
            f"{PROCESSORS}=<CPUs of the host>, as many as usage counts.",
            fix=Fix(
                lines=(f"PULSAR_EXTRA_OPTS=<other options> {PROCESSORS}=<CPUs of the host>",),
                restart=True,
            ),
            evidence={
                "resource": "cpu",
                "usage_ratio": ratio,
                "limit_cpus": cpus,
                "counted_cpus": fewest,
                "flag": PROCESSORS,
                "rows": [names[at] for at in same.tolist()],
            },
        )


def impossible_memory(context: HealthContext) -> Iterator[Finding]:
    """Brokers that use more memory than its limit."""
    brokers, names = context.snapshot.brokers, context.measures.brokers
    impossible = impossible_usage(brokers)
    for resource, flag in _MEMORY.items():
        used, limit = (column_values(brokers, f"{resource}_{part}") for part in ("usage", "limit"))
        for row in np.flatnonzero(impossible[resource]).tolist():
            ratio = float(used[row] / limit[row])
            yield Finding(
                code="memory_impossible",
                title="Memory usage exceeds its limit",
                measured=Quantity(ratio, "ratio"),
                limit=Quantity(1.0, "ratio"),
                area="capacity",
                severity="warning",
                subject_kind="broker",
                subject=names[row],
                servers=(names[row],),
                sentence=f"{names[row]} reports {used[row]:,.0f} MiB of "
                f"{RESOURCE_NAMES[resource]} used of {limit[row]:,.0f} MiB "
                f"({format_ratio(ratio)}): the two count different pools.",
                consequence="Its usage does not represent its load.",
                hint=f"Do not unload its bundles because of this. Set {flag} to the memory "
                "that the broker can use, and restart it.",
                fix=Fix(lines=(f"PULSAR_MEM=<other options> {flag}=<size>",), restart=True),
                evidence={"resource": resource, "usage_ratio": ratio, "flag": flag},
            )


@dataclass(frozen=True, eq=False)
class _BrokerCpu:
    """CPU and traffic of brokers, all ``(n_brokers,)``, NaN where unknown.

    Attributes:
        cores: CPU used.
        ratio: The same as a share of the limit.
        flow: Messages, bytes/s.
        rate: Messages/s.
    """

    cores: Floats
    ratio: Floats
    flow: Floats
    rate: Floats

    @classmethod
    def of(cls, context: HealthContext) -> _BrokerCpu:
        """Take brokers whose CPU may be true and that are warm."""
        brokers = plausible_brokers(context.snapshot.brokers)
        started = column_values(brokers, "started_at")
        now_ms = datetime_to_ms(context.snapshot.manifest.taken_at)
        is_cold = np.nan_to_num(now_ms - started, nan=np.inf) < WARM_UP_S * 1000
        cores = np.where(is_cold, np.nan, column_values(brokers, "cpu_usage") / 100)
        limit = column_values(brokers, "cpu_limit") / 100
        with np.errstate(invalid="ignore", divide="ignore"):
            ratio = np.where(limit > 0, cores / limit, np.nan)
        return cls(
            cores, ratio, context.measures.throughput.values, context.measures.msg_rate.values
        )

    def others(self, row: int) -> tuple[float, float, float, float] | None:
        """Return the medians of the other brokers, of many those of all; ``None`` without one."""
        known = self.known
        if known.sum() > _MANY:
            return self._of_all
        others = known.copy()
        others[row] = False
        return self._medians(others) if others.any() else None

    @cached_property
    def known(self) -> Bools:
        """Brokers of which all four are known."""
        return np.isfinite(self.ratio) & np.isfinite(self.flow) & np.isfinite(self.rate)

    @cached_property
    def _of_all(self) -> tuple[float, float, float, float]:
        return self._medians(self.known)

    def _medians(self, rows: Bools) -> tuple[float, float, float, float]:
        cores, ratio, flow, rate = (
            float(np.median(values[rows]))
            for values in (self.cores, self.ratio, self.flow, self.rate)
        )
        return cores, ratio, flow, rate


def off_traffic(context: HealthContext) -> tuple[Bools, Bools]:
    """Return the brokers that use much more CPU than their messages explain, and much less.

    A broker is compared with the median of the others, by bytes and by messages at once, so that
    large messages next to small ones are no difference.
    """
    work = _BrokerCpu.of(context)
    over, under = np.zeros_like(work.known), np.zeros_like(work.known)
    for row in np.flatnonzero(work.known).tolist():
        others = work.others(row)
        if others is None:
            continue
        cores, ratio, flow, rate = others
        mine = (work.cores[row], work.ratio[row], work.flow[row], work.rate[row])
        over[row] = (
            flow >= MIN_BYTES_S
            and mine[2] * APART <= flow
            and mine[3] * APART <= rate
            and mine[0] >= APART * cores
            and mine[1] - ratio >= GAP_RATIO
        )
        under[row] = (
            mine[2] >= MIN_BYTES_S
            and mine[2] >= APART * flow
            and mine[3] >= APART * rate
            and mine[0] * APART <= cores
            and ratio - mine[1] >= GAP_RATIO
        )
    return over, under


def cpu_off_traffic(context: HealthContext) -> Iterator[Finding]:
    """Brokers whose CPU does not follow their messages, in either direction."""
    names, work = context.measures.brokers, _BrokerCpu.of(context)
    over, under = off_traffic(context)
    for row in np.flatnonzero(over | under).tolist():
        others = work.others(row)
        if others is None or (under[row] and over.any() and len(names) == 2):
            continue  # of two brokers one finding says it
        cores, _, flow, _ = others
        cause = (
            "other work on its host (functions, a bookie, compaction, TLS), or a usage that counts "
            "other processes"
            if over[row]
            else "a usage that does not count all of its CPUs"
        )
        yield Finding(
            code="cpu_off_traffic",
            title="CPU does not follow traffic",
            measured=Quantity(float(work.cores[row]), "cores"),
            limit=Quantity(cores, "cores"),
            area="capacity",
            severity="warning",
            subject_kind="broker",
            subject=names[row],
            servers=(names[row],),
            sentence=f"{names[row]} uses {work.cores[row]:.1f} cores for "
            f"{format_bytes_per_s(float(work.flow[row]))} of messages; "
            f"{'the other broker' if len(names) == 2 else 'the median of the others'}: "
            f"{cores:.1f} cores for {format_bytes_per_s(flow)}.",
            consequence=f"Its CPU does not represent its load: {cause}.",
            hint="Check the processes of the host before you move bundles: the CPU "
            "usage stays when they leave. Where usage counts a whole host, set "
            f"{PROCESSORS} to its CPUs."
            if over[row]
            else "Its usage is underestimated, and bundles are sent to it: upgrade "
            f"brokers before 2.6.1, or set {PROCESSORS} to the CPUs that it can use.",
            evidence={
                "cores": float(work.cores[row]),
                "cores_of_others": cores,
                "traffic_bytes_per_s": float(work.flow[row]),
                "traffic_of_others_bytes_per_s": flow,
                "direction": "over" if over[row] else "under",
                "flag": PROCESSORS,
            },
        )
    yield from _uncounted(context, work, over | under)


def _uncounted(context: HealthContext, work: _BrokerCpu, named: Bools) -> Iterator[Finding]:
    """Brokers that carry more than their CPU could, whatever the others do."""
    names = context.measures.brokers
    with np.errstate(invalid="ignore"):
        too_cheap = (work.flow >= 20 * MIN_BYTES_S) & (
            work.flow > MAX_BYTES_PER_CORE_S * work.cores
        )
    for row in np.flatnonzero(too_cheap & ~named).tolist():
        yield Finding(
            code="cpu_off_traffic",
            title="CPU does not follow traffic",
            measured=Quantity(float(work.cores[row]), "cores"),
            area="capacity",
            severity="warning",
            subject_kind="broker",
            subject=names[row],
            servers=(names[row],),
            sentence=f"{names[row]} reports {work.cores[row]:.2f} cores used for "
            f"{format_bytes_per_s(float(work.flow[row]))} of messages: more than a "
            "core can carry.",
            consequence="Its CPU is not counted: it looks idle, however busy it is.",
            hint="Usage and limit count different CPUs: upgrade brokers before 2.6.1, "
            f"or set {PROCESSORS} to the CPUs that it can use.",
            evidence={
                "cores": float(work.cores[row]),
                "traffic_bytes_per_s": float(work.flow[row]),
                "direction": "under",
                "flag": PROCESSORS,
            },
        )


def cache_fills_direct_memory(context: HealthContext) -> Iterator[Finding]:
    """Direct memory that the cache of entries alone can fill, or that decides the shedding."""
    brokers, names = context.snapshot.brokers, context.measures.brokers
    limit = column_values(brokers, "direct_memory_limit")
    cache = _cache_mib(context, names)
    with np.errstate(invalid="ignore", divide="ignore"):
        share = np.where(limit > 0, cache / limit, np.nan)
        used = np.where(limit > 0, column_values(brokers, "direct_memory_usage") / limit, np.nan)
    full = np.nan_to_num(share) >= CACHE_RATIO
    if full.any():
        yield _cache(context, np.flatnonzero(full), (share, used, limit), by_cache=True)
    decides = _decides(context, used) & ~full
    if decides.any():
        yield _cache(context, np.flatnonzero(decides), (share, used, limit), by_cache=False)


def _cache_mib(context: HealthContext, names: tuple[str, ...]) -> Floats:
    """Return the max cache size, MiB, by broker; NaN where not set or not read."""
    table = context.snapshot.settings
    rows = table.filter(pc.equal(table["name"], CACHE)).to_pylist()
    by_broker = {row["broker"]: row["value"] for row in rows}
    texts = [by_broker.get(name, by_broker.get(None, "")) for name in names]
    return np.array([float(text) if text.isdecimal() else np.nan for text in texts], np.float64)


def _decides(context: HealthContext, used: Floats) -> Bools:
    """Return the brokers shed for direct memory by OverloadShedder, far above traffic."""
    settings = context.settings
    brokers = context.snapshot.brokers
    none = np.zeros(brokers.num_rows, bool)
    if not _sheds_at_limit(context) or settings.rules.overload_is_weighted:
        return none
    if context.snapshot.manifest.load_manager == "extensible":
        return none
    ratios = np.column_stack(
        [column_values(brokers, f"{name}_ratio") for name in ("cpu", "bandwidth_in")]
        + [column_values(brokers, "bandwidth_out_ratio")]
    )
    busy = np.nan_to_num(ratios).max(axis=1)
    near = settings.number(_OVERLOADED) / 100 - NEAR_LIMIT_RATIO
    limiting = limiting_resource(brokers, settings)
    by_memory = np.array([name == "direct_memory" for name in limiting], bool)
    return np.asarray(by_memory & (np.nan_to_num(used) >= near) & (busy < IDLE_RATIO), bool)


def _sheds_at_limit(context: HealthContext) -> bool:
    """Whether the active strategy sheds brokers above the overload limit."""
    strategy = known_shedding_strategy(context.settings.text(_SHEDDER).rpartition(".")[2])
    return strategy is not None and _OVERLOADED in strategy.deciding


def _cache(
    context: HealthContext,
    rows: np.ndarray,
    shares: tuple[Floats, Floats, Floats],
    *,
    by_cache: bool,
) -> Finding:
    share, used, limit = shares
    names = [context.measures.brokers[row] for row in rows.tolist()]
    row = int(rows[np.argmax(np.nan_to_num(share[rows]) + np.nan_to_num(used[rows]))])
    settings = context.settings
    shedder = settings.text(_SHEDDER).rpartition(".")[2]
    threshold = settings.number(_OVERLOADED)
    is_counted = resource_weights(settings)["direct_memory"] > 0 or (
        _sheds_at_limit(context) and not settings.rules.overload_is_weighted
    )
    size = share[row] * limit[row]
    of_cache = (
        f"{CACHE} {size:,.0f} may hold {format_ratio(float(share[row]))} of the "
        f"{limit[row]:,.0f} MiB of direct memory of {pluralize(len(names), 'broker')}"
        if np.isfinite(share[row])
        else f"Direct memory of {pluralize(len(names), 'broker')} is {limit[row]:,.0f} MiB"
    )
    is_used = f", {format_ratio(float(used[row]))} of it used" if np.isfinite(used[row]) else ""
    return Finding(
        code="cache_fills_direct_memory" if by_cache else "direct_memory_decides",
        title="Cache can fill direct memory" if by_cache else "Direct memory decides shedding",
        measured=Quantity(_known(used[row]), "ratio"),
        limit=Quantity(threshold / 100, "ratio"),
        area="capacity",
        severity="warning",
        keys=(CACHE, _SHEDDER, _OVERLOADED),
        subject_kind="setting",
        subject=CACHE,
        servers=tuple(names),
        sentence=f"{of_cache}{is_used}"
        + (f"; {shedder} counts it as load (threshold {threshold:g}%)." if is_counted else "."),
        consequence="Direct memory stays full when bundles leave: brokers are shed because "
        "of their caches and buffers, and CPU or network hardly reach the "
        "threshold before it."
        if is_counted
        else "Little remains for writes and dispatch: requests fail when it is full.",
        hint=f"Set {DIRECT} to several times {CACHE}, or {CACHE} to a fifth of direct memory; "
        "or shed by ThresholdShedder with loadBalancerDirectMemoryResourceWeight 0.",
        fix=Fix(lines=(f"{CACHE}={max(int(limit[row] // 5), 64)}",), restart=True),
        evidence={
            "cache_share": _known(share[row]),
            "used_ratio": _known(used[row]),
            "limit_mib": float(limit[row]),
            "rows": names,
            "flag": DIRECT,
        },
    )


def _known(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


RULES: Final[tuple[Rule[HealthContext], ...]] = (
    impossible_cpu,
    impossible_memory,
    cpu_off_traffic,
    cache_fills_direct_memory,
)
"""Those that the settings doctor shows too."""
