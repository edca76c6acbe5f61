"""A large cluster after brokers joined and went: other brokers, and edits of the bundles' file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from core.errors import InputError
from core.pulsar.settings import EffectiveSettings
from core.simulation.managers import Manager
from core.simulation.model import Landed
from core.simulation.scenario import without_brokers
from core.snapshot import PulsarSnapshot
from core.spark.large.bundle_state import SIMULATED
from core.spark.large.cluster import LargeCluster
from core.spark.large.map_order import BucketOrders
from core.spark.large.reduced import Reduced
from core.spark.large.scan import ROW, Edits, Part
from core.spark.large.size import MAX_PLACED
from core.units import pluralize


@dataclass(frozen=True, eq=False)
class Changed(LargeCluster):
    """The cluster with other brokers.

    Attributes:
        origin: As it was.
        brokers_after: Brokers with the load that they have now.
        edited: What has become of the bundles of those that went; ``None``: none did.
    """

    origin: LargeCluster
    brokers_after: pa.Table
    edited: Edits | None = None

    @cached_property
    def skeleton(self) -> PulsarSnapshot:
        """The small tables, with the brokers of now."""
        tables = {**self.origin.skeleton.tables, "brokers": self.brokers_after}
        return PulsarSnapshot.build(self.manifest, tables)

    @cached_property
    def namespaces(self) -> pa.Table:
        """The declared namespaces, which stay."""
        return self.origin.namespaces

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        """What one task reads of the bundles, which stays."""
        return self.origin.parts

    @property
    def edits(self) -> Edits | None:
        """What has become of bundles since they were written."""
        return self.edited

    @property
    def fetched(self) -> tuple[str, ...]:
        """Columns of bundles that are brought here."""
        return SIMULATED


@dataclass(frozen=True, eq=False)
class AfterWhatIf:
    """What a what-if makes of a large cluster.

    Attributes:
        cluster: Afterwards.
        moves: Where the bundles went that had lost their broker, in the order of the lookups.
        bundles: Those bundles as they were before, in the same order.
    """

    cluster: Changed
    moves: tuple[Landed, ...]
    bundles: pa.Table


def with_other_brokers(
    origin: LargeCluster,
    grown: pa.Table,
    gone: Sequence[str],
    settings: EffectiveSettings,
    manager: Manager,
    rng: np.random.Generator,
) -> AfterWhatIf:
    """Return a cluster after brokers joined and went, as a process with all of it would have it.

    Only the bundles that lose their broker are brought here. They are looked up in random order,
    and as they come in the order of the snapshot's rows, that is the order of the process.

    Args:
        origin: The cluster.
        grown: Its brokers and those that join, sorted by name.
        gone: Names of those that go.
        settings: The leader's active settings.
        manager: Who picks.
        rng: For the draws, and the order of the lookups.
    Raises:
        InputError: The brokers that go have too many bundles.
        ComputeError: Spark failed.
        JobStoppedError: A person stopped it.
    """
    _refuse_too_many(origin, gone)
    whole = _changed(origin, grown)
    if not gone:
        return AfterWhatIf(whole, (), pa.table({}))
    lost = [whole.brokers.index(name) for name in gone]
    reduced = Reduced.of(whole, (), owners=lost)
    view = reduced.view(settings, BucketOrders(whole), is_placed=True)
    done = without_brokers(reduced.snapshot, view, gone, manager, rng)
    bundles = reduced.bundles.take(pa.array(done.rows))
    rows = bundles[ROW].to_numpy()
    order = np.argsort(rows)
    ends = pa.array([move.destination for move in done.moves], pa.string())
    edits = Edits(rows[order], ends.take(pa.array(order)), tuple(gone))
    return AfterWhatIf(_changed(origin, done.snapshot.brokers, edits), done.moves, bundles)


def _changed(origin: LargeCluster, brokers: pa.Table, edits: Edits | None = None) -> Changed:
    opened = (origin.spark, origin.directory, origin.manifest, origin.progress)
    return Changed(*opened, origin, brokers, edits)


def _refuse_too_many(origin: LargeCluster, gone: Sequence[str]) -> None:
    """Return what is too much to be placed one after the other.

    Raises:
        InputError: It is.
    """
    counts = dict(zip(origin.brokers, origin.owned.counts.tolist(), strict=True))
    bundles = sum(counts.get(name, 0.0) for name in gone)
    if bundles > MAX_PLACED:
        raise InputError(
            f"{pluralize(len(gone), 'broker')} of {origin.manifest.cluster} would leave "
            f"{bundles:,.0f} bundles behind, which the leader places one after the other: the "
            f"loss of more than {MAX_PLACED:,} is not simulated on Spark.",
            hint="`trimtab simulate --engine local` simulates it where one process can hold the "
            "whole cluster.",
        )
