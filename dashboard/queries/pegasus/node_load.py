"""Balance and load of the nodes of a Pegasus cluster over time, as recorded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from core.errors import SnapshotError
from core.history.queries.sql import Period
from core.pegasus.record import PEGASUS_RECORD
from dashboard.presenters.pegasus.cluster import NodeTrends
from dashboard.queries.cache import cached
from dashboard.queries.history import ClusterHistory, history_of

if TYPE_CHECKING:
    from dashboard.services import Cluster, Config

Floats = NDArray[np.float64]

MAX_POINTS: Final = 60
_POINTS_OF_NODE: Final = 24
"""Of a sparkline in a table; more are not seen."""


_RECORDED: Final = {} if PEGASUS_RECORD.servers is None else PEGASUS_RECORD.servers.measures
_COLUMNS: Final = tuple(
    f"{_RECORDED[name]} AS {name}" for name in ("primaries", "replicas", "requests")
)


def _trends(key: tuple[ClusterHistory, Period]) -> NodeTrends:
    history, period = key
    rows = history.queries().servers_over(period, _COLUMNS, MAX_POINTS)
    if not rows.num_rows:
        return NodeTrends()
    _, places = np.unique(rows["taken_at"].to_numpy(), return_inverse=True)
    moments = places.astype(np.intp)
    primaries, replicas, requests = (
        rows[name].to_numpy(zero_copy_only=False).astype(np.float64)
        for name in ("primaries", "replicas", "requests")
    )
    return NodeTrends(
        primaries=_known(_deviations(moments, primaries)),
        replicas=_known(_deviations(moments, replicas)),
        requests=_known(np.bincount(moments, weights=np.nan_to_num(requests)).astype(np.float64)),
        of_node=_of_node(rows["node"].to_numpy(zero_copy_only=False), moments, requests),
    )


def _of_node(
    names: NDArray[np.object_], moments: NDArray[np.intp], values: Floats
) -> dict[str, tuple[float, ...]]:
    """Return the known values of each node, oldest first, at a few of the moments."""
    nodes, places = np.unique(names.astype(str), return_inverse=True)
    grid = np.full((nodes.size, int(moments.max()) + 1), np.nan)
    grid[places, moments] = values
    step = -(-grid.shape[1] // _POINTS_OF_NODE)
    thinned = grid[:, ::-step][:, ::-1]
    return {
        str(node): tuple(line[np.isfinite(line)].tolist())
        for node, line in zip(nodes.tolist(), thinned, strict=True)
    }


def _deviations(moments: NDArray[np.intp], counts: Floats) -> Floats:
    """Return the max deviation from the mean at each moment, of the nodes that reported."""
    is_reported = np.isfinite(counts)
    reported, size = moments[is_reported], int(moments.max()) + 1
    sums = np.bincount(reported, weights=counts[is_reported], minlength=size)
    mean = np.where(sums > 0, sums, np.nan) / np.maximum(np.bincount(reported, minlength=size), 1)
    max_deviation = np.zeros(size)
    np.maximum.at(max_deviation, reported, np.abs(counts[is_reported] - mean[reported]))
    return max_deviation / mean


def _known(values: Floats) -> tuple[float, ...]:
    return tuple(values.tolist()) if np.isfinite(values).all() else ()


_of_history = cached(_trends, max_entries=8)


def node_trends(config: Config, cluster: Cluster, period: Period) -> NodeTrends:
    """Return the load of the nodes over a period, at about :data:`MAX_POINTS` recorded minutes."""
    try:
        return _of_history((history_of(config, cluster), period))
    except SnapshotError:
        return NodeTrends()  # the History page says why
