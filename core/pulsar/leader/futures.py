"""How likely each bundle is selected in a round that is still some seconds away.

Between now and the round brokers write further reports: each adds a sample to every bundle and
replaces the statistics of its own. Futures are drawn from how often each broker reported, and by
how much its reports changed recently; the strategy decides in each of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from core.pulsar.leader.averages import LEADER, SHORT, UNKNOWN, BundleAverages
from core.pulsar.load import SHORT_SAMPLES, WEIGHED, part_left

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

CHANGES: Final = 4
"""Changes of each broker's reports that are remembered."""

_USAGES: Final = 2 * len(WEIGHED)
_WIDTH: Final = _USAGES + 4
_MAX_REPORTS: Final = 12
"""Reports of one broker that a future looks at: at the shortest interval a minute has 12."""

_KNOWN_PART: Final = 1e-6
"""Less unknown history than this changes nothing."""

_LOW_PART: Final = 0.5
_HIGH_PART: Final = 1.0
"""An unknown part of an average may be so much less, or more, than the value used for it."""


class Changes:
    """Changes of the last reports, by bundle and by broker; slots rotate per broker."""

    def __init__(self) -> None:
        self.bundles = np.zeros((CHANGES, 2, 256), np.float32)
        self._brokers: dict[int, list[Floats]] = {}
        self._turn: dict[int, int] = {}

    def note(
        self, code: int, rows: Ints, bundles: Floats, broker: Floats | None, room: int
    ) -> None:
        """Note what one report changed.

        Args:
            code: Of the broker.
            rows: Bundles that the report before named, too.
            bundles: Change of their message rate and throughput, ``(2, n)``.
            broker: Change of usage, limits and rates, ``(_WIDTH,)``; ``None`` for its first report.
            room: Rows that there may be.
        """
        if broker is None:
            return
        if self.bundles.shape[-1] < room:
            more = np.zeros((CHANGES, 2, room - self.bundles.shape[-1]), np.float32)
            self.bundles = np.concatenate([self.bundles, more], axis=-1)
        turn = self._turn.get(code, -1) + 1
        self._turn[code] = turn
        self.bundles[turn % CHANGES][:, rows] = bundles
        held = self._brokers.setdefault(code, [])
        if len(held) < CHANGES:
            held.append(broker)
        else:
            held[turn % CHANGES] = broker

    def brokers(self) -> tuple[dict[int, list[list[float]]], dict[int, int]]:
        """Return the changes by broker code, and the turn of each, for a copy."""
        return {code: [one.tolist() for one in held] for code, held in self._brokers.items()}, {
            **self._turn
        }

    def restore(
        self,
        bundles: NDArray[np.float32],
        brokers: Mapping[int, Sequence[Sequence[float]]],
        turns: Mapping[int, int],
    ) -> None:
        """Take over what :meth:`brokers` and :attr:`bundles` of another one hold."""
        self.bundles = bundles.copy()
        self._brokers = {code: [np.array(one) for one in held] for code, held in brokers.items()}
        self._turn = dict(turns)

    def of_brokers(self, codes: Ints) -> tuple[Floats, Ints]:
        """Return changes ``(n, CHANGES, width)`` and how many of them each broker has."""
        found = np.zeros((codes.size, CHANGES, _WIDTH))
        counts = np.zeros(codes.size, np.int64)
        for at, code in enumerate(codes.tolist()):
            held = self._brokers.get(code, ())
            counts[at] = len(held)
            if held:
                found[at, : len(held)] = held
        return found, counts


@dataclass(frozen=True, kw_only=True)
class Present:
    """Current state; arrays of bundles are in the order of the view.

    Attributes:
        now_s: Seconds since the epoch.
        at_s: Start of the round.
        writes: Samples that the leader takes by writing its averages in between.
        last_s: Last report of each broker.
        gaps: Seconds between its last reports, ``(n_brokers, 7)``; NaN: fewer are known.
        shortest_s: Shortest interval between two reports.
        rows: Row of each bundle in the averages.
        reporter: Broker row of each bundle.
        owner: Broker row by ownership.
        usages: Usage and limits, ``(n_brokers, 2 * resources)``.
        rates: Totals, ``(n_brokers, 4)``.
    """

    now_s: float
    at_s: float
    writes: int
    last_s: Floats
    gaps: Floats
    shortest_s: float
    rows: Ints
    reporter: Ints
    owner: Ints
    usages: Floats
    rates: Floats
    codes: Ints


Decide = Callable[[Mapping[str, Any], Floats, Floats], Sequence[tuple[str, str]]]
"""Selected ``(bundle, broker)`` for columns of the view, usages and rates of brokers."""


def draw_shares(
    present: Present,
    averages: BundleAverages,
    changes: Changes,
    decide: Decide,
    draws: int,
) -> dict[tuple[str, str], float]:
    """Return ``{(bundle, broker): part of the futures that select it}``.

    Args:
        present: What is known now.
        averages: Up to date.
        changes: What the last reports changed.
        decide: The strategy.
        draws: Futures.
    """
    # the same question gets the same answer: pages and commands read it twice
    rng = np.random.default_rng([int(present.at_s), int(present.now_s * 1000), draws])
    futures = _Futures(present, averages, changes)
    found: dict[tuple[str, str], int] = {}
    for _ in range(draws):
        for one in decide(*futures.draw(rng)):
            found[one] = found.get(one, 0) + 1
    return {one: count / draws for one, count in found.items()}


