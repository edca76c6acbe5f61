"""The split surgeon: where to cut bundles so that a topic's partitions part, and what it costs.

A split at a position (``specified_positions_divide``) parts two partitions that a split in the
middle would leave together. It cannot be taken back, so none is spent that does not lower the
number of partitions in the fullest bundle.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from core.errors import InputError
from core.ids import range_text
from core.planning.advisors.partitions import Ints, PartitionSpread, spread_of
from core.units import pluralize


@dataclass(frozen=True)
class Cut:
    """One split at a position.

    Attributes:
        lower: Of the bundle that is cut.
        upper: Of it.
        position: Where.
        partitions_before: In it.
        partitions_left: In its lower part.
    """

    lower: int
    upper: int
    position: int
    partitions_before: int
    partitions_left: int


@dataclass(frozen=True, kw_only=True)
class SplitPlan:
    """Splits that spread a topic's partitions, and what stays.

    Attributes:
        cuts: In order; each is one split at a position.
        before: Spread now.
        after: Spread after them.
        wanted: Most partitions that a bundle shall hold.
        needed: Splits that would reach that, whatever the namespace may have.
        room: Bundles that the namespace may still get.
        twins: Partitions that share their very place with another one: no split parts them.
        verdict: One sentence.
    """

    cuts: tuple[Cut, ...]
    before: PartitionSpread
    after: PartitionSpread
    wanted: int
    needed: int
    room: int
    twins: int
    verdict: str

    @property
    def is_enough(self) -> bool:
        """Whether no bundle exceeds the requested number afterwards."""
        return self.after.worst <= self.wanted

    @property
    def positions(self) -> dict[str, tuple[int, ...]]:
        """Split position by range of each bundle: one split request each."""
        bounds = self.before.boundaries
        found: dict[str, tuple[int, ...]] = {}
        for cut in self.cuts:
            at = int(np.searchsorted(bounds, cut.position, side="right")) - 1
            name = range_text(int(bounds[at]), int(bounds[at + 1]))
            found[name] = (*found.get(name, ()), cut.position)
        return found


def plan_cuts(
    boundaries: Sequence[int] | Ints,
    hashes: Ints,
    *,
    wanted: int = 1,
    max_bundles: int = 128,
) -> SplitPlan:
    """Return the fewest splits that leave at most ``wanted`` partitions in every bundle.

    A bundle of k partitions needs ``ceil(k / wanted) - 1`` cuts, no more and no fewer; each falls
    half-way between two neighbouring hashes, so that both stay far from the edge, and its parts
    hold the same number, give or take one. Where the namespace may not have that many bundles, the
    cuts are those for the least number per bundle that can be reached.

    Args:
        boundaries: Of the namespace.
        hashes: Of the partitions.
        wanted: Most partitions of a bundle.
        max_bundles: ``loadBalancerNamespaceMaximumBundles``.
    Raises:
        InputError: ``wanted`` below 1, or boundaries that do not tile the ring.
    """
    if wanted < 1:
        raise InputError(f"{wanted} is not a valid max number of partitions per bundle.")
    before = spread_of(boundaries, hashes)
    room = max(max_bundles - (before.boundaries.size - 1), 0)
    needed = _needed(before.per_bundle, wanted)
    reached = next(
        limit
        for limit in range(wanted, max(before.worst, wanted) + 1)
        if _needed(before.per_bundle, limit) <= room
    )
    order = np.argsort(-before.per_bundle, kind="stable")
    cuts = tuple(
        cut
        for bundle in order[before.per_bundle[order] > reached].tolist()
        for cut in _cuts_of(before, bundle, reached)
    )
    bounds = np.unique(np.concatenate([before.boundaries, [cut.position for cut in cuts]]))
    after = spread_of(bounds.astype(np.int64), hashes)
    twins = int(hashes.size - np.unique(hashes).size)
    return SplitPlan(
        cuts=cuts,
        before=before,
        after=after,
        wanted=wanted,
        needed=needed,
        room=room,
        twins=twins,
        verdict=_verdict(before, after, wanted, (len(cuts), needed, room)),
    )


def _needed(per_bundle: Ints, limit: int) -> int:
    """Cuts that leave no bundle with more than ``limit``."""
    return int(np.maximum(-(-per_bundle // limit) - 1, 0).sum())


def _cuts_of(spread: PartitionSpread, bundle: int, limit: int) -> list[Cut]:
    lower, upper = (int(spread.boundaries[bundle + side]) for side in (0, 1))
    inside = np.sort(spread.hashes[spread.bundle_of == bundle])
    parts = -(-inside.size // limit)
    cuts: list[Cut] = []
    for part in range(1, parts):
        first = part * inside.size // parts
        left, right = int(inside[first - 1]), int(inside[first])
        if left == right:  # one place on the ring: no split parts them
            continue
        position = left + (right - left + 1) // 2
        start = cuts[-1].position if cuts else lower
        held = inside[inside >= start]
        parted = int(np.count_nonzero(held < position))
        cuts.append(Cut(start, upper, position, held.size, parted))
    return cuts


def _verdict(
    before: PartitionSpread, after: PartitionSpread, wanted: int, counts: tuple[int, int, int]
) -> str:
    """Return the sentence about the splits; ``counts``: made, needed, allowed."""
    cuts, needed, room = counts
    bundles = before.boundaries.size - 1
    if before.worst <= wanted:
        return (
            f"No bundle has more than {pluralize(before.worst, 'partition')}; no split is needed."
        )
    spent = f"{pluralize(cuts, 'split')} ({bundles} to {bundles + cuts} bundles)"
    if after.worst <= wanted:
        worst = pluralize(after.worst, "partition")
        return f"{spent}: max {worst} in a bundle, now {before.worst}."
    if needed <= room:
        return (
            f"{spent}: max {after.worst} partitions in a bundle; some "
            "have the same position on the ring, and no split separates them."
        )
    lacking = f"{needed} splits are needed for {wanted}, and the namespace can get {room} more"
    if cuts == 0:
        return (
            f"No split reduces the {before.worst} partitions of the fullest bundle: "
            f"{lacking} bundles. Add partitions, or raise the bundle limit."
        )
    return (
        f"{spent}: max {after.worst} partitions in a bundle, now {before.worst}: "
        f"{lacking}. More partitions make each of them smaller."
    )


@dataclass(frozen=True, kw_only=True)
class PartitionNeed:
    """Load of one partition, and the limit of its bundle.

    Attributes:
        bytes_per_s: Of one partition, in and out.
        limit_bytes_per_s: Of one bundle.
        least: Partitions that bring each below the limit.
    """

    bytes_per_s: float
    limit_bytes_per_s: float
    least: int

    @property
    def is_enough(self) -> bool:
        """Whether a bundle with one partition stays below the limit: then splits can help."""
        return self.bytes_per_s <= self.limit_bytes_per_s


def partitions_needed(
    topic_bytes_per_s: float, partitions: int, limit_bytes_per_s: float
) -> PartitionNeed:
    """Return the min partitions that keep each below the bundle limit.

    Args:
        topic_bytes_per_s: Of the whole topic, in and out.
        partitions: That it has.
        limit_bytes_per_s: ``loadBalancerNamespaceBundleMaxBandwidthMbytes``, in bytes.
    Raises:
        InputError: A negative rate, no partition, or a limit that is not above 0.
    """
    if topic_bytes_per_s < 0 or partitions < 1 or not limit_bytes_per_s > 0:
        raise InputError(
            "A rate is negative, or the number of partitions or the limit is 0.",
            hint="Specify a rate of 0 or more, at least 1 partition and a limit above 0.",
        )
    return PartitionNeed(
        bytes_per_s=topic_bytes_per_s / partitions,
        limit_bytes_per_s=limit_bytes_per_s,
        least=max(int(np.ceil(topic_bytes_per_s / limit_bytes_per_s)), 1),
    )
