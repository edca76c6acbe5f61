"""Load on a broker's host that its messages do not explain."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from core.arrays import Floats, column_values
from core.findings.engine import Rule
from core.findings.finding import Finding
from core.findings.quantity import Quantity
from core.pulsar.rules.context import HealthContext
from core.pulsar.rules.doctor.groups import flow_words
from core.units import format_bytes_per_s

MIN_BROKERS: Final = 6
"""With fewer brokers an outlier cannot be distinguished from the rule."""
SCATTERS: Final = 6.0
"""Beyond the line by so many times the usual scatter (median absolute deviation)."""
MIN_OF_LIMIT: Final = 0.15
"""And by this share of the broker's own limit at least."""

_MAX_PAIRED: Final = 400
_TO_SIGMA: Final = 1.4826


@dataclass(frozen=True, eq=False)
class UsageFit:
    """Usage as a straight line over message traffic.

    Attributes:
        base: Usage of a broker without messages.
        slope: Usage per byte/s.
        scatter: Median absolute deviation from the line.
        beyond: Shape ``(n_brokers,)``: measured less expected; NaN where unknown.
    """

    base: float
    slope: float
    scatter: float
    beyond: Floats


def fit_line(traffic: Floats, usage: Floats) -> UsageFit | None:
    """Fit usage over traffic so that a few odd brokers do not move the line.

    Args:
        traffic: Shape ``(n_brokers,)``, bytes/s; NaN where unknown.
        usage: Same shape, any unit.
    Returns:
        ``None`` with fewer than :data:`MIN_BROKERS` known brokers.
    Source:
        Theil (1950), Sen (1968): the slope is the median of the slopes of all pairs; bears 29% of
        odd points. A negative slope is taken for 0: messages never save work.
    Cost:
        O(n²) for at most 400 brokers, which stand for more.
    """
    known = np.isfinite(traffic) & np.isfinite(usage)
    if int(known.sum()) < MIN_BROKERS:
        return None
    x, y = traffic[known], usage[known]
    chosen = np.argsort(x, kind="stable")
    if chosen.size > _MAX_PAIRED:
        chosen = chosen[np.linspace(0, chosen.size - 1, _MAX_PAIRED).astype(np.int64)]
    left, right = np.triu_indices(chosen.size, k=1)
    run = x[chosen][right] - x[chosen][left]
    rise = y[chosen][right] - y[chosen][left]
    apart = run > 0
    slope = max(0.0, float(np.median(rise[apart] / run[apart]))) if apart.any() else 0.0
    base = float(np.median(y - slope * x))
    beyond = usage - (base + slope * traffic)
    return UsageFit(base, slope, float(np.median(np.abs(beyond[known]))), beyond)


def foreign_load(context: HealthContext) -> Iterator[Finding]:
    """Brokers whose CPU or network is far above what their messages cost on the other brokers.

    With the minutes before the snapshot: in more than half of them, so that a broker near the limit
    neither appears nor disappears with every snapshot. The newest measurement is reported.
    """
    tables = [*context.earlier, context.snapshot.brokers]
    newest: dict[tuple[str, object], Finding] = {}
    counts: Counter[tuple[str, object]] = Counter()
    for brokers in tables:
        found = {(one.subject, one.evidence["resource"]): one for one in _of_brokers(brokers)}
        newest.update(found)
        counts.update(found.keys())
    for key, one in newest.items():
        if 2 * counts[key] > len(tables):
            yield one


def _of_brokers(brokers: pa.Table) -> Iterator[Finding]:
    names = brokers["broker"].to_pylist()
    directions = {side: column_values(brokers, f"msg_throughput_{side}") for side in ("in", "out")}
    whole = directions["in"] + directions["out"]
    for resource, label, traffic in (
        ("cpu", "CPU", whole),
        ("bandwidth_in", "inbound network", directions["in"]),
        ("bandwidth_out", "outbound network", whole),
    ):
        usage = column_values(brokers, f"{resource}_usage")
        line = fit_line(traffic, usage)
        if line is None:
            continue
        limit = column_values(brokers, f"{resource}_limit")
        bound = np.maximum(SCATTERS * _TO_SIGMA * line.scatter, MIN_OF_LIMIT * limit)
        for row in np.flatnonzero(line.beyond > np.nan_to_num(bound, nan=np.inf)):
            yield _found(
                names[row],
                (resource, label),
                line,
                (float(usage[row]), float(traffic[row]), float(line.beyond[row])),
            )


def _found(
    broker: str, what: tuple[str, str], line: UsageFit, measured: tuple[float, float, float]
) -> Finding:
    (resource, label), (usage, traffic, beyond) = what, measured
    words = _cores if resource == "cpu" else flow_words
    return Finding(
        code="foreign_load",
        title="Other processes load the broker",
        measured=Quantity(words(usage)),
        limit=Quantity(words(usage - beyond)),
        area="capacity",
        severity="warning",
        subject_kind="broker",
        subject=broker,
        servers=(broker,),
        sentence=f"{broker} uses {words(usage)} of {label} for "
        f"{format_bytes_per_s(traffic)} of messages; expected from the other "
        f"brokers: {words(usage - beyond)} ± {words(line.scatter)}.",
        consequence="Another process on its host (a bookie, a function worker, a backup) "
        "causes the load, or its messages cost more than others' (TLS, "
        "compression, many small ones): its usage stays when bundles leave, so "
        "shedding empties it.",
        hint="Check the processes on the host before you move bundles; move them "
        "elsewhere, or plan with a smaller broker.",
        evidence={
            "resource": resource,
            "usage": usage,
            "expected": usage - beyond,
            "scatter": line.scatter,
            "base": line.base,
            "per_byte_per_s": line.slope,
            "traffic_bytes_per_s": traffic,
        },
    )


def _cores(percent: float) -> str:
    return f"{percent / 100:.2f} cores"


RULES: Final[tuple[Rule[HealthContext], ...]] = (foreign_load,)
