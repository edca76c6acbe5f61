"""The tables that :mod:`core.history.analysis.accuracy.accuracy` answers with."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

_NAMES: Final = pa.list_(pa.string())

ROUNDS: Final = pa.schema(
    [
        pa.field("taken_at", pa.int64(), nullable=False, metadata={"unit": "ms"}),
        pa.field("until", pa.int64(), nullable=False, metadata={"unit": "ms"}),  # inclusive
        pa.field("strategy", pa.string(), nullable=False),
        pa.field("verdict", pa.string(), nullable=False),
        pa.field("why", pa.string(), nullable=False),  # not judged: why; else empty
        pa.field("predicted", _NAMES, nullable=False),  # bundles
        pa.field("moved", _NAMES, nullable=False),  # bundles
        pa.field("both", pa.int64(), nullable=False),
        pa.field("early", pa.int64(), nullable=False),  # of moved: predicted a round or two before
        pa.field("brokers_predicted", _NAMES, nullable=False),
        pa.field("brokers_moved", _NAMES, nullable=False),
        pa.field("same_brokers", pa.bool_()),  # null: one of the two did nothing
        pa.field("sentence", pa.string(), nullable=False),  # the shadow's own
    ]
)
"""One row a round of the shadow, oldest first."""

LANDINGS: Final = pa.schema(
    [
        pa.field("taken_at", pa.int64(), nullable=False, metadata={"unit": "ms"}),  # the round
        pa.field("seen_at", pa.int64(), nullable=False, metadata={"unit": "ms"}),
        pa.field("bundle", pa.string(), nullable=False),
        pa.field("broker", pa.string()),
        pa.field("landed", pa.string()),
        pa.field("predicted_destination", pa.string()),
        pa.field("probability", pa.float64(), metadata={"unit": "ratio"}),  # of where it landed
        pa.field("expected", pa.float64(), metadata={"unit": "ratio"}),  # mean of it, if p is right
    ]
)
"""One row a move that was predicted and made: where it landed, how likely that was said to be."""
