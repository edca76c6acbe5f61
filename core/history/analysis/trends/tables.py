"""The tables that trends are answered with."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from core.history.analysis.trends.trends import LAST, TRENDS

_CLUSTER: Final = pa.field("cluster", pa.string(), nullable=False)

OF_CLUSTERS: Final = pa.schema([_CLUSTER, *TRENDS])
"""Table of trends with the cluster in front."""

LAST_OF_CLUSTERS: Final = pa.schema([_CLUSTER, *LAST])

GAPS: Final = pa.schema(
    [
        _CLUSTER,
        pa.field("kind", pa.string(), nullable=False),  # broker | node
        pa.field("starts_at", pa.int64(), nullable=False, metadata={"unit": "ms"}),
        pa.field("busiest", pa.string(), nullable=False),
        pa.field("busiest_flow", pa.float64(), nullable=False),
        pa.field("idlest", pa.string(), nullable=False),
        pa.field("idlest_flow", pa.float64(), nullable=False),
        pa.field("gap", pa.float64(), nullable=False),
        pa.field("deviation", pa.float64(), metadata={"unit": "ratio"}),
        pa.field("deviation_p95", pa.float64(), metadata={"unit": "ratio"}),
        pa.field("deviation_max", pa.float64(), metadata={"unit": "ratio"}),
        pa.field("uneven_share", pa.float64(), metadata={"unit": "ratio"}),
    ]
)
"""One row a period: the broker (node) with the highest and the lowest mean flow in it, bytes/s
(requests/s), and the max deviation from the mean, by minute."""

MOVERS: Final = pa.schema(
    [
        _CLUSTER,
        pa.field("kind", pa.string(), nullable=False),
        pa.field("subject", pa.string(), nullable=False),
        pa.field("before", pa.float64(), nullable=False),
        pa.field("after", pa.float64(), nullable=False),
        pa.field("change", pa.float64(), nullable=False),
        pa.field("change_ratio", pa.float64(), metadata={"unit": "ratio"}),
    ]
)
"""Whose mean flow changed most from the first half of the time to the second, largest change
first; ``change_ratio`` is null where there was none before."""

HOT: Final = pa.schema(
    [
        _CLUSTER,
        pa.field("kind", pa.string(), nullable=False),
        pa.field("subject", pa.string(), nullable=False),
        pa.field("mean", pa.float64(), nullable=False),
        pa.field("max", pa.float64(), nullable=False),
        pa.field("worst_p95", pa.float64(), nullable=False),
        pa.field("share", pa.float64(), nullable=False, metadata={"unit": "ratio"}),
        pa.field("topic_count", pa.int64()),
    ]
)
"""Bundles and tables with the most flow; ``share`` of all of their cluster's. ``worst_p95``: the
highest of all periods."""

NAMESPACES: Final = pa.schema(
    [
        _CLUSTER,
        pa.field("namespace", pa.string(), nullable=False),
        pa.field("bundles", pa.int64(), nullable=False),
        pa.field("topics", pa.int64(), nullable=False),
        pa.field("topics_mean", pa.float64(), nullable=False),
        pa.field("topics_max", pa.int64(), nullable=False),
        pa.field("flow", pa.float64(), nullable=False, metadata={"unit": "bytes/s"}),
        pa.field("flow_max", pa.float64(), nullable=False, metadata={"unit": "bytes/s"}),
        pa.field("largest_share", pa.float64(), metadata={"unit": "ratio"}),
    ]
)
"""Topics and throughput per bundle, by namespace, as its bundles were when last seen;
``largest_share``: of the namespace's throughput in its busiest bundle."""
