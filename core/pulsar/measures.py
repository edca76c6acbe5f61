"""How evenly a fleet carries its load: one definition of "balanced" for every page and plan.

Words: *deviation* of a broker: its distance from the mean over all brokers, as a share of the mean;
*maximum deviation*: ``(max - mean) / mean``, how far the busiest broker is above the mean;
*coefficient of variation*: standard deviation (of the whole population) over the mean.

A broker whose value is unknown takes no part in mean and deviation and is counted as unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from core.arrays import Bools, Floats, column_values, row_of
from core.findings.measures import Spread
from core.pulsar.liveness import loads_of
from core.pulsar.load import resource_weights, weighted_max_usage
from core.pulsar.settings import EffectiveSettings, effective_settings
from core.snapshot import Manifest, PulsarSnapshot
from core.units import format_ratio, pluralize

_TOP_SHARE_OF_BROKERS: Final = 0.25

MeasureName = Literal["usage", "throughput", "msg_rate", "bundle_count"]
Verdict = Literal["balanced", "unbalanced", "unknown"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A published idea of what is balanced enough.

    Attributes:
        code: Stable word.
        label: For people.
        measure: Which spread it looks at.
        statistic: ``max_deviation`` (share of the mean) or ``std`` (in the measure's unit).
        bound: At most this much is balanced.
        source: Where the number comes from.
    """

    code: str
    label: str
    measure: MeasureName
    statistic: Literal["max_deviation", "std"]
    bound: float
    source: str


TARGETS: Final[tuple[Target, ...]] = (
    Target(
        code="vivo",
        label="traffic within 20% of the mean",
        measure="throughput",
        statistic="max_deviation",
        bound=0.20,
        source="operating target published by vivo: node traffic deviation of at most 20%",
    ),
    Target(
        code="tight",
        label="traffic within 10% of the mean",
        measure="throughput",
        statistic="max_deviation",
        bound=0.10,
        source="the first of the two warning levels (10% and 20%) usual for skew columns",
    ),
    Target(
        code="transfer",
        label="usage spread (standard deviation) of at most 25 points",
        measure="usage",
        statistic="std",
        bound=0.25,
        source="default of loadBalancerBrokerLoadTargetStd (TransferShedder)",
    ),
)
"""The targets that a person can choose from; the first is the default."""

DEFAULT_TARGET: Final = TARGETS[0]

CLUSTER_TARGET: Final = "cluster"
"""Code of a cluster's own target."""


def cluster_target(manifest: Manifest) -> Target:
    """Return the target of a cluster: ``target_percent`` of its configuration, or the default."""
    ratio = manifest.target_ratio
    bound = DEFAULT_TARGET.bound if ratio is None else ratio
    return replace(
        DEFAULT_TARGET,
        code=CLUSTER_TARGET,
        label=f"traffic within {format_ratio(bound)} of the mean",
        bound=bound,
        source="default" if ratio is None else "target_percent of the cluster",
    )


@dataclass(frozen=True, eq=False)
class Measures:
    """Evenness of one snapshot's brokers, by four measures.

    Attributes:
        usage: Weighted maximum over the resources, as the load manager takes it; ratio.
        throughput: In plus out, bytes/s.
        msg_rate: In plus out, messages/s.
        bundle_count: Owned bundles that can move (heartbeat and SLA bundles excluded).
        target: What the cluster is judged by where a request names nothing else.
    """

    usage: Spread
    throughput: Spread
    msg_rate: Spread
    bundle_count: Spread
    target: Target = DEFAULT_TARGET

    def __iter__(self) -> Iterator[Spread]:
        return iter((self.usage, self.throughput, self.msg_rate, self.bundle_count))

    def of(self, name: MeasureName) -> Spread:
        """Return one of the four."""
        spread: Spread = getattr(self, name)
        return spread

    @property
    def brokers(self) -> tuple[str, ...]:
        """Broker ids in row order."""
        return self.usage.brokers

    @property
    def owned_bundle_count(self) -> int | None:
        """Number of movable bundles with a known owner, or ``None`` if unknown."""
        total = self.bundle_count.total
        return None if total is None else int(total)

    def statistic(self, target: Target) -> float | None:
        """Return the statistic of ``target``, or ``None`` if unknown."""
        spread = self.of(target.measure)
        return spread.max_deviation_ratio if target.statistic == "max_deviation" else spread.std

    def verdict(self, target: Target | None = None) -> Verdict:
        """Return whether the fleet meets a target, by default its own.

        ``unknown`` as soon as one broker's value is unknown and the known ones meet it: what is not
        known is never called balanced.
        """
        target = target or self.target
        value = self.statistic(target)
        if value is None:
            return "unknown"
        if value > target.bound:
            return "unbalanced"
        spread = self.of(target.measure)
        return "unknown" if spread.unknown_count else "balanced"


