"""The hottest bundles that brokers of the extensible manager publish, of one large cluster."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from core.arrays import column_values
from core.pulsar.settings import EffectiveSettings
from core.pulsar.view import LoadView
from core.simulation.records import hottest, top_bundles
from core.snapshot import PulsarSnapshot
from core.spark.large.cluster import LargeCluster
from core.spark.large.scan import CODE, NAMED, OWN, ROW


def large_top_bundles(cluster: LargeCluster, settings: EffectiveSettings) -> pa.Table:
    """Return what :func:`core.simulation.records.top_bundles` gives in process.

    A part's hottest bundles of a broker are all that can be among the hottest it has: these are
    brought here, in the order of the snapshot's rows, which decides between equal ones.

    Raises:
        ComputeError: Spark failed.
        JobStoppedError: A person stopped it.
    """
    skeleton, declared = cluster.skeleton, cluster.namespaces
    grouped = declared.filter(pc.is_valid(declared["anti_affinity_group"]))
    names = skeleton.brokers.select(["broker", "is_leader"])
    tables = {"policies": skeleton.policies, "brokers": names, "namespaces": grouped}
    frame = PulsarSnapshot.build(cluster.manifest, tables)
    found = cluster.fetch(_Hottest(frame, settings), "looking for the hottest bundles")
    return top_bundles(_with(frame, found), settings)


@dataclass(frozen=True, eq=False)
class _Hottest:
    """Keeps the hottest bundles of each broker, of some of its bundles.

    Attributes:
        frame: Brokers, policies, and the namespaces that have a group.
        settings: What brokers publish by.
    """

    frame: PulsarSnapshot
    settings: EffectiveSettings

    def __call__(self, rows: pa.Table) -> pa.Table:
        ways = [column_values(rows, f"msg_throughput_{way}") for way in ("in", "out")]
        view = LoadView.of(_with(self.frame, rows), self.settings)
        listed, _, _ = hottest(view, self.settings, ways)
        return rows.take(pa.array(np.sort(listed)))


def _with(frame: PulsarSnapshot, rows: pa.Table) -> PulsarSnapshot:
    bundles = rows.drop_columns([OWN, NAMED, CODE, ROW])
    return PulsarSnapshot.build(frame.manifest, {**frame.tables, "bundles": bundles})
