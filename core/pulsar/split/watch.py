"""How near each bundle of a fleet is to an automatic split: all bundles at once, nearest first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from core.pulsar.quotas import known_sum
from core.pulsar.settings import EffectiveSettings
from core.pulsar.split.algorithms import Floats, SplitLimits
from core.pulsar.split.rates import compared_rates
from core.snapshot import PulsarSnapshot

MEASURES: Final = ("topics", "sessions", "msg_rate", "throughput")
"""The limits in the order in which they are checked."""

NEAR_RATIO: Final = 0.7
"""From this share of a limit on a bundle is near it."""

WATCH: Final = pa.schema(
    [
        pa.field("bundle", pa.string(), nullable=False),
        pa.field("namespace", pa.string(), nullable=False),
        pa.field("owner", pa.string()),
        pa.field("topics", pa.float64()),
        pa.field("sessions", pa.float64()),
        pa.field("msg_rate", pa.float64(), metadata={"unit": "msgs/s"}),
        pa.field("throughput", pa.float64(), metadata={"unit": "bytes/s"}),
        pa.field("nearest", pa.string()),
        pa.field("ratio", pa.float64(), metadata={"unit": "ratio"}),
        pa.field("is_single", pa.bool_(), nullable=False),
    ]
)
"""One row a bundle. ``nearest``: the limit that it is nearest to (one of :data:`MEASURES`),
``ratio``: the share of it that is reached, above 1 when it is exceeded; null where nothing is
known. ``is_single``: fewer than two topics, so it is never split."""


def split_watch(
    snapshot: PulsarSnapshot, settings: EffectiveSettings, *, limit: int = 200
) -> pa.Table:
    """Return the bundles nearest to one of the four limits, as :data:`WATCH`.

    The rates are those that the next check compares. Bundles that belong to a broker are excluded.

    Args:
        snapshot: The cluster.
        limit: Rows at most.
    Cost:
        O(n_bundles), no Python loop.
    """
    bundles = snapshot.bundles
    limits = SplitLimits.of(settings)
    msgs_per_s, bytes_per_s = compared_rates(snapshot)
    values = {
        "topics": _floats(bundles, "topic_count"),
        "sessions": known_sum(bundles, "producer_count", "consumer_count"),
        "msg_rate": msgs_per_s,
        "throughput": bytes_per_s,
    }
    lines = (limits.topics, limits.sessions, limits.msgs_per_s, limits.bytes_per_s)
    ratios = np.stack(
        [
            values[name] / line if line > 0 else np.full(bundles.num_rows, np.nan)
            for name, line in zip(MEASURES, lines, strict=True)
        ]
    )
    known = np.where(np.isnan(ratios), -np.inf, ratios)
    best = known.max(axis=0, initial=-np.inf)
    free = ~np.asarray(bundles.column("is_broker_bound"), np.bool_)
    rows = np.flatnonzero(free)
    rows = rows[np.argsort(-best[rows], kind="stable")][:limit]
    shown = bundles.take(pa.array(rows))
    is_known = np.isfinite(best[rows])
    nearest = np.array(MEASURES, dtype=object)[known[:, rows].argmax(axis=0)]
    columns = {
        **{name: shown.column(name) for name in ("bundle", "namespace", "owner")},
        **{name: _nullable(column[rows]) for name, column in values.items()},
        "nearest": pa.array(nearest, pa.string(), mask=~is_known),
        "ratio": pa.array(np.where(is_known, best[rows], 0.0), mask=~is_known),
        "is_single": pa.array(values["topics"][rows] < 2),
    }
    return pa.Table.from_arrays([columns[name] for name in WATCH.names], schema=WATCH)


@dataclass(frozen=True, slots=True)
class OverLimit:
    """Bundles of a namespace over a limit of automatic splits, those furthest over it first.

    Attributes:
        splittable: Bundles that a split helps.
        single: Bundles with fewer than two topics, which are never split.
    """

    splittable: tuple[str, ...] = ()
    single: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.splittable) + len(self.single)


def over_limit(snapshot: PulsarSnapshot, settings: EffectiveSettings, namespace: str) -> OverLimit:
    """Return the bundles of a namespace that are over a limit of automatic splits."""
    watch = split_watch(snapshot, settings, limit=snapshot.bundles.num_rows)
    own = watch.filter(
        pc.and_(pc.equal(watch["namespace"], namespace), pc.greater(watch["ratio"], 1.0))
    )
    is_single = own["is_single"]
    return OverLimit(
        splittable=tuple(own.filter(pc.invert(is_single))["bundle"].to_pylist()),
        single=tuple(own.filter(is_single)["bundle"].to_pylist()),
    )


def _floats(table: pa.Table, name: str) -> Floats:
    return np.asarray(table.column(name).to_numpy(zero_copy_only=False), np.float64)


def _nullable(values: Floats) -> pa.Array:
    return pa.array(values, pa.float64(), mask=np.isnan(values))