def measure(snapshot: PulsarSnapshot, settings: EffectiveSettings | None = None) -> Measures:
    """Measure one snapshot.

    Args:
        snapshot: Any snapshot; without brokers every statistic is ``None``.
        settings: The active settings; by default those of the snapshot (they hold the weights of
            the resources).
    Cost:
        O(brokers + bundles), no Python loop over bundles.
    """
    chosen = effective_settings(snapshot) if settings is None else settings
    weights = tuple(resource_weights(chosen).values())
    return snapshot.derived.get(("measures", weights), lambda: _measured(snapshot, chosen))


def _measured(snapshot: PulsarSnapshot, chosen: EffectiveSettings) -> Measures:
    table = loads_of(snapshot)
    names = tuple(table["broker"].to_pylist())
    counts = owned_bundle_counts(snapshot)
    usage = weighted_max_usage(table, chosen)
    target = cluster_target(snapshot.manifest)
    emptied_at = column_values(snapshot.brokers, "emptied_at")
    return measures_of(names, usage, partial(column_values, table), counts, target, emptied_at)


def measures_of(
    names: tuple[str, ...],
    usage: Floats,
    columns: Callable[[str], Floats],
    counts: Floats,
    target: Target = DEFAULT_TARGET,
    emptied_at: Floats | None = None,
) -> Measures:
    """Return the measures of brokers.

    Args:
        names: Broker ids.
        usage: Weighted maximum of each; NaN: unknown.
        columns: Returns a column of the brokers by its name; NaN where unknown.
        counts: Movable bundles that each owns.
        target: What the cluster is judged by.
        emptied_at: Start of each drain, ms; NaN where not drained; ``None`` if none was.
    """
    aside = None if emptied_at is None else drained(emptied_at, counts)
    traffic, rate = _total(columns, "msg_throughput"), _total(columns, "msg_rate")
    return Measures(
        usage=Spread("usage", "usage", "ratio", names, _finite(usage), aside),
        throughput=Spread("throughput", "traffic", "bytes/s", names, traffic, aside),
        msg_rate=Spread("msg_rate", "message rate", "msgs/s", names, rate, aside),
        bundle_count=Spread("bundle_count", "bundle count", "bundles", names, counts, aside),
        target=target,
    )


def drained(emptied_at: Floats, counts: Floats) -> Bools | None:
    """Return the drained brokers that still own nothing, or ``None`` if there are none.

    Args:
        emptied_at: Since when each is empty, ms; NaN: it was not emptied.
        counts: Movable bundles that each owns.
    """
    found = np.isfinite(emptied_at) & (counts == 0)
    return found if found.any() else None


def drained_rows(brokers: pa.Table) -> Bools:
    """Return which rows of a brokers table are drained; none in a table without ``emptied_at``.

    For tables without bundles: ``emptied_at`` is null as soon as a broker owns one again.
    """
    if "emptied_at" not in brokers.column_names:
        return np.zeros(brokers.num_rows, np.bool_)
    return np.asarray(np.isfinite(column_values(brokers, "emptied_at")))


def owned_bundle_counts(snapshot: PulsarSnapshot) -> Floats:
    """Return the number of movable bundles per owner, shape ``(n_brokers,)``.

    Counted in the bundles table; without one the brokers' own reports are taken (they count
    heartbeat bundles too). While the owner of some bundle is unknown, so is the count of a broker
    that owns none of the others: NaN, not zero.
    """
    return snapshot.derived.get("owned_bundle_counts", lambda: _owned_bundle_counts(snapshot))


def _owned_bundle_counts(snapshot: PulsarSnapshot) -> Floats:
    brokers, bundles = snapshot.brokers, snapshot.bundles
    if bundles.num_rows == 0:
        return column_values(brokers, "bundle_count")
    owners = bundles.select(["owner", "owner_source"])  # forty columns are long to filter
    movable = owners.filter(pc.invert(bundles["is_broker_bound"]))
    rows = row_of(brokers["broker"], movable["owner"])
    counts = np.bincount(rows[rows >= 0], minlength=brokers.num_rows).astype(np.float64)
    unclear = pc.and_(pc.is_null(movable["owner"]), pc.is_null(movable["owner_source"]))
    known = np.where(counts == 0, np.nan, counts) if pc.any(unclear).as_py() else counts
    known.setflags(write=False)  # cached with the snapshot
    return known