class _Futures:
    def __init__(self, present: Present, averages: BundleAverages, changes: Changes) -> None:
        self.present = present
        rows = present.rows
        self._held = averages.samples[LEADER, SHORT, rows].astype(np.int64)
        both = averages.values[LEADER, SHORT][:, rows]
        self._average = np.stack([both[0] + both[1], both[2] + both[3]])
        self._unknown = both[UNKNOWN].copy()  # a view would hold all of it
        self._is_unknown = bool((self._unknown > _KNOWN_PART).any())
        self._is_full = bool((self._held == SHORT_SAMPLES).all())
        stats = averages.stats[:, rows]
        self._last = np.stack([stats[0] + stats[1], stats[2] + stats[3]])
        self._flows = stats
        width = changes.bundles.shape[-1]
        self._changes, self._rows = changes.bundles, np.minimum(rows, width - 1)
        self._is_past = rows >= width  # of these no report changed anything yet
        self._of_brokers, self._counts = changes.of_brokers(present.codes)

    def _reports(self, rng: np.random.Generator) -> tuple[Ints, Floats, int]:
        """Return reports of each broker until the round, the time of its first, and of how many."""
        now = self.present
        count = now.last_s.size
        age = now.now_s - now.last_s
        gaps = now.gaps
        with np.errstate(invalid="ignore"):
            fits = gaps > age[:, None]
        pick = np.where(fits, rng.random(gaps.shape), -1.0).argmax(axis=1)
        first = gaps[np.arange(count), pick]
        soon = age + rng.random(count) * now.shortest_s
        at = now.last_s + np.where(fits.any(axis=1), first, soon)
        first_s = at.copy()
        reports = np.zeros(count, np.int64)
        known = np.isfinite(gaps)
        for _ in range(_MAX_REPORTS):
            is_in = at < now.at_s
            if not is_in.any():
                break
            reports += is_in
            pick = np.where(known, rng.random(gaps.shape), -1.0).argmax(axis=1)
            gap = gaps[np.arange(count), pick]
            at = np.where(is_in, at + np.where(np.isfinite(gap), gap, now.shortest_s), np.inf)
        return reports, first_s, int(reports.sum())

    def draw(self, rng: np.random.Generator) -> tuple[Mapping[str, Any], Floats, Floats]:
        """Return columns of the view, usages and rates of brokers in one future."""
        now = self.present
        reports, first_s, total = self._reports(rng)
        writes = np.append(reports > 0, np.False_)
        slots = rng.integers(0, np.maximum(self._counts, 1))
        reporter = now.reporter
        moves = (now.owner >= 0) & (now.owner != reporter)
        gone = moves & (reporter >= 0) & writes[reporter]
        came = moves & writes[now.owner]
        reporter = np.where(came, now.owner, np.where(gone, -1, reporter))
        writing = writes[now.reporter] & (now.reporter >= 0)
        slot = np.append(slots, 0)[now.reporter]
        change = self._changes[slot, :, self._rows].T
        change[:, self._is_past] = 0.0
        times = np.append(np.sqrt(np.maximum(reports, 1)), 1.0)[now.reporter]
        later = np.where(writing, np.maximum(self._last + change * times, 0.0), self._last)
        early = self._reports_before(first_s, reports, total)
        early = np.append(early, total)[np.where(writing, now.reporter, -1)]
        average = self._sampled(self._average, self._held, self._last, early)
        held = self._held if self._is_full else np.minimum(self._held + early, SHORT_SAMPLES)
        average = self._sampled(average, held, later, total - early + now.writes)
        if self._is_unknown:
            doubt = rng.uniform(-_LOW_PART, _HIGH_PART, self._unknown.size)
            average *= 1.0 + self._unknown * doubt
        brokers = self._of_brokers[np.arange(slots.size), slots] * (reports > 0)[:, None]
        rates = np.maximum(now.rates + brokers[:, _USAGES:], 0.0) + self._handed(came, gone, writes)
        columns = {
            "reporter": reporter.astype(np.int32),
            "is_measured": reporter >= 0,
            "bundle_short_rate": average[0],
            "bundle_short_throughput": average[1],
        }
        return columns, np.maximum(now.usages + brokers[:, :_USAGES], 0.0), np.maximum(rates, 0.0)

    def _handed(self, came: Any, gone: Any, writes: Any) -> Floats:
        """Return the contribution of moved bundles to the totals of reporting brokers."""
        now = self.present
        count = now.rates.shape[0]
        added = np.zeros((count, 4))
        for at, flow in enumerate(self._flows):
            added[:, at] += np.bincount(now.owner[came], weights=flow[came], minlength=count)
            left = gone & writes[now.reporter]
            added[:, at] -= np.bincount(now.reporter[left], weights=flow[left], minlength=count)
        return added

    @staticmethod
    def _reports_before(first_s: Floats, reports: Ints, total: int) -> Ints:
        """Return the number of reports before the first one of each broker."""
        if not total:
            return np.zeros(first_s.size, np.int64)
        order = np.argsort(first_s, kind="stable")
        before = np.cumsum(reports[order]) - reports[order]
        found = np.empty_like(before)
        found[order] = before
        return found

    def _sampled(self, average: Floats, held: Ints, last: Floats, more: Ints) -> Floats:
        """Return averages after more samples of the same statistics."""
        if self._is_full:  # powers of one base are looked up
            powers = (1.0 - 1.0 / SHORT_SAMPLES) ** np.arange(int(more.max(initial=0)) + 1)
            left = powers[more]
        else:
            left = part_left(held, more, SHORT_SAMPLES)
        found = average - last
        found *= left
        found += last
        return found
