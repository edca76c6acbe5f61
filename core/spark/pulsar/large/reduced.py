"""A large cluster with the bundles of some brokers only, for kernels that look at those alone.

Sums, counts and orders over all bundles are put in where a kernel would work them out of what is
not there. Which brokers' bundles a kernel looks at is its own matter: it reads them broker by
broker, and what it needs and is not there is noted. Whoever runs it brings that here and runs
it again, until nothing was missing: then the answer is the one of the whole.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from core.pulsar.bundle_counts import Ints, RangeCounts
from core.pulsar.columns import total_of
from core.pulsar.isolation import parse_isolation_policies
from core.pulsar.leader_rates import leader_long_rates, long_rate_doubt
from core.pulsar.quotas import quota_note
from core.pulsar.settings import EffectiveSettings
from core.pulsar.shedding.basis import SheddingBasis
from core.pulsar.shedding.map_order import doubtful, ranks_within
from core.pulsar.view import Floats, LoadView
from core.schemas.pulsar import NAMESPACES
from core.snapshot import PulsarSnapshot
from core.spark.pulsar.large.cluster import LargeCluster
from core.spark.pulsar.large.map_order import BucketOrders
from core.spark.pulsar.large.scan import CODE, NAMED, OWN, ROW
from core.spark.pulsar.large.sums import BundleFilter
from core.units import pluralize


@dataclass(frozen=True, eq=False)
class ReducedBasis(SheddingBasis):
    """Brokers in Java's order, and the bundles of those that are here.

    Attributes:
        cluster: The whole.
        here: Rows of the brokers whose bundles are in the view.
        orders: Orders of equal bundles within a bucket of a map that holds all of them.
        needed: Rows of the brokers that a kernel needs and that are not here.
    """

    cluster: LargeCluster
    here: frozenset[int]
    orders: BucketOrders
    needed: set[int] = field(default_factory=set)

    @cached_property
    def bundle_counts(self) -> Ints:
        """Bundles in each broker's report, of the whole cluster."""
        return self.cluster.total("reported")

    def bundles_of(self, broker: int) -> Ints:
        """Return the movable bundles of a broker; none, and a note, where they are not here."""
        if broker not in self.here:
            self.needed.add(broker)
            return np.zeros(0, np.int64)
        return super().bundles_of(broker)

    @cached_property
    def _movable_count(self) -> int:
        return int(self.cluster.total("movable").sum())

    @cached_property
    def _measured_count(self) -> int:
        return int(self.cluster.total("measured").sum())

    def _bucket_ranks(self, rows: Ints, slots: Ints) -> Ints:
        """Go by the map of the whole cluster; what is not known of it yet is noted."""
        names = self.view.bundles[rows].tolist()
        return ranks_within(self.orders.of(doubtful(slots)), names, slots)


