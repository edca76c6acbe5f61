"""The tables that a back-test answers with, the same for Pulsar and for Pegasus.

Null means unknown, or not of this kind of cluster. Ratios are 0..1, throughputs bytes/s, times
milliseconds since the epoch UTC. "A day" is a day of the cluster's own minutes.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa

METRICS: Final = (
    "deviation_mean",
    "deviation_p95",
    "deviation_max",
    "minutes_over_ratio",
    "unloads_per_day",
    "moved_bytes_per_s_per_day",
    "client_cuts_per_day",
    "ping_pongs_per_day",
    "splits_per_day",
    "unowned_s_per_day",
)
"""What candidates are compared by; the less the better, all of them."""


def _field(name: str, kind: pa.DataType, unit: str = "", *, nullable: bool = True) -> pa.Field:
    return pa.field(name, kind, nullable=nullable, metadata={"unit": unit} if unit else None)


_UNIT: Final = [
    _field("cluster", pa.string(), nullable=False),
    _field("window", pa.int64(), nullable=False),
    _field("candidate_number", pa.int64(), nullable=False),  # 0: as recorded
    _field("candidate", pa.string(), nullable=False),  # its label
    _field("seed", pa.int64(), nullable=False),
]

_WHAT: Final = [
    _field("is_record", pa.bool_(), nullable=False),
    _field("shedding", pa.string()),  # class name | none; of Pegasus: the policy
    _field("placement", pa.string()),
    _field("settings", pa.string(), nullable=False),  # JSON: upstream key to value
]

RUNS: Final = pa.schema(
    [
        *_UNIT,
        *_WHAT,
        _field("start", pa.int64(), "ms", nullable=False),
        _field("end", pa.int64(), "ms", nullable=False),
        _field(
            "minutes", pa.int64(), "min", nullable=False
        ),  # simulated, in minutes of the cluster
        _field("days", pa.float64(), "days", nullable=False),
        _field("deviation_mean", pa.float64(), "ratio"),
        _field("deviation_p95", pa.float64(), "ratio"),
        _field("deviation_max", pa.float64(), "ratio"),
        _field("minutes_over", pa.int64(), "min"),  # max deviation of a node above 20%
        _field("minutes_over_ratio", pa.float64(), "ratio"),
        _field("rounds", pa.int64()),  # in which something was unloaded
        _field("unloads", pa.int64()),
        _field("unloads_per_day", pa.float64()),
        _field("moved_bytes_per_s", pa.float64(), "bytes/s"),  # traffic of what moved, summed
        _field("moved_bytes_per_s_per_day", pa.float64(), "bytes/s"),
        _field("client_cuts", pa.int64()),  # producers and consumers that had to reconnect
        _field("client_cuts_per_day", pa.float64()),
        _field("ping_pongs", pa.int64()),  # back to where it had been
        _field("ping_pongs_per_day", pa.float64()),
        _field("splits", pa.int64()),
        _field("splits_per_day", pa.float64()),
        _field("unowned_s", pa.float64(), "s"),  # bundles without owner, summed
        _field("unowned_s_per_day", pa.float64(), "s"),
        _field("placed_again", pa.int64()),  # after their broker went; no unloads
        _field("details", pa.string()),  # JSON: what only one kind of cluster has
        _field("problem", pa.string()),  # why it could not be simulated; every score is null then
    ]
)
"""One row a unit."""

CANDIDATES: Final = pa.schema(
    [
        _field("cluster", pa.string()),  # null: all clusters together
        _field(
            "rank", pa.int64()
        ),  # from 1; null: it is only compared with, or could not be simulated
        _field("candidate_number", pa.int64(), nullable=False),
        _field("candidate", pa.string(), nullable=False),
        *_WHAT,
        _field("meets_target", pa.bool_(), nullable=False),
        _field("is_pareto", pa.bool_(), nullable=False),  # none is better in both axes
        _field("runs", pa.int64(), nullable=False),
        _field("seeds", pa.int64(), nullable=False),
        _field("minutes", pa.int64(), "min", nullable=False),  # of one seed
        *[
            _field(f"{name}{suffix}", pa.float64())
            for name in METRICS
            for suffix in ("", "_low", "_high")  # mean over seeds, and the range over seeds
        ],
        _field("sentence", pa.string(), nullable=False),
        _field("problem", pa.string()),
        _field("outcome", pa.string()),  # simulated on the last recorded minute; null: it was not
        _field("is_rejected", pa.bool_()),  # it does not converge there, or ends less even
        _field("converged_moves", pa.int64()),
        _field("converged_returned", pa.int64()),  # of these, back to where it had been
        _field("converged_deviation", pa.float64(), "ratio"),
        _field("converges", pa.bool_()),
        _field("placed_again", pa.int64()),  # after their server was lost; no unloads, one seed
    ]
)
"""One row a candidate and cluster, best first, what really happened in its place in that order."""

TIMELINE: Final = pa.schema(
    [
        *_UNIT,
        _field("taken_at", pa.int64(), "ms", nullable=False),
        _field("deviation", pa.float64(), "ratio"),
        _field("farthest", pa.string()),  # node of the deviation
        _field("nodes", pa.int64(), nullable=False),
        _field("unloads", pa.int64(), nullable=False),
        _field("moved_bytes_per_s", pa.float64(), "bytes/s"),
        _field("client_cuts", pa.int64()),
        _field("splits", pa.int64(), nullable=False),
    ]
)
"""One row a simulated minute."""

MOVES: Final = pa.schema(
    [
        *_UNIT,
        _field("taken_at", pa.int64(), "ms", nullable=False),
        _field("subject", pa.string(), nullable=False),  # bundle; gpid
        _field("source", pa.string()),
        _field("destination", pa.string()),
        _field("kind", pa.string(), nullable=False),  # unload, placed again, split, or Pegasus' own
        _field("moved_bytes_per_s", pa.float64(), "bytes/s"),
        _field("clients", pa.int64()),
    ]
)
"""One row a bundle or replica that went somewhere else."""

RECOMMENDED: Final = pa.schema(
    [
        _field("cluster", pa.string(), nullable=False),
        _field("candidate", pa.string(), nullable=False),
        _field("key", pa.string(), nullable=False),  # upstream name
        _field("old", pa.string()),  # JSON
        _field("new", pa.string(), nullable=False),  # JSON
        _field("is_dynamic", pa.bool_(), nullable=False),
        _field("takes_effect", pa.string(), nullable=False),  # at once | next round | restart
        _field("why", pa.string(), nullable=False),
        _field(
            "verdict", pa.string(), nullable=False
        ),  # recommended | how far it misses the target
    ]
)
"""What to change on a cluster to have its best candidate; no row: nothing is better."""

RESULT_TABLES: Final[dict[str, pa.Schema]] = {
    "runs": RUNS,
    "candidates": CANDIDATES,
    "timeline": TIMELINE,
    "moves": MOVES,
    "recommended": RECOMMENDED,
}
