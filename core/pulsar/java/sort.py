"""The order that Java's sort of a list gives under a comparison that is no total order.

A comparison that rounds may find ``a`` equal to ``b`` and ``b`` equal to ``c`` while ``a`` is
smaller than ``c``. The result then follows from which elements the sort compares, so the sort has
to be Java's own, comparison by comparison.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar

T = TypeVar("T")
Compare = Callable[[T, T], float]
"""Below 0: the first is smaller; above 0: larger. Swapped arguments change the sign."""

_SHORTEST_MERGE: Final = 32
_GALLOP_FROM: Final = 7


class ContractError(ValueError):
    """Java gives up: "Comparison method violates its general contract!"."""


def java_sorted(items: Sequence[T], compare: Compare[T]) -> list[T]:
    """Return the items in the order of ``Arrays.sort`` with a comparator.

    Args:
        items: Any items.
        compare: The comparison.

    Raises:
        ContractError: The comparison contradicts itself where Java notices that.
    Source:
        OpenJDK 9 and later ``java.util.TimSort``, which ``List#sort`` and ``Stream#sorted`` use.

    Example:
        >>> java_sorted([2.5, 1.6, 0.9, 3.7], lambda a, b: int(a - b))
        [2.5, 1.6, 0.9, 3.7]
    """
    found = list(items)
    if len(found) < _SHORTEST_MERGE:
        return _extended(found, _first_run(found, compare), compare)
    merging, shortest, start = _Merging(compare), _shortest_run(len(found)), 0
    while start < len(found):
        run = _first_run(found[start:], compare)
        if len(run) < shortest:
            run = _extended(found[start : start + shortest], run, compare)
        merging.push(run)
        start += len(run)
    return merging.finish()


def _shortest_run(count: int) -> int:
    """Return the length to which short runs are extended; from 16 to 32."""
    odd = 0
    while count >= _SHORTEST_MERGE:
        odd |= count & 1
        count >>= 1
    return count + odd


def _first_run(items: list[T], compare: Compare[T]) -> list[T]:
    """Return the run that the items begin with, rising; a strictly falling one is reversed."""
    if len(items) < 2:
        return items[:]
    is_falling = compare(items[1], items[0]) < 0
    end = 2
    while end < len(items) and (compare(items[end], items[end - 1]) < 0) == is_falling:
        end += 1
    return items[:end][::-1] if is_falling else items[:end]


def _extended(items: list[T], run: list[T], compare: Compare[T]) -> list[T]:
    """Return the run with the items after it inserted by binary search, after equal ones."""
    found = run[:]
    for item in items[len(run) :]:
        low, high = 0, len(found)
        while low < high:
            middle = (low + high) // 2
            if compare(item, found[middle]) < 0:
                high = middle
            else:
                low = middle + 1
        found.insert(low, item)
    return found


def _count_leading(holds: Callable[[int], bool], count: int, *, is_mirrored: bool = False) -> int:
    """Return the length of the leading run that meets a condition, by galloping.

    Args:
        holds: The condition by position.
        count: Items.
        is_mirrored: Positions count from the end of a list: the middle is rounded the other way.
    """
    if not holds(0):
        return 0
    last, probe = 0, 1
    while probe < count and holds(probe):
        last, probe = probe, 2 * probe + 1
    low, high = last + 1, min(probe, count)
    while low < high:
        half = (high - low) // 2
        middle = high - 1 - half if is_mirrored else low + half
        if holds(middle):
            low = middle + 1
        else:
            high = middle
    return low


@dataclass(slots=True)
class _Merging(Generic[T]):
    """Runs that wait to be merged.

    Attributes:
        compare: The comparison.
        runs: In the order of the list.
        gallop_from: Wins in a row after which a merge gallops.
    """

    compare: Compare[T]
    runs: list[list[T]] = field(default_factory=list)
    gallop_from: int = _GALLOP_FROM

    def push(self, run: list[T]) -> None:
        """Add a run, and merge until the lengths fall fast enough."""
        self.runs.append(run)
        while len(self.runs) > 1:
            sizes = [len(run) for run in self.runs]
            at = len(sizes) - 2
            if (at > 0 and sizes[at - 1] <= sizes[at] + sizes[at + 1]) or (
                at > 1 and sizes[at - 2] <= sizes[at - 1] + sizes[at]
            ):
                at -= sizes[at - 1] < sizes[at + 1]
            elif sizes[at] > sizes[at + 1]:
                return
            self._merge_at(at)

    def finish(self) -> list[T]:
        """Merge what is left."""
        while len(self.runs) > 1:
            at = len(self.runs) - 2
            if at > 0 and len(self.runs[at - 1]) < len(self.runs[at + 1]):
                at -= 1
            self._merge_at(at)
        return self.runs[0]

    def _merge_at(self, at: int) -> None:
        self.runs[at : at + 2] = [self._merged(self.runs[at], self.runs[at + 1])]

    def _merged(self, left: list[T], right: list[T]) -> list[T]:
        """Merge two neighbours; what is in place already at either end stays there."""
        compare = self.compare
        head = _count_leading(lambda i: compare(right[0], left[i]) >= 0, len(left))
        if head == len(left):
            return left + right
        top, size = left[-1], len(right)
        tail = _count_leading(
            lambda i: compare(top, right[size - 1 - i]) <= 0, size, is_mirrored=True
        )
        if tail == size:
            return left + right
        first, last, end = left[head:], right[: size - tail], right[size - tail :]
        if len(first) <= len(last):
            middle = self._interleaved(first, last, is_mirrored=False)
        else:
            middle = self._interleaved(last[::-1], first[::-1], is_mirrored=True)[::-1]
        return left[:head] + middle + end

    def _interleaved(self, short: list[T], other: list[T], *, is_mirrored: bool) -> list[T]:
        """Merge the shorter run, which Java keeps aside, with the other one.

        Args:
            short: The shorter run; wins ties.
            other: Its first item is known to come before the first of ``short``, and the last of
                ``short`` to come after all of it.
            is_mirrored: Both are reversed, and so is the result.

        Raises:
            ContractError: ``short`` ran out, which ``other`` should have.
        """
        merge = _Merge(self.compare, deque(short), deque(other), is_mirrored)
        merge.take_other()
        if merge.other and len(short) > 1:
            self.gallop_from = max(1, merge.run(self.gallop_from))
        if len(merge.short) == 1:
            return [*merge.found, *merge.other, *merge.short]
        if not merge.short:
            raise ContractError
        return [*merge.found, *merge.short]


@dataclass(slots=True)
class _Merge(Generic[T]):
    """One merge in progress; see :meth:`_Merging._interleaved`."""

    compare: Compare[T]
    short: deque[T]
    other: deque[T]
    is_mirrored: bool
    found: list[T] = field(default_factory=list)

    def run(self, gallop_from: int) -> int:
        """Merge until ``other`` is used up or one of ``short`` is left; return the next start."""
        while True:
            if self._one_by_one(gallop_from):
                return gallop_from
            while True:
                wins = self._gallop()
                if wins is None:
                    return gallop_from
                gallop_from -= 1
                if wins < _GALLOP_FROM:
                    break
            gallop_from = max(gallop_from, 0) + 2

    def take_other(self) -> bool:
        """Take one of ``other``; return whether that was the last."""
        self.found.append(self.other.popleft())
        return not self.other

    def _take_short(self) -> bool:
        """Take one of ``short``; return whether the merge ends."""
        self.found.append(self.short.popleft())
        return len(self.short) == 1

    def _is_before(self, item: T, short: T) -> float:
        """Compare in the direction of the merge."""
        return self.compare(short, item) if self.is_mirrored else self.compare(item, short)

    def _one_by_one(self, gallop_from: int) -> bool:
        """Take one at a time until one side wins often enough; return whether the merge ends."""
        short_wins = other_wins = 0
        while True:
            if self._is_before(self.other[0], self.short[0]) < 0:
                short_wins, other_wins = 0, other_wins + 1
                if self.take_other():
                    return True
            else:
                short_wins, other_wins = short_wins + 1, 0
                if self._take_short():
                    return True
            if max(short_wins, other_wins) >= gallop_from:
                return False

    def _gallop(self) -> int | None:
        """Take a stretch of each side; return the longer one, or nothing if the merge ends."""
        if self.is_mirrored:
            second = self._stretch_of_other()
            if not self.other or self._take_short():
                return None
            first = self._stretch_of_short()
            if len(self.short) <= 1 or self.take_other():
                return None
        else:
            first = self._stretch_of_short()
            if len(self.short) <= 1 or self.take_other():
                return None
            second = self._stretch_of_other()
            if not self.other or self._take_short():
                return None
        return max(first, second)

    def _stretch_of_short(self) -> int:
        """Take all of ``short`` that come before the next of ``other``."""
        other, short = self.other[0], list(self.short)
        return self._take(
            self.short,
            _count_leading(
                lambda i: self._is_before(other, short[i]) >= 0,
                len(short),
                is_mirrored=self.is_mirrored,
            ),
        )

    def _stretch_of_other(self) -> int:
        """Take all of ``other`` that come before the next of ``short``."""
        short, other = self.short[0], list(self.other)
        return self._take(
            self.other,
            _count_leading(
                lambda i: self._is_before(other[i], short) < 0,
                len(other),
                is_mirrored=self.is_mirrored,
            ),
        )

    def _take(self, side: deque[T], count: int) -> int:
        """Take the first few of a side; return how many."""
        self.found.extend(itertools.islice(side, count))
        for _ in range(count):
            side.popleft()
        return count
