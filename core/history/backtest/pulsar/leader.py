"""What the leader knows in a minute: brokers' last reports, and its averages of every bundle.

A broker writes its report when the record shows that it wrote one, and when bundles that came or
went under the candidate changed its load far enough (or the longest interval is over). Until then
the leader counts the old load and the old bundles. With every written report the leader takes one
more sample of every reported bundle.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final, Protocol

import numpy as np
import pyarrow as pa

from core.arrays import column_values, row_of
from core.history.backtest.pulsar.dense import Codes, Flags, Floats, Ints
from core.history.backtest.pulsar.fleet import Bundles, Fleet
from core.history.backtest.pulsar.series import LoadSeries
from core.pulsar.averages import seeds_of
from core.pulsar.extensible_loads import ExtensibleLoads, TopBundle
from core.pulsar.load import (
    LONG_SAMPLES,
    SHORT_SAMPLES,
    next_smoothed_usage,
    part_left,
)
from core.pulsar.reports import ReportedLoad, needs_report
from core.pulsar.settings import EffectiveSettings
from core.pulsar.shedding.basis import SheddingBasis
from core.pulsar.view import LoadView, usages_of
from core.schemas.pulsar import RATES
from core.simulation.records import TICKS_PER_MINUTE, hottest
from core.snapshot import PulsarSnapshot

_MAX_REPORT: Final = "loadBalancerReportUpdateMaxIntervalMinutes"
_WRITE: Final = "loadBalancerResourceQuotaUpdateIntervalMinutes"
_GIVER_FIRST: Final = 0.75
"""How often the broker that gave a bundle reports before the one that got it: 25 of 37 moves of a
real cluster on record, 92 of 124 of the sandbox."""
_CACHED_WITH_FLEET: Final = (
    *("broker_index", "namespace_index", "namespace_policy", "is_primary", "is_secondary"),
    *("_roles", "java_order"),
)
"""What a view works out that hangs on names and policies only."""

_HISTORY: Final = "loadBalancerHistoryResourcePercentage"
_MS_PER_MINUTE: Final = 60_000


class NamesOfBundles(Protocol):
    """Names of the bundles of a run."""

    def fields(self, base: LoadView) -> dict[str, Any]:
        """Return the fields of a view that name bundles, where they are not those of ``base``."""
        ...


@dataclass(eq=False)
class Average:
    """One average of every bundle: how many samples are in it, and its values.

    Attributes:
        most: Samples after which it only smooths.
        held: ``(n,)``.
        values: One row a rate, ``(k, n)``.
    """

    most: int
    held: Ints
    values: Floats

    def sample(self, last: tuple[Floats, ...], count: int, sampled: Flags | None) -> None:
        """Take ``count`` more samples of what does not change in between.

        Args:
            last: The values now, one array a row.
            count: Samples.
            sampled: Which bundles; ``None`` for all.
        """
        least, most = int(self.held.min(initial=self.most)), int(self.held.max(initial=0))
        held = self.held[:1] if least == most else self.held
        left = part_left(held, count, self.most)
        for values, now in zip(self.values, last, strict=True):
            following = values - now
            following *= left
            following += now
            np.copyto(values, following, where=True if sampled is None else sampled)
        if least < self.most:
            grown = np.minimum(self.held + count, self.most)
            self.held = grown if sampled is None else np.where(sampled, grown, self.held)

    def drop(self, lost: Ints, seeds: Floats) -> None:
        """Forget bundles; they begin again, with their quota where they have one.

        Args:
            lost: Their columns.
            seeds: What they begin with, ``(k, n)``; NaN: nothing.
        """
        if not lost.size:
            return
        begun = seeds[:, lost]
        is_seeded = np.isfinite(begun).all(axis=0)
        self.values[:, lost] = np.where(is_seeded, begun, self.values[:, lost])
        self.held[lost] = np.where(is_seeded, self.most, 0)


class Fleets:
    """Views without numbers, one for every set of brokers that is there at the same time."""

    def __init__(self, template: PulsarSnapshot, settings: EffectiveSettings) -> None:
        self._template = template
        self._settings = settings
        self._cached: dict[bytes, tuple[LoadView, Ints, Codes]] = {}

    def of(self, here: Flags) -> tuple[LoadView, Ints, Codes]:
        """Return a view of the brokers that are there, their columns, and column to row.

        Args:
            here: Per broker column; the last entry of the answer's map is for code -1.
        """
        key = here.tobytes()
        if key not in self._cached:
            columns = np.flatnonzero(here)
            rows = np.full(here.size + 1, -1, np.int32)
            rows[columns] = np.arange(columns.size)
            part = self._template if here.all() else _part(self._template, here)
            self._cached[key] = LoadView.of(part, self._settings), columns, rows
        return self._cached[key]


def _part(template: PulsarSnapshot, here: Flags) -> PulsarSnapshot:
    """The template with the brokers that are there."""
    brokers = template.brokers.filter(pa.array(here))
    manifest = template.manifest
    if manifest.leader not in brokers["broker"].to_pylist():
        manifest = replace(manifest, leader=None)
    return PulsarSnapshot.build(manifest, {**template.tables, "brokers": brokers})


class Leader:
    """The leader's knowledge, minute by minute."""

    def __init__(
        self,
        series: LoadSeries,
        settings: EffectiveSettings,
        *,
        has_delays: bool = True,
        rng: np.random.Generator | None = None,
    ) -> None:
        self._rng = rng
        self._settings = settings
        self._series = series
        self._fleets = Fleets(series.template, settings)
        self._quiet_minutes = max(settings.number(_MAX_REPORT), 1.0)
        self._write_minutes = max(settings.number(_WRITE), 1.0)
        self._has_delays = has_delays
        self._orders: dict[tuple[tuple[str, ...], bytes], tuple[Ints, Ints]] = {}
        count = series.shape[1]
        self.touched = np.zeros(count, np.bool_)
        self._moved = self.touched.copy()
        self._written_at = np.zeros(count)
        self.seen = Fleet.recorded(series, 0)
        self.counted = series.reporter[0].copy()
        has_records = series.template.broker_loads.num_rows > 0
        self._published = LoadReports(series, settings) if has_records else None
        self._start_averages()

    def _start_averages(self) -> None:
        view, _, _ = self._fleets.of(np.ones(self._series.shape[1], np.bool_))
        bundles = self._series.template.bundles
        held = [
            np.nan_to_num(column_values(bundles, f"{term}_samples")).astype(np.int64)
            for term in ("short", "long")
        ]
        short = np.stack([view.bundle_short_rate, view.bundle_short_throughput])
        self._short = Average(SHORT_SAMPLES, held[0], short)
        flow = [
            column_values(bundles, f"long_msg_throughput_{direction}")
            for direction in ("in", "out")
        ]
        whole = np.where(np.isfinite(flow[0] + flow[1]), flow[0] + flow[1], short[1])
        self._long = Average(LONG_SAMPLES, held[1], np.stack([view.bundle_long_rate, whole]))
        quotas = seeds_of(self._series.template)
        none = np.full(short.shape[1], np.nan)
        parts = [quotas.get(name, none) for name in RATES]
        self._seeds = np.stack([parts[0] + parts[1], parts[2] + parts[3]])

    @property
    def long_averages(self) -> tuple[Floats, Floats]:
        """Long-term rate, msg/s, and throughput, bytes/s, of each bundle; do not write to them."""
        return self._long.values[0], self._long.values[1]

    def grow(self, parents: Ints) -> None:
        """Begin with parts of bundles: there is no average of them yet.

        Args:
            parents: Column of the split bundle of each new column.
        """
        for average in (self._short, self._long):
            average.values = np.append(average.values, average.values[:, parents], axis=1)
            average.held = np.append(average.held, np.zeros(parents.size, np.int64))
        self.counted = np.append(self.counted, self.counted[parents])
        self._seeds = np.append(self._seeds, np.full((2, parents.size), np.nan), axis=1)

    def read(self, row: int, minutes: float, fleet: Fleet, bundles: Bundles, owner: Codes) -> None:
        """Take in what brokers wrote up to a minute of the record.

        Args:
            row: Minute of the record.
            minutes: Minutes since the last call; 0: the start.
            fleet: The brokers as they are now.
            bundles: Load now.
            owner: Broker of each bundle now.
        """
        series = self._series
        now = float(series.minutes[row])
        wrote = series.has_reported[row] | (self.touched & self._fires(fleet, now))
        wrote &= series.broker_here[row]
        if not self._has_delays:
            wrote |= self.touched
        touched = int(np.count_nonzero(self.touched & wrote))
        if self._published is not None:
            usage = fleet.shares.weighted(self._settings)
            self._published.read(row, minutes, fleet, usage, self._moved)
            self._moved = np.zeros_like(self.touched)
        self.seen.take(fleet, wrote)
        self.seen.limit = fleet.limit
        self._written_at[wrote] = now
        self.touched &= ~wrote
        self._count_bundles(bundles, owner, wrote)
        if minutes > 0:
            there = int(np.count_nonzero(series.broker_here[row]))
            quiet = touched + there * minutes / self._quiet_minutes
            reports = max(round(quiet), int(np.count_nonzero(wrote)), 1)
            self._sample(bundles, reports + self._own_samples(now, minutes))

    def _own_samples(self, now: float, minutes: float) -> int:
        """Samples that the leader takes when it writes its averages; confirmed on a real cluster.

        Source:
            Pulsar ``ModularLoadManagerImpl#writeBundleDataOnZooKeeper``.
        """
        return int(now // self._write_minutes) - int((now - minutes) // self._write_minutes)

    def report(self, row: int, fleet: Fleet, bundles: Bundles, owner: Codes) -> None:
        """Have the touched brokers write at once, within a round."""
        self.seen.take(fleet, self.touched)
        self._count_bundles(bundles, owner, self.touched)
        self._written_at[self.touched] = float(self._series.minutes[row])
        self.touched = np.zeros_like(self.touched)

    def _fires(self, fleet: Fleet, now: float) -> Flags:
        """Return the brokers whose load change triggers a report."""
        if not self.touched.any():
            return self.touched
        loads = []
        for one in (self.seen, fleet):
            usage = np.nan_to_num(one.shares.weighted(self._settings))
            rates = np.nan_to_num(one.rates)
            loads.append(
                ReportedLoad(
                    msg_rate=rates[:, 0] + rates[:, 1],
                    msg_throughput=rates[:, 2] + rates[:, 3],
                    bundle_count=one.bundles,
                    usage=usage,
                )
            )
        age_ms = (now - self._written_at) * _MS_PER_MINUTE
        return needs_report(loads[0], loads[1], age_ms, self._settings)

    def _count_bundles(self, bundles: Bundles, owner: Codes, wrote: Flags) -> None:
        """Count the bundles per broker that reports them."""
        counted = bundles.reporter.copy()
        away = np.flatnonzero((owner != bundles.owner) & (counted >= 0) & bundles.here)
        if away.size:
            given = np.append(wrote, np.False_)  # one more for code -1
            held, now = self.counted[away], owner[away]
            counted[away] = np.where(given[now], now, np.where(given[held], -1, held))
        self._drop(counted, wrote)
        self.counted = counted

    def _drop(self, counted: Codes, wrote: Flags) -> None:
        """Forget the averages of bundles that for a moment no report named.

        One that changes hands is in both reports or in none meanwhile, as the two brokers write.
        When both have written since, who was first is drawn; without a generator it is the one
        that gave.

        Source:
            Pulsar ``ModularLoadManagerImpl#updateBundleData``: it removes what no broker reports.
        """
        if not self._has_delays:
            return
        was = self.counted
        moved = np.flatnonzero((counted != was) & (was >= 0))
        reported = wrote[was[moved]]
        if self._rng is not None:
            reported &= self._rng.random(moved.size) < _GIVER_FIRST
        lost = moved[reported | (counted[moved] < 0)]
        for average in (self._short, self._long):
            average.drop(lost, self._seeds)

    def _sample(self, bundles: Bundles, count: int) -> None:
        sampled = (self.counted >= 0) & bundles.is_known
        everyone = None if sampled.all() else sampled
        rate = bundles.rates[0] + bundles.rates[1]
        throughput = bundles.rates[2] + bundles.rates[3]
        self._short.sample((rate, throughput), count, everyone)
        self._long.sample((rate, throughput), count, everyone)

    def view(
        self, row: int, bundles: Bundles, owner: Codes, roster: NamesOfBundles | None = None
    ) -> LoadView:
        """Return the load as the leader has it.

        Args:
            row: Minute of the record.
            bundles: Load now.
            owner: Broker of each bundle now.
            roster: Who the bundles are, where there may be more than recorded.
        """
        base, columns, rows = self._fleets.of(self._series.broker_here[row])
        seen = self.seen
        usage, limited, threshold = usages_of(seen.shares, self._settings)
        known = ~np.isnan(usage)
        rates = np.nan_to_num(seen.rates)[columns]
        is_whole = columns.size == rows.size - 1
        reporter = self.counted if is_whole else rows[self.counted]
        owned = owner.copy() if is_whole else rows[owner]
        owned[~bundles.here] = -1
        is_counted = reporter >= 0
        sums: list[Floats] = [
            np.bincount(
                reporter[is_counted], weights=values[is_counted], minlength=columns.size
            ).astype(np.float64)
            for values in (self._short.values[0], self._long.values[0])
        ]
        has_report = known | np.isfinite(seen.rates[:, 0])
        view = replace(
            base,
            usage=np.nan_to_num(usage)[columns],
            overload_usage=limited[columns],
            threshold_usage=threshold[columns],
            usage_known=known[columns],
            has_report=has_report[columns],
            broker_msg_rate=rates[:, 0] + rates[:, 1],
            broker_throughput=rates[:, 2] + rates[:, 3],
            broker_short_rate=sums[0],
            broker_long_rate=sums[1],
            broker_long_doubt=np.zeros(columns.size),
            broker_topics=np.rint(seen.topics[columns]).astype(np.int64),
            broker_bundles=np.rint(seen.bundles[columns]).astype(np.int64),
            owner=owned,
            reporter=reporter,
            bundle_msg_rate=bundles.rates[0] + bundles.rates[1],
            bundle_throughput=bundles.rates[2] + bundles.rates[3],
            is_measured=bundles.is_known,
            bundle_short_rate=self._short.values[0].copy(),
            bundle_short_throughput=self._short.values[1].copy(),
            bundle_long_rate=self._long.values[0].copy(),
            bundle_topics=np.rint(bundles.topics).astype(np.int64),
            led_since=np.zeros(reporter.size, np.bool_),  # the leader's memory begins here
            is_non_persistent=_padded(base.is_non_persistent, reporter.size),
            notes=(),
            **(roster.fields(base) if roster is not None else {}),
        )
        _share_cached(base, view)
        if self._published is not None:
            loads = self._published.loads(view, columns, bundles)
            view = replace(view, extensible=loads)
            _share_cached(base, view)
        self._share_basis(view)
        return view

    def touch(self, brokers: Codes) -> None:
        """Note brokers that gave or took a bundle."""
        self.touched[brokers] = True
        self._moved[brokers] = True

    def _share_basis(self, view: LoadView) -> None:
        """Hand on the brokers' order in Java's maps: names decide it, and who has a report."""
        key = view.brokers, view.has_report.tobytes()
        basis = SheddingBasis.of(view)
        if key not in self._orders:
            self._orders[key] = basis.brokers, basis.broker_spread
        basis.__dict__["brokers"], basis.__dict__["broker_spread"] = self._orders[key]


def _padded(flags: Flags, count: int) -> Flags:
    """Return flags of as many bundles; halves that a split made are not known to be such."""
    return np.append(flags[:count], np.zeros(max(count - flags.size, 0), np.bool_))


def _share_cached(base: LoadView, view: LoadView) -> None:
    """Hand on what hangs on names and policies only, worked out once for a set of brokers."""
    for name in _CACHED_WITH_FLEET:
        view.__dict__[name] = getattr(base, name)
    view.__dict__["bundle_index"] = view.shared_index()


class LoadReports:
    """The records of all brokers."""

    def __init__(self, series: LoadSeries, settings: EffectiveSettings) -> None:
        self._series = series
        self._settings = settings
        self._history = settings.number(_HISTORY)
        loads = series.template.broker_loads
        at = row_of(loads["broker"], series.template.brokers["broker"])
        self._smoothed = [
            np.append(column_values(loads, name), np.nan)[at]
            for name in ("weighted_max_ema", "msg_throughput_ema")
        ]
        self._has_load = np.isfinite(self._smoothed[0])
        self._start_ms = int(series.taken_at[0])
        self._now_ms = self._start_ms
        self._topics = np.zeros(at.size, np.int64)
        self._flow = np.zeros(at.size)

    def read(self, row: int, minutes: float, fleet: Fleet, usage: Floats, touched: Flags) -> None:
        """Have every broker publish what it is at.

        Args:
            row: Minute of the record.
            minutes: Since the last call; 0: the start.
            fleet: The brokers now.
            usage: Weighted maximum of each; NaN: unknown.
            touched: Brokers that gave or took a bundle since.
        """
        here = self._series.broker_here[row]
        self._now_ms = self._start_ms + int(self._series.minutes[row]) * _MS_PER_MINUTE
        self._flow = np.nan_to_num(fleet.traffic)
        self._topics = np.rint(fleet.topics).astype(np.int64)
        known = ~np.isnan(usage) & here
        ticks = max(round(minutes * TICKS_PER_MINUTE), 1)
        for past, value in zip(self._smoothed, (usage, self._flow), strict=True):
            restarts = touched | np.isnan(past)
            if minutes <= 0:
                following = np.where(restarts, value, past)
            else:
                smoothed = next_smoothed_usage(past, value, self._history**ticks)
                following = np.where(restarts, value, smoothed)
            past[:] = np.where(known, following, np.nan)
        self._has_load = known

    def loads(self, view: LoadView, columns: Ints, bundles: Bundles) -> ExtensibleLoads:
        """Return the records as a view has them.

        Args:
            view: The cluster now.
            columns: Broker column of each of its rows.
            bundles: Load now.
        """
        has_load = self._has_load[columns]
        return ExtensibleLoads(
            has_load=has_load,
            usage=np.nan_to_num(self._smoothed[0][columns]),
            throughput_ema=np.nan_to_num(self._smoothed[1][columns]),
            throughput=self._flow[columns],
            topics=self._topics[columns],
            updated_at_ms=np.where(has_load, self._now_ms, 0).astype(np.int64),
            taken_at_ms=self._now_ms,
            top=self._top(view, bundles),
        )

    def _top(self, view: LoadView, bundles: Bundles) -> dict[str, tuple[TopBundle, ...]]:
        rows, owner, rank = hottest(view, self._settings, bundles.rates[2:])
        found: dict[str, list[TopBundle]] = {}
        order = np.lexsort((-rank, owner))  # the coldest first
        flow = view.bundle_throughput[rows]
        for at in order.tolist():
            one = TopBundle(str(view.bundles[rows[at]]), float(flow[at]), is_owned=True)
            found.setdefault(view.brokers[owner[at]], []).append(one)
        return {broker: tuple(entries) for broker, entries in found.items()}
