"""Costs of copies of replicas as text: how many, how much, how long."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

import numpy as np

from core.pegasus.copy_time import slower
from core.pegasus.even.cost import CopyCost
from core.plan.options import CopyRate
from core.units import format_mb, pluralize

if TYPE_CHECKING:
    from dashboard.queries.pegasus.balance import BalanceBasis

ASSUMED_RATE: Final = CopyRate(500.0, "assumed; no copy measured yet", is_limit=True)
"""Where the cluster reports no limit and no copy was timed."""


def expected_rate(measured: CopyRate | None, basis: BalanceBasis) -> CopyRate:
    """Return the expected rate of copies, and its source.

    Args:
        measured: Of the latest copies of the cluster; ``None``: there are none.
        basis: Has the limit of its disks.
    """
    return slower(measured, basis.copy_rate_mb_per_s) or ASSUMED_RATE


def copied_words(copies: int, size_mb: float, unknown: int) -> str:
    """Return the number and size of copies: ``3 copies, 120 MB``."""
    size = format_mb(size_mb)
    if unknown:
        size = "unknown size" if unknown >= copies else f"{size}, {unknown:,} of unknown size"
    return f"{pluralize(copies, 'copy')}, {size}"


def time_words(
    cost: CopyCost, basis: BalanceBasis, rate: CopyRate, *, is_in_turn: bool = False
) -> str:
    """Return the duration of copies: ``3 s to 12 s``, at a limit ``3 s or longer``.

    Args:
        cost: Of the copies.
        basis: Has the disks.
        is_in_turn: A run makes them one after the other; else from all nodes at once, as the
            cluster's own balancer may, to one after the other.
    """
    if not cost.copy_count:
        return "\u2013"
    disks = min((count for count in basis.disk_counts.values() if count), default=1)
    took = cost.time(rate.mb_per_s, disks)
    words_of = took.in_turn if is_in_turn else took.describe
    return words_of(is_limit=rate.is_limit)


def total_cost(costs: Iterable[CopyCost], nodes: int) -> CopyCost:
    """Return the total costs of rounds: space freed in between is not counted."""
    known = list(costs)
    empty = np.zeros(nodes)
    return CopyCost(
        sum(one.copy_count for one in known),
        sum(one.copy_mb for one in known),
        sum(one.unknown_count for one in known),
        sum((one.received_mb for one in known), empty),
        sum((one.sent_mb for one in known), empty),
        max((one.largest_mb for one in known), default=0.0),
    )