@dataclass(frozen=True, eq=False)
class ReducedCluster:
    """A cluster reduced to some brokers' bundles.

    Attributes:
        cluster: The whole.
        here: Rows of those brokers.
        bundles: Their bundles and those that others need by name, in the snapshot's order.
    """

    cluster: LargeCluster
    here: frozenset[int]
    bundles: pa.Table

    @classmethod
    def of(
        cls,
        cluster: LargeCluster,
        wanted: Collection[int],
        namespace: str | None = None,
        owners: Collection[int] = (),
    ) -> ReducedCluster:
        """Bring the bundles of some brokers here.

        Args:
            cluster: The whole.
            wanted: Rows of brokers; those with quotas of single bundles are taken as well.
            namespace: All bundles of this one are taken, too.
            owners: And what these brokers own, whoever reports it.
        Raises:
            ComputeError: They have too many bundles for one process.
        """
        here = frozenset(wanted) | _always(cluster)
        words = f"reading the bundles of {pluralize(len(here), 'broker')}"
        chosen = _chosen(cluster, here, namespace, owners)
        return cls(cluster, here, cluster.fetch(chosen, words))

    def later(self, cluster: LargeCluster, rows: pa.Table) -> ReducedCluster | None:
        """Return the same brokers' bundles of the cluster some moves later, of given rows.

        Args:
            cluster: As it is then.
            rows: The bundles that are here, as they are then; only of these some have moved.
        Returns:
            ``None`` if it takes others than those that are here.
        """
        is_published = cluster.skeleton.top_bundles.num_rows > 0  # and others are, by then
        if is_published or not _always(cluster, rows) <= self.here:
            return None
        chosen = _chosen(cluster, self.here, None, ())
        return ReducedCluster(cluster, self.here, chosen(rows))

    @cached_property
    def snapshot(self) -> PulsarSnapshot:
        """The snapshot with these bundles, and the namespaces that matter to them."""
        tables = dict(self.cluster.skeleton.tables)
        tables["bundles"] = self.bundles.drop_columns([ROW, CODE, NAMED, OWN])
        tables["namespaces"] = self._namespaces
        tables["claims"] = self.cluster.leader_claims
        return PulsarSnapshot.build(self.cluster.manifest, tables)

    @cached_property
    def _namespaces(self) -> pa.Table:
        """Namespaces of these bundles, of published ones, and all with an anti-affinity group."""
        declared = self.cluster.namespaces
        published = {
            name.rpartition("/")[0]
            for name in self.cluster.skeleton.top_bundles["bundle"].to_pylist()
        }
        own = self.bundles["namespace"].unique().to_pylist()
        names = pa.array(sorted({*own, *published}), pa.string())
        wanted = pc.or_(
            pc.is_in(declared["namespace"], names), pc.is_valid(declared["anti_affinity_group"])
        )
        chosen = declared.filter(wanted)
        blank = pa.nulls(chosen.num_rows, NAMESPACES.field("boundaries").type)
        return chosen.append_column("boundaries", blank)

    def view(
        self,
        settings: EffectiveSettings,
        orders: BucketOrders,
        *,
        is_placed: bool,
        placed: Collection[str] | None = None,
    ) -> LoadView:
        """Return the view under some settings, as kernels need it.

        Args:
            settings: Effective ones.
            orders: What is known of the order of equal bundles.
            is_placed: Whether placement runs as well, which counts bundles by namespace.
            placed: Namespaces of which bundles are placed; ``None`` for any that is here.
        """
        part = LoadView.of(self.snapshot, settings)
        long_rate, doubt, note = self._long_rates()
        problems = parse_isolation_policies(self.snapshot.policies)[1]
        notes = (*problems, note, quota_note(self.snapshot))
        whole = replace(
            part,
            broker_long_rate=long_rate,
            broker_long_doubt=doubt,
            notes=tuple(text for text in notes if text),
        )
        if is_placed:
            whole.__dict__["range_counts"] = self._range_counts(whole, placed)
        ReducedBasis(whole, self.cluster, self.here, orders).keep()
        return whole

    def _long_rates(self) -> tuple[Floats, Floats, str]:
        """Return the :class:`LoadView` values of all bundles: rates, doubt, and a note."""
        skeleton, totals = self.cluster.skeleton, self.cluster.totals
        rows = totals[CODE].to_numpy()
        present = {"reporter": rows, "bundle_long_rate": totals["long_rate"].to_numpy()}
        stored = total_of(skeleton.brokers, "long_msg_rate", unknown=np.nan)
        rate, note = leader_long_rates(stored, present)
        if skeleton.manifest.load_manager == "extensible":
            note = ""
        # one row a broker for all of its bundles, and one for those without a stored average
        is_fresh = totals["fresh"].to_numpy() > 0
        nothing = np.zeros(int(is_fresh.sum()))
        columns = {
            "reporter": np.append(rows, rows[is_fresh]),
            "bundle_long_rate": np.append(totals["long_rate"].to_numpy(), nothing),
            "bundle_msg_rate": np.append(
                np.zeros(rows.size), totals["fresh_rate"].to_numpy()[is_fresh]
            ),
        }
        summed = _summed(skeleton, rows.size, nothing.size)
        return rate, long_rate_doubt(summed, columns, rate, has_moved=note != ""), note

    def _range_counts(self, view: LoadView, placed: Collection[str] | None) -> RangeCounts:
        """Count the bundles of namespaces by broker, of the whole cluster."""
        names = pa.array(view.namespaces, pa.string())
        pluralize = view.namespaces
        if placed is not None:  # and of the groups, whose counts are of all their namespaces
            grouped = [
                name
                for name, group in zip(pluralize, view.namespace_group, strict=True)
                if group >= 0
            ]
            pluralize = tuple({*grouped, *placed}.intersection(pluralize))
        pairs = self.cluster.pairs(pluralize)
        namespace = pc.index_in(pairs["namespace"], value_set=names).to_numpy()
        broker = pairs[CODE].to_numpy()
        order = np.lexsort((broker, namespace))
        offsets = np.searchsorted(namespace[order], np.arange(len(names) + 1))
        return RangeCounts(
            offsets=offsets.astype(np.int64),
            broker=broker[order].astype(np.int32),
            count=pairs["bundles"].to_numpy()[order].astype(np.int32),
        )


