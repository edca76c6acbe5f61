"""How long copies of replicas take at the allowed rate: the one estimate of plans and pages."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from core.plan.options import CopyRate
from core.units import format_age

LIMIT: Final = "limit per disk"
UNMEASURED: Final = f"{LIMIT}; no copy measured yet"
"""Bases of a rate."""


def slower(measured: CopyRate | None, limit_mb_per_s: float | None) -> CopyRate | None:
    """Return the rate that copies are expected to have; ``None`` if nothing is known of it.

    Args:
        measured: Of the latest copies of the cluster.
        limit_mb_per_s: What one disk may receive; ``None`` if no limit, or unknown.
    """
    if limit_mb_per_s and (measured is None or limit_mb_per_s < measured.mb_per_s):
        basis = UNMEASURED if measured is None else LIMIT
        return CopyRate(limit_mb_per_s, basis, is_limit=measured is None)
    return measured


class CopyTime(NamedTuple):
    """The bounds of an estimate, seconds.

    Attributes:
        shortest_s: All nodes and all of their disks copy at once; one replica is on one disk.
        longest_s: One copy after the other.
    """

    shortest_s: float
    longest_s: float

    def describe(self, *, is_limit: bool = False) -> str:
        """Return ``14 s to 42 s``, or ``about 42 s`` where the bounds do not differ.

        Args:
            is_limit: The rate is a limit: only the lower bound holds, ``14 s or longer``.
        """
        shortest, longest = (format_age(max(one, 1.0)) for one in self)
        if is_limit:
            return f"{shortest} or longer"
        return f"about {longest}" if shortest == longest else f"{shortest} to {longest}"

    def in_turn(self, *, is_limit: bool = False) -> str:
        """Return ``about 42 s``: a run makes one copy after the other.

        Args:
            is_limit: As of :meth:`describe`.
        """
        longest = format_age(max(self.longest_s, 1.0))
        return f"{longest} or longer" if is_limit else f"about {longest}"


def copy_time(
    total_mb: float,
    *,
    node_mb: Iterable[float],
    largest_mb: float,
    rate_mb_per_s: float,
    disks: int,
) -> CopyTime:
    """Return the duration of copies.

    Args:
        total_mb: Of all copies.
        node_mb: By node: what it receives, and what it sends.
        largest_mb: Of the largest single copy.
        rate_mb_per_s: What one disk may receive, and may send; above 0.
        disks: Of the node that has the fewest; 0: unknown, taken for 1.
    """
    busiest_mb = max(node_mb, default=0.0)
    shortest_s = max(busiest_mb / max(disks, 1), largest_mb) / rate_mb_per_s
    longest_s = total_mb / rate_mb_per_s
    return CopyTime(min(shortest_s, longest_s), longest_s)
