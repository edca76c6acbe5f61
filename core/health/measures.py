"""How evenly a fleet carries its load: one definition of "balanced" for every page and plan.

Words: *deviation* of a broker: its distance from the mean over all brokers, as a share of the mean;
*maximum deviation*: ``(max - mean) / mean``, how far the busiest broker stands above the mean;
*coefficient of variation*: standard deviation (of the whole population) over the mean.

A broker whose value is unknown takes no part in mean and deviation and is counted as unknown.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from core.pulsar.load import weighted_max_usage
from core.pulsar.settings import EffectiveSettings, effective_settings
from core.snapshot import PulsarSnapshot
from core.units import format_bytes_per_s, format_msgs_per_s, format_ratio

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
MeasureName = Literal["usage", "throughput", "msg_rate", "bundle_count"]
Verdict = Literal["balanced", "unbalanced", "unknown"]


@dataclass(frozen=True, eq=False)
class Spread:
    """One measure over all brokers.

    Attributes:
        name: Which measure.
        label: For people, for example ``traffic``.
        unit: ``ratio``, ``bytes/s``, ``msgs/s`` or ``bundles``.
        brokers: Broker ids in the order of the snapshot's rows.
        values: Shape ``(n_brokers,)``, same order; NaN where unknown.
    """

    name: MeasureName
    label: str
    unit: str
    brokers: tuple[str, ...]
    values: Floats = field(repr=False)

    @cached_property
    def known(self) -> Bools:
        """Shape ``(n_brokers,)``: the value is known."""
        return np.isfinite(self.values)

    @cached_property
    def known_count(self) -> int:
        """Brokers whose value is known."""
        return int(self.known.sum())

    @cached_property
    def total(self) -> float | None:
        """Sum over the known brokers; ``None`` when none is known."""
        return float(self.values[self.known].sum()) if self.known_count else None

    @cached_property
    def mean(self) -> float | None:
        """Mean over the known brokers; ``None`` when none is known."""
        return None if self.total is None else self.total / self.known_count

    @cached_property
    def std(self) -> float | None:
        """Standard deviation of the whole population; ``None`` when no broker is known."""
        return float(self.values[self.known].std()) if self.known_count else None

    @cached_property
    def maximum(self) -> float | None:
        """Largest known value."""
        return float(np.nanmax(self.values)) if self.known_count else None

    @cached_property
    def minimum(self) -> float | None:
        """Smallest known value."""
        return float(np.nanmin(self.values)) if self.known_count else None

    @cached_property
    def deviations(self) -> Floats:
        """Shape ``(n_brokers,)``: ``(value - mean) / mean``; 0 everywhere when the mean is 0."""
        mean = self.mean
        if mean is None:
            return np.full(self.values.shape, np.nan)
        if mean == 0:
            return np.where(self.known, 0.0, np.nan)
        return (self.values - mean) / mean

    @cached_property
    def max_deviation_ratio(self) -> float | None:
        """``(max - mean) / mean``; 0 when all are 0, ``None`` when no broker is known."""
        return float(np.nanmax(self.deviations)) if self.known_count else None

    @cached_property
    def coefficient_ratio(self) -> float | None:
        """Standard deviation over mean; 0 when all are 0, ``None`` when no broker is known."""
        if self.mean is None or self.std is None:
            return None
        return self.std / self.mean if self.mean else 0.0

    @cached_property
    def worst(self) -> str | None:
        """The broker with the largest value, the first of them in row order."""
        return self.brokers[int(np.nanargmax(self.values))] if self.known_count else None

    @cached_property
    def coolest(self) -> str | None:
        """The broker with the smallest value, the first of them in row order."""
        return self.brokers[int(np.nanargmin(self.values))] if self.known_count else None

    @cached_property
    def ranked(self) -> tuple[int, ...]:
        """Row numbers of the known brokers, largest value first, ties in row order."""
        order = np.argsort(-np.nan_to_num(self.values, nan=-np.inf), kind="stable")
        return tuple(int(row) for row in order[: self.known_count])

    def value_of(self, broker: str) -> float | None:
        """Return the broker's value; ``None`` when unknown or there is no such broker."""
        if broker not in self.brokers:
            return None
        value = float(self.values[self.brokers.index(broker)])
        return value if np.isfinite(value) else None

    def share_of_top(self, count: int) -> float | None:
        """Return which share of the total the ``count`` largest carry; ``None`` without a total."""
        if not self.total:
            return None
        return float(self.values[list(self.ranked[:count])].sum()) / self.total

    def text_of(self, value: float | None) -> str:
        """Return a value of this measure for people."""
        if value is None or not np.isfinite(value):
            return "unknown"
        match self.name:
            case "usage":
                return format_ratio(value)
            case "throughput":
                return format_bytes_per_s(value)
            case "msg_rate":
                return format_msgs_per_s(value)
            case "bundle_count":
                return f"{value:.0f} bundles"


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
        label="traffic within 20 % of the mean",
        measure="throughput",
        statistic="max_deviation",
        bound=0.20,
        source="operating target published by vivo: node traffic deviation of at most 20 %",
    ),
    Target(
        code="tight",
        label="traffic within 10 % of the mean",
        measure="throughput",
        statistic="max_deviation",
        bound=0.10,
        source="the first of the two warning levels (10 % and 20 %) usual for skew columns",
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


@dataclass(frozen=True, eq=False)
class Measures:
    """How evenly the brokers of one snapshot are loaded, by four measures.

    Attributes:
        usage: Weighted maximum over the resources, as the load manager takes it; ratio.
        throughput: In plus out, bytes/s.
        msg_rate: In plus out, messages/s.
        bundle_count: Owned bundles that can move (heartbeat and SLA bundles left out).
    """

    usage: Spread
    throughput: Spread
    msg_rate: Spread
    bundle_count: Spread

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
        """How many movable bundles are owned by a known broker; ``None``: unknown."""
        total = self.bundle_count.total
        return None if total is None else int(total)

    def statistic(self, target: Target) -> float | None:
        """Return what ``target`` looks at; ``None`` when unknown."""
        spread = self.of(target.measure)
        return spread.max_deviation_ratio if target.statistic == "max_deviation" else spread.std

    def verdict(self, target: Target = DEFAULT_TARGET) -> Verdict:
        """Return whether the fleet meets ``target``.

        ``unknown`` as soon as one broker's value is unknown and the known ones meet it: what is not
        known is never called balanced.
        """
        value = self.statistic(target)
        if value is None:
            return "unknown"
        if value > target.bound:
            return "unbalanced"
        spread = self.of(target.measure)
        return "balanced" if spread.known_count == len(spread.brokers) else "unknown"


def measure(snapshot: PulsarSnapshot, settings: EffectiveSettings | None = None) -> Measures:
    """Measure one snapshot.

    Args:
        snapshot: Any snapshot; without brokers every statistic is ``None``.
        settings: The settings in force; by default those of the snapshot (they hold the weights of
            the resources).
    Cost:
        O(brokers + bundles), no Python loop over bundles.
    """
    chosen = effective_settings(snapshot) if settings is None else settings
    # the settings are kept beside it, so that their identity is not given to others
    _, measures = snapshot.derived.get(
        ("measures", id(chosen)), lambda: (chosen, _measured(snapshot, chosen))
    )
    return measures


def _measured(snapshot: PulsarSnapshot, chosen: EffectiveSettings) -> Measures:
    table = snapshot.brokers
    names = tuple(table["broker"].to_pylist())
    counts = owned_bundle_counts(snapshot)
    usage = _finite(weighted_max_usage(table, chosen))
    return Measures(
        usage=Spread("usage", "usage", "ratio", names, usage),
        throughput=Spread(
            "throughput", "traffic", "bytes/s", names, _total(table, "msg_throughput")
        ),
        msg_rate=Spread("msg_rate", "message rate", "msgs/s", names, _total(table, "msg_rate")),
        bundle_count=Spread("bundle_count", "bundle count", "bundles", names, counts),
    )


def owned_bundle_counts(snapshot: PulsarSnapshot) -> Floats:
    """Return how many movable bundles each broker owns, shape ``(n_brokers,)``.

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
    known.setflags(write=False)  # kept with the snapshot
    return known


def row_of(keys: pa.ChunkedArray, values: pa.ChunkedArray) -> NDArray[np.int64]:
    """Return the row of each of ``values`` in ``keys``, -1 where it is null or not there."""
    found = pc.fill_null(pc.index_in(values, value_set=keys.combine_chunks(), skip_nulls=True), -1)
    rows: NDArray[np.int64] = np.asarray(found.to_numpy(), dtype=np.int64)
    return rows


def column_values(table: pa.Table, name: str) -> Floats:
    """Return a numeric column as float64, NaN for null."""
    values: Floats = table[name].cast(pa.float64()).to_numpy()
    return np.array(values, dtype=np.float64)


def _total(table: pa.Table, name: str) -> Floats:
    with np.errstate(over="ignore"):
        return _finite(column_values(table, f"{name}_in") + column_values(table, f"{name}_out"))


def _finite(values: Floats) -> Floats:
    """What is too large to be a number is somebody's mistake: unknown."""
    return np.where(np.isfinite(values), values, np.nan)
