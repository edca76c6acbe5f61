"""Ledgers of a whole cluster over the directories of a bookie."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from core.planning.advisors.ledger import DiskSpread, RolloverRule, spread_over_disks
from core.units import format_ratio, pluralize

Floats = NDArray[np.float64]

_MIB_BYTES: Final = 1024**2
_MAX_LEDGERS: Final = 200_000
_SEED: Final = 1


@dataclass(frozen=True, eq=False, kw_only=True)
class DiskPicture:
    """One round of ledgers over the directories of a bookie.

    Attributes:
        uneven: With ledgers as large as each topic's rate makes them by the rule.
        even: With ledgers of equal size.
        ledgers: How many.
        largest_ratio: Of the largest ledger to the mean one.
    """

    uneven: DiskSpread
    even: DiskSpread
    ledgers: int
    largest_ratio: float


def disk_picture(bundles: pa.Table, rule: RolloverRule, directories: int) -> DiskPicture | None:
    """Return the disks of the current topics' ledgers, or ``None`` if no topic is known.

    Every topic of a bundle is taken for its average; ledgers are closed by the rule, and their
    numbers are handed out in an order by chance, as topics roll over at times of their own.

    Args:
        bundles: With topics and incoming traffic.
        directories: Of a bookie.
    Raises:
        InputError: No directory.
    """
    topics = np.nan_to_num(np.array(bundles["topic_count"].cast(pa.float64()), np.float64))
    traffic = np.nan_to_num(np.array(bundles["msg_throughput_in"].cast(pa.float64()), np.float64))
    msgs = np.nan_to_num(np.array(bundles["msg_rate_in"].cast(pa.float64()), np.float64))
    rows = np.flatnonzero(topics > 0)
    if not rows.size:
        return None
    counts = topics[rows].astype(np.int64)
    sizes = np.repeat(_ledger_bytes(rule, traffic[rows] / counts, msgs[rows] / counts), counts)
    sizes = np.random.default_rng(_SEED).permutation(sizes)[:_MAX_LEDGERS]
    numbers = np.arange(sizes.size)
    mean = float(sizes.mean())
    return DiskPicture(
        uneven=spread_over_disks(numbers, sizes, directories),
        even=spread_over_disks(numbers, np.full(sizes.size, mean), directories),
        ledgers=int(sizes.size),
        largest_ratio=float(sizes.max() / mean) if mean else 1.0,
    )


def _ledger_bytes(rule: RolloverRule, bytes_per_s: Floats, entries_per_s: Floats) -> Floats:
    """Size of each topic's ledger at its end: the first bound, but not before the least age."""
    with np.errstate(divide="ignore"):
        by_size = np.where(bytes_per_s > 0, rule.max_megabytes * _MIB_BYTES / bytes_per_s, np.inf)
        by_entries = np.where(entries_per_s > 0, rule.max_entries / entries_per_s, np.inf)
    ends_s = np.minimum(np.minimum(by_size, by_entries), rule.max_minutes * 60)
    return np.asarray(np.maximum(ends_s, rule.min_minutes * 60) * bytes_per_s, np.float64)


def disks_words(found: DiskPicture, directories: int) -> str:
    """Return the evenness of the disks, one sentence."""
    return (
        f"{pluralize(found.ledgers, 'ledger')}, the largest "
        f"{found.largest_ratio:.1f} times the mean, are assigned to directory "
        f"number modulo {directories}: the fullest is "
        f"{format_ratio(found.uneven.unevenness)} above the mean, with ledgers "
        f"of equal size {format_ratio(found.even.unevenness)}."
    )
