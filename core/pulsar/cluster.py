"""The load of a cluster as columns, and what moves and load reports change of it.

:class:`BrokerLoads` is the load of the brokers; :class:`ColumnFleet` a whole cluster of the modular
manager: a round changes a few of its columns, and its tables are made when they are read.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from core.arrays import column_values, row_of
from core.pulsar.averages import (
    AVERAGES,
    TermAverages,
    seeds_of,
    set_columns,
    sums,
    term_averages,
)
from core.pulsar.columns import added
from core.pulsar.leader_rates import is_live
from core.pulsar.liveness import owned_sums, unreported_brokers
from core.pulsar.load import WEIGHED, ResourceShares
from core.pulsar.load_transfer import CARRIED, TransferredLoad, amounts_of, load_moved
from core.pulsar.measures import Measures, cluster_target, measures_of
from core.pulsar.settings import EffectiveSettings
from core.pulsar.shedding.basis import SheddingBasis
from core.pulsar.view import LoadView, MovedColumns, usages_of
from core.schemas.pulsar import BROKERS, RATES
from core.snapshot import PulsarSnapshot

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]

_COLUMN: Final = {name: number for number, name in enumerate(CARRIED)}
_AVERAGES: Final = [_COLUMN[name] for name in AVERAGES]
_USAGES: Final = [_COLUMN[f"{name}_usage"] for name in WEIGHED]
_IS_WHOLE: Final = np.array([pa.types.is_integer(BROKERS.field(name).type) for name in CARRIED])
_STEADY: Final = (
    "broker_index",
    "namespace_index",
    "bundle_index",
    "namespace_policy",
    "bound_namespaces",
    "is_primary",
    "is_secondary",
    "java_order",
)
"""Derived columns of a view that no round changes."""

_BY_REPORTS: Final = ("brokers", "broker_spread")
"""Of a basis of shedding, what depends on which brokers report."""


@dataclass(frozen=True, eq=False)
class BrokerLoads:
    """The load of all brokers.

    Attributes:
        values: Shape ``(n_brokers, n_carried)`` in the order of :data:`CARRIED`; NaN: unknown.
        limits: Shape ``(n_brokers, n_weighed)`` in the order of :data:`WEIGHED`; NaN: unknown.
    """

    values: Floats
    limits: Floats

    @classmethod
    def of(cls, brokers: pa.Table) -> BrokerLoads:
        """Return the load in a table of :data:`core.schemas.pulsar.BROKERS`."""
        values = np.stack([column_values(brokers, name) for name in CARRIED], 1)
        limits = np.stack([column_values(brokers, f"{name}_limit") for name in WEIGHED], 1)
        return cls(values, limits)

    def column(self, name: str) -> Floats:
        """Return one component of every broker."""
        return self.values[:, _COLUMN[name]]

    def moved(self, rows: Ints, delta: Floats) -> BrokerLoads:
        """Return the load after a change; what is unknown stays unknown, no load falls below 0.

        Args:
            rows: Of the brokers that change.
            delta: Shape ``(n_rows, n_carried)``.
        """
        values = self.values.copy()
        values[rows] = added_load(values[rows], delta)
        values[~np.isfinite(values)] = np.nan
        values[:, _IS_WHOLE] = np.round(values[:, _IS_WHOLE])
        return BrokerLoads(values, self.limits)

    @cached_property
    def shares(self) -> ResourceShares:
        """Usage of each resource."""
        return ResourceShares.of_columns(self.values[:, _USAGES], self.limits)

    def usage_with(
        self, delta: Floats, settings: EffectiveSettings, rows: Ints | slice = slice(None)
    ) -> Floats:
        """Return the weighted usage of brokers once load has come or gone, ratio.

        Args:
            delta: Change of each resource, shape ``(..., n_rows, n_weighed)``.
            settings: For the weights.
            rows: Brokers; all by default.
        Returns:
            Shape ``(..., n_rows)``; NaN where unknown.
        """
        used = np.maximum(self.values[:, _USAGES][rows] + delta, 0.0)
        return ResourceShares.of_columns(used, self.limits[rows]).weighted(settings)

    def table(self, brokers: pa.Table, is_touched: Flags) -> pa.Table:
        """Return the brokers with this load.

        Args:
            brokers: Before.
            is_touched: Brokers whose usage changed; the others keep their ratios.
        """
        columns = {
            name: _typed(values, BROKERS.field(name).type)
            for name, values in zip(CARRIED, self.values.T, strict=True)
        }
        for number, resource in enumerate(WEIGHED if is_touched.any() else ()):
            name, limit = f"{resource}_ratio", self.limits[:, number]
            with np.errstate(divide="ignore", invalid="ignore"):
                ratio = self.column(f"{resource}_usage") / limit
            is_changed = is_touched & (limit > 0)
            values = np.where(is_changed, ratio, column_values(brokers, name))
            columns[name] = _typed(values, pa.float64())
        return set_columns(brokers, columns)


def added_load(before: Floats, delta: Floats) -> Floats:
    """Return loads after a change, at least 0; NaN stays NaN."""
    return np.maximum(before + delta, np.minimum(before, 0.0))


def with_owners(bundles: pa.Table, is_moved: Flags, owners: pa.Array) -> pa.Table:
    """Return the bundles with the owner, who also reports them, of those that moved.

    Args:
        bundles: Before.
        is_moved: Which of them.
        owners: Of those, in row order; null: none.
    """
    mask = pa.array(is_moved)
    return set_columns(
        bundles,
        {
            name: pc.replace_with_mask(bundles[name].combine_chunks(), mask, owners)
            for name in ("owner", "reported_by")
        },
    )


class FleetStart:
    """Parts of a fleet that no round changes: names, statistics, limits, policies.

    Args:
        snapshot: The fleet before the first round.
    """

    def __init__(self, snapshot: PulsarSnapshot) -> None:
        self.snapshot = snapshot
        brokers, bundles = snapshot.brokers, snapshot.bundles
        self.names = tuple(brokers["broker"].to_pylist())
        self.rows = {name: row for row, name in enumerate(self.names)}
        self.size = bundles.num_rows
        self.lasts = {rate: column_values(bundles, rate) for rate in RATES}
        self.seeds = seeds_of(snapshot)
        self.is_live = is_live(snapshot)
        self.emptied_at = column_values(brokers, "emptied_at")
        self._views: dict[Hashable, LoadView] = {}

    @cached_property
    def unreported(self) -> tuple[Ints, Ints]:
        """Rows of the brokers that do not report, and of those among them that are alive."""
        return unreported_brokers(self.snapshot)

    @cached_property
    def known_lasts(self) -> Mapping[str, Floats]:
        """Last statistics of the bundles, 0 where unknown."""
        return {rate: np.nan_to_num(values) for rate, values in self.lasts.items()}

    @cached_property
    def has_stats(self) -> Flags:
        """Whether the last message rate of a bundle is known."""
        return ~(np.isnan(self.lasts["msg_rate_in"]) & np.isnan(self.lasts["msg_rate_out"]))

    @cached_property
    def bundle_part(self) -> Mapping[str, Floats]:
        """Last statistics of the bundles as a view has them."""
        return {
            f"bundle_{name}": added(self.lasts[f"msg_{kind}_in"], self.lasts[f"msg_{kind}_out"])
            for name, kind in (("msg_rate", "rate"), ("throughput", "throughput"))
        }

    @cached_property
    def own(self) -> dict[str, Floats]:
        """Columns of bundles that were read, no averages; NaN where unknown."""
        return dict(self.lasts)

    def column(self, name: str) -> Floats:
        """Return a column of the bundles that no round changes."""
        if name not in self.own:
            self.own[name] = column_values(self.snapshot.bundles, name)
        return self.own[name]

    @cached_property
    def is_movable(self) -> Flags:
        """Bundles that belong to no broker."""
        return ~np.asarray(self.snapshot.bundles["is_broker_bound"].to_numpy(), np.bool_)

    @cached_property
    def is_unclear(self) -> Flags:
        """Movable bundles whose owner is unknown."""
        bundles = self.snapshot.bundles
        unclear = pc.and_(pc.is_null(bundles["owner"]), pc.is_null(bundles["owner_source"]))
        return np.asarray(unclear.to_numpy(), np.bool_) & self.is_movable

    def view(self, settings: EffectiveSettings) -> LoadView:
        """Return the view before the first round, what no round changes laid out."""
        key = LoadView.inputs(settings)
        if key not in self._views:
            view = LoadView.of(self.snapshot, settings)
            for name in _STEADY:
                getattr(view, name)
            self._views[key] = view
        return self._views[key]

    def basis(self, view: LoadView) -> SheddingBasis:
        """Return the basis of a view of :meth:`view`, what depends on reports laid out."""
        basis = SheddingBasis.of(view)
        for name in _BY_REPORTS:
            getattr(basis, name)
        return basis

    def fleet(self) -> ColumnFleet:
        """Return the fleet before the first round."""
        brokers, bundles = self.snapshot.brokers, self.snapshot.bundles
        return ColumnFleet(
            start=self,
            owner=row_of(brokers["broker"], bundles["owner"]).astype(np.int32),
            reporter=row_of(brokers["broker"], bundles["reported_by"]).astype(np.int32),
            terms=term_averages(bundles),
            load=BrokerLoads.of(brokers),
            is_moved=np.zeros(self.size, np.bool_),
            is_touched=np.zeros(len(self.names), np.bool_),
        )


@dataclass(frozen=True, eq=False, kw_only=True)
class ColumnFleet:
    """A fleet at one moment.

    Attributes:
        start: What no round changes.
        owner: Broker row of each bundle, -1: none.
        reporter: Broker row whose report names it, -1: none.
        terms: Averages of the bundles, by term.
        load: Of the brokers, as they and the leader report it.
        is_moved: Bundles that have moved since the start.
        is_touched: Brokers that gave or took one.
    """

    start: FleetStart
    owner: NDArray[np.int32]
    reporter: NDArray[np.int32]
    terms: Mapping[str, TermAverages]
    load: BrokerLoads
    is_moved: Flags
    is_touched: Flags

    @cached_property
    def believed(self) -> BrokerLoads:
        """The load that can be believed: see :func:`core.pulsar.liveness.loads_of`."""
        lost, stopped = self.start.unreported
        if not lost.size:
            return self.load
        values = self.load.values.copy()
        values[lost] = np.nan
        place = np.full(len(self.start.names) + 1, -1, np.int64)
        place[stopped] = np.arange(stopped.size)
        owner = place[self.owner]
        rows = np.flatnonzero(owner >= 0)
        totals = owned_sums(lambda name: self._bundle_column(name)[rows], owner[rows], stopped.size)
        for name, total in totals.items():
            values[stopped, _COLUMN[name]] = total
        return BrokerLoads(values, self.load.limits)

    def _average(self, name: str) -> Floats:
        term, _, rate = name.partition("_")
        return self.terms[term].values[rate]

    def _bundle_column(self, name: str) -> Floats:
        return self._average(name) if name in AVERAGES else self.start.column(name)

    def moved(self, rows: Ints, ends: Sequence[str]) -> ColumnFleet:
        """Return the fleet after moves, before anything of them is sampled.

        Args:
            rows: Of the bundles, each once.
            ends: Their destinations.
        """
        start, owned_at = self.start, self.owner[rows].astype(np.int64)
        reported = self.reporter[rows].astype(np.int64)
        counted_at = np.where(reported >= 0, reported, owned_at)
        amounts = amounts_of(
            lambda name: self._bundle_column(name)[rows], self.load.column, counted_at
        )
        at = np.array([start.rows[name] for name in ends], np.int64)
        touched, delta = load_moved(TransferredLoad(amounts, counted_at, owned_at, ()), at)
        owner, reporter = self.owner.copy(), self.reporter.copy()
        owner[rows] = reporter[rows] = at
        is_moved, is_touched = self.is_moved.copy(), self.is_touched.copy()
        is_moved[rows] = True
        is_touched[touched] = True
        return replace(
            self,
            owner=owner,
            reporter=reporter,
            load=self.load.moved(touched, delta),
            is_moved=is_moved,
            is_touched=is_touched,
        )

    def sampled(self, count: int) -> ColumnFleet:
        """Return the fleet after so many samples; the same where they change nothing."""
        start, reported = self.start, self.reporter >= 0
        terms = {
            term: averages.after(start.lasts, reported, start.seeds, (count,))
            for term, averages in self.terms.items()
        }
        values = self.load.values.copy()
        for number, name in zip(_AVERAGES, AVERAGES, strict=True):
            term, _, rate = name.partition("_")
            totals, before = (
                sums(self.reporter, terms[term].values[rate], len(values)),
                values[:, number],
            )
            values[:, number] = np.where(np.isnan(before) & (totals == 0), np.nan, totals)
        is_same = all(terms[term] is averages for term, averages in self.terms.items())
        if is_same and np.array_equal(values, self.load.values, equal_nan=True):
            return self
        return replace(self, terms=terms, load=BrokerLoads(values, self.load.limits))

    @cached_property
    def _views(self) -> dict[Hashable, LoadView]:
        """Views so far, by the usages that they have."""
        return {}

    def _columns(self) -> MovedColumns:
        start = self.start
        return MovedColumns(
            brokers=self.believed.column,
            averages=self._average,
            owner=self.owner,
            reporter=self.reporter,
            has_stats=start.has_stats,
            seeds=start.seeds,
            lasts=start.known_lasts if start.seeds else {},
            is_live=start.is_live,
        )

    @cached_property
    def _bundle_part(self) -> dict[str, Any]:
        return self._columns().of_bundles(self.start.bundle_part)

    def view(self, settings: EffectiveSettings) -> LoadView:
        """Return the load as kernels see it; one view wherever every usage is the same."""
        first = self.start.view(settings)
        usages = usages_of(self.believed.shares, settings)
        own = settings.target, first.own_class, *(usage.tobytes() for usage in usages)
        if own not in self._views:
            view = self._columns().view(first, usages, self._bundle_part)
            for name in _STEADY:
                view.__dict__[name] = getattr(first, name)
            if np.array_equal(view.has_report, first.has_report):
                view.__dict__["allowed"] = first.allowed
                basis, known = SheddingBasis(view), self.start.basis(first)
                for name in _BY_REPORTS:
                    basis.__dict__[name] = getattr(known, name)
                basis.keep()
            self._views[own] = view
        return self._views[own]

    @cached_property
    def owned_counts(self) -> Floats:
        """Number of movable bundles per owner; NaN where unknown."""
        start = self.start
        if not start.size:
            return column_values(start.snapshot.brokers, "bundle_count")
        rows = self.owner[start.is_movable & (self.owner >= 0)]
        counts = np.bincount(rows, minlength=len(start.names)).astype(np.float64)
        if (start.is_unclear & ~self.is_moved).any():
            counts = np.where(counts == 0, np.nan, counts)
        counts.setflags(write=False)
        return counts

    def measures(self, settings: EffectiveSettings) -> Measures:
        """Return the evenness of the load."""
        usage = self.believed.shares.weighted(settings)
        counts, target = self.owned_counts, cluster_target(self.start.snapshot.manifest)
        return measures_of(
            self.start.names, usage, self.believed.column, counts, target, self.start.emptied_at
        )

    @cached_property
    def snapshot(self) -> PulsarSnapshot:
        """The fleet as a snapshot; each table is made when it is read."""
        first = self.start.snapshot
        made = {
            "bundles": self._bundles,
            "brokers": lambda: self.load.table(first.brokers, self.is_touched),
        }
        snapshot = PulsarSnapshot(first.manifest, _LaterTables(first.tables, made))
        snapshot.derived.get("owned_bundle_counts", lambda: self.owned_counts)
        return snapshot

    def _bundles(self) -> pa.Table:
        bundles = self.start.snapshot.bundles
        changed: dict[str, pa.Array] = {}
        for term, averages in self.terms.items():
            changed |= averages.columns(term)
        names = pa.array(self.start.names, pa.string())
        owners = names.take(pa.array(self.owner[self.is_moved], pa.int64()))
        return with_owners(set_columns(bundles, changed), self.is_moved, owners)


def _typed(values: Floats, kind: pa.DataType) -> pa.Array:
    """Return numbers as a column: NaN becomes null, counts are rounded."""
    known = np.isfinite(values)
    if pa.types.is_integer(kind):
        whole = np.where(known, np.round(values), 0).astype(np.int64)
        return pa.array(whole, kind, mask=~known)
    return pa.array(values, kind, mask=~known)


class _LaterTables(Mapping[str, pa.Table]):
    """Tables of which some are made on first use.

    Args:
        tables: The others, and the names of all.
        made: Makes those.
    """

    def __init__(
        self, tables: Mapping[str, pa.Table], made: Mapping[str, Callable[[], pa.Table]]
    ) -> None:
        self._tables, self._made = dict(tables), dict(made)

    def __getitem__(self, name: str) -> pa.Table:
        if name in self._made:
            self._tables[name] = self._made.pop(name)()
        return self._tables[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._tables)

    def __len__(self) -> int:
        return len(self._tables)
