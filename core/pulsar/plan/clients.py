"""What an unload costs the clients: who reconnects, what is closed and what is lost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from core.units import format_bytes_per_s, format_msgs_per_s, pluralize

_COLUMNS = ("producer_count", "consumer_count", "topic_count", "cache_size_bytes")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientImpact:
    """Sums over bundles; ``None`` where one of them is unknown.

    Attributes:
        bundles: How many bundles.
        producers: Producers that reconnect.
        consumers: Consumers that reconnect.
        topics: Topics that are closed and opened again.
        cache_bytes: Cached entries that are dropped and read from the bookies again.
        msg_rate_msgs_per_s: In plus out, interrupted for the time of the move.
        throughput_bytes_per_s: In plus out.
    """

    bundles: int
    producers: int | None
    consumers: int | None
    topics: int | None
    cache_bytes: int | None
    msg_rate_msgs_per_s: float | None
    throughput_bytes_per_s: float | None

    @property
    def clients(self) -> int | None:
        """Producers plus consumers."""
        if self.producers is None or self.consumers is None:
            return None
        return self.producers + self.consumers

    def sentence(self) -> str:
        """Return the cost in one sentence."""
        if self.clients is None:
            return "How many clients reconnect is unknown: the bundles' statistics are missing."
        topics = (
            "an unknown number of topics"
            if self.topics is None
            else pluralize(self.topics, "topic")
        )
        producers = pluralize(self.producers or 0, "producer")
        consumers = pluralize(self.consumers or 0, "consumer")
        return (
            f"{pluralize(self.clients, 'client')} reconnect ({producers}, {consumers}) and "
            f"{topics} close and open again; {format_msgs_per_s(self.msg_rate_msgs_per_s)}, "
            f"{format_bytes_per_s(self.throughput_bytes_per_s)} move."
        )


def client_impact(bundles: pa.Table, rows: Sequence[int] | NDArray[np.int64]) -> ClientImpact:
    """Add up what unloading some bundles costs.

    Args:
        bundles: Table of :data:`core.schemas.pulsar.BUNDLES`.
        rows: Rows of the bundles that are unloaded, each once.
    """
    chosen = bundles.take(pa.array(rows, pa.int64()))
    counts = {name: _whole_sum(chosen[name]) for name in _COLUMNS}
    rate = [_sum(chosen[f"msg_rate_{direction}"]) for direction in ("in", "out")]
    throughput = [_sum(chosen[f"msg_throughput_{direction}"]) for direction in ("in", "out")]
    return ClientImpact(
        bundles=chosen.num_rows,
        producers=counts["producer_count"],
        consumers=counts["consumer_count"],
        topics=counts["topic_count"],
        cache_bytes=counts["cache_size_bytes"],
        msg_rate_msgs_per_s=_both(rate),
        throughput_bytes_per_s=_both(throughput),
    )


def _sum(column: pa.ChunkedArray) -> float | None:
    if column.null_count:
        return None
    return float(np.sum(column.to_numpy())) if len(column) else 0.0


def _whole_sum(column: pa.ChunkedArray) -> int | None:
    total = _sum(column)
    return None if total is None else round(total)


def _both(parts: Sequence[float | None]) -> float | None:
    known = [part for part in parts if part is not None]
    return sum(known) if len(known) == len(parts) else None