def missing_of(view: LoadView) -> frozenset[int]:
    """Return rows of the brokers whose bundles are needed and not in a reduced view."""
    basis = SheddingBasis.of(view)
    return frozenset(basis.needed) if isinstance(basis, ReducedBasis) else frozenset()


def _always(cluster: LargeCluster, rows: pa.Table | None = None) -> frozenset[int]:
    """Brokers that are always here: one, so that no table is empty, and those with quotas.

    A note counts the bundles that begin with their quota.

    Args:
        cluster: The whole.
        rows: Bundles as they are brought here, those with a quota among them.
    """
    totals = cluster.totals
    first = [int(totals[CODE][0].as_py())] if totals.num_rows else []
    if not cluster.quota_bundles:
        return frozenset(first)
    if rows is None:
        found = cluster.named(cluster.quota_bundles)
    else:
        found = rows.filter(pc.is_in(rows["bundle"], pa.array(cluster.quota_bundles, pa.string())))
    row_by_name = {name: row for row, name in enumerate(cluster.brokers)}
    reporters = set(found["reported_by"].to_pylist()) - {None}
    return frozenset([*first, *(row_by_name[name] for name in reporters)])


def _chosen(
    cluster: LargeCluster,
    here: frozenset[int],
    namespace: str | None,
    owners: Collection[int],
) -> BundleFilter:
    """Return the fetched bundles: those of brokers, and those that always matter."""
    leader = cluster.manifest.leader  # what it placed on itself counts without a report
    row = cluster.brokers.index(leader) if leader in cluster.brokers else -1
    bundles = list(cluster.quota_bundles)
    namespaces = [namespace] if namespace is not None else []
    if cluster.skeleton.top_bundles.num_rows:
        bundles += cluster.skeleton.top_bundles["bundle"].unique().to_pylist()
        declared = cluster.namespaces
        # this manager counts the group's bundles, and not its namespaces
        grouped = declared.filter(pc.is_valid(declared["anti_affinity_group"]))
        namespaces += grouped["namespace"].to_pylist()
    return BundleFilter(tuple(sorted(here)), tuple(bundles), tuple(namespaces), row, tuple(owners))


def _summed(skeleton: PulsarSnapshot, reporting: int, fresh: int) -> PulsarSnapshot:
    """A snapshot with a row for the bundles of each broker, and one for its fresh ones."""
    count = reporting + fresh
    stored = np.append(np.zeros(reporting), np.full(fresh, np.nan))
    texts = pa.array([""] * count, pa.string())
    zeros = np.zeros(count, np.int64)
    bundles = pa.table(
        {
            "bundle": texts,
            "namespace": texts,
            "lower": zeros,
            "upper": zeros,
            "is_broker_bound": np.zeros(count, np.bool_),
            "long_msg_rate_in": pa.array(stored, from_pandas=True),
        }
    )
    return PulsarSnapshot.build(skeleton.manifest, {"bundles": bundles})
