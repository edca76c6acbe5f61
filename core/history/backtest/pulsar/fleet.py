"""The brokers of one minute under an ownership that is not the recorded one.

The recorded load of a broker, less what its bundles carry that are elsewhere now, plus what the
bundles carry that came: the arithmetic of :mod:`core.pulsar.load_transfer`. With the recorded
ownership the fleet is the recorded one, to the last bit.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from core.history.backtest.pulsar.dense import Codes, Flags, Floats, Ints
from core.history.backtest.pulsar.series import LoadSeries
from core.pulsar.cluster import added_load
from core.pulsar.load import WEIGHED, ResourceShares
from core.pulsar.load_transfer import RESOURCES, amounts_of
from core.schemas.pulsar import RATES


@dataclass(eq=False)
class Fleet:
    """Brokers of one minute; arrays are per broker column.

    Attributes:
        rates: In the order of ``RATES``, ``(b, 4)``; NaN: unknown.
        usage: In the order of ``WEIGHED``, in each resource's own unit, ``(b, 5)``; NaN: unknown.
        limit: Likewise.
        topics: ``(b,)``.
        bundles: ``(b,)``.
    """

    rates: Floats
    usage: Floats
    limit: Floats
    topics: Floats
    bundles: Floats

    @classmethod
    def recorded(cls, series: LoadSeries, row: int) -> Fleet:
        """Return the brokers as recorded; the arrays are copies."""
        return cls(
            rates=series.broker_rates[row].copy(),
            usage=series.broker_usage[row].copy(),
            limit=series.broker_limit[row],
            topics=series.broker_topics[row].copy(),
            bundles=series.broker_bundles[row].copy(),
        )

    def take(self, other: Fleet, rows: Flags) -> None:
        """Take some brokers' values from another fleet."""
        for name in ("rates", "usage", "limit", "topics", "bundles"):
            mine, theirs = getattr(self, name), getattr(other, name)
            mine[rows] = theirs[rows]

    def copy(self) -> Fleet:
        """Return a fleet of its own."""
        parts = (self.rates, self.usage, self.limit, self.topics, self.bundles)
        return Fleet(*(part.copy() for part in parts))

    @property
    def traffic(self) -> Floats:
        """Throughput in + out, bytes/s, ``(b,)``; NaN: unknown."""
        return np.asarray(self.rates[:, 2] + self.rates[:, 3], np.float64)

    @property
    def shares(self) -> ResourceShares:
        """Usage of each resource."""
        return ResourceShares.of_columns(self.usage, self.limit)


@dataclass(frozen=True, eq=False)
class Bundles:
    """The load of all bundles in one minute; a part of a bundle that was split has its share.

    Attributes:
        rates: In the order of ``RATES``, each ``(m,)``.
        topics: ``(m,)``.
        clients: ``(m,)``.
        here: ``(m,)``.
        is_known: ``(m,)``.
        owner: Broker as recorded; -1: none.
        reporter: Broker that counts it as recorded; -1: none.
        surplus: Bundles that each broker has more than recorded because some were split, ``(b,)``.
    """

    rates: tuple[Floats, ...]
    topics: Floats
    clients: Floats
    here: Flags
    is_known: Flags
    owner: Codes
    reporter: Codes
    surplus: Floats | None = None

    @classmethod
    def recorded(cls, series: LoadSeries, row: int) -> Bundles:
        """Return the bundles as recorded; the arrays are the record's own."""
        return cls(
            rates=tuple(rate[row] for rate in series.rates),
            topics=series.topics[row],
            clients=series.clients[row],
            here=series.bundle_here[row],
            is_known=series.is_known[row],
            owner=series.owner[row],
            reporter=series.reporter[row],
        )


def fleet_at(series: LoadSeries, row: int, bundles: Bundles, owner: Codes) -> Fleet:
    """Return the brokers of a minute, each bundle's load where it is now.

    Args:
        series: The record.
        row: Minute.
        bundles: Of that minute.
        owner: Broker of each bundle now; -1: none. That of an absent bundle does not matter.
    Cost:
        O(bundles) to compare, then O(bundles that are elsewhere) and O(brokers).
    """
    fleet = Fleet.recorded(series, row)
    if bundles.surplus is not None:
        fleet.bundles += bundles.surplus
    away = np.flatnonzero((owner != bundles.owner) & bundles.here)
    if not away.size:
        return fleet
    leaves = bundles.owner[away]
    counted = bundles.reporter[away]
    counted = np.where(counted >= 0, counted, leaves)
    comes = owner[away]
    amounts = _amounts(series, row, bundles, away, counted)
    size = fleet.topics.size
    delta = _sums(comes, amounts, size) - _sums(counted, amounts, size)
    touched = np.zeros(size, np.bool_)
    touched[comes[comes >= 0]] = True
    touched[counted[counted >= 0]] = True
    for values, change in (
        (fleet.rates, delta[:, : len(RATES)]),
        (fleet.topics, delta[:, len(RATES)]),
        (fleet.usage, delta[:, -len(WEIGHED) :]),
    ):
        values[touched] = added_load(values[touched], change[touched])
    fleet.bundles += _counts(comes, size) - _counts(leaves, size)
    np.maximum(fleet.bundles, 0.0, out=fleet.bundles)
    return fleet


def _amounts(series: LoadSeries, row: int, bundles: Bundles, away: Ints, counted: Codes) -> Floats:
    """Return the load of bundles: four rates, topics, one bundle, five resources."""
    own = dict(zip(RATES, bundles.rates, strict=True)) | {"topic_count": bundles.topics}
    brokers = dict(zip(RATES, series.broker_rates[row].T, strict=True))
    brokers |= dict(zip(RESOURCES, series.broker_usage[row].T, strict=True))
    return amounts_of(
        lambda name: own[name][away],
        brokers.__getitem__,
        counted,
        own=(*RATES, "topic_count"),
        slope=lambda resource: series.slope(row, WEIGHED.index(resource)),
    )


def _sums(brokers: Codes, amounts: Floats, size: int) -> Floats:
    """Add up rows of amounts by broker, ``(size, k)``; those of code -1 are left out."""
    width = amounts.shape[1]
    cells = (brokers[:, None] + 1) * width + np.arange(width)
    total = np.zeros((size + 1) * width)
    total += np.bincount(cells.ravel(), weights=amounts.ravel(), minlength=total.size)
    return total.reshape(size + 1, width)[1:]


def _counts(brokers: Codes, size: int) -> Floats:
    return np.bincount(brokers + 1, minlength=size + 1)[1:].astype(np.float64)
