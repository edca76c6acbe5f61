"""A stretch of a cluster's record as dense arrays: one row a minute, one column a broker or bundle.

A broker that is there in some of the minutes has a column in all of them, and so has a bundle: a
split bundle and its parts are columns of their own. Brokers and bundles are in the order of their
tables' rows.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from core.history.backtest.pulsar.dense import Codes, Flags, Floats, Ints
from core.pulsar.load_transfer import usage_per_byte
from core.snapshot import PulsarSnapshot


@dataclass(frozen=True, kw_only=True, eq=False)
class LoadSeries:
    """Recorded load of one cluster in one window. ``T`` minutes, ``b`` brokers, ``n`` bundles.

    Attributes:
        cluster: Name.
        minute_s: Seconds of the record that count as a minute.
        taken_at: ms since the epoch, ``(T,)``, rising.
        template: The tables at the start, with a row for every broker and bundle that comes later
            (as it was when it came): policies, settings, averages, versions.
        broker_here: Whether a broker is there, ``(T, b)``.
        broker_rates: In the order of ``RATES``, ``(T, b, 4)``; NaN: unknown.
        broker_usage: In the order of ``WEIGHED``, ``(T, b, 5)``; NaN: unknown.
        broker_limit: Likewise.
        broker_topics: ``(T, b)``; 0 where unknown.
        broker_bundles: ``(T, b)``; 0 where unknown.
        has_restarted: Whether a broker's process is another than in the minute before, ``(T, b)``;
            ``None`` if not recorded.
        has_reported: Whether a broker wrote a report since the minute before, ``(T, b)``.
        bundle_here: Whether a bundle is there, ``(T, n)``.
        owner: Broker of each bundle, ``(T, n)``; -1: none.
        reporter: Broker whose report the leader counts it by, ``(T, n)``; -1: none.
        rates: In the order of ``RATES``, each ``(T, n)``; 0 where unknown.
        is_known: Whether a bundle's rates are known, ``(T, n)``.
        topics: ``(T, n)``; 0 where unknown.
        clients: Producers and consumers, ``(T, n)``; 0 where unknown.
        parent: Column of the bundle that it was split from in the window; -1: none, ``(n,)``.
        origin_ms: Moment that minutes are counted from; 0: the first one.
    """

    cluster: str
    minute_s: float
    taken_at: Ints
    template: PulsarSnapshot = field(repr=False)
    broker_here: Flags = field(repr=False)
    broker_rates: Floats = field(repr=False)
    broker_usage: Floats = field(repr=False)
    broker_limit: Floats = field(repr=False)
    broker_topics: Floats = field(repr=False)
    broker_bundles: Floats = field(repr=False)
    has_reported: Flags = field(repr=False)
    bundle_here: Flags = field(repr=False)
    owner: Codes = field(repr=False)
    reporter: Codes = field(repr=False)
    rates: tuple[Floats, Floats, Floats, Floats] = field(repr=False)
    is_known: Flags = field(repr=False)
    topics: Codes = field(repr=False)
    clients: Codes = field(repr=False)
    parent: Codes = field(repr=False)
    origin_ms: int = 0
    has_restarted: Flags | None = field(default=None, repr=False)

    @cached_property
    def brokers(self) -> tuple[str, ...]:
        """Broker ids, in column order."""
        return tuple(self.template.brokers["broker"].to_pylist())

    @cached_property
    def bundles(self) -> NDArray[np.object_]:
        """Bundle names, in column order."""
        return np.asarray(self.template.bundles["bundle"].to_numpy(), object)

    @cached_property
    def is_bound(self) -> Flags:
        """Bundles that only their own broker may have, ``(n,)``."""
        return np.asarray(self.template.bundles["is_broker_bound"].to_numpy(), np.bool_)

    @cached_property
    def minutes(self) -> Ints:
        """Minute of each row, from 0; a gap in the record is a gap here."""
        found = minutes_of(self.taken_at, self.origin_ms or int(self.taken_at[0]), self.minute_s)
        return np.asarray(found - found[0], np.int64)

    @cached_property
    def traffic(self) -> Floats:
        """Throughput of each broker as recorded, in + out, bytes/s, ``(T, b)``; NaN: unknown."""
        both = self.broker_rates[:, :, 2] + self.broker_rates[:, :, 3]
        return np.where(self.broker_here, both, np.nan)

    @property
    def shape(self) -> tuple[int, int, int]:
        """Minutes, brokers and bundles."""
        return self.owner.shape[0], self.broker_here.shape[1], self.owner.shape[1]

    @cached_property
    def broker_losses(self) -> Ints:
        """Cumulative number of absences and restarts of each broker, ``(T, b)``."""
        lost = ~self.broker_here
        if self.has_restarted is not None:
            lost = lost | self.has_restarted
        return np.cumsum(lost, axis=0, dtype=np.int64)

    @cached_property
    def _slopes(self) -> dict[tuple[int, int], float | None]:
        return {}

    def slope(self, row: int, resource: int) -> float | None:
        """Return the resource cost of one byte/s in a minute; computed once for all runs."""
        key = (row, resource)
        if key not in self._slopes:
            usage = np.where(self.broker_here[row], self.broker_usage[row, :, resource], np.nan)
            self._slopes[key] = usage_per_byte(usage, self.traffic[row])
        return self._slopes[key]

    @property
    def size_bytes(self) -> int:
        """Memory of the arrays."""
        return sum(
            part.nbytes
            for value in vars(self).values()
            for part in (value if isinstance(value, tuple) else (value,))
            if isinstance(part, np.ndarray)
        )


def minutes_of(taken_at: Ints, origin_ms: int, minute_s: float) -> Ints:
    """Return the minute of each moment since an origin."""
    return np.rint((taken_at - origin_ms) / (minute_s * 1000.0)).astype(np.int64)
