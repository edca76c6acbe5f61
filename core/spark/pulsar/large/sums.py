"""Kernels over parts of a large cluster's bundles: which are wanted, and their sums by broker."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from core.pulsar.bundle_counts import Ints
from core.pulsar.java.maps import spread_hashes
from core.pulsar.settings import EffectiveSettings
from core.pulsar.shedding.basis import SheddingBasis
from core.pulsar.view import LoadView
from core.snapshot import PulsarSnapshot
from core.spark.lift import Kernel
from core.spark.pulsar.large.scan import CODE, NAMED, OWN, ROW

RATES: Final = tuple(
    f"{term}{kind}_{direction}"
    for term in ("", "short_", "long_")
    for kind in ("msg_rate", "msg_throughput")
    for direction in ("in", "out")
)
TOTALED: Final = ("is_broker_bound", "topic_count", *RATES)
"""Columns that sums and counts are made of."""

_OWN_COLUMNS: Final = (ROW, CODE, OWN, NAMED, "group")


TOTALS: Final = pa.schema(
    [
        pa.field(CODE, pa.int32()),  # row of the broker
        pa.field("reported", pa.int64()),  # bundles in its report
        pa.field("measured", pa.int64()),
        pa.field("movable", pa.int64()),
        pa.field("long_rate", pa.float64(), metadata={"unit": "msgs/s"}),
        pa.field("fresh", pa.int64()),  # without a stored long-term rate
        pa.field("fresh_rate", pa.float64(), metadata={"unit": "msgs/s"}),
    ]
)
"""One row a broker that reports bundles."""


PAIRS: Final = pa.schema(
    [
        pa.field("namespace", pa.string(), nullable=False),
        pa.field(CODE, pa.int32(), nullable=False),
        pa.field("bundles", pa.int64(), nullable=False),
    ]
)
"""How many bundles of a namespace a broker has; those that have none are not there."""


HASH: Final = "hash"
KEYS: Final = pa.schema(
    [
        pa.field("bundle", pa.string(), nullable=False),
        pa.field(CODE, pa.int32(), nullable=False),
        pa.field(HASH, pa.int64(), nullable=False),  # Java's of the name, spread
    ]
)
"""Bundles that the leader's map of averages holds."""


OWNED: Final = pa.schema(
    [
        pa.field(OWN, pa.int32(), nullable=False),  # -1: no listed broker
        pa.field("bundles", pa.int64(), nullable=False),
        pa.field("unclear", pa.int64(), nullable=False),  # of unknown owner
    ]
)
"""Movable bundles by owner."""


def owned(part: pa.Table) -> pa.Table:
    """Count the movable bundles of one part by owner; table of :data:`OWNED`."""
    movable = part.filter(pc.invert(part["is_broker_bound"]))
    is_unclear = pc.and_(pc.is_null(movable["owner"]), pc.is_null(movable["owner_source"]))
    rows = movable.select([OWN]).append_column("is_unclear", is_unclear)
    counts = rows.group_by(OWN).aggregate([([], "count_all"), ("is_unclear", "sum")])
    return counts.rename_columns(OWNED.names).cast(OWNED)


@dataclass(frozen=True)
class Pairs:
    """Counts the bundles of some namespaces by broker, in one part.

    Attributes:
        namespaces: Their names.
    """

    namespaces: tuple[str, ...]

    def __call__(self, part: pa.Table) -> pa.Table:
        """Return :data:`PAIRS` of the part."""
        names = pa.array(self.namespaces, pa.string())
        wanted = pc.and_(
            pc.is_in(part["namespace"], value_set=names), pc.greater_equal(part[CODE], 0)
        )
        rows = part.select(["namespace", CODE]).filter(wanted)
        one_each = pa.array(np.ones(rows.num_rows, np.int64))
        return added_up([rows.append_column(PAIRS.field("bundles"), one_each).cast(PAIRS)])


def added_up(pairs: Iterable[pa.Table]) -> pa.Table:
    """Return :data:`PAIRS` of several tables of them together."""
    whole = pa.concat_tables([PAIRS.empty_table(), *pairs])
    summed = whole.group_by(["namespace", CODE]).aggregate([("bundles", "sum")])
    counted = summed.rename_columns(PAIRS.names).cast(PAIRS)
    return counted.filter(pc.greater(counted["bundles"], 0))


@dataclass(frozen=True, eq=False)
class BundleFilter:
    """Selects the bundles that match any of the criteria.

    Attributes:
        codes: Counted for one of these brokers.
        bundles: By name.
        namespaces: All of these.
        leader: Owned by this broker and counted for no broker; -1: not selected.
        owners: Owned by one of these brokers.
    """

    codes: tuple[int, ...] = ()
    bundles: tuple[str, ...] = ()
    namespaces: tuple[str, ...] = ()
    leader: int = -1
    owners: tuple[int, ...] = ()

    def __call__(self, part: pa.Table) -> pa.Table:
        """Keep them."""
        code = part[CODE].to_numpy()
        selected = np.isin(code, self.codes) | np.isin(part[OWN].to_numpy(), self.owners)
        for name, values in (("bundle", self.bundles), ("namespace", self.namespaces)):
            if values:
                found = pc.is_in(part[name], value_set=pa.array(values, pa.string()))
                selected |= found.to_numpy(zero_copy_only=False)
        if self.leader >= 0:
            is_bound = part["is_broker_bound"].to_numpy(zero_copy_only=False)
            selected |= (part[OWN].to_numpy() == self.leader) & (code < 0) & ~is_bound
        return part.filter(pa.array(selected))


