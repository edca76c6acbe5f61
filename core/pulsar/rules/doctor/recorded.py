"""What the doctor compares with the recorded history: limits with peaks, counts with moves."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
from numpy.typing import NDArray

from core.arrays import Floats, column_values
from core.findings.engine import Rule
from core.findings.finding import Finding, Fix
from core.findings.quantity import Quantity
from core.pulsar.rules.context import HealthContext
from core.pulsar.rules.doctor.groups import flow_words, speed_words
from core.units import format_age, pluralize, same_problem

NIC_SPEED: Final = "loadBalancerOverrideBrokerNicSpeedGbps"
_BYTES_PER_KBIT: Final = 125.0

UNSEEN_FACTOR: Final = 1.5
UNSEEN_FLOOR: Final = 10
"""So many unloads, and so many times those that were seen, are more than timing explains."""


def limit_below_peak(context: HealthContext) -> Iterator[Finding]:
    """Network limits below what brokers carried at their peak: recorded, else in this snapshot."""
    for side in ("in", "out"):
        limits = column_values(context.snapshot.brokers, f"bandwidth_{side}_limit")
        usage = column_values(context.snapshot.brokers, f"bandwidth_{side}_usage")
        peaks, when, is_recorded = _peaks(context, side)
        known = np.isfinite(limits) & (limits > 0) & np.isfinite(peaks)
        is_found = np.isfinite(usage) & (usage > limits)
        rows = np.flatnonzero(known & (peaks > limits) & ~is_found)
        if not rows.size:
            continue
        row = int(rows[np.argmax((peaks / np.where(known, limits, np.inf))[rows])])
        names = context.measures.usage.brokers
        others = rows.size - 1
        yield Finding(
            code="limit_below_peak",
            title="Traffic peak exceeds the network limit",
            measured=Quantity(float(peaks[row]), "kbit/s"),
            limit=Quantity(float(limits[row]), "kbit/s"),
            area="capacity",
            severity="warning",
            keys=(NIC_SPEED,),
            servers=tuple(names[at] for at in rows.tolist()),
            sentence=f"{names[row]} carried {flow_words(float(peaks[row]))} of messages ({side}; "
            f"{peaks[row] / 1e6:,.3g} Gbit/s) "
            f"{when[row]}, and reports a network limit of {speed_words(float(limits[row]))}"
            + (f"; {same_problem(others, 'more broker')}." if others else "."),
            consequence="Either the limit is not the real speed of its cards, and usage is "
            "wrong; or the cards are full at the peak, and clients wait.",
            hint="Measure the real speed of a card, and set it (Gbit/s of one card); if "
            "it is right, add brokers or cards before the next peak.",
            fix=Fix(lines=(f"{NIC_SPEED}=<Gbit/s>",), restart=True),
            evidence={
                "peak_kbit_per_s": float(peaks[row]),
                "limit_kbit_per_s": float(limits[row]),
                "peak_from": "history" if is_recorded[row] else "snapshot",
            },
        )


def _peaks(context: HealthContext, side: str) -> tuple[Floats, list[str], NDArray[np.bool_]]:
    """Return each broker's largest known traffic, kbit/s, when in words, and if it is recorded."""
    now = column_values(context.snapshot.brokers, f"msg_throughput_{side}")
    peaks, past = np.array(now, np.float64), context.past
    is_recorded = np.zeros(peaks.size, np.bool_)
    if past is None:
        words = ["in this snapshot (no history of it was read)"] * peaks.size
        return peaks / _BYTES_PER_KBIT, words, is_recorded
    words = ["in this snapshot, its peak"] * peaks.size
    span = f"by the history of {format_age((past.end - past.start).total_seconds())}"
    for row, name in enumerate(context.measures.usage.brokers):
        peak = past.traffic.get(name, {}).get(side)
        if peak is not None and not peak.value <= peaks[row]:
            peaks[row], is_recorded[row] = peak.value, True
            words[row] = f"at its peak ({peak.at:%Y-%m-%d %H:%M} UTC, {span})"
    return peaks / _BYTES_PER_KBIT, words, is_recorded


def counts_against_record(context: HealthContext) -> Iterator[Finding]:
    """Unloads that the leader counted and the recorded history does not show."""
    count = None if context.past is None else context.past.counted
    if count is None or count.unloads < UNSEEN_FLOOR:
        return
    if count.unloads <= UNSEEN_FACTOR * count.seen:
        return
    span = format_age((count.end - count.start).total_seconds())
    yield Finding(
        code="unloads_not_recorded",
        title="History misses unloads",
        measured=Quantity(count.seen),
        limit=Quantity(count.unloads),
        area="record",
        severity="warning",
        keys=(),
        servers=(count.broker,),
        sentence=f"In {span} the metrics of the leader {count.broker} counted "
        f"{pluralize(count.unloads, 'unload')} by its balancer, but the "
        f"recorded history has {pluralize(count.seen, 'change')} of owner in "
        "the same time.",
        consequence="The others returned to the same broker before the next capture, or "
        "never left: clients were disconnected, but neither History nor a "
        "back-test includes it.",
        hint="Capture more often (collect_every_s), and find out why bundles "
        "return: shed and place by the same measure, use a longer grace period.",
        evidence={
            "unloads_counted": count.unloads,
            "moves_recorded": count.seen,
            "start": count.start.isoformat(),
            "end": count.end.isoformat(),
            "bound_factor": UNSEEN_FACTOR,
        },
    )


RULES: Final[tuple[Rule[HealthContext], ...]] = (limit_below_peak, counts_against_record)
