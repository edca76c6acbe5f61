"""The tables of a diagnosis, for jobs and ``--out``."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

DIAGNOSES: Final = pa.schema(
    [
        pa.field("answer", pa.string(), nullable=False),
        pa.field("causes", pa.int64(), nullable=False),
        pa.field("tried", pa.int64(), nullable=False),
        pa.field("untried", pa.int64(), nullable=False),
        pa.field("notes", pa.string(), nullable=False),
        pa.field("took_ms", pa.float64(), nullable=False, metadata={"unit": "ms"}),
    ]
)
"""One row a cluster."""

CAUSES: Final = pa.schema(
    [
        pa.field("rank", pa.int64(), nullable=False),
        pa.field("code", pa.string(), nullable=False),
        pa.field("summary", pa.string(), nullable=False),
        pa.field("keys", pa.string(), nullable=False),
        pa.field("objects", pa.string(), nullable=False),
        pa.field("hint", pa.string(), nullable=False),
        pa.field("fix", pa.string(), nullable=False),  # lines of a configuration, or JSON
        pa.field("deviation_before", pa.float64(), metadata={"unit": "ratio"}),
        pa.field("deviation_after", pa.float64(), metadata={"unit": "ratio"}),
        # null: a fact, which has no effect on balance
        pa.field("moves_before", pa.int64()),
        pa.field("moves_after", pa.int64()),
        pa.field("returned_after", pa.int64()),
        pa.field("converges_after", pa.bool_()),
    ]
)
"""One row a cluster and cause, the first to act on first."""