@dataclass(frozen=True, eq=False)
class MapKeys:
    """Selects which bundles of a part the leader's map of averages holds.

    Attributes:
        frame: Manifest and policies.
        shared: Keeps some of :data:`KEYS`.
    """

    frame: PulsarSnapshot
    shared: Kernel

    def __call__(self, part: pa.Table) -> pa.Table:
        """Return :data:`KEYS`."""
        rows = part.filter(pc.greater_equal(part[CODE], 0))
        _, view = view_of_group(self.frame, rows, has_names=False)
        rows = rows.select(["bundle", CODE]).filter(pa.array(view.is_measured))
        hashes = spread_hashes(rows["bundle"].to_pylist())
        return self.shared(rows.append_column(HASH, pa.array(hashes, pa.int64())).cast(KEYS))


@dataclass(frozen=True)
class ByBroker:
    """Deals out brokers, those of neighbouring rows to different groups."""

    groups: int

    def __call__(self, rows: pa.Table) -> Ints:
        """Return the group of each row; those counted for no broker go to any."""
        code = rows[CODE].to_numpy().astype(np.int64)
        if (code < 0).any():
            code = np.where(code < 0, rows[ROW].to_numpy(), code)
        return np.asarray(code % self.groups, np.int64)


@dataclass(frozen=True, eq=False)
class ReportedSums:
    """Sums over each reported bundle, by the decision view.

    Attributes:
        frame: Manifest and policies.
        has_names: Whether names are included.
    """

    frame: PulsarSnapshot
    has_names: bool

    def __call__(self, part: pa.Table) -> pa.Table:
        """Return a row a bundle, in their order."""
        rows = part.filter(pc.greater_equal(part[CODE], 0))
        _, view = view_of_group(self.frame, rows, has_names=self.has_names)
        basis = SheddingBasis.of(view)
        return pa.table(
            {
                CODE: rows[CODE],
                "is_measured": basis.is_measured,
                "is_movable": basis.is_movable,
                "is_fresh": pc.is_null(rows["long_msg_rate_in"]),
                "long_rate": view.bundle_long_rate,
                "rate": view.bundle_msg_rate,
            }
        )


def totaled(rows: pa.Table) -> pa.Table:
    """Sum up what :class:`ReportedSums` gives, by broker; all rows of each are there, in order."""
    codes, local = np.unique(rows[CODE].to_numpy(), return_inverse=True)
    flags = {
        name: rows[f"is_{name}"].to_numpy(zero_copy_only=False)
        for name in ("measured", "movable", "fresh")
    }
    counts = {
        name: np.bincount(local[is_one], minlength=codes.size) for name, is_one in flags.items()
    }
    fresh, rate = flags["fresh"], rows["rate"].to_numpy()
    return pa.table(
        {
            CODE: codes.astype(np.int32),
            "reported": np.bincount(local, minlength=codes.size),
            "measured": counts["measured"],
            "movable": counts["movable"],
            "long_rate": np.bincount(
                local, weights=rows["long_rate"].to_numpy(), minlength=codes.size
            ),
            "fresh": counts["fresh"],
            "fresh_rate": np.bincount(local[fresh], weights=rate[fresh], minlength=codes.size),
        },
        schema=TOTALS,
    )


def view_of_group(
    frame: PulsarSnapshot, group: pa.Table, *, has_names: bool
) -> tuple[np.ndarray, LoadView]:
    """Return the view of the bundles of some brokers, and which rows of the whole those are.

    Args:
        frame: Manifest and policies.
        group: Bundles, all of them with a broker that counts them, in row order.
        has_names: Whether their names are included.
    """
    codes, local = np.unique(group[CODE].to_numpy(), return_inverse=True)
    names = np.array([f"{code:08d}" for code in codes.tolist()], object)
    count = group.num_rows
    brokers = pa.table(
        {
            "broker": pa.array(names, pa.string()),
            "is_leader": np.zeros(codes.size, np.bool_),
            "msg_rate_in": np.zeros(codes.size),  # a report is there
        }
    )
    blank = pa.array([""], pa.string()).take(pa.array(np.zeros(count, np.int64)))
    whole = {name: group[name] for name in group.column_names if name not in _OWN_COLUMNS}
    whole |= {
        "bundle": group["bundle"] if has_names else blank,
        "namespace": group["namespace"] if "namespace" in group.column_names else blank,
        "lower": np.zeros(count, np.int64),
        "upper": np.ones(count, np.int64),
        "reported_by": pa.array(names[local], pa.string()),
    }
    tables = {**frame.tables, "brokers": brokers, "bundles": pa.table(whole)}
    snapshot = PulsarSnapshot.build(frame.manifest, tables)
    return codes.astype(np.int32), LoadView.of(snapshot, EffectiveSettings.defaults())
