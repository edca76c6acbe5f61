"""What an unload costs the clients: who reconnects, what is closed and what is lost."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from core.arrays import column_values
from core.schemas.pulsar import RATES
from core.units import format_bytes_per_s, format_msgs_per_s, pluralize

_COLUMNS = ("producer_count", "consumer_count", "topic_count", "cache_size_bytes")
_SUMMED = [*_COLUMNS, *RATES]


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
            return (
                "The number of clients that reconnect is unknown: the bundles' "
                "statistics are missing."
            )
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


_NOTHING: Final = ClientImpact(
    bundles=0,
    producers=0,
    consumers=0,
    topics=0,
    cache_bytes=0,
    msg_rate_msgs_per_s=0.0,
    throughput_bytes_per_s=0.0,
)


def client_impact(bundles: pa.Table, rows: Sequence[int] | NDArray[np.int64]) -> ClientImpact:
    """Add up what unloading some bundles costs.

    Args:
        bundles: Table of :data:`core.schemas.pulsar.BUNDLES`.
        rows: Rows of the bundles that are unloaded, each once.
    """
    chosen = bundles.select(_SUMMED).take(pa.array(rows, pa.int64()))
    return client_impact_of(partial(column_values, chosen), np.arange(chosen.num_rows))


def client_impact_of(
    column: Callable[[str], NDArray[np.float64]], rows: NDArray[np.int64]
) -> ClientImpact:
    """Add up the same.

    Args:
        column: Returns a column of the bundles by its name; NaN where unknown.
        rows: Rows of the bundles that are unloaded, each once.
    """
    if not rows.size:
        return _NOTHING
    counts = {name: _whole_sum(column(name)[rows]) for name in _COLUMNS}
    rate = [_sum(column(f"msg_rate_{direction}")[rows]) for direction in ("in", "out")]
    throughput = [_sum(column(f"msg_throughput_{direction}")[rows]) for direction in ("in", "out")]
    return ClientImpact(
        bundles=rows.size,
        producers=counts["producer_count"],
        consumers=counts["consumer_count"],
        topics=counts["topic_count"],
        cache_bytes=counts["cache_size_bytes"],
        msg_rate_msgs_per_s=_both(rate),
        throughput_bytes_per_s=_both(throughput),
    )


def _sum(values: NDArray[np.float64]) -> float | None:
    total = float(np.sum(values))
    return None if math.isnan(total) else total


def _whole_sum(values: NDArray[np.float64]) -> int | None:
    total = _sum(values)
    return None if total is None else round(total)


def _both(parts: Sequence[float | None]) -> float | None:
    known = [part for part in parts if part is not None]
    return sum(known) if len(known) == len(parts) else None
