"""Row-wise reductions of masks: rows are namespaces, columns brokers."""

from __future__ import annotations

import numpy as np

from core.pulsar.bundle_counts import Codes, Ints
from core.pulsar.view import Flags, Floats


def any_in_row(mask: Flags) -> Flags:
    """Return per row whether anything is set; ``(n_rows,)``."""
    return np.asarray(mask.any(axis=1), np.bool_)


def least_in_row(counts: Ints | Codes, mask: Flags) -> Ints:
    """Return the smallest masked count of each row as a column; the largest number for none."""
    largest = np.iinfo(counts.dtype).max
    least = np.where(mask, counts, largest).min(axis=1, initial=largest)
    return np.asarray(least, np.int64)[:, None]


def uniform(picks: Flags) -> Floats:
    """Return equal probabilities over the picks of each row; zeros for a row without any."""
    count = np.maximum(picks.sum(axis=1, keepdims=True), 1)
    return np.asarray(picks / count, np.float64)
