"""The tables of simulated rounds of the Pegasus balancer, for jobs and ``--out``."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

BALANCES: Final = pa.schema(
    [
        pa.field("policy", pa.string(), nullable=False),
        pa.field("rounds", pa.int64(), nullable=False),
        pa.field("is_converged", pa.bool_(), nullable=False),
        pa.field("plans", pa.int64(), nullable=False),
        pa.field("primaries_std_before", pa.float64()),
        pa.field("primaries_std_after", pa.float64()),
        pa.field("replicas_std_before", pa.float64()),
        pa.field("replicas_std_after", pa.float64()),
        pa.field("assumed", pa.string(), nullable=False),  # switches the cluster did not report
    ]
)
"""One row a cluster."""

PLANS: Final = pa.schema(
    [
        pa.field("round", pa.int64(), nullable=False),
        pa.field("gpid", pa.string(), nullable=False),
        pa.field("kind", pa.string(), nullable=False),
        pa.field("source", pa.string(), nullable=False),
        pa.field("target", pa.string(), nullable=False),
    ]
)
"""One row a partition that changes, in the order of the plans."""