@dataclass(frozen=True, slots=True)
class BundleCounts:
    """Number of bundles, without heartbeat and SLA bundles.

    Attributes:
        assigned: With an owner, or whose owner is unknown: "600 bundles" everywhere.
        unassigned: Without an owner; named in addition.
        unclear: Of the assigned ones, those whose owner is unknown.
    """

    assigned: int
    unassigned: int
    unclear: int = 0

    @classmethod
    def of(cls, bundles: pa.Table) -> BundleCounts:
        """Count bundles that can move, with ``owner`` and ``owner_source``."""
        has_none = pc.is_null(bundles["owner"])
        unsure = pc.and_(has_none, pc.is_null(bundles["owner_source"]))
        without, unclear = (int(pc.sum(mask).as_py() or 0) for mask in (has_none, unsure))
        return cls(bundles.num_rows - without + unclear, without - unclear, unclear)

    @property
    def total(self) -> int:
        """Assigned and unassigned."""
        return self.assigned + self.unassigned

    @property
    def text(self) -> str:
        """For example ``600 bundles + 32 unassigned``: together, all of them."""
        more = f" + {self.unassigned:,} unassigned" if self.unassigned else ""
        return f"{pluralize(self.assigned, 'bundle')}{more}"


def uncounted_bundles(snapshot: PulsarSnapshot) -> dict[str, int]:
    """Return the number of uncounted bundles of a cluster, by reason.

    ``heartbeat/SLA``: each belongs to one broker. ``unassigned``: without an owner; not those whose
    owner is unknown.
    """
    bundles = snapshot.bundles
    bound = int(pc.sum(bundles["is_broker_bound"]).as_py() or 0)
    owners = bundles.select(["owner", "owner_source"])
    counts = BundleCounts.of(owners.filter(pc.invert(bundles["is_broker_bound"])))
    return {"heartbeat/SLA": bound, "unassigned": counts.unassigned}


def _total(columns: Callable[[str], Floats], name: str) -> Floats:
    with np.errstate(over="ignore"):
        return _finite(columns(f"{name}_in") + columns(f"{name}_out"))


def _finite(values: Floats) -> Floats:
    """Return finite numbers; too large ones are mistakes and become unknown."""
    return np.where(np.isfinite(values), values, np.nan)


def balance_sentence(measures: Measures, target: Target | None = None) -> str:
    """Return for example ``3 of 12 brokers carry 61% of the traffic; b1:8080 is 40% above ...``.

    Says ``unknown`` where it is unknown; never rounds an imbalance away.
    """
    target = target or measures.target
    spread = measures.of(target.measure)
    count = len(spread.brokers)
    if count == 0:
        return "No broker is known; the balance is unknown."
    if spread.known_count == 0:
        return f"None of the {count} brokers reports its {spread.label}: the balance is unknown."
    if not spread.total:
        return f"The {count} brokers carry no {spread.label} at all."
    if count == 1:
        return f"The only broker carries {spread.text_of(spread.total)}; balancing does not apply."
    return f"{top_share_sentence(spread)}; {_verdict_clause(measures, target)}."


def top_share_sentence(spread: Spread) -> str:
    """Return the load share of the busiest quarter of the brokers, one clause."""
    top = max(1, round(len(spread.brokers) * _TOP_SHARE_OF_BROKERS))
    share = spread.share_of_top(top)
    of = f"{pluralize(top, 'broker')} of {len(spread.brokers)}"
    return f"{_percent(share)} of the {spread.label} on {of}"


def _verdict_clause(measures: Measures, target: Target) -> str:
    spread = measures.of(target.measure)
    worst = (
        f"{spread.worst} is {format_ratio(spread.max_deviation_ratio)} above the mean of "
        f"{spread.text_of(spread.mean)}"
    )
    match measures.verdict(target):
        case "balanced":
            return f"balanced: {worst}, the target is {target.label}"
        case "unbalanced":
            return f"{worst}, the target is {target.label}"
        case "unknown":
            missing = spread.unknown_count
            unknown = f"{pluralize(missing, 'broker')} without a known value"
            return f"{worst}; the balance is unknown: {unknown}"


def _percent(ratio: float | None) -> str:
    return "an unknown share" if ratio is None else format_ratio(ratio)
