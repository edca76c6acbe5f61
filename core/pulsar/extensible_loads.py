"""What brokers of the extensible manager publish, as columns over a view's broker rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from core.pulsar.liveness import liveness_of
from core.pulsar.settings import effective_settings
from core.pulsar.snapshot.znodes.assemble import EXTENSIBLE_LACKS
from core.snapshot import PulsarSnapshot
from core.units import datetime_to_ms

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class TopBundle:
    """One of the hottest bundles of a broker.

    Attributes:
        bundle: Name.
        throughput: bytes/s, in + out, as the broker published it.
        is_owned: Whether that broker owns it still; true if unknown.
    """

    bundle: str
    throughput: float
    is_owned: bool


@dataclass(frozen=True, kw_only=True, eq=False)
class ExtensibleLoads:
    """Published loads; arrays are per broker row.

    Attributes:
        has_load: Whether a record of the broker was read that is its load; not where it is dead.
            Strategies skip old records of living brokers themselves.
        usage: Its own smoothed weighted maximum, ratio; 0 where unknown.
        throughput_ema: bytes/s, smoothed by the broker.
        throughput: bytes/s in + out, as measured last.
        topics: Topics that the record counts.
        updated_at_ms: When the record was made.
        taken_at_ms: When the snapshot was taken.
        top: Hottest bundles by broker id, the coldest first; brokers that published none are
            absent, a broker may have published an empty list.
    """

    has_load: Flags
    usage: Floats
    throughput_ema: Floats
    throughput: Floats
    topics: Ints
    updated_at_ms: Ints
    taken_at_ms: int
    top: Mapping[str, tuple[TopBundle, ...]]

    @classmethod
    def of(cls, snapshot: PulsarSnapshot) -> ExtensibleLoads | None:
        """Lay out a snapshot's records; ``None`` if they were not read.

        A cluster of the extensible manager whose topics were read may have none.
        """
        loads = snapshot.broker_loads
        manifest = snapshot.manifest
        was_read = manifest.load_manager == "extensible" and EXTENSIBLE_LACKS not in (
            manifest.unavailable
        )
        if not loads.num_rows and not was_read:
            return None
        brokers = snapshot.brokers
        rows = pc.index_in(
            brokers.column("broker"), value_set=loads.column("broker").combine_chunks()
        )
        smoothed = loads.column("weighted_max_ema").combine_chunks().take(rows)
        dead = pa.array([*liveness_of(snapshot, effective_settings(snapshot)).dead], pa.string())
        is_dead = pc.is_in(brokers.column("broker").combine_chunks(), value_set=dead)
        has_load = pc.and_not(smoothed.is_valid(), is_dead)
        return cls(
            has_load=np.asarray(has_load.to_numpy(zero_copy_only=False), np.bool_),
            usage=_floats(smoothed),
            throughput_ema=_floats(loads.column("msg_throughput_ema").combine_chunks().take(rows)),
            throughput=_floats(brokers.column("msg_throughput_in"))
            + _floats(brokers.column("msg_throughput_out")),
            topics=_floats(brokers.column("topic_count")).astype(np.int64),
            updated_at_ms=_whole(loads.column("updated_at").combine_chunks().take(rows)),
            taken_at_ms=datetime_to_ms(snapshot.manifest.taken_at),
            top=_top(snapshot),
        )


def _floats(column: pa.Array | pa.ChunkedArray) -> Floats:
    filled = pc.fill_null(column, 0)
    return np.asarray(filled.to_numpy(zero_copy_only=False), np.float64)


def _whole(column: pa.Array | pa.ChunkedArray) -> Ints:
    filled = pc.fill_null(column, 0)
    return np.asarray(filled.to_numpy(zero_copy_only=False), np.int64)


def _top(snapshot: PulsarSnapshot) -> dict[str, tuple[TopBundle, ...]]:
    hot = snapshot.top_bundles
    if not hot.num_rows:
        return {}
    bundles = snapshot.bundles
    rows = pc.index_in(hot.column("bundle"), value_set=bundles.column("bundle").combine_chunks())
    owners = bundles.column("owner").combine_chunks().take(rows).to_pylist()
    sources = bundles.column("owner_source").combine_chunks().take(rows).to_pylist()
    found: dict[str, list[TopBundle]] = {}
    flow = _floats(hot.column("msg_throughput_in")) + _floats(hot.column("msg_throughput_out"))
    ordered = hot.select(["broker", "position", "bundle"]).to_pylist()
    for row in sorted(range(hot.num_rows), key=lambda at: _place(ordered, at)):
        broker = ordered[row]["broker"]
        is_owned = owners[row] == broker or (owners[row] is None and sources[row] is None)
        found.setdefault(broker, []).append(
            TopBundle(ordered[row]["bundle"], float(flow[row]), is_owned)
        )
    return {broker: tuple(entries) for broker, entries in found.items()}


def _place(rows: Sequence[Mapping[str, Any]], at: int) -> tuple[str, int]:
    return rows[at]["broker"], rows[at]["position"]
