"""Flaps of recorded clusters, one after the other in this process."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from core.history.analysis.flaps.flaps import EVENT_COLUMNS, FlapAnswer, flap_answer, flaps_of
from core.history.analysis.requests import FlapsRequest, RecordScope
from core.history.analysis.trends.job import chosen_clusters
from core.history.analysis.trends.trends import READS, WRITES, minutes_of
from core.progress import Progress

if TYPE_CHECKING:
    from core.history.store.store import HistoryStore

FLOW_COLUMNS: Final = ("broker", "taken_at", "msg_throughput_in", "msg_throughput_out")
NODE_FLOW_COLUMNS: Final = ("node", "taken_at", "is_alive", *READS, *WRITES)


def flaps_here(
    store: HistoryStore, request: FlapsRequest, scope: RecordScope, progress: Progress
) -> FlapAnswer:
    """Return the flaps of recorded clusters.

    Raises:
        UnknownNameError: A cluster that was not recorded.
        HistoryError: Nothing is recorded, or it cannot be read.
        JobStoppedError: Somebody asked for it to stop.
    """
    names = chosen_clusters(store, scope.clusters)
    parts = []
    for done, name in enumerate(names):
        progress.step(done, len(names), f"flaps of {name}")
        span = (name, scope.start, scope.end)
        events = store.rows("events", *span, columns=EVENT_COLUMNS)
        brokers = store.rows("brokers", *span, columns=FLOW_COLUMNS)
        nodes = store.rows("nodes", *span, columns=NODE_FLOW_COLUMNS)
        minutes = minutes_of(brokers) if brokers.num_rows else node_minutes(nodes)
        parts.append((name, flaps_of(events, minutes, request, scope.minute_s)))
    progress.step(len(names), len(names), "flaps")
    return flap_answer(parts)


def node_minutes(nodes: pa.Table) -> pa.Table:
    """Return a Pegasus cluster minute by minute: what its living nodes serve is their flow."""
    alive = nodes.filter(nodes["is_alive"])
    served = np.zeros(alive.num_rows)
    for name in (*READS, *WRITES):
        served += np.nan_to_num(np.asarray(alive[name].cast(pa.float64()).to_numpy(), np.float64))
    return minutes_of(
        pa.table(
            {
                "broker": alive["node"],
                "taken_at": alive["taken_at"],
                "msg_throughput_in": served,
                "msg_throughput_out": np.zeros(alive.num_rows),
            }
        )
    )
